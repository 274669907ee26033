//! METIS (Karypis and Kumar 1998): multilevel partitioning, by the crate `metis`.
//!
//! Heavy-edge matching makes the graph coarser, a small graph is split by growing, and
//! Kernighan-Lin moves refine on the scheme back. METIS counts in 32
//! bits, so weights are scaled down, none to nothing.
//!
//! **The same everywhere.** METIS keeps its random numbers in global variables: calls take turns.
//! It is built with its own generator instead of libc's (`.cargo/config.toml`); a test holds a
//! committed result.
//!
//! METIS is not given what it is not made for: fewer vertices than parts, or no edges.

use std::sync::{Mutex, PoisonError};

use metis::option::{NCuts, Seed, UFactor};

use super::least;
use crate::graph::Graph;
use crate::partition::Partitioner;

/// What all weights of a kind sum to at most.
const MAX_WEIGHT_SUM: u64 = 1 << 29;

/// Calls of METIS take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Multilevel partitioning.
#[derive(Debug, Clone, Copy)]
pub struct Metis {
    /// By how much parts may be larger than the mean, in thousandths.
    pub imbalance: u16,
    /// How the graph is split.
    pub scheme: Scheme,
    /// How many partitions METIS makes of each kind, to keep the one with the least cut.
    pub cuts: u16,
}

/// How METIS splits a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Into halves, these into halves, and so on.
    Bisection,
    /// Into all parts at once.
    KWay,
    /// Both; what keeps to the imbalance counts, and of two such the one with less cut.
    Either,
}

impl Metis {
    /// The paper's: one partition by recursive bisection, within METIS's usual 3 %.
    pub const PAPER: Self = Self {
        imbalance: 30,
        scheme: Scheme::Bisection,
        cuts: 1,
    };
}

impl Default for Metis {
    /// As well as METIS can with the imbalance that the others may have: the best of twenty.
    fn default() -> Self {
        Self {
            imbalance: 100,
            scheme: Scheme::Either,
            cuts: 10,
        }
    }
}

impl Partitioner for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }

    fn split(&self, graph: &Graph, cores: u16, seed: u64) -> Vec<u16> {
        let is_trivial = graph.len() <= usize::from(cores) || graph.edges() == 0;
        if cores == 1 {
            return vec![0; graph.len()];
        }
        if is_trivial {
            return largest_first(graph, cores);
        }
        let ways = match self.scheme {
            Scheme::Either => &[Scheme::KWay, Scheme::Bisection][..],
            Scheme::Bisection => &[Scheme::Bisection],
            Scheme::KWay => &[Scheme::KWay],
        };
        let found = ways
            .iter()
            .filter_map(|&scheme| self.call(graph, cores, seed, scheme));
        let mean = graph.total() / u64::from(cores);
        let most = mean + mean / 1000 * u64::from(self.imbalance);
        // METIS may exceed what it is allowed; halves of halves do so more often.
        let excess = |part: &[u16]| -> u64 {
            let loads = graph.loads(part, cores).into_iter();
            loads.map(|load| load.saturating_sub(most)).sum()
        };
        let least = found.min_by_key(|part| (excess(part), graph.cut(part)));
        least.unwrap_or_else(|| largest_first(graph, cores))
    }
}

impl Metis {
    fn call(&self, graph: &Graph, cores: u16, seed: u64, scheme: Scheme) -> Option<Vec<u16>> {
        let fits = |count: usize| i32::try_from(count).ok();
        fits(2 * graph.edges() + graph.len())?;
        let mut starts: Vec<i32> = vec![0];
        let (mut peers, mut weights) = (Vec::new(), Vec::new());
        let sum: u64 = graph.each_edge().map(|(_, arc)| arc.weight).sum();
        for vertex in graph.vertices() {
            for arc in graph.arcs(vertex) {
                peers.push(arc.peer as i32);
                // METIS wants every edge to weigh something.
                weights.push(scaled(arc.weight, 2 * sum).max(1));
            }
            starts.push(fits(peers.len())?);
        }
        let total = graph.total();
        let load = |vertex| match total {
            0 => 1,
            total => scaled(graph.load(vertex), total),
        };
        let loads: Vec<i32> = graph.vertices().map(load).collect();
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let call = metis::Graph::new(1, i32::from(cores), &starts, &peers)
            .ok()?
            .set_vwgt(&loads)
            .set_adjwgt(&weights)
            .set_option(UFactor(i32::from(self.imbalance.max(1))))
            .set_option(NCuts(i32::from(self.cuts.max(1))))
            // Neighbouring seeds give unrelated partitions; -1 is METIS's default.
            .set_option(Seed((seed & 0x3fff_ffff) as i32));
        let mut part = vec![0; graph.len()];
        let done = match scheme {
            Scheme::Bisection => call.part_recursive(&mut part),
            Scheme::KWay | Scheme::Either => call.part_kway(&mut part),
        };
        done.ok()?;
        let core = |part: i32| u16::try_from(part).ok().filter(|&core| core < cores);
        part.into_iter().map(core).collect()
    }
}

/// A weight as a part of [`MAX_WEIGHT_SUM`], where all of them sum to `sum`; at least 1 if it is not 0.
fn scaled(weight: u64, sum: u64) -> i32 {
    let part = u128::from(weight) * u128::from(MAX_WEIGHT_SUM) / u128::from(sum.max(1));
    (part as i32).max(i32::from(weight > 0))
}

/// The heaviest vertex first, each to the core with the least load so far (Graham 1969).
pub(super) fn largest_first(graph: &Graph, cores: u16) -> Vec<u16> {
    let mut order: Vec<u32> = graph.vertices().collect();
    order.sort_by_key(|&vertex| std::cmp::Reverse(graph.load(vertex)));
    // Vertices without load are dealt out by number.
    let mut loads = vec![(0u64, 0u32); usize::from(cores)];
    let mut part = vec![0; graph.len()];
    for vertex in order {
        let core = least(&loads);
        part[vertex as usize] = core as u16;
        loads[core].0 += graph.load(vertex);
        loads[core].1 += 1;
    }
    part
}
