//! The other end of all flows: takes what comes, answers requests, and counts.
//!
//! Each connection has a thread; datagrams are counted by where they come from. What a stranger
//! may make it hold is bounded: the connections at a time and the flows in the result; what goes
//! beyond is counted.
//!
//! Left out: what datagrams say. They are not numbered, so one that is lost, doubled or late
//! shows only in the sums.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use longhaul_core::Span;
use longhaul_linux::{socket, wait_readable};
use serde::Serialize;

use super::stream::{HEADER, parse_header, read_some, write_some};
use super::{CHUNK, Flow, Origin, Stop, TICK};

/// Connections at a time: each has a thread.
const CONNECTIONS_MAX: usize = 4_096;
/// Flows that a result names.
const FLOWS_MAX: usize = 100_000;
/// The most datagrams received before connections and the stop request are checked again.
const BATCH: usize = 256;
/// Receive buffer asked for: datagrams that come while the sink does not run.
const RECEIVE_BUFFER: u32 = 32 << 20;

/// A sink, bound.
#[derive(Debug)]
pub struct Sink {
    tcp: Option<TcpListener>,
    udp: Option<UdpSocket>,
    origin: Origin,
}

/// What a sink has received.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Each connection, and each sender of datagrams, in the order in which they began.
    pub flows: Vec<Flow>,
    /// Connections refused because there were too many at a time, and flows beyond those named.
    pub unlisted: u64,
}

#[derive(Default)]
struct FlowList {
    flows: Vec<Flow>,
    unlisted: u64,
    open: usize,
    /// When something arrived last.
    last: Span,
}

impl FlowList {
    fn add(&mut self, flow: Flow) {
        if self.flows.len() < FLOWS_MAX {
            self.flows.push(flow)
        } else {
            self.unlisted += 1
        }
    }
}

struct SinkState<'a> {
    list: Mutex<FlowList>,
    origin: Origin,
    stop: &'a Stop,
}

impl SinkState<'_> {
    fn list(&self) -> MutexGuard<'_, FlowList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    /// Binds to the ports that are given, of IPv6 and IPv4; port 0 is any free one.
    ///
    /// # Errors
    /// Where a port is taken.
    pub fn bind(tcp: Option<u16>, udp: Option<u16>) -> io::Result<Self> {
        let any = |port: u16| {
            [
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            ]
        };
        let named = |kind: &str, port: u16, error: io::Error| {
            io::Error::new(error.kind(), format!("{kind} port {port}: {error}"))
        };
        let listener = |port: u16| {
            let listener = TcpListener::bind(any(port).as_slice())?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let receiver = |port: u16| {
            let receiver = UdpSocket::bind(any(port).as_slice())?;
            receiver.set_nonblocking(true)?;
            socket::set_receive_buffer(&receiver, RECEIVE_BUFFER)?;
            Ok(receiver)
        };
        let tcp = tcp.map(|port| listener(port).map_err(|error| named("TCP", port, error)));
        let udp = udp.map(|port| receiver(port).map_err(|error| named("UDP", port, error)));
        Ok(Self {
            tcp: tcp.transpose()?,
            udp: udp.transpose()?,
            origin: Origin::now(),
        })
    }

    /// The ports that it is bound to, TCP and UDP.
    pub fn ports(&self) -> (Option<u16>, Option<u16>) {
        let tcp = self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let udp = self.udp.as_ref().and_then(|udp| udp.local_addr().ok());
        (tcp.map(|end| end.port()), udp.map(|end| end.port()))
    }

    /// Takes what comes until it is asked to stop, or until nothing has come for `idle` after
    /// something has.
    ///
    /// # Errors
    /// Where waiting or accepting fails; a connection's own errors are its flow's `problem`.
    pub fn serve(&self, idle: Option<Span>, stop: &Stop) -> io::Result<Report> {
        let state = SinkState {
            list: Mutex::new(FlowList::default()),
            origin: self.origin,
            stop,
        };
        let mut senders = Senders::default();
        let mut buffer = vec![0; 1 << 16];
        std::thread::scope(|scope| {
            let served = self.rounds(&state, &mut senders, &mut buffer, idle, scope);
            if served.is_err() {
                stop.set();
            }
            served
        })?;
        // Count the datagrams that had arrived when it was asked to stop.
        if let Some(udp) = &self.udp {
            senders.receive(udp, &state, &mut buffer)?;
        }
        let mut list = state
            .list
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        senders.close(&mut list);
        list.flows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        Ok(Report {
            flows: list.flows,
            unlisted: list.unlisted,
        })
    }

    fn rounds<'scope>(
        &self,
        state: &'scope SinkState<'_>,
        senders: &mut Senders,
        buffer: &mut [u8],
        idle: Option<Span>,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<()> {
        let tcp = self.tcp.as_ref().map(AsFd::as_fd);
        let udp = self.udp.as_ref().map(AsFd::as_fd);
        let ends: Vec<BorrowedFd<'_>> = tcp.into_iter().chain(udp).collect();
        while !state.stop.is_set() {
            wait_readable(&ends, Some(TICK))?;
            if let Some(tcp) = &self.tcp {
                while let Some(stream) = accepted(tcp)? {
                    take(stream, state, scope)?;
                }
            }
            if let Some(udp) = &self.udp {
                senders.receive(udp, state, buffer)?;
            }
            let list = state.list();
            let is_used = !list.flows.is_empty() || senders.any();
            let quiet = self.origin.elapsed().saturating_sub(list.last);
            if is_used && list.open == 0 && idle.is_some_and(|idle| quiet >= idle) {
                break;
            }
        }
        Ok(())
    }
}

fn accepted(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        // The other side has closed the connection before it was accepted.
        Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives a connection to a thread of its own, or closes it where there are too many.
fn take<'scope>(
    stream: TcpStream,
    state: &'scope SinkState<'_>,
    scope: &'scope Scope<'scope, '_>,
) -> io::Result<()> {
    let mut list = state.list();
    if list.open >= CONNECTIONS_MAX {
        list.unlisted += 1;
        return Ok(());
    }
    list.open += 1;
    list.last = state.origin.elapsed();
    drop(list);
    std::thread::Builder::new().spawn_scoped(scope, move || {
        let flow = connection(&stream, state);
        let mut list = state.list();
        list.open -= 1;
        list.last = state.origin.elapsed();
        if let Ok(flow) = flow {
            list.add(flow);
        }
    })?;
    Ok(())
}

/// Serves a connection to its end.
fn connection(stream: &TcpStream, state: &SinkState<'_>) -> io::Result<Flow> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(TICK))?;
    let ends = [stream.peer_addr()?, stream.local_addr()?];
    let name = format!("tcp {}", ends[0].port());
    let mut flow = Flow::new(name, "tcp", ends, state.origin.elapsed_s());
    match drain(stream, &mut flow.bytes, state) {
        Ok(end_s) => flow.end(end_s, None),
        Err(error) => flow.end(state.origin.elapsed_s(), Some(error.to_string())),
    }
    Ok(flow)
}

/// Reads a connection to its end, answering if it begins with a request; when it ended.
fn drain(stream: &TcpStream, bytes: &mut u64, state: &SinkState<'_>) -> io::Result<f64> {
    let stop = state.stop;
    let mut buffer = vec![0; CHUNK];
    let mut answered_s = None;
    loop {
        // A request's first bytes, or what there is of them.
        let mut head = 0;
        while head < HEADER {
            match read_some(stream, &mut buffer[head..HEADER], stop) {
                // Between two requests a connection may end, or be ended.
                Ok(0) => {
                    *bytes += head as u64;
                    return Ok(answered_s.unwrap_or_else(|| state.origin.elapsed_s()));
                }
                Ok(length) => head += length,
                Err(error) => match answered_s {
                    Some(answered_s) if head == 0 => return Ok(answered_s),
                    _ => return Err(error),
                },
            }
        }
        *bytes += HEADER as u64;
        let header: &[u8; HEADER] = buffer[..HEADER].try_into().expect("its size");
        let Some((size, response)) = parse_header(header) else {
            drain_rest(stream, &mut buffer, bytes, stop)?;
            return Ok(state.origin.elapsed_s());
        };
        let mut left = size - HEADER as u64;
        while left > 0 {
            let part = left.min(CHUNK as u64) as usize;
            let length = read_some(stream, &mut buffer[..part], stop)?;
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            left -= length as u64;
            *bytes += length as u64;
        }
        buffer.fill(0);
        let mut left = response;
        while left > 0 {
            let part = left.min(CHUNK as u64) as usize;
            left -= write_some(stream, &buffer[..part], stop)? as u64;
        }
        answered_s = Some(state.origin.elapsed_s());
    }
}

fn drain_rest(
    stream: &TcpStream,
    buffer: &mut [u8],
    bytes: &mut u64,
    stop: &Stop,
) -> io::Result<()> {
    loop {
        match read_some(stream, buffer, stop)? {
            0 => return Ok(()),
            length => *bytes += length as u64,
        }
    }
}

/// Who has sent datagrams.
#[derive(Default)]
struct Senders {
    flows: BTreeMap<SocketAddr, (Flow, f64)>,
    /// Of senders beyond those that are named.
    unlisted: u64,
}

impl Senders {
    fn any(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Counts what waits, up to a bound.
    fn receive(
        &mut self,
        udp: &UdpSocket,
        state: &SinkState<'_>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let to = udp.local_addr()?;
        let mut now = None;
        for _ in 0..BATCH {
            let (length, from) = match udp.recv_from(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let now = *now.get_or_insert_with(|| state.origin.elapsed());
            if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&from) {
                self.unlisted += 1;
                continue;
            }
            let (flow, last_s) = self.flows.entry(from).or_insert_with(|| {
                let name = format!("udp {}", from.port());
                (Flow::new(name, "udp", [from, to], now.as_s()), 0.0)
            });
            flow.bytes += length as u64;
            *flow.packets.get_or_insert(0) += 1;
            *last_s = now.as_s();
        }
        if let Some(now) = now {
            state.list().last = now;
        }
        Ok(())
    }

    fn close(self, list: &mut FlowList) {
        for (mut flow, last_s) in self.flows.into_values() {
            flow.end(last_s, None);
            list.add(flow);
        }
        list.unlisted += self.unlisted;
    }
}

#[cfg(test)]
mod tests;
