//! One network on several cores: engines over shares of its nodes.
//!
//! Theory (Chandy and Misra, CACM 1981; Nicol, JACM 1993: conservative synchronisation with
//! look-ahead). A node's owner has its state and all pipes that leave it. A pipe between nodes of
//! two owners is *cut*: its packets are queued, sent and lost at its owner's, and come out at the
//! other's, into which they are handed ahead of time ([`Crossing`]). What enters a cut pipe comes
//! out no sooner than the pipe's least delay later, so each engine may go on alone up to a horizon
//! that follows from when the others can act next and from how far away, by cut pipes, they are
//! ([`Horizons`]).
//!
//! **Exactness.** Each engine's events come in the total order of the engine ([`crate::engine`]):
//! packets that were handed in have the rank of their pipe like all others. So every pipe and every
//! node sees what it would see in one engine over all, and all results are the same to the byte:
//! the trace hash, counters, deliveries.
//!
//! **Cost.** Pipes, packets and route tables are those of the share. For the whole network an engine
//! keeps 28 bytes a node and 6 a pipe, besides what all share.
//!
//! Left out: threads, and the hosts at the ends (`longhaul-emulation`).

mod horizon;
mod share;

pub use crate::engine::crossing::Crossing;
pub use horizon::Horizons;
pub use share::{CoreId, Split};
pub(crate) use share::{LocalPipe, Share};
