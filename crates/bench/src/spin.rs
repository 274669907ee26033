//! `spin`: ICMP echo round trips, measured by a program that polls and never sleeps.
//!
//! Purpose: an oracle for the emulator's promise that uses none of its counters. A router answers
//! echo requests inside the engine, so a round trip consists of pipe delays alone, and the
//! measurement needs one host and one CPU. The send times are drawn before the first request and
//! never adapted: a sender that waited for replies would pause with the network and miss its
//! stalls. The gaps are random, so that they are in phase with no timer.
//!
//! The machine may take the CPU away between two polls, so each round trip has two bounds. The
//! ceiling runs from before the send call to after the receive call; the floor from after the send
//! call to the start of the last poll that found the socket empty. The true value lies between
//! them. Both include the constant part: send call to cable, and cable to socket.
//!
//! It opens an unprivileged echo socket (`net.ipv4.ping_group_range`), which hosts allow everybody.
//! Left out: raw sockets, and replies after the time-out.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use longhaul_core::rng::Stream;
use serde::Serialize;

use crate::net;
use crate::pace;
use crate::stamp;
use crate::summary::{Samples, Summary};

/// Type, code, checksum, identifier and sequence number (RFC 792, RFC 4443).
const HEADER_LEN: usize = 8;
/// From the start to the first draw: page faults and cold caches are over by then.
const LEAD: Duration = Duration::from_millis(10);

/// Measure round trips to a node that answers pings; polls instead of sleeping.
///
/// Send times are drawn before the first request and never adapted. Uses a whole CPU.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Who answers: an address or a name, like `10.128.0.1`, `g`.
    #[arg(long, value_name = "HOST")]
    to: String,
    /// Requests.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Mean microseconds from one request to the next; gaps are uniform between half of it and
    /// one and a half. Longhaul's routers answer at most 1000 requests a second.
    #[arg(long, value_name = "US", default_value_t = 1250, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    interval: u32,
    /// Seed of the gaps; the same seed draws the same ones.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Seconds to wait for replies after the last request.
    #[arg(long, value_name = "S", default_value = "1", value_parser = pace::seconds)]
    timeout: Duration,
    /// Write a CSV file with a row per request: number, due and send time since the start, and both
    /// bounds of the round trip, empty if there was no reply.
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
}

/// The round trips.
#[derive(Serialize)]
pub(crate) struct Report {
    sent: u64,
    answered: u64,
    /// Requests that the kernel refused.
    refused: u64,
    /// Further replies to a request.
    duplicates: u64,
    /// How far behind its due time each send call began.
    late_ns: Option<Summary>,
    /// Ceilings: before the send call to after the receive call; null without replies.
    rtt_ns: Option<Summary>,
    /// Floors: after the send call to the last poll that found the socket empty.
    rtt_floor_ns: Option<Summary>,
}

/// One request. All times are since the start.
#[derive(Clone, Copy)]
struct Probe {
    due: Duration,
    /// Before and after the send call, if the kernel accepted the request.
    sent: Option<(Duration, Duration)>,
    trip: Option<Trip>,
}

/// The bounds of a round trip.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Trip {
    floor: Duration,
    ceiling: Duration,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let (socket, v6) = open(&options.to)?;
    let mut probes = schedule(options.count, options.interval, options.seed);
    let duplicates = exchange(&socket, v6, &mut probes, options.timeout)?;
    if let Some(path) = &options.values {
        write_values(&mut BufWriter::new(File::create(path)?), &probes)?;
    }
    Ok(report(&probes, duplicates))
}

/// A connected echo socket that does not block, and whether it speaks IPv6.
fn open(to: &str) -> io::Result<(UdpSocket, bool)> {
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{to}: {error}"));
    let address = (to, 0).to_socket_addrs().map_err(explain)?.next();
    let address = address.ok_or_else(|| io::Error::other(format!("{to}: no address")))?;
    let (family, protocol) = match address {
        SocketAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
        SocketAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
    };
    // The standard library has no echo sockets; a UDP socket makes the same system calls.
    let socket: UdpSocket = net::open(family, libc::SOCK_DGRAM, protocol)
        .map_err(explain)?
        .into();
    socket.connect(address).map_err(explain)?;
    socket.set_nonblocking(true)?;
    Ok((socket, address.is_ipv6()))
}

/// When each request is due.
fn schedule(count: u32, interval_us: u32, seed: u64) -> Vec<Probe> {
    let interval = u64::from(interval_us) * 1000;
    let mut stream = Stream::new(seed, "spin");
    let mut due = LEAD;
    let draw = |_| {
        // The bias of the remainder is below one part in 10^9.
        due += Duration::from_nanos(interval / 2 + stream.draw() % (interval + 1));
        Probe {
            due,
            sent: None,
            trip: None,
        }
    };
    (0..count).map(draw).collect()
}

/// Sends every request when it is due and stamps the replies; returns the number of duplicates.
fn exchange(
    socket: &UdpSocket,
    v6: bool,
    probes: &mut [Probe],
    timeout: Duration,
) -> io::Result<u64> {
    let (request, reply) = if v6 { (128, 129) } else { (8, 0) };
    let last = probes.last().map_or(Duration::ZERO, |probe| probe.due);
    let (mut next, mut open, mut duplicates) = (0, probes.len(), 0);
    let mut message = [0; HEADER_LEN + stamp::HEAD_LEN];
    let start = Instant::now();
    // When the last poll that found the socket empty began.
    let mut empty_at = Duration::ZERO;
    while open > 0 {
        let now = start.elapsed();
        if now > last + timeout {
            break;
        }
        if let Some(probe) = probes.get_mut(next).filter(|probe| probe.due <= now) {
            write_request(&mut message, request, next as u64);
            let before = start.elapsed();
            match socket.send(&message) {
                Ok(_) => probe.sent = Some((before, start.elapsed())),
                Err(error) if is_refusal(&error) => open -= 1,
                Err(error) => return Err(error),
            }
            next += 1;
        }
        let polled = start.elapsed();
        match socket.recv(&mut message) {
            Ok(length) => {
                let now = start.elapsed();
                let probe = number(&message[..length], reply).and_then(|n| probes.get_mut(n));
                match probe {
                    Some(Probe { trip: Some(_), .. }) => duplicates += 1,
                    Some(probe) => {
                        probe.trip = trip(probe.sent, empty_at, now);
                        open -= usize::from(probe.trip.is_some());
                    }
                    None => {}
                }
            }
            Err(error) if net::passing(&error) => empty_at = polled,
            Err(error) => return Err(error),
        }
    }
    Ok(duplicates)
}

/// The bounds of a round trip whose reply arrived between `empty_at` and `now`.
fn trip(sent: Option<(Duration, Duration)>, empty_at: Duration, now: Duration) -> Option<Trip> {
    let (before, after) = sent?;
    Some(Trip {
        floor: empty_at.saturating_sub(after),
        ceiling: now - before,
    })
}

/// An echo request; the kernel fills in checksum and identifier.
fn write_request(message: &mut [u8], kind: u8, number: u64) {
    message[..HEADER_LEN].fill(0);
    message[0] = kind;
    message[6..HEADER_LEN].copy_from_slice(&(number as u16).to_be_bytes());
    stamp::write(&mut message[HEADER_LEN..], number, stamp::realtime_ns());
}

/// The number of the request that a message answers, if it is a reply.
fn number(message: &[u8], kind: u8) -> Option<usize> {
    let (head, payload) = message.split_at_checked(HEADER_LEN)?;
    let number = stamp::read(payload).0.filter(|_| head[0] == kind)?;
    usize::try_from(number).ok()
}

/// Whether the kernel had no room for a request.
fn is_refusal(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(code, Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR))
}

fn report(probes: &[Probe], duplicates: u64) -> Report {
    let [mut late, mut floor, mut ceiling] = [(); 3].map(|()| Samples::default());
    let (mut sent, mut answered) = (0, 0);
    for probe in probes {
        let Some((before, _)) = probe.sent else {
            continue;
        };
        sent += 1;
        late.push(ns(before - probe.due));
        if let Some(trip) = probe.trip {
            answered += 1;
            floor.push(ns(trip.floor));
            ceiling.push(ns(trip.ceiling));
        }
    }
    Report {
        sent,
        answered,
        refused: probes.len() as u64 - sent,
        duplicates,
        late_ns: late.summary(),
        rtt_ns: ceiling.summary(),
        rtt_floor_ns: floor.summary(),
    }
}

fn write_values(out: &mut impl Write, probes: &[Probe]) -> io::Result<()> {
    writeln!(out, "number,due_ns,sent_ns,rtt_floor_ns,rtt_ns")?;
    for (number, probe) in probes.iter().enumerate() {
        let sent = probe.sent.map(|(before, _)| before);
        let times = [
            sent,
            probe.trip.map(|trip| trip.floor),
            probe.trip.map(|trip| trip.ceiling),
        ];
        let [sent, floor, ceiling] =
            times.map(|time| time.map_or(String::new(), |time| ns(time).to_string()));
        writeln!(out, "{number},{},{sent},{floor},{ceiling}", ns(probe.due))?;
    }
    out.flush()
}

fn ns(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_drawn_evenly_and_come_again() {
        let times = |seed| -> Vec<_> { schedule(1000, 1000, seed).iter().map(|p| p.due).collect() };
        let due = times(7);
        assert_eq!(due, times(7));
        assert_ne!(due, times(8));
        let mut gaps: Vec<_> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        let us = Duration::from_micros;
        assert!(gaps[0] >= us(500) && gaps[998] <= us(1500));
        // An even draw has its quartiles at 750 and 1250 µs; four standard errors are 55.
        assert!((us(695)..us(805)).contains(&gaps[250]), "{:?}", gaps[250]);
        assert!((us(1195)..us(1305)).contains(&gaps[749]), "{:?}", gaps[749]);
    }

    #[test]
    fn a_round_trip_lies_between_its_bounds() {
        let us = Duration::from_micros;
        let sent = Some((us(100), us(110)));
        let expected = Trip {
            floor: us(90),
            ceiling: us(105),
        };
        assert_eq!(trip(sent, us(200), us(205)), Some(expected));
        // The reply arrived before the send call had returned.
        assert_eq!(trip(sent, us(90), us(115)).unwrap().floor, us(0));
        // A reply to a request that was never sent is ignored.
        assert_eq!(trip(None, us(200), us(205)), None);
    }

    #[test]
    fn a_reply_names_its_request() {
        let mut message = [0; HEADER_LEN + stamp::HEAD_LEN];
        write_request(&mut message, 8, 70_000);
        assert_eq!(number(&message, 8), Some(70_000));
        assert_eq!(number(&message, 0), None);
        assert_eq!(number(&message[..12], 8), None);
        assert_eq!(number(&[], 8), None);
    }

    #[test]
    fn values_of_lost_requests_are_empty() {
        let us = Duration::from_micros;
        let mut probes = schedule(3, 1000, 1);
        probes.iter_mut().for_each(|probe| probe.due = us(5));
        probes[0].sent = Some((us(6), us(7)));
        probes[0].trip = trip(probes[0].sent, us(10), us(11));
        probes[1].sent = probes[0].sent;
        let mut out = Vec::new();
        write_values(&mut out, &probes).unwrap();
        let lines = "number,due_ns,sent_ns,rtt_floor_ns,rtt_ns\n\
            0,5000,6000,3000,5000\n1,5000,6000,,\n2,5000,,,\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
        let report = report(&probes, 0);
        assert_eq!((report.sent, report.answered, report.refused), (2, 1, 1));
    }
}
