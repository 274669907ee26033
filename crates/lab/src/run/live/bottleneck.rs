//! The bottleneck of what a host sends, its link or the machine, and the shaper that stands for it.
//!
//! A real network card makes its host wait: programs that send UDP block, and TCP's small queues
//! work. A shaper on the host's interface, a token bucket, does the same here.
//!
//! - Where a host's first link has a rate, the shaper has the same: the backlog in the engine stays
//!   below the bucket's depth, and exact spacing stays with the engine. Of super-packets the kernel
//!   counts a few bytes too little or too much, so `backpressure/link.rs` corrects their shaper's
//!   rate.
//! - Where a queue discipline manages the link's queue, the backlog must build up where the
//!   discipline sees it, in the engine: then the shaper has the machine's rate.
//! - Where the link is unlimited, or faster than the machine carries single packets, the shaper has
//!   the machine's rate too: see `backpressure.rs`.
//!
//! Links run in experiment time, shapers in machine time: dilation divides a shaper's rate.

use std::time::Duration;

use longhaul_core::Span;
use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::params::Discipline;
use longhaul_core::segment::MAX_SUPER_LEN;
use longhaul_core::topology::{PipeId, PipeParams};
use longhaul_core::units::{Framing, Rate};
use longhaul_emulation::Known;
use longhaul_linux::sandbox::{SEGMENTS_MAX, Shaper, Traffic};

use crate::pace::Dilation;
use longhaul_plan::plan::{HostPlan, Plan, bytes, queue_bytes};

/// From this link rate on, the machine limits a host that hands over packets one by one: what a
/// core carries at the usual MTU, and at jumbo frames.
const MACHINE_BITS_PER_S: u64 = 4_000_000_000;
const MACHINE_JUMBO_BITS_PER_S: u64 = 8_000_000_000;
const JUMBO_MTU: u32 = 4000;
/// The depth of a link's bucket, in machine time at its rate. It exceeds the lateness of the
/// kernel's timers, except in a stall, so that the link does not idle while its host has something
/// to send. The core must carry at once what the bucket lets through at once: with 5 ms at 1
/// Gbit/s, some runs fell so far behind that frames were shed.
const LINK_DEPTH: Duration = Duration::from_millis(2);
/// The most that it holds of super-packets, which come at the speed of the machine's memory.
const SUPER_DEPTH_BYTES: u64 = 750_000;
/// The most that it holds of single packets, as a part of the link's queue limit: with more, the
/// link would drop packets that a network card would have made wait.
const QUEUE_PART: (u64, u64) = (3, 4);
/// A super-packet occupies its link for at most this much experiment time, as on a network card
/// with a short ring: its segments leave one after the other, and other programs' packets wait behind
/// them.
const SUPER_PACKET: Span = Span::from_us(500);
/// The depth of the machine's bucket, less than a link's because its rate is all that the core
/// carries.
const MACHINE_DEPTH: Duration = Duration::from_micros(100);
/// Every bucket holds at least this many frames: one larger than its bucket would wait for ever.
const BURST_FRAMES: u64 = 2;
/// Linux's `txqueuelen`.
const QUEUE_PACKETS: u64 = 1000;
/// What a packet costs the core beside its bytes, in bytes.
pub(crate) const PACKET_COST_BYTES: u64 = 833;
/// What the core of a machine of speed 1 carries, in bytes of cost per second: the unit of the
/// allowance in `backpressure.rs`.
pub(crate) const COST_BYTES_PER_S: f64 = 833e6;

/// The longest frame of a host in bytes, which may be a super-packet.
pub(crate) fn longest_frame(mtu: u32, offload: bool) -> u32 {
    if offload {
        MAX_SUPER_LEN as u32
    } else {
        mtu + ETHERNET_LEN as u32
    }
}

/// What limits how fast a host sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bottleneck {
    /// Its link, until that changes.
    Link {
        shaper: Shaper,
        /// The most segments of a super-packet; 1 for packets one by one.
        segments: u32,
    },
    /// The machine: `backpressure.rs` finds its speed.
    Machine,
}

impl Bottleneck {
    /// The most segments that the host hands over as one, if it may.
    pub(crate) const fn segments(self) -> u32 {
        match self {
            Self::Link { segments, .. } => segments,
            Self::Machine => SEGMENTS_MAX,
        }
    }
}

/// The bottleneck of a host of the plan, given the changes of its links since then.
pub(crate) fn of_host(plan: &Plan, host: &HostPlan, known: &Known, offload: bool) -> Bottleneck {
    let now = |pipe: &PipeId| known.params(&plan.topology, *pipe).clone();
    let nic: Vec<PipeParams> = host.nic.iter().map(now).collect();
    of(&nic, host.mtu, offload, Dilation::of(plan.clock))
}

/// The bottleneck of a host whose outgoing pipes are `nic`; `offload` where it may hand over
/// super-packets.
pub(crate) fn of(nic: &[PipeParams], mtu: u32, offload: bool, dilation: Dilation) -> Bottleneck {
    let rates: Option<Vec<u64>> = nic.iter().map(highest_rate).collect();
    let machine = if mtu >= JUMBO_MTU {
        MACHINE_JUMBO_BITS_PER_S
    } else {
        MACHINE_BITS_PER_S
    };
    let bits_per_s = match rates {
        Some(rates) if !rates.is_empty() => {
            rates.iter().fold(0u64, |sum, r| sum.saturating_add(*r))
        }
        _ => return Bottleneck::Machine,
    };
    let framing = nic.first().map_or(Framing::Ethernet, |pipe| pipe.framing);
    // The kernel counts the Ethernet header but no frame check sequence.
    let overhead = framing.counted(0) as i32 - ETHERNET_LEN as i32;
    let frame = framing.counted(mtu);
    let segments = match nic {
        [pipe] if offload && pipe.sends_steadily() => {
            let most = bytes(bits_per_s, SUPER_PACKET.as_ns()) / u64::from(frame);
            most.min(SEGMENTS_MAX.into()) as u32
        }
        _ => 1,
    };
    let machine_bits_per_s = dilation.per_machine_second(bits_per_s);
    let depth = bytes(machine_bits_per_s, LINK_DEPTH.as_nanos() as u64);
    let bytes_per_s = (machine_bits_per_s / 8).max(1);
    if segments > 1 {
        let depth = depth.min(SUPER_DEPTH_BYTES);
        let shaper = Shaper {
            traffic: Traffic::SuperPackets,
            ..shaper(bytes_per_s, depth, overhead, frame.into())
        };
        return Bottleneck::Link { shaper, segments };
    }
    if machine_bits_per_s >= machine {
        return Bottleneck::Machine;
    }
    let (part, of) = QUEUE_PART;
    let may_wait = |pipe: &PipeParams| {
        let rate = pipe.rate.map_or(bits_per_s, Rate::bits_per_s);
        queue_bytes(pipe.queue, rate, frame)
    };
    let most = nic.iter().map(may_wait).min();
    let depth = most.map_or(depth, |most| depth.min(most / of * part));
    let mut shaper = shaper(bytes_per_s, depth, overhead, frame.into());
    // The link passes a burst at once only if the bucket lets it arrive at once.
    for burst in nic.iter().filter_map(|pipe| pipe.burst) {
        let burst = u32::try_from(burst.0).unwrap_or(u32::MAX);
        shaper.burst_bytes = shaper.burst_bytes.max(burst);
    }
    Bottleneck::Link {
        shaper,
        segments: 1,
    }
}

/// The highest rate in bits per second that a pipe ever lets through; `None` where a shaper cannot
/// impose it.
fn highest_rate(pipe: &PipeParams) -> Option<u64> {
    if pipe.discipline != Discipline::DropTail {
        return None;
    }
    pipe.highest_rate()
}

/// The shaper of a host that the machine limits, at this speed. Its frames have
/// up to `frame` bytes: a super-packet counts as one packet.
pub(crate) fn machine_shaper(speed: f64, frame: u32) -> Shaper {
    let bytes_per_s = (COST_BYTES_PER_S * speed) as u64;
    let frame = u64::from(frame) + PACKET_COST_BYTES;
    Shaper {
        traffic: Traffic::Tcp,
        ..shaper(
            bytes_per_s,
            bytes(
                bytes_per_s.saturating_mul(8),
                MACHINE_DEPTH.as_nanos() as u64,
            ),
            PACKET_COST_BYTES as i32,
            frame,
        )
    }
}

/// A shaper whose bucket is `depth` bytes deep.
fn shaper(bytes_per_s: u64, depth: u64, overhead: i32, frame: u64) -> Shaper {
    Shaper {
        bytes_per_s,
        overhead,
        burst_bytes: u32::try_from(depth.max(BURST_FRAMES * frame)).unwrap_or(u32::MAX),
        limit_bytes: u32::try_from(QUEUE_PACKETS * frame).unwrap_or(u32::MAX),
        traffic: Traffic::Packets,
    }
}

#[cfg(test)]
mod tests {
    use super::{of as dilated, *};
    use longhaul_core::trace::{Capacity, Series};
    use longhaul_core::units::QueueLimit;

    fn bottleneck(nic: &[PipeParams], mtu: u32, offload: bool) -> Bottleneck {
        dilated(nic, mtu, offload, Dilation::NONE)
    }

    fn pipe(rate: u64, framing: Framing) -> PipeParams {
        PipeParams {
            rate: Rate::from_bits_per_s(rate),
            framing,
            ..PipeParams::default()
        }
    }

    #[test]
    fn a_slow_link_gets_a_shaper_of_its_own_rate() {
        let Bottleneck::Link { shaper, .. } =
            bottleneck(&[pipe(10_000_000, Framing::Ethernet)], 1500, false)
        else {
            panic!("a link of 10 Mbit/s is slower than any machine");
        };
        assert_eq!(shaper.bytes_per_s, 1_250_000);
        assert_eq!(shaper.overhead, 4);
        assert_eq!(
            (shaper.burst_bytes, shaper.limit_bytes),
            (2 * 1518, 1000 * 1518)
        );
        let Bottleneck::Link { shaper: ip, .. } =
            bottleneck(&[pipe(1_000_000, Framing::Ip)], 1500, false)
        else {
            panic!()
        };
        assert_eq!(ip.overhead, -14);
    }

    #[test]
    fn a_bucket_lets_through_what_the_link_lets_through_at_once() {
        let burst = PipeParams {
            burst: Some(longhaul_core::units::Bytes(64_000)),
            ..pipe(10_000_000, Framing::Ethernet)
        };
        let Bottleneck::Link { shaper, .. } = bottleneck(&[burst], 1500, false) else {
            panic!("a link of 10 Mbit/s is slower than any machine");
        };
        assert_eq!(
            (shaper.bytes_per_s, shaper.burst_bytes),
            (1_250_000, 64_000)
        );
    }

    #[test]
    fn a_bucket_holds_less_than_may_wait_for_the_link() {
        let depth = |queue, rate| {
            let pipe = PipeParams {
                queue,
                ..pipe(rate, Framing::Ethernet)
            };
            let Bottleneck::Link { shaper, .. } = bottleneck(&[pipe], 1500, false) else {
                panic!("a link of {rate} bit/s is slower than any machine");
            };
            u64::from(shaper.burst_bytes)
        };
        let gigabit = 1_000_000_000;
        assert_eq!(depth(QueueLimit::default(), gigabit), 250_000);
        assert_eq!(depth(QueueLimit::Packets(50), gigabit), 75 * 1518 / 2);
        assert_eq!(depth(QueueLimit::Bytes(64 << 10), gigabit), 48 << 10);
        let two_ms = QueueLimit::Time(Span::from_ms(2));
        assert_eq!(depth(two_ms, gigabit), 187_500);
        // Two frames in any case.
        assert_eq!(depth(QueueLimit::Packets(0), gigabit), 2 * 1518);
        assert_eq!(depth(QueueLimit::default(), 1_000_000), 2 * 1518);
    }

    #[test]
    fn super_packets_are_short_on_slow_links() {
        let of = |pipe: PipeParams| match bottleneck(&[pipe], 1500, true) {
            Bottleneck::Link { shaper, segments } => (shaper.traffic, segments, shaper.burst_bytes),
            Bottleneck::Machine => panic!("a link with a rate is its host's bottleneck"),
        };
        let link = |mbit: u64| pipe(mbit * 1_000_000, Framing::Ethernet);
        let whole = Traffic::SuperPackets;
        // Half a millisecond each, and 2 ms or 750 kB in the bucket.
        assert_eq!(of(link(100)), (whole, 4, 25_000));
        assert_eq!(of(link(1_000)), (whole, 41, 250_000));
        assert_eq!(of(link(10_000)), (whole, SEGMENTS_MAX, 750_000));
        assert_eq!(of(link(40)), (Traffic::Packets, 1, 10_000));
        // Whatever may wait: a network card drops nothing.
        let short = PipeParams {
            queue: QueueLimit::Packets(5),
            ..link(1_000)
        };
        assert_eq!(of(short), (whole, 41, 250_000));
        let ip = pipe(1_000_000_000, Framing::Ip);
        assert_eq!(of(ip), (whole, 41, 250_000));
        // With a burst the time that packets queue in the link is unknown: single packets.
        let burst = PipeParams {
            burst: Some(longhaul_core::units::Bytes(64_000)),
            ..link(1_000)
        };
        assert_eq!(of(burst).0, Traffic::Packets);
        let two = bottleneck(&[link(1_000), link(1_000)], 1500, true);
        assert_eq!(two.segments(), 1);
    }

    #[test]
    fn a_managed_queue_builds_up_in_the_engine() {
        let managed = PipeParams {
            discipline: Discipline::CoDel(Default::default()),
            ..pipe(10_000_000, Framing::Ethernet)
        };
        assert_eq!(bottleneck(&[managed], 1500, false), Bottleneck::Machine);
    }

    #[test]
    fn a_shaper_has_the_highest_rate_of_a_trace() {
        use longhaul_core::trace::{Sample, Trace};
        let sample = |s, bits| Sample {
            at: Span::from_s(s),
            delay: None,
            rate: Rate::from_bits_per_s(bits).map(Capacity::Limited),
            loss: None,
        };
        let trace = |samples| PipeParams {
            trace: Some(std::sync::Arc::new(Trace {
                series: Series::Samples {
                    samples,
                    interpolate: false,
                },
                offset: Span::ZERO,
                period: None,
            })),
            ..PipeParams::default()
        };
        let two = trace(vec![sample(0, 8_000_000), sample(1, 80_000_000)]);
        let Bottleneck::Link { shaper, .. } = bottleneck(&[two], 1500, false) else {
            panic!("a link of at most 80 Mbit/s is slower than any machine");
        };
        assert_eq!(shaper.bytes_per_s, 10_000_000);
        let mut open = sample(1, 1);
        open.rate = None;
        let unlimited = trace(vec![sample(0, 8_000_000), open]);
        assert_eq!(bottleneck(&[unlimited], 1500, false), Bottleneck::Machine);
    }

    #[test]
    fn unlimited_and_fast_links_are_the_machines() {
        assert_eq!(
            bottleneck(&[PipeParams::default()], 1500, false),
            Bottleneck::Machine
        );
        assert_eq!(bottleneck(&[], 1500, false), Bottleneck::Machine);
        assert_eq!(
            bottleneck(&[pipe(10_000_000_000, Framing::Ip)], 1500, false),
            Bottleneck::Machine
        );
    }
    /// A tenth of the rate: of the link nothing changes but the pace.
    #[test]
    fn a_bucket_fills_by_the_machines_clock() {
        let shaper = |nic: PipeParams, offload, factor| match dilated(
            &[nic],
            1500,
            offload,
            Dilation::by(factor),
        ) {
            Bottleneck::Link { shaper, segments } => (shaper, segments),
            Bottleneck::Machine => panic!("its link limits it"),
        };
        let gigabit = pipe(1_000_000_000, Framing::Ethernet);
        let (bucket, one) = shaper(gigabit.clone(), false, 10);
        let (slower, _) = shaper(pipe(100_000_000, Framing::Ethernet), false, 1);
        assert_eq!((bucket, one), (slower, 1));
        assert_eq!(
            (bucket.bytes_per_s, bucket.burst_bytes),
            (12_500_000, 25_000)
        );
        // Half a millisecond of the experiment is 41 packets of it whatever its pace.
        let (bucket, segments) = shaper(gigabit, true, 10);
        assert_eq!((bucket.bytes_per_s, segments), (12_500_000, 41));
        // A queue limited by time holds what the link sends in that much experiment time.
        let queue = PipeParams {
            queue: QueueLimit::Time(Span::from_us(160)),
            ..pipe(1_000_000_000, Framing::Ethernet)
        };
        assert_eq!(shaper(queue, false, 10).0.burst_bytes, 15_000);
    }

    /// Slowed down by ten, a link of 10 Gbit/s sends 1 Gbit in a second of the machine.
    #[test]
    fn the_machine_limits_fewer_hosts_where_the_clock_is_slow() {
        let fast = pipe(10_000_000_000, Framing::Ip);
        assert_eq!(
            bottleneck(std::slice::from_ref(&fast), 1500, false),
            Bottleneck::Machine
        );
        let slow = dilated(&[fast], 1500, false, Dilation::by(10));
        let Bottleneck::Link { shaper, .. } = slow else {
            panic!("the machine carries that");
        };
        assert_eq!(shaper.bytes_per_s, 125_000_000);
    }
}
