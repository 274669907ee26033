//! Drop-tail: packets wait in order of entry, and one that finds no room is dropped.
//!
//! The packet in service does not count. A plain pipe has no event when a packet's service starts, so
//! the queue keeps an upper bound of its length: everything that entered from the packet `front` on,
//! before which all are sent. A packet that enters an idle pipe becomes the front. A packet that leaves
//! the pipe changes nothing here, since it was sent long before; that `front` itself has left shows when
//! fewer packets are inside than have entered since. The exact length is computed only when the bound
//! would refuse a packet, or is high: `front` then moves past all packets sent meanwhile. The walk passes
//! each packet once, so it costs little in the long run. A high bound forces it early, which keeps it
//! short: a walk over thousands of packets that are in no cache would take a millisecond.

use crate::pipe::rate::{Exact, Server};
use crate::pool::{NIL, Pool};
use crate::time::Time;
use crate::units::QueueLimit;

/// The exact length is computed when the bound exceeds these, to keep the walk short.
const HIGH_PACKETS: u32 = 256;
const HIGH_BYTES: u64 = 256 * 1500;

/// A drop-tail queue. Its limit is its pipe's.
#[derive(Debug, Clone)]
pub(crate) struct DropTail {
    /// No packet before this one is waiting or in service; `NIL` where none is at all.
    front: u32,
    /// Packets that entered from `front` on, and their counted bytes.
    packets: u32,
    bytes: u64,
}

/// All packets inside a pipe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inside {
    pub(crate) head: u32,
    pub(crate) packets: u32,
    /// What counts for a packet beyond its own bytes.
    pub(crate) overhead: u32,
}

impl DropTail {
    pub(crate) const fn new() -> Self {
        Self {
            front: NIL,
            packets: 0,
            bytes: 0,
        }
    }

    /// Packet `index`, which is pushed next, finds the pipe idle.
    #[inline]
    pub(crate) const fn begin_at(&mut self, index: u32) {
        (self.front, self.packets, self.bytes) = (index, 0, 0);
    }

    /// Takes in a packet of `bytes` that may wait or be served.
    #[inline]
    pub(crate) fn push(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Whether a packet of `bytes` has room even by the upper bound.
    #[inline]
    pub(crate) fn has_surely_room(&self, limit: QueueLimit, bytes: u32) -> bool {
        let bytes = self.bytes.saturating_add(u64::from(bytes));
        match limit {
            QueueLimit::Packets(limit) => self.packets <= limit.min(HIGH_PACKETS),
            QueueLimit::Bytes(limit) => bytes <= limit.min(HIGH_BYTES),
            QueueLimit::Time(_) => true,
        }
    }

    /// Whether it has room, once the exact length is known.
    pub(crate) fn has_room(
        &self,
        limit: QueueLimit,
        bytes: u32,
        overhead: u32,
        pool: &Pool,
    ) -> bool {
        let in_service = match self.front {
            NIL => 0,
            front => u64::from(pool[front].ip_len() + overhead),
        };
        let waiting = self.bytes - in_service;
        match limit {
            QueueLimit::Packets(limit) => self.packets.saturating_sub(1) < limit,
            QueueLimit::Bytes(limit) => waiting.saturating_add(u64::from(bytes)) <= limit,
            QueueLimit::Time(_) => true,
        }
    }

    /// Moves `front` to the packet in service at `ns`, which is not before any entry.
    pub(crate) fn catch_up(&mut self, inside: Inside, ns: u64, pool: &Pool) {
        if self.packets > inside.packets {
            self.go_back(inside, pool);
        }
        while self.front != NIL {
            let packet = &pool[self.front];
            if packet.sent().as_ns() > ns {
                break;
            }
            self.front = packet.next;
            self.packets -= 1;
            self.bytes -= u64::from(packet.ip_len() + inside.overhead);
        }
    }

    /// The same at any `ns`, and where the bytes that count have changed.
    pub(crate) fn find(&mut self, inside: Inside, ns: u64, pool: &Pool) {
        self.go_back(inside, pool);
        self.catch_up(inside, ns, pool);
    }

    /// Counts all that are inside.
    fn go_back(&mut self, inside: Inside, pool: &Pool) {
        let counted = |index| u64::from(pool[index].ip_len() + inside.overhead);
        self.front = inside.head;
        self.packets = inside.packets;
        self.bytes = pool.list(inside.head).map(counted).sum();
    }

    /// A packet before which everything has been sent at `now`, `NIL` where nothing is inside.
    pub(crate) fn first_unsent(
        &self,
        inside: Inside,
        server: &Server,
        now: Time,
        pool: &Pool,
    ) -> u32 {
        let is_inside = self.front != NIL && self.packets <= inside.packets;
        // Arrivals may be ahead of `now`, and the front with them.
        let has_begun = |index| {
            let departure = Exact::at(pool[index].sent().as_ns());
            let start = server.start_of(departure, pool[index].ip_len() + inside.overhead);
            start.ceil() <= now.as_ns()
        };
        if is_inside && has_begun(self.front) {
            self.front
        } else {
            inside.head
        }
    }

    /// The first packet that may be in service or waiting.
    pub(crate) const fn front(&self) -> u32 {
        self.front
    }
}
