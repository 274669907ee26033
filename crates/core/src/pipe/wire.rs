//! What happens to a packet behind the sender: loss, corruption, duplication and delay.
//!
//! In this order: loss (a trace's, else the model), bit errors, the user's own element, corruption,
//! duplication, delay (a trace's, else drawn, else constant), and being held back. Each mechanism has its
//! own random stream, named after the pipe and the mechanism, which continues when parameters change; a
//! mechanism that is off draws nothing. A lost packet draws its delay all the same, so that the delays of
//! other packets do not depend on losses.
//!
//! Left out: the order in which packets come out ([`super::flight`]).

use std::sync::Arc;

use super::bit_errors::BitErrors;
use super::choice::Chooser;
use super::corrupt;
use super::jitter::Sampler;
use super::loss::Loss;
use super::trace::Replay;
use crate::element::{Action, Element, ElementFactory};
use crate::packet::ETHERNET_LEN;
use crate::params::{Jitter, PipeParams, Which};
use crate::pool::Pool;
use crate::rng::Stream;
use crate::time::{Span, Time};
use crate::units::Probability;

/// The mechanisms behind a pipe's sender.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) loss: Loss,
    /// For the delay and loss that a trace records.
    trace: Option<Box<Replay>>,
    trace_loss: Stream,
    bit_errors: Box<BitErrors>,
    element: Option<Own>,
    element_random: Stream,
    corrupt: Chooser,
    /// Chooses the bit.
    corrupt_place: Stream,
    duplicate: Chooser,
    /// Kept while delays are constant, so that its stream continues.
    jitter: Option<Box<Sampler>>,
    jitter_stream: Stream,
    reorder: Chooser,
}

/// A user's own element and what made it.
#[derive(Debug)]
struct Own {
    factory: ElementFactory,
    element: Box<dyn Element>,
}

impl Own {
    fn new(factory: &ElementFactory) -> Self {
        Self {
            factory: factory.clone(),
            element: (factory.make)(),
        }
    }
}

const NEVER: Which = Which::Random(Probability::NEVER);

impl Wire {
    /// The mechanisms of the pipe called `name`, with its loss as it is.
    pub(crate) fn new(params: &PipeParams, loss: Loss, seed: u64, name: &str) -> Self {
        let stream = |mechanism: &str| Stream::new(seed, &format!("{name}/{mechanism}"));
        let mut wire = Self {
            loss,
            trace: None,
            trace_loss: stream("trace"),
            bit_errors: Box::new(BitErrors::new(params.bit_errors, stream("bits"))),
            element: None,
            element_random: stream("element"),
            corrupt: Chooser::new(NEVER, stream("corrupt")),
            corrupt_place: stream("corrupt/place"),
            duplicate: Chooser::new(NEVER, stream("duplicate")),
            jitter: None,
            jitter_stream: stream("delay"),
            reorder: Chooser::new(NEVER, stream("reorder")),
        };
        wire.set(params);
        wire
    }

    /// Changes all mechanisms, for packets that depart from now on.
    pub(crate) fn set(&mut self, params: &PipeParams) {
        self.loss.set(&params.loss);
        self.trace = params.trace.as_ref().map(|trace| {
            let same = self.trace.take();
            let same = same.filter(|replay| Arc::ptr_eq(replay.trace(), trace));
            same.unwrap_or_else(|| Box::new(Replay::new(Arc::clone(trace), None)))
        });
        self.bit_errors.set(params.bit_errors);
        self.element = params.element.as_ref().map(|factory| {
            let same = self.element.take();
            let same = same.filter(|own| own.factory == *factory);
            same.unwrap_or_else(|| Own::new(factory))
        });
        self.corrupt.set(Which::Random(params.corrupt));
        self.duplicate.set(Which::Random(params.duplicate));
        if let Some(jitter) = &params.jitter {
            self.set_jitter(jitter);
        }
        self.reorder.set(params.reorder.map_or(NEVER, |r| r.which));
    }

    fn set_jitter(&mut self, jitter: &Jitter) {
        match &mut self.jitter {
            Some(sampler) => sampler.set(jitter),
            None => {
                let stream = self.jitter_stream.clone();
                self.jitter = Some(Box::new(Sampler::new(jitter, stream)));
            }
        }
    }

    /// The delay of the next packet, which departs at `now`.
    pub(crate) fn delay(&mut self, params: &PipeParams, now: Time) -> Span {
        let recorded = self.trace.as_mut().and_then(|trace| trace.delay_at(now));
        match (recorded, &params.jitter, &mut self.jitter) {
            (Some(delay), ..) => delay,
            (None, Some(_), Some(sampler)) => sampler.draw(),
            _ => params.delay,
        }
    }

    /// Whether the next packet, of `bytes` that count, is lost at `now`.
    pub(crate) fn loses(&mut self, now: Time, bytes: u32) -> bool {
        let recorded = self.trace.as_mut().and_then(|trace| trace.loss_at(now));
        let lost = match recorded {
            None => self.loss.hits(),
            Some(loss) => !loss.is_never() && loss.hits(self.trace_loss.draw()),
        };
        // No short circuit: both must draw.
        self.bit_errors.hits(bytes) | lost
    }

    /// What the user's own element does with a packet; its bytes may change.
    pub(crate) fn pass(&mut self, now: Time, index: u32, pool: &mut Pool) -> Action {
        let Some(own) = &mut self.element else {
            return Action::Pass;
        };
        pool.apply_edits(index);
        let packet = &mut pool.frame_mut(index)[ETHERNET_LEN..];
        own.element.pass(now, packet, &mut self.element_random)
    }

    /// Flips a bit of the packet's payload if it is chosen; returns whether it did.
    pub(crate) fn corrupts(&mut self, index: u32, pool: &mut Pool) -> bool {
        self.corrupt.hits() && {
            // Complete the checksum first: one computed later would hide the error.
            pool.materialise(index);
            let len = pool[index].ip_len();
            let stored = &mut pool.frame_mut(index)[ETHERNET_LEN..];
            corrupt::flip(stored, len, self.corrupt_place.draw())
        }
    }

    /// Whether the next packet comes out twice.
    pub(crate) fn duplicates(&mut self) -> bool {
        self.duplicate.hits()
    }

    /// How much longer the next packet is held back than the others.
    pub(crate) fn hold(&mut self, params: &PipeParams) -> Option<Span> {
        let chosen = self.reorder.hits();
        params
            .reorder
            .filter(|_| chosen)
            .map(|reorder| reorder.hold)
    }
}

/// Whether packets may overtake each other.
pub(crate) fn may_reorder(params: &PipeParams) -> bool {
    let free_jitter = params.jitter.as_ref().is_some_and(|jitter| jitter.reorder);
    free_jitter || (params.overtake && params.trace.is_some())
}
