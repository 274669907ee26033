//! Packets that are to leave, in the order in which they were written.

use std::collections::VecDeque;

use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;

/// A packet that leaves a modelled host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Where it leaves.
    pub host: NodeId,
    /// Where it goes.
    pub to: NodeId,
    /// When.
    pub at: Time,
    /// The first bytes of its frame; the rest are zeros.
    pub headers: &'a [u8],
    /// Length of the IP packet.
    pub ip_len: u32,
}

/// A packet's ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) host: NodeId,
    pub(super) to: NodeId,
}

#[derive(Debug)]
struct Entry {
    ends: Ends,
    at: Time,
    ip_len: u32,
    end: usize,
}

/// The queue. Its memory is used again once all is out.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    /// Where the first entry's bytes begin.
    start: usize,
}

impl Outbox {
    /// Adds a packet, whose headers `write` appends; it returns the length of the IP packet.
    #[inline]
    pub(super) fn push(&mut self, ends: Ends, at: Time, write: impl FnOnce(&mut Vec<u8>) -> u32) {
        if self.entries.is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
        let ip_len = write(&mut self.bytes);
        self.entries.push_back(Entry {
            ends,
            at,
            ip_len,
            end: self.bytes.len(),
        });
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Transmit<'_>> {
        let entry = self.entries.pop_front()?;
        let start = std::mem::replace(&mut self.start, entry.end);
        Some(Transmit {
            host: entry.ends.host,
            to: entry.ends.to,
            at: entry.at,
            headers: &self.bytes[start..entry.end],
            ip_len: entry.ip_len,
        })
    }
}
