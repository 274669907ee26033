//! A choice among packets: each with one probability, or exactly one of each block of so many.
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
mod tests;
