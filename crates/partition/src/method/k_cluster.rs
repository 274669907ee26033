//! The paper's k-cluster: k connected parts of equal size, grown breadth first, without regard to
//! weights. Of five tries the one with the least cut is kept.
//!
//! Every part starts at a random vertex; in each turn the smallest part takes the next vertex of
//! its breadth-first search. A part that finds no more starts again at a random vertex that is
//! left, so parts are connected only as far as the network lets them be.

use std::collections::VecDeque;

use super::{Draws, any_order, least};
use crate::graph::Graph;
use crate::partition::Partitioner;

/// Connected parts of equal size.
#[derive(Debug, Clone, Copy)]
pub struct KCluster {
    /// How often to try.
    pub tries: u32,
}

impl Default for KCluster {
    /// As in the paper.
    fn default() -> Self {
        Self { tries: 5 }
    }
}

impl Partitioner for KCluster {
    fn name(&self) -> &'static str {
        "k-cluster"
    }

    fn split(&self, graph: &Graph, cores: u16, seed: u64) -> Vec<u16> {
        let mut draws = Draws::new(seed, self.name());
        let tries = (0..self.tries.max(1)).map(|_| grow(graph, cores, &mut draws));
        let best = tries.min_by_key(|part| graph.cut(part));
        best.unwrap_or_default()
    }
}

/// One try.
fn grow(graph: &Graph, cores: u16, draws: &mut Draws) -> Vec<u16> {
    const FREE: u16 = u16::MAX;
    let cores = usize::from(cores);
    let mut part = vec![FREE; graph.len()];
    let mut sizes = vec![0u64; cores];
    let mut frontiers = vec![VecDeque::new(); cores];
    let mut starts = any_order(graph, draws).into_iter();
    for _ in 0..graph.len() {
        let core = least(&sizes);
        let frontier = &mut frontiers[core];
        let is_free = |vertex: &u32| part[*vertex as usize] == FREE;
        let next = loop {
            match frontier.pop_front() {
                Some(vertex) if is_free(&vertex) => break Some(vertex),
                Some(_) => {}
                None => break starts.find(is_free),
            }
        };
        // There are as many vertices as turns.
        let Some(vertex) = next else { break };
        part[vertex as usize] = core as u16;
        sizes[core] += u64::from(graph.size(vertex).max(1));
        let peers = graph.arcs(vertex).iter().map(|arc| arc.peer);
        frontier.extend(peers.filter(|peer| part[*peer as usize] == FREE));
    }
    part
}
