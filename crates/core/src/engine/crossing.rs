//! Packets that cross a cut, from one engine of a split network to another.
//!
//! The sending side of a cut pipe does everything but the last step: it queues, serialises, drops and
//! delays. A packet on its way is kept in a set by the core that it goes to, and is exported ahead of time
//! ([`Engine::export`]), when nothing before the receiver's horizon can change it any more. At the
//! receiver the pipe's far end is a chain of such packets. They come out in the engine's total order, and
//! are counted and reported to witnesses there.
//!
//! Left out: when packets may cross ([`crate::parallel::horizon`]).

use super::Engine;
use crate::parallel::{CoreId, LocalPipe};
use crate::pending::{self, Key};
use crate::pipe::delay::Moment;
use crate::pool::{Descriptor, LOST, Origin};
use crate::time::{Span, Time};
use crate::topology::PipeId;

/// Packets that are handed to another core; those of each pipe in the order of their times.
#[derive(Debug, Default)]
pub struct Crossing {
    packets: Vec<CrossingPacket>,
    /// The stored bytes of all of them.
    bytes: Vec<u8>,
}

/// A packet between two engines.
#[derive(Debug)]
struct CrossingPacket {
    packet: Descriptor,
    /// Its identity in the trace hash.
    identity: u64,
    pipe: PipeId,
    /// The end of its bytes in the buffer.
    end: usize,
}

impl Crossing {
    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Removes all packets and keeps the memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }
}

impl Engine {
    /// When the first packet known so far comes out at another core.
    pub fn next_exit(&self, to: CoreId) -> Option<Time> {
        let exits = self.exits.get(to.index())?;
        exits.first().map(pending::time)
    }

    /// Exports all packets that come out at another core before `until`. The engine must have handled
    /// everything that can still affect them: all changes before `until`, and all entries into their pipes
    /// early enough to come out before then.
    pub fn export(&mut self, to: CoreId, until: Time, crossing: &mut Crossing) {
        let end = pending::departure_key(until, 0);
        while let Some(key) = self.first_exit(to).filter(|&key| key < end) {
            let from = LocalPipe(self.by_rank[pending::rank(key) as usize]);
            let index = self.take_exit(from, key, to);
            if self.pool[index].is(LOST) {
                self.lose(from, index);
                continue;
            }
            self.pool.materialise(index);
            let due = pending::moment(key);
            self.pool[index].set_due(due);
            crossing.bytes.extend_from_slice(self.pool.frame(index));
            crossing.packets.push(CrossingPacket {
                packet: self.pool[index].clone(),
                identity: self.record.went_over(from, index, due.time, &self.pool),
                pipe: self.share.global(from),
                end: crossing.bytes.len(),
            });
            self.pool.release(index);
        }
    }

    fn first_exit(&self, to: CoreId) -> Option<Key> {
        self.exits.get(to.index())?.first()
    }

    /// Takes out the first packet of a cut pipe.
    fn take_exit(&mut self, from: LocalPipe, key: Key, to: CoreId) -> u32 {
        let exits = &mut self.exits[to.index()];
        let pipe = &mut self.pipes[from.index()];
        if pipe.is_shaped() {
            exits.replace_first(None);
            return self.take_shaped_exit(from, key);
        }
        let index = pipe.pop(&self.pool);
        let next = pipe.next_due(&self.pool);
        exits.replace_first(next.map(|due| pending::key(due, pipe.rank)));
        index
    }

    /// Imports packets that come out of pipes here, none of them before the engine's time. Those for which
    /// there is no slot count as physical drops.
    pub fn import(&mut self, crossing: &Crossing) {
        let mut start = 0;
        for packet in &crossing.packets {
            self.take_in(packet, &crossing.bytes[start..packet.end]);
            start = packet.end;
        }
    }

    fn take_in(&mut self, crossed: &CrossingPacket, bytes: &[u8]) {
        let Some(into) = self.share.local(crossed.pipe) else {
            return;
        };
        debug_assert!(
            !self.share.is_own(into),
            "a packet comes over into a far end"
        );
        let Some(index) = self.pool.take(Origin::default()) else {
            self.record.counters.pool_exhausted += 1;
            return;
        };
        let due = crossed.packet.due();
        debug_assert!(due.time >= self.now, "nothing comes over into the past");
        self.pool[index].continue_as(&crossed.packet);
        self.pool.write(index, bytes);
        self.record.came_over(index, crossed.identity);
        let pipe = &mut self.pipes[into.index()];
        let is_first = pipe.last().is_none();
        pipe.hold(index, &mut self.pool);
        if is_first {
            self.announce(into, index, due);
        }
    }

    /// A lower bound of the time from a packet's entry into a pipe until it comes out;
    /// [`Span::ZERO`] where none is known.
    pub fn least_delay(&self, pipe: PipeId) -> Span {
        let own = self.share.own(pipe);
        own.map_or(Span::ZERO, |pipe| self.pipes[pipe.index()].least_delay())
    }

    /// Puts the head of a cut pipe, which comes out at `due`, into the set of exits to its core.
    pub(super) fn announce_exit(&mut self, pipe: LocalPipe, due: Moment) {
        let rank = self.pipes[pipe.index()].rank;
        if let Some(to) = self.share.exit(pipe) {
            self.exits[to.index()].insert(pending::key(due, rank));
        }
    }
}
