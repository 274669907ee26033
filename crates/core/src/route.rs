//! Static routes: for each destination a table of next pipes, made when first asked for.
//!
//! The shortest path by the pipes' delays at the start of a run; of equal ones the one with
//! fewer hops. Where several next pipes are equal in both, they are all kept, in the order of
//! their numbers, if the first one's [`Balance`](crate::topology::Balance) wants them shared
//! ([`balance`]); otherwise the first one takes all. Hosts are ends of paths, never in between.
//! One Dijkstra search from the destination over the reversed pipes gives the distance of every
//! node at once; a next pipe is one that lowers it by exactly its own length. Since every hop
//! lowers (delay, hops), tables cannot loop, whichever member of a set a packet takes.
//!
//! Failures: [`Routes::set_usable`] says which pipes carry anything, [`Routes::reroute`] makes
//! that the truth for all routes at once, as a routing protocol that has converged does.
//!
//! Left out: routes that follow changed delays; routes that change at some nodes before others.

pub mod balance;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::topology::{Balance, NodeId, PipeId, Topology};

/// Marks a node from which no path leads to the destination.
const NONE: u32 = u32::MAX;
/// Set where an entry is the number of a set of pipes and not of a pipe.
const SEVERAL: u32 = 1 << 31;
/// The distance of a node from which no path leads to the destination.
const FAR: (u64, u32) = (u64::MAX, u32::MAX);

/// The number of a set of equal next pipes; it holds until the next [`Routes::reroute`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetId(u32);

impl SetId {
    /// For indexing tables of sets.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a packet goes from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// Into this pipe.
    One(PipeId),
    /// Into one of several that are equal and share packets: see [`Routes::set`].
    OneOf(SetId),
}

/// Next-hop tables by destination.
#[derive(Debug, Clone)]
pub struct Routes {
    /// The pipes into each node, by number.
    incoming: Vec<Vec<PipeId>>,
    /// For a destination: the entry of every node, a pipe, [`SEVERAL`] and a set, or [`NONE`].
    tables: Vec<Option<Box<[u32]>>>,
    /// All sets of equal next pipes, each once: many destinations share them.
    sets: Vec<Box<[PipeId]>>,
    numbers: FxHashMap<Box<[PipeId]>, u32>,
    /// For a lan: the pipes that a frame for all of its members takes.
    members: Vec<Option<Box<[PipeId]>>>,
    /// By pipe: whether routes may use it, and whether they may from the next reroute on.
    in_force: Vec<bool>,
    usable: Vec<bool>,
}

impl Routes {
    /// No table yet; every pipe is usable.
    pub fn new(topology: &Topology) -> Self {
        let (nodes, pipes) = (topology.nodes().len(), topology.pipes().len());
        debug_assert!(pipes < SEVERAL as usize);
        let mut incoming = vec![Vec::new(); nodes];
        for (pipe, id) in topology.pipes().iter().zip(0..) {
            incoming[pipe.to.index()].push(PipeId(id));
        }
        Self {
            incoming,
            tables: vec![None; nodes],
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            members: vec![None; nodes],
            in_force: vec![true; pipes],
            usable: vec![true; pipes],
        }
    }

    /// Says whether a pipe carries packets. Routes learn of it at the next [`Routes::reroute`].
    pub fn set_usable(&mut self, pipe: PipeId, usable: bool) {
        self.usable[pipe.index()] = usable;
    }

    /// Computes all routes anew over the pipes that are usable now: forgets all tables, which
    /// are made again when they are next asked for. [`SetId`]s end.
    pub fn reroute(&mut self) {
        self.in_force.clone_from(&self.usable);
        self.tables.fill(None);
        self.members.fill(None);
        self.sets.clear();
        self.numbers.clear();
    }

    /// Where a packet for `to` goes from `from`; `None` where no path leads there, and at `to`
    /// itself. The first call for a destination makes its table.
    #[inline]
    pub fn next_hop(&mut self, topology: &Topology, from: NodeId, to: NodeId) -> Option<NextHop> {
        if self.tables[to.index()].is_none() {
            self.prepare(topology, to);
        }
        let entry = self.tables[to.index()].as_ref()?[from.index()];
        if entry & SEVERAL == 0 {
            Some(NextHop::One(PipeId(entry)))
        } else if entry == NONE {
            None
        } else {
            Some(NextHop::OneOf(SetId(entry & !SEVERAL)))
        }
    }

    /// The pipe that a packet for `to` takes from `from`, the first one where several share
    /// packets; `None` as for [`Routes::next_hop`].
    #[inline]
    pub fn next(&mut self, topology: &Topology, from: NodeId, to: NodeId) -> Option<PipeId> {
        match self.next_hop(topology, from, to)? {
            NextHop::One(pipe) => Some(pipe),
            NextHop::OneOf(set) => self.set(set).first().copied(),
        }
    }

    /// The members of a set, two or more, by number; none where the set has ended.
    #[inline]
    pub fn set(&self, set: SetId) -> &[PipeId] {
        self.sets.get(set.index()).map_or(&[], |set| set)
    }

    /// Makes the table of a destination ahead of its first packet.
    pub fn prepare(&mut self, topology: &Topology, to: NodeId) {
        if self.tables[to.index()].is_none() {
            self.tables[to.index()] = Some(self.table(topology, to));
        }
    }

    /// The pipes from `from` to `to` in order, the first one where several share packets; `None`
    /// where no path leads there.
    pub fn path(&mut self, topology: &Topology, from: NodeId, to: NodeId) -> Option<Vec<PipeId>> {
        let mut pipes = Vec::new();
        let mut node = from;
        while node != to {
            let pipe = self.next(topology, node, to)?;
            pipes.push(pipe);
            node = topology.pipe(pipe).to;
        }
        Some(pipes)
    }

    /// All next pipes from `from` towards `to` that are equally good, by number, whether or not
    /// they share packets; none where no path leads there. Searches each time it is called.
    pub fn equal_cost(&self, topology: &Topology, from: NodeId, to: NodeId) -> Vec<PipeId> {
        let distances = self.distances(topology, to);
        self.shortest(topology, &distances, from, to).collect()
    }

    /// The pipes that a frame for all members of a lan takes: to each neighbour its first usable
    /// one, by number.
    pub fn members(&mut self, topology: &Topology, lan: NodeId) -> &[PipeId] {
        let Self {
            members, in_force, ..
        } = self;
        members[lan.index()].get_or_insert_with(|| {
            let mut first: Vec<PipeId> = topology.outgoing(lan).to_vec();
            first.retain(|pipe| in_force[pipe.index()]);
            first.sort_by_key(|&pipe| (topology.pipe(pipe).to, pipe));
            first.dedup_by_key(|pipe| topology.pipe(*pipe).to);
            first.sort_unstable();
            first.into()
        })
    }

    /// The entry of every node towards `to`.
    fn table(&mut self, topology: &Topology, to: NodeId) -> Box<[u32]> {
        let distances = self.distances(topology, to);
        let mut set = Vec::new();
        let nodes = (0..topology.nodes().len() as u32).map(NodeId);
        let entries = nodes.map(|from| {
            let mut next = self.shortest(topology, &distances, from, to);
            let Some(first) = next.next() else {
                return NONE;
            };
            if topology.pipe(first).balance == Balance::First {
                return first.0;
            }
            set.clear();
            set.push(first);
            set.extend(next);
            match set.len() {
                1 => first.0,
                _ => self.number(&set),
            }
        });
        entries.collect()
    }

    /// The entry for a set of pipes.
    fn number(&mut self, set: &[PipeId]) -> u32 {
        if let Some(number) = self.numbers.get(set) {
            return SEVERAL | number;
        }
        let number = self.sets.len() as u32;
        self.sets.push(set.into());
        self.numbers.insert(set.into(), number);
        SEVERAL | number
    }

    /// The pipes out of `from` that begin a shortest path to `to`.
    fn shortest<'a>(
        &'a self,
        topology: &'a Topology,
        distances: &'a [(u64, u32)],
        from: NodeId,
        to: NodeId,
    ) -> impl Iterator<Item = PipeId> + 'a {
        let outgoing = topology.outgoing(from).iter().copied();
        outgoing.filter(move |&id| {
            let pipe = topology.pipe(id);
            let rest = distances[pipe.to.index()];
            self.in_force[id.index()]
                && rest != FAR
                && (pipe.to == to || topology.node(pipe.to).kind.transits())
                && distances[from.index()] == longer(rest, pipe.params.delay.as_ns())
        })
    }

    /// (Delay, hops) of the shortest path from every node to `to`.
    fn distances(&self, topology: &Topology, to: NodeId) -> Vec<(u64, u32)> {
        let mut best = vec![FAR; topology.nodes().len()];
        let mut open = BinaryHeap::from([Reverse(((0, 0), to))]);
        best[to.index()] = (0, 0);
        while let Some(Reverse((distance, node))) = open.pop() {
            let transits = node == to || topology.node(node).kind.transits();
            if distance != best[node.index()] || !transits {
                continue;
            }
            for &id in &self.incoming[node.index()] {
                let pipe = topology.pipe(id);
                let candidate = longer(distance, pipe.params.delay.as_ns());
                let known = &mut best[pipe.from.index()];
                if self.in_force[id.index()] && candidate < *known {
                    *known = candidate;
                    open.push(Reverse((candidate, pipe.from)));
                }
            }
        }
        best
    }
}

/// A distance with one more pipe of `delay` ns before it.
fn longer((total, hops): (u64, u32), delay: u64) -> (u64, u32) {
    (total.saturating_add(delay), hops + 1)
}
