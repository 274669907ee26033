//! `udp-send`: numbered, stamped datagrams at a fixed rate or as fast as possible.
//!
//! At a fixed rate every datagram is one system call at its own due time. At `max` a batch
//! shares one call and one stamp, so delays then include the time within the batch; ask for
//! `--batch 1` where they matter. A number is used up only by a datagram that the kernel took:
//! the receiver's gaps are the network's, and refusals stand in `errors`.

use std::io;
use std::net::UdpSocket;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::net;
use crate::pace::{self, Pacer};
use crate::stamp;
use crate::summary::{Samples, Summary};
use crate::udp_batch::SendBatch;

/// Send numbered datagrams, at a fixed rate or as fast as possible.
///
/// Each payload begins with its number and the time of its send call, both 64 bits.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to: an address or a name, like `10.0.0.2:5000`, `[fd00::2]:5000`, `b0:5000`.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Payload bytes; 16 or more carry a stamp, fewer (at least 8) only a number.
    #[arg(long, value_name = "BYTES", value_parser = stamp::payload_size)]
    size: usize,
    /// Datagrams a second, or `max`.
    #[arg(long, value_name = "PPS|max")]
    rate: Rate,
    /// Attempts in all; this or --seconds.
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "seconds",
        conflicts_with = "seconds"
    )]
    count: Option<u64>,
    /// Seconds in all; this or --count.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    seconds: Option<Duration>,
    /// Spin over the last 80 µs before each datagram instead of sleeping through, and catch up
    /// after a delay at no more than twice the rate.
    #[arg(long)]
    precise: bool,
    /// Datagrams a system call at `--rate max`.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
}

/// A sending rate.
#[derive(Clone, Copy)]
enum Rate {
    PerSecond(u64),
    Max,
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "max" => Ok(Self::Max),
            Ok(rate) if (1..=1_000_000_000).contains(&rate) => Ok(Self::PerSecond(rate)),
            _ => Err("give datagrams a second, like 5000, or `max`"),
        }
    }
}

/// When to stop.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// After this many attempts.
    pub(crate) attempts: u64,
    /// At this time.
    pub(crate) until: Option<Instant>,
}

impl Limit {
    fn open(&self, attempts: u64) -> bool {
        attempts < self.attempts && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// What was sent.
#[derive(Serialize)]
pub(crate) struct Report {
    sent: u64,
    bytes: u64,
    /// From before the first send call to after the last.
    seconds: f64,
    /// Datagrams after the first over the seconds.
    pps: f64,
    errors: Errors,
    /// How far behind its due time each send call began; null at `max`.
    late_ns: Option<Summary>,
}

/// Datagrams that the kernel refused, by reason.
#[derive(Default, Serialize)]
pub(crate) struct Errors {
    /// The queue of the host's own interface was full.
    enobufs: u64,
    /// Nobody listens there, said an ICMP message.
    refused: u64,
    /// No way there, said the routing table or an ICMP message.
    unreachable: u64,
    /// The kernel ended a batch early without a reason.
    cut_short: u64,
    /// Try again, interrupted, or any other ICMP message.
    other: u64,
}

impl Errors {
    /// Counts an error after which sending may go on; returns any other.
    fn count(&mut self, error: io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::ENOBUFS) => self.enobufs += 1,
            Some(libc::ECONNREFUSED) => self.refused += 1,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => self.unreachable += 1,
            Some(libc::EAGAIN | libc::EINTR | libc::EPROTO | libc::ENOPROTOOPT) => self.other += 1,
            _ => return Err(error),
        }
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.enobufs += other.enobufs;
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.cut_short += other.cut_short;
        self.other += other.other;
    }
}

/// Counts while sending.
#[derive(Default)]
pub(crate) struct Sent {
    /// Datagrams that the kernel took.
    pub(crate) datagrams: u64,
    /// Those that it did not.
    pub(crate) errors: Errors,
}

impl Sent {
    /// Adds another sender's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.errors.add(&other.errors);
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let socket = net::connect_udp(&options.to)?;
    net::report_errors(&socket)?;
    let start = Instant::now();
    let limit = Limit {
        attempts: options.count.unwrap_or(u64::MAX),
        until: options.seconds.map(|seconds| start + seconds),
    };
    let (sent, late) = match options.rate {
        Rate::Max => {
            let batch = usize::from(options.batch);
            (blast(&socket, options.size, batch, limit)?, None)
        }
        Rate::PerSecond(rate) => {
            let mut pacer = Pacer::rate(rate, options.precise);
            let (sent, late) = paced(&socket, options.size, &mut pacer, limit)?;
            (sent, late.summary())
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    Ok(Report {
        sent: sent.datagrams,
        bytes: sent.datagrams * options.size as u64,
        seconds,
        pps: sent.datagrams.saturating_sub(1) as f64 / seconds,
        errors: sent.errors,
        late_ns: late,
    })
}

/// Sends as fast as the socket takes it, `batch` datagrams a call.
pub(crate) fn blast(
    socket: &UdpSocket,
    size: usize,
    batch: usize,
    limit: Limit,
) -> io::Result<Sent> {
    let mut sent = Sent::default();
    let mut buffers = SendBatch::new(batch, size);
    let mut attempts = 0;
    while limit.open(attempts) {
        let wanted = (limit.attempts - attempts).min(batch as u64);
        let stamp_ns = stamp::realtime_ns();
        match buffers.send(socket, wanted as usize, sent.datagrams, stamp_ns) {
            Ok(taken) => {
                let taken = taken as u64;
                sent.datagrams += taken;
                attempts += taken;
                if taken < wanted {
                    sent.errors.cut_short += 1;
                    attempts += 1;
                }
            }
            Err(error) => {
                sent.errors.count(error)?;
                attempts += 1;
            }
        }
    }
    Ok(sent)
}

/// Sends one datagram a call, each when it is due.
fn paced(
    socket: &UdpSocket,
    size: usize,
    pacer: &mut Pacer,
    limit: Limit,
) -> io::Result<(Sent, Samples)> {
    let mut sent = Sent::default();
    let mut late = Samples::default();
    let mut payload = vec![0; size];
    let mut attempts = 0;
    while limit.open(attempts) {
        late.push(pacer.wait(attempts));
        stamp::write(&mut payload, sent.datagrams, stamp::realtime_ns());
        match socket.send(&payload) {
            Ok(_) => sent.datagrams += 1,
            Err(error) => sent.errors.count(error)?,
        }
        attempts += 1;
    }
    Ok((sent, late))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_or_max() {
        assert!(matches!("max".parse(), Ok(Rate::Max)));
        assert!(matches!("5000".parse(), Ok(Rate::PerSecond(5000))));
        assert!("0".parse::<Rate>().is_err());
        assert!("fast".parse::<Rate>().is_err());
    }

    #[test]
    fn errors_are_counted_or_fatal() {
        let mut errors = Errors::default();
        let mut count = |code| errors.count(io::Error::from_raw_os_error(code));
        assert!(count(libc::ENOBUFS).is_ok());
        assert!(count(libc::ECONNREFUSED).is_ok());
        assert!(count(libc::EMSGSIZE).is_err());
        assert_eq!((errors.enobufs, errors.refused, errors.other), (1, 1, 0));
    }
}
