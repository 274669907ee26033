//! The least delay of a pipe: a bound that every packet keeps, whatever is drawn or recorded.
//!
//! Engines on several cores look ahead by it ([`crate::parallel`]). Each mechanism has its reason:
//!
//! - queue, rate, a bucket, pacing by opportunities, an element that holds, a reordering that holds:
//!   they only add to the delay, so they count as nothing;
//! - a constant delay is itself;
//! - jitter is drawn from a distribution, of which it is the lower end. A normal distribution ends
//!   where its rarest independent draw lies (a probability of 2^-53 is 8.3 deviations below the
//!   mean); correlated draws have no such end short of zero;
//! - a recorded delay is at least the least sample, and at least the pipe's own where some sample
//!   leaves that in force or the series begins later than the run; in between, delays are
//!   interpolated;
//! - that a packet keeps its place behind others only makes it later.
//!
//! Left out: changes during a run, which the caller has to know of.

use super::{Distribution, Jitter, PipeParams};
use crate::time::Span;
use crate::trace::{Series, Trace};

/// So many deviations below the mean lies the rarest draw of a normal distribution.
const RAREST: f64 = 8.3;

impl PipeParams {
    /// The least time from a packet's entry until it comes out, that these parameters ever allow.
    pub fn least_delay(&self) -> Span {
        let drawn = match &self.jitter {
            Some(jitter) => jitter.least(),
            None => self.delay,
        };
        match &self.trace {
            Some(trace) => least_recorded(trace, drawn),
            None => drawn,
        }
    }
}

impl Jitter {
    /// A lower bound of all draws, a nanosecond below the distribution's end, for rounding.
    fn least(&self) -> Span {
        let ns = match &self.distribution {
            Distribution::Uniform { low, .. } => *low,
            Distribution::Normal { mean, deviation } if self.correlation == 0.0 => {
                mean - RAREST * deviation
            }
            Distribution::Normal { .. } => 0.0,
            Distribution::Pareto { base, scale, .. } => base + scale,
            Distribution::LogNormal { base, .. } | Distribution::Gamma { base, .. } => *base,
            Distribution::Empirical { quantiles } => {
                quantiles.iter().copied().fold(f64::INFINITY, f64::min)
            }
        };
        if ns.is_finite() {
            Span::from_ns((ns as u64).saturating_sub(1)) // the cast cuts off below zero
        } else {
            Span::ZERO
        }
    }
}

/// The least of a trace's delays, with `own` for samples that have none.
fn least_recorded(trace: &Trace, own: Span) -> Span {
    match &trace.series {
        Series::Opportunities { .. } => own,
        Series::Samples { samples, .. } => {
            let delays = samples.iter().map(|sample| sample.delay.unwrap_or(own));
            let before = (trace.offset > Span::ZERO).then_some(own);
            delays.chain(before).min().unwrap_or(own)
        }
    }
}
