//! The applications of modelled traffic with the sockets of real hosts: `longhaul traffic …`.
//!
//! Purpose: what a flow of an experiment's `traffic:` does in the model, done by a program on a
//! host and by its kernel, so that the two can be compared. Sizes and times are drawn by the
//! model's own generator from the same seed and the same stream, and results have the shape of
//! the summary's `flows[]`.
//!
//! A [`sink::Sink`] takes whatever comes. [`stream`] has what goes over TCP: bulk transfers and
//! requests with responses; [`datagrams`] what goes over UDP. All payload is zeros, except for
//! the first 20 bytes of a request, which say to the sink how large it is and what to answer.
//!
//! Left out: names of an experiment (a program knows its host and where it sends to), and times
//! of the experiment: results count from the start of the program.
#![allow(
    clippy::disallowed_methods,
    reason = "these are ordinary programs inside virtual hosts: sleeping is their job"
)]

pub mod datagrams;
pub mod draws;
pub mod sink;
pub mod stream;
mod watch;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_core::Span;
use longhaul_linux::clock::monotonic_ns;
use serde::Serialize;

use watch::Watched;
pub use watch::{RoundTrips, Series};

/// The port that sinks and senders use where none is named.
pub const PORT: u16 = 5400;
/// The longest wait before a check for the request to stop.
const TICK: Duration = Duration::from_millis(50);
/// Handed to the kernel, or taken from it, at a time.
const CHUNK: usize = 256 << 10;

/// One flow, as its own end saw it. Times are seconds since the program began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flow {
    /// What it is called.
    pub name: String,
    /// Address and port that it came from.
    pub from: String,
    /// Address and port that it went to.
    pub to: String,
    /// `tcp` or `udp`.
    pub model: &'static str,
    /// Payload: at a sender what it sent (and, of responses, received), at a sink what arrived.
    pub bytes: u64,
    /// When it began: a connection with its handshake.
    pub start_s: f64,
    /// When the last byte had arrived; `null` where it was cut off.
    pub finish_s: Option<f64>,
    /// From the one to the other.
    pub completion_s: Option<f64>,
    /// Payload over time; of a flow without finish, until it was cut off.
    pub goodput_bps: f64,
    /// Segments that were sent again; `null` where this end's kernel does not report them.
    pub retransmissions: Option<u64>,
    /// Round trips; `null` likewise.
    pub rtt_ns: Option<RoundTrips>,
    /// Whether it was cut off.
    pub failed: bool,
    /// Congestion control, over TCP at a sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Datagrams, over UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Datagrams that the sender's kernel did not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// The exchanges of a flow of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Exchanges>,
    /// Why it was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How long requests waited for the end of their responses, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Exchanges {
    /// How many were answered.
    pub count: u64,
    /// The mean.
    pub mean_s: f64,
    /// The median.
    pub p50_s: f64,
    /// 99 of 100 were not longer.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
}

impl Exchanges {
    /// Of all times; `None` without any.
    fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let count = seconds.len();
        let &max_s = seconds.last()?;
        let quantile = |part: f64| seconds[((count as f64 * part) as usize).min(count - 1)];
        Some(Self {
            count: count as u64,
            mean_s: seconds.iter().sum::<f64>() / count as f64,
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            max_s,
        })
    }
}

impl Flow {
    /// A flow without any bytes yet.
    fn new(name: String, model: &'static str, ends: [SocketAddr; 2], start_s: f64) -> Self {
        // A dual-stack socket reports IPv4 peers as IPv4-mapped IPv6 addresses.
        let shown = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let [from, to] = ends.map(|end| shown(end).to_string());
        Self {
            name,
            from,
            to,
            model,
            bytes: 0,
            start_s,
            finish_s: None,
            completion_s: None,
            goodput_bps: 0.0,
            retransmissions: None,
            rtt_ns: None,
            failed: false,
            congestion: None,
            packets: None,
            refused: None,
            exchanges: None,
            problem: None,
        }
    }

    /// Ends it at `end_s`: done, or cut off by a problem.
    fn end(&mut self, end_s: f64, problem: Option<String>) {
        let seconds = end_s - self.start_s;
        if seconds > 0.0 {
            self.goodput_bps = self.bytes as f64 * 8.0 / seconds;
        }
        self.failed = problem.is_some();
        self.finish_s = (!self.failed).then_some(end_s);
        self.completion_s = self.finish_s.map(|_| seconds);
        self.problem = problem;
    }

    /// Adds the kernel's figures of its connections.
    fn watched(&mut self, watched: Watched) {
        self.congestion = Some(watched.congestion);
        self.retransmissions = Some(watched.retransmissions);
        self.rtt_ns = watched.rtt_ns;
    }
}

/// When a program began: where the times of its results count from.
#[derive(Debug, Clone, Copy)]
pub struct Origin(u64);

impl Origin {
    /// Now.
    pub fn now() -> Self {
        Self(monotonic_ns())
    }

    /// How long ago that is.
    pub fn elapsed(self) -> Span {
        Span::from_ns(monotonic_ns().saturating_sub(self.0))
    }

    fn elapsed_s(self) -> f64 {
        self.elapsed().as_s()
    }
}

/// The request to end, for everything that is under way.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks everything to end at its next check.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until `until` after the origin; false where everything is to end before.
    fn sleep(&self, origin: Origin, until: Span) -> bool {
        loop {
            let left = until.saturating_sub(origin.elapsed());
            if self.is_set() {
                return false;
            }
            if left == Span::ZERO {
                return true;
            }
            std::thread::sleep(Duration::from_nanos(left.as_ns()).min(TICK));
        }
    }
}

/// Whether a wait simply goes on: a time-out, or a signal.
fn passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// All addresses of `host` (a name or an address) with `port`.
///
/// # Errors
/// Where the name is unknown.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let plain = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let found = (plain.unwrap_or(host), port).to_socket_addrs();
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{host}: {error}"));
    let found: Vec<SocketAddr> = found.map_err(explain)?.collect();
    if found.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{host} has no address"),
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_resolve() {
        let one = |text| resolve(text, 9).unwrap()[0].to_string();
        assert_eq!(one("127.0.0.1"), "127.0.0.1:9");
        assert_eq!(one("[::1]"), "[::1]:9");
        assert_eq!(one("::1"), "[::1]:9");
        assert!(resolve("no such host", 9).is_err());
    }

    #[test]
    fn exchanges_are_ordered() {
        assert_eq!(Exchanges::of(Vec::new()), None);
        let all = Exchanges::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((all.count, all.mean_s, all.p50_s), (3, 2.0, 2.0));
        assert_eq!((all.p99_s, all.max_s), (3.0, 3.0));
    }

    #[test]
    fn what_is_stopped_does_not_sleep_on() {
        let stop = Stop::default();
        let origin = Origin::now();
        assert!(stop.sleep(origin, Span::from_ns(1)));
        stop.set();
        assert!(!stop.sleep(origin, Span::from_s(3600)));
    }
}
