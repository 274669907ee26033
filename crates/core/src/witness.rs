//! Witnesses: observers to which the engine reports what happens to packets.
//!
//! Purpose: a trace hash, a capture and a series of measurements all ask the same question: what happened
//! to which packet, where and when. `engine/record.rs` reports every [`PacketEvent`] at one place,
//! whichever path the packet took through the engine. A run without witnesses pays one comparison.
//!
//! **Order.** The events of one packet are reported in order. The events of different packets are not: a
//! look-ahead window handles pipe by pipe, and a loss is reported when the packet would have come out. A
//! witness that needs all of them in order sorts by [`Sighting::time`]. A pipe between two cores is seen by
//! the witnesses of both: packets enter, are lost and are handed over at one engine, and come out at the
//! other.
//!
//! Left out: what witnesses do with it.

use std::any::Any;

use crate::pool::Pool;
use crate::time::Time;
use crate::topology::{NodeId, PipeId};

/// What happens to a packet at a pipe or a node. The numbers are part of the trace hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketEvent {
    /// It arrived at a pipe, which may drop it at once. Not part of the trace hash, as it follows from the
    /// rest.
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
    /// A pipe flipped a bit of it.
    Corrupted = 6,
    /// Its service starts: the pipe takes it from the queue. A plain pipe knows the time beforehand, so it
    /// may lie ahead, and is reported again when a change of the pipe moves it. Not part of the trace
    /// hash.
    Served = 7,
    /// It was handed to another core's engine, where it comes out of the pipe at this time, which may lie
    /// ahead. The engine that has the pipe's queue reports it, in place of [`PacketEvent::Out`]. Not part
    /// of the trace hash.
    Over = 8,
    /// A host sent it.
    Entered = 16,
    /// It has reached its host.
    Delivered = 17,
    /// It came to a host that it was not for.
    Misdelivered = 18,
    /// It was addressed to a router.
    Absorbed = 19,
    /// Its TTL or hop limit ran out.
    HopLimit = 20,
    /// No path leads to its destination.
    NoRoute = 21,
    /// It exceeds the MTU of the next pipe.
    TooBig = 22,
}

/// A set of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketEvents(u32);

impl PacketEvents {
    /// No event.
    pub const NONE: Self = Self(0);
    /// Every event.
    pub const ALL: Self = Self(u32::MAX);

    /// These and one more.
    #[must_use]
    pub const fn with(self, event: PacketEvent) -> Self {
        Self(self.0 | 1 << event as u32)
    }

    /// The union of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether an event is one of them.
    pub const fn has(self, event: PacketEvent) -> bool {
        self.0 & 1 << event as u32 != 0
    }
}

/// The pipe or node at which something happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a pipe.
    Pipe(PipeId),
    /// At a node.
    Node(NodeId),
}

/// One report to a witness: what happened to a packet, where and when.
#[derive(Clone, Copy)]
pub struct Sighting<'a> {
    /// Where it happened.
    pub place: Place,
    /// When it happened, in experiment time.
    pub time: Time,
    /// What happened.
    pub event: PacketEvent,
    pub(crate) index: u32,
    pub(crate) pool: &'a Pool,
}

impl Sighting<'_> {
    /// Length of the packet's frame in bytes: Ethernet header and IP packet.
    pub fn frame_len(&self) -> usize {
        self.pool.frame_len(self.index)
    }

    /// When a packet in a plain pipe comes out, or would have, had it not been lost; a time in the past
    /// where that is not known yet.
    pub fn due(&self) -> Time {
        self.pool[self.index].due().time
    }

    /// When the packet entered the network.
    pub fn entered(&self) -> Time {
        self.pool[self.index].entered
    }

    /// The packet's number among those that entered this engine, or among those made in it, modulo 2³¹.
    pub fn number(&self) -> u32 {
        self.pool[self.index].id
    }

    /// The packet's slot in the pool: unique while it is in this engine, reused afterwards.
    pub const fn slot(&self) -> u32 {
        self.index
    }

    /// A frame that begins with the packet's headers as its host sent them, from the Ethernet header on. For
    /// a segment it is the whole super-packet.
    pub fn headers(&self) -> &[u8] {
        self.pool.headers(self.index)
    }

    /// Appends the first `snaplen` bytes of the frame as it is on the wire here: with all header edits
    /// applied and its checksum complete. The payload of a modelled packet is zeros.
    pub fn append_frame(&self, snaplen: usize, to: &mut Vec<u8>) {
        self.pool.append_frame(self.index, snaplen, to);
    }
}

/// An observer of packet events.
pub trait Witness: Any + Send {
    /// The events that it wants; called once. Events that no witness wants cost nothing.
    fn events(&self) -> PacketEvents {
        PacketEvents::ALL
    }

    /// Takes a report.
    fn see(&mut self, sighting: &Sighting<'_>);
}

/// Identifies a witness until [`Engine::unwatch`](crate::Engine::unwatch) removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessId(pub(crate) u64);
