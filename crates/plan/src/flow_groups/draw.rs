//! Numbers of traffic that may be drawn at random: times in nanoseconds, sizes in bytes.

use longhaul_core::params::Distribution;
use longhaul_core::rng::Stream;

/// A number, or how it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Draw {
    /// Always this.
    Constant(u64),
    /// Exponential with this mean.
    Exponential(u64),
    /// By a distribution, whose unit is the number's.
    Random(Distribution),
}

impl Draw {
    /// The next number, rounded to the nearest whole one. A constant takes no draw.
    pub fn next(&self, stream: &mut Stream) -> u64 {
        let value = match self {
            Self::Constant(number) => return *number,
            Self::Exponential(mean) => *mean as f64 * -libm::log(part(stream)),
            Self::Random(distribution) => distribution.quantile(part(stream)),
        };
        // The cast saturates; samples below zero count as zero.
        libm::round(value) as u64
    }
}

/// A uniform draw: the middle of one of 2^53 equal parts of 0 to 1.
fn part(stream: &mut Stream) -> f64 {
    ((stream.draw() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_draws_is_the_mean() {
        let draw = Draw::Exponential(1_000_000);
        let mut stream = Stream::new(1, "x");
        let sum: u64 = (0..100_000).map(|_| draw.next(&mut stream)).sum();
        let mean = sum as f64 / 100_000.0;
        // With this many draws the mean has a deviation of 0.3 %.
        assert!((mean - 1e6).abs() < 1.5e4, "{mean}");
    }

    #[test]
    fn a_constant_takes_no_draw() {
        let (mut a, mut b) = (Stream::new(1, "x"), Stream::new(1, "x"));
        assert_eq!(Draw::Constant(7).next(&mut a), 7);
        assert_eq!(a.draw(), b.draw());
    }
}
