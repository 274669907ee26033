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
//! **Cost.** Hosts with one link have no table and no place in one (`junction`): a table is 4
//! bytes for each router, lan and host with several links, and serves all hosts that hang on its
//! destination by one link. A node costs 12 bytes and a pipe 2 besides. All tables together have
//! at most [`MAX_TABLE_ENTRIES`] entries; beyond that the oldest is dropped, and built again when it is
//! asked for, which costs time and affects no packet.
//!
//! Failures: [`Routes::set_usable`] says which pipes carry anything, [`Routes::reroute`] applies
//! that to all routes at once, as a routing protocol that has converged does.
//!
//! **Shares.** An engine over a share of the nodes ([`crate::parallel`]) keeps the rows of its own
//! junctions alone, with its own numbers of their pipes; searches go over the whole network.
//!
//! Left out: routes that follow changed delays; routes that change at some nodes before others.

pub mod balance;
mod junction;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::parallel::{LocalPipe, Share};
use crate::topology::{Balance, NodeId, PipeId, Topology};
use junction::Search;

pub(crate) use junction::Junctions;

/// How many entries all tables together may have: 1 GiB.
pub const MAX_TABLE_ENTRIES: usize = 1 << 28;

/// Marks a junction from which no path leads to the destination.
const NONE: u32 = u32::MAX;
/// Marks the destination itself, where paths to its leaves go on.
const HERE: u32 = u32::MAX - 1;
/// The place of a table that does not exist.
const MISSING: u32 = u32::MAX;
/// The row of a node without one: behind the end of every table.
const OUTSIDE: u32 = 1 << 31;
/// Set where an entry is the number of a set of pipes and not of a pipe.
const SEVERAL: u32 = 1 << 31;

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

/// The row of a node, the same in all tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place(u32);

impl Place {
    /// No row: every lookup misses.
    pub(crate) const NOWHERE: Self = Self(MISSING);
}

/// The path to a destination: the table towards its junction, and the last pipe.
#[derive(Debug, Clone, Copy)]
struct PathTo {
    /// Where the table towards it begins; [`MISSING`] if it is not built yet or the last pipe is down.
    table: u32,
    /// The last pipe to a leaf, in the same cache line as `table`; [`NONE`] for a junction.
    last: u32,
}

impl PathTo {
    const MISSING: Self = Self {
        table: MISSING,
        last: NONE,
    };
}

/// Next-hop tables by destination.
#[derive(Debug, Clone)]
pub struct Routes {
    /// The share of the network whose junctions have rows here; `None` for the whole network.
    share: Option<Arc<Share>>,
    junctions: Arc<Junctions>,
    /// By node: its row in all tables, [`OUTSIDE`] for leaves and for nodes of other shares.
    rows: Box<[u32]>,
    /// By row: its junction.
    row_junctions: Box<[u32]>,
    /// All tables. A table has an entry for every row: a pipe, [`SEVERAL`] and a set, [`HERE`] or
    /// [`NONE`].
    entries: Vec<u32>,
    /// By node.
    paths_to: Vec<PathTo>,
    /// The nodes of the junctions that have tables, the oldest table first.
    made: VecDeque<NodeId>,
    most_entries: usize,
    search: Search,
    /// All sets of equal next pipes, each once: many destinations share them.
    sets: Vec<Box<[PipeId]>>,
    numbers: FxHashMap<Box<[PipeId]>, u32>,
    /// By lan: the pipes that a frame for all of its members takes.
    members: FxHashMap<NodeId, Box<[PipeId]>>,
    /// By pipe: whether routes may use it, and whether they may from the next reroute on.
    in_force: Vec<bool>,
    usable: Vec<bool>,
}

impl Routes {
    /// No table yet; every pipe is usable.
    ///
    /// # Panics
    /// Where there are 2^30 nodes or more.
    pub fn new(topology: &Topology) -> Self {
        Self::with_bound(topology, MAX_TABLE_ENTRIES)
    }

    /// The same where all tables together have at most `most_entries` entries, or there is one.
    pub fn with_bound(topology: &Topology, most_entries: usize) -> Self {
        let junctions = Arc::new(Junctions::new(topology));
        Self::out_of(topology, junctions, None, most_entries)
    }

    /// The routes out of the nodes of a share; what they say are its numbers of pipes.
    pub(crate) fn of_share(share: Arc<Share>) -> Self {
        let junctions = Arc::clone(&share.split.junctions);
        let topology = Arc::clone(share.split.topology());
        Self::out_of(&topology, junctions, Some(share), MAX_TABLE_ENTRIES)
    }

    fn out_of(
        topology: &Topology,
        junctions: Arc<Junctions>,
        share: Option<Arc<Share>>,
        most_entries: usize,
    ) -> Self {
        let (nodes, pipes) = (topology.nodes().len(), topology.pipes().len());
        debug_assert!(pipes < SEVERAL as usize);
        let owns = |node| share.as_ref().is_none_or(|share| share.owns(node));
        let has_row = |&node: &NodeId| owns(node) && !junctions.is_leaf(node);
        let mut rows = vec![OUTSIDE; nodes];
        let mut row_junctions = Vec::new();
        for node in (0..nodes as u32).map(NodeId).filter(has_row) {
            rows[node.index()] = row_junctions.len() as u32;
            row_junctions.push(junctions.of(node));
        }
        let own = row_junctions.len().max(1);
        let most_entries = most_entries.clamp(own, MISSING as usize);
        let all = junctions.len().saturating_mul(own);
        Self {
            rows: rows.into(),
            row_junctions: row_junctions.into(),
            // Mapped when first used.
            entries: Vec::with_capacity(most_entries.min(all)),
            paths_to: vec![PathTo::MISSING; nodes],
            made: VecDeque::new(),
            most_entries,
            search: Search::default(),
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            members: FxHashMap::default(),
            in_force: vec![true; pipes],
            usable: vec![true; pipes],
            junctions,
            share,
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
        self.entries.clear();
        self.paths_to.fill(PathTo::MISSING);
        self.made.clear();
        self.members.clear();
        self.sets.clear();
        self.numbers.clear();
    }

    /// Where a packet for `to` goes from `from`; `None` where no path leads there, and at `to`
    /// itself. The first call for a destination makes its table.
    #[inline]
    pub fn next_hop(&mut self, topology: &Topology, from: NodeId, to: NodeId) -> Option<NextHop> {
        // What is marked as a leaf or has no table lies outside.
        let (path_to, place) = (self.paths_to[to.index()], self.rows[from.index()]);
        match self.entries.get(path_to.table as usize + place as usize) {
            Some(&entry) if entry & SEVERAL == 0 => Some(NextHop::One(PipeId(entry))),
            Some(&entry) if entry < HERE => Some(NextHop::OneOf(SetId(entry & !SEVERAL))),
            Some(&HERE) if path_to.last != NONE => Some(NextHop::One(PipeId(path_to.last))),
            _ => self.next_hop_at_end(topology, from, to),
        }
    }

    /// The row of a node, for [`Routes::next_at`].
    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> Place {
        Place(self.rows[node.index()])
    }

    /// The one pipe that leads from a place to node `to`, as far as a table says so: `None` at the ends
    /// of paths, where several share packets, and for a `to` that is not a node, for all of which see
    /// [`Routes::next_hop`].
    #[inline]
    pub(crate) fn next_at(&self, place: Place, to: u32) -> Option<PipeId> {
        let path_to = self.paths_to.get(to as usize)?;
        let &entry = self
            .entries
            .get(path_to.table as usize + place.0 as usize)?;
        let next = if entry == HERE { path_to.last } else { entry };
        (next & SEVERAL == 0).then_some(PipeId(next))
    }

    /// [`Routes::next_hop`] at the ends of paths: at leaves, between leaves of one junction, and where a
    /// table or a path is missing.
    #[inline(never)]
    fn next_hop_at_end(
        &mut self,
        topology: &Topology,
        from: NodeId,
        to: NodeId,
    ) -> Option<NextHop> {
        if from == to || self.junctions.is_cut_off(to, &self.in_force) {
            return None;
        }
        let (here, goal) = (self.junctions.of(from), self.junctions.of(to));
        let next = if here == goal {
            // Without a table: the last pipe, or that of a leaf to its junction.
            let [_, last] = self.junctions.ends(to);
            Some(NextHop::One(self.number(last)))
        } else {
            // A leaf's junction speaks for it. One in another share is never asked: a host with one
            // pipe takes that, whatever routes say.
            let row @ ..OUTSIDE = self.rows[self.junctions.node_of(here).index()] else {
                return None;
            };
            self.prepare(topology, to);
            let table = self.paths_to[to.index()].table as usize;
            decode(self.entries[table + row as usize])
        };
        if self.junctions.is_leaf(from) {
            let [out, _] = self.junctions.ends(from);
            let leads = next.is_some() && self.in_force[out.index()];
            return leads.then_some(NextHop::One(self.number(out)));
        }
        next
    }

    /// The share's number of a pipe. That of another share's pipe is one that no packet is sent to.
    fn number(&self, pipe: PipeId) -> PipeId {
        number(self.share.as_deref(), pipe)
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
        let is_cut_off = self.junctions.is_cut_off(to, &self.in_force);
        if self.paths_to[to.index()].table != MISSING || is_cut_off {
            return;
        }
        let (to, size) = (self.junctions.node(to), self.row_junctions.len());
        let start = if self.entries.len() + size <= self.most_entries {
            self.entries.resize(self.entries.len() + size, NONE);
            self.entries.len() - size
        } else {
            let oldest = self.made.pop_front().unwrap_or(to);
            let start = self.paths_to[oldest.index()].table;
            self.announce(topology, oldest, MISSING);
            start as usize
        };
        self.fill(topology, to, start);
        self.made.push_back(to);
        self.announce(topology, to, start as u32);
    }

    /// Says where the table towards a junction and its leaves begins.
    fn announce(&mut self, topology: &Topology, junction: NodeId, start: u32) {
        self.paths_to[junction.index()].table = start;
        for &pipe in topology.outgoing(junction) {
            let leaf = topology.pipe(pipe).to;
            if self.junctions.is_leaf(leaf) && !self.junctions.is_cut_off(leaf, &self.in_force) {
                let [_, last] = self.junctions.ends(leaf);
                self.paths_to[leaf.index()] = PathTo {
                    table: start,
                    last: self.number(last).0,
                };
            }
        }
    }

    /// The size of all tables in bytes.
    pub fn table_bytes(&self) -> usize {
        self.entries.len() * size_of::<u32>()
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
    pub fn equal_cost(&self, from: NodeId, to: NodeId) -> Vec<PipeId> {
        if from == to || self.junctions.is_cut_off(to, &self.in_force) {
            return Vec::new();
        }
        let (here, goal) = (self.junctions.of(from), self.junctions.of(to));
        let next = if here == goal {
            vec![self.junctions.ends(to)[1]]
        } else {
            let mut search = Search::default();
            search.run(&self.junctions, &self.in_force, goal);
            let shortest = self.junctions.shortest(&search, &self.in_force, here);
            shortest.collect()
        };
        if self.junctions.is_leaf(from) {
            let [out, _] = self.junctions.ends(from);
            let leads = !next.is_empty() && self.in_force[out.index()];
            return if leads { vec![out] } else { Vec::new() };
        }
        next
    }

    /// The pipes that a frame for all members of a lan takes: to each neighbour its first usable
    /// one, by number.
    pub fn members(&mut self, topology: &Topology, lan: NodeId) -> &[PipeId] {
        let Self {
            members,
            in_force,
            share,
            ..
        } = self;
        members.entry(lan).or_insert_with(|| {
            let mut first: Vec<PipeId> = topology.outgoing(lan).to_vec();
            first.retain(|pipe| in_force[pipe.index()]);
            first.sort_by_key(|&pipe| (topology.pipe(pipe).to, pipe));
            first.dedup_by_key(|pipe| topology.pipe(*pipe).to);
            first.sort_unstable();
            let local = first.iter().map(|&pipe| number(share.as_deref(), pipe));
            local.collect()
        })
    }

    /// Makes the table towards a junction at `start`.
    fn fill(&mut self, topology: &Topology, to: NodeId, start: usize) {
        let to = self.junctions.of(to);
        self.search.run(&self.junctions, &self.in_force, to);
        let number = |pipe| number(self.share.as_deref(), pipe);
        let mut set = Vec::new();
        for (entry, &from) in self.entries[start..].iter_mut().zip(&self.row_junctions) {
            let mut next = self.junctions.shortest(&self.search, &self.in_force, from);
            *entry = match next.next() {
                None if from == to => HERE,
                None => NONE,
                Some(first) if topology.pipe(first).balance == Balance::First => number(first).0,
                Some(first) => {
                    set.clear();
                    set.push(number(first));
                    set.extend(next.map(number));
                    match set.len() {
                        1 => number(first).0,
                        _ => set_entry(&mut self.sets, &mut self.numbers, &set),
                    }
                }
            };
        }
    }
}

/// The number of a pipe in a share, if there is one; [`NONE`] for a pipe that is not there.
fn number(share: Option<&Share>, pipe: PipeId) -> PipeId {
    let Some(share) = share else { return pipe };
    let LocalPipe(local) = share.local(pipe).unwrap_or(LocalPipe(NONE));
    PipeId(local)
}

/// The next hop that an entry encodes.
fn decode(entry: u32) -> Option<NextHop> {
    match entry {
        HERE | NONE => None,
        _ if entry & SEVERAL == 0 => Some(NextHop::One(PipeId(entry))),
        _ => Some(NextHop::OneOf(SetId(entry & !SEVERAL))),
    }
}

/// The entry for a set of pipes.
fn set_entry(
    sets: &mut Vec<Box<[PipeId]>>,
    numbers: &mut FxHashMap<Box<[PipeId]>, u32>,
    set: &[PipeId],
) -> u32 {
    if let Some(number) = numbers.get(set) {
        return SEVERAL | number;
    }
    let number = sets.len() as u32;
    sets.push(set.into());
    numbers.insert(set.into(), number);
    SEVERAL | number
}
