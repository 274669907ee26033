//! The methods by which a network is split, by name.
//!
//! [`Random`] is the baseline, [`KCluster`] and [`Metis`] are the paper's methods, and [`Best`] minimises
//! the cost model of this engine.

mod best;
mod k_cluster;
mod metis;
mod random;
mod refine;

use crate::graph::Graph;
use crate::partition::Partitioner;
use crate::problem::Problem;

pub use best::Best;
pub use k_cluster::KCluster;
pub use metis::{Metis, Scheme};
pub use random::Random;
pub use refine::{Cost, Limits, refine};

/// A method by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Vertices in random order, as many pipes on each core as possible.
    Random,
    /// Connected parts of equal size, grown breadth first.
    KCluster,
    /// Multilevel recursive bisection by METIS.
    Metis,
    /// Many starts of METIS, refined, and weighed by the cost model.
    Best,
}

impl Method {
    /// All of them, the simplest first.
    pub const ALL: [Self; 4] = [Self::Random, Self::KCluster, Self::Metis, Self::Best];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::KCluster => "k-cluster",
            Self::Metis => "metis",
            Self::Best => "best",
        }
    }

    /// The method of a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// A core for each node of a problem by node, for each pipe of one by pipe.
    ///
    /// # Panics
    /// Where `cores` is 0.
    pub fn split(self, problem: &Problem, cores: u16, seed: u64) -> Vec<u16> {
        let part = match self {
            Self::Random => Random.split(&problem.expected, cores, seed),
            Self::KCluster => KCluster::default().split(&problem.expected, cores, seed),
            Self::Metis => Metis::default().split(problem.weights(), cores, seed),
            Self::Best => Best::default().solve(problem, cores, seed),
        };
        problem.groups.spread(&part)
    }
}

/// Draws for methods.
pub(crate) struct Draws(longhaul_core::rng::Stream);

impl Draws {
    pub(crate) fn new(seed: u64, method: &str) -> Self {
        let name = format!("partition {method}");
        Self(longhaul_core::rng::Stream::new(seed, &name))
    }

    /// Uniform in 0 … n−1 (n > 0). The bias of the multiplication is below n/2⁶⁴.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.draw()) * n as u128) >> 64) as usize
    }

    /// Puts a list into a random order (Fisher and Yates, Durstenfeld 1964).
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

/// The vertices of a graph in a random order.
fn any_order(graph: &Graph, draws: &mut Draws) -> Vec<u32> {
    let mut order: Vec<u32> = graph.vertices().collect();
    draws.shuffle(&mut order);
    order
}

/// The core with the least of something, the first of equals.
fn least<T: Ord + Copy>(of: &[T]) -> usize {
    let cores = (0..of.len()).min_by_key(|&core| of[core]);
    cores.expect("there is a core")
}
