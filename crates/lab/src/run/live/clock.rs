//! The real clock of a run: experiment time that follows the machine's monotonic clock.

use longhaul_core::Time;
use longhaul_linux::clock::{StampOffset, monotonic_ns};

/// How often the offset of kernel stamps is measured again.
const REFRESH_NS: u64 = 1_000_000;

/// Experiment time and the machine's clocks, turned into one another.
#[derive(Debug)]
pub(super) struct RealClock {
    start_ns: u64,
    offset: StampOffset,
    refreshed_ns: u64,
}

impl RealClock {
    /// A clock whose t = 0 is now.
    pub(super) fn start() -> Self {
        let start_ns = monotonic_ns();
        Self {
            start_ns,
            offset: StampOffset::measure(),
            refreshed_ns: start_ns,
        }
    }

    /// Experiment time now.
    #[inline]
    pub(super) fn now(&self) -> Time {
        Time::from_ns(monotonic_ns().saturating_sub(self.start_ns))
    }

    /// Measures the offset of kernel stamps again when that is due.
    #[inline]
    pub(super) fn refresh(&mut self, now: Time) {
        let now_ns = self.to_monotonic(now);
        if now_ns - self.refreshed_ns >= REFRESH_NS {
            self.offset.refresh();
            self.refreshed_ns = now_ns;
        }
    }

    /// The experiment time of a kernel stamp; `None` for one from before t = 0.
    #[inline]
    pub(super) fn of_stamp(&self, stamp_ns: u64) -> Option<Time> {
        self.offset
            .to_monotonic(stamp_ns)
            .checked_sub(self.start_ns)
            .map(Time::from_ns)
    }

    /// The monotonic time of a point in experiment time.
    #[inline]
    pub(super) fn to_monotonic(&self, time: Time) -> u64 {
        self.start_ns.saturating_add(time.as_ns())
    }

    /// How often the machine's clock has been stepped since t = 0.
    pub(super) fn steps(&self) -> u64 {
        self.offset.steps()
    }
}
