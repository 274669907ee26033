//! Witnesses: who watches what becomes of packets.
//!
//! Purpose: a trace hash, a capture or a series of measurements all ask the same question, what
//! happened to which packet, where and when. The engine answers it at one place for each [`Fate`],
//! by the record in `engine/record.rs`, whichever of its ways a packet took; a run that nobody
//! watches pays one comparison.
//!
//! **Order.** The fates of one packet are told in their order. Otherwise the order follows how the
//! engine arranges its work, and a loss is told when the packet would have come out, so a witness that
//! needs all in order of time sorts by the time that it is told. A pipe between two cores is watched at
//! both: packets enter, are lost and go over at one engine, and come out at the other.
//!
//! Left out: what witnesses do with it.

use std::any::Any;

use crate::pool::Pool;
use crate::time::Time;
use crate::topology::{NodeId, PipeId};

/// What happens to a packet at an element of the network. The numbers are part of the trace hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It reached a pipe, which may drop it at once. Not part of the trace hash: it follows from the rest.
    In = 0,
    /// It came out of a pipe.
    Out = 1,
    /// A pipe lost it; the time is when its last bit had been sent.
    Loss = 2,
    /// A queue had no room for it, or its discipline dropped it.
    Queue = 3,
    /// The link was down or went down.
    LinkDown = 4,
    /// A discipline marked it (ECN).
    Marked = 5,
    /// A pipe changed a bit of it.
    Corrupted = 6,
    /// A pipe takes it from its queue to send it, or will do so at a time that is known already; told anew
    /// where a change of the pipe moves that time. Not part of the trace hash.
    Served = 7,
    /// It has left this engine for another core's, where it comes out of the pipe at this time, which may lie
    /// ahead. Told instead of [`Fate::Out`] where the pipe's queue is. Not part of the trace hash.
    Over = 8,
    /// A host sent it.
    Entered = 16,
    /// It has reached its host.
    Delivered = 17,
    /// It came to a host that it was not for.
    Misdelivered = 18,
    /// It was for a router.
    Absorbed = 19,
    /// Its TTL or hop limit ran out.
    HopLimit = 20,
    /// There is no way on.
    NoRoute = 21,
    /// It is larger than the next pipe takes.
    TooBig = 22,
}

/// A set of fates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fates(u32);

impl Fates {
    /// No fate.
    pub const NONE: Self = Self(0);
    /// Every fate.
    pub const ALL: Self = Self(u32::MAX);

    /// Those and one more.
    #[must_use]
    pub const fn with(self, fate: Fate) -> Self {
        Self(self.0 | 1 << fate as u32)
    }

    /// Those of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a fate is one of them.
    pub const fn has(self, fate: Fate) -> bool {
        self.0 & 1 << fate as u32 != 0
    }
}

/// The element of the network at which something happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a pipe.
    Pipe(PipeId),
    /// At a node.
    Node(NodeId),
}

/// Something happens to a packet.
#[derive(Clone, Copy)]
pub struct Sighting<'a> {
    /// Where.
    pub place: Place,
    /// When, in experiment time.
    pub time: Time,
    /// What.
    pub fate: Fate,
    pub(crate) index: u32,
    pub(crate) pool: &'a Pool,
}

impl Sighting<'_> {
    /// Length of the packet's frame in bytes: Ethernet header and IP packet.
    pub fn frame_len(&self) -> usize {
        self.pool.frame_len(self.index)
    }

    /// When a packet in a plain pipe comes out, or would, had it not been lost. Where that is not known yet,
    /// a time that has passed.
    pub fn due(&self) -> Time {
        self.pool[self.index].due().time
    }

    /// When the packet entered the network.
    pub fn entered(&self) -> Time {
        self.pool[self.index].entered
    }

    /// The packet's number among those that entered, or were made, where it did, modulo 2³¹.
    pub fn number(&self) -> u32 {
        self.pool[self.index].id
    }

    /// A number that the packet has as long as it is in this engine; it may be another's afterwards.
    pub const fn slot(&self) -> u32 {
        self.index
    }

    /// A frame that begins with the packet's headers, from its Ethernet header on, as its host sent it: of a
    /// segment, that of the super-packet which it is a part of.
    pub fn headers(&self) -> &[u8] {
        self.pool.headers(self.index)
    }

    /// Appends the first `snaplen` bytes of the frame as it is on the wire here: with every change
    /// that the network has made to its headers, and its checksum complete. The payload of a
    /// modelled packet is zeros.
    pub fn append_frame(&self, snaplen: usize, to: &mut Vec<u8>) {
        self.pool.append_frame(self.index, snaplen, to);
    }
}

/// Watches packets.
pub trait Witness: Any + Send {
    /// The fates that it is told of; asked once. What is not among those of any witness costs nothing.
    fn fates(&self) -> Fates {
        Fates::ALL
    }

    /// Something happens to a packet.
    fn see(&mut self, sighting: &Sighting<'_>);
}

/// A witness of an engine, until it is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessId(pub(crate) u64);
