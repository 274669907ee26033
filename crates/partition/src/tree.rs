//! The paths to one destination: a tree of next pipes, or an acyclic graph where routes balance packets over
//! equal pipes.
//!
//! Theory: all paths to a destination follow one next-hop table, so what all sources send there is
//! summed in one pass over the nodes that lie on any of the paths, from the far ones to the near
//! ones; path by path the same hops would be walked once for each source. Every hop lowers
//! (delay, hops), so a depth-first search meets no cycle, and its post-order has each node
//! behind all nodes that it leads to.
//!
//! Hosts with one link to a node that forwards are *leaves*: all leaves of a node share its ways,
//! so trees lie between the nodes they are attached to.

use longhaul_core::route::{NextHop, Routes};
use longhaul_core::topology::NodeKind;
use longhaul_core::{NodeId, PipeId, Topology};

/// How a leaf is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    /// The pipe from it.
    pub(crate) up: PipeId,
    /// The pipe to it.
    pub(crate) down: PipeId,
    /// The node at the other end.
    pub(crate) at: NodeId,
}

/// By node: how it is attached if it is a leaf.
pub(crate) fn leaves(topology: &Topology) -> Vec<Option<Leaf>> {
    let nodes = 0..topology.nodes().len() as u32;
    let leaf = |node: NodeId| {
        let &[up] = topology.outgoing(node) else {
            return None;
        };
        let pipe = topology.pipe(up);
        let is_leaf =
            topology.node(node).kind == NodeKind::Host && topology.node(pipe.to).kind.transits();
        is_leaf.then_some(Leaf {
            up,
            down: pipe.back,
            at: pipe.to,
        })
    };
    nodes.map(|node| leaf(NodeId(node))).collect()
}

/// The ways to a destination; memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// By node: the search that met it last.
    met: Vec<u32>,
    search: u32,
    /// By node: where its next pipes are.
    spans: Vec<(u32, u32)>,
    next: Vec<PipeId>,
    order: Vec<NodeId>,
    stack: Vec<(NodeId, u32)>,
}

impl Tree {
    pub(crate) fn new(topology: &Topology) -> Self {
        Self {
            met: vec![0; topology.nodes().len()],
            spans: vec![(0, 0); topology.nodes().len()],
            ..Self::default()
        }
    }

    /// Finds the ways from `sources` to `to`.
    pub(crate) fn grow(
        &mut self,
        topology: &Topology,
        routes: &mut Routes,
        to: NodeId,
        sources: impl Iterator<Item = NodeId>,
    ) {
        self.search += 1;
        self.next.clear();
        self.order.clear();
        self.met[to.index()] = self.search;
        self.spans[to.index()] = (0, 0);
        self.order.push(to);
        for source in sources {
            self.meet(topology, routes, source, to);
            while let Some((node, done)) = self.stack.pop() {
                let (start, end) = self.spans[node.index()];
                if start + done == end {
                    self.order.push(node);
                    continue;
                }
                self.stack.push((node, done + 1));
                let pipe = self.next[(start + done) as usize];
                self.meet(topology, routes, topology.pipe(pipe).to, to);
            }
        }
    }

    /// Puts a node that is new and from which a path leads to `to` on the stack.
    fn meet(&mut self, topology: &Topology, routes: &mut Routes, node: NodeId, to: NodeId) {
        if self.met[node.index()] == self.search {
            return;
        }
        self.met[node.index()] = self.search;
        let start = self.next.len() as u32;
        match routes.next_hop(topology, node, to) {
            Some(NextHop::One(pipe)) => self.next.push(pipe),
            Some(NextHop::OneOf(set)) => self.next.extend_from_slice(routes.set(set)),
            None => {}
        }
        let end = self.next.len() as u32;
        self.spans[node.index()] = (start, end);
        if start < end {
            self.stack.push((node, 0));
        }
    }

    /// All nodes on paths, the destination first and each behind all that it leads to.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The pipes that packets take from a node of [`Self::order`], in equal shares.
    pub(crate) fn next(&self, node: NodeId) -> &[PipeId] {
        let (start, end) = self.spans[node.index()];
        &self.next[start as usize..end as usize]
    }

    /// Whether a source has a path to the destination, or is it.
    pub(crate) fn leads_from(&self, node: NodeId) -> bool {
        self.met[node.index()] == self.search
            && (self.order[0] == node || !self.next(node).is_empty())
    }
}
