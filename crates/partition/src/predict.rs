//! What a partition is expected to cost, before anything runs.
//!
//! *Efficiency* is the paper's: packets that enter from programs, over all that cores take in,
//! those from other cores included; 1 where nothing crosses. Loads are shares of a core's time
//! ([`crate::costs`]).
//!
//! Left out: what waiting and caches add; a run measures that.

use longhaul_core::Span;

use crate::Partition;
use crate::costs::Costs;
use crate::flows::Flows;
use crate::problem::{Parts, node_work, pipe_work};

/// The expected figures of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Edge packets over all packets, above 0 to 1.
    pub efficiency: f64,
    /// By core: its time for a second of experiment, in seconds.
    pub loads: Vec<f64>,
    /// Pipes whose packets go to another core.
    pub cut_pipes: usize,
    /// The least delay of these; `None` where there is none.
    pub look_ahead: Option<Span>,
    /// The time that the slowest core takes for a second of experiment, windows included.
    pub cost: f64,
}

impl Prediction {
    /// Each node on the core that owns it, its pipes with it; a packet crosses where a pipe leads
    /// to another core's node.
    ///
    /// # Panics
    /// Where the partition is not of this topology.
    pub fn by_node(parts: &Parts<'_>, partition: &Partition) -> Self {
        let work = node_work(parts.topology, parts.flows, &parts.costs);
        let mut sums = Sums::new(partition.cores, parts.flows);
        for (owner, work) in partition.owner.iter().zip(work) {
            sums.loads[usize::from(*owner)] += work;
        }
        for (id, pipe) in parts.topology.pipes().iter().enumerate() {
            let (from, to) = (partition.of(pipe.from), partition.of(pipe.to));
            if from != to {
                sums.cross(from, to, parts.flows.pipes[id], &parts.costs);
                sums.cut(parts.least_delays[id]);
            }
        }
        sums.finish(&parts.costs)
    }

    /// Each pipe on a core of its own choice, by number; a packet crosses where it turns into
    /// another core's pipe. `None` where turns are not listed.
    pub fn by_pipe(parts: &Parts<'_>, cores: u16, owner: &[u16]) -> Option<Self> {
        let turns = parts.flows.turns.as_ref()?;
        let work = pipe_work(parts.topology, parts.flows, &parts.costs);
        let mut sums = Sums::new(cores, parts.flows);
        for (owner, work) in owner.iter().zip(work) {
            sums.loads[usize::from(*owner)] += work;
        }
        let mut is_cut = vec![false; parts.topology.pipes().len()];
        for turn in turns {
            let (from, to) = (owner[turn.from.index()], owner[turn.to.index()]);
            if from != to {
                sums.cross(from, to, turn.packets, &parts.costs);
                is_cut[turn.from.index()] = true;
            }
        }
        for (least, _) in parts
            .least_delays
            .iter()
            .zip(is_cut)
            .filter(|(_, cut)| *cut)
        {
            sums.cut(*least);
        }
        Some(sums.finish(&parts.costs))
    }

    /// The load of the busiest core.
    pub fn max_load(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }

    /// The load of a core in the mean.
    pub fn mean_load(&self) -> f64 {
        self.loads.iter().sum::<f64>() / self.loads.len().max(1) as f64
    }
}

/// Sums over cut pipes.
struct Sums {
    packets: f64,
    crossings: f64,
    loads: Vec<f64>,
    cut_pipes: usize,
    look_ahead: Option<Span>,
}

impl Sums {
    fn new(cores: u16, flows: &Flows) -> Self {
        Self {
            packets: flows.packets,
            crossings: 0.0,
            loads: vec![0.0; usize::from(cores)],
            cut_pipes: 0,
            look_ahead: None,
        }
    }

    fn cross(&mut self, from: u16, to: u16, packets: f64, costs: &Costs) {
        self.crossings += packets;
        for core in [from, to] {
            self.loads[usize::from(core)] += packets * costs.crossing_ns / 2.0;
        }
    }

    fn cut(&mut self, least: Span) {
        self.cut_pipes += 1;
        self.look_ahead = Some(self.look_ahead.map_or(least, |known| known.min(least)));
    }

    fn finish(self, costs: &Costs) -> Prediction {
        let all = self.packets + self.crossings;
        let loads: Vec<f64> = self.loads.iter().map(|load| load / 1e9).collect();
        let max = loads.iter().copied().fold(0.0, f64::max);
        Prediction {
            efficiency: if all > 0.0 { self.packets / all } else { 1.0 },
            cost: max + costs.windows(self.look_ahead) / 1e9,
            loads,
            cut_pipes: self.cut_pipes,
            look_ahead: self.look_ahead,
        }
    }
}
