//! A sample: what happened between two edges of a bin. Numbers only; the recorder adds the names.

use longhaul_core::observe::{PipeCounters, QueueUse};
use longhaul_core::{PipeId, Span, Time};

use super::capture::Chunk;
use super::flows::{Counts, FlowRow};
use super::timeline::Passage;
use crate::connections::Connection;

/// A bin.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Where the bin begins.
    pub(super) start: Time,
    /// Where it ends, or where packets have been taken away within it.
    pub(super) until: Time,
    /// Of the measured pipes, those in which anything has happened.
    pub(super) pipes: Vec<PipeRow>,
    /// Flows that have sent, received or lost packets, of each core in turn.
    pub(super) flows: Vec<FlowRow>,
    /// Of all flows beyond those.
    pub(super) others: Counts,
    pub(super) core: Option<CoreRow>,
    /// Packets whose passage has ended, and how many more there were.
    pub(super) passages: Vec<Passage>,
    pub(super) passages_missed: u64,
    /// Modelled TCP connections as they are at `until`, of each core in turn.
    pub(super) connections: Vec<(Time, Connection)>,
    /// What has been captured, of each core in turn.
    pub(super) chunks: Vec<Chunk>,
    /// How often bins have doubled their width, as the thread has found at the sample before.
    pub(super) doublings: u32,
}

impl Sample {
    /// Empties it, but for its memory.
    pub(super) fn clear(&mut self) {
        let Self {
            start: _,
            until: _,
            pipes,
            flows,
            others,
            core,
            passages,
            passages_missed,
            connections,
            chunks,
            doublings: _,
        } = self;
        pipes.clear();
        flows.clear();
        passages.clear();
        connections.clear();
        chunks.clear();
        (*others, *core, *passages_missed) = (Counts::default(), None, 0);
    }
}

/// A pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct PipeRow {
    pub(super) pipe: PipeId,
    /// What has been counted in the bin.
    pub(super) counters: PipeCounters,
    pub(super) queue: QueueUse,
    /// Packets and bytes that wait at its end.
    pub(super) waiting: (u32, u64),
}

/// The core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CoreRow {
    pub(super) entered: u64,
    pub(super) created: u64,
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) hops: u64,
    pub(super) inside: u64,
    /// In real time only.
    pub(super) bin: Option<CoreBin>,
}

/// What only the live loop knows of a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CoreBin {
    /// How long it worked, on the machine's clock.
    pub(crate) busy_ns: u64,
    /// Packets that left for their hosts, and how many of them were late.
    pub(crate) left: u64,
    pub(crate) late: u64,
    /// Their lateness in all, and the largest.
    pub(crate) lateness_ns: u64,
    pub(crate) lateness_max_ns: u64,
    /// Packets shed at ingress, lost because the pool was full, and refused by the kernel.
    pub(crate) shed: u64,
    pub(crate) pool: u64,
    pub(crate) send: u64,
}

impl CoreBin {
    /// Adds the figures of a later part of the bin.
    pub(super) fn merge(&mut self, later: &Self) {
        let Self {
            busy_ns,
            left,
            late,
            lateness_ns,
            lateness_max_ns,
            shed,
            pool,
            send,
        } = later;
        self.busy_ns += busy_ns;
        self.left += left;
        self.late += late;
        self.lateness_ns += lateness_ns;
        self.lateness_max_ns = self.lateness_max_ns.max(*lateness_max_ns);
        self.shed += shed;
        self.pool += pool;
        self.send += send;
    }

    /// Counts how late a packet has left.
    #[inline]
    pub(crate) fn lateness(&mut self, lateness: Span) {
        let ns = lateness.as_ns();
        self.lateness_ns += ns;
        self.lateness_max_ns = self.lateness_max_ns.max(ns);
    }
}
