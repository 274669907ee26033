//! The stretches of time between the samples of a trace, and the values in them.
//!
//! Time runs: before the series (the pipe's own values), then the samples, over and over where
//! the trace has a period, else the last one for ever. Any point in time is found by one
//! division and one bisection, however many rounds have passed.
//!
//! Left out: the integral of the rate (`rates`).

use crate::time::Span;
use crate::trace::{Capacity, Sample, Series, Trace};
use crate::units::{Probability, Rate, between};

/// A time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// What a sample that does not exist records.
const BLANK: Sample = Sample {
    at: Span::ZERO,
    delay: None,
    rate: None,
    loss: None,
};

/// A stretch of time over which one sample holds, or a line leads from it to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The round of the series; 0 before it.
    pub(super) cycle: u64,
    /// The sample; `None` before the series.
    pub(super) index: Option<usize>,
    /// From here on, in experiment time.
    pub(super) start: u64,
    /// Up to here; [`NEVER`] without end.
    pub(super) end: u64,
}

impl Stretch {
    /// How far `t` lies inside.
    fn offset_of(&self, t: u64) -> u64 {
        t.clamp(self.start, self.end) - self.start
    }

    /// Its length.
    pub(super) const fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The samples of a trace laid out in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline<'a> {
    /// Those that are ever reached.
    samples: &'a [Sample],
    interpolate: bool,
    offset: u64,
    pub(super) period: Option<u64>,
}

impl<'a> Timeline<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let period = trace.period.map(Span::as_ns).filter(|&period| period > 0);
        let (samples, interpolate) = match &trace.series {
            Series::Samples {
                samples,
                interpolate,
            } => (samples.as_slice(), *interpolate),
            Series::Opportunities { .. } => (&[][..], false),
        };
        let reached = period.map_or(samples.len(), |period| {
            // The last one may lie anywhere, so look at it before bisecting.
            match samples.last() {
                Some(last) if last.at.as_ns() >= period => {
                    samples.partition_point(|sample| sample.at.as_ns() < period)
                }
                _ => samples.len(),
            }
        });
        Self {
            samples: &samples[..reached],
            interpolate,
            offset: trace.offset.as_ns(),
            period,
        }
    }

    /// How many stretches a round has; at least one.
    pub(super) const fn stretches(&self) -> usize {
        if self.samples.is_empty() {
            1
        } else {
            self.samples.len()
        }
    }

    fn sample(&self, index: usize) -> &'a Sample {
        self.samples.get(index).unwrap_or(&BLANK)
    }

    /// When a sample begins to hold within its round: the first from the beginning.
    fn begins(&self, index: usize) -> u64 {
        if index == 0 {
            0
        } else {
            self.sample(index).at.as_ns()
        }
    }

    /// The stretch at t = 0.
    pub(super) const fn first(&self) -> Stretch {
        Stretch {
            cycle: 0,
            index: None,
            start: 0,
            end: self.offset,
        }
    }

    /// The stretch of one sample in one round; `None` after the end of time.
    pub(super) fn stretch(&self, cycle: u64, index: usize) -> Option<Stretch> {
        let round = u128::from(cycle) * u128::from(self.period.unwrap_or(0));
        let base = u64::try_from(round).ok()?.checked_add(self.offset)?;
        let start = base.checked_add(self.begins(index))?;
        let end = if index + 1 < self.stretches() {
            base.saturating_add(self.begins(index + 1))
        } else {
            self.period
                .map_or(NEVER, |period| base.saturating_add(period))
        };
        let end = end.max(start);
        (start < NEVER).then_some(Stretch {
            cycle,
            index: Some(index),
            start,
            end,
        })
    }

    /// The stretch that follows; `None` after the last.
    pub(super) fn next(&self, stretch: &Stretch) -> Option<Stretch> {
        match stretch.index {
            None => self.stretch(0, 0),
            Some(index) if index + 1 < self.stretches() => self.stretch(stretch.cycle, index + 1),
            Some(_) => {
                self.period?;
                self.stretch(stretch.cycle.checked_add(1)?, 0)
            }
        }
    }

    /// The stretch of `t`. `near` is tried first, and the one behind it.
    pub(super) fn find(&self, t: u64, near: Option<&Stretch>) -> Stretch {
        let holds = |stretch: &Stretch| stretch.start <= t && t < stretch.end;
        if let Some(near) = near.filter(|near| near.start <= t) {
            if holds(near) {
                return *near;
            }
            if let Some(next) = self.next(near).filter(holds) {
                return next;
            }
        }
        let Some(since) = t.checked_sub(self.offset) else {
            return self.first();
        };
        let (cycle, within) = match self.period {
            Some(period) => (since / period, since % period),
            None => (0, since),
        };
        let behind = self
            .samples
            .partition_point(|sample| sample.at.as_ns() <= within);
        let found = self.stretch(cycle, behind.saturating_sub(1));
        // Only the very last nanosecond has no stretch; nothing happens there.
        found.unwrap_or(Stretch {
            cycle,
            index: None,
            start: t,
            end: NEVER,
        })
    }

    /// What a field is at the start and at the end of a stretch. The end is `None` where the
    /// value at the start holds throughout.
    fn ends<T>(
        &self,
        stretch: &Stretch,
        field: impl Fn(&Sample) -> Option<T>,
    ) -> Option<(T, Option<T>)> {
        let index = stretch.index?;
        let from = field(self.sample(index))?;
        let to = if !self.interpolate {
            None
        } else if index + 1 < self.stretches() {
            field(self.sample(index + 1))
        } else {
            self.period.and_then(|_| field(self.sample(0)))
        };
        Some((from, to))
    }

    pub(super) fn delay(&self, stretch: &Stretch, t: u64) -> Option<Span> {
        let (from, to) = self.ends(stretch, |sample| sample.delay)?;
        let (from, to) = (from.as_ns(), to.unwrap_or(from).as_ns());
        let (part, whole) = (stretch.offset_of(t), stretch.len().max(1));
        Some(Span::from_ns(between(from, to, part, whole)))
    }

    pub(super) fn loss(&self, stretch: &Stretch, t: u64) -> Option<Probability> {
        let (from, to) = self.ends(stretch, |sample| sample.loss)?;
        let (part, whole) = (stretch.offset_of(t), stretch.len().max(1));
        Some(from.towards(to.unwrap_or(from), part, whole))
    }

    pub(super) fn rate(&self, stretch: &Stretch, t: u64) -> Option<Capacity> {
        let (from, to) = self.ends(stretch, |sample| sample.rate)?;
        let (Some(low), Some(high)) = (bits_per_s(from), to.and_then(bits_per_s)) else {
            return Some(from);
        };
        let (part, whole) = (stretch.offset_of(t), stretch.len().max(1));
        let rate = Rate::from_bits_per_s(between(low, high, part, whole));
        Some(rate.map_or(Capacity::Outage, Capacity::Limited))
    }

    /// Bits per second at the start and at the end of a stretch, linear in between; `None` is
    /// unlimited. `fallback` holds where nothing is recorded.
    pub(super) fn line(&self, stretch: &Stretch, fallback: Option<Rate>) -> Option<(u64, u64)> {
        let Some((from, to)) = self.ends(stretch, |sample| sample.rate) else {
            return fallback.map(|rate| (rate.bits_per_s(), rate.bits_per_s()));
        };
        let from = bits_per_s(from)?;
        Some((from, to.and_then(bits_per_s).unwrap_or(from)))
    }
}

/// Bits per second; `None` is unlimited.
const fn bits_per_s(capacity: Capacity) -> Option<u64> {
    match capacity {
        Capacity::Outage => Some(0),
        Capacity::Limited(rate) => Some(rate.bits_per_s()),
        Capacity::Unlimited => None,
    }
}
