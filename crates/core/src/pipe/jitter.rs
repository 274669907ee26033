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

/// The quantile function of a gamma distribution of scale 1 over the normal variable. It is off
/// by less than a millionth of the mean where the shape is at least 0.1 (a deviation of three
/// times the mean), and by less than a ten-thousandth below.
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
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::special::{normal_cdf, normal_ln_density};

    const SEED: u64 = 20_260_705;
    const N: usize = 1_000_000;

    fn jitter(distribution: Distribution, correlation: f64) -> Jitter {
        Jitter {
            distribution,
            correlation,
            reorder: false,
        }
    }

    /// One of each kind, near a mean of 5 ms.
    fn each() -> Vec<Distribution> {
        let (base, mean, deviation) = (Span::from_ms(1), Span::from_ms(4), Span::from_us(800));
        let quantiles = (0..=100).map(|i| 4e6 + 200.0 * f64::from(i * i)).collect();
        vec![
            Distribution::uniform(Span::from_ms(4), Span::from_ms(6)).unwrap(),
            Distribution::normal(mean, deviation).unwrap(),
            Distribution::normal(mean, mean).unwrap(), // visibly cut
            Distribution::pareto(base, mean, deviation).unwrap(),
            Distribution::log_normal(base, mean, deviation).unwrap(),
            Distribution::gamma(base, mean, deviation).unwrap(),
            Distribution::gamma(base, mean, Span::from_ms(5)).unwrap(), // shape below 1
            Distribution::gamma(base, mean, Span::from_us(20)).unwrap(), // closed form
            Distribution::Empirical { quantiles },
        ]
    }

    fn draw_sorted(jitter: &Jitter) -> Vec<f64> {
        let mut sampler = Sampler::new(jitter, Stream::new(SEED, "jitter"));
        let mut sample: Vec<u64> = (0..N).map(|_| sampler.draw().as_ns()).collect();
        sample.sort_unstable();
        sample.into_iter().map(|ns| ns as f64).collect()
    }

    /// The Kolmogorov–Smirnov distance, seen at every hundredth of the sorted samples. Each stands
    /// for the nanosecond around it.
    fn distance(sorted: &[f64], distribution: &Distribution) -> f64 {
        let n = sorted.len() as f64;
        let at = |i: usize| (distribution.cdf(sorted[i]) - (i as f64 + 0.5) / n).abs();
        (0..sorted.len()).step_by(100).map(at).fold(0.0, f64::max)
    }

    /// Variance and fourth central moment, integrated over the normal variable.
    fn central_moments(distribution: &Distribution) -> (f64, f64) {
        let mean = distribution.mean();
        let mut sums = (0.0, 0.0);
        for i in -12 * 64..=12 * 64 {
            let z = f64::from(i) / 64.0;
            let error = distribution.at(Score::Normal(z)) - mean;
            let square = error * error * libm::exp(normal_ln_density(z)) / 64.0;
            sums = (sums.0 + square, sums.1 + square * error * error);
        }
        sums
    }

    #[test]
    fn independent_delays_have_their_distribution() {
        for distribution in each() {
            let sorted = draw_sorted(&jitter(distribution.clone(), 0.0));
            let n = N as f64;
            let shown = format!("seed {SEED}, {distribution:?}");
            let off = distance(&sorted, &distribution);
            assert!(off < 1.95 / n.sqrt(), "{shown}: distance {off}"); // passed once in 1000
            for p in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
                let quantile = distribution.quantile(p);
                let below = sorted.partition_point(|&x| x <= quantile) as f64 / n;
                let deviation = (p * (1.0 - p) / n).sqrt();
                assert!(
                    (below - p).abs() < 4.0 * deviation,
                    "{shown}: {below}, not {p}"
                );
            }
            let mean = sorted.iter().sum::<f64>() / n;
            assert!(
                (mean / distribution.mean() - 1.0).abs() < 0.005,
                "{shown}: mean {mean}"
            );
            let squares = sorted.iter().map(|x| (x - mean) * (x - mean));
            let variance = squares.sum::<f64>() / n;
            let (expected, fourth) = central_moments(&distribution);
            let deviation = ((fourth - expected * expected) / n).sqrt();
            assert!(
                (variance - expected).abs() < 4.0 * deviation,
                "{shown}: variance {variance}, not {expected}"
            );
        }
    }

    /// The mean of z·z' of a series with correlation ρ has a deviation of about √((1+ρ²)(1+ρ²)/
    /// (1-ρ²)/n), and its distribution that of n(1-ρ)/(1+ρ) independent samples at worst.
    #[test]
    fn correlation_is_what_it_says_and_changes_no_distribution() {
        let distributions = each();
        for (correlation, distribution) in [0.25, 0.5, 0.9].into_iter().zip(&distributions[3..]) {
            let jitter = jitter(distribution.clone(), correlation);
            let mut sampler = Sampler::new(&jitter, Stream::new(SEED, "jitter"));
            let mut series = Vec::with_capacity(N);
            for _ in 0..N {
                sampler.draw();
                series.push(sampler.last.unwrap());
            }
            let shown = format!("seed {SEED}, correlation {correlation}");
            let n = N as f64;
            for lag in [1, 2] {
                let product = series.iter().zip(&series[lag..]).map(|(a, b)| a * b);
                let got = product.sum::<f64>() / n;
                let squared = correlation * correlation;
                let expected = [correlation, squared][lag - 1];
                let deviation = (1.0 + squared) / ((1.0 - squared) * n).sqrt();
                assert!(
                    (got - expected).abs() < 4.0 * deviation,
                    "{shown}, lag {lag}: {got}"
                );
            }
            let effective = n * (1.0 - correlation) / (1.0 + correlation);
            let off = distance(&draw_sorted(&jitter), distribution);
            assert!(off < 1.95 / effective.sqrt(), "{shown}: distance {off}");
        }
    }

    /// A table's error, in the middle between knots, against the quantile itself: what the
    /// table's comment says, relative to the mean, or to the value where that is larger.
    #[test]
    fn the_gamma_table_is_the_quantile_function() {
        for shape in [0.01, 0.02, 0.1, 0.5, 1.0, 2.0, 25.0, 400.0, 9_999.0] {
            let gamma = Gamma::new(shape);
            let table = GammaTable::of_shape(shape, None).unwrap();
            let tolerance = if shape < 0.1 { 1e-4 } else { 1e-6 };
            for i in 0..KNOTS - 1 {
                let z = FIRST_KNOT + (f64::from(i) + 0.5) / KNOTS_PER_UNIT;
                let (got, exact) = (table.at(z), gamma.of_normal(z));
                let error = (got - exact).abs() / exact.max(shape);
                assert!(
                    error < tolerance,
                    "shape {shape}, z {z}: {got}, not {exact}"
                );
            }
            assert_eq!(table.at(-100.0), table.knots[0].0);
            assert_eq!(table.at(100.0), table.knots[KNOTS as usize - 1].0);
        }
        assert!(GammaTable::of_shape(1e5, None).is_none());
    }

    #[test]
    fn a_change_keeps_the_stream_and_the_series() {
        let [narrow, wide] = [1, 2].map(|ms| {
            let distribution = Distribution::normal(Span::from_ms(50), Span::from_ms(ms)).unwrap();
            jitter(distribution, 0.9)
        });
        let mut changed = Sampler::new(&narrow, Stream::new(SEED, "set"));
        let mut untouched = Sampler::new(&wide, Stream::new(SEED, "set"));
        for packet in 0..1000 {
            changed.set(if packet % 2 == 0 { &narrow } else { &wide });
            let (a, b) = (changed.draw(), untouched.draw());
            if packet % 2 == 1 {
                assert_eq!(a, b, "seed {SEED}, packet {packet}");
            }
        }
        // Without correlation the series ends, and a new one has no memory of it.
        changed.set(&jitter(wide.distribution.clone(), 0.0));
        assert_eq!(changed.last, None);
    }

    #[test]
    fn a_change_of_scale_keeps_a_gamma_table() {
        let gamma = |shape, scale| {
            jitter(
                Distribution::Gamma {
                    base: 0.0,
                    shape,
                    scale,
                },
                0.0,
            )
        };
        let mut sampler = Sampler::new(&gamma(4.0, 1e6), Stream::new(SEED, "gamma"));
        sampler.set(&gamma(4.0, 2e6));
        assert_eq!(sampler.table.as_ref().unwrap().shape, 4.0);
        sampler.set(&gamma(9.0, 1e6));
        assert_eq!(sampler.table.as_ref().unwrap().shape, 9.0);
        sampler.set(&jitter(
            Distribution::Uniform {
                low: 1.0,
                high: 2.0,
            },
            0.0,
        ));
        assert!(sampler.table.is_none());
    }

    /// Committed values: a change here changes every seeded result with a distributed delay, and
    /// a machine that computes others is not deterministic.
    #[test]
    fn delays_never_change() {
        let draws: Vec<u64> = each()
            .into_iter()
            .map(|distribution| {
                let correlated = jitter(distribution, 0.5);
                let mut sampler = Sampler::new(&correlated, Stream::new(42, "a>b"));
                sampler.draw();
                sampler.draw().as_ns()
            })
            .collect();
        assert_eq!(
            draws,
            [
                5_719_625, 4_863_582, 6_643_332, 5_615_225, 5_857_220, 5_866_824, 9_443_598,
                5_021_595, 5_478_559,
            ]
        );
    }

    #[test]
    fn draws_are_strictly_between_zero_and_one() {
        assert!(unit(0) > 0.0 && unit(u64::MAX) < 1.0);
        assert_eq!(unit(0), 1.0 - unit(u64::MAX));
        assert!(normal_quantile(unit(u64::MAX)) < -FIRST_KNOT);
        assert_eq!(normal_cdf(0.0), 0.5);
    }

    /// Figures of every size, among them what is not a number.
    fn figure() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(0.0),
            any::<f64>(),
            0.0..1e-3,
            0.0..100.0,
            0.0..1e10,
            0.0..1e17,
        ]
    }

    fn any_distribution() -> impl Strategy<Value = Distribution> {
        let three = || (figure(), figure(), figure());
        prop_oneof![
            (figure(), figure()).prop_map(|(low, high)| Distribution::Uniform { low, high }),
            (figure(), figure())
                .prop_map(|(mean, deviation)| Distribution::Normal { mean, deviation }),
            three().prop_map(|(base, scale, shape)| Distribution::Pareto { base, scale, shape }),
            three().prop_map(|(base, mu, sigma)| Distribution::LogNormal { base, mu, sigma }),
            three().prop_map(|(base, shape, scale)| Distribution::Gamma { base, shape, scale }),
            proptest::collection::vec(figure(), 0..5).prop_map(|mut quantiles| {
                quantiles.sort_by(f64::total_cmp);
                let quantiles: Arc<[f64]> = quantiles.into();
                Distribution::Empirical { quantiles }
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Whatever passes validation gives delays, and what does not at least no panic.
        #[test]
        fn valid_parameters_never_give_nonsense(
            distribution in any_distribution(),
            correlation in prop_oneof![Just(0.0), 0.0..1.0, any::<f64>()],
            draws: [u64; 4],
        ) {
            let jitter = jitter(distribution, correlation);
            let mut sampler = Sampler::new(&jitter, Stream::new(draws[0], "any"));
            let valid = jitter.validate().is_ok();
            let mut delays = [Span::ZERO; 20];
            for delay in &mut delays {
                *delay = sampler.draw();
                prop_assert!(!valid || sampler.last.is_none_or(f64::is_finite));
            }
            if valid {
                let mean = jitter.mean();
                prop_assert!(mean.is_finite() && mean >= 0.0);
                for u in [unit(0), unit(draws[1]), unit(u64::MAX)] {
                    let x = jitter.distribution.at(Score::Uniform(u));
                    prop_assert!(x.is_finite() && x >= -1e-6 * mean, "{} at {}", x, u);
                    let p = jitter.distribution.cdf(x);
                    prop_assert!((0.0..=1.0).contains(&p), "{} of {}", p, x);
                }
            }
        }
    }
}
