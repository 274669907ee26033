//! Static routes: for each destination a table of next pipes, made when first asked for.
//!
//! The shortest path by the pipes' delays at the start of a run; of equal ones the one with
//! fewer hops, then the one whose next pipe comes first by name. Hosts are ends of paths, never
//! in between. One Dijkstra search from the destination over the reversed pipes gives the
//! next pipe of every node at once. Since every hop lowers (delay, hops), tables cannot loop.
//!
//! Left out: routes that follow changed delays or links that are down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topology::{NodeId, NodeKind, PipeId, Topology};

/// Marks a node from which no path leads to the destination.
const NONE: u32 = u32::MAX;

/// Next-hop tables by destination.
#[derive(Debug, Clone)]
pub struct Routes {
    /// The pipes into each node, by number.
    incoming: Vec<Vec<PipeId>>,
    /// For a destination: the next pipe from every node.
    tables: Vec<Option<Box<[u32]>>>,
}

impl Routes {
    /// No table yet.
    pub fn new(topology: &Topology) -> Self {
        let mut incoming = vec![Vec::new(); topology.nodes().len()];
        for (pipe, id) in topology.pipes().iter().zip(0..) {
            incoming[pipe.to.index()].push(PipeId(id));
        }
        Self {
            incoming,
            tables: vec![None; topology.nodes().len()],
        }
    }

    /// The pipe that a packet for `to` takes from `from`; `None` where no path leads there, and
    /// at `to` itself. The first call for a destination makes its table.
    #[inline]
    pub fn next(&mut self, topology: &Topology, from: NodeId, to: NodeId) -> Option<PipeId> {
        if self.tables[to.index()].is_none() {
            self.prepare(topology, to);
        }
        let next = self.tables[to.index()].as_ref()?[from.index()];
        (next != NONE).then_some(PipeId(next))
    }

    /// Makes the table of a destination ahead of its first packet.
    pub fn prepare(&mut self, topology: &Topology, to: NodeId) {
        if self.tables[to.index()].is_none() {
            self.tables[to.index()] = Some(search(topology, &self.incoming, to));
        }
    }

    /// The pipes from `from` to `to` in order; `None` where no path leads there.
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
}

/// The next pipe of every node towards `to`.
fn search(topology: &Topology, incoming: &[Vec<PipeId>], to: NodeId) -> Box<[u32]> {
    // (delay, hops, next pipe): the smallest wins.
    let mut best = vec![(u64::MAX, u32::MAX, NONE); topology.nodes().len()];
    let mut open = BinaryHeap::from([Reverse((0, 0, to))]);
    best[to.index()] = (0, 0, NONE);
    while let Some(Reverse((delay, hops, node))) = open.pop() {
        let (best_delay, best_hops, _) = best[node.index()];
        let transits = node == to || topology.node(node).kind == NodeKind::Router;
        if (delay, hops) != (best_delay, best_hops) || !transits {
            continue;
        }
        for &id in &incoming[node.index()] {
            let pipe = topology.pipe(id);
            let longer = delay.saturating_add(pipe.params.delay.as_ns());
            let candidate = (longer, hops + 1, id.0);
            let known = &mut best[pipe.from.index()];
            if candidate < *known {
                if (candidate.0, candidate.1) != (known.0, known.1) {
                    open.push(Reverse((longer, hops + 1, pipe.from)));
                }
                *known = candidate;
            }
        }
    }
    best.into_iter().map(|(_, _, next)| next).collect()
}
