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

/// No draw of a normal distribution is further below the mean, in standard deviations.
const MAX_DEVIATIONS: f64 = 8.3;

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
                mean - MAX_DEVIATIONS * deviation
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::trace::Sample;

    use super::*;

    fn spread(distribution: Distribution, correlation: f64) -> Span {
        let jitter = Jitter {
            distribution,
            correlation,
            reorder: false,
        };
        let params = PipeParams {
            delay: Span::from_ms(5),
            jitter: Some(Arc::new(jitter)),
            ..PipeParams::default()
        };
        params.least_delay()
    }

    #[test]
    fn a_distribution_counts_with_its_least_sample() {
        let ms = Span::from_ms;
        // A nanosecond is left for rounding.
        let below = |span: Span| span.saturating_sub(Span::from_ns(1));
        let uniform = Distribution::uniform(ms(3), ms(7)).unwrap();
        assert_eq!(spread(uniform, 0.0), below(ms(3)));
        let narrow = Distribution::normal(ms(5), Span::from_us(100)).unwrap();
        assert_eq!(spread(narrow.clone(), 0.0), below(Span::from_us(4_170)));
        assert_eq!(spread(narrow, 0.5), Span::ZERO);
        let wide = Distribution::normal(ms(5), ms(2)).unwrap();
        assert_eq!(spread(wide, 0.0), Span::ZERO);
        let gamma = Distribution::gamma(ms(4), ms(1), ms(1)).unwrap();
        assert_eq!(spread(gamma, 0.9), below(ms(4)));
        let quantiles = vec![1e6, 2e6].into();
        assert_eq!(
            spread(Distribution::Empirical { quantiles }, 0.0),
            below(ms(1))
        );
    }

    #[test]
    fn samples_never_lie_below_the_bound() {
        let ms = Span::from_ms;
        for distribution in [
            Distribution::normal(ms(5), Span::from_us(550)).unwrap(),
            Distribution::pareto(ms(1), ms(2), ms(1)).unwrap(),
            Distribution::log_normal(ms(1), ms(2), ms(1)).unwrap(),
            Distribution::gamma(ms(1), ms(2), ms(1)).unwrap(),
        ] {
            // The engine's rarest draw.
            let rarest = distribution.quantile(1.0 / 4_503_599_627_370_496.0);
            let bound = spread(distribution.clone(), 0.0).as_ns() as f64;
            assert!(
                bound > 0.0 && rarest.round() >= bound,
                "{distribution:?}: {rarest} {bound}"
            );
        }
    }

    #[test]
    fn a_trace_counts_with_its_least_delay() {
        let sample = |delay| Sample {
            at: Span::ZERO,
            delay,
            rate: None,
            loss: None,
        };
        let series = Series::Samples {
            samples: vec![sample(Some(Span::from_ms(2))), sample(None)],
            interpolate: true,
        };
        let params = PipeParams {
            delay: Span::from_ms(5),
            trace: Some(Arc::new(Trace {
                series,
                offset: Span::ZERO,
                period: None,
            })),
            ..PipeParams::default()
        };
        assert_eq!(params.least_delay(), Span::from_ms(2));
    }
}
