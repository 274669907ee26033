//! Moves of single vertices between parts, after Fiduccia and Mattheyses (1982), for any number of
//! parts.
//!
//! Theory: in a pass the vertex whose move lowers the cut most is moved first, even if the cut rises,
//! and is then locked; at the end of the pass the best state on the way is restored. So a pass leaves local
//! minima and never makes the partition worse. It minimises first the work above the limit of each core,
//! then the cut. A core's work includes half of each cut
//! edge at it ([`crate::costs`]).
//!
//! Left out: buckets of gains; weights here have 48 bits, so a heap is used.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::Graph;

/// Vertices with more edges keep their place in the heap while neighbours move: to look at all
/// edges of a hub after each move of a neighbour would take the square of their number.
const HUB: usize = 2_000;

/// What a refinement must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most work of a core.
    pub most: u64,
    /// The most passes.
    pub passes: u32,
}

/// What a refinement makes small: work above the limit, summed over cores, then the cut.
pub type Cost = (u64, u64);

/// Moves vertices between parts until no pass helps; gives the cost before and after.
pub fn refine(graph: &Graph, part: &mut [u16], cores: u16, limits: Limits) -> (Cost, Cost) {
    let mut state = State::new(graph, part, cores, limits.most);
    let before = state.cost();
    let mut cost = before;
    for _ in 0..limits.passes {
        let after = state.pass();
        debug_assert!(after <= cost);
        if after >= cost {
            break;
        }
        cost = after;
    }
    (before, cost)
}

/// The work of each core, in halves of a unit, so that halves of edges are whole.
pub(super) fn work_halves(graph: &Graph, part: &[u16], cores: u16) -> Vec<u64> {
    let mut work: Vec<u64> = graph.loads(part, cores);
    work.iter_mut().for_each(|load| *load *= 2);
    for (vertex, arc) in graph.each_edge() {
        let ends = [vertex, arc.peer].map(|end| usize::from(part[end as usize]));
        if ends[0] != ends[1] {
            ends.iter().for_each(|&core| work[core] += arc.weight);
        }
    }
    work
}

struct State<'a> {
    graph: &'a Graph,
    part: &'a mut [u16],
    /// By vertex: the weight of all its edges.
    degrees: Vec<u64>,
    /// By core, in halves.
    work: Vec<u64>,
    /// In halves.
    most: u64,
    cut: u64,
    /// Work above the limit, in halves.
    over: u64,
    /// Of the current vertex: what joins it to each core, and to which cores anything does.
    joins: Vec<u64>,
    joined: Vec<u16>,
    locked: Vec<bool>,
    /// By vertex: the number of its last entry in the heap.
    entry: Vec<u32>,
    heap: BinaryHeap<Candidate>,
}

/// A vertex that may be moved: first those of cores above the limit, then by gain, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    relieves: bool,
    /// What the cut falls by; less than nothing where it rises.
    gain: i64,
    vertex: Reverse<u32>,
    entry: u32,
}

/// What a move comes to: the work of the two cores after it, in halves, and the gain.
#[derive(Debug, Clone, Copy)]
struct Move {
    to: u16,
    work_from: u64,
    work_to: u64,
    gain: i64,
}

impl<'a> State<'a> {
    fn new(graph: &'a Graph, part: &'a mut [u16], cores: u16, most: u64) -> Self {
        let work = work_halves(graph, part, cores);
        let most = most.saturating_mul(2);
        let degree = |vertex| graph.arcs(vertex).iter().map(|arc| arc.weight).sum();
        Self {
            degrees: graph.vertices().map(degree).collect(),
            cut: graph.cut(part),
            over: work.iter().map(|work| work.saturating_sub(most)).sum(),
            joins: vec![0; work.len()],
            joined: Vec::new(),
            locked: vec![false; graph.len()],
            entry: vec![0; graph.len()],
            heap: BinaryHeap::new(),
            graph,
            part,
            work,
            most,
        }
    }

    fn cost(&self) -> Cost {
        (self.over, self.cut)
    }

    /// One pass; gives the cost of the best state, which is the state then.
    fn pass(&mut self) -> Cost {
        self.locked.fill(false);
        self.heap.clear();
        for vertex in self.graph.vertices() {
            self.offer(vertex);
        }
        let patience = (self.graph.len() / 20).clamp(100, 2_000);
        let mut best = self.cost();
        let mut moves: Vec<(u32, u16)> = Vec::new();
        let mut kept = 0;
        while let Some(candidate) = self.heap.pop() {
            let vertex = candidate.vertex.0;
            if self.locked[vertex as usize] || self.entry[vertex as usize] != candidate.entry {
                continue;
            }
            let Some(found) = self.best_move(vertex, true) else {
                continue;
            };
            let relieves = self.relieves(vertex, &found);
            if (relieves, found.gain) < (candidate.relieves, candidate.gain) {
                // Cores have filled up since, or are relieved: to its place among the others.
                self.push(vertex, relieves, found.gain);
                continue;
            }
            moves.push((vertex, self.part[vertex as usize]));
            self.locked[vertex as usize] = true;
            self.make(vertex, found);
            for arc in self.graph.arcs(vertex) {
                if self.graph.arcs(arc.peer).len() <= HUB {
                    self.offer(arc.peer);
                }
            }
            let cost = self.cost();
            if cost < best {
                best = cost;
                kept = moves.len();
            } else if moves.len() - kept > patience {
                break;
            }
        }
        for &(vertex, back) in moves[kept..].iter().rev() {
            self.sum_joins(vertex);
            let back = self.moved(vertex, back);
            self.make(vertex, back);
        }
        best
    }

    /// Whether a move lowers the work above the limit.
    fn relieves(&self, vertex: u32, found: &Move) -> bool {
        let from = self.part[vertex as usize];
        let over = |work: u64| work.saturating_sub(self.most);
        let now = [from, found.to].map(|core| over(self.work[usize::from(core)]));
        over(found.work_from) + over(found.work_to) < now[0] + now[1]
    }

    /// Puts the best move of a vertex into the heap, whether or not there is room for it yet.
    fn offer(&mut self, vertex: u32) {
        if self.locked[vertex as usize] {
            return;
        }
        if let Some(found) = self.best_move(vertex, false) {
            let relieves = self.relieves(vertex, &found);
            self.push(vertex, relieves, found.gain);
        }
    }

    fn push(&mut self, vertex: u32, relieves: bool, gain: i64) {
        let entry = &mut self.entry[vertex as usize];
        *entry = entry.wrapping_add(1);
        self.heap.push(Candidate {
            relieves,
            gain,
            vertex: Reverse(vertex),
            entry: *entry,
        });
    }

    /// The move of a vertex with the largest gain, of equal ones to the core with the least work;
    /// with `fits`, only one that the limit allows. Vertices of a core above the limit may also go
    /// to the idlest one, others only to cores that they are joined to.
    fn best_move(&mut self, vertex: u32, fits: bool) -> Option<Move> {
        let from = self.part[vertex as usize];
        self.sum_joins(vertex);
        let now = self.work[usize::from(from)];
        if now > self.most {
            let idlest = super::least(&self.work) as u16;
            if !self.joined.contains(&idlest) {
                self.joined.push(idlest);
            }
        }
        let rank = |found: &Move| {
            let idle = Reverse(self.work[usize::from(found.to)]);
            (
                self.relieves(vertex, found),
                found.gain,
                idle,
                Reverse(found.to),
            )
        };
        let moves = self.joined.iter().filter(|&&to| to != from);
        moves
            .map(|&to| self.moved(vertex, to))
            .filter(|found| {
                // A core above the limit may also hand over to one that is less so.
                let room = found.work_to <= self.most.max(now.saturating_sub(1));
                !fits || room && found.work_from <= self.most.max(now)
            })
            .max_by(|a, b| rank(a).cmp(&rank(b)))
    }

    /// Sums what joins a vertex to each core.
    fn sum_joins(&mut self, vertex: u32) {
        for &core in &self.joined {
            self.joins[usize::from(core)] = 0;
        }
        self.joined.clear();
        for arc in self.graph.arcs(vertex) {
            let core = self.part[arc.peer as usize];
            let joins = &mut self.joins[usize::from(core)];
            if *joins == 0 && !self.joined.contains(&core) {
                self.joined.push(core);
            }
            *joins += arc.weight;
        }
    }

    /// What a move comes to, by the sums of [`Self::sum_joins`].
    fn moved(&self, vertex: u32, to: u16) -> Move {
        let from = usize::from(self.part[vertex as usize]);
        let load = 2 * self.graph.load(vertex);
        let (here, there) = (self.joins[from], self.joins[usize::from(to)]);
        let others = self.degrees[vertex as usize] - here - there;
        Move {
            to,
            work_from: self.work[from] + here - load - there - others,
            work_to: self.work[usize::from(to)] + load + here + others - there,
            gain: there as i64 - here as i64,
        }
    }

    fn make(&mut self, vertex: u32, found: Move) {
        let from = std::mem::replace(&mut self.part[vertex as usize], found.to);
        for (core, work) in [(from, found.work_from), (found.to, found.work_to)] {
            let known = &mut self.work[usize::from(core)];
            self.over -= known.saturating_sub(self.most);
            self.over += work.saturating_sub(self.most);
            *known = work;
        }
        self.cut = self.cut.wrapping_add_signed(-found.gain);
    }
}
