//! Randomness: one stream for each pipe, from the run's seed and the pipe's name.
//!
//! A stream of its own makes a pipe's draws independent of all other traffic, of the number of
//! threads and of what else the topology holds. The start of a stream is the 128-bit
//! SipHash-1-3 of the name under the seed, so that streams of similar names or neighbouring
//! seeds have nothing in common; the generator is PCG XSL 128/64 (MCG), which passes the usual
//! test batteries at two multiplications a draw.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use siphasher::sip128::SipHasher13;

/// A stream of uniform 64-bit draws.
#[derive(Debug, Clone)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream of the element called `name` in a run of `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        let state = SipHasher13::new_with_keys(seed, 0)
            .hash(name.as_bytes())
            .as_u128();
        Self(Pcg64Mcg::new(state))
    }

    /// The next draw.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Passes over the next `draws` draws, in a time that grows with the logarithm of their number.
    pub fn skip(&mut self, draws: u64) {
        self.0.advance(draws.into());
    }

    /// Takes back the last `draws` draws; they come again.
    pub fn rewind(&mut self, draws: u64) {
        // The period divides 2^128.
        self.0.advance(u128::from(draws).wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Committed values: a change here changes every seeded result there is.
    #[test]
    fn streams_never_change() {
        let mut stream = Stream::new(42, "a>b");
        let draws = [11_352_849_242_570_768_565, 15_850_577_718_952_315_830];
        assert_eq!([stream.draw(), stream.draw()], draws);
    }

    #[test]
    fn what_is_taken_back_comes_again() {
        let mut stream = Stream::new(42, "a>b");
        let draws: Vec<u64> = (0..100).map(|_| stream.draw()).collect();
        stream.rewind(60);
        assert_eq!(stream.draw(), draws[40]);
        stream.rewind(0);
        assert_eq!(stream.draw(), draws[41]);
    }

    #[test]
    fn what_is_passed_over_does_not_come() {
        let mut stream = Stream::new(42, "a>b");
        let draws: Vec<u64> = (0..100).map(|_| stream.draw()).collect();
        for passed in [0, 1, 7, 99] {
            let mut stream = Stream::new(42, "a>b");
            stream.skip(passed);
            assert_eq!(stream.draw(), draws[passed as usize]);
        }
    }

    #[test]
    fn seed_and_name_both_matter() {
        let first = |seed, name| Stream::new(seed, name).draw();
        assert_eq!(first(1, "a>b"), first(1, "a>b"));
        assert_ne!(first(1, "a>b"), first(2, "a>b"));
        assert_ne!(first(1, "a>b"), first(1, "b>a"));
    }
}
