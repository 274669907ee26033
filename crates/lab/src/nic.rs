//! The backpressure of a host's network card.
//!
//! A real card makes its host wait: programs that send UDP block, and TCP's small queues work.
//! A token bucket on the host's interface does the same here.
//!
//! - Where a host's first link is slower than the machine, the bucket has exactly the link's
//!   rate: the backlog in the engine stays below the bucket's depth, and exact spacing stays
//!   with the engine.
//! - Where a discipline manages the link's queue, the queue must build up where the discipline
//!   sees it, in the engine: then, too, the machine is the card.
//! - Where it is unlimited or faster than the machine, the machine itself is the card. Its speed
//!   is unknown and changes, so the [`Governor`] watches the core: while it has time to spare,
//!   buckets grow, and before it has none, they shrink. Programs that can wait then never
//!   overrun the machine.

use longhaul_core::Span;
use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::params::Discipline;
use longhaul_core::segment::LONGEST_SUPER;
use longhaul_core::topology::PipeParams;
use longhaul_core::trace::{Capacity, Series};
use longhaul_core::units::{Framing, Rate};
use longhaul_linux::sandbox::Shaper;

use crate::plan::{bytes, queue_bytes};

/// From this rate on the machine is the card: what a core carries at the usual MTU, and at
/// jumbo frames.
const MACHINE_BITS_PER_S: u64 = 4_000_000_000;
const MACHINE_JUMBO_BITS_PER_S: u64 = 8_000_000_000;
const JUMBO_MTU: u32 = 4000;
/// A link's bucket holds so much time at its rate: more than a timer of the kernel is late, save
/// where a machine stands still, so that the link does not idle while its host has something to
/// send. What it lets through at once the core must carry at once: with 5 ms at 1 Gbit/s some runs
/// fell behind by so much that frames were shed.
const LINK_DEPTH: Span = Span::from_ms(2);
/// It holds no more than this part of what may wait for the link, or the link would drop packets
/// that a card would keep waiting.
const QUEUE_PART: (u64, u64) = (3, 4);
/// The machine's bucket holds less: what it lets through at once, the core must carry at once.
const MACHINE_DEPTH: Span = Span::from_us(100);
/// Every bucket holds at least so many frames: one that is larger than its bucket would wait
/// for ever.
const BURST_FRAMES: u64 = 2;
/// Linux's `txqueuelen`.
const QUEUE_PACKETS: u64 = 1000;
/// What a packet costs the core beside its bytes, as a number of bytes.
const PACKET_COST_BYTES: u64 = 833;
/// What the core of a machine of speed 1 carries, in bytes of cost per second.
const COST_BYTES_PER_S: f64 = 833e6;

/// The longest frame of a host in bytes, which may be a super-packet.
pub(crate) fn longest_frame(mtu: u32, offload: bool) -> u32 {
    match offload {
        true => LONGEST_SUPER as u32,
        false => mtu + ETHERNET_LEN as u32,
    }
}

/// What limits a host's card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Its link: this shaper holds until the link changes.
    Link(Shaper),
    /// The machine: the [`Governor`] decides.
    Machine,
}

/// What limits a host whose outgoing pipes are `nic`.
pub(crate) fn limit(nic: &[PipeParams], mtu: u32) -> Limit {
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
        _ => return Limit::Machine,
    };
    if bits_per_s >= machine {
        return Limit::Machine;
    }
    let framing = nic.first().map_or(Framing::Ethernet, |pipe| pipe.framing);
    // The kernel counts the Ethernet header and no frame check sequence.
    let overhead = framing.counted(0) as i32 - ETHERNET_LEN as i32;
    let frame = framing.counted(mtu);
    let depth = bytes(bits_per_s, LINK_DEPTH.as_ns());
    let (part, of) = QUEUE_PART;
    let may_wait = |pipe: &PipeParams| {
        let rate = pipe.rate.map_or(bits_per_s, Rate::bits_per_s);
        queue_bytes(pipe.queue, rate, frame)
    };
    let most = nic.iter().map(may_wait).min();
    let depth = most.map_or(depth, |most| depth.min(most / of * part));
    let mut shaper = bucket((bits_per_s / 8).max(1), depth, overhead, frame.into());
    // What the link lets through at once must come at once.
    for burst in nic.iter().filter_map(|pipe| pipe.burst) {
        let burst = u32::try_from(burst.0).unwrap_or(u32::MAX);
        shaper.burst_bytes = shaper.burst_bytes.max(burst);
    }
    Limit::Link(shaper)
}

/// The highest rate in bits per second that a pipe ever lets through; `None` where that is not
/// for a bucket to say.
fn highest_rate(pipe: &PipeParams) -> Option<u64> {
    if pipe.discipline != Discipline::DropTail {
        return None;
    }
    let own = pipe.rate.map(|rate| rate.bits_per_s());
    match pipe.trace.as_ref().map(|trace| &trace.series) {
        None => own,
        Some(Series::Opportunities { .. }) => None,
        Some(Series::Samples { samples, .. }) => {
            let rates = samples.iter().map(|sample| match sample.rate {
                Some(Capacity::Limited(rate)) => Some(rate.bits_per_s()),
                Some(Capacity::Unlimited) => None,
                // Nothing is sent at that time, or at least not more.
                Some(Capacity::Outage) => Some(0),
                None => own,
            });
            // One unlimited rate makes the whole unlimited.
            rates.collect::<Option<Vec<u64>>>()?.into_iter().max()
        }
    }
}

/// The shaper of a host that the machine limits, at a speed from the [`Governor`]. Its frames have
/// up to `frame` bytes: a super-packet counts as one packet.
pub(crate) fn machine_shaper(speed: f64, frame: u32) -> Shaper {
    let bytes_per_s = (COST_BYTES_PER_S * speed) as u64;
    let frame = u64::from(frame) + PACKET_COST_BYTES;
    Shaper {
        tcp_only: true,
        ..bucket(
            bytes_per_s,
            bytes(bytes_per_s.saturating_mul(8), MACHINE_DEPTH.as_ns()),
            PACKET_COST_BYTES as i32,
            frame,
        )
    }
}

/// A bucket of `depth` bytes.
fn bucket(bytes_per_s: u64, depth: u64, overhead: i32, frame: u64) -> Shaper {
    Shaper {
        bytes_per_s,
        overhead,
        burst_bytes: u32::try_from(depth.max(BURST_FRAMES * frame)).unwrap_or(u32::MAX),
        limit_bytes: u32::try_from(QUEUE_PACKETS * frame).unwrap_or(u32::MAX),
        tcp_only: false,
    }
}

/// Speeds stay within these bounds; the first one lets most machines keep up at once.
const SPEED_MIN: f64 = 0.02;
const SPEED_START: f64 = 0.3;
const SPEED_MAX: f64 = 16.0;
/// Below this load buckets grow, above the other one they shrink.
const LOAD_LOW: f64 = 0.90;
const LOAD_HIGH: f64 = 0.95;
const GROW: f64 = 1.15;
const SHRINK: f64 = 0.6;
/// Super-packets come in bursts of a window's size, at the speed of the machine's memory, and a
/// window of TCP fills whatever its bucket allows. So what counts is the load that there would be
/// if all used what they are granted, and what stands at the door: where that load is too high, or
/// more than this part of arrivals was stale, buckets do not grow, and the second time in a row
/// they shrink; once alone it was a stall of the machine. From the first time on they grow by small
/// steps, and never above the second load.
const BEHIND_MANY: f64 = 0.02;
const LOAD_CAREFUL: f64 = 0.65;
/// A host that uses less of its bucket than this only acknowledges, and will not fill it.
const BULK: f64 = 0.1;
const SHRINK_CAREFUL: f64 = 0.9;
const GROW_CAREFUL: f64 = 1.02;
/// A host that uses so much of its bucket is held back by it. Where the core is half busy, less
/// of it is enough: the kernel refills a bucket late, and what overflows meanwhile is lost.
/// Growth on less would open the bucket wide before a window of TCP has grown to fill it.
const HELD_BACK: f64 = 0.6;
const HELD_BACK_BUSY: f64 = 0.25;
const BUSY: f64 = 0.5;
/// A host's bucket is changed when it is off by more than this.
const WORTH_A_CHANGE: f64 = 0.04;
/// Most buckets changed at a time.
const CHANGES_MAX: usize = 32;

/// Finds the speed at which hosts may send where only the machine limits them.
#[derive(Debug)]
pub(crate) struct Governor {
    speed: f64,
    /// Whether hosts hand over super-packets.
    careful: bool,
    grow: f64,
    /// Whether many arrivals were stale at the last look.
    was_behind: bool,
    hosts: Vec<Governed>,
}

/// A host that the machine limits.
#[derive(Debug, Clone)]
struct Governed {
    number: usize,
    /// Its longest frame in bytes.
    frame: u32,
    applied: f64,
    /// Packets and bytes that had arrived from it at the last look.
    arrived: (u64, u64),
}

impl Governor {
    /// A governor of hosts (number, longest frame), whose buckets start at its first speed; it is
    /// `careful` where they hand over super-packets.
    pub(crate) fn new(hosts: impl Iterator<Item = (usize, u32)>, careful: bool) -> Self {
        let governed = |(number, frame)| Governed {
            number,
            frame,
            applied: SPEED_START,
            arrived: (0, 0),
        };
        Self {
            speed: SPEED_START,
            careful,
            grow: GROW,
            was_behind: false,
            hosts: hosts.map(governed).collect(),
        }
    }

    /// The speed of buckets before the governor has seen anything.
    pub(crate) const fn first_speed() -> f64 {
        SPEED_START
    }

    /// Takes a host in from which so much has arrived already; its first bucket.
    pub(crate) fn add(&mut self, number: usize, frame: u32, arrived: (u64, u64)) -> Shaper {
        let applied = self.speed;
        self.hosts.push(Governed {
            number,
            frame,
            applied,
            arrived,
        });
        machine_shaper(applied, frame)
    }

    /// Leaves a host to its link.
    pub(crate) fn remove(&mut self, number: usize) {
        self.hosts.retain(|host| host.number != number);
    }

    /// Looks at the core's `load` (busy part of `elapsed`), at which part of the arrivals it was
    /// `behind` with, and at what has arrived from each host so far (packets, bytes); says which
    /// buckets are to change.
    pub(crate) fn look(
        &mut self,
        load: f64,
        behind: f64,
        elapsed: Span,
        arrived: impl Fn(usize) -> (u64, u64),
    ) -> Vec<(usize, Shaper)> {
        let (mut held_back, mut used, mut granted) = (false, 0.0, 0.0);
        let full = if load > BUSY {
            HELD_BACK_BUSY
        } else {
            HELD_BACK
        };
        let mut active = Vec::new();
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let now = arrived(host.number);
            let (packets, bytes) = (now.0 - host.arrived.0, now.1 - host.arrived.1);
            host.arrived = now;
            if packets > 0 {
                active.push(index);
                let cost = (bytes + packets * PACKET_COST_BYTES) as f64;
                let allowed = COST_BYTES_PER_S * host.applied * elapsed.as_s();
                held_back |= cost > full * allowed;
                used += cost;
                granted += if cost > BULK * allowed { allowed } else { cost };
            }
        }
        if self.careful {
            self.steer_super_packets(load, behind, granted / used);
        } else {
            self.steer(load, behind, held_back);
        }
        self.speed = self.speed.clamp(SPEED_MIN, SPEED_MAX);
        let mut changes = Vec::new();
        for index in active {
            let host = &mut self.hosts[index];
            let off = (host.applied / self.speed - 1.0).abs();
            if off > WORTH_A_CHANGE && changes.len() < CHANGES_MAX {
                host.applied = self.speed;
                changes.push((host.number, machine_shaper(self.speed, host.frame)));
            }
        }
        changes
    }

    /// Of hosts that hand over super-packets; they were granted so many times what they used, not
    /// a number where they used nothing.
    fn steer_super_packets(&mut self, load: f64, behind: f64, slack: f64) {
        let full_load = load * slack.max(1.0);
        let is_behind = behind > BEHIND_MANY && load > BUSY || full_load > LOAD_LOW;
        let was_behind = std::mem::replace(&mut self.was_behind, is_behind);
        if is_behind && was_behind {
            self.speed *= (LOAD_CAREFUL / full_load).clamp(SHRINK, SHRINK_CAREFUL);
            self.grow = GROW_CAREFUL;
        } else if full_load < LOAD_CAREFUL && behind <= BEHIND_MANY {
            self.speed *= self.grow;
        }
    }

    fn steer(&mut self, load: f64, behind: f64, held_back: bool) {
        // Load alone says little: where programs sleep between packets, waking them costs the core
        // more than the packets do, and slower hosts would cost it more still.
        if load > LOAD_HIGH && behind > 0.0 {
            self.speed *= SHRINK;
        } else if load < LOAD_LOW && held_back {
            // Never a step that would lead across the upper bound.
            self.speed *= GROW.min(LOAD_HIGH / load.max(0.01));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::QueueLimit;

    fn pipe(rate: u64, framing: Framing) -> PipeParams {
        PipeParams {
            rate: Rate::from_bits_per_s(rate),
            framing,
            ..PipeParams::default()
        }
    }

    #[test]
    fn a_slow_link_gets_a_bucket_of_its_own_rate() {
        let Limit::Link(shaper) = limit(&[pipe(10_000_000, Framing::Ethernet)], 1500) else {
            panic!("a link of 10 Mbit/s is slower than any machine");
        };
        assert_eq!(shaper.bytes_per_s, 1_250_000);
        assert_eq!(shaper.overhead, 4);
        assert_eq!(
            (shaper.burst_bytes, shaper.limit_bytes),
            (2 * 1518, 1000 * 1518)
        );
        let Limit::Link(ip) = limit(&[pipe(1_000_000, Framing::Ip)], 1500) else {
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
        let Limit::Link(shaper) = limit(&[burst], 1500) else {
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
            let Limit::Link(shaper) = limit(&[pipe], 1500) else {
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
    fn a_managed_queue_builds_up_in_the_engine() {
        let managed = PipeParams {
            discipline: Discipline::CoDel(Default::default()),
            ..pipe(10_000_000, Framing::Ethernet)
        };
        assert_eq!(limit(&[managed], 1500), Limit::Machine);
    }

    #[test]
    fn a_bucket_has_the_highest_rate_of_a_trace() {
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
        let Limit::Link(shaper) = limit(&[two], 1500) else {
            panic!("a link of at most 80 Mbit/s is slower than any machine");
        };
        assert_eq!(shaper.bytes_per_s, 10_000_000);
        let mut open = sample(1, 1);
        open.rate = None;
        let unlimited = trace(vec![sample(0, 8_000_000), open]);
        assert_eq!(limit(&[unlimited], 1500), Limit::Machine);
    }

    #[test]
    fn unlimited_and_fast_links_are_the_machines() {
        assert_eq!(limit(&[PipeParams::default()], 1500), Limit::Machine);
        assert_eq!(limit(&[], 1500), Limit::Machine);
        assert_eq!(
            limit(&[pipe(10_000_000_000, Framing::Ip)], 1500),
            Limit::Machine
        );
    }

    /// A machine of `capacity` (bytes of cost per second) with one host that always sends.
    /// Above the upper bound of load its core is behind, as one is whose packets come in bursts.
    fn settle(capacity: f64) -> f64 {
        let mut governor = Governor::new([(0, 1514)].into_iter(), false);
        let tick = Span::from_ms(20);
        let (mut bytes, mut allowed) = (0.0, SPEED_START * COST_BYTES_PER_S);
        let mut load = 0.0;
        for _ in 0..500 {
            bytes += allowed * tick.as_s();
            load = allowed / capacity;
            let packets = bytes / (1514.0 + PACKET_COST_BYTES as f64);
            let arrived = (packets as u64, (packets * 1514.0) as u64);
            for (_, shaper) in governor.look(
                load.min(1.0),
                f64::from(u8::from(load > LOAD_HIGH)),
                tick,
                |_| arrived,
            ) {
                allowed = shaper.bytes_per_s as f64;
            }
        }
        load
    }

    #[test]
    fn a_greedy_host_settles_below_the_capacity_of_the_machine() {
        for capacity in [1e8, 4e8, 1e9, 4e9] {
            let load = settle(capacity);
            assert!(
                (0.6..=LOAD_HIGH).contains(&load),
                "capacity {capacity}: load {load}"
            );
        }
    }

    /// A core that is behind as soon as it carries more than `capacity`, with bursts.
    #[test]
    fn super_packets_settle_where_the_core_is_seldom_behind() {
        for capacity in [4e8, 1e9, 4e9] {
            let hosts = [(0, longest_frame(1500, true))];
            let mut governor = Governor::new(hosts.into_iter(), true);
            let tick = Span::from_ms(20);
            let (mut bytes, mut allowed) = (0.0, SPEED_START * COST_BYTES_PER_S);
            let mut load = 0.0;
            for _ in 0..2000 {
                bytes += allowed * tick.as_s();
                load = allowed / capacity;
                let behind = if load > 0.8 { 0.5 } else { 0.0 };
                let frames = bytes / (65_549.0 + PACKET_COST_BYTES as f64);
                let arrived = (frames as u64, (frames * 65_549.0) as u64);
                for (_, shaper) in governor.look(load.min(1.0), behind, tick, |_| arrived) {
                    allowed = shaper.bytes_per_s as f64;
                }
            }
            assert!((0.5..=0.85).contains(&load), "capacity {capacity}: {load}");
        }
    }

    #[test]
    fn a_modest_host_is_left_alone() {
        let mut governor = Governor::new([(0, 1514)].into_iter(), false);
        for tick in 1..100 {
            let changes = governor.look(0.1, 0.0, Span::from_ms(20), |_| (tick, tick * 100));
            assert!(changes.is_empty());
        }
    }
}
