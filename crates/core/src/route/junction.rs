//! The part of a network in which routes have a choice, and the search over it.
//!
//! A host with one link, to a node that forwards, is a *leaf*: whatever it sends takes that link,
//! and whatever is sent to it is sent to the link's other end. All other nodes are *junctions*,
//! numbered in the order of their nodes: routers, lans, and the hosts with several links, with none,
//! or with one to another host. Only junctions appear in searches and tables, so that both cost
//! what the network of routers costs, however many hosts hang on it.
//!
//! The search is Dijkstra's, from the destination over the reversed pipes. Its order is one
//! number: delay, hops, junction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topology::{NodeId, NodeKind, PipeId, Topology};

/// Added to a leaf's place, which is that of its junction.
pub(super) const LEAF: u32 = 1 << 31;
/// The distance of a junction from which no path leads to the destination.
const FAR: u128 = u128::MAX;

/// A link between two junctions, as one of them sees it.
#[derive(Debug, Clone, Copy)]
struct Edge {
    /// The junction at the other end.
    peer: u32,
    out: PipeId,
    back: PipeId,
    /// Nanoseconds.
    out_delay: u64,
    back_delay: u64,
}

/// The graph of junctions, and every node's junction. They never change, so that engines share them.
#[derive(Debug)]
pub(crate) struct Junctions {
    /// By node: its junction, with [`LEAF`].
    places: Vec<u32>,
    /// By node: a leaf's pipe to its junction, and the one back.
    ends: Vec<[PipeId; 2]>,
    /// By junction.
    nodes: Vec<NodeId>,
    transits: Vec<bool>,
    /// By junction: where its edges begin in `edges`; one more entry says where the last one's end.
    starts: Vec<u32>,
    /// In the order of the pipes out.
    edges: Vec<Edge>,
}

impl Junctions {
    /// # Panics
    /// Where there are 2^30 nodes or more.
    pub(crate) fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes().len();
        assert!(nodes < 1 << 30, "a network has fewer than 2^30 nodes");
        let mut junctions = Self {
            places: vec![0; nodes],
            ends: vec![[PipeId(u32::MAX); 2]; nodes],
            nodes: Vec::new(),
            transits: Vec::new(),
            starts: vec![0],
            edges: Vec::new(),
        };
        let ids = || (0..nodes as u32).map(NodeId);
        for node in ids().filter(|&node| leaf_end(topology, node).is_none()) {
            junctions.places[node.index()] = junctions.transits.len() as u32;
            let transits = topology.node(node).kind.transits();
            junctions.transits.push(transits);
            junctions.nodes.push(node);
        }
        for node in ids() {
            if let Some(out) = leaf_end(topology, node) {
                let pipe = topology.pipe(out);
                junctions.places[node.index()] = junctions.places[pipe.to.index()] | LEAF;
                junctions.ends[node.index()] = [out, pipe.back];
            }
        }
        for node in ids() {
            if !junctions.is_leaf(node) {
                junctions.add_edges(topology, node);
            }
        }
        junctions
    }

    /// Adds the edges of the next junction, which is `node`.
    fn add_edges(&mut self, topology: &Topology, node: NodeId) {
        for &out in topology.outgoing(node) {
            let pipe = topology.pipe(out);
            if !self.is_leaf(pipe.to) {
                self.edges.push(Edge {
                    peer: self.of(pipe.to),
                    out,
                    back: pipe.back,
                    out_delay: pipe.params.delay.as_ns(),
                    back_delay: topology.pipe(pipe.back).params.delay.as_ns(),
                });
            }
        }
        self.starts.push(self.edges.len() as u32);
    }

    /// How many junctions there are.
    pub(super) fn len(&self) -> usize {
        self.transits.len()
    }

    /// A node's junction.
    #[inline]
    pub(super) fn of(&self, node: NodeId) -> u32 {
        self.places[node.index()] & !LEAF
    }

    /// The node of a junction.
    pub(super) fn node_of(&self, junction: u32) -> NodeId {
        self.nodes[junction as usize]
    }

    /// The node itself where it is a junction, or a leaf's.
    pub(super) fn node(&self, node: NodeId) -> NodeId {
        self.nodes[self.of(node) as usize]
    }

    pub(super) fn is_leaf(&self, node: NodeId) -> bool {
        self.places[node.index()] & LEAF != 0
    }

    /// Whether a node is a leaf whose last pipe is not in force.
    pub(super) fn is_cut_off(&self, node: NodeId, in_force: &[bool]) -> bool {
        let [_, last] = self.ends(node);
        self.is_leaf(node) && !in_force[last.index()]
    }

    /// A leaf's pipe to its junction, and the one back.
    pub(super) fn ends(&self, leaf: NodeId) -> [PipeId; 2] {
        self.ends[leaf.index()]
    }

    fn edges(&self, junction: u32) -> &[Edge] {
        let junction = junction as usize;
        &self.edges[self.starts[junction] as usize..self.starts[junction + 1] as usize]
    }

    /// The pipes out of `from` that begin a shortest path to the junction that `search` began
    /// at, by number; none at that junction itself.
    pub(super) fn shortest<'a>(
        &'a self,
        search: &'a Search,
        in_force: &'a [bool],
        from: u32,
    ) -> impl Iterator<Item = PipeId> + 'a {
        let edges = self.edges(from).iter().filter(move |edge| {
            let rest = search.best[edge.peer as usize];
            in_force[edge.out.index()]
                && rest != FAR
                && (edge.peer == search.to || self.transits[edge.peer as usize])
                && search.best[from as usize] == longer(rest, edge.out_delay)
        });
        edges.map(|edge| edge.out)
    }
}

/// The pipe of a host that has one link, to a node that forwards.
fn leaf_end(topology: &Topology, node: NodeId) -> Option<PipeId> {
    let &[out] = topology.outgoing(node) else {
        return None;
    };
    let is_leaf = topology.node(node).kind == NodeKind::Host
        && topology.node(topology.pipe(out).to).kind.transits();
    is_leaf.then_some(out)
}

/// A search, with memory that is used again.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    to: u32,
    /// By junction: delay in ns and hops of the shortest path, or [`FAR`].
    best: Vec<u128>,
    open: BinaryHeap<Reverse<u128>>,
}

impl Search {
    /// Finds the distance of every junction to `to`.
    pub(super) fn run(&mut self, junctions: &Junctions, in_force: &[bool], to: u32) {
        self.to = to;
        self.best.clear();
        self.best.resize(junctions.len(), FAR);
        self.best[to as usize] = 0;
        self.open.push(Reverse(u128::from(to)));
        while let Some(Reverse(first)) = self.open.pop() {
            let (distance, junction) = (first >> 32, first as u32);
            let transits = junction == to || junctions.transits[junction as usize];
            if distance != self.best[junction as usize] || !transits {
                continue;
            }
            for edge in junctions.edges(junction) {
                let candidate = longer(distance, edge.back_delay);
                let known = &mut self.best[edge.peer as usize];
                if candidate < *known && in_force[edge.back.index()] {
                    *known = candidate;
                    self.open
                        .push(Reverse(candidate << 32 | u128::from(edge.peer)));
                }
            }
        }
    }
}

/// A distance with one more pipe of `delay` ns before it: the delay above, 32 bits of hops below.
fn longer(distance: u128, delay: u64) -> u128 {
    let total = ((distance >> 32) as u64).saturating_add(delay);
    (u128::from(total) << 32 | u128::from(distance as u32)) + 1
}
