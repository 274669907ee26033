//! The paper's conservative weights against its pseudocode, done path by path.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{any_network_of_trees, hosts, wire, wired};
use longhaul_core::route::Routes;
use longhaul_core::{NodeId, PipeId, Topology};
use longhaul_partition::conservative::Conservative;
use longhaul_partition::matrix;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Figure 6 as it stands, with the trees of receivers.
fn figure_6(topology: &Topology, clients: &[NodeId]) -> BTreeMap<(PipeId, PipeId), f64> {
    let rates = || {
        topology
            .pipes()
            .iter()
            .map(|pipe| matrix::capacity(&pipe.params))
    };
    let fastest = rates().flatten().fold(0.0, f64::max);
    let fallback = match fastest {
        0.0 => matrix::nominal_capacity(&topology.pipes()[0].params),
        fastest => fastest,
    };
    let bandwidth: Vec<f64> = rates().map(|rate| rate.unwrap_or(fallback)).collect();
    let mut routes = Routes::new(topology);
    let mut map = BTreeMap::new();
    for &to in clients {
        let others = clients.iter().filter(|&&from| from != to);
        let paths: Vec<_> = others
            .filter_map(|&from| routes.path(topology, from, to))
            .collect();
        let mut partial = vec![0.0; bandwidth.len()];
        for path in &paths {
            let narrowest = path
                .iter()
                .map(|pipe| bandwidth[pipe.index()])
                .reduce(f64::min);
            for pipe in path {
                let flow: &mut f64 = &mut partial[pipe.index()];
                *flow = flow.max(narrowest.unwrap());
            }
        }
        let pairs = paths
            .iter()
            .flat_map(|path| path.windows(2).map(|pair| (pair[0], pair[1])));
        let in_tree: BTreeSet<(PipeId, PipeId)> = pairs.collect();
        for (first, second) in in_tree {
            let bound = bandwidth[first.index()];
            let sum: &mut f64 = map.entry((first, second)).or_default();
            *sum += partial[first.index()].min(bound - *sum);
        }
    }
    map
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(6), ..ProptestConfig::default() })]

    #[test]
    fn weights_are_those_of_the_papers_pseudocode(topology in any_network_of_trees()) {
        let clients = hosts(&topology);
        let ours = Conservative::of(&topology, &clients).expect("few turns");
        let theirs = figure_6(&topology, &clients);
        prop_assert_eq!(ours.turns.len(), theirs.len());
        for turn in &ours.turns {
            let flow = theirs.get(&(turn.from, turn.to)).copied();
            let same = flow.is_some_and(|flow| (turn.packets - flow).abs() < 1e-6 * (1.0 + flow));
            prop_assert!(same, "{turn:?}, by the figure {flow:?}");
        }
    }
}

#[test]
fn a_shared_pipe_weighs_no_more_than_it_carries() {
    // Three slow clients behind one fast link to a fourth: 3 · 10 of 100 Mbit/s.
    let mut wires: Vec<_> = (0..3).map(|n| wire(&format!("h{n}"), "r0", 1)).collect();
    wires.iter_mut().for_each(|wire| wire.rate = [10; 2]);
    wires.extend([wire("r0", "r1", 1), wire("r1", "h3", 1)]);
    let topology = wired(&wires);
    let weights = Conservative::of(&topology, &hosts(&topology)).unwrap();
    let pipe = |name: &str| topology.find_pipes(name)[0];
    let unit = matrix::capacity(&topology.pipe(pipe("h0>r0#0")).params).unwrap();
    let of = |from: &str, to: &str| {
        let turn = weights
            .turns
            .iter()
            .find(|turn| (turn.from, turn.to) == (pipe(from), pipe(to)));
        turn.unwrap().packets / unit
    };
    // In the tree of h3 each client sends 10; trees of the clients have one sender, h3.
    assert!((of("h0>r0#0", "r0>r1#3") - 1.0).abs() < 1e-9);
    assert!((of("r0>r1#3", "r1>h3#4") - 1.0).abs() < 1e-9);
    assert!((of("h3>r1#4", "r1>r0#3") - 3.0).abs() < 1e-9);
}
