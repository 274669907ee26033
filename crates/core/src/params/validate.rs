//! The ranges of all parameters, with what to write instead of a value outside them.
//!
//! What passes here never makes the engine panic or compute nonsense; the mechanisms themselves
//! hold on any value.
//!
//! Left out: traces (checked where they are read) and what depends on the topology.

use thiserror::Error;

use crate::params::{
    CoDel, Discipline, Distribution, FqCodel, Jitter, LossModel, Pie, PipeParams, Red,
};
use crate::special::MIN_SHAPE;
use crate::time::Span;
use crate::units::Bytes;

/// Why a parameter cannot be, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {remedy}")]
pub struct ParamError {
    /// What is wrong, naming the value.
    pub problem: String,
    /// What would be right.
    pub remedy: String,
}

/// The longest mean delay in nanoseconds: a year. Longer ones are slips, and far from the end of
/// 64-bit time.
const MAX_MEAN_NS: f64 = 365.0 * 86_400.0 * 1e9;

/// The widest normal distribution, in means: there the density differs by 1/20000 between its
/// middle and its cuts, and the computation loses a few digits.
const MAX_RELATIVE_DEVIATION: f64 = 100.0;

/// The most flow queues of FQ-CoDel, the bound of Linux's `fq_codel` too.
const MAX_FLOWS: u32 = 65_536;

fn error<T>(problem: String, remedy: &str) -> Result<T, ParamError> {
    Err(ParamError {
        problem,
        remedy: remedy.to_owned(),
    })
}

/// A figure in nanoseconds, for a message.
fn shown(ns: f64) -> String {
    format!("{} ms", ns / 1e6)
}

fn finite_and_not_negative(what: &str, ns: f64) -> Result<(), ParamError> {
    if ns.is_finite() && ns >= 0.0 {
        return Ok(());
    }
    let problem = format!("{what} of a delay cannot be {}", shown(ns));
    error(problem, "write a time of at least zero, such as `5 ms`")
}

/// Refuses what is not a time above zero.
pub(super) fn finite_and_positive(what: &str, ns: f64) -> Result<(), ParamError> {
    if ns.is_finite() && ns > 0.0 {
        return Ok(());
    }
    let problem = format!("{what} of a distributed delay cannot be {}", shown(ns));
    error(problem, "write a time above zero, such as `5 ms`")
}

impl Distribution {
    /// Whether there is such a distribution of delays, with a mean of at most a year.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        match self {
            Self::Uniform { low, high } => {
                finite_and_not_negative("the lower bound", *low)?;
                finite_and_not_negative("the upper bound", *high)?;
                if low > high {
                    let bounds = format!("uniform from {} to {}", shown(*low), shown(*high));
                    return error(
                        format!("a delay cannot be {bounds}"),
                        "write the smaller first, such as `uniform: [4 ms, 6 ms]`",
                    );
                }
            }
            Self::Normal { mean, deviation } => {
                finite_and_not_negative("the deviation", *deviation)?;
                if !mean.is_finite() || *mean <= 0.0 {
                    return error(
                        format!(
                            "a normal delay, truncated at 0 and twice its mean, cannot have a mean of {}",
                            shown(*mean)
                        ),
                        "write a mean above zero, such as `mean: 5 ms`",
                    );
                }
                if *deviation > MAX_RELATIVE_DEVIATION * mean {
                    return error(
                        format!(
                            "a normal delay of mean {} and deviation {} is flat between its limits",
                            shown(*mean),
                            shown(*deviation)
                        ),
                        &format!("write `uniform: [0 ms, {}]`", shown(2.0 * mean)),
                    );
                }
            }
            Self::Pareto { base, scale, shape } => {
                finite_and_not_negative("the base", *base)?;
                finite_and_positive("the scale", *scale)?;
                if !shape.is_finite() || *shape <= 1.0 {
                    return error(
                        format!("a Pareto delay of shape {shape} has no mean"),
                        "write a shape above 1, or `mean` and `deviation`",
                    );
                }
            }
            Self::LogNormal { base, mu, sigma } => {
                finite_and_not_negative("the base", *base)?;
                if !mu.is_finite() || !sigma.is_finite() || *sigma < 0.0 {
                    return error(
                        format!("a log-normal delay cannot have mu {mu} and sigma {sigma}"),
                        "write finite figures, sigma at least 0, or `mean` and `deviation`",
                    );
                }
            }
            Self::Gamma { base, shape, scale } => {
                finite_and_not_negative("the base", *base)?;
                finite_and_positive("the scale", *scale)?;
                if !shape.is_finite() || *shape < MIN_SHAPE {
                    return error(
                        format!("a gamma delay cannot have shape {shape}"),
                        "write a shape of at least 0.01, which is a deviation of at most ten \
                         times the mean",
                    );
                }
            }
            Self::Empirical { quantiles } => validate_quantiles(quantiles)?,
        }
        let mean = self.mean();
        if mean <= MAX_MEAN_NS {
            return Ok(());
        }
        error(
            format!("a mean delay of {} is too long", shown(mean)),
            "write at most a year",
        )
    }
}

fn validate_quantiles(quantiles: &[f64]) -> Result<(), ParamError> {
    if quantiles.is_empty() {
        return error(
            "a table of delays is empty".to_owned(),
            "write at least one",
        );
    }
    for &delay in quantiles {
        finite_and_not_negative("a quantile", delay)?;
    }
    match quantiles.windows(2).find(|pair| pair[0] > pair[1]) {
        None => Ok(()),
        Some(pair) => error(
            format!(
                "a table of delays has {} before {}",
                shown(pair[0]),
                shown(pair[1])
            ),
            "sort the quantiles in ascending order",
        ),
    }
}

impl Jitter {
    /// Whether there is such a delay.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        let correlation = self.correlation;
        if !(0.0..1.0).contains(&correlation) {
            return error(
                format!("a correlation of {} % is impossible", correlation * 100.0),
                "write at least 0 % and less than 100 %, where every packet would have the delay \
                 of the first",
            );
        }
        self.distribution.validate()
    }
}

impl LossModel {
    /// Whether there is such a loss.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        match self {
            Self::Pattern(list) if list.is_empty() => error(
                "a loss pattern is empty".to_owned(),
                "write 0 for each packet that passes and 1 for each that is lost, such as `00010`",
            ),
            _ => Ok(()),
        }
    }
}

impl Discipline {
    /// Whether the parameters of the discipline are in their ranges.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        match self {
            Self::DropTail => Ok(()),
            Self::Red(red) => red.validate(),
            Self::CoDel(codel) => codel.validate(),
            Self::Pie(pie) => pie.validate(),
            Self::FqCodel(fq_codel) => fq_codel.validate(),
        }
    }
}

impl Red {
    /// Whether the parameters are in their ranges.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.min >= self.max {
            return error(
                "the `min` of RED is not below its `max`".to_owned(),
                "write for instance `min: 10 KiB, max: 30 KiB`",
            );
        }
        if self.weight_log2 > 31 {
            return error(
                format!(
                    "a RED weight of 2^-{} would never change the average",
                    self.weight_log2
                ),
                "write a weight of at most 31, such as `weight: 9`",
            );
        }
        Ok(())
    }
}

fn above_zero(what: &str, span: Span, example: &str) -> Result<(), ParamError> {
    if span == Span::ZERO {
        let remedy = format!("write a time above zero, such as `{example}`");
        return error(format!("the `{what}` of a queue is zero"), &remedy);
    }
    Ok(())
}

impl CoDel {
    /// Whether the parameters are in their ranges.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        above_zero("target", self.target, "target: 5 ms")?;
        above_zero("interval", self.interval, "interval: 100 ms")
    }
}

impl Pie {
    /// Whether the parameters are in their ranges.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        above_zero("target", self.target, "target: 15 ms")?;
        above_zero("update", self.update, "update: 15 ms")
    }
}

impl FqCodel {
    /// Whether the parameters are in their ranges.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.flows.get() > MAX_FLOWS {
            return error(
                format!("{} flow queues are too many", self.flows),
                "write at most 65536, such as `flows: 1024`",
            );
        }
        if self.quantum == 0 {
            return error(
                "with a quantum of zero no flow may ever send".to_owned(),
                "write about a packet, such as `quantum: 1514 B`",
            );
        }
        self.codel.validate()
    }
}

impl PipeParams {
    /// Whether all parameters are in their ranges and go together.
    ///
    /// # Errors
    /// Says what is impossible and what to write instead.
    pub fn validate(&self) -> Result<(), ParamError> {
        if let Some(jitter) = &self.jitter {
            jitter.validate()?;
        }
        self.loss.validate()?;
        self.discipline.validate()?;
        if self.burst == Some(Bytes(0)) {
            return error(
                "a token bucket of no bytes lets nothing pass".to_owned(),
                "write at least one packet, such as `burst: 16 kB`, or leave it out",
            );
        }
        if self.burst.is_some() && self.rate.is_none() && self.trace.is_none() {
            return error(
                "`burst` has no meaning on a link without a rate".to_owned(),
                "write a rate beside it, such as `rate: 10 Mbit/s`",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::units::Probability;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(PipeParams::default().validate(), Ok(()));
        for discipline in [
            Discipline::CoDel(CoDel::default()),
            Discipline::Pie(Pie::default()),
            Discipline::FqCodel(FqCodel::default()),
        ] {
            assert_eq!(discipline.validate(), Ok(()));
        }
    }

    #[test]
    fn impossible_delays_are_named_with_what_to_write() {
        use Distribution::{Empirical, Gamma, LogNormal, Normal, Pareto, Uniform};
        let nan = f64::NAN;
        let table = |quantiles: &[f64]| Empirical {
            quantiles: Arc::from(quantiles),
        };
        #[rustfmt::skip]
        let cases = [
            (Uniform { low: 5e6, high: 4e6 }, "the smaller first"),
            (Uniform { low: -1.0, high: 4e6 }, "at least zero"),
            (Uniform { low: 0.0, high: nan }, "at least zero"),
            (Normal { mean: 0.0, deviation: 1e6 }, "mean: 5 ms"),
            (Normal { mean: nan, deviation: 1e6 }, "mean: 5 ms"),
            (Normal { mean: 5e6, deviation: -1.0 }, "at least zero"),
            (Normal { mean: 5e6, deviation: 6e8 }, "uniform: [0 ms, 10 ms]"),
            (Pareto { base: 0.0, scale: 5e6, shape: 1.0 }, "shape above 1"),
            (Pareto { base: 0.0, scale: 5e6, shape: nan }, "shape above 1"),
            (Pareto { base: 0.0, scale: 0.0, shape: 3.0 }, "above zero"),
            (Pareto { base: -1.0, scale: 5e6, shape: 3.0 }, "at least zero"),
            (LogNormal { base: 0.0, mu: nan, sigma: 1.0 }, "finite figures"),
            (LogNormal { base: 0.0, mu: 10.0, sigma: -1.0 }, "finite figures"),
            (LogNormal { base: 0.0, mu: 10.0, sigma: 60.0 }, "at most a year"),
            (Gamma { base: 0.0, shape: 0.0, scale: 5e6 }, "at least 0.01"),
            (Gamma { base: 0.0, shape: 2.0, scale: f64::INFINITY }, "above zero"),
            (Gamma { base: 4e16, shape: 2.0, scale: 5e6 }, "at most a year"),
            (table(&[]), "at least one"),
            (table(&[1.0, 3.0, 2.0]), "ascending"),
            (table(&[1.0, nan]), "at least zero"),
        ];
        for (distribution, part) in cases {
            let error = distribution.validate().unwrap_err().to_string();
            assert!(error.contains(part), "{distribution:?}: {error}");
        }
    }

    #[test]
    fn other_impossible_parameters_are_named_too() {
        let correlated = |correlation| Jitter {
            distribution: Distribution::Uniform {
                low: 0.0,
                high: 1e6,
            },
            correlation,
            reorder: false,
        };
        for (correlation, valid) in [
            (0.0, true),
            (0.999, true),
            (1.0, false),
            (-0.1, false),
            (f64::NAN, false),
        ] {
            assert_eq!(correlated(correlation).validate().is_ok(), valid);
        }
        let red = Red {
            min: 10,
            max: 30,
            probability: Probability::ALWAYS,
            weight_log2: 9,
            ecn: false,
        };
        let fq_codel = FqCodel::default();
        let codel = CoDel::default();
        let too_many = NonZeroU32::new(65_537).unwrap();
        #[rustfmt::skip]
        let disciplines = [
            (Discipline::Red(Red { min: 30, ..red }), "min: 10 KiB"),
            (Discipline::Red(Red { weight_log2: 32, ..red }), "at most 31"),
            (Discipline::CoDel(CoDel { interval: Span::ZERO, ..codel }), "interval: 100 ms"),
            (Discipline::Pie(Pie { update: Span::ZERO, ..Pie::default() }), "update: 15 ms"),
            (Discipline::FqCodel(FqCodel { quantum: 0, ..fq_codel }), "quantum: 1514 B"),
            (Discipline::FqCodel(FqCodel { flows: too_many, ..fq_codel }), "at most 65536"),
        ];
        assert_eq!(Discipline::Red(red).validate(), Ok(()));
        let plain = PipeParams::default;
        let cases = disciplines.map(|(discipline, part)| {
            (
                PipeParams {
                    discipline,
                    ..plain()
                },
                part,
            )
        });
        let pattern = LossModel::Pattern(Arc::from([]));
        let others = [
            (
                PipeParams {
                    loss: pattern,
                    ..plain()
                },
                "such as `00010`",
            ),
            (
                PipeParams {
                    jitter: Some(Arc::new(correlated(1.0))),
                    ..plain()
                },
                "less than 100 %",
            ),
            (
                PipeParams {
                    burst: Some(Bytes(1)),
                    ..plain()
                },
                "a rate beside it",
            ),
            (
                PipeParams {
                    burst: Some(Bytes(0)),
                    ..plain()
                },
                "burst: 16 kB",
            ),
        ];
        for (params, part) in cases.into_iter().chain(others) {
            let error = params.validate().unwrap_err().to_string();
            assert!(error.contains(part), "{params:?}: {error}");
        }
    }
}
