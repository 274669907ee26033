//! The reference: vertices in a random order, each to the core with the fewest pipes so far.

use super::{Draws, any_order, least};
use crate::graph::Graph;
use crate::partition::Partitioner;

/// Any vertex on any core, as many pipes on each as can be.
#[derive(Debug, Clone, Copy)]
pub struct Random;

impl Partitioner for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn split(&self, graph: &Graph, cores: u16, seed: u64) -> Vec<u16> {
        let mut draws = Draws::new(seed, self.name());
        let mut sizes = vec![0u64; usize::from(cores)];
        let mut part = vec![0; graph.len()];
        for vertex in any_order(graph, &mut draws) {
            let core = least(&sizes);
            part[vertex as usize] = core as u16;
            sizes[core] += u64::from(graph.size(vertex).max(1));
        }
        part
    }
}
