//! On how many cores a virtual run goes, and which of them has what.
//!
//! Theory: `longhaul-partition` predicts, from the flows of the experiment, how long the slowest core
//! takes for a second of it, the rounds in which cores wait for each other included. Of all numbers
//! of cores up to the one that was asked for, the run takes the one that is predicted to be fastest;
//! more than there are CPUs never are. Results do not depend on it.
//!
//! Left out: partitions that change during a run.

use std::sync::Arc;

use longhaul_core::parallel::{CoreId, Split};
use longhaul_partition::{Method, Partition};
use longhaul_plan::plan::Plan;

use super::Machine;
use crate::calibrate::MachineCosts;
use crate::partition::Network;
use crate::run::Cores;
use crate::run::ledger::Expected;

/// Partitions of more cores must be predicted to be faster by this factor to be worth a thread.
const GAIN: f64 = 1.05;

/// The split of a plan's network, what is expected of it where it has several cores, and what the user
/// should know about it.
pub(super) fn of(
    plan: &Plan,
    cores: &Cores,
    machine: &dyn Machine,
) -> (Split, Option<Expected>, Vec<String>) {
    let cpus = machine.cpus();
    let (partition, expected, notes) = match cores {
        Cores::UpTo(..=1) => {
            let whole = Split::whole(Arc::clone(&plan.topology));
            return (whole, None, Vec::new());
        }
        Cores::UpTo(most) => best(plan, *most, cpus, &machine.costs()),
        Cores::Given(partition) => {
            let costs = machine.costs();
            let expected = Expected {
                method: "saved",
                costs: costs.name(),
                prediction: Network::with_costs(plan, costs.costs()).predict(partition),
            };
            let notes = too_many(partition.cores, cpus);
            (partition.clone(), expected, notes)
        }
    };
    let owners = partition.owner.into_iter().map(CoreId).collect();
    let topology = Arc::clone(&plan.topology);
    let split = Split::new(topology, owners, usize::from(partition.cores));
    let expected = (partition.cores > 1).then_some(expected);
    (split, expected, notes)
}

fn too_many(cores: u16, cpus: usize) -> Vec<String> {
    let message = format!("{cores} threads share {cpus} CPUs: they wait for each other");
    if usize::from(cores) > cpus {
        vec![message]
    } else {
        Vec::new()
    }
}

/// The partition that is predicted to be fastest.
fn best(
    plan: &Plan,
    most: u16,
    cpus: usize,
    costs: &MachineCosts,
) -> (Partition, Expected, Vec<String>) {
    let network = Network::with_costs(plan, costs.costs());
    let limit = most.min(u16::try_from(cpus).unwrap_or(u16::MAX)).max(1);
    let mut notes = Vec::new();
    if limit < most {
        notes.push(format!(
            "{cpus} CPUs: the run takes {limit} threads, not {most}"
        ));
    }
    let mut best = Partition::single(plan.topology.nodes().len());
    let mut prediction = network.predict(&best);
    for cores in 2..=limit {
        let other = network.split(Method::Best, cores, plan.seed);
        let predicted = network.predict(&other);
        if predicted.cost * GAIN < prediction.cost {
            (best, prediction) = (other, predicted);
        }
    }
    if best.cores < limit {
        let cores = best.cores;
        notes.push(match cores {
            1 => format!("{limit} threads would not pay: the run takes one"),
            _ => format!("{limit} threads would not pay: the run takes {cores}"),
        });
        notes.extend(network.limits(limit));
    }
    let expected = Expected {
        method: Method::Best.name(),
        costs: costs.name(),
        prediction,
    };
    (best, expected, notes)
}
