//! A user's own element: custom code in the path of packets.
//!
//! An element is applied at the end of a pipe's serialisation, behind loss and in front of the delay. It
//! sees each packet once, in order, when its last bit is sent, and decides what happens to it. It has a
//! random stream of its own, so that a run with the same seed gives the same result; for the same reason it
//! must not read a clock or keep state outside itself.
//!
//! Left out: elements that reorder a queue (a discipline decides that), or create packets.

use std::fmt;
use std::sync::Arc;

use crate::rng::Stream;
use crate::time::{Span, Time};

/// Custom code in the path of packets.
pub trait Element: Send + fmt::Debug {
    /// Decides what happens to a packet. `packet` holds its bytes from the IP header on, with all edits so
    /// far applied. They may be changed, except for the addresses, the TTL (hop limit) and the length, to
    /// which changes have no effect; an IPv4 header's checksum must stay correct.
    fn pass(&mut self, now: Time, packet: &mut [u8], random: &mut Stream) -> Action;
}

/// What an element does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Pass,
    /// It goes on, delayed by this much more.
    Hold(Span),
    /// It is lost.
    Drop,
}

/// Makes the element of each pipe that has one.
#[derive(Clone)]
pub struct ElementFactory {
    /// What the experiment file calls it.
    pub name: Arc<str>,
    /// Makes one for a pipe.
    pub make: Arc<dyn Fn() -> Box<dyn Element> + Send + Sync>,
}

impl fmt::Debug for ElementFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ElementFactory").field(&self.name).finish()
    }
}

impl PartialEq for ElementFactory {
    /// Equal where they are the same factory.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}
