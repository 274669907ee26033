//! The machine's clocks, and the offset that turns kernel stamps into machine time.
//!
//! [`MachineTime`] is not experiment time, which may pass at another pace; a user of both converts
//! them in one place. It is `CLOCK_MONOTONIC`, which nobody can set. The kernel stamps packets with
//! `CLOCK_REALTIME`, so the offset between the two is measured regularly; a jump means that
//! somebody has stepped the clock, and the run reports that.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `clock`.
#[inline]
pub(crate) fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds of `CLOCK_REALTIME`, the clock of packet stamps.
#[inline]
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// A moment of `CLOCK_MONOTONIC`. Spans between two are [`Duration`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineTime {
    ns: u64,
}

impl MachineTime {
    /// This moment.
    #[inline]
    pub fn now() -> Self {
        Self { ns: monotonic_ns() }
    }

    /// So many nanoseconds after the clock began.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since the clock began.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

impl Add<Duration> for MachineTime {
    type Output = Self;

    #[inline]
    fn add(self, span: Duration) -> Self {
        let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self::from_ns(self.ns.saturating_add(ns))
    }
}

/// Turns `CLOCK_REALTIME` stamps into `CLOCK_MONOTONIC` time.
#[derive(Debug)]
pub struct StampOffset {
    offset_ns: i64,
    steps: u64,
}

/// A change of offset beyond this is a step of the clock, not noise of the measurement.
const STEP_NS: u64 = 50_000;
/// A measurement during which more time than this passed is repeated.
const BRACKET_NS: u64 = 1_000;

impl StampOffset {
    /// Measures the offset.
    pub fn measure() -> Self {
        Self {
            offset_ns: measure_offset(),
            steps: 0,
        }
    }

    /// Measures again; a jump is counted and followed.
    pub fn refresh(&mut self) {
        let offset = measure_offset();
        if offset.abs_diff(self.offset_ns) > STEP_NS {
            self.steps += 1;
        }
        self.offset_ns = offset;
    }

    /// How often the clock has been stepped since the first measurement.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A kernel stamp as machine time.
    #[inline]
    pub fn to_machine_time(&self, realtime_ns: u64) -> MachineTime {
        MachineTime::from_ns(realtime_ns.saturating_add_signed(-self.offset_ns))
    }
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, from the tightest of a few readings.
fn measure_offset() -> i64 {
    let mut best = (u64::MAX, 0);
    for _ in 0..4 {
        let before = monotonic_ns();
        let real = realtime_ns();
        let after = monotonic_ns();
        let bracket = after - before;
        if bracket < best.0 {
            best = (bracket, real as i64 - (before + bracket / 2) as i64);
        }
        if bracket < BRACKET_NS {
            break;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_now_become_the_monotonic_now() {
        let offset = StampOffset::measure();
        let before = monotonic_ns();
        let stamp = offset.to_machine_time(realtime_ns()).as_ns();
        let after = monotonic_ns();
        assert!(
            stamp + STEP_NS > before && stamp < after + STEP_NS,
            "{before} {stamp} {after}"
        );
        assert_eq!(offset.steps(), 0);
    }
}
