//! Flows by five-tuple: what they send, receive and lose between two edges of a bin.
//!
//! A packet counts for its flow where it enters the network, where it reaches its host, and where it is
//! dropped on the way. The table holds the flows of one bin, at most [`FLOWS`]; all others count together.
//! Real and modelled flows differ in nothing but their addresses and ports.

use longhaul_core::packet::{ETHERNET_LEN, FlowKey};
use longhaul_core::witness::{PacketEvent, PacketEvents, Sighting, Witness};
use longhaul_core::{Span, Time};
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
///
/// A packet's flow is read from its headers where it enters, and remembered by its slot in the
/// pool: by the time it arrives, its bytes have left the caches, and reading them again took a
/// tenth of a run's time.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    /// Their places, by key.
    places: FxHashMap<FlowKey, u32>,
    flows: Vec<FlowRow>,
    /// The places of those that have counted anything since they were taken last.
    active: Vec<u32>,
    others: Counts,
    /// By slot, of the packet that entered there last.
    entries: Vec<Entry>,
    /// The generation of the table: places of earlier ones are void.
    table: u32,
    /// The flow looked up last: packets come in bursts.
    last: Option<(FlowKey, u32)>,
}

/// A packet that has entered.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// When, and its number: no later packet in the same slot has both.
    entered: (Time, u32),
    place: u32,
    table: u32,
}

/// The place of flows for which there is no room.
const NOWHERE: u32 = u32::MAX;

impl FlowTable {
    pub(super) fn new() -> Self {
        Self {
            table: 1, // default entries belong to table 0, which never exists
            ..Self::default()
        }
    }

    /// Gives all that has been counted since, in no order.
    pub(super) fn take(&mut self, flows: &mut Vec<FlowRow>, others: &mut Counts) {
        for place in self.active.drain(..) {
            let (key, counts) = &mut self.flows[place as usize];
            flows.push((*key, std::mem::take(counts)));
        }
        others.merge(&std::mem::take(&mut self.others));
        if self.flows.len() >= FLOWS {
            self.places.clear();
            self.flows.clear();
            self.table += 1;
            self.last = None;
        }
    }

    /// The place of a flow; a new one where there is room.
    fn place(&mut self, key: FlowKey) -> u32 {
        if let Some((last, place)) = self.last
            && last == key
        {
            return place;
        }
        let next = self.flows.len();
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if next >= FLOWS => NOWHERE,
            None => {
                self.flows.push((key, Counts::default()));
                self.places.insert(key, next as u32);
                next as u32
            }
        };
        self.last = Some((key, place));
        place
    }

    /// The place of a packet's flow.
    fn place_of(&mut self, sighting: &Sighting<'_>) -> u32 {
        let slot = sighting.slot() as usize;
        let entered = (sighting.entered(), sighting.number());
        if sighting.event != PacketEvent::Entered
            && let Some(entry) = self.entries.get(slot)
            && (entry.entered, entry.table) == (entered, self.table)
        {
            return entry.place;
        }
        let place = self.place(FlowKey::of(sighting.headers()));
        if sighting.event == PacketEvent::Entered {
            if self.entries.len() <= slot {
                self.entries.resize(slot + 1, Entry::default());
            }
            self.entries[slot] = Entry {
                entered,
                place,
                table: self.table,
            };
        }
        place
    }

    fn counts(&mut self, place: u32) -> &mut Counts {
        match self.flows.get_mut(place as usize) {
            Some((_, counts)) => {
                if *counts == Counts::default() {
                    self.active.push(place);
                }
                counts
            }
            None => &mut self.others,
        }
    }
}

impl Witness for FlowTable {
    fn events(&self) -> PacketEvents {
        [
            PacketEvent::Entered,
            PacketEvent::Delivered,
            PacketEvent::Loss,
            PacketEvent::Queue,
            PacketEvent::LinkDown,
            PacketEvent::HopLimit,
            PacketEvent::NoRoute,
            PacketEvent::TooBig,
        ]
        .into_iter()
        .fold(PacketEvents::NONE, PacketEvents::with)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        let place = self.place_of(sighting);
        let counts = self.counts(place);
        let bytes = sighting.frame_len().saturating_sub(ETHERNET_LEN) as u64;
        match sighting.event {
            PacketEvent::Entered => {
                counts.sent += 1;
                counts.sent_bytes += bytes;
            }
            PacketEvent::Delivered => {
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
