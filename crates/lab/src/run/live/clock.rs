//! Experiment time on this machine: the one place where it meets machine time.

use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::{MachineTime, StampOffset};

/// How often the offset of kernel stamps is measured again.
const REFRESH: Duration = Duration::from_millis(1);

/// How experiment time passes beside machine time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// When it was t = 0.
    start: MachineTime,
    /// So many seconds of the machine are one of the experiment.
    factor: u64,
}

impl Pace {
    /// That of a run whose t = 0 is now, and which goes as fast as the machine's clock.
    pub(super) fn start() -> Self {
        Self {
            start: MachineTime::now(),
            factor: 1,
        }
    }

    /// Experiment time at a moment; `None` before t = 0.
    #[inline]
    pub(super) fn time_at(self, moment: MachineTime) -> Option<Time> {
        let passed = moment.as_ns().checked_sub(self.start.as_ns())?;
        Some(Time::from_ns(passed / self.factor))
    }

    /// Experiment time now.
    #[inline]
    pub(super) fn now(self) -> Time {
        self.time_at(MachineTime::now()).unwrap_or(Time::ZERO)
    }

    /// When it is that experiment time.
    #[inline]
    pub(super) fn moment_of(self, time: Time) -> MachineTime {
        self.start + self.duration(time.since(Time::ZERO))
    }

    /// How long a span of the experiment takes.
    #[inline]
    pub(super) fn duration(self, span: Span) -> Duration {
        Duration::from_nanos(span.as_ns().saturating_mul(self.factor))
    }
}

/// Experiment time and the machine's clocks, turned into one another.
#[derive(Debug)]
pub(super) struct RealClock {
    pace: Pace,
    offset: StampOffset,
    refreshed: MachineTime,
}

impl RealClock {
    /// A clock whose t = 0 is now.
    pub(super) fn start() -> Self {
        let pace = Pace::start();
        Self {
            pace,
            offset: StampOffset::measure(),
            refreshed: pace.start,
        }
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Measures the offset of kernel stamps again when that is due.
    #[inline]
    pub(super) fn refresh(&mut self, now: Time) {
        let now = self.pace.moment_of(now);
        if now.since(self.refreshed) >= REFRESH {
            self.offset.refresh();
            self.refreshed = now;
        }
    }

    /// The experiment time of a kernel stamp; `None` for one from before t = 0.
    #[inline]
    pub(super) fn of_stamp(&self, stamp_ns: u64) -> Option<Time> {
        self.pace.time_at(self.offset.to_machine_time(stamp_ns))
    }

    /// How often the machine's clock has been stepped since t = 0.
    pub(super) fn steps(&self) -> u64 {
        self.offset.steps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiment_time_passes_at_its_pace() {
        let start = MachineTime::from_ns(1_000_000);
        for factor in [1, 10] {
            let pace = Pace { start, factor };
            assert_eq!(pace.time_at(MachineTime::from_ns(999_999)), None);
            assert_eq!(pace.time_at(start), Some(Time::ZERO));
            let (second, took) = (Span::from_s(1), Duration::from_secs(factor));
            assert_eq!(pace.duration(second), took);
            assert_eq!(pace.time_at(start + took), Some(Time::ZERO + second));
            assert_eq!(pace.moment_of(Time::ZERO + second), start + took);
        }
    }
}
