//! Where a packet goes that comes out of a pipe: decided here, and completed here.
//!
//! Packets are taken out of pipes in several ways: by the heap one at a time, by a look-ahead window
//! ([`super::window`]) one at a time or many at once. All ask [`decide`] where a packet goes, and all
//! but a whole window, which does each part for all of its packets in turn, leave the rest to
//! [`Engine::complete`].
//!
//! Left out: what nodes do about a packet that does not simply go on ([`super::forward`],
//! [`super::lan`]).

use super::Engine;
use super::lan::GROUP;
use crate::parallel::LocalPipe;
use crate::pipe::Pipe;
use crate::pipe::delay::Moment;
use crate::pool::{Descriptor, LOST};
use crate::route::{NextHop, Routes};
use crate::time::Time;
use crate::topology::{NodeId, Topology};
use crate::witness::Fate;

/// Where a packet goes that comes out of a pipe: the number of the next pipe, or one of those
/// below, above all of which are numbers of pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way(u32);

impl Way {
    /// It is lost in its pipe.
    pub(super) const LOST: Self = Self(u32::MAX);
    /// It has arrived at its host.
    pub(super) const HOME: Self = Self(u32::MAX - 1);
    /// The node has to look at it: it is answered, split, copied, balanced or dropped.
    pub(super) const NODE: Self = Self(u32::MAX - 2);

    /// On into a pipe, with one hop less to go.
    #[inline]
    pub(super) const fn on(pipe: LocalPipe) -> Self {
        Self(pipe.0)
    }

    /// The pipe that it goes into.
    #[inline]
    pub(super) const fn pipe(self) -> Option<LocalPipe> {
        if self.0 < Self::NODE.0 {
            Some(LocalPipe(self.0))
        } else {
            None
        }
    }
}

/// Whether a router lets a packet on into a pipe that takes packets of up to `mtu` bytes.
#[inline(always)]
pub(super) fn may_go_on(packet: &Descriptor, mtu: u32) -> bool {
    !packet.is(LOST) && packet.hop_limit > 1 && packet.ip_len() <= mtu
}

/// Where a packet goes that comes out of a pipe; `mtu` says what the next pipe takes.
#[inline]
pub(super) fn decide(
    pipe: &Pipe,
    packet: &Descriptor,
    (routes, topology): (&mut Routes, &Topology),
    mtu: impl FnOnce(LocalPipe) -> u32,
) -> Way {
    let (node, to) = (pipe.to, packet.destination);
    if packet.is(LOST) {
        Way::LOST
    } else if to == node && pipe.leads_to_host() {
        Way::HOME
    } else if to != node && to < GROUP && pipe.leads_to_router() {
        match routes.next_hop(topology, NodeId(node), NodeId(to)) {
            Some(NextHop::One(next)) if may_go_on(packet, mtu(LocalPipe(next.0))) => {
                Way::on(LocalPipe(next.0))
            }
            _ => Way::NODE,
        }
    } else {
        Way::NODE
    }
}

impl Engine {
    /// A packet that has been taken out of a pipe goes where it is to go.
    #[inline]
    pub(super) fn complete(&mut self, from: LocalPipe, index: u32, at: Moment, way: Way) {
        if way == Way::LOST {
            return self.lose(from, index);
        }
        self.record
            .came_out(1, [(from, index, at.time)], &self.pool);
        if let Some(next) = way.pipe() {
            self.pool[index].hop_limit -= 1;
            self.enter(next, index, at, Time::ZERO);
        } else if way == Way::HOME {
            self.deliver(index);
        } else {
            self.reach(from, index, at);
        }
    }

    /// A packet of a plain pipe was lost at the end of its serialisation, and its place in the pipe
    /// is free now.
    pub(super) fn lose(&mut self, from: LocalPipe, index: u32) {
        let sent = self.pool[index].sent();
        self.record
            .ended_inside(from, index, sent, Fate::Loss, &mut self.pool);
    }

    /// A packet ends at a node.
    #[inline(never)] // out of the way of the usual case
    pub(super) fn drop_at(&mut self, node: NodeId, index: u32, time: Time, fate: Fate) {
        self.end_at(node, index, time, fate);
        self.pool.release(index);
    }
}
