//! Loss: each packet alike, one in n, in bursts, or by a list.
//!
//! The draw belongs to the end of serialisation: a lost packet has used the rate. Since a plain
//! pipe sends in the order of entry, drawing at entry takes the same numbers for the same
//! packets, and so the engine does. A pipe that never loses draws nothing.
//!
//! Bursts are a chain of two states, each with a loss of its own (E. O. Elliott, "Estimates of
//! error rates for codes on burst-noise channels", Bell System Technical Journal 42, 1963). It
//! starts good and moves once after each packet; so the time in a state is counted in packets,
//! and geometric.
//!
//! Left out: chains of more states; bursts that last for a time instead of a number of packets
//! (a trace does that).

use std::sync::Arc;

use super::choice::Block;
use crate::params::LossModel;
use crate::rng::Stream;
use crate::units::Probability;

/// Loses packets.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    /// Of independent loss; with every other model, anything but never.
    probability: Probability,
    stream: Stream,
    /// Any other model. Boxed, since most pipes have none.
    model: Option<Box<Model>>,
}

/// A model with a memory.
#[derive(Debug, Clone)]
enum Model {
    OneIn(Block),
    GilbertElliott(GilbertElliott),
    Pattern { list: Arc<[bool]>, next: usize },
}

/// In arrays of the good state's value and the bad state's.
#[derive(Debug, Clone)]
struct GilbertElliott {
    bad: bool,
    leave: [Probability; 2],
    loss: [Probability; 2],
}

impl Loss {
    pub(crate) fn new(model: &LossModel, stream: Stream) -> Self {
        let (probability, model) = parts(model);
        Self {
            probability,
            stream,
            model,
        }
    }

    /// Changes the loss. The stream goes on where it was; a block or a list starts anew where it
    /// is another; a chain with new probabilities stays in the state it is in, so that a ramp of
    /// many small steps is the chain that it looks like.
    pub(crate) fn set(&mut self, model: &LossModel) {
        let (probability, new) = parts(model);
        self.probability = probability;
        self.model = match (self.model.take(), new) {
            (Some(mut old), Some(new)) => {
                old.renew(*new);
                Some(old)
            }
            (_, new) => new,
        };
    }

    /// Takes back the last `draws` packets of independent loss, as if they had not come.
    pub(crate) fn take_back(&mut self, draws: u64) {
        if !self.probability.is_never() && self.model.is_none() {
            self.stream.rewind(draws);
        }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(crate) fn hits(&mut self) -> bool {
        if self.probability.is_never() {
            return false;
        }
        match &mut self.model {
            None => self.probability.hits(self.stream.draw()),
            Some(model) => model.hits(&mut self.stream),
        }
    }
}

fn parts(model: &LossModel) -> (Probability, Option<Box<Model>>) {
    let model = match model {
        LossModel::Independent(probability) => return (*probability, None),
        LossModel::OneIn(n) => Model::OneIn(Block::new(*n)),
        LossModel::GilbertElliott {
            to_bad,
            to_good,
            in_good,
            in_bad,
        } => Model::GilbertElliott(GilbertElliott {
            bad: false,
            leave: [*to_bad, *to_good],
            loss: [*in_good, *in_bad],
        }),
        LossModel::Pattern(list) => Model::Pattern {
            list: list.clone(),
            next: 0,
        },
    };
    (Probability::ALWAYS, Some(Box::new(model)))
}

impl Model {
    /// Turns into the fresh model `new`, keeping what still holds.
    fn renew(&mut self, new: Self) {
        match (&mut *self, new) {
            (Self::OneIn(old), Self::OneIn(new)) if old.len() == new.len() => {}
            (Self::Pattern { list: old, .. }, Self::Pattern { list: new, .. }) if *old == new => {}
            (Self::GilbertElliott(old), Self::GilbertElliott(new)) => {
                *old = GilbertElliott {
                    bad: old.bad,
                    ..new
                };
            }
            (_, new) => *self = new,
        }
    }

    fn hits(&mut self, stream: &mut Stream) -> bool {
        match self {
            Self::OneIn(block) => block.hits(stream),
            Self::GilbertElliott(chain) => chain.hits(stream),
            Self::Pattern { list, next } => {
                let lost = list.get(*next).copied().unwrap_or(false);
                *next = if *next + 1 < list.len() { *next + 1 } else { 0 };
                lost
            }
        }
    }
}

impl GilbertElliott {
    /// Two draws for each packet, whatever the probabilities.
    fn hits(&mut self, stream: &mut Stream) -> bool {
        let state = usize::from(self.bad);
        let lost = self.loss[state].hits(stream.draw());
        self.bad ^= self.leave[state].hits(stream.draw());
        lost
    }
}

#[cfg(test)]
mod tests;
