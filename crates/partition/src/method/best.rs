//! Minimises the cost of a run: few crossings, even loads and a long look-ahead, weighed against each
//! other by the cost model ([`crate::costs`]).
//!
//! **Look-ahead** comes from contraction: for a threshold, vertices joined by pipes of less delay become
//! one, so every partition of the rest has at least that look-ahead. Several thresholds are tried, from
//! none up to the highest that leaves enough vertices to split.
//!
//! **Search.** At each threshold METIS makes partitions from different seeds, once with the
//! expected weights and once with the conservative ones where there are any; each is refined by
//! Fiduccia-Mattheyses moves under limits of imbalance. The cheapest of all goes through V-cycles
//! (Walshaw 2004): it is coarsened again by random heavy matchings that respect it, and refined on
//! the scheme back; what is no better is dropped.
//!
//! **Bounds.** The number of tries follows the size of the graph, never a clock: the same graph
//! gives the same partition on a slower machine.

use super::refine::{Limits, refine, work_halves};
use super::{Draws, Metis, Scheme};
use crate::graph::{Graph, Groups};
use crate::partition::Partitioner;
use crate::problem::Problem;

mod cycle;

/// About how many edges all tries together may visit.
const BUDGET: usize = 60_000_000;
/// How far above the mean the work of a core may lie, in thousandths.
const IMBALANCES: [u64; 3] = [40, 90, 145];
/// Imbalance that costs little, in thousandths: just below 15 %, which is what is asked for.
const TOLERANCE: u64 = 148;
/// The most thresholds of look-ahead.
const THRESHOLDS: u32 = 8;
/// With more edges than this a start is refined once, not for each imbalance.
const MANY_EDGES: usize = 100_000;
/// Passes of a refinement.
const PASSES: u32 = 8;

/// Many starts, refined, and weighed by the cost model.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    /// Starts at each threshold.
    pub starts: u32,
    /// V-cycles of the cheapest partition.
    pub cycles: u32,
}

impl Default for Best {
    fn default() -> Self {
        Self {
            starts: 12,
            cycles: 40,
        }
    }
}

/// A partition and what it costs.
struct Found {
    part: Vec<u16>,
    cost: u64,
}

impl Best {
    /// A core for each vertex.
    pub fn solve(&self, problem: &Problem, cores: u16, seed: u64) -> Vec<u16> {
        let idle = idle(&problem.expected);
        let whole = Coarse {
            graph: problem.expected.contract(&idle),
            conservative: problem
                .conservative
                .as_ref()
                .map(|graph| graph.contract(&idle)),
            problem,
            cores,
        };
        if cores == 1 || whole.graph.len() <= usize::from(cores) {
            return Metis::default().split(&problem.expected, cores, seed);
        }
        let mut draws = Draws::new(seed, "best");
        let mut best: Option<(Found, Coarse<'_>, Groups)> = None;
        let count = self.bounded(THRESHOLDS, &whole.graph).max(2);
        for threshold in thresholds(&whole.graph, cores, count) {
            let groups = contraction(&whole.graph, threshold);
            let at = whole.contract(&groups);
            if best
                .as_ref()
                .is_some_and(|(found, ..)| at.least_cost() >= found.cost)
            {
                continue;
            }
            let found = self.start(&at, &mut draws);
            if best
                .as_ref()
                .is_none_or(|(known, ..)| found.cost < known.cost)
            {
                best = Some((found, at, groups));
            }
        }
        let Some((mut found, at, groups)) = best else {
            return Metis::default().split(&problem.expected, cores, seed);
        };
        for _ in 0..self.bounded(self.cycles, &at.graph).max(1) {
            let next = at.cycle(&found.part, &mut draws);
            if next.cost <= found.cost {
                found = next;
            }
        }
        idle.spread(&groups.spread(&found.part))
    }

    /// The cheapest of several starts.
    fn start(&self, at: &Coarse<'_>, draws: &mut Draws) -> Found {
        let starts = self.bounded(self.starts, &at.graph).max(2);
        let mut best: Option<Found> = None;
        for number in 0..starts {
            let cut = best.as_ref().map_or(0, |found| at.graph.cut(&found.part));
            let part = at.seeded(number, cut, draws.below(1 << 30) as u64);
            let found = at.refined(part);
            if best.as_ref().is_none_or(|known| found.cost < known.cost) {
                best = Some(found);
            }
        }
        best.unwrap_or_else(|| at.found(vec![0; at.graph.len()]))
    }

    /// How often something is done that looks at all edges some thirty times.
    fn bounded(&self, wanted: u32, graph: &Graph) -> u32 {
        let once = 30 * (graph.edges() + graph.len()).max(1);
        wanted.min((BUDGET / once) as u32)
    }
}

/// The problem at a threshold.
struct Coarse<'a> {
    problem: &'a Problem,
    graph: Graph,
    conservative: Option<Graph>,
    cores: u16,
}

impl Coarse<'_> {
    fn contract(&self, groups: &Groups) -> Self {
        Self {
            problem: self.problem,
            graph: self.graph.contract(groups),
            conservative: self
                .conservative
                .as_ref()
                .map(|graph| graph.contract(groups)),
            cores: self.cores,
        }
    }

    /// What no partition falls below: nothing is cut, and the heaviest vertex is all that its core
    /// has.
    fn least_cost(&self) -> u64 {
        let mean = self.graph.total() / u64::from(self.cores);
        let loads = self.graph.vertices().map(|vertex| self.graph.load(vertex));
        mean + imbalance_cost(mean, loads.max().unwrap_or(0))
    }

    /// A partition by METIS. By turns loads are those of vertices alone, loads with the part of
    /// their edges that is cut in the mean (what crosses is work too, and most of it is at hubs),
    /// and the paper's.
    fn seeded(&self, number: u32, cut: u64, seed: u64) -> Vec<u16> {
        let metis = Metis {
            imbalance: [30, 100][number as usize / 6 % 2],
            scheme: [Scheme::Bisection, Scheme::KWay][number as usize / 3 % 2],
            cuts: 1,
        };
        match (number % 3, &self.conservative) {
            (0, _) => metis.split(&self.graph, self.cores, seed),
            (1, Some(weights)) => metis.split(weights, self.cores, seed),
            _ => metis.split(&self.graph.with_crossings(cut), self.cores, seed),
        }
    }

    fn found(&self, part: Vec<u16>) -> Found {
        let work = work_halves(&self.graph, &part, self.cores);
        let mean = work.iter().sum::<u64>() / 2 / u64::from(self.cores);
        let most = work.into_iter().max().unwrap_or(0) / 2;
        let windows = self.problem.windows(self.graph.look_ahead(&part));
        Found {
            cost: mean + imbalance_cost(mean, most) + windows,
            part,
        }
    }

    /// The most work that a core may have, given what `part` cuts.
    fn limits(&self, part: &[u16], imbalance: u64) -> Limits {
        let all = self.graph.total() + self.graph.cut(part);
        let mean = all / u64::from(self.cores);
        Limits {
            most: mean + mean / 1000 * imbalance,
            passes: PASSES,
        }
    }

    /// The cheapest refinement of a partition.
    fn refined(&self, part: Vec<u16>) -> Found {
        let is_large = self.graph.edges() > MANY_EDGES;
        let tries = IMBALANCES.into_iter().skip(if is_large { 2 } else { 0 });
        let tries = tries.map(|imbalance| {
            let mut part = part.clone();
            let limits = self.limits(&part, imbalance);
            refine(&self.graph, &mut part, self.cores, limits);
            self.found(part)
        });
        let cheapest = tries.min_by_key(|found| found.cost);
        cheapest.unwrap_or_else(|| self.found(part))
    }

    /// The partition after a V-cycle.
    fn cycle(&self, part: &[u16], draws: &mut Draws) -> Found {
        let imbalance = IMBALANCES[draws.below(IMBALANCES.len())];
        let limits = self.limits(part, imbalance);
        let next = cycle::v_cycle(&self.graph, part, self.cores, limits, draws);
        self.found(next)
    }
}

/// What a core with more work than the mean costs. Expected work is a guess, so within the tolerance
/// the excess counts a tenth; beyond it ten times, so that it is left only where it has to be.
fn imbalance_cost(mean: u64, most: u64) -> u64 {
    let excess = most.saturating_sub(mean);
    let tolerated = excess.min(mean / 1000 * TOLERANCE);
    tolerated / 10 + 10 * (excess - tolerated)
}

/// Vertices without load and traffic, each with the neighbour behind its shortest edge; those
/// without any edge with each other. So few vertices are left, and short edges are not cut for
/// nothing. No two others come together: from each of them one step leads on.
fn idle(graph: &Graph) -> Groups {
    let is_idle = |vertex: u32| {
        graph.load(vertex) == 0 && graph.arcs(vertex).iter().all(|arc| arc.weight == 0)
    };
    let alone = graph
        .vertices()
        .find(|&vertex| is_idle(vertex) && graph.arcs(vertex).is_empty());
    let partner = |vertex: u32| {
        let nearest = graph
            .arcs(vertex)
            .iter()
            .min_by_key(|arc| (arc.delay, arc.peer));
        nearest.map(|arc| arc.peer).or(alone)
    };
    let pairs = graph.vertices().filter(|&vertex| is_idle(vertex));
    Groups::join(
        graph.len(),
        pairs.filter_map(|vertex| Some([vertex, partner(vertex)?])),
    )
}

/// Thresholds in nanoseconds, rising: none, and delays of edges as far as enough is left to be
/// split.
fn thresholds(graph: &Graph, cores: u16, most: u32) -> Vec<u64> {
    let mut delays: Vec<u64> = graph.each_edge().map(|(_, arc)| arc.delay).collect();
    delays.sort_unstable();
    delays.dedup();
    let mut list = vec![0];
    let step = delays.len().div_ceil(most as usize).max(1);
    for &delay in delays.iter().skip(1).step_by(step) {
        if contraction(graph, delay).count < usize::from(cores) {
            break;
        }
        list.push(delay);
    }
    list
}

/// All that edges of less delay join, as one.
fn contraction(graph: &Graph, threshold: u64) -> Groups {
    let short = graph.each_edge().filter(|(_, arc)| arc.delay < threshold);
    Groups::join(graph.len(), short.map(|(vertex, arc)| [vertex, arc.peer]))
}
