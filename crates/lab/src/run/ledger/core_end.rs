//! The totals of an emulation core, and of several together.
//!
//! A core owns pipes and works on every packet that crosses one of them. A packet begins at one
//! core (it enters from its host, or is made there), and each other core that it is handed to works
//! on it again. **Efficiency** is the share of that work which begins a packet: 1 where none is
//! handed over, and the less the more often packets change cores.

use std::time::Duration;

use longhaul_core::Span;
use longhaul_core::observe::Counters;
use longhaul_partition::predict::Prediction;

use super::Network;
use crate::summary::{CoreSummary, Load, PartitionSummary};

/// How a network was split, and what was expected of it.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// What made the partition.
    pub(crate) method: &'static str,
    /// By which costs it was weighed, by the name that `--costs` knows them by.
    pub(crate) costs: &'static str,
    pub(crate) prediction: Prediction,
}

/// What a core has done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    /// CPU time of its loop, waiting for other cores left out.
    pub(crate) cpu: Duration,
    /// How long it has been since t = 0: by the machine's clock, in virtual time by the experiment's.
    pub(crate) had: Duration,
    /// How many pipes it owns.
    pub(crate) pipes: usize,
    pub(crate) counters: &'a Counters,
}

impl Work<'_> {
    /// Packets that began at it.
    fn begun(&self) -> u64 {
        self.counters.entered + self.counters.created
    }

    /// Packets that it worked on.
    fn packets(&self) -> u64 {
        self.begun() + self.counters.imported
    }

    fn busy(&self) -> f64 {
        self.cpu.as_secs_f64() / self.had.as_secs_f64().max(1e-9)
    }

    /// The core in `summary.json`.
    pub(crate) fn summary(&self) -> CoreSummary {
        CoreSummary {
            pipes: self.pipes,
            packets: self.packets(),
            cross_core: self.counters.imported + self.counters.exported,
            busy: self.busy(),
        }
    }
}

/// Edge packets over all packets that several cores worked on.
pub(super) fn efficiency(cores: &[Work<'_>]) -> Option<f64> {
    let edge: u64 = cores.iter().map(Work::begun).sum();
    let all: u64 = cores.iter().map(Work::packets).sum();
    (cores.len() > 1 && all > 0).then(|| edge as f64 / all as f64)
}

/// What was predicted for a partition, and the totals of its cores.
pub(crate) fn partition(cores: &[Work<'_>], expected: &Expected) -> PartitionSummary {
    let prediction = &expected.prediction;
    let busy = cores.iter().map(Work::busy);
    PartitionSummary {
        method: expected.method.to_owned(),
        costs: expected.costs.to_owned(),
        cut_pipes: prediction.cut_pipes,
        lookahead_ns: prediction.look_ahead.map(Span::as_ns),
        predicted: Load {
            efficiency: prediction.efficiency,
            load_max: prediction.max_load(),
            load_mean: prediction.mean_load(),
        },
        measured: Load {
            efficiency: efficiency(cores).unwrap_or(1.0),
            load_max: busy.clone().fold(0.0, f64::max),
            load_mean: busy.sum::<f64>() / cores.len().max(1) as f64,
        },
        edge_packets: cores.iter().map(Work::begun).sum(),
        crossing_packets: cores.iter().map(|core| core.counters.imported).sum(),
    }
}

/// The totals of a core.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreEnd {
    /// CPU time of its loop.
    pub(crate) cpu: Duration,
    /// How long the run took: by the machine's clock, in virtual time by the experiment's.
    pub(crate) had: Duration,
    /// How many pipes it owns.
    pub(crate) pipes: usize,
    /// Its part of the network.
    pub(crate) network: Network,
}

impl CoreEnd {
    pub(super) fn work(&self) -> Work<'_> {
        Work {
            cpu: self.cpu,
            had: self.had,
            pipes: self.pipes,
            counters: &self.network.counters,
        }
    }
}

/// The whole network that cores have carried together.
pub(super) fn whole(cores: impl IntoIterator<Item = CoreEnd>) -> Network {
    let parts = cores.into_iter().map(|core| core.network);
    let sum = parts.reduce(|mut whole, part| {
        whole.merge(&part);
        whole
    });
    sum.unwrap_or_default()
}
