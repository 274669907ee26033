//! Numbers of traffic that may be drawn at random: times in nanoseconds, sizes in bytes.

use longhaul_core::params::Distribution;
use longhaul_core::rng::Stream;

/// A number, or how it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Draw {
    /// Always this.
    Constant(u64),
    /// By a distribution, whose unit is the number's.
    Random(Distribution),
}

impl Draw {
    /// Exponential with this mean: the gamma distribution of shape 1.
    pub fn exponential(mean: u64) -> Self {
        Self::Random(Distribution::Gamma {
            base: 0.0,
            shape: 1.0,
            scale: mean as f64,
        })
    }

    /// The next number, rounded to the nearest whole one. A constant takes no draw.
    pub fn next(&self, stream: &mut Stream) -> u64 {
        match self {
            Self::Constant(number) => *number,
            Self::Random(distribution) => {
                // The middles of 2^53 equal parts of 0 to 1.
                let part = ((stream.draw() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0;
                // The cast saturates; samples below zero count as zero.
                libm::round(distribution.quantile(part)) as u64
            }
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(number) => *number as f64,
            Self::Random(distribution) => distribution.mean(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_draws_is_the_mean() {
        let draw = Draw::exponential(1_000_000);
        let mut stream = Stream::new(1, "x");
        let sum: u64 = (0..100_000).map(|_| draw.next(&mut stream)).sum();
        let mean = sum as f64 / 100_000.0;
        // The deviation of the mean of so many is 0.3 %.
        assert!((mean - 1e6).abs() < 1.5e4, "{mean}");
        assert_eq!(draw.mean(), 1e6);
    }

    #[test]
    fn a_constant_takes_no_draw() {
        let (mut a, mut b) = (Stream::new(1, "x"), Stream::new(1, "x"));
        assert_eq!(Draw::Constant(7).next(&mut a), 7);
        assert_eq!(a.draw(), b.draw());
    }
}
