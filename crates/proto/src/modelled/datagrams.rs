//! A flow of datagrams: a sender that follows the clock, and a receiver that measures.
//!
//! Each datagram begins with its number and the time of its sending. When which one leaves follows
//! from the flow alone ([`Departures`]). So the receiver of a flow that ends by itself, which has
//! the same departures, knows without a word how many there are at any time: it counts no datagram
//! that cannot have been sent, and waits for those that are missing until 10 s after the last one
//! left. Then the flow is over, or as soon as all have arrived.

mod departures;
mod duplicates;
mod receiver;
mod sender;

use longhaul_core::time::Span;

use departures::Departures;
pub(super) use receiver::Receiver;
pub(super) use sender::Sender;

/// How long after the last datagram was sent its receiver waits for those that are missing, and its
/// sender for errors about them.
const LINGER: Span = Span::from_s(10);
