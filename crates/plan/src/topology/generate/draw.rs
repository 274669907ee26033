//! Draws for random families, from the run's own generator.

use longhaul_core::rng::Stream;

/// Uniform draws.
pub(super) struct Draws(Stream);

impl Draws {
    /// The draws of a family under a seed.
    pub(super) fn new(seed: u64, family: &str) -> Self {
        Self(Stream::new(seed, &format!("generate {family}")))
    }

    /// Uniform in [0, 1), in steps of 2⁻⁵³.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.draw() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// Uniform in 0 … n−1 (n > 0). The bias of the multiplication is below n/2⁶⁴.
    pub(super) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.draw()) * n as u128) >> 64) as usize
    }

    /// Puts a list into a random order (Fisher and Yates, Durstenfeld 1964).
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}
