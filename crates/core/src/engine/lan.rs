//! Lan segments: what a node of [`NodeKind::Lan`] does with frames.
//!
//! A lan is a switch that has learnt where every station is. It passes a frame for one node along its route
//! unchanged: no hop is counted, nothing is answered, and a frame that exceeds the next pipe's MTU is
//! dropped, as a switch does. A frame for a group (the limited broadcast 255.255.255.255, 224/4, ff00::/8)
//! is flooded to every neighbour except the one that it came from. Lans that are joined directly are one
//! broadcast domain, and a tree ([`Topology::new`](crate::Topology::new) refuses rings), so a frame passes
//! each of them once. Hosts receive every copy, and their kernels drop those of groups that no program has
//! joined; routers receive theirs and forward none out of the segment.
//!
//! Copies count as created, less the one that is the frame itself. A copy for which there is no free slot
//! counts as such and as nothing else. A frame for a group with no receiver has no route.
//!
//! Left out: membership (IGMP and MLD reports are carried like other packets, and not read), directed
//! broadcasts (no address belongs to a subnet), learning and flooding of unknown stations.

use super::hash::Origination;
use super::{CREATED, Engine};
use crate::packet::{self, Mac};
use crate::parallel::LocalPipe;
use crate::pipe::delay::Moment;
use crate::pool::NIL;
use crate::time::Time;
use crate::topology::{NodeId, NodeKind};
use crate::witness::PacketEvent;

/// The destination of a packet for a group.
pub(super) const GROUP: u32 = NIL - 1;

/// The group of stations that a frame in the pool goes to; `None` for one station.
#[inline]
pub(super) fn group_address(frame: &[u8]) -> Option<Mac> {
    // Frames whose MAC and IP destinations contradict each other were refused at the ingress.
    let station = *frame.first_chunk()?;
    (station[0] & 1 == 1).then_some(station)
}

impl Engine {
    /// The pipe on which a host sends to groups: its first one to a lan.
    pub(super) fn segment(&self, host: NodeId) -> Option<LocalPipe> {
        let is_lan = |pipe: &LocalPipe| {
            let to = self.pipes[pipe.index()].to;
            self.nodes[to as usize].kind == NodeKind::Lan
        };
        self.first_pipes(host).find(is_lan)
    }

    /// Gives a frame for a group the Ethernet address of that group, whatever the sender wrote.
    pub(super) fn address_group(&mut self, index: u32) {
        let frame = self.pool.frame_mut(index);
        let group = packet::group_mac(frame);
        frame[..group.len()].copy_from_slice(&group);
    }

    /// Switches a frame that comes out of pipe `from` at a lan.
    pub(super) fn switch(&mut self, from: LocalPipe, lan: NodeId, index: u32, at: Moment) {
        if self.pool[index].destination == GROUP {
            return self.flood(from, lan, index, at);
        }
        match self.next_pipe(lan, index) {
            Some(pipe) => self.pass(pipe, index, at),
            None => self.drop_at(lan, index, at.time, PacketEvent::NoRoute),
        }
    }

    /// Copies a frame to all neighbours of a lan but the one that it came from.
    fn flood(&mut self, from: LocalPipe, lan: NodeId, index: u32, at: Moment) {
        let sender = self.topology.pipe(self.share.global(from)).from;
        let mut last = None;
        for number in 0..self.routes.members(&self.topology, lan).len() {
            let pipe = self.routes.members(&self.topology, lan)[number];
            let pipe = LocalPipe(pipe.0);
            if self.pipes[pipe.index()].to == sender.0 {
                continue;
            }
            // The frame itself goes last: a pipe may drop what it is given.
            if let Some(earlier) = last.replace(pipe)
                && let Some(copy) = self.copy(index, earlier)
            {
                self.pass(earlier, copy, at);
            }
        }
        match last {
            Some(pipe) => self.pass(pipe, index, at),
            None => self.drop_at(lan, index, at.time, PacketEvent::NoRoute),
        }
    }

    /// Enqueues a frame in a pipe unchanged.
    fn pass(&mut self, pipe: LocalPipe, index: u32, at: Moment) {
        if self.pool[index].ip_len() > self.pipes[pipe.index()].mtu() {
            let lan = self.topology.pipe(self.share.global(pipe)).from;
            self.drop_at(lan, index, at.time, PacketEvent::TooBig);
        } else {
            self.enter(pipe, index, at, Time::ZERO);
        }
    }

    /// A copy of packet `index` for `pipe`; `None` if there is no slot.
    fn copy(&mut self, index: u32, pipe: LocalPipe) -> Option<u32> {
        let Some(new) = self.pool.duplicate(index) else {
            self.record.counters.pool_exhausted += 1;
            return None;
        };
        self.record.originated(new, index, Origination::Copy(pipe));
        self.pool[new].id = CREATED | self.created as u32;
        self.created += 1;
        self.record.counters.created += 1;
        Some(new)
    }
}
