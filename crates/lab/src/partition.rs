//! Partitions of a plan's network: what the plan says of its traffic and delays, for
//! `longhaul-partition`.
//!
//! [`expected_traffic`] makes the matrix. Delays count with the least value that events of the file bring
//! them to, so that no cut is ever closer than the partition's look-ahead.
//!
//! Left out: changes by command during a run; a run on several cores refuses those that would
//! make a delay shorter than the look-ahead.

pub mod expected_traffic;

use longhaul_core::{Span, Topology};
use longhaul_partition::conservative::Conservative;
use longhaul_partition::costs::Costs;
use longhaul_partition::flows::Flows;
use longhaul_partition::predict::Prediction;
use longhaul_partition::problem::{Parts, Problem};
use longhaul_partition::{Method, Partition};
use longhaul_plan::plan::Plan;

use expected_traffic::ExpectedTraffic;

/// What a network is weighed by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighing {
    /// What work costs.
    pub costs: Costs,
    /// METIS is given the paper's conservative weights even where traffic is known: as if it were
    /// not, though predictions know it.
    pub conservative: bool,
}

impl Default for Weighing {
    /// As runs on threads are split where the machine is not calibrated.
    fn default() -> Self {
        Self {
            costs: Costs::THREADS,
            conservative: false,
        }
    }
}

/// What is assigned to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Nodes with all pipes that leave them, as runs do.
    Node,
    /// Links with both their pipes, as in the paper. Nodes can be split too.
    Link,
    /// Single pipes. Nodes can be split too.
    Pipe,
}

/// A plan's network, ready to be split.
#[derive(Debug, Clone)]
pub struct Network<'a> {
    topology: &'a Topology,
    least_delays: Vec<Span>,
    flows: Flows,
    conservative: Option<Conservative>,
    by_node: Problem,
    by_pipe: Option<Problem>,
    costs: Costs,
    /// What was assumed, as sentences for the user.
    pub notes: Vec<String>,
}

impl<'a> Network<'a> {
    /// The network of a plan, ready to be split as a run is.
    pub fn of(plan: &'a Plan) -> Self {
        Self::weighed(plan, By::Node, Weighing::default())
    }

    /// The network of a plan, ready to be split for a run whose work has these costs.
    pub fn with_costs(plan: &'a Plan, costs: Costs) -> Self {
        let weighing = Weighing {
            costs,
            ..Weighing::default()
        };
        Self::weighed(plan, By::Node, weighing)
    }

    /// The network of a plan, weighed otherwise, and ready to be split otherwise too.
    pub fn weighed(plan: &'a Plan, by: By, weighing: Weighing) -> Self {
        let topology = &*plan.topology;
        let ExpectedTraffic {
            matrix,
            mut unknown,
            mut notes,
        } = ExpectedTraffic::of(plan);
        if weighing.conservative {
            unknown = plan.hosts.iter().map(|host| host.node).collect();
        }
        let least_delays = plan.schedule.least_delays(topology);
        let flows = Flows::expected(topology, &matrix, by != By::Node);
        if let Some((sample, all)) = flows.sample {
            notes.push(format!(
                "expected traffic is based on a sample of {sample} of {all} destinations"
            ));
        }
        let conservative = (!unknown.is_empty())
            .then(|| Conservative::of(topology, &unknown))
            .flatten();
        let parts = Parts {
            topology,
            least_delays: &least_delays,
            flows: &flows,
            conservative: conservative.as_ref(),
            costs: weighing.costs,
        };
        let by_node = Problem::by_node(&parts);
        let by_pipe = match by {
            By::Node => None,
            By::Link => Problem::by_link(&parts),
            By::Pipe => Problem::by_pipe(&parts),
        };
        if weighing.conservative && conservative.is_none() {
            notes.push(
                "this network is too large for the paper's weights: expected traffic is used \
                 instead"
                    .to_owned(),
            );
        }
        Self {
            topology,
            costs: weighing.costs,
            by_node,
            by_pipe,
            least_delays,
            flows,
            conservative,
            notes,
        }
    }

    /// By pipe: the least delay that it ever has.
    pub fn least_delays(&self) -> &[Span] {
        &self.least_delays
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            topology: self.topology,
            least_delays: &self.least_delays,
            flows: &self.flows,
            conservative: self.conservative.as_ref(),
            costs: self.costs,
        }
    }

    /// A partition by nodes.
    pub fn split(&self, method: Method, cores: u16, seed: u64) -> Partition {
        Partition {
            cores,
            owner: method.split(&self.by_node, cores, seed),
        }
    }

    /// What a partition is expected to cost.
    pub fn predict(&self, partition: &Partition) -> Prediction {
        Prediction::by_node(&self.parts(), partition)
    }

    /// A core for each pipe; `None` by nodes, and where the network has too many pairs of
    /// neighbouring pipes.
    pub fn split_pipes(&self, method: Method, cores: u16, seed: u64) -> Option<Vec<u16>> {
        let problem = self.by_pipe.as_ref()?;
        Some(method.split(problem, cores, seed))
    }

    /// What cores of pipes are expected to cost.
    pub fn predict_pipes(&self, cores: u16, owner: &[u16]) -> Option<Prediction> {
        Prediction::by_pipe(&self.parts(), cores, owner)
    }

    /// Why a split over this many cores cannot be what was asked for, as sentences for the user.
    pub fn limits(&self, cores: u16) -> Vec<String> {
        let mut notes = Vec::new();
        let (nodes, groups) = (self.topology.nodes().len(), self.by_node.groups.count);
        let instant = self
            .least_delays
            .iter()
            .filter(|least| **least == Span::ZERO);
        let instant = instant.count();
        if groups == 1 && nodes > 1 {
            notes.push(format!(
                "all {nodes} nodes are joined by pipes that may have no delay, so they stay on one core"
            ));
        } else if groups < nodes {
            notes.push(format!(
                "{instant} pipes may have no delay, and the nodes that they join stay together: \
                 {nodes} nodes make {groups} parts"
            ));
        }
        if groups > 1 && groups < usize::from(cores) || nodes == 1 && cores > 1 {
            notes.push(format!(
                "only {groups} of {cores} cores are used: the network cannot be split further"
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
