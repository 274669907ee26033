//! Forwarding decision: what happens to a packet that has come out of a pipe.
//!
//! Three callers take packets out of pipes: the heap, one at a time; an open look-ahead window
//! ([`super::window`]), one at a time; and a whole window, many at once. All three call [`decide`], so a
//! packet is forwarded alike by whichever of them. The first two then call [`Engine::complete`]; a whole
//! window does the same steps, each for all of its packets, because that touches memory in order.
//!
//! Left out: the slow path, which is everything but loss, delivery and plain forwarding
//! ([`super::forward`], [`super::lan`]).

use super::Engine;
use super::lan::GROUP;
use crate::parallel::LocalPipe;
use crate::pipe::Pipe;
use crate::pipe::delay::Moment;
use crate::pool::{Descriptor, LOST};
use crate::route::{NextHop, Routes};
use crate::time::Time;
use crate::topology::{NodeId, Topology};
use crate::witness::PacketEvent;

/// What happens to a packet that comes out of a pipe: the number of the next pipe, or one of the three
/// constants, which no pipe's number reaches. One word, because a window holds one for each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disposition(u32);

impl Disposition {
    /// The pipe lost it.
    pub(super) const LOST: Self = Self(u32::MAX);
    /// It has reached its host.
    pub(super) const DELIVER: Self = Self(u32::MAX - 1);
    /// The node must examine it: to answer, fragment, copy, balance or drop it.
    pub(super) const SLOW_PATH: Self = Self(u32::MAX - 2);

    /// It enters `pipe`, with its hop limit lowered by one.
    #[inline]
    pub(super) const fn forward(pipe: LocalPipe) -> Self {
        Self(pipe.0)
    }

    /// The pipe that it is forwarded into.
    #[inline]
    pub(super) const fn pipe(self) -> Option<LocalPipe> {
        if self.0 < Self::SLOW_PATH.0 {
            Some(LocalPipe(self.0))
        } else {
            None
        }
    }
}

/// Whether a router forwards a packet unchanged into a pipe whose MTU is `mtu` bytes.
#[inline(always)]
pub(super) fn may_forward(packet: &Descriptor, mtu: u32) -> bool {
    !packet.is(LOST) && packet.hop_limit > 1 && packet.ip_len() <= mtu
}

/// Decides about a packet that comes out of `pipe`; `mtu` gives the MTU of a next pipe.
#[inline]
pub(super) fn decide(
    pipe: &Pipe,
    packet: &Descriptor,
    (routes, topology): (&mut Routes, &Topology),
    mtu: impl FnOnce(LocalPipe) -> u32,
) -> Disposition {
    let (node, to) = (pipe.to, packet.destination);
    if packet.is(LOST) {
        Disposition::LOST
    } else if to == node && pipe.leads_to_host() {
        Disposition::DELIVER
    } else if to != node && to < GROUP && pipe.leads_to_router() {
        match routes.next_hop(topology, NodeId(node), NodeId(to)) {
            Some(NextHop::One(next)) if may_forward(packet, mtu(LocalPipe(next.0))) => {
                Disposition::forward(LocalPipe(next.0))
            }
            _ => Disposition::SLOW_PATH,
        }
    } else {
        Disposition::SLOW_PATH
    }
}

impl Engine {
    /// Carries out the decision about a packet that has been taken out of its pipe.
    #[inline]
    pub(super) fn complete(
        &mut self,
        from: LocalPipe,
        index: u32,
        at: Moment,
        disposition: Disposition,
    ) {
        if disposition == Disposition::LOST {
            return self.lose(from, index);
        }
        self.record
            .came_out(1, [(from, index, at.time)], &self.pool);
        if let Some(next) = disposition.pipe() {
            self.pool[index].hop_limit -= 1;
            self.enter(next, index, at, Time::ZERO);
        } else if disposition == Disposition::DELIVER {
            self.deliver(index);
        } else {
            self.receive_at_node(from, index, at);
        }
    }

    /// Counts the loss of a plain pipe's packet. It was lost at the end of its serialisation, but kept
    /// its place in the pipe until it would have come out.
    pub(super) fn lose(&mut self, from: LocalPipe, index: u32) {
        let sent = self.pool[index].sent();
        self.record
            .ended_inside(from, index, sent, PacketEvent::Loss, &mut self.pool);
    }

    /// Drops a packet at a node.
    #[inline(never)] // rare: keeps it out of the hot loop
    pub(super) fn drop_at(&mut self, node: NodeId, index: u32, time: Time, event: PacketEvent) {
        self.end_at(node, index, time, event);
        self.pool.release(index);
    }
}
