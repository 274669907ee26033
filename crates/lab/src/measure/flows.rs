//! Flows by five-tuple: what they send, receive and lose between two edges of a bin.
//!
//! A packet counts for its flow where it enters the network, where it reaches its host, and where it is
//! dropped on the way. The table holds the flows of one bin, at most [`FLOWS`]; all others count together.
//! Real and modelled flows are told apart by nothing but their addresses and ports.

use longhaul_core::Span;
use longhaul_core::packet::{ETHERNET_LEN, FlowKey};
use longhaul_core::witness::{Fate, Fates, Sighting, Witness};
use rustc_hash::FxHashMap;

/// The most flows of a bin: 10 MB.
const FLOWS: usize = 65_536;

/// What a flow has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets that its host has sent, and the bytes of their IP packets.
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// The same of those that have reached their host.
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    /// Packets that the network has dropped.
    pub(super) dropped: u64,
    /// How long those received had taken, in all and at most.
    pub(super) delay: Span,
    pub(super) longest: Span,
}

impl Counts {
    pub(super) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.dropped += other.dropped;
        self.delay += other.delay;
        self.longest = self.longest.max(other.longest);
    }
}

/// A flow.
pub(super) type FlowRow = (FlowKey, Counts);

/// Counts flows.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    flows: FxHashMap<FlowKey, Counts>,
    others: Counts,
}

impl FlowTable {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Gives all that has been counted since, in no order.
    pub(super) fn take(&mut self, flows: &mut Vec<FlowRow>, others: &mut Counts) {
        flows.extend(self.flows.drain());
        others.merge(&std::mem::take(&mut self.others));
    }
}

impl Witness for FlowTable {
    fn fates(&self) -> Fates {
        [
            Fate::Entered,
            Fate::Delivered,
            Fate::Loss,
            Fate::Queue,
            Fate::LinkDown,
            Fate::HopLimit,
            Fate::NoRoute,
            Fate::TooBig,
        ]
        .into_iter()
        .fold(Fates::NONE, Fates::with)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        let key = FlowKey::of(sighting.headers());
        let has_room = self.flows.len() < FLOWS;
        let counts = match self.flows.get_mut(&key) {
            Some(counts) => counts,
            None if has_room => self.flows.entry(key).or_default(),
            None => &mut self.others,
        };
        let bytes = sighting.frame_len().saturating_sub(ETHERNET_LEN) as u64;
        match sighting.fate {
            Fate::Entered => {
                counts.sent += 1;
                counts.sent_bytes += bytes;
            }
            Fate::Delivered => {
                let delay = sighting.time.since(sighting.entered());
                counts.received += 1;
                counts.received_bytes += bytes;
                counts.delay += delay;
                counts.longest = counts.longest.max(delay);
            }
            _ => counts.dropped += 1,
        }
    }
}
