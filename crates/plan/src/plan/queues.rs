//! Queues and what is in flight: how many packets there can be at once, and which queues are
//! probably not meant to be as short or as long as they are.
//!
//! A queue much shorter than the bandwidth-delay product of a path keeps TCP from filling it; one
//! much longer only adds delay ("bufferbloat", Gettys and Nichols, ACM Queue 9(11), 2011). "Much"
//! is a factor of ten either way; a queue that drains in less time than people notice in a
//! conversation does not count as long.
//!
//! Left out: queues whose rate a trace changes; long queues that a discipline keeps short.

use std::collections::{BTreeMap, HashMap};

use longhaul_core::Topology;
use longhaul_core::params::{Discipline, PipeParams};
use longhaul_core::topology::{NodeKind, Pipe, PipeId};
use longhaul_core::trace::{Capacity, Series};
use longhaul_core::units::{QueueLimit, Rate};

use super::paths::{Reach, UNLIMITED, bytes};
use crate::early_release::EarlyRelease;
use crate::schedule::Schedule;

/// The memory that the packet pool may take.
pub(crate) const POOL_BYTES: usize = 1 << 30;
/// The smallest pool in packets.
pub(crate) const POOL_MIN: usize = 4096;
/// The largest pool of a virtual run in packets; memory is mapped when it is first used.
pub(crate) const VIRTUAL_MAX: usize = 16 << 20;
/// More packets a second than one machine carries: the bound for what is in flight.
const MAX_PACKETS_PER_S: u64 = 2_000_000;
/// The same for segments, where they come as super-packets.
const MAX_SEGMENTS_PER_S: u64 = 6_000_000;
/// The bytes of the smallest Ethernet frame.
const SMALLEST_FRAME: u64 = 64;
/// The quantile of a spread delay that counts as its longest.
const LONGEST: f64 = 0.9999;
/// How far from the bandwidth-delay product a queue may be.
const FACTOR: u64 = 10;
/// A queue that drains in this time is not too long: the one-way delay up to which speech is
/// undisturbed (ITU-T G.114).
const NOTICED_NS: u64 = 150_000_000;

/// How many packets can be in queues and in flight at once, whatever is scheduled.
///
/// Events are applied in the order in which they first happen, each on top of those before.
pub(crate) fn packets_inside(
    topology: &Topology,
    schedule: &Schedule,
    offload: bool,
    has: impl Fn(PipeId) -> bool,
) -> usize {
    let most_per_s = if offload {
        MAX_SEGMENTS_PER_S
    } else {
        MAX_PACKETS_PER_S
    };
    let pipes = topology.pipes().iter();
    let mut most: Vec<u64> = pipes
        .map(|pipe| packets_of(&pipe.params, most_per_s))
        .collect();
    if offload {
        // What hosts' shapers release early waits in the link, beside its queue.
        for (pipe, most) in topology.pipes().iter().zip(&mut most) {
            if topology.node(pipe.from).kind == NodeKind::Host {
                let ahead = |rate| EarlyRelease::default().packets(rate);
                *most = most.saturating_add(pipe.params.rate.map_or(0, ahead));
            }
        }
    }
    schedule.for_each_change(topology, |pipe, params| {
        let most = &mut most[pipe.index()];
        *most = packets_of(params, most_per_s).max(*most);
    });
    let most = most.into_iter().zip((0..).map(PipeId));
    let most = most.filter(|(_, pipe)| has(*pipe)).map(|(most, _)| most);
    usize::try_from(most.fold(0, u64::saturating_add)).unwrap_or(usize::MAX)
}

/// How many packets can be in a pipe at once: a queue full of smallest frames where bytes or time
/// bound it, those in flight at the highest rate over the longest delay (capped by what one machine
/// carries, doubled by duplicates), and one in service.
fn packets_of(params: &PipeParams, most_per_s: u64) -> u64 {
    let rate = highest_rate(params);
    let waiting = match params.queue {
        QueueLimit::Packets(packets) => u64::from(packets),
        QueueLimit::Bytes(bytes) => bytes / SMALLEST_FRAME,
        QueueLimit::Time(span) => bytes(rate, span.as_ns()) / SMALLEST_FRAME,
    };
    let per_s = (rate / (8 * SMALLEST_FRAME)).min(most_per_s);
    let copies = if params.duplicate.is_never() { 1 } else { 2 };
    let longest = u128::from(longest_delay_ns(params));
    let under_way = u128::from(per_s * copies) * longest / 1_000_000_000;
    waiting
        .saturating_add(u64::try_from(under_way).unwrap_or(u64::MAX))
        .saturating_add(1)
}

/// The highest rate in bits per second that a pipe ever has. A trace of opportunities may come in
/// bursts, so it counts as unlimited.
fn highest_rate(params: &PipeParams) -> u64 {
    let own = params.rate.map_or(UNLIMITED, Rate::bits_per_s);
    match params.trace.as_ref().map(|trace| &trace.series) {
        None => own,
        Some(Series::Opportunities { .. }) => UNLIMITED,
        Some(Series::Samples { samples, .. }) => {
            let rates = samples.iter().map(|sample| match sample.rate {
                Some(Capacity::Limited(rate)) => rate.bits_per_s(),
                Some(Capacity::Unlimited) => UNLIMITED,
                Some(Capacity::Outage) => 0,
                None => own,
            });
            rates.max().unwrap_or(own)
        }
    }
}

/// The longest delay in nanoseconds that a packet is likely to have.
fn longest_delay_ns(params: &PipeParams) -> u64 {
    let own = match &params.jitter {
        Some(jitter) => jitter.distribution.quantile(LONGEST).max(0.0) as u64,
        None => params.delay.as_ns(),
    };
    let traced = match params.trace.as_ref().map(|trace| &trace.series) {
        Some(Series::Samples { samples, .. }) => {
            let delays = samples.iter().filter_map(|sample| sample.delay);
            delays.map(|delay| delay.as_ns()).max().unwrap_or(0)
        }
        _ => 0,
    };
    let held = params.reorder.map_or(0, |reorder| reorder.hold.as_ns());
    own.max(traced).saturating_add(held)
}

/// Warns of queues far from the bandwidth-delay product, once per entry of the file and kind of
/// queue.
pub(crate) fn warnings(
    topology: &Topology,
    reach: &Reach,
    origin: &HashMap<String, usize>,
) -> Vec<String> {
    // By entry and kind of pipe: the first warning, and how many more pipes it holds for.
    let mut found: BTreeMap<(usize, u64, u64), (String, usize)> = BTreeMap::new();
    for (pipe, round_trip) in topology.pipes().iter().zip(&reach.round_trip) {
        let Some((rate, queue)) = rate_and_queue(pipe) else {
            continue;
        };
        let Some(text) = warning(pipe, rate, queue, *round_trip) else {
            continue;
        };
        let entry = origin.get(&pipe.link).copied().unwrap_or_default();
        found
            .entry((entry, rate, queue))
            .and_modify(|(_, more)| *more += 1)
            .or_insert((text, 0));
    }
    let warnings = found.into_values().map(|(text, more)| match more {
        0 => text,
        1 => format!("{text}; so is that of 1 more pipe"),
        n => format!("{text}; so are those of {n} more pipes"),
    });
    warnings.collect()
}

/// The constant rate of a pipe, and its queue in bytes.
fn rate_and_queue(pipe: &Pipe) -> Option<(u64, u64)> {
    let params = &pipe.params;
    let rate = params.rate.filter(|_| params.trace.is_none())?.bits_per_s();
    Some((rate, queue_bytes(params.queue, rate, pipe.mtu)))
}

/// What may wait in a queue that a link of `rate` bit/s empties, in bytes, where each packet has
/// `packet` bytes.
pub fn queue_bytes(queue: QueueLimit, rate: u64, packet: u32) -> u64 {
    match queue {
        QueueLimit::Packets(packets) => u64::from(packets) * u64::from(packet),
        QueueLimit::Bytes(bytes) => bytes,
        QueueLimit::Time(span) => bytes(rate, span.as_ns()),
    }
}

fn warning(pipe: &Pipe, rate: u64, queue: u64, round_trip: u64) -> Option<String> {
    let product = bytes(rate, round_trip);
    let packets = product / u64::from(pipe.mtu);
    let (name, limit) = (&pipe.name, pipe.params.queue);
    if queue < product / FACTOR {
        return Some(format!(
            "the queue of `{name}` ({limit}) is far below the bandwidth-delay product of the longest \
             path through it ({packets} packets): TCP may not fill the link"
        ));
    }
    let fills = matches!(
        pipe.params.discipline,
        Discipline::DropTail | Discipline::Red(_)
    );
    let drains_ns = u128::from(queue) * 8_000_000_000 / u128::from(rate);
    let long = queue > product.saturating_mul(FACTOR) && drains_ns > u128::from(NOTICED_NS);
    // A round trip of 0 is an unknown one: no product to compare with.
    if round_trip == 0 || !fills || !long {
        return None;
    }
    let packets = packets.max(1);
    let plural = if packets == 1 { "" } else { "s" };
    Some(format!(
        "the queue of `{name}` ({limit}) is far above the bandwidth-delay product of the longest path \
         through it ({packets} packet{plural}): when it is full, every packet waits for {} ms \
         (bufferbloat)",
        drains_ns / 1_000_000
    ))
}
