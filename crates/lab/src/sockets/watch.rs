//! Samples a connection's `TCP_INFO` while it is under way.
//!
//! A thread of its own reads it at even times, since the one that sends is blocked in the kernel
//! most of the time. The round trips are the kernel's smoothed ones at those times, except for
//! the least, which the kernel keeps itself.
//!
//! Left out: what happens between two samples.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::Span;
use longhaul_linux::socket::{self, TcpInfo};
use serde::Serialize;

use super::{Origin, Stop};

/// How often round trips are sampled where no series is asked for.
const EVERY: Span = Span::from_ms(10);

/// The kernel's figures of the connections of a flow.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) congestion: String,
    pub(super) retransmissions: u64,
    pub(super) rtt_ns: Option<RoundTrips>,
}

/// Round trips in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// The least that the kernel has seen.
    pub min: u64,
    /// The mean of the smoothed ones.
    pub mean: u64,
    /// The largest of the smoothed ones.
    pub max: u64,
}

/// The results of sampling the connections of a flow.
#[derive(Debug, Default)]
pub(super) struct Tally {
    min_us: Option<u32>,
    max_us: u32,
    sum_us: u64,
    samples: u64,
    retransmissions: u64,
}

impl Tally {
    /// One sample of a connection that is under way.
    pub(super) fn sample(&mut self, info: &TcpInfo) {
        if info.rtt_us == 0 {
            return;
        }
        let least = info.min_rtt_us.unwrap_or(info.rtt_us);
        self.min_us = Some(self.min_us.map_or(least, |min| min.min(least)));
        self.max_us = self.max_us.max(info.rtt_us);
        self.sum_us = self.sum_us.saturating_add(u64::from(info.rtt_us));
        self.samples += 1;
    }

    /// The last sample of a connection.
    pub(super) fn close(&mut self, info: &TcpInfo) {
        self.retransmissions += u64::from(info.retransmissions);
    }

    /// All of it.
    pub(super) fn watched(&self, congestion: String) -> Watched {
        Watched {
            congestion,
            retransmissions: self.retransmissions,
            rtt_ns: self.min_us.map(|min| RoundTrips {
                min: u64::from(min) * 1000,
                mean: self.sum_us.saturating_mul(1000) / self.samples,
                max: u64::from(self.max_us) * 1000,
            }),
        }
    }
}

/// A file for the series of a connection: one line per sample.
#[derive(Debug)]
pub struct Series {
    file: BufWriter<File>,
    every: Span,
}

impl Series {
    /// Makes the file, with a line that names the columns.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn create(path: &Path, every: Span) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut file = BufWriter::new(File::create(path).map_err(named)?);
        file.write_all(b"t_s,cwnd,ssthresh,in_flight,rtt_s,bytes_acked,retransmissions\n")
            .map_err(named)?;
        Ok(Self { file, every })
    }

    fn line(&mut self, t_s: f64, info: &TcpInfo) -> io::Result<()> {
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        writeln!(
            self.file,
            "{t_s:.6},{},{},{},{:.6},{},{}",
            info.cwnd,
            number(info.ssthresh.map(u64::from)),
            info.in_flight,
            f64::from(info.rtt_us) / 1e6,
            number(info.bytes_acked),
            info.retransmissions
        )
    }
}

/// Runs `work` on a connection and samples it meanwhile; returns the results of both.
pub(super) fn watching<T>(
    stream: &TcpStream,
    origin: Origin,
    series: Option<&mut Series>,
    work: impl FnOnce() -> T,
) -> io::Result<(T, Watched)> {
    let over = AtomicBool::new(false);
    let (worked, sampled) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(stream, origin, series, &over));
        // Also where the work panics: the scope waits for the sampling thread.
        let guard = OnDrop(|| over.store(true, Ordering::Relaxed));
        let worked = work();
        drop(guard);
        (worked, sampler.join())
    });
    let sampled = sampled.map_err(|_| {
        io::Error::other("the thread that writes the series panicked; please report this")
    })?;
    Ok((worked, sampled?))
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn sample(
    stream: &TcpStream,
    origin: Origin,
    mut series: Option<&mut Series>,
    over: &AtomicBool,
) -> io::Result<Watched> {
    let every = series.as_ref().map_or(EVERY, |series| series.every);
    let every = every.as_ns().max(1);
    let never = Stop::default();
    let mut tally = Tally::default();
    loop {
        let last = over.load(Ordering::Relaxed);
        let info = TcpInfo::read(stream)?;
        tally.sample(&info);
        let now = origin.elapsed();
        if let Some(series) = &mut series {
            series.line(now.as_s(), &info)?;
        }
        if last {
            if let Some(series) = &mut series {
                series.file.flush()?;
            }
            tally.close(&info);
            return Ok(tally.watched(socket::congestion(stream)?));
        }
        // At multiples of the interval, so that the time a sample takes does not make the series
        // drift.
        let next = (now.as_ns() / every + 1).saturating_mul(every);
        never.sleep(origin, Span::from_ns(next));
    }
}
