//! Drop-tail: packets wait in order of entry, and one that finds no room is dropped.
//!
//! The packet in service does not count. There is no event when a packet's service starts, so
//! the queue keeps an upper bound (all from `front` on) and finds the truth only when the bound
//! would refuse a packet, or is high: it then moves `front` past all that have been sent meanwhile.
//! Every packet is passed once, so the walk costs nothing in the long run, and where few packets are
//! inside it never happens. Where many are, it is short: thousands of packets that lie in no cache
//! would take a millisecond.

use crate::pipe::Taken;
use crate::pool::{NIL, Pool};
use crate::units::QueueLimit;

/// The queue finds the truth where the bound is above so many packets or bytes.
const HIGH_PACKETS: u32 = 256;
const HIGH_BYTES: u64 = 256 * 1500;

/// A drop-tail queue. Its limit, and what counts for a packet beyond its own bytes, are its pipe's.
#[derive(Debug, Clone)]
pub(crate) struct DropTail {
    /// No packet before this one is waiting or in service; `NIL` where there is none.
    front: u32,
    /// Packets from `front` on, and their counted bytes.
    packets: u32,
    bytes: u64,
}

impl DropTail {
    pub(crate) const fn new() -> Self {
        Self {
            front: NIL,
            packets: 0,
            bytes: 0,
        }
    }

    /// Whether a packet of `bytes` may wait at `ns`, when the sender is busy.
    #[inline]
    pub(crate) fn has_room(
        &mut self,
        limit: QueueLimit,
        overhead: u32,
        ns: u64,
        bytes: u32,
        pool: &Pool,
    ) -> bool {
        let bytes = u64::from(bytes);
        let surely = match limit {
            QueueLimit::Packets(limit) => self.packets <= limit.min(HIGH_PACKETS),
            QueueLimit::Bytes(limit) => self.bytes.saturating_add(bytes) <= limit.min(HIGH_BYTES),
            QueueLimit::Time(_) => true,
        };
        if surely {
            return true;
        }
        self.catch_up(ns, overhead, pool);
        let in_service = self.front_bytes(overhead, pool);
        match limit {
            QueueLimit::Packets(limit) => self.packets.saturating_sub(1) < limit,
            QueueLimit::Bytes(limit) => (self.bytes - in_service).saturating_add(bytes) <= limit,
            QueueLimit::Time(_) => true,
        }
    }

    /// Takes in a packet that may wait or be served.
    #[inline]
    pub(crate) fn push(&mut self, index: u32, bytes: u32) {
        if self.front == NIL {
            self.front = index;
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Forgets a packet of `bytes` that leaves the pipe, `next` being the one behind it.
    #[inline]
    pub(crate) fn pop(&mut self, index: u32, bytes: u32, next: u32) {
        if self.front == index {
            self.pass(bytes, next);
        }
    }

    /// Forgets packets that leave the pipe together, of so many bytes; `next` is behind them.
    #[inline]
    pub(crate) fn pop_all(
        &mut self,
        taken: &Taken,
        bytes: u64,
        next: u32,
        overhead: u32,
        pool: &Pool,
    ) {
        if self.front == taken.first {
            self.front = next;
            self.packets -= taken.packets;
            self.bytes -= bytes;
            return;
        }
        let mut index = taken.first;
        while index != next {
            let packet = &pool[index];
            self.pop(index, packet.ip_len() + overhead, packet.next);
            index = packet.next;
        }
    }

    fn pass(&mut self, bytes: u32, next: u32) {
        self.front = next;
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }

    /// Moves `front` to the packet in service at `ns`.
    pub(crate) fn catch_up(&mut self, ns: u64, overhead: u32, pool: &Pool) {
        while self.front != NIL {
            let packet = &pool[self.front];
            if packet.sent().as_ns() > ns {
                break;
            }
            self.pass(packet.ip_len() + overhead, packet.next);
        }
    }

    /// The first packet that may be in service or waiting.
    pub(crate) const fn front(&self) -> u32 {
        self.front
    }

    /// The bytes that count change, for all from `front` on.
    pub(crate) fn count_anew(&mut self, overhead: u32, pool: &Pool) {
        let lengths = pool
            .list(self.front)
            .map(|index| pool[index].ip_len() + overhead);
        self.bytes = lengths.map(u64::from).sum();
    }

    fn front_bytes(&self, overhead: u32, pool: &Pool) -> u64 {
        let counted = |index| u64::from(pool[index].ip_len() + overhead);
        if self.front == NIL {
            0
        } else {
            counted(self.front)
        }
    }
}
