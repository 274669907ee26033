//! What lies between hosts: path delays and bottleneck rates, before anything has run.
//!
//! All pairs of a small network; of a large one a sample of hosts, evenly spread over the list,
//! so that a check takes a moment and not minutes.

use longhaul_core::route::Routes;
use longhaul_core::units::Rate;
use longhaul_core::{NodeId, PipeId, Span, Topology};

/// A full table is shown up to this many hosts.
pub(crate) const TABLE_HOSTS: usize = 16;
/// The most hosts between which paths are sought.
const SAMPLE_MAX: usize = 200;
/// Nodes and pipes that all searches together may visit.
const BUDGET: usize = 20_000_000;

/// The way from a host to another.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) pipes: Vec<PipeId>,
    /// The sum of the pipes' delays.
    pub(crate) delay: Span,
    /// The smallest rate; `None` is unlimited.
    pub(crate) rate: Option<Rate>,
}

/// The paths between a set of hosts.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The hosts, all or a sample.
    pub(crate) hosts: Vec<NodeId>,
    /// Whether they are all.
    pub(crate) complete: bool,
    /// Row by row, without those from a host to itself.
    pub(crate) list: Vec<Path>,
}

impl Paths {
    /// Finds the paths between `hosts`, or a sample of them.
    pub(crate) fn find(topology: &Topology, hosts: &[NodeId]) -> Self {
        let per_search = topology.nodes().len() + topology.pipes().len();
        let size = (BUDGET / per_search.max(1))
            .clamp(TABLE_HOSTS, SAMPLE_MAX)
            .min(hosts.len());
        let sample = (0..size).map(|index| hosts[index * hosts.len() / size]);
        let sample: Vec<NodeId> = sample.collect();
        let mut routes = Routes::new(topology);
        let pairs = sample
            .iter()
            .flat_map(|&from| sample.iter().map(move |&to| (from, to)));
        let list = pairs
            .filter(|(from, to)| from != to)
            .filter_map(|(from, to)| {
                let pipes = routes.path(topology, from, to)?;
                let params = |pipe: &PipeId| &topology.pipe(*pipe).params;
                let delay = pipes
                    .iter()
                    .map(params)
                    .fold(Span::ZERO, |sum, p| sum + p.delay);
                let rates = pipes.iter().filter_map(|pipe| params(pipe).rate);
                let rate = rates.min_by_key(|rate| rate.bits_per_s());
                Some(Path {
                    from,
                    to,
                    pipes,
                    delay,
                    rate,
                })
            })
            .collect();
        Self {
            complete: size == hosts.len(),
            hosts: sample,
            list,
        }
    }

    /// The smallest, the median and the largest of `key`, each with the path it belongs to.
    pub(crate) fn spread<K: Ord>(&self, key: impl Fn(&Path) -> K) -> Option<[&Path; 3]> {
        let mut sorted: Vec<&Path> = self.list.iter().collect();
        sorted.sort_by_key(|path| key(path));
        let last = sorted.len().checked_sub(1)?;
        Some([sorted[0], sorted[last / 2], sorted[last]])
    }

    /// The path of a pair.
    pub(crate) fn get(&self, from: NodeId, to: NodeId) -> Option<&Path> {
        self.list
            .iter()
            .find(|path| (path.from, path.to) == (from, to))
    }
}

/// For sorting: unlimited is the most.
pub(crate) fn bits(rate: Option<Rate>) -> u64 {
    rate.map_or(u64::MAX, Rate::bits_per_s)
}
