//! The record of what becomes of packets: each fate is counted and told to witnesses here alone.
//!
//! Counters are always kept; witnesses ([`Witness`], the trace hash among them) only where somebody
//! asks. Shaped pipes, which decide some fates themselves, get the record in their context.
//!
//! Left out: a pipe's own counters, which stand beside what they count.

use super::hash::{Origination, TraceHash};
use crate::observe::Counters;
use crate::pool::Pool;
use crate::time::Time;
use crate::topology::{NodeId, PipeId};
use crate::witness::{Fate, Place, Sighting, Witness};

/// Counters and witnesses.
pub(crate) struct Record {
    pub(crate) counters: Counters,
    /// Packets in pipes.
    pub(crate) inside: u64,
    witnesses: Option<Box<Witnesses>>,
    /// Whether there are witnesses besides the trace hash, which needs no entries into pipes.
    is_watched: bool,
}

/// Who watches; the trace hash stands apart because it also follows packets by their slots.
#[derive(Default)]
struct Witnesses {
    hash: Option<TraceHash>,
    others: Vec<Box<dyn Witness>>,
}

impl Witnesses {
    #[inline(always)]
    fn see(&mut self, sighting: &Sighting<'_>) {
        if let Some(hash) = &mut self.hash {
            hash.see(sighting);
        }
        if !self.others.is_empty() {
            self.tell_others(sighting);
        }
    }

    #[cold] // out of the way of runs that have a hash and nothing else
    fn tell_others(&mut self, sighting: &Sighting<'_>) {
        for witness in &mut self.others {
            witness.see(sighting);
        }
    }
}

impl Record {
    pub(super) fn new(hash: Option<TraceHash>) -> Self {
        let witnesses = hash.map(|hash| {
            Box::new(Witnesses {
                hash: Some(hash),
                others: Vec::new(),
            })
        });
        Self {
            counters: Counters::default(),
            inside: 0,
            witnesses,
            is_watched: false,
        }
    }

    /// Adds a witness.
    pub(super) fn watch(&mut self, witness: Box<dyn Witness>) {
        self.witnesses.get_or_insert_default().others.push(witness);
        self.is_watched = true;
    }

    pub(super) fn hash(&self) -> Option<&TraceHash> {
        self.witnesses.as_ref()?.hash.as_ref()
    }

    /// Tells witnesses.
    #[inline]
    fn tell(&mut self, place: Place, index: u32, time: Time, fate: Fate, pool: &Pool) {
        if let Some(witnesses) = &mut self.witnesses {
            witnesses.see(&Sighting {
                place,
                time,
                fate,
                index,
                pool,
            });
        }
    }

    /// A host sends a packet.
    #[inline]
    pub(super) fn entered(&mut self, host: NodeId, index: u32, stamp: Time, pool: &Pool) {
        self.counters.entered += 1;
        self.tell(Place::Node(host), index, stamp, Fate::Entered, pool);
    }

    /// A packet goes into a pipe.
    #[inline]
    pub(crate) fn went_in(&mut self, pipe: PipeId, index: u32, time: Time, pool: &Pool) {
        self.inside += 1;
        if self.is_watched {
            self.tell(Place::Pipe(pipe), index, time, Fate::In, pool);
        }
    }

    /// So many packets come out of pipes: for each of them its pipe, its index and when.
    #[inline]
    pub(super) fn came_out(
        &mut self,
        count: usize,
        packets: impl IntoIterator<Item = (PipeId, u32, Time)>,
        pool: &Pool,
    ) {
        self.inside -= count as u64;
        self.counters.hops += count as u64;
        if let Some(witnesses) = &mut self.witnesses {
            for (pipe, index, time) in packets {
                witnesses.see(&Sighting {
                    place: Place::Pipe(pipe),
                    time,
                    fate: Fate::Out,
                    index,
                    pool,
                });
            }
        }
    }

    /// A packet that was inside a pipe ends there.
    #[inline]
    pub(crate) fn ended_inside(
        &mut self,
        pipe: PipeId,
        index: u32,
        time: Time,
        fate: Fate,
        pool: &mut Pool,
    ) {
        self.inside -= 1;
        self.ended(Place::Pipe(pipe), index, time, fate, pool);
        pool.release(index);
    }

    /// A packet ends, for any reason but that it has arrived. Its slot is still the caller's, who may
    /// have to answer it.
    #[inline]
    pub(crate) fn ended(&mut self, place: Place, index: u32, time: Time, fate: Fate, pool: &Pool) {
        self.tell(place, index, time, fate, pool);
        self.counters.dropped.count(fate);
    }

    /// A packet has reached its host.
    #[inline]
    pub(super) fn delivered(&mut self, host: NodeId, index: u32, due: Time, pool: &Pool) {
        self.counters.delivered += 1;
        self.tell(Place::Node(host), index, due, Fate::Delivered, pool);
    }

    /// A pipe changes a packet: marks or corrupts it.
    pub(crate) fn changed(
        &mut self,
        pipe: PipeId,
        index: u32,
        time: Time,
        fate: Fate,
        pool: &Pool,
    ) {
        self.tell(Place::Pipe(pipe), index, time, fate, pool);
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
            ..
        } = self.counters;
        entered + created == delivered + dropped.total() + self.inside
    }
}
