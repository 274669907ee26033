//! Flows against a walk along every path of every pair.

mod common;

use common::walk::walk_all;
use common::{any_network, hosts, wire, wired};
use longhaul_core::{NodeId, Topology};
use longhaul_partition::flows::Flows;
use longhaul_partition::matrix::{self, Block, Pair, TrafficMatrix};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(31),
        ..ProptestConfig::default()
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

fn same(topology: &Topology, matrix: &TrafficMatrix) -> Result<(), TestCaseError> {
    let flows = Flows::expected(topology, matrix, true);
    let walked = walk_all(topology, matrix);
    let lists = [
        (&flows.pipes, &walked.pipes),
        (&flows.sent, &walked.sent),
        (&flows.received, &walked.received),
    ];
    for (number, (ours, theirs)) in lists.iter().enumerate() {
        for (place, (a, b)) in ours.iter().zip(theirs.iter()).enumerate() {
            prop_assert!(close(*a, *b), "list {number} at {place}: {a}, walked {b}");
        }
    }
    let all: f64 = walked.sent.iter().sum();
    prop_assert!(close(flows.packets, all), "{} of {all}", flows.packets);
    let turns = flows.turns.expect("few enough");
    let positive = turns.iter().filter(|turn| turn.packets > 1e-12).count();
    let walked_turns = walked.turns.iter().filter(|(_, packets)| **packets > 1e-12);
    prop_assert_eq!(positive, walked_turns.count());
    for turn in turns {
        let theirs = walked.turns.get(&(turn.from, turn.to)).copied();
        prop_assert!(
            close(turn.packets, theirs.unwrap_or(0.0)),
            "{turn:?}, walked {theirs:?}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn all_pairs_are_what_a_walk_over_all_pairs_gives(topology in any_network()) {
        let matrix = TrafficMatrix::all_pairs(&topology, &hosts(&topology));
        same(&topology, &matrix)?;
    }

    #[test]
    fn blocks_and_pairs_are_what_a_walk_over_all_of_them_gives(
        topology in any_network(),
        roles in prop::collection::vec(0..4u8, 9),
        list in prop::collection::vec((0..9usize, 0..9usize, 0..5u32, 0..2u8), 0..12),
    ) {
        let all = hosts(&topology);
        let of = |bit: u8| -> Vec<(NodeId, f64)> {
            let chosen = all.iter().zip(&roles).filter(|(_, role)| *role & bit != 0);
            chosen.map(|(host, role)| (*host, 1.0 + f64::from(*role))).collect()
        };
        let pair = |&(from, to, packets, replies): &(usize, usize, u32, u8)| Pair {
            from: all[from % all.len()],
            to: all[to % all.len()],
            packets: 400.0 * f64::from(packets),
            replies: 0.5 * f64::from(replies),
        };
        let block = Block { from: of(1), to: of(2), replies: 0.5 };
        let matrix = TrafficMatrix { blocks: vec![block], pairs: list.iter().map(pair).collect() };
        same(&topology, &matrix)?;
    }
}

/// Two sites of two hosts, 100 Mbit/s each, with 10 Mbit/s in between.
fn two_sites() -> Topology {
    let mut wan = wire("r0", "r1", 5000);
    wan.rate = [10; 2];
    wired(&[
        wire("h0", "r0", 10),
        wire("h1", "r0", 10),
        wire("h2", "r1", 10),
        wire("h3", "r1", 10),
        wan,
    ])
}

#[test]
fn a_narrow_pipe_holds_its_flows_back_and_no_others() {
    let topology = two_sites();
    let matrix = TrafficMatrix::all_pairs(&topology, &hosts(&topology));
    let flows = Flows::expected(&topology, &matrix, false);
    let wan = topology.find_pipes("r0>r1#4")[0];
    let capacity = matrix::capacity(&topology.pipe(wan).params).unwrap();
    assert!(close(flows.pipes[wan.index()], capacity), "{flows:?}");
    // Each host sends a third of what its link carries to its neighbour.
    let up = topology.find_pipes("h0>r0#0")[0];
    let access = matrix::capacity(&topology.pipe(up).params).unwrap();
    assert!(close(
        flows.pipes[up.index()],
        access / 3.0 + capacity / 2.0
    ));
}

#[test]
fn without_narrow_pipes_each_host_sends_what_its_link_carries() {
    let topology = wired(&[wire("h0", "r", 1), wire("h1", "r", 1), wire("h2", "r", 1)]);
    let matrix = TrafficMatrix::all_pairs(&topology, &hosts(&topology));
    let flows = Flows::expected(&topology, &matrix, false);
    for (id, pipe) in topology.pipes().iter().enumerate() {
        let capacity = matrix::capacity(&pipe.params).unwrap();
        assert!(close(flows.pipes[id], capacity), "{}", pipe.name);
    }
}

#[test]
fn a_sample_of_destinations_stands_for_all() {
    // A ring of 60 routers with a host at each.
    let name = |n: usize| format!("r{n:02}");
    let mut wires: Vec<_> = (0..60)
        .map(|n| wire(&name(n), &name((n + 1) % 60), 100))
        .collect();
    wires.extend((0..60).map(|n| wire(&format!("h{n:02}"), &name(n), 1)));
    for wire in &mut wires {
        wire.rate = [0; 2];
    }
    let topology = wired(&wires);
    let matrix = TrafficMatrix::all_pairs(&topology, &hosts(&topology));
    let exact = Flows::expected(&topology, &matrix, true);
    let sample = Flows::bounded(&topology, &matrix, true, 20 * (60 + 120));
    assert_eq!(exact.sample, None);
    assert_eq!(sample.sample, Some((20, 60)));
    assert_eq!(sample.turns, None);
    assert!((sample.packets / exact.packets - 1.0).abs() < 0.01);
    for (pipe, (a, b)) in exact.pipes.iter().zip(&sample.pipes).enumerate() {
        assert!(
            (b / a - 1.0).abs() < 0.15,
            "{}: {a} {b}",
            topology.pipes()[pipe].name
        );
    }
}

/// A router that joins 60 others with two hosts each, with links that carry what is asked of them.
fn stubs() -> Topology {
    let mut wires = Vec::new();
    for n in 0..60 {
        let stub = format!("r{n:02}");
        let mut up = wire(&stub, "rcore", 100);
        up.rate = [300; 2];
        wires.push(up);
        for host in ["a", "b"] {
            wires.push(wire(&format!("h{n:02}{host}"), &stub, 1));
        }
    }
    wired(&wires)
}

fn assert_near(topology: &Topology, exact: &Flows, sample: &Flows, within: f64) {
    assert!(
        (sample.packets / exact.packets - 1.0).abs() < 0.01,
        "{}",
        sample.packets
    );
    for (pipe, (a, b)) in exact.pipes.iter().zip(&sample.pipes).enumerate() {
        let name = &topology.pipes()[pipe].name;
        assert!((b / a - 1.0).abs() < within, "{name}: {a} {b}");
    }
}

#[test]
fn a_sample_overloads_no_link_on_the_way_to_its_destinations() {
    let topology = stubs();
    let matrix = TrafficMatrix::all_pairs(&topology, &hosts(&topology));
    let exact = Flows::expected(&topology, &matrix, false);
    let sample = Flows::bounded(&topology, &matrix, false, 0);
    assert_eq!(sample.sample, Some((15, 60)));
    assert_near(&topology, &exact, &sample, 0.1);
}

#[test]
fn pairs_at_many_destinations_are_sampled_too() {
    // Every host to the one 37 places on: a permutation.
    let topology = stubs();
    let all = hosts(&topology);
    let pair = |n: usize| Pair {
        from: all[n],
        to: all[(n + 37) % all.len()],
        packets: 100.0,
        replies: 0.5,
    };
    let pairs = (0..all.len()).map(pair).collect();
    let matrix = TrafficMatrix {
        blocks: Vec::new(),
        pairs,
    };
    let exact = Flows::expected(&topology, &matrix, false);
    let sample = Flows::bounded(&topology, &matrix, false, 0);
    assert!(sample.sample.is_some());
    // Ends are exact; of links a fourth or so is known, and the others are as good as idle.
    let ends = sample.sent.iter().zip(&exact.sent);
    for (a, b) in ends.chain(sample.received.iter().zip(&exact.received)) {
        assert!(close(*a, *b), "{a} of {b}");
    }
    let inner = |flows: &Flows| -> f64 {
        let pipes = topology.pipes().iter().zip(&flows.pipes);
        pipes
            .filter(|(pipe, _)| !pipe.name.contains('h'))
            .map(|(_, packets)| packets)
            .sum()
    };
    assert!(
        (inner(&sample) / inner(&exact) - 1.0).abs() < 0.3,
        "{}",
        inner(&sample) / inner(&exact)
    );
}
