//! `tcp-send` and `tcp-recv`: bulk transfer, with the kernel's `TCP_INFO`.
//!
//! A transfer ends when the receiver has read everything and closed: the sender's seconds
//! cover delivery, not only the filling of its buffer.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counters::{self, Counters};
use crate::net::{self, Listen};
use crate::pace;
use crate::spacing::{Spacing, StampedReader};
use crate::tcp_info::{ReceiverInfo, SenderInfo, TcpInfo};

/// Bytes a write or read call.
const CHUNK: usize = 256 << 10;
/// Longest name of a congestion control, with its final zero.
const CA_NAME_MAX: usize = 16;

/// Send bulk data over one TCP connection.
#[derive(clap::Args)]
pub(crate) struct SendOptions {
    /// Where to: an address or a name, like `10.0.0.2:5001`, `[fd00::2]:5001`, `b0:5001`.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Bytes in all; this or --seconds.
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "seconds",
        conflicts_with = "seconds"
    )]
    bytes: Option<u64>,
    /// Seconds to write for; then all must arrive.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    seconds: Option<Duration>,
    /// Congestion control, like `cubic`. Default: the route's or the system's.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
}

/// Receive bulk data over TCP.
///
/// Without --once, --connections or --seconds it runs until it is killed and prints nothing.
#[derive(clap::Args)]
pub(crate) struct RecvOptions {
    #[command(flatten)]
    listen: Listen,
    /// End after one connection.
    #[arg(long, conflicts_with = "connections")]
    once: bool,
    /// End after this many connections, served at the same time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    connections: Option<u16>,
    /// End this many seconds after the start; connections still open are cut.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    seconds: Option<Duration>,
    /// Note how far apart segments reach the kernel; reads are shorter then.
    #[arg(long)]
    spacing: bool,
}

/// What was sent.
#[derive(Serialize)]
pub(crate) struct SendReport {
    bytes: u64,
    /// From before the first write until the receiver had closed.
    seconds: f64,
    /// Payload bits a second.
    bps: f64,
    /// The congestion control in use.
    congestion: String,
    #[serde(flatten)]
    info: SenderInfo,
}

/// What was received over all connections.
#[derive(Serialize)]
pub(crate) struct RecvReport {
    bytes: u64,
    /// From the first byte to the last, over all connections.
    seconds: f64,
    /// Payload bits a second.
    bps: f64,
    /// Segments that arrived out of order, over all connections.
    rcv_ooopack: u64,
    connections: Vec<Connection>,
    /// Growth of this namespace's counters since the start.
    counters: Counters,
}

/// What was received over one connection.
#[derive(Serialize)]
pub(crate) struct Connection {
    peer: SocketAddr,
    bytes: u64,
    seconds: f64,
    bps: f64,
    #[serde(flatten)]
    info: ReceiverInfo,
    /// With `--spacing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    spacing: Option<Spacing>,
    /// Why it ended, if not in good order.
    error: Option<String>,
    #[serde(skip)]
    span: Option<(Instant, Instant)>,
}

/// Runs `tcp-send`.
pub(crate) fn send(options: &SendOptions) -> io::Result<SendReport> {
    let mut stream = connect(&options.to, options.congestion.as_deref())?;
    let congestion = congestion(&stream)?;
    if let Some(wanted) = options
        .congestion
        .as_ref()
        .filter(|name| **name != congestion)
    {
        // A route's `congctl` wins over the socket option, silently.
        let problem = format!("asked for {wanted}, but the route pins {congestion}");
        return Err(io::Error::other(problem));
    }
    let chunk = vec![0x5a; CHUNK];
    let start = Instant::now();
    let mut bytes = 0;
    let limit = options.bytes.unwrap_or(u64::MAX);
    while bytes < limit && options.seconds.is_none_or(|span| start.elapsed() < span) {
        let wanted = (limit - bytes).min(CHUNK as u64) as usize;
        bytes += stream.write(&chunk[..wanted])? as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    // The receiver closes when it has read everything; what it sends until then is ignored.
    io::copy(&mut stream, &mut io::sink())?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(SendReport {
        bytes,
        seconds,
        bps: bits_per_second(bytes, seconds),
        congestion,
        info: TcpInfo::read(&stream)?.sender(),
    })
}

/// Connects, with the congestion control set before: one set later would inherit what the
/// first has switched on, such as BBR's pacing.
fn connect(target: &str, congestion: Option<&str>) -> io::Result<TcpStream> {
    let mut last = io::Error::other(format!("{target}: no address"));
    for address in net::resolve(target)? {
        match connect_to(address, congestion) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = io::Error::new(error.kind(), format!("{target}: {error}")),
        }
    }
    Err(last)
}

fn connect_to(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let socket = net::open(family, libc::SOCK_STREAM, 0)?;
    if let Some(name) = congestion {
        net::set_bytes(
            &socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_bytes(),
        )
        .map_err(|error| {
            io::Error::new(error.kind(), format!("congestion control {name}: {error}"))
        })?;
    }
    connect_socket(&socket, address)?;
    Ok(TcpStream::from(socket))
}

fn connect_socket(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let result = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: an all-zero sockaddr_in is valid.
            let mut name: libc::sockaddr_in = unsafe { mem::zeroed() };
            name.sin_family = libc::AF_INET as libc::sa_family_t;
            name.sin_port = v4.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            let length = mem::size_of_val(&name) as libc::socklen_t;
            // SAFETY: the pointer and the length describe `name`, which outlives the call.
            unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), length) }
        }
        SocketAddr::V6(v6) => {
            // SAFETY: an all-zero sockaddr_in6 is valid.
            let mut name: libc::sockaddr_in6 = unsafe { mem::zeroed() };
            name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            name.sin6_port = v6.port().to_be();
            name.sin6_addr.s6_addr = v6.ip().octets();
            name.sin6_scope_id = v6.scope_id();
            let length = mem::size_of_val(&name) as libc::socklen_t;
            // SAFETY: the pointer and the length describe `name`, which outlives the call.
            unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), length) }
        }
    };
    net::check(result)
}

/// The congestion control that a connection uses.
fn congestion(stream: &TcpStream) -> io::Result<String> {
    let mut buffer = [0; CA_NAME_MAX];
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    let bytes = net::get_bytes(stream, level, name, &mut buffer)?;
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Runs `tcp-recv`.
pub(crate) fn receive(options: &RecvOptions) -> io::Result<RecvReport> {
    let listener = options.listen.tcp()?;
    net::set_accept_timeout(&listener, net::TICK)?;
    let before = counters::read();
    let start = Instant::now();
    net::announce(listener.local_addr())?;
    let until = options.seconds.map(|span| start + span);
    let limit = if options.once {
        Some(1)
    } else {
        options.connections.map(usize::from)
    };
    let connections = serve(&listener, limit, until, options.spacing)?;

    let bytes = connections.iter().map(|one| one.bytes).sum();
    let spans = || connections.iter().filter_map(|one| one.span);
    let first = spans().map(|(first, _)| first).min();
    let last = spans().map(|(_, last)| last).max();
    let seconds = first
        .zip(last)
        .map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    let ooopack = |one: &Connection| u64::from(one.info.rcv_ooopack.unwrap_or(0));
    Ok(RecvReport {
        bytes,
        seconds,
        bps: bits_per_second(bytes, seconds),
        rcv_ooopack: connections.iter().map(ooopack).sum(),
        connections,
        counters: counters::since(&before),
    })
}

/// Serves connections, a thread each, until there were `limit` or until `until`.
fn serve(
    listener: &TcpListener,
    limit: Option<usize>,
    until: Option<Instant>,
    spacing: bool,
) -> io::Result<Vec<Connection>> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let open = |count: usize| {
            limit.is_none_or(|limit| count < limit)
                && until.is_none_or(|until| Instant::now() < until)
        };
        while open(threads.len()) {
            match listener.accept() {
                Ok((stream, peer)) => {
                    // A dual-stack socket reports IPv4 peers as IPv4-mapped IPv6 addresses.
                    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    threads.push(scope.spawn(move || drain(stream, peer, until, spacing)));
                }
                Err(error) if net::passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| io::Error::other("a receiving thread panicked"))?
            })
            .collect()
    })
}

/// Reads a connection to its end.
fn drain(
    mut stream: TcpStream,
    peer: SocketAddr,
    until: Option<Instant>,
    spacing: bool,
) -> io::Result<Connection> {
    stream.set_read_timeout(until.map(|_| net::TICK))?;
    let mut stamped = if spacing {
        let mss = TcpInfo::read(&stream)?.sender().mss.unwrap_or(1);
        Some(StampedReader::new(&stream, mss)?)
    } else {
        None
    };
    let mut buffer = vec![0; CHUNK];
    let mut bytes = 0;
    let mut span = None;
    let mut error = None;
    loop {
        if until.is_some_and(|until| Instant::now() >= until) {
            error = Some("cut at --seconds".to_owned());
            break;
        }
        let read = match &mut stamped {
            Some(reader) => reader.read(&stream),
            None => stream.read(&mut buffer),
        };
        match read {
            Ok(0) => break,
            Ok(length) => {
                bytes += length as u64;
                let now = Instant::now();
                span.get_or_insert((now, now)).1 = now;
            }
            Err(e) if net::passing(&e) => {}
            Err(e) => {
                error = Some(e.to_string());
                break;
            }
        }
    }
    let info = TcpInfo::read(&stream)?.receiver();
    let seconds = span.map_or(0.0, |(first, last): (Instant, Instant)| {
        (last - first).as_secs_f64()
    });
    Ok(Connection {
        peer,
        bytes,
        seconds,
        bps: bits_per_second(bytes, seconds),
        info,
        spacing: stamped.map(StampedReader::finish),
        error,
        span,
    })
}

/// Zero where there was no time.
fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_knows_its_congestion_control() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap().to_string();
        // Reno is in every kernel and free to use.
        let stream = connect(&target, Some("reno")).unwrap();
        assert_eq!(congestion(&stream).unwrap(), "reno");
        let error = connect(&target, Some("nosuch")).unwrap_err().to_string();
        assert!(error.contains("nosuch"), "{error}");
    }
}
