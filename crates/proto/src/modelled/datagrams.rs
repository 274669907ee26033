//! A flow of datagrams: a sender that follows the clock, and a receiver that measures.
//!
//! Each datagram begins with its number and the time at which it was sent. The times of departure
//! follow from the flow alone ([`Departures`]). So the receiver of a flow that ends by itself can
//! compute how many datagrams have been sent at any time: it rejects a datagram that cannot have
//! been sent yet, and waits for missing ones until 10 s after the last departure. The flow is over
//! then, or as soon as all have arrived.

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
