//! The record: the one place at which packet events are counted and reported to witnesses.
//!
//! Counters are always kept; witnesses ([`Witness`], and the trace hash) cost something only if there are
//! any. Shaped pipes, which drop and mark packets themselves, get the record through their context.
//!
//! Left out: a pipe's own counters, which are kept in the pipe.

use std::sync::Arc;

use super::hash::{Origination, TraceHash};
use crate::observe::Counters;
use crate::parallel::{LocalPipe, Share};
use crate::pool::Pool;
use crate::time::Time;
use crate::topology::NodeId;
use crate::witness::{PacketEvent, PacketEvents, Place, Sighting, Witness, WitnessId};

/// Counters and witnesses.
pub(crate) struct Record {
    pub(crate) counters: Counters,
    /// Packets in pipes.
    pub(crate) inside: u64,
    witnesses: Option<Box<Witnesses>>,
    /// The union of what the witnesses want, without the trace hash.
    wanted: PacketEvents,
    witnesses_seen: u64,
}

/// A place by the engine's own numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Site {
    Pipe(LocalPipe),
    Node(NodeId),
}

/// The witnesses. The trace hash is separate because it also follows packets through their slots.
struct Witnesses {
    hash: Option<TraceHash>,
    others: Vec<Other>,
    share: Arc<Share>,
}

/// A witness besides the trace hash.
struct Other {
    id: WitnessId,
    events: PacketEvents,
    witness: Box<dyn Witness>,
}

impl Witnesses {
    #[inline(always)]
    fn see(
        &mut self,
        site: Site,
        what: (u32, Time, PacketEvent),
        wanted: PacketEvents,
        pool: &Pool,
    ) {
        if let Some(hash) = &mut self.hash {
            hash.see(site, what, pool);
        }
        if wanted.has(what.2) {
            self.report_to_others(site, what, pool);
        }
    }

    #[cold] // most runs have no witness besides the hash
    fn report_to_others(
        &mut self,
        site: Site,
        (index, time, event): (u32, Time, PacketEvent),
        pool: &Pool,
    ) {
        let place = match site {
            Site::Pipe(pipe) => Place::Pipe(self.share.global(pipe)),
            Site::Node(node) => Place::Node(node),
        };
        let sighting = Sighting {
            place,
            time,
            event,
            index,
            pool,
        };
        for other in &mut self.others {
            if other.events.has(event) {
                other.witness.see(&sighting);
            }
        }
    }
}

impl Record {
    /// The record of an engine over `share`, with a trace hash if `hashed`.
    pub(super) fn new(share: &Arc<Share>, hashed: bool) -> Self {
        let witnesses = hashed.then(|| {
            Box::new(Witnesses {
                hash: Some(TraceHash::new(share)),
                others: Vec::new(),
                share: Arc::clone(share),
            })
        });
        Self {
            counters: Counters::default(),
            inside: 0,
            witnesses,
            wanted: PacketEvents::NONE,
            witnesses_seen: 0,
        }
    }

    /// Adds a witness.
    pub(super) fn watch(&mut self, witness: Box<dyn Witness>, share: &Arc<Share>) -> WitnessId {
        let id = WitnessId(self.witnesses_seen);
        self.witnesses_seen += 1;
        let events = witness.events();
        self.wanted = self.wanted.or(events);
        let witnesses = self.witnesses.get_or_insert_with(|| {
            Box::new(Witnesses {
                hash: None,
                others: Vec::new(),
                share: Arc::clone(share),
            })
        });
        witnesses.others.push(Other {
            id,
            events,
            witness,
        });
        id
    }

    /// A witness by its id.
    pub(super) fn witness(&mut self, id: WitnessId) -> Option<&mut dyn Witness> {
        let others = &mut self.witnesses.as_mut()?.others;
        let other = others.iter_mut().find(|other| other.id == id)?;
        Some(&mut *other.witness)
    }

    /// Removes a witness.
    pub(super) fn unwatch(&mut self, id: WitnessId) -> Option<Box<dyn Witness>> {
        let others = &mut self.witnesses.as_mut()?.others;
        let place = others.iter().position(|other| other.id == id)?;
        let taken = others.remove(place);
        let left = others.iter().map(|other| other.events);
        self.wanted = left.fold(PacketEvents::NONE, PacketEvents::or);
        Some(taken.witness)
    }

    /// Whether any witness besides the trace hash wants `event`.
    #[inline]
    pub(crate) const fn wants(&self, event: PacketEvent) -> bool {
        self.wanted.has(event)
    }

    pub(super) fn hash(&self) -> Option<&TraceHash> {
        self.witnesses.as_ref()?.hash.as_ref()
    }

    /// Records that a packet is handed to another core, where it comes out of its pipe at `due`. Returns its
    /// identity for [`Record::came_over`].
    pub(super) fn went_over(&mut self, from: LocalPipe, index: u32, due: Time, pool: &Pool) -> u64 {
        if self.wants(PacketEvent::Over) {
            self.report(Site::Pipe(from), index, due, PacketEvent::Over, pool);
        }
        self.inside -= 1;
        self.counters.exported += 1;
        self.hash().map_or(0, |hash| hash.identity(index))
    }

    /// Records that a packet was taken over from another core.
    pub(super) fn came_over(&mut self, index: u32, identity: u64) {
        self.inside += 1;
        self.counters.imported += 1;
        let witnesses = self.witnesses.as_mut();
        if let Some(hash) = witnesses.and_then(|witnesses| witnesses.hash.as_mut()) {
            hash.identify(index, identity);
        }
    }

    /// Reports to the witnesses.
    #[inline]
    fn report(&mut self, site: Site, index: u32, time: Time, event: PacketEvent, pool: &Pool) {
        if let Some(witnesses) = &mut self.witnesses {
            witnesses.see(site, (index, time, event), self.wanted, pool);
        }
    }

    /// Records that a host sent a packet.
    #[inline]
    pub(super) fn entered(&mut self, host: NodeId, index: u32, stamp: Time, pool: &Pool) {
        self.counters.entered += 1;
        self.report(Site::Node(host), index, stamp, PacketEvent::Entered, pool);
    }

    /// Records that a packet arrived at a pipe.
    #[inline]
    pub(crate) fn went_in(&mut self, pipe: LocalPipe, index: u32, time: Time, pool: &Pool) {
        self.inside += 1;
        if self.wants(PacketEvent::In) {
            self.report(Site::Pipe(pipe), index, time, PacketEvent::In, pool);
        }
    }

    /// Records that a packet's service starts at `time`.
    #[inline]
    pub(crate) fn served(&mut self, pipe: LocalPipe, index: u32, time: Time, pool: &Pool) {
        if self.wants(PacketEvent::Served) {
            self.report(Site::Pipe(pipe), index, time, PacketEvent::Served, pool);
        }
    }

    /// Records that `count` packets came out of pipes: for each its pipe, index and time.
    #[inline]
    pub(super) fn came_out(
        &mut self,
        count: usize,
        packets: impl IntoIterator<Item = (LocalPipe, u32, Time)>,
        pool: &Pool,
    ) {
        self.inside -= count as u64;
        self.counters.hops += count as u64;
        if let Some(witnesses) = &mut self.witnesses {
            for (pipe, index, time) in packets {
                let what = (index, time, PacketEvent::Out);
                witnesses.see(Site::Pipe(pipe), what, self.wanted, pool);
            }
        }
    }

    /// Records that a packet was dropped inside a pipe, and releases it.
    #[inline]
    pub(crate) fn ended_inside(
        &mut self,
        pipe: LocalPipe,
        index: u32,
        time: Time,
        event: PacketEvent,
        pool: &mut Pool,
    ) {
        self.inside -= 1;
        self.ended(Site::Pipe(pipe), index, time, event, pool);
        pool.release(index);
    }

    /// Records that a packet ended other than by delivery. The caller keeps its slot, since a reply may
    /// quote it.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        site: Site,
        index: u32,
        time: Time,
        event: PacketEvent,
        pool: &Pool,
    ) {
        self.report(site, index, time, event, pool);
        self.counters.dropped.count(event);
    }

    /// Records that a packet has reached its host.
    #[inline]
    pub(super) fn delivered(&mut self, host: NodeId, index: u32, due: Time, pool: &Pool) {
        self.counters.delivered += 1;
        self.report(Site::Node(host), index, due, PacketEvent::Delivered, pool);
    }

    /// Records that a pipe marked or corrupted a packet.
    pub(crate) fn changed(
        &mut self,
        pipe: LocalPipe,
        index: u32,
        time: Time,
        event: PacketEvent,
        pool: &Pool,
    ) {
        self.report(Site::Pipe(pipe), index, time, event, pool);
    }

    /// Records that packet `new` was made from packet `index`. The caller counts it as created, since
    /// fragments count less the packet that they replace.
    #[inline]
    pub(crate) fn originated(&mut self, new: u32, index: u32, how: Origination) {
        if let Some(witnesses) = &mut self.witnesses
            && let Some(hash) = &mut witnesses.hash
        {
            hash.originate(new, index, how);
        }
    }

    /// Whether every packet is accounted for.
    pub(super) fn is_balanced(&self) -> bool {
        let Counters {
            entered,
            created,
            delivered,
            dropped,
            imported,
            exported,
            ..
        } = self.counters;
        let left = delivered + dropped.total() + exported;
        entered + created + imported == left + self.inside
    }
}
