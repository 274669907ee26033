//! The least delay of a pipe: how long a core can go on without hearing from the other end.
//!
//! Theory: cores that simulate conservatively go on as far as nothing from another core can still
//! come in between (Chandy and Misra 1979). A packet that enters a cut pipe now comes out no
//! sooner than its least delay later, so the least of all cut pipes is the *look-ahead* of a
//! partition, and a pipe that may let something through at once cannot be cut at all.
//!
//! The time to send a packet is not counted: it depends on the packet, and rates change.
//!
//! Left out: changes during a run; callers lower what they know to fall.

use longhaul_core::topology::PipeParams;
use longhaul_core::{Span, Topology};

/// The least time from entering a pipe to coming out of it, whatever is drawn and whenever.
pub fn least_delay(params: &PipeParams) -> Span {
    params.least_delay()
}

/// The least delay of each pipe as the run begins.
pub fn least_delays(topology: &Topology) -> Vec<Span> {
    let pipes = topology.pipes().iter();
    pipes.map(|pipe| least_delay(&pipe.params)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul_core::params::{Distribution, Jitter};
    use longhaul_core::trace::{Sample, Series, Trace};

    use super::*;

    fn spread(distribution: Distribution, correlation: f64) -> Span {
        let jitter = Jitter {
            distribution,
            correlation,
            reorder: false,
        };
        least_delay(&PipeParams {
            delay: Span::from_ms(5),
            jitter: Some(Arc::new(jitter)),
            ..PipeParams::default()
        })
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
        assert_eq!(least_delay(&params), Span::from_ms(2));
    }
}
