//! The record of what becomes of packets: each fate is counted and told to witnesses here alone.
//!
//! Counters are always kept; witnesses ([`Witness`], the trace hash among them) only where somebody
//! asks. Shaped pipes, which decide some fates themselves, get the record in their context.
//!
//! Left out: a pipe's own counters, which stand beside what they count.

use std::sync::Arc;

use super::hash::{Origination, TraceHash};
use crate::observe::Counters;
use crate::parallel::{LocalPipe, Share};
use crate::pool::Pool;
use crate::time::Time;
use crate::topology::NodeId;
use crate::witness::{Fate, Fates, Place, Sighting, Witness, WitnessId};

/// Counters and witnesses.
pub(crate) struct Record {
    pub(crate) counters: Counters,
    /// Packets in pipes.
    pub(crate) inside: u64,
    witnesses: Option<Box<Witnesses>>,
    /// What witnesses besides the trace hash want to be told.
    wanted: Fates,
    witnesses_seen: u64,
}

/// Where something happens, by the engine's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Site {
    Pipe(LocalPipe),
    Node(NodeId),
}

/// Who watches; the trace hash stands apart because it also follows packets by their slots.
struct Witnesses {
    hash: Option<TraceHash>,
    others: Vec<Other>,
    share: Arc<Share>,
}

/// A witness besides the trace hash.
struct Other {
    id: WitnessId,
    fates: Fates,
    witness: Box<dyn Witness>,
}

impl Witnesses {
    #[inline(always)]
    fn see(&mut self, site: Site, what: (u32, Time, Fate), wanted: Fates, pool: &Pool) {
        if let Some(hash) = &mut self.hash {
            hash.see(site, what, pool);
        }
        if wanted.has(what.2) {
            self.tell_others(site, what, pool);
        }
    }

    #[cold] // out of the way of runs that have a hash and nothing else
    fn tell_others(&mut self, site: Site, (index, time, fate): (u32, Time, Fate), pool: &Pool) {
        let place = match site {
            Site::Pipe(pipe) => Place::Pipe(self.share.global(pipe)),
            Site::Node(node) => Place::Node(node),
        };
        let sighting = Sighting {
            place,
            time,
            fate,
            index,
            pool,
        };
        for other in &mut self.others {
            if other.fates.has(fate) {
                other.witness.see(&sighting);
            }
        }
    }
}

impl Record {
    /// The record of an engine over such a share, with a trace hash if it is `hashed`.
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
            wanted: Fates::NONE,
            witnesses_seen: 0,
        }
    }

    /// Adds a witness.
    pub(super) fn watch(&mut self, witness: Box<dyn Witness>, share: &Arc<Share>) -> WitnessId {
        let id = WitnessId(self.witnesses_seen);
        self.witnesses_seen += 1;
        let fates = witness.fates();
        self.wanted = self.wanted.or(fates);
        let witnesses = self.witnesses.get_or_insert_with(|| {
            Box::new(Witnesses {
                hash: None,
                others: Vec::new(),
                share: Arc::clone(share),
            })
        });
        witnesses.others.push(Other { id, fates, witness });
        id
    }

    /// A witness, to be asked what it has seen.
    pub(super) fn witness(&mut self, id: WitnessId) -> Option<&mut dyn Witness> {
        let others = &mut self.witnesses.as_mut()?.others;
        let other = others.iter_mut().find(|other| other.id == id)?;
        Some(&mut *other.witness)
    }

    /// Takes a witness away.
    pub(super) fn unwatch(&mut self, id: WitnessId) -> Option<Box<dyn Witness>> {
        let others = &mut self.witnesses.as_mut()?.others;
        let place = others.iter().position(|other| other.id == id)?;
        let taken = others.remove(place);
        let left = others.iter().map(|other| other.fates);
        self.wanted = left.fold(Fates::NONE, Fates::or);
        Some(taken.witness)
    }

    /// Whether a witness besides the trace hash is told of a fate.
    #[inline]
    pub(crate) const fn wants(&self, fate: Fate) -> bool {
        self.wanted.has(fate)
    }

    pub(super) fn hash(&self) -> Option<&TraceHash> {
        self.witnesses.as_ref()?.hash.as_ref()
    }

    /// A packet goes over to another core, where it comes out of its pipe at `due`; gives its identity for
    /// [`Record::came_over`].
    pub(super) fn went_over(&mut self, from: LocalPipe, index: u32, due: Time, pool: &Pool) -> u64 {
        if self.wants(Fate::Over) {
            self.tell(Site::Pipe(from), index, due, Fate::Over, pool);
        }
        self.inside -= 1;
        self.counters.exported += 1;
        self.hash().map_or(0, |hash| hash.identity(index))
    }

    /// A packet comes over from another core.
    pub(super) fn came_over(&mut self, index: u32, identity: u64) {
        self.inside += 1;
        self.counters.imported += 1;
        let witnesses = self.witnesses.as_mut();
        if let Some(hash) = witnesses.and_then(|witnesses| witnesses.hash.as_mut()) {
            hash.identify(index, identity);
        }
    }

    /// Tells witnesses.
    #[inline]
    fn tell(&mut self, site: Site, index: u32, time: Time, fate: Fate, pool: &Pool) {
        if let Some(witnesses) = &mut self.witnesses {
            witnesses.see(site, (index, time, fate), self.wanted, pool);
        }
    }

    /// A host sends a packet.
    #[inline]
    pub(super) fn entered(&mut self, host: NodeId, index: u32, stamp: Time, pool: &Pool) {
        self.counters.entered += 1;
        self.tell(Site::Node(host), index, stamp, Fate::Entered, pool);
    }

    /// A packet goes into a pipe.
    #[inline]
    pub(crate) fn went_in(&mut self, pipe: LocalPipe, index: u32, time: Time, pool: &Pool) {
        self.inside += 1;
        if self.wants(Fate::In) {
            self.tell(Site::Pipe(pipe), index, time, Fate::In, pool);
        }
    }

    /// A pipe takes a packet from its queue and sends its first bit at `time`.
    #[inline]
    pub(crate) fn served(&mut self, pipe: LocalPipe, index: u32, time: Time, pool: &Pool) {
        if self.wants(Fate::Served) {
            self.tell(Site::Pipe(pipe), index, time, Fate::Served, pool);
        }
    }

    /// So many packets come out of pipes: for each of them its pipe, its index and when.
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
                let what = (index, time, Fate::Out);
                witnesses.see(Site::Pipe(pipe), what, self.wanted, pool);
            }
        }
    }

    /// A packet that was inside a pipe ends there.
    #[inline]
    pub(crate) fn ended_inside(
        &mut self,
        pipe: LocalPipe,
        index: u32,
        time: Time,
        fate: Fate,
        pool: &mut Pool,
    ) {
        self.inside -= 1;
        self.ended(Site::Pipe(pipe), index, time, fate, pool);
        pool.release(index);
    }

    /// A packet ends, for any reason but that it has arrived. Its slot is still the caller's, who may
    /// have to answer it.
    #[inline]
    pub(crate) fn ended(&mut self, site: Site, index: u32, time: Time, fate: Fate, pool: &Pool) {
        self.tell(site, index, time, fate, pool);
        self.counters.dropped.count(fate);
    }

    /// A packet has reached its host.
    #[inline]
    pub(super) fn delivered(&mut self, host: NodeId, index: u32, due: Time, pool: &Pool) {
        self.counters.delivered += 1;
        self.tell(Site::Node(host), index, due, Fate::Delivered, pool);
    }

    /// A pipe changes a packet: marks or corrupts it.
    pub(crate) fn changed(
        &mut self,
        pipe: LocalPipe,
        index: u32,
        time: Time,
        fate: Fate,
        pool: &Pool,
    ) {
        self.tell(Site::Pipe(pipe), index, time, fate, pool);
    }

    /// The network makes packet `new` because of packet `index`; whether it counts as created is
    /// the caller's to say, since fragments count less the packet that they replace.
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
