//! Packets that have come out at hosts and wait to be polled, in the order of events.
//!
//! Their memory has not been touched while they were inside, so it has left the caches; that of several
//! packets is prefetched at a time.

use super::{Engine, GATEWAY_MAC, host_mac, lan};
use crate::packet;
use crate::pipe::Pipe;
use crate::time::{Span, Time};
use crate::topology::NodeId;

/// Packets that are prefetched at a time.
const PREFETCH_BATCH: usize = 64;

/// The queue of packets that have come out.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Packets that have been polled, then those that wait.
    line: Vec<u32>,
    taken: usize,
    /// How far memory has been prefetched.
    fetched: usize,
}

impl Outgoing {
    /// An empty queue with room for `slots` packets.
    pub(super) fn new(slots: u32) -> Self {
        Self {
            line: Vec::with_capacity(slots as usize),
            taken: 0,
            fetched: 0,
        }
    }

    /// The first waiting packet.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.line.get(self.taken).copied()
    }

    #[inline]
    fn push(&mut self, index: u32) {
        if self.first().is_none() || self.line.len() == self.line.capacity() {
            self.line.drain(..self.taken);
            self.fetched = self.fetched.saturating_sub(self.taken);
            self.taken = 0;
        }
        self.line.push(index);
    }
}

/// A packet that has come out at its host. Give it back with [`Engine::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an egress holds its slot until it is released"]
pub struct Egress {
    /// Where it came out.
    pub host: NodeId,
    /// When it should leave for its host.
    pub due: Time,
    /// How much later than its stamp would have allowed it comes out, because the engine was already past
    /// that time.
    pub shift: Span,
    /// The sum of the propagation delays of the pipes that it crossed, as drawn.
    pub path_delay: Span,
    /// The stamp that it entered with; for a reply, the time of the packet that it answers.
    pub entered: Time,
    /// Length of the frame in bytes.
    pub len: u32,
    /// The number of its arrival (from 0), or [`CREATED`](super::CREATED) and the number of its
    /// creation, modulo 2^31.
    pub id: u32,
    pub(super) index: u32,
}

impl Engine {
    /// The next packet that has come out at a host, in the order of events.
    pub fn poll_egress(&mut self) -> Option<Egress> {
        let index = self.next_egress()?;
        let egress = self.describe_egress(index);
        self.pool.apply_edits(index);
        self.address(index, egress.host);
        Some(egress)
    }

    /// Prefetches the next few packets. The loads are independent, so the CPU overlaps their cache misses.
    /// A host that receives a packet is likely to send one, so in far memory its first pipe is prefetched
    /// too.
    fn fetch_outgoing(&mut self) {
        let Outgoing { line, taken, .. } = &self.outgoing;
        let end = line.len().min(taken + PREFETCH_BATCH);
        let next = &line[*taken..end];
        let touched = next
            .iter()
            .fold(0, |sum, &index| sum ^ self.pool.prefetch(index));
        std::hint::black_box(touched);
        if self.window.is_far() {
            let node = |index: &u32| &self.nodes[self.pool[*index].destination as usize];
            let touched = next.iter().fold(0, |sum, index| sum ^ node(index).only);
            std::hint::black_box(touched);
            let pipes = || {
                next.iter()
                    .map(|index| self.pipes.get(node(index).only as usize))
            };
            let touched = pipes().flatten().fold(0, |sum, pipe| sum ^ pipe.prefetch());
            std::hint::black_box(touched);
            let tails = pipes().flatten().filter_map(Pipe::last);
            std::hint::black_box(tails.fold(0, |sum, tail| sum ^ self.pool[tail].next));
        }
        self.outgoing.fetched = end;
    }

    /// Takes the first waiting packet.
    #[inline]
    pub(super) fn next_egress(&mut self) -> Option<u32> {
        let index = self.outgoing.first()?;
        if self.outgoing.fetched <= self.outgoing.taken {
            self.fetch_outgoing();
        }
        self.outgoing.taken += 1;
        Some(index)
    }

    #[inline]
    pub(super) fn describe_egress(&self, index: u32) -> Egress {
        let packet = &self.pool[index];
        Egress {
            host: NodeId(packet.destination),
            due: packet.due().time,
            shift: Span::from_ns(u64::from(packet.shift)),
            path_delay: packet.path_delay,
            entered: packet.entered,
            len: self.pool.frame_len(index) as u32,
            id: packet.id,
            index,
        }
    }

    /// Writes the Ethernet addresses of a packet that leaves for `host`.
    #[inline]
    pub(super) fn address(&mut self, index: u32, host: NodeId) {
        let frame = self.pool.head_mut(index);
        let station = lan::group_address(frame).unwrap_or(host_mac(host));
        packet::set_macs(frame, GATEWAY_MAC, station);
    }

    /// The frame of a polled packet as its host receives it. For a modelled packet only its headers;
    /// [`Engine::zeros`] gives the length of the payload behind them.
    pub fn frame(&self, egress: &Egress) -> &[u8] {
        self.pool.frame(egress.index)
    }

    /// Gives back the slot of a polled packet.
    pub fn release(&mut self, egress: Egress) {
        self.pool.release(egress.index);
    }

    /// Puts a packet that has come out at its host into the queue.
    #[inline]
    pub(super) fn deliver(&mut self, index: u32) {
        let packet = &self.pool[index];
        let (host, due) = (NodeId(packet.destination), packet.due().time);
        self.record.delivered(host, index, due, &self.pool);
        self.outgoing.push(index);
    }
}
