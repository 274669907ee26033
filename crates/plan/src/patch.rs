//! Changes of a pipe's parameters: what a link of the file, its way back, an event and the
//! command `set` have in common.
//!
//! A patch names only what it changes, so that several of them, from events and from commands,
//! can follow one another in any order without undoing each other.

use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::element::ElementFactory;
use longhaul_core::params::{Discipline, Jitter, LossModel, PipeParams, Reorder};
use longhaul_core::trace::Trace;
use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit, Rate};

/// Changes of a pipe's parameters; what is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// Serialisation rate; `Some(None)` is unlimited.
    pub rate: Option<Option<Rate>>,
    /// Depth of the token bucket; `Some(None)` is even gaps.
    pub burst: Option<Option<Bytes>>,
    /// The bytes that use up the rate.
    pub framing: Option<Framing>,
    /// The queue's bound with its discipline.
    pub queue: Option<(QueueLimit, Discipline)>,
    /// The mean delay with its distribution.
    pub delay: Option<(Span, Option<Arc<Jitter>>)>,
    /// Whether packets may overtake when the delay falls.
    pub overtake: Option<bool>,
    /// Packets lost at the end of serialisation.
    pub loss: Option<LossModel>,
    /// The probability that a bit is wrong.
    pub bit_errors: Option<Probability>,
    /// The probability that a packet comes out twice.
    pub duplicate: Option<Probability>,
    /// The probability that a bit of a payload is flipped.
    pub corrupt: Option<Probability>,
    /// Packets that are held back; `Some(None)` is none.
    pub reorder: Option<Option<Reorder>>,
    /// The recorded series; `Some(None)` is none.
    pub trace: Option<Option<Arc<Trace>>>,
    /// A user's own element; `Some(None)` is none.
    pub element: Option<Option<ElementFactory>>,
}

impl Patch {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `params` with the changes.
    pub fn apply(&self, params: &PipeParams) -> PipeParams {
        let (queue, discipline) = self.queue.unwrap_or((params.queue, params.discipline));
        let (delay, jitter) = self
            .delay
            .clone()
            .unwrap_or_else(|| (params.delay, params.jitter.clone()));
        PipeParams {
            rate: self.rate.unwrap_or(params.rate),
            burst: self.burst.unwrap_or(params.burst),
            framing: self.framing.unwrap_or(params.framing),
            queue,
            discipline,
            delay,
            jitter,
            overtake: self.overtake.unwrap_or(params.overtake),
            loss: self.loss.clone().unwrap_or_else(|| params.loss.clone()),
            bit_errors: self.bit_errors.unwrap_or(params.bit_errors),
            duplicate: self.duplicate.unwrap_or(params.duplicate),
            corrupt: self.corrupt.unwrap_or(params.corrupt),
            reorder: self.reorder.unwrap_or(params.reorder),
            trace: self.trace.clone().unwrap_or_else(|| params.trace.clone()),
            element: self
                .element
                .clone()
                .unwrap_or_else(|| params.element.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_touches_only_what_it_names() {
        let now = PipeParams {
            delay: Span::from_ms(5),
            loss: LossModel::Independent(Probability::ALWAYS),
            ..PipeParams::default()
        };
        let rate = Rate::from_bits_per_s(8_000_000);
        let patch = Patch {
            rate: Some(rate),
            ..Patch::default()
        };
        let then = patch.apply(&now);
        assert_eq!(
            then,
            PipeParams {
                rate,
                ..now.clone()
            }
        );
        assert_eq!(Patch::default().apply(&then), then);
        let back = Patch {
            rate: Some(None),
            ..Patch::default()
        };
        assert_eq!(back.apply(&then), now);
        assert!(Patch::default().is_empty() && !back.is_empty());
    }
}
