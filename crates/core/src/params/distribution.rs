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

/// Beyond so many deviations a cut of the normal distribution takes less than 2^-53 off it.
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
    /// Where `mean` is zero: the cut would leave nothing.
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
mod tests;
