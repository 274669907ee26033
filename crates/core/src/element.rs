//! A user's own element: code of one's own in the path of packets.
//!
//! An element stands at the end of a pipe's serialisation, behind loss and in front of the
//! delay. It sees each packet once, in order, at the time its last bit is out, and says what
//! becomes of it. It has a random stream of its own, so that a run with the same seed gives
//! the same result; it must not look at a clock or keep state outside itself.
//!
//! Left out: elements that reorder a queue (a discipline decides that), or make packets.

use std::fmt;
use std::sync::Arc;

use crate::rng::Stream;
use crate::time::{Span, Time};

/// Code of one's own in the path of packets.
pub trait Element: Send + fmt::Debug {
    /// Decides what becomes of a packet; `packet` are its bytes from the IP header on, with all
    /// that has been done to it so far. They may be changed but for the addresses, TTL (hop
    /// limit) and length, whose changes are not looked at; an IPv4 header's checksum has to stay
    /// true.
    fn pass(&mut self, now: Time, packet: &mut [u8], random: &mut Stream) -> Action;
}

/// What an element does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Pass,
    /// It goes on, so much later than it would.
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
