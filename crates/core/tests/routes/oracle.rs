//! Routes as they are meant, slowly: for each destination the distance of every node, hosts
//! included, and every next pipe that lowers it by its own length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use longhaul_core::{NodeId, PipeId, Topology};

/// The distance of a node from which no path leads to the destination.
const FAR: (u64, u32) = (u64::MAX, u32::MAX);

/// All next pipes from every node towards `to` over the pipes in force, by number.
pub(super) fn next_pipes(topology: &Topology, in_force: &[bool], to: NodeId) -> Vec<Vec<PipeId>> {
    let best = distances(topology, in_force, to);
    let nodes = (0..topology.nodes().len() as u32).map(NodeId);
    let next = nodes.map(|from| {
        let outgoing = topology.outgoing(from).iter().copied();
        let next = outgoing.filter(|&id| {
            let pipe = topology.pipe(id);
            let rest = best[pipe.to.index()];
            in_force[id.index()]
                && rest != FAR
                && (pipe.to == to || topology.node(pipe.to).kind.transits())
                && best[from.index()] == longer(rest, pipe.params.delay.as_ns())
        });
        next.collect()
    });
    next.collect()
}

/// (Delay, hops) of the shortest path from every node to `to`.
fn distances(topology: &Topology, in_force: &[bool], to: NodeId) -> Vec<(u64, u32)> {
    let mut best = vec![FAR; topology.nodes().len()];
    let mut open = BinaryHeap::from([Reverse(((0, 0), to))]);
    best[to.index()] = (0, 0);
    while let Some(Reverse((distance, node))) = open.pop() {
        let transits = node == to || topology.node(node).kind.transits();
        if distance != best[node.index()] || !transits {
            continue;
        }
        for (pipe, id) in topology.pipes().iter().zip(0..) {
            let candidate = longer(distance, pipe.params.delay.as_ns());
            let known = &mut best[pipe.from.index()];
            if pipe.to == node && in_force[PipeId(id).index()] && candidate < *known {
                *known = candidate;
                open.push(Reverse((candidate, pipe.from)));
            }
        }
    }
    best
}

fn longer((total, hops): (u64, u32), delay: u64) -> (u64, u32) {
    (total.saturating_add(delay), hops + 1)
}
