//! Chooses how many cores compute a virtual run, and which core owns which nodes.
//!
//! Theory: `longhaul-partition` predicts, from the flows of the experiment, how long the slowest core
//! takes for a second of it, the rounds in which cores wait for each other included. Of the numbers of
//! cores up to the one that was asked for, the run takes the one that is predicted to be fastest
//! ([`fastest`]); more than there are CPUs never are. Results do not depend on it.
//!
//! Left out: partitions that change during a run.

use std::sync::Arc;

use longhaul_core::parallel::{CoreId, Split};
use longhaul_partition::predict::Prediction;
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
    let message =
        format!("{cores} threads share {cpus} CPUs, and will wait for each other: use fewer cores");
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
            "this machine has {cpus} CPUs: the run uses {limit} threads, not {most}"
        ));
    }
    let single = Partition::single(plan.topology.nodes().len());
    let prediction = network.predict(&single);
    let (best, prediction) = fastest(limit, (single, prediction), |cores| {
        let partition = network.split(Method::Best, cores, plan.seed);
        let prediction = network.predict(&partition);
        (partition, prediction)
    });
    if best.cores < limit {
        let cores = best.cores;
        notes.push(match cores {
            1 => format!("{limit} threads would not be faster than one: the run uses one"),
            _ => format!("{limit} threads would not be faster than {cores}: the run uses {cores}"),
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

/// A partition, and what it is expected to cost.
type Candidate = (Partition, Prediction);

/// The candidate that is predicted to be fastest, of those with up to `limit` cores that are
/// tried: doubled numbers until twice none was worth it, then halves of what is left between the best one
/// and the next. More cores divide the work further and add crossings and shorter windows, so that the
/// cost falls and then rises. A partition takes 0.2 to 0.7 s for the Internet-like graph of 4,000
/// nodes and 2 to 16 cores; all 16 would take longer than the run.
fn fastest(limit: u16, single: Candidate, mut split: impl FnMut(u16) -> Candidate) -> Candidate {
    let mut best = single;
    let mut is_better = |cores: u16, best: &mut Candidate| {
        let other = split(cores);
        let is_worth_it = other.1.cost * GAIN < best.1.cost;
        if is_worth_it {
            *best = other;
        }
        is_worth_it
    };
    // The number after which the best one's cost rises.
    let mut above = limit.saturating_add(1);
    let (mut cores, mut in_vain) = (1_u16, 0);
    while cores < limit && in_vain < 2 {
        cores = cores.saturating_mul(2).min(limit);
        if is_better(cores, &mut best) {
            (in_vain, above) = (0, limit.saturating_add(1));
        } else {
            in_vain += 1;
            above = above.min(cores);
        }
    }
    let mut below = best.0.cores;
    while above.saturating_sub(below) > 1 && below > 1 {
        let middle = below + (above - below) / 2;
        if is_better(middle, &mut best) {
            below = middle;
        } else {
            above = middle;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A partition of which only the number of cores matters.
    fn candidate(cores: u16, cost: f64) -> Candidate {
        let owner = Vec::new();
        let prediction = Prediction {
            efficiency: 1.0,
            loads: Vec::new(),
            cut_pipes: 0,
            look_ahead: None,
            cost,
        };
        (Partition { cores, owner }, prediction)
    }

    proptest! {
        /// Work that is divided, and a price for each core: a few candidates find nearly the best one.
        #[test]
        fn few_numbers_of_cores_are_tried(
            limit in 1_u16..=1024,
            work in 0.001_f64..1000.0,
            price in 0.0_f64..1.0,
        ) {
            let cost = |cores: u16| match cores {
                1 => work,
                more => work / f64::from(more) + price * f64::from(more),
            };
            let mut tried = 0;
            let (found, _) = fastest(limit, candidate(1, work), |cores| {
                assert!((2..=limit).contains(&cores));
                tried += 1;
                candidate(cores, cost(cores))
            });
            prop_assert!(tried <= 22, "{} tried", tried);
            let least = (1..=limit).map(cost).fold(f64::INFINITY, f64::min);
            // Each number that was passed over was less than GAIN better than one that was tried.
            prop_assert!(cost(found.cores) <= least * GAIN * GAIN, "{} cores", found.cores);
        }
    }

    #[test]
    fn one_number_that_does_not_pay_hides_no_better_one() {
        let cost = |cores: u16| [1.0, 1.1, 0.9, 0.5, 0.9, 0.9, 0.9, 0.9][usize::from(cores) - 1];
        let (found, _) = fastest(8, candidate(1, 1.0), |cores| candidate(cores, cost(cores)));
        assert_eq!(found.cores, 4);
        // Three clusters: neither two cores nor four share them evenly.
        let cost = |cores: u16| [1.0, 0.7, 0.4, 0.7, 0.7, 0.7, 0.7, 0.7][usize::from(cores) - 1];
        let (found, _) = fastest(8, candidate(1, 1.0), |cores| candidate(cores, cost(cores)));
        assert_eq!(found.cores, 3);
        let never = |cores| candidate(cores, 2.0);
        assert_eq!(fastest(1024, candidate(1, 1.0), never).0.cores, 1);
    }
}
