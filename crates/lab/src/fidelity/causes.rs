//! Why packets were late: the machine stalled, or there was too much to do.
//!
//! The loop reads its clock all the time, so it notices a **stall** of the machine: two readings of
//! one turn lie far apart, or it wakes long after its deadline or after the first arrival. Packets
//! due during a stall, and until the loop has caught up with it, are late because of the stall.
//! Where no stall explains a late packet, the loop is overloaded if it has not come to rest for
//! [`OVERLOAD`] or sheds arrivals.
//!
//! All times are machine time, whatever the dilation.

use std::time::Duration;

use longhaul_linux::clock::MachineTime;
use serde::{Deserialize, Serialize};

use crate::pace::Now;

/// Two readings of the clock within a turn are at most a send call apart: 100 us or so for 16
/// frames, and seldom more than 1 ms where receivers are slow. A call that retries a full receiver
/// for longer counts as a stall too, since from here the two cannot be distinguished.
const HELD_UP: Duration = Duration::from_nanos(LONG_NS);
/// From this length on a stall is noticed whatever the loop does, and counts as long.
pub const LONG_NS: u64 = 2_000_000;
/// A wake-up later than this is a stall: it makes packets late by itself.
pub const WOKEN_LATE_NS: u64 = 200_000;
const WOKEN_LATE: Duration = Duration::from_nanos(WOKEN_LATE_NS);
/// A core with a load of 0.85 needs nearly seven times the length of a stall to catch up with it.
const MADE_GOOD_IN: u32 = 8;
/// A loop that has not come to rest for this long is overloaded.
const OVERLOAD: Duration = Duration::from_millis(10);
/// The loop counts as overloaded for this long after it has shed an arrival: shedding keeps it from
/// falling behind, so that it comes to rest now and then in an overload too.
const SHED_LATELY: Duration = Duration::from_millis(100);

/// How often the machine stalled while the core wanted to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How often.
    pub count: u64,
    /// Those of them that lasted [`LONG_NS`] or longer.
    #[serde(default)]
    pub long: u64,
    /// For how long altogether, in nanoseconds of the machine.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl Stalls {
    /// Counts one.
    pub fn add(&mut self, length: Duration) {
        let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.absorb(&Self {
            count: 1,
            long: u64::from(ns >= LONG_NS),
            total_ns: ns,
            longest_ns: ns,
        });
    }

    /// Adds those of `other`.
    pub fn absorb(&mut self, other: &Self) {
        self.count += other.count;
        self.long += other.long;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Late packets by what made them late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCause {
    /// The machine stalled.
    pub stall: u64,
    /// The loop had more to do than it could.
    pub overload: u64,
    /// Neither: a slow send call, a wake-up a little late.
    pub other: u64,
}

impl ByCause {
    /// Adds those of `more`.
    pub fn absorb(&mut self, more: &Self) {
        self.stall += more.stall;
        self.overload += more.overload;
        self.other += more.other;
    }
}

/// What makes packets late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Stall,
    Overload,
    Other,
}

/// Detects stalls from the loop's readings of the clock.
#[derive(Debug)]
pub(crate) struct StallDetector {
    last: Now,
    rested: MachineTime,
    excused_until: MachineTime,
    sheds_until: MachineTime,
    /// Stalls since they were taken last.
    pub(crate) stalls: Stalls,
}

impl StallDetector {
    /// For a loop that begins now.
    pub(crate) fn new(begin: Now) -> Self {
        Self {
            last: begin,
            rested: begin.at,
            excused_until: begin.at,
            sheds_until: begin.at,
            stalls: Stalls::default(),
        }
    }

    /// The loop has read its clock, in the middle of work.
    #[inline]
    pub(crate) fn observe(&mut self, now: Now) {
        let before = std::mem::replace(&mut self.last, now);
        if now.at > before.at + HELD_UP {
            self.note_stall(now.at, before.at);
        }
    }

    /// The loop has done something other than handle packets, which is not a stall.
    pub(crate) fn resume(&mut self, now: Now) {
        self.last = now;
    }

    /// The loop's last reading of the clock.
    pub(crate) fn last(&self) -> Now {
        self.last
    }

    /// The loop is back from a wait that was to end at `wanted` at the latest.
    pub(crate) fn woken(&mut self, now: Now, wanted: MachineTime) {
        (self.last, self.rested) = (now, now.at);
        if now.at > wanted + WOKEN_LATE {
            self.note_stall(now.at, wanted);
        }
    }

    /// Whether the loop is still catching up with the last stall.
    pub(crate) fn is_excused(&self) -> bool {
        self.last.at <= self.excused_until
    }

    /// The loop has shed an arrival.
    pub(crate) fn shed(&mut self) {
        self.sheds_until = self.last.at + SHED_LATELY;
    }

    fn note_stall(&mut self, now: MachineTime, since: MachineTime) {
        let length = now.since(since);
        self.stalls.add(length);
        let made_good = length.saturating_mul(MADE_GOOD_IN);
        self.excused_until = self.excused_until.max(now + made_good);
    }

    /// Why a packet is late that was due at `due`.
    pub(crate) fn cause(&self, due: MachineTime) -> Cause {
        let last = self.last.at;
        if due <= self.excused_until {
            Cause::Stall
        } else if last.since(self.rested) > OVERLOAD || last < self.sheds_until {
            Cause::Overload
        } else {
            Cause::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Time;

    /// The experiment's time, which is not asked for.
    fn now(us: u64) -> Now {
        Now {
            at: at_us(us),
            time: Time::ZERO,
        }
    }

    fn at_us(us: u64) -> MachineTime {
        MachineTime::from_ns(us * 1_000)
    }

    #[test]
    fn late_wake_ups_and_long_turns_are_stalls() {
        let mut detector = StallDetector::new(now(0));
        detector.woken(now(1_100), at_us(1_000));
        detector.observe(now(1_900));
        assert_eq!(detector.stalls, Stalls::default());
        assert_eq!(detector.cause(at_us(1_800)), Cause::Other);
        detector.woken(now(2_500), at_us(2_000));
        detector.observe(now(7_500));
        let stalls = Stalls {
            count: 2,
            long: 1,
            total_ns: 5_500_000,
            longest_ns: 5_000_000,
        };
        assert_eq!(detector.stalls, stalls);
        // What was due meanwhile, and what waits until that is made good.
        assert_eq!(detector.cause(at_us(3_000)), Cause::Stall);
        assert_eq!(detector.cause(at_us(7_500 + 40_000)), Cause::Stall);
        assert_eq!(detector.cause(at_us(7_501 + 40_000)), Cause::Other);
    }

    #[test]
    fn a_loop_that_does_not_rest_has_too_much_to_do() {
        let mut detector = StallDetector::new(now(0));
        detector.woken(now(1_000), at_us(1_000));
        for us in (1_000..11_000).step_by(100) {
            detector.observe(now(us));
            assert_eq!(detector.cause(at_us(us)), Cause::Other);
        }
        detector.observe(now(11_001));
        assert_eq!(detector.cause(at_us(11_000)), Cause::Overload);
        detector.woken(now(11_010), at_us(12_000));
        assert_eq!(detector.cause(at_us(11_010)), Cause::Other);
    }

    #[test]
    fn a_loop_that_sheds_has_too_much_to_do_though_it_rests() {
        let mut detector = StallDetector::new(now(0));
        detector.woken(now(1_000), at_us(1_000));
        detector.shed();
        detector.woken(now(50_000), at_us(50_000));
        assert_eq!(detector.cause(at_us(50_000)), Cause::Overload);
        detector.woken(now(101_000), at_us(101_000));
        assert_eq!(detector.cause(at_us(101_000)), Cause::Other);
    }
}
