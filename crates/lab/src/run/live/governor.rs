//! How fast hosts may send that only the machine limits.
//!
//! Its speed is unknown and changes, so the [`Governor`] watches the core: while it has time to
//! spare, buckets grow, and before it has none, they shrink. Programs that can wait then never
//! overrun the machine. It knows no experiment time: the core's load, what a bucket lets through
//! and how long that takes are all the machine's.

use std::time::Duration;

use longhaul_linux::sandbox::Shaper;

use crate::run::live::nic::{COST_BYTES_PER_S, PACKET_COST_BYTES, machine_shaper};

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
const LOAD_CAREFUL: f64 = 0.80;
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
        elapsed: Duration,
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
                let allowed = COST_BYTES_PER_S * host.applied * elapsed.as_secs_f64();
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
    use crate::run::live::nic::longest_frame;

    /// A machine of `capacity` (bytes of cost per second) with one host that always sends.
    /// Above the upper bound of load its core is behind, as one is whose packets come in bursts.
    fn settle(capacity: f64) -> f64 {
        let mut governor = Governor::new([(0, 1514)].into_iter(), false);
        let tick = Duration::from_millis(20);
        let (mut bytes, mut allowed) = (0.0, SPEED_START * COST_BYTES_PER_S);
        let mut load = 0.0;
        for _ in 0..500 {
            bytes += allowed * tick.as_secs_f64();
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
            let tick = Duration::from_millis(20);
            let (mut bytes, mut allowed) = (0.0, SPEED_START * COST_BYTES_PER_S);
            let mut load = 0.0;
            for _ in 0..2000 {
                bytes += allowed * tick.as_secs_f64();
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
            let changes =
                governor.look(0.1, 0.0, Duration::from_millis(20), |_| (tick, tick * 100));
            assert!(changes.is_empty());
        }
    }
}
