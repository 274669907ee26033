//! The mathematics of delay distributions: parameters from mean and deviation, cumulative
//! distribution, quantiles.
//!
//! A distribution has one formula for drawing and for tables: its value at a [`Score`], which is
//! a place in the distribution given as a uniform or as a standard normal variable. Uniform draws
//! become independent samples, correlated normal draws become correlated samples, and both have
//! exactly this distribution.
//!
//! Left out: random draws (`pipe/jitter.rs`).

use crate::params::validate::{ParamError, finite_and_positive};
use crate::params::{Distribution, Jitter};
use crate::special::{Gamma, normal_cdf, normal_quantile};
use crate::time::Span;

/// A place in a distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Score {
    /// The probability of what lies below, strictly between 0 and 1.
    Uniform(f64),
    /// The standard normal variable that has as much below it.
    Normal(f64),
}

impl Score {
    /// The probability of what lies below.
    fn lower(self) -> f64 {
        match self {
            Self::Uniform(u) => u,
            Self::Normal(z) => normal_cdf(z),
        }
    }

    /// The probability of what lies above.
    fn upper(self) -> f64 {
        match self {
            Self::Uniform(u) => 1.0 - u,
            Self::Normal(z) => normal_cdf(-z),
        }
    }

    /// The standard normal variable.
    pub(crate) fn normal(self) -> f64 {
        match self {
            Self::Uniform(u) => normal_quantile(u),
            Self::Normal(z) => z,
        }
    }
}

/// A cut this many deviations from the mean removes less than 2^-53 of a normal distribution.
const NO_CUT: f64 = 8.3;

impl Distribution {
    /// Equally likely between `low` and `high`.
    ///
    /// # Errors
    /// Where `low` is above `high`.
    pub fn uniform(low: Span, high: Span) -> Result<Self, ParamError> {
        let (low, high) = (low.as_ns() as f64, high.as_ns() as f64);
        checked(Self::Uniform { low, high })
    }

    /// Normal with `mean`, and with `deviation` before the cut at 0 and 2·`mean`.
    ///
    /// # Errors
    /// Where `mean` is zero, since the cut would leave nothing, or `deviation` above a hundred
    /// times `mean`, since that would be uniform.
    pub fn normal(mean: Span, deviation: Span) -> Result<Self, ParamError> {
        let (mean, deviation) = (mean.as_ns() as f64, deviation.as_ns() as f64);
        checked(Self::Normal { mean, deviation })
    }

    /// Pareto with `mean` and `deviation`, both before `base` is added.
    ///
    /// Type I with exponent α and least value x₀ has mean αx₀/(α-1) and variance
    /// x₀²α/((α-1)²(α-2)); so α = 1 + √(1 + (mean/deviation)²), which is above 2, and
    /// x₀ = mean·(α-1)/α. A deviation of zero is constant.
    ///
    /// # Errors
    /// Where `mean` is zero.
    pub fn pareto(base: Span, mean: Span, deviation: Span) -> Result<Self, ParamError> {
        let make = |base, mean: f64, deviation: f64| {
            let ratio = mean / deviation;
            let shape = 1.0 + (1.0 + ratio * ratio).sqrt();
            let scale = mean * (shape - 1.0) / shape;
            Self::Pareto { base, scale, shape }
        };
        with_base(base, mean, deviation, make)
    }

    /// Log-normal with `mean` and `deviation`, both before `base` is added.
    ///
    /// The mean is e^(μ+σ²/2) and the variance (e^σ²-1)·mean²; so σ² = ln(1 +
    /// (deviation/mean)²) and μ = ln mean - σ²/2. A deviation of zero is constant.
    ///
    /// # Errors
    /// Where `mean` is zero.
    pub fn log_normal(base: Span, mean: Span, deviation: Span) -> Result<Self, ParamError> {
        let make = |base, mean: f64, deviation: f64| {
            let ratio = deviation / mean;
            let variance = libm::log1p(ratio * ratio);
            let (mu, sigma) = (libm::log(mean) - 0.5 * variance, variance.sqrt());
            Self::LogNormal { base, mu, sigma }
        };
        with_base(base, mean, deviation, make)
    }

    /// Gamma with `mean` and `deviation`, both before `base` is added.
    ///
    /// The mean is kθ and the variance kθ²; so k = (mean/deviation)² and θ = deviation²/mean.
    /// A deviation of zero is constant.
    ///
    /// # Errors
    /// Where `mean` is zero or `deviation` above ten times `mean`.
    pub fn gamma(base: Span, mean: Span, deviation: Span) -> Result<Self, ParamError> {
        let make = |base, mean: f64, deviation: f64| {
            let ratio = mean / deviation;
            let (shape, scale) = (ratio * ratio, deviation / ratio);
            Self::Gamma { base, shape, scale }
        };
        with_base(base, mean, deviation, make)
    }

    /// The mean in nanoseconds; infinite where there is none.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Uniform { low, high } => 0.5 * (low + high),
            Self::Normal { mean, .. } => *mean,
            Self::Pareto { base, scale, shape } if *shape > 1.0 => {
                base + scale * shape / (shape - 1.0)
            }
            Self::Pareto { .. } => f64::INFINITY,
            Self::LogNormal { base, mu, sigma } => base + libm::exp(mu + 0.5 * sigma * sigma),
            Self::Gamma { base, shape, scale } => base + shape * scale,
            Self::Empirical { quantiles } => match quantiles.len() {
                0 => 0.0,
                1 => quantiles[0],
                n => {
                    // The trapezoids between neighbours: the first and the last count half.
                    let ends = 0.5 * (quantiles[0] + quantiles[n - 1]);
                    (quantiles.iter().sum::<f64>() - ends) / (n - 1) as f64
                }
            },
        }
    }

    /// The probability of a sample of at most `x` nanoseconds.
    pub fn cdf(&self, x: f64) -> f64 {
        match self {
            Self::Uniform { low, high } if low < high => ((x - low) / (high - low)).clamp(0.0, 1.0),
            Self::Uniform { low, .. } => f64::from(x >= *low),
            Self::Normal { mean, deviation } if *deviation > 0.0 => {
                let cut = normal_cdf(-mean / deviation);
                let below = normal_cdf((x - mean) / deviation);
                ((below - cut) / (1.0 - 2.0 * cut)).clamp(0.0, 1.0)
            }
            Self::Normal { mean, .. } => f64::from(x >= *mean),
            Self::Pareto { base, scale, shape } => {
                let ratio = scale / (x - base).max(*scale);
                1.0 - libm::pow(ratio, *shape)
            }
            Self::LogNormal { base, .. } if x <= *base => 0.0,
            Self::LogNormal { base, mu, sigma } => {
                let above = libm::log(x - base) - mu;
                if *sigma > 0.0 {
                    normal_cdf(above / sigma)
                } else {
                    f64::from(above >= 0.0)
                }
            }
            Self::Gamma { base, shape, scale } => Gamma::new(*shape).cdf((x - base) / scale),
            Self::Empirical { quantiles } => empirical_cdf(quantiles, x),
        }
    }

    /// The value in nanoseconds that a share `p` of all samples does not exceed: the inverse of
    /// [`cdf`](Self::cdf). `p` is held strictly between 0 and 1, so that the answer is finite.
    pub fn quantile(&self, p: f64) -> f64 {
        let half_step = 0.5 * f64::EPSILON;
        self.at(Score::Uniform(p.clamp(half_step, 1.0 - half_step)))
    }

    /// The value in nanoseconds at a place in the distribution.
    pub(crate) fn at(&self, score: Score) -> f64 {
        match self {
            Self::Uniform { low, high } => low + (high - low) * score.lower(),
            Self::Normal { mean, deviation } => {
                mean + deviation * cut_normal(score, mean / deviation)
            }
            Self::Pareto { base, scale, shape } => {
                base + scale * libm::pow(score.upper(), -1.0 / shape)
            }
            Self::LogNormal { base, mu, sigma } => base + libm::exp(mu + sigma * score.normal()),
            Self::Gamma { base, shape, scale } => {
                base + scale * Gamma::new(*shape).of_normal(score.normal())
            }
            Self::Empirical { quantiles } => empirical_quantile(quantiles, score.lower()),
        }
    }
}

impl Jitter {
    /// The mean of the delay in nanoseconds. Correlation does not change it.
    pub fn mean(&self) -> f64 {
        self.distribution.mean()
    }
}

fn checked(distribution: Distribution) -> Result<Distribution, ParamError> {
    distribution.validate().map(|()| distribution)
}

fn with_base(
    base: Span,
    mean: Span,
    deviation: Span,
    make: impl FnOnce(f64, f64, f64) -> Distribution,
) -> Result<Distribution, ParamError> {
    let (base, mean) = (base.as_ns() as f64, mean.as_ns() as f64);
    finite_and_positive("the mean", mean)?;
    checked(if deviation == Span::ZERO {
        let constant = base + mean;
        Distribution::Uniform {
            low: constant,
            high: constant,
        }
    } else {
        make(base, mean, deviation.as_ns() as f64)
    })
}

/// The place of `score` in a standard normal distribution cut off at -`end` and `end`.
///
/// By the inverse cdf and not by drawing again: that takes one draw for each packet, and it is
/// exact also where the draws are correlated.
fn cut_normal(score: Score, end: f64) -> f64 {
    if end > NO_CUT {
        return score.normal();
    }
    let cut = normal_cdf(-end);
    normal_quantile(cut + (1.0 - 2.0 * cut) * score.lower())
}

fn empirical_quantile(quantiles: &[f64], u: f64) -> f64 {
    let Some(steps) = quantiles.len().checked_sub(1) else {
        return 0.0;
    };
    let place = u * steps as f64;
    let index = (place as usize).min(steps);
    let low = quantiles[index];
    let high = quantiles[(index + 1).min(steps)];
    low + (high - low) * (place - index as f64)
}

fn empirical_cdf(quantiles: &[f64], x: f64) -> f64 {
    let above = quantiles.partition_point(|&quantile| quantile <= x);
    if above == 0 || above == quantiles.len() {
        return f64::from(above != 0);
    }
    let (low, high) = (quantiles[above - 1], quantiles[above]);
    let place = (above - 1) as f64 + (x - low) / (high - low);
    place / (quantiles.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::special::normal_ln_density;

    const BASE: Span = Span::from_ms(3);
    const MEAN: Span = Span::from_ms(5);

    /// Mean and deviation by the trapezoid rule over the normal variable, which for a smooth
    /// integrand that vanishes at both ends is accurate to nearly all digits.
    fn moments(distribution: &Distribution) -> (f64, f64) {
        let step = 1.0 / 64.0;
        let over = |f: &dyn Fn(f64) -> f64| -> f64 {
            let points = (-12 * 64..=12 * 64).map(|i| f64::from(i) * step);
            let weighed =
                |z| libm::exp(normal_ln_density(z)) * f(distribution.at(Score::Normal(z)));
            points.map(weighed).sum::<f64>() * step
        };
        let mean = over(&|x| x);
        (mean, over(&|x| (x - mean) * (x - mean)).sqrt())
    }

    #[test]
    fn mean_and_deviation_are_what_was_asked_for() {
        let makers = [
            Distribution::pareto,
            Distribution::log_normal,
            Distribution::gamma,
        ];
        for deviation in [1, 500, 1_000, 4_000, 9_000].map(Span::from_us) {
            for make in makers {
                let distribution = make(BASE, MEAN, deviation).unwrap();
                let expected = 8e6;
                assert!((distribution.mean() - expected).abs() < 1e-6 * expected);
                let heavy = matches!(distribution, Distribution::Pareto { .. })
                    && deviation > Span::from_ms(1);
                if heavy {
                    continue; // the integrand does not vanish at 12
                }
                let (mean, spread) = moments(&distribution);
                let wanted = deviation.as_ns() as f64;
                assert!(
                    (mean - expected).abs() < 1e-6 * expected,
                    "{distribution:?}: {mean}"
                );
                assert!(
                    (spread - wanted).abs() < 1e-4 * wanted,
                    "{distribution:?}: {spread}"
                );
            }
        }
        // Heavy Pareto tails by their closed forms.
        let Ok(Distribution::Pareto { scale, shape, .. }) =
            Distribution::pareto(BASE, MEAN, Span::from_ms(9))
        else {
            panic!("a Pareto distribution");
        };
        let variance = scale * scale * shape / ((shape - 1.0) * (shape - 1.0) * (shape - 2.0));
        assert!((variance.sqrt() - 9e6).abs() < 1.0, "{variance}");
    }

    #[test]
    fn the_cut_keeps_the_mean_of_a_normal_distribution() {
        for deviation in [0, 1, 1_000, 5_000, 50_000, 500_000].map(Span::from_us) {
            let distribution = Distribution::normal(MEAN, deviation).unwrap();
            let (mean, spread) = moments(&distribution);
            assert!((mean - 5e6).abs() < 1.0, "{deviation}: {mean}");
            // From the given deviation down to that of the uniform distribution.
            let uniform = 5e6 / 3f64.sqrt();
            assert!(
                spread <= uniform.min(deviation.as_ns() as f64) * 1.000_001 + 1e-6,
                "{deviation}: {spread}"
            );
            let ends = (distribution.quantile(0.0), distribution.quantile(1.0));
            assert!(ends.0 > -0.01 && ends.1 < 1e7 + 0.01, "{ends:?}");
        }
    }

    fn each() -> Vec<Distribution> {
        let deviation = Span::from_ms(2);
        let mut all = vec![
            Distribution::uniform(BASE, MEAN).unwrap(),
            Distribution::normal(MEAN, deviation).unwrap(),
            Distribution::normal(MEAN, Span::from_ms(20)).unwrap(),
            Distribution::pareto(BASE, MEAN, deviation).unwrap(),
            Distribution::log_normal(BASE, MEAN, deviation).unwrap(),
            Distribution::gamma(BASE, MEAN, deviation).unwrap(),
            // Its lower quantiles are so small that a base would swallow them.
            Distribution::gamma(Span::ZERO, MEAN, Span::from_ms(30)).unwrap(),
            Distribution::gamma(BASE, MEAN, Span::from_us(10)).unwrap(),
        ];
        let quantiles: Arc<[f64]> = Arc::from([1e6, 4e6, 4.5e6, 9e6]);
        all.push(Distribution::Empirical { quantiles });
        all
    }

    #[test]
    fn quantiles_invert_the_cdf() {
        for distribution in each() {
            for p in [
                1e-6, 0.001, 0.01, 0.1, 0.333, 0.5, 0.9, 0.99, 0.999, 0.999_999,
            ] {
                let x = distribution.quantile(p);
                let back = distribution.cdf(x);
                assert!(
                    (back - p).abs() < 1e-9,
                    "{distribution:?}: {p} became {back}"
                );
                // Both kinds of score are the same place.
                let by_normal = distribution.at(Score::Normal(normal_quantile(p)));
                assert!(
                    (by_normal - x).abs() < 1e-6 * x,
                    "{distribution:?}: {by_normal} is not {x}"
                );
            }
            assert_eq!(distribution.cdf(-1.0), 0.0);
            assert!((distribution.cdf(1e300) - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn a_table_is_linear_between_its_quantiles() {
        let quantiles: Arc<[f64]> = Arc::from([10.0, 20.0, 40.0]);
        let table = Distribution::Empirical { quantiles };
        assert_eq!(table.quantile(0.25), 15.0);
        assert_eq!(table.quantile(0.75), 30.0);
        assert_eq!(table.cdf(30.0), 0.75);
        // Half of 15 and half of 30.
        assert_eq!(table.mean(), 22.5);
        let one = Distribution::Empirical {
            quantiles: Arc::from([7.0]),
        };
        assert_eq!(
            (one.mean(), one.quantile(0.3), one.cdf(6.9), one.cdf(7.0)),
            (7.0, 7.0, 0.0, 1.0)
        );
        // Steps in the table are jumps of the cdf.
        let flat = Distribution::Empirical {
            quantiles: Arc::from([1.0, 5.0, 5.0, 5.0, 6.0]),
        };
        assert_eq!(
            (flat.cdf(4.999_999), flat.cdf(5.0)),
            (0.25 * 3.999_999 / 4.0, 0.75)
        );
    }

    #[test]
    fn without_deviation_a_delay_is_constant() {
        for make in [
            Distribution::pareto,
            Distribution::log_normal,
            Distribution::gamma,
        ] {
            let constant = make(BASE, MEAN, Span::ZERO).unwrap();
            assert_eq!(
                (constant.quantile(0.01), constant.quantile(0.99)),
                (8e6, 8e6)
            );
            assert_eq!((constant.cdf(7.9e6), constant.cdf(8e6)), (0.0, 1.0));
            let error = make(BASE, Span::ZERO, MEAN).unwrap_err().to_string();
            assert!(error.contains("above zero"), "{error}");
        }
    }
}
