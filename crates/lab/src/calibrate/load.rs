//! The programs that calibration runs on its hosts: senders and sinks, as small as they can be.
//!
//! They are ordinary programs of the run, not of the emulator: what they find out is printed by
//! the command line as JSON and read back from their logs. A UDP sender keeps its rate without
//! spinning: it sends what has become due and sleeps until more is, so that on a machine with two
//! CPUs the sink beside it gets its share. A sink drains its socket in turns for the same reason;
//! what overflows there is the sink's own loss and no concern of the emulation.
//!
//! Left out: anything that measures delays. The core knows the lateness of each packet.
#![allow(
    clippy::disallowed_methods,
    reason = "these are ordinary programs inside virtual hosts: sleeping is their job"
)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::cpu;
use serde::{Deserialize, Serialize};

/// Datagrams between two readings of the clock.
const BETWEEN_CLOCK_READS: u64 = 32;
/// How long a sink lets datagrams wait: few enough for a socket's buffer at most rates.
const NAP: Duration = Duration::from_micros(500);
/// How long a UDP sender waits after its last datagram: longer than the core's ring is full of.
const LINGER: Duration = Duration::from_millis(100);
/// What a TCP program hands to the kernel at a time.
const CHUNK: usize = 256 << 10;

/// What a UDP sender sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub packets: u64,
    /// Datagrams that it refused.
    pub refused: u64,
    /// From the first to the last.
    pub seconds: f64,
}

/// What a TCP sink received.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Payload bytes.
    pub bytes: u64,
    /// From the beginning of the connection to its end.
    pub seconds: f64,
}

fn seconds_since(start_ns: u64) -> f64 {
    (monotonic_ns() - start_ns) as f64 / 1e9
}

/// The IPv4 address of `to`, which is `HOST:PORT`.
fn resolve(to: &str) -> io::Result<SocketAddr> {
    let address = to.to_socket_addrs()?.find(SocketAddr::is_ipv4);
    address.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("{to} has no IPv4 address")))
}

/// Sends datagrams of `size` bytes to `to` for `seconds`: `per_second` of them evenly, or as many
/// as go.
pub fn send_udp(to: &str, size: usize, per_second: Option<u64>, seconds: f64) -> io::Result<Sent> {
    cpu::without_timer_slack();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(resolve(to)?)?;
    let payload = vec![0; size];
    let (start_ns, end_ns) = (monotonic_ns(), (seconds * 1e9) as u64);
    let (mut packets, mut refused) = (0, 0);
    loop {
        let now_ns = monotonic_ns() - start_ns;
        if now_ns >= end_ns {
            break;
        }
        let attempts = packets + refused;
        let due = per_second.map_or(u64::MAX, |rate| due_by(now_ns, rate));
        for _ in 0..due.saturating_sub(attempts).min(BETWEEN_CLOCK_READS) {
            match socket.send(&payload) {
                Ok(_) => packets += 1,
                Err(_) => refused += 1,
            }
        }
        if let Some(rate) = per_second.filter(|_| packets + refused >= due) {
            let next_ns = due_at(packets + refused, rate).min(end_ns);
            let now_ns = monotonic_ns() - start_ns;
            std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(now_ns)));
        }
    }
    let seconds = seconds_since(start_ns);
    // A run is over when its programs are: what is still under way is to arrive before.
    std::thread::sleep(LINGER);
    Ok(Sent {
        packets,
        refused,
        seconds,
    })
}

/// Of events at `rate` per second, the first at 0: how many are due by `ns`.
fn due_by(ns: u64, rate: u64) -> u64 {
    let whole = u128::from(ns) * u128::from(rate) / 1_000_000_000;
    u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(1)
}

/// When event `index` is due, not before.
fn due_at(index: u64, rate: u64) -> u64 {
    let ns = (u128::from(index) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// A UDP sink, bound.
#[derive(Debug)]
pub struct UdpSink(UdpSocket);

impl UdpSink {
    /// Binds it to a port; from then on datagrams are welcome.
    pub fn bind(port: u16) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Takes datagrams until it is ended by a signal.
    pub fn run(&self) -> io::Error {
        cpu::without_timer_slack();
        let mut head = [0; 1];
        loop {
            match self.0.recv(&mut head) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(NAP),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error,
            }
        }
    }
}

/// Sends to `to` over one TCP connection for `seconds`.
pub fn send_tcp(to: &str, seconds: f64) -> io::Result<()> {
    let mut stream = TcpStream::connect(resolve(to)?)?;
    let chunk = vec![0; CHUNK];
    let start_ns = monotonic_ns();
    while seconds_since(start_ns) < seconds {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// A TCP sink, bound.
#[derive(Debug)]
pub struct TcpSink(TcpListener);

impl TcpSink {
    /// Binds it to a port; from then on a connection is welcome.
    pub fn bind(port: u16) -> io::Result<Self> {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map(Self)
    }

    /// Takes one connection to its end.
    pub fn run(&self) -> io::Result<Received> {
        let (mut stream, _) = self.0.accept()?;
        let start_ns = monotonic_ns();
        let mut buffer = vec![0; CHUNK];
        let mut bytes = 0;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => bytes += length as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Received {
            bytes,
            seconds: seconds_since(start_ns),
        })
    }
}

/// Does nothing for `seconds`.
pub fn idle(seconds: f64) {
    std::thread::sleep(Duration::from_nanos((seconds * 1e9) as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_due_when_they_are_due() {
        for rate in [1, 3, 1_000, 333_333, 1_000_000_000] {
            for index in [0, 1, 2, 1_000, 123_457] {
                let at = due_at(index, rate);
                assert!(due_by(at, rate) > index, "{index} at {rate}/s");
                assert!(
                    at == 0 || due_by(at - 1, rate) <= index,
                    "{index} at {rate}/s"
                );
            }
        }
    }

    #[test]
    fn a_sender_says_what_it_sent() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = sink.local_addr().unwrap().to_string();
        let sent = send_udp(&to, 100, Some(1_000), 0.02).unwrap();
        sink.set_nonblocking(true).unwrap();
        let mut buffer = [0; 200];
        let mut received = 0;
        while let Ok(length) = sink.recv(&mut buffer) {
            assert_eq!(length, 100);
            received += 1;
        }
        assert_eq!((sent.packets, sent.refused), (received, 0));
        // At most one at the start and one for each millisecond that passed.
        assert!(received >= 1 && received <= (sent.seconds * 1e3) as u64 + 1);
    }

    #[test]
    fn a_sink_counts_each_byte() {
        let sink = TcpSink::bind(0).unwrap();
        let to = sink.0.local_addr().unwrap().port();
        let sender = std::thread::spawn(move || send_tcp(&format!("127.0.0.1:{to}"), 0.01));
        let received = sink.run().unwrap();
        sender.join().unwrap().unwrap();
        assert!(received.bytes > 0 && received.bytes.is_multiple_of(CHUNK as u64));
    }
}
