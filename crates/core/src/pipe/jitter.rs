//! Delays drawn from a distribution, independent or correlated from packet to packet.
//!
//! Theory: independent delays are the distribution's quantile function at a uniform draw. A
//! correlated series is a Gaussian copula: a normal series z' = ρz + √(1-ρ²)·ε (autoregressive,
//! of order 1, lag-1 correlation ρ), mapped through the normal cdf and then the quantile function.
//! Every z is standard normal whatever ρ is, and so every delay has the distribution exactly.
//! (Linux's netem mixes the last draw with the next one linearly, which narrows the distribution
//! and bends its shape.) The correlation of the delays themselves is ρ for the normal
//! distribution, and a little less the more skewed the distribution is.
//!
//! Each delay takes one 64-bit draw, of which the upper 52 bits count: the rarest sample has a
//! probability of 2^-52. All is computed with `libm` and plain arithmetic, so that every machine
//! draws the same.
//!
//! The gamma distribution's quantile function has no closed form and costs microseconds. It is
//! tabulated once as a function of the normal variable, in which it is nearly a cubic, with
//! cubic interpolation through values and slopes (W. Hörmann and J. Leydold, "Continuous random
//! variate generation by fast numerical inversion", ACM TOMACS 13, 2003).
//!
//! Left out: whether packets may overtake (the pipe's), and memory of more than one packet.

use crate::params::{Distribution, Jitter, Score};
use crate::rng::Stream;
use crate::special::{Gamma, normal_quantile};
use crate::time::Span;

/// Draws delays.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    distribution: Distribution,
    /// Of a gamma distribution without a closed form.
    table: Option<Box<GammaTable>>,
    correlation: f64,
    /// √(1-ρ²).
    innovation: f64,
    /// The normal variable of the last packet, where delays are correlated.
    last: Option<f64>,
    stream: Stream,
}

impl Sampler {
    /// Draws delays as `jitter` says, which is valid.
    pub(crate) fn new(jitter: &Jitter, stream: Stream) -> Self {
        let mut sampler = Self {
            distribution: jitter.distribution.clone(),
            table: None,
            correlation: 0.0,
            innovation: 1.0,
            last: None,
            stream,
        };
        sampler.set(jitter);
        sampler
    }

    /// Changes the distribution and the correlation. The stream goes on where it was, and so does
    /// the correlated series: a packet that would have been late stays as late relative to the
    /// others.
    pub(crate) fn set(&mut self, jitter: &Jitter) {
        self.distribution = jitter.distribution.clone();
        self.table = match self.distribution {
            Distribution::Gamma { shape, .. } => GammaTable::of_shape(shape, self.table.take()),
            _ => None,
        };
        let correlation = jitter.correlation;
        self.correlation = correlation;
        self.innovation = (1.0 - correlation * correlation).max(0.0).sqrt();
        if correlation == 0.0 {
            self.last = None;
        }
    }

    /// The delay of the next packet.
    pub(crate) fn draw(&mut self) -> Span {
        let score = self.score();
        let ns = match (&self.distribution, &self.table) {
            (Distribution::Gamma { base, scale, .. }, Some(table)) => {
                base + scale * table.at(score.normal())
            }
            (distribution, _) => distribution.at(score),
        };
        // The cast cuts off below zero and above the longest span; no NaN comes of what is valid.
        Span::from_ns((ns + 0.5) as u64)
    }

    #[inline]
    fn score(&mut self) -> Score {
        let uniform = unit(self.stream.draw());
        if self.correlation == 0.0 {
            return Score::Uniform(uniform);
        }
        let fresh = normal_quantile(uniform);
        let z = match self.last {
            Some(last) => self.correlation * last + self.innovation * fresh,
            None => fresh,
        };
        self.last = Some(z);
        Score::Normal(z)
    }
}

/// A draw as a number strictly between 0 and 1: the middle of one of 2^52 equal parts, exact and
/// symmetric about one half.
#[inline]
fn unit(draw: u64) -> f64 {
    ((draw >> 12) as f64 + 0.5) * f64::EPSILON
}

/// The quantile function of a gamma distribution of scale 1 over the normal variable.
#[derive(Debug, Clone)]
struct GammaTable {
    shape: f64,
    /// Values and slopes per knot, from [`FIRST_KNOT`] on.
    knots: Vec<(f64, f64)>,
}

/// No draw is further out: 2^-53 is beyond 8.2 deviations. A correlated series may be once in
/// 10^16 packets, and is then held at the end.
const FIRST_KNOT: f64 = -8.5;
const KNOTS_PER_UNIT: f64 = 16.0;
const KNOTS: u32 = 273;

impl GammaTable {
    /// The table for `shape`, if one is needed; `old` if it is the one.
    fn of_shape(shape: f64, old: Option<Box<Self>>) -> Option<Box<Self>> {
        if old.as_ref().is_some_and(|old| old.shape == shape) {
            return old;
        }
        let gamma = Gamma::new(shape);
        if gamma.is_closed() {
            return None;
        }
        let knot = |index| {
            let (value, slope) = gamma.with_slope(FIRST_KNOT + f64::from(index) / KNOTS_PER_UNIT);
            (value, slope / KNOTS_PER_UNIT)
        };
        let knots = (0..KNOTS).map(knot).collect();
        Some(Box::new(Self { shape, knots }))
    }

    /// The value at `z`: the cubic through the values and slopes of the knots on both sides.
    fn at(&self, z: f64) -> f64 {
        let last = f64::from(KNOTS - 1);
        let place = ((z - FIRST_KNOT) * KNOTS_PER_UNIT).clamp(0.0, last);
        let index = (place as usize).min(KNOTS as usize - 2);
        let (y0, d0) = self.knots[index];
        let (y1, d1) = self.knots[index + 1];
        let t = place - index as f64;
        let rise = y1 - y0;
        let curve = (3.0 * rise - 2.0 * d0 - d1) + t * (d0 + d1 - 2.0 * rise);
        y0 + t * (d0 + t * curve)
    }
}

#[cfg(test)]
mod tests;
