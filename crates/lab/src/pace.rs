//! Experiment time and machine time: the one place that converts between them.
//!
//! An experiment's times are [`Time`] and [`Span`], the machine's are [`MachineTime`] and
//! [`Duration`], so that the compiler rejects a mixture. **Dilation** n: n seconds of the machine
//! carry one of the experiment. Experiment files and results are in experiment time: delays, rates,
//! tolerance, lateness, time-outs of programs. Whatever the machine does is in machine time: how
//! long a turn of the loop takes, how long the machine stalls, how fast a kernel's token bucket is
//! refilled, how long a process may take to end.

use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::MachineTime;
use longhaul_plan::plan::RunClock;

/// So many seconds of the machine carry one of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dilation(u32);

impl Dilation {
    /// None: the experiment goes as fast as the machine's clock.
    pub const NONE: Self = Self(1);

    #[cfg(test)]
    pub(crate) const fn by(factor: u32) -> Self {
        assert!(factor > 0, "time passes");
        Self(factor)
    }

    /// That of a clock on which programs run.
    pub const fn of(clock: RunClock) -> Self {
        match clock {
            RunClock::Real | RunClock::Virtual => Self::NONE,
        }
    }

    /// How long a span of the experiment takes.
    #[inline]
    pub(crate) const fn duration(self, span: Span) -> Duration {
        Duration::from_nanos(self.machine_ns(span.as_ns()))
    }

    /// How much of the experiment passes in so long.
    #[inline]
    pub(crate) fn span(self, duration: Duration) -> Span {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Span::from_ns(self.experiment_ns(ns))
    }

    /// What a number per second of the experiment is per second of the machine.
    pub(crate) const fn per_machine_second(self, per_s: u64) -> u64 {
        per_s / self.0 as u64
    }

    /// What a number per second of the machine is per second of the experiment.
    pub(crate) const fn per_experiment_second(self, per_s: u64) -> u64 {
        per_s.saturating_mul(self.0 as u64)
    }

    const fn machine_ns(self, ns: u64) -> u64 {
        ns.saturating_mul(self.0 as u64)
    }

    const fn experiment_ns(self, ns: u64) -> u64 {
        ns / self.0 as u64
    }
}

/// A moment by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The machine's.
    pub(crate) at: MachineTime,
    /// The experiment's; t = 0 until it begins.
    pub(crate) time: Time,
}

/// How experiment time passes beside machine time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// When it was t = 0.
    start: MachineTime,
    dilation: Dilation,
}

impl Pace {
    /// That of an experiment whose t = 0 was at `start`.
    pub(crate) const fn new(start: MachineTime, dilation: Dilation) -> Self {
        Self { start, dilation }
    }

    /// The moment at which it was t = 0.
    pub(crate) const fn begin(self) -> Now {
        Now {
            at: self.start,
            time: Time::ZERO,
        }
    }

    /// Experiment time at a moment; `None` before t = 0.
    #[inline]
    pub(crate) fn time_at(self, moment: MachineTime) -> Option<Time> {
        let passed = moment.as_ns().checked_sub(self.start.as_ns())?;
        Some(Time::from_ns(self.dilation.experiment_ns(passed)))
    }

    /// A moment by both clocks.
    #[inline]
    pub(crate) fn read(self, moment: MachineTime) -> Now {
        Now {
            at: moment,
            time: self.time_at(moment).unwrap_or(Time::ZERO),
        }
    }

    /// The machine's moment at an experiment time.
    #[inline]
    pub(crate) const fn moment_of(self, time: Time) -> MachineTime {
        let passed = self.dilation.machine_ns(time.as_ns());
        MachineTime::from_ns(self.start.as_ns().saturating_add(passed))
    }

    /// Machine time since t = 0 at a moment.
    #[inline]
    pub(crate) const fn passed(self, moment: MachineTime) -> Duration {
        moment.since(self.start)
    }

    /// How long a span of the experiment takes.
    #[inline]
    pub(crate) const fn duration(self, span: Span) -> Duration {
        self.dilation.duration(span)
    }

    /// How much of the experiment passes in so long.
    #[inline]
    pub(crate) fn span(self, duration: Duration) -> Span {
        self.dilation.span(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiment_time_passes_at_its_pace() {
        let start = MachineTime::from_ns(1_000_000);
        for factor in [1, 10] {
            let pace = Pace::new(start, Dilation::by(factor));
            let before = MachineTime::from_ns(999_999);
            assert_eq!(pace.time_at(before), None);
            assert_eq!(pace.read(before).time, Time::ZERO);
            assert_eq!(pace.time_at(start), Some(Time::ZERO));
            assert_eq!(pace.read(start), pace.begin());
            let (second, took) = (Span::from_s(1), Duration::from_secs(factor.into()));
            assert_eq!(pace.duration(second), took);
            assert_eq!(pace.span(took), second);
            assert_eq!(pace.passed(start + took), took);
            let now = pace.read(start + took);
            assert_eq!((now.at, now.time), (start + took, Time::ZERO + second));
            assert_eq!(pace.moment_of(now.time), now.at);
        }
    }

    #[test]
    fn rates_are_as_much_slower_as_time_is() {
        let ten = Dilation::by(10);
        assert_eq!(ten.per_machine_second(1_000_000_000), 100_000_000);
        assert_eq!(ten.per_experiment_second(100_000_000), 1_000_000_000);
        assert_eq!(ten.per_experiment_second(u64::MAX), u64::MAX);
        assert_eq!(Dilation::NONE.per_machine_second(7), 7);
        assert_eq!(Dilation::of(RunClock::Real), Dilation::NONE);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let pace = Pace::new(MachineTime::from_ns(5), Dilation::by(10));
        assert_eq!(pace.moment_of(Time::MAX), MachineTime::from_ns(u64::MAX));
        assert_eq!(pace.duration(Span::MAX), Duration::from_nanos(u64::MAX));
        let longest = pace.span(Duration::MAX);
        assert_eq!(longest, Span::from_ns(u64::MAX / 10));
    }
}
