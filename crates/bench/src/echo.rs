//! `echo` and `rtt`: round trips as a program sees them, one at a time.
//!
//! The times are those of a program that sleeps in `recv`: they include the wake-ups of both
//! ends, which on an idle machine are the larger part of a short path.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::net::{self, Listen};
use crate::pace::{self, Pacer};
use crate::stamp::{self, MAX_PAYLOAD};
use crate::summary::{Samples, Summary};

/// Return every UDP datagram to its sender.
///
/// Runs until it is killed, or for --seconds; only then it prints its JSON object.
#[derive(clap::Args)]
pub(crate) struct EchoOptions {
    #[command(flatten)]
    listen: Listen,
    /// Seconds in all.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    seconds: Option<Duration>,
}

/// What was echoed.
#[derive(Serialize)]
pub(crate) struct EchoReport {
    echoed: u64,
    bytes: u64,
    /// Answers that the kernel refused.
    errors: u64,
}

/// Measure round trips to an echo server, one datagram at a time.
#[derive(clap::Args)]
pub(crate) struct RttOptions {
    /// The echo server: an address or a name, like `10.0.0.2:7`, `[fd00::2]:7`, `b0:7`.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Round trips.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// Microseconds from one datagram to the next; longer round trips delay it; 0: at once.
    #[arg(long, value_name = "US", default_value_t = 1000)]
    interval: u64,
    /// Payload bytes, at least 8.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = stamp::payload_size)]
    size: usize,
    /// Seconds after which an answer counts as lost.
    #[arg(long, value_name = "S", default_value = "1", value_parser = pace::seconds)]
    timeout: Duration,
}

/// The round trips.
#[derive(Serialize)]
pub(crate) struct RttReport {
    sent: u64,
    received: u64,
    lost: u64,
    seconds: f64,
    /// From before the send call to after the receive call; null without answers.
    rtt_ns: Option<Summary>,
}

/// Runs `echo`.
pub(crate) fn echo(options: &EchoOptions) -> io::Result<EchoReport> {
    let socket = options.listen.udp()?;
    net::announce(socket.local_addr())?;
    let start = Instant::now();
    let mut buffer = vec![0; MAX_PAYLOAD + 1];
    let mut report = EchoReport {
        echoed: 0,
        bytes: 0,
        errors: 0,
    };
    while options.seconds.is_none_or(|span| start.elapsed() < span) {
        // Time-outs and pending errors of earlier answers: check the deadline and continue.
        let Ok((length, peer)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        match socket.send_to(&buffer[..length], peer) {
            Ok(_) => {
                report.echoed += 1;
                report.bytes += length as u64;
            }
            Err(_) => report.errors += 1,
        }
    }
    Ok(report)
}

/// Runs `rtt`.
pub(crate) fn rtt(options: &RttOptions) -> io::Result<RttReport> {
    let socket = net::connect_udp(&options.to)?;
    let mut payload = vec![0; options.size];
    let mut samples = Samples::default();
    let mut received = 0;
    let mut pacer = Pacer::interval_us(options.interval, false);
    let start = Instant::now();
    for seq in 0..options.count {
        pacer.wait(seq);
        stamp::write(&mut payload, seq, stamp::realtime_ns());
        let sent_at = Instant::now();
        let answered = match socket.send(&payload) {
            Ok(_) => answer(&socket, seq, sent_at + options.timeout)?,
            Err(error) => after(error)?,
        };
        if answered {
            let rtt = sent_at.elapsed().as_nanos();
            samples.push(i64::try_from(rtt).unwrap_or(i64::MAX));
            received += 1;
        }
    }
    Ok(RttReport {
        sent: options.count,
        received,
        lost: options.count - received,
        seconds: start.elapsed().as_secs_f64(),
        rtt_ns: samples.summary(),
    })
}

/// Waits for the answer to datagram `seq`, past answers to earlier ones; whether it came.
fn answer(socket: &UdpSocket, seq: u64, until: Instant) -> io::Result<bool> {
    let mut head = [0; stamp::HEAD_LEN];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut head) {
            Ok(length) if stamp::read(&head[..length]).0 == Some(seq) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(false),
            Err(error) => {
                after(error)?;
            }
        }
    }
}

/// Errors that make an answer late or lost are no answer; others end the program.
fn after(error: io::Error) -> io::Result<bool> {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::WouldBlock | Kind::TimedOut | Kind::Interrupted => Ok(false),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable => Ok(false),
        _ => Err(error),
    }
}
