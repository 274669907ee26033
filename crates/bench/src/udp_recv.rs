//! `udp-recv`: what became of the datagrams of `udp-send`, timed by the kernel's stamps.
//!
//! One-way delay is the receiving kernel's stamp minus the sender's; spacing is the distance of
//! consecutive kernel stamps. Neither includes the time that this program takes to read. Several
//! senders are distinguished by their addresses, and their figures are summed.

use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counters::{self, Counters};
use crate::net::{self, Listen};
use crate::pace;
use crate::sequence::Sequence;
use crate::summary::{Samples, Summary};
use crate::udp_batch::{Arrival, Peer, ReceiveBatch};

/// How many senders are followed one by one; each takes 128 KiB.
const MAX_FLOWS: usize = 256;
/// `SO_MEMINFO` is an array of 32-bit figures; this one counts what the socket dropped.
const MEMINFO_DROPS: usize = 8;
const MEMINFO_LEN: usize = 9 * 4;

/// Receive the datagrams of udp-send or flood, and report loss, order, delay and spacing.
///
/// Ends with whatever comes first: --expect, --idle, --seconds, --deadline. Without any
/// datagram only --deadline ends it.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    listen: Listen,
    /// End after this many different datagrams; loss is counted against it.
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    /// End after this many seconds without a datagram, once the first has come.
    #[arg(long, value_name = "S", default_value = "1", value_parser = pace::seconds)]
    idle: Duration,
    /// End this many seconds after the first datagram.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    seconds: Option<Duration>,
    /// End this many seconds after the start, even if nothing has come.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    deadline: Option<Duration>,
}

/// What was received.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Datagrams, with duplicates and without malformed ones.
    received: u64,
    /// Their payload bytes.
    bytes: u64,
    /// Senders; at most 256 are distinguished.
    flows: usize,
    /// Different datagrams that should have come: --expect, or those numbered below the
    /// highest number that came.
    expected: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    /// Datagrams too short for a number, or of a sender too many.
    malformed: u64,
    /// From the first kernel stamp to the last.
    seconds: f64,
    /// Datagrams after the first over the seconds.
    pps: f64,
    /// Kernel stamp minus sender's stamp; null without stamps.
    delay_ns: Option<Summary>,
    /// Between consecutive kernel stamps; null below two datagrams.
    spacing_ns: Option<Summary>,
    /// Datagrams that this socket dropped: its buffer was full, or a checksum wrong.
    kernel_drops: Option<u32>,
    /// The receive buffer that the kernel granted, in bytes.
    receive_buffer: Option<u32>,
    /// Growth of this namespace's counters since the start.
    counters: Counters,
    ended_by: End,
}

/// Why a receiver ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Expect,
    Idle,
    Seconds,
    Deadline,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let socket = options.listen.udp()?;
    let mut batch = ReceiveBatch::new(&socket)?;
    let before = counters::read();
    net::announce(socket.local_addr())?;

    let started = Instant::now();
    let mut tally = Tally::default();
    let mut first: Option<Instant> = None;
    let mut last = started;
    let ended_by = loop {
        match batch.receive(&socket) {
            Ok(arrivals) => {
                arrivals.for_each(|arrival| tally.note(&arrival));
                last = Instant::now();
                first.get_or_insert(last);
            }
            Err(error) if net::passing(&error) => {}
            Err(error) => return Err(error),
        }
        if let Some(end) = options.end(started, first, last, tally.unique()) {
            break end;
        }
    };
    let memory = socket_memory(&socket);
    Ok(tally.report(options.expect, memory, counters::since(&before), ended_by))
}

impl Options {
    fn end(
        &self,
        started: Instant,
        first: Option<Instant>,
        last: Instant,
        unique: u64,
    ) -> Option<End> {
        let now = Instant::now();
        let over = |since: Instant, span: Option<Duration>| {
            span.is_some_and(|span| now.duration_since(since) >= span)
        };
        if self.expect.is_some_and(|expected| unique >= expected) {
            Some(End::Expect)
        } else if first.is_some_and(|first| over(first, self.seconds)) {
            Some(End::Seconds)
        } else if first.is_some() && over(last, Some(self.idle)) {
            Some(End::Idle)
        } else if over(started, self.deadline) {
            Some(End::Deadline)
        } else {
            None
        }
    }
}

/// Counts while receiving.
#[derive(Default)]
struct Tally {
    received: u64,
    bytes: u64,
    malformed: u64,
    flows: Vec<(Peer, Sequence)>,
    /// The flow of the last datagram: mostly that of the next one too.
    current: usize,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    delays: Samples,
    spacings: Samples,
}

impl Tally {
    fn note(&mut self, arrival: &Arrival) {
        let (Some(seq), Some(flow)) = (arrival.seq, self.flow(&arrival.peer)) else {
            self.malformed += 1;
            return;
        };
        flow.note(seq);
        self.received += 1;
        self.bytes += arrival.len;
        let Some(received_ns) = arrival.received_ns else {
            return;
        };
        if let Some(sent_ns) = arrival.sent_ns {
            self.delays.push(received_ns.saturating_sub(sent_ns));
        }
        if let Some(last_ns) = self.last_ns {
            self.spacings.push(received_ns - last_ns);
        }
        self.first_ns.get_or_insert(received_ns);
        self.last_ns = Some(received_ns);
    }

    fn flow(&mut self, peer: &Peer) -> Option<&mut Sequence> {
        if self.flows.get(self.current).is_none_or(|(p, _)| p != peer) {
            let known = self.flows.iter().position(|(p, _)| p == peer);
            self.current = match known {
                Some(index) => index,
                None if self.flows.len() < MAX_FLOWS => {
                    self.flows.push((*peer, Sequence::new()));
                    self.flows.len() - 1
                }
                None => return None,
            };
        }
        self.flows
            .get_mut(self.current)
            .map(|(_, sequence)| sequence)
    }

    fn unique(&self) -> u64 {
        self.sum(|flow| flow.unique)
    }

    fn sum(&self, figure: impl Fn(&Sequence) -> u64) -> u64 {
        let add = |sum: u64, (_, flow): &(Peer, Sequence)| sum.saturating_add(figure(flow));
        self.flows.iter().fold(0, add)
    }

    fn report(
        self,
        expect: Option<u64>,
        (receive_buffer, kernel_drops): (Option<u32>, Option<u32>),
        counters: Counters,
        ended_by: End,
    ) -> Report {
        let unique = self.unique();
        let expected = expect.unwrap_or(unique.saturating_add(self.sum(Sequence::missing)));
        let span_ns = self.first_ns.zip(self.last_ns).map_or(0, |(a, b)| b - a);
        let seconds = span_ns as f64 / 1e9;
        let pps = if span_ns > 0 {
            (self.received - 1) as f64 / seconds
        } else {
            0.0
        };
        Report {
            received: self.received,
            bytes: self.bytes,
            flows: self.flows.len(),
            expected,
            lost: expected.saturating_sub(unique),
            reordered: self.sum(|flow| flow.reordered),
            duplicates: self.sum(|flow| flow.duplicates),
            malformed: self.malformed,
            seconds,
            pps,
            delay_ns: self.delays.summary(),
            spacing_ns: self.spacings.summary(),
            kernel_drops,
            receive_buffer,
            counters,
            ended_by,
        }
    }
}

/// The socket's receive buffer and its drops so far: exact also for what was dropped after
/// the last datagram that came, which the control message of `SO_RXQ_OVFL` is not.
fn socket_memory(socket: &std::net::UdpSocket) -> (Option<u32>, Option<u32>) {
    let mut buffer = [0; MEMINFO_LEN];
    let filled = net::get_bytes(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut buffer);
    let bytes = filled.unwrap_or_default();
    let word = |index: usize| {
        let bytes = bytes.get(index * 4..index * 4 + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    (word(1), word(MEMINFO_DROPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(peer: u8, seq: u64, received_ns: i64) -> Arrival {
        Arrival {
            len: 100,
            seq: Some(seq),
            sent_ns: Some(received_ns - 50),
            received_ns: Some(received_ns),
            peer: [peer; 28],
        }
    }

    fn report(arrivals: &[Arrival], expect: Option<u64>) -> Report {
        let mut tally = Tally::default();
        arrivals.iter().for_each(|arrival| tally.note(arrival));
        tally.report(expect, (None, Some(0)), Counters::new(), End::Idle)
    }

    #[test]
    fn senders_are_distinguished() {
        let arrivals = [
            arrival(1, 0, 0),
            arrival(2, 0, 10),
            arrival(1, 2, 20),
            arrival(2, 1, 30),
        ];
        let report = report(&arrivals, None);
        assert_eq!((report.flows, report.received, report.bytes), (2, 4, 400));
        assert_eq!((report.expected, report.lost), (5, 1));
        assert_eq!((report.duplicates, report.reordered), (0, 0));
        assert!((report.pps - 1e8).abs() < 1.0);
    }

    #[test]
    fn loss_at_the_end_shows_against_what_was_expected() {
        let report = report(&[arrival(1, 0, 0), arrival(1, 0, 5)], Some(10));
        assert_eq!((report.received, report.duplicates, report.lost), (2, 1, 9));
    }

    #[test]
    fn nothing_received_is_a_report_too() {
        let report = report(&[], None);
        assert_eq!((report.received, report.lost), (0, 0));
        assert!(report.delay_ns.is_none() && report.spacing_ns.is_none());
    }

    #[test]
    fn senders_too_many_are_counted() {
        let mut tally = Tally::default();
        for peer in 0..300_u16 {
            let mut arrival = arrival(0, 0, 0);
            arrival.peer[..2].copy_from_slice(&peer.to_ne_bytes());
            tally.note(&arrival);
        }
        assert_eq!((tally.received, tally.malformed), (256, 44));
    }

    #[test]
    fn short_datagrams_are_malformed() {
        let mut short = arrival(1, 0, 0);
        short.seq = None;
        assert_eq!(report(&[short], None).malformed, 1);
    }
}
