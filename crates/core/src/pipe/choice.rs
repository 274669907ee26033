//! A choice among packets: each with one probability, or exactly one of each block.
//!
//! One in n is chosen at random within its block, not every n-th: a fixed place would fall in
//! step with whatever the senders do at regular intervals.
//!
//! Left out: what is done to the chosen ones.

use std::num::NonZeroU32;

use crate::params::Which;
use crate::rng::Stream;

/// Exactly one, at a random place, of each block of packets.
#[derive(Debug, Clone)]
pub(super) struct Block {
    len: u32,
    /// Packets of the present block that have passed.
    passed: u32,
    /// The place of the chosen one.
    chosen: u32,
}

impl Block {
    pub(super) const fn new(len: NonZeroU32) -> Self {
        Self {
            len: len.get(),
            passed: 0,
            chosen: 0,
        }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Whether the next packet is the chosen one. Draws once for each block.
    pub(super) fn hits(&mut self, stream: &mut Stream) -> bool {
        if self.passed == 0 {
            self.chosen = below(stream.draw(), self.len);
        }
        let hit = self.passed == self.chosen;
        self.passed = if self.passed + 1 < self.len {
            self.passed + 1
        } else {
            0
        };
        hit
    }
}

/// A uniform whole number below `n` from a uniform draw: its share of 2^64. A value's probability
/// is off by less than 2^-64, which no run can see.
pub(super) const fn below(draw: u64, n: u32) -> u32 {
    ((draw as u128 * n as u128) >> 64) as u32
}

/// Chooses packets.
#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    which: Which,
    /// Of use for `OneIn` alone.
    block: Block,
    stream: Stream,
}

impl Chooser {
    pub(crate) const fn new(which: Which, stream: Stream) -> Self {
        Self {
            which,
            block: first_block(which),
            stream,
        }
    }

    /// Changes the choice; the stream goes on where it was, and a block starts anew only where
    /// the choice is another.
    pub(crate) fn set(&mut self, which: Which) {
        if self.which != which {
            self.which = which;
            self.block = first_block(which);
        }
    }

    /// Whether the next packet is chosen. What never chooses draws nothing.
    #[inline]
    pub(crate) fn hits(&mut self) -> bool {
        match self.which {
            Which::Random(probability) => {
                !probability.is_never() && probability.hits(self.stream.draw())
            }
            Which::OneIn(_) => self.block.hits(&mut self.stream),
        }
    }
}

const fn first_block(which: Which) -> Block {
    Block::new(match which {
        Which::OneIn(n) => n,
        Which::Random(_) => NonZeroU32::MIN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Probability;

    const SEED: u64 = 20_260_701;

    fn one_in(n: u32) -> Which {
        Which::OneIn(NonZeroU32::new(n).unwrap())
    }

    /// Exactly one of each ten, and at each place equally often: with nine degrees of freedom
    /// chi-squared exceeds 27.88 once in a thousand seeds.
    #[test]
    fn one_of_each_block_at_a_uniform_place() {
        const LEN: usize = 10;
        let mut chooser = Chooser::new(one_in(LEN as u32), Stream::new(SEED, "choice"));
        let mut at = [0_u32; LEN];
        let blocks = 100_000;
        for block in 0..blocks {
            let hits: Vec<usize> = (0..LEN).filter(|_| chooser.hits()).collect();
            assert_eq!(hits.len(), 1, "seed {SEED}, block {block}");
            at[hits[0]] += 1;
        }
        let expected = f64::from(blocks) / LEN as f64;
        let squares = at.map(|n| (f64::from(n) - expected) * (f64::from(n) - expected));
        let chi_squared = squares.iter().sum::<f64>() / expected;
        assert!(chi_squared < 27.88, "seed {SEED}: {chi_squared}, {at:?}");
    }

    #[test]
    fn blocks_of_one_and_of_the_most() {
        let mut every = Chooser::new(one_in(1), Stream::new(SEED, "every"));
        assert!((0..100).all(|_| every.hits()));
        let mut rare = Chooser::new(one_in(u32::MAX), Stream::new(SEED, "rare"));
        assert!((0..1000).filter(|_| rare.hits()).count() <= 1);
        assert_eq!(below(u64::MAX, u32::MAX), u32::MAX - 1);
        assert_eq!(
            (below(0, 7), below(u64::MAX, 7), below(u64::MAX, 1)),
            (0, 6, 0)
        );
    }

    #[test]
    fn random_choice_has_its_probability() {
        let probability = Probability::from_ratio(3, 100).unwrap();
        let mut chooser = Chooser::new(Which::Random(probability), Stream::new(SEED, "random"));
        let n = 1_000_000;
        let hits = (0..n).filter(|_| chooser.hits()).count() as f64;
        let (expected, deviation) = (0.03 * f64::from(n), (0.03 * 0.97 * f64::from(n)).sqrt());
        assert!(
            (hits - expected).abs() < 4.0 * deviation,
            "seed {SEED}: {hits}"
        );
    }

    #[test]
    fn a_change_starts_a_block_and_no_change_does_not() {
        let stream = Stream::new(SEED, "set");
        let mut untouched = Chooser::new(one_in(100), stream.clone());
        let mut same = Chooser::new(one_in(100), stream.clone());
        for i in 0..1000 {
            if i % 7 == 0 {
                same.set(one_in(100));
            }
            assert_eq!(same.hits(), untouched.hits(), "seed {SEED}, packet {i}");
        }
        let mut changed = Chooser::new(one_in(100), stream);
        for _ in 0..30 {
            changed.hits();
        }
        changed.set(one_in(2));
        for block in 0..50 {
            assert!(
                changed.hits() != changed.hits(),
                "seed {SEED}, block {block}"
            );
        }
    }
}
