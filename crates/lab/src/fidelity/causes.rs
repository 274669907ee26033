//! Why packets were late: the machine stood still, or there was too much to do.
//!
//! The loop looks at its clock all the time, so it sees the machine stand still: two looks of one
//! turn lie far apart, or it wakes long after the time for which it asked or after the first
//! arrival. What was due meanwhile is late through no fault of its own, and so is what has to
//! wait until that is made good. Where no stall accounts for it, there is more to do than the loop
//! can as long as it does not come to rest for [`OVERLOAD`], or sheds arrivals.

use longhaul_core::{Span, Time};
use serde::{Deserialize, Serialize};

/// Two looks at the clock within a turn are a send call apart: of 16 frames, 100 us or so, and seldom
/// more than 1 ms where receivers are slow. One that insists on a full receiver for longer counts as
/// a stall all the same: from here it looks like one.
const HELD_UP: Span = Span::from_ms(2);
/// A wake-up later than this makes packets late by itself.
const WOKEN_LATE: Span = Span::from_us(200);
/// A core with a load of 0.85 needs nearly seven times the length of a stall to make it good.
const MADE_GOOD_IN: u64 = 8;
/// A loop that has not rested for so long has more to do than it can.
const OVERLOAD: Span = Span::from_ms(10);
/// What is shed keeps the loop from falling behind, so that it rests now and then in an overload.
const SHED_LATELY: Span = Span::from_ms(100);

/// How often the machine stood still while the core wanted to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How often.
    pub count: u64,
    /// For how long altogether, in nanoseconds.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl Stalls {
    fn add(&mut self, length: Span) {
        self.absorb(&Self {
            count: 1,
            total_ns: length.as_ns(),
            longest_ns: length.as_ns(),
        });
    }

    /// Adds those of `other`.
    pub fn absorb(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Late packets by what made them late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCause {
    /// The machine stood still.
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

/// Watches the loop's looks at the clock.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    looked: Time,
    rested: Time,
    excused_until: Time,
    sheds_until: Time,
    /// Stalls since they were taken last.
    pub(crate) stalls: Stalls,
}

impl Watch {
    /// The loop has looked at its clock, in the middle of work.
    #[inline]
    pub(crate) fn look(&mut self, now: Time) {
        let gap = now.since(self.looked);
        self.looked = now;
        if gap > HELD_UP {
            self.stood_still(now, gap);
        }
    }

    /// The loop has done something else for a while, which is no work on packets.
    pub(crate) fn resume(&mut self, now: Time) {
        self.looked = now;
    }

    /// When the loop looked last.
    pub(crate) fn looked(&self) -> Time {
        self.looked
    }

    /// The loop is back from a wait that was to end at `wanted` at the latest.
    pub(crate) fn woken(&mut self, now: Time, wanted: Time) {
        let late = now.since(wanted);
        (self.looked, self.rested) = (now, now);
        if late > WOKEN_LATE {
            self.stood_still(now, late);
        }
    }

    /// Whether the last stall still has to be made good.
    pub(crate) fn is_excused(&self) -> bool {
        self.looked <= self.excused_until
    }

    /// The loop has shed an arrival.
    pub(crate) fn shed(&mut self) {
        self.sheds_until = self.looked + SHED_LATELY;
    }

    fn stood_still(&mut self, now: Time, length: Span) {
        self.stalls.add(length);
        let made_good = Span::from_ns(length.as_ns().saturating_mul(MADE_GOOD_IN));
        self.excused_until = self.excused_until.max(now + made_good);
    }

    /// Why a packet is late that was due at `due`.
    pub(crate) fn cause(&self, due: Time) -> Cause {
        if due <= self.excused_until {
            Cause::Stall
        } else if self.looked.since(self.rested) > OVERLOAD || self.looked < self.sheds_until {
            Cause::Overload
        } else {
            Cause::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn late_wake_ups_and_long_turns_are_stalls() {
        let mut watch = Watch::default();
        watch.woken(at_us(1_100), at_us(1_000));
        watch.look(at_us(1_900));
        assert_eq!(watch.stalls, Stalls::default());
        assert_eq!(watch.cause(at_us(1_800)), Cause::Other);
        watch.woken(at_us(2_500), at_us(2_000));
        watch.look(at_us(7_500));
        let stalls = Stalls {
            count: 2,
            total_ns: 5_500_000,
            longest_ns: 5_000_000,
        };
        assert_eq!(watch.stalls, stalls);
        // What was due meanwhile, and what waits until that is made good.
        assert_eq!(watch.cause(at_us(3_000)), Cause::Stall);
        assert_eq!(watch.cause(at_us(7_500 + 40_000)), Cause::Stall);
        assert_eq!(watch.cause(at_us(7_501 + 40_000)), Cause::Other);
    }

    #[test]
    fn a_loop_that_does_not_rest_has_too_much_to_do() {
        let mut watch = Watch::default();
        watch.woken(at_us(1_000), at_us(1_000));
        for us in (1_000..11_000).step_by(100) {
            watch.look(at_us(us));
            assert_eq!(watch.cause(at_us(us)), Cause::Other);
        }
        watch.look(at_us(11_001));
        assert_eq!(watch.cause(at_us(11_000)), Cause::Overload);
        watch.woken(at_us(11_010), at_us(12_000));
        assert_eq!(watch.cause(at_us(11_010)), Cause::Other);
    }

    #[test]
    fn a_loop_that_sheds_has_too_much_to_do_though_it_rests() {
        let mut watch = Watch::default();
        watch.woken(at_us(1_000), at_us(1_000));
        watch.shed();
        watch.woken(at_us(50_000), at_us(50_000));
        assert_eq!(watch.cause(at_us(50_000)), Cause::Overload);
        watch.woken(at_us(101_000), at_us(101_000));
        assert_eq!(watch.cause(at_us(101_000)), Cause::Other);
    }
}
