//! Independent loss: each packet is lost with one probability, whatever happened before.
//!
//! The draw belongs to the end of serialisation: a lost packet has used the rate. Since a pipe
//! sends in the order of entry, drawing at entry takes the same numbers for the same packets,
//! and so the engine does. A pipe that never loses draws nothing.

use crate::rng::Stream;
use crate::units::Probability;

/// Loses packets.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    probability: Probability,
    stream: Stream,
}

impl Loss {
    pub(crate) const fn new(probability: Probability, stream: Stream) -> Self {
        Self {
            probability,
            stream,
        }
    }

    /// Changes the probability; the stream goes on where it was.
    pub(crate) const fn set(&mut self, probability: Probability) {
        self.probability = probability;
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(crate) fn hits(&mut self) -> bool {
        !self.probability.is_never() && self.probability.hits(self.stream.draw())
    }
}
