//! `tcp-model`: one bulk flow of the TCP model over one bottleneck, computed without a clock.
//!
//! The counterpart of `longhaul traffic bulk` over an emulated link of the same rate, delay and
//! queue: what a kernel's TCP does there is compared with what the model does here. The bottleneck
//! is exact: packets are counted at their Ethernet length and leave one after the other, a fixed
//! number may wait, and each direction has the same delay. Acknowledgements never queue.
//!
//! Left out: more than one flow, losses other than by the queue.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use longhaul_core::units::{Framing, QueueLimit, Rate};
use longhaul_core::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config, Endpoint, Segment};
use serde::Serialize;

/// The TCP model over a bottleneck.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Congestion control: reno, bic, cubic, bbr, vegas, dctcp.
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    congestion: Algorithm,
    /// The bottleneck's rate.
    #[arg(long, default_value = "100 Mbit/s")]
    rate: Rate,
    /// One-way delay.
    #[arg(long, value_name = "TIME", default_value = "10 ms")]
    delay: Span,
    /// Packets that may wait, like '165 packets'.
    #[arg(long, value_parser = packets)]
    queue: u64,
    /// How long it sends.
    #[arg(long = "for", value_name = "TIME")]
    until: Span,
    /// Write the window every 10 ms to this file.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
}

/// The flow's results, under the names of `longhaul traffic`.
#[derive(Serialize)]
pub(crate) struct Report {
    bytes: u64,
    goodput_bps: f64,
    retransmissions: u64,
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let known = Algorithm::ALL.iter().find(|(known, _)| *known == name);
    let names = || Algorithm::ALL.map(|(known, _)| known).join(", ");
    known
        .map(|(_, algorithm)| *algorithm)
        .ok_or_else(|| format!("the model has {}", names()))
}

fn packets(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(QueueLimit::Packets(packets)) => Ok(u64::from(packets)),
        Ok(_) => Err("write a number of packets".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// One direction: segments in flight, in order, with their arrival times.
#[derive(Default)]
struct Way(VecDeque<(Time, Segment)>);

impl Way {
    fn next(&self) -> Option<Time> {
        self.0.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Time) -> Option<Segment> {
        self.next().filter(|&at| at <= now)?;
        self.0.pop_front().map(|(_, segment)| segment)
    }
}

struct Run<'a> {
    options: &'a Options,
    now: Time,
    sender: Endpoint,
    receiver: Endpoint,
    there: Way,
    back: Way,
    /// Departure times of the packets in the bottleneck.
    departures: VecDeque<Time>,
    free_at: Time,
}

impl Run<'_> {
    /// Lets both ends send what they have.
    fn pump(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            while self.departures.front().is_some_and(|&at| at <= self.now) {
                self.departures.pop_front();
            }
            // The packet in service does not count as waiting.
            if self.departures.len() as u64 > self.options.queue {
                continue;
            }
            let length = Framing::Ethernet.counted(20 + segment.header_len() + segment.len);
            let bits = u64::from(length) * 8 * 1_000_000_000;
            let start = self.free_at.max(self.now);
            self.free_at = start + Span::from_ns(bits / self.options.rate.bits_per_s());
            self.departures.push_back(self.free_at);
            let arrival = self.free_at + self.options.delay;
            self.there.0.push_back((arrival, segment));
        }
        while let Some(segment) = self.receiver.poll_transmit(self.now) {
            let arrival = self.now + self.options.delay;
            self.back.0.push_back((arrival, segment));
        }
    }

    /// Goes on until `until`.
    fn until(&mut self, until: Time) {
        loop {
            self.pump();
            let ends = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
            let ways = [self.there.next(), self.back.next()];
            let next = ends.into_iter().chain(ways).flatten().min();
            let Some(next) = next.filter(|&next| next < until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            if let Some(segment) = self.there.take(self.now) {
                self.receiver.handle_segment(self.now, &segment);
            } else if let Some(segment) = self.back.take(self.now) {
                self.sender.handle_segment(self.now, &segment);
            } else {
                self.sender.handle_timeout(self.now);
                self.receiver.handle_timeout(self.now);
            }
        }
    }
}

/// Runs `tcp-model`.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    const EVERY: Span = Span::from_ms(10);
    let config = Arc::new(Config {
        congestion: options.congestion,
        // More than any window here; the application always has more to send.
        wmem: 1 << 60,
        rmem: 64 << 20,
        ..Config::default()
    });
    let mut receiver = Endpoint::listen(config.clone(), 2);
    receiver.set_auto_read(true);
    let mut run = Run {
        options,
        now: Time::ZERO,
        sender: Endpoint::connect(Time::ZERO, config, 1),
        receiver,
        there: Way::default(),
        back: Way::default(),
        departures: VecDeque::new(),
        free_at: Time::ZERO,
    };
    run.sender.write(1 << 59);
    let mut file = match &options.series {
        Some(path) => Some(BufWriter::new(File::create(path)?)),
        None => None,
    };
    if let Some(file) = &mut file {
        writeln!(
            file,
            "t_s,cwnd,ssthresh,in_flight,rtt_s,bytes_acked,retransmissions"
        )?;
    }
    let end = Time::ZERO + options.until;
    while run.now < end {
        run.until((run.now + EVERY).min(end));
        let Some(file) = &mut file else { continue };
        let info = run.sender.info();
        let ssthresh = match info.ssthresh {
            u32::MAX => String::new(),
            segments => segments.to_string(),
        };
        writeln!(
            file,
            "{:.6},{},{ssthresh},{},{:.6},{},{}",
            run.now.as_s(),
            info.cwnd,
            info.in_flight,
            info.srtt.as_s(),
            info.acknowledged,
            info.retransmitted
        )?;
    }
    let bytes = run.receiver.info().received;
    Ok(Report {
        bytes,
        goodput_bps: bytes as f64 * 8.0 / options.until.as_s(),
        retransmissions: run.sender.info().retransmitted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that is always full carries 1448 of each 1518 bytes.
    #[test]
    fn a_full_link_is_full() {
        for (name, congestion) in Algorithm::ALL {
            if congestion == Algorithm::Dctcp {
                continue;
            }
            let options = Options {
                congestion,
                rate: Rate::from_bits_per_s(20_000_000).unwrap(),
                delay: Span::from_ms(10),
                queue: 33,
                until: Span::from_s(20),
                series: None,
            };
            let used = run(&options).unwrap().goodput_bps / (20e6 * 1448.0 / 1518.0);
            assert!((0.93..1.0).contains(&used), "{name}: {used}");
        }
    }
}
