//! Independent loss: each packet is lost with one probability, whatever happened before.
//!
//! The draw belongs to the end of serialisation: a lost packet has used the rate. Since a pipe
//! sends in the order of entry, drawing at entry takes the same numbers for the same packets,
//! and so the engine does. A pipe that never loses draws nothing.

use crate::params::LossModel;
use crate::rng::Stream;
use crate::units::Probability;

/// Loses packets.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    probability: Probability,
    stream: Stream,
}

impl Loss {
    pub(crate) const fn new(model: &LossModel, stream: Stream) -> Self {
        Self {
            probability: independent(model),
            stream,
        }
    }

    /// Changes the probability; the stream goes on where it was.
    pub(crate) const fn set(&mut self, model: &LossModel) {
        self.probability = independent(model);
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(crate) fn hits(&mut self) -> bool {
        !self.probability.is_never() && self.probability.hits(self.stream.draw())
    }
}

const fn independent(model: &LossModel) -> Probability {
    match model {
        LossModel::Independent(probability) => *probability,
        _ => Probability::NEVER,
    }
}
