//! What every method must keep to, on any network.

mod common;

use common::walk::walk_all;
use common::{any_network, hosts, wire, wired};
use longhaul_core::{Span, Topology};
use longhaul_partition::conservative::Conservative;
use longhaul_partition::costs::Costs;
use longhaul_partition::flows::Flows;
use longhaul_partition::lookahead::least_delays;
use longhaul_partition::matrix::TrafficMatrix;
use longhaul_partition::predict::Prediction;
use longhaul_partition::problem::{Parts, Problem};
use longhaul_partition::{Method, Partition};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(17),
        ..ProptestConfig::default()
    }
}

/// A network with all-pairs traffic.
struct Known<'a> {
    topology: &'a Topology,
    delays: Vec<Span>,
    matrix: TrafficMatrix,
    flows: Flows,
    conservative: Option<Conservative>,
}

impl<'a> Known<'a> {
    fn new(topology: &'a Topology) -> Self {
        let matrix = TrafficMatrix::all_pairs(topology, &hosts(topology));
        Self {
            topology,
            delays: least_delays(topology),
            flows: Flows::expected(topology, &matrix, true),
            conservative: Conservative::of(topology, &hosts(topology)),
            matrix,
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            topology: self.topology,
            least_delays: &self.delays,
            flows: &self.flows,
            conservative: self.conservative.as_ref(),
            costs: Costs::THREADS,
        }
    }
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::ALL.to_vec())
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn every_node_has_one_owner_and_no_pipe_without_delay_is_cut(
        topology in any_network(), method in method(), cores in 1..12u16, seed in any::<u64>(),
    ) {
        let known = Known::new(&topology);
        let problem = Problem::by_node(&known.parts());
        let owner = method.split(&problem, cores, seed);
        prop_assert_eq!(owner.len(), topology.nodes().len());
        prop_assert!(owner.iter().all(|&core| core < cores));
        let partition = Partition { cores, owner };
        prop_assert_eq!(partition.check(&topology, &known.delays), Ok(()));
        let found = Prediction::by_node(&known.parts(), &partition);
        prop_assert!(found.look_ahead != Some(Span::ZERO));
        prop_assert_eq!(found.look_ahead.is_some(), found.cut_pipes > 0);
        prop_assert_eq!(&method.split(&problem, cores, seed), &partition.owner);
    }

    #[test]
    fn every_pipe_has_one_owner_and_none_without_delay_is_cut(
        topology in any_network(), method in method(), cores in 1..12u16, seed in any::<u64>(),
    ) {
        let known = Known::new(&topology);
        let problem = Problem::by_pipe(&known.parts()).expect("turns");
        let owner = method.split(&problem, cores, seed);
        prop_assert_eq!(owner.len(), topology.pipes().len());
        prop_assert!(owner.iter().all(|&core| core < cores));
        let found = Prediction::by_pipe(&known.parts(), cores, &owner).expect("turns");
        prop_assert!(found.look_ahead != Some(Span::ZERO));
        prop_assert_eq!(&method.split(&problem, cores, seed), &owner);
    }

    #[test]
    fn both_pipes_of_a_link_stay_together_by_link(
        topology in any_network(), method in method(), cores in 1..12u16, seed in any::<u64>(),
    ) {
        let known = Known::new(&topology);
        let problem = Problem::by_link(&known.parts()).expect("turns");
        let owner = method.split(&problem, cores, seed);
        for (pipe, core) in topology.pipes().iter().zip(&owner) {
            prop_assert_eq!(owner[pipe.back.index()], *core);
        }
        prop_assert!(owner.iter().all(|&core| core < cores));
        let found = Prediction::by_pipe(&known.parts(), cores, &owner).expect("turns");
        prop_assert!(found.look_ahead != Some(Span::ZERO));
    }

    #[test]
    fn predictions_are_what_a_walk_over_all_pairs_counts(
        topology in any_network(), cores in 1..6u16, seed in any::<u64>(),
    ) {
        let known = Known::new(&topology);
        let walked = walk_all(&topology, &known.matrix);
        let packets: f64 = walked.sent.iter().sum();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * (1.0 + b.abs());
        // Any core for anything: counts do not ask whether engines could run it.
        let core = |n: usize| (seed.rotate_left(n as u32 * 7) % u64::from(cores)) as u16;

        let owner: Vec<u16> = (0..topology.nodes().len()).map(core).collect();
        let cut = |pipe: &longhaul_core::topology::Pipe| {
            owner[pipe.from.index()] != owner[pipe.to.index()]
        };
        let pipes = topology.pipes().iter().zip(&walked.pipes);
        let crossings: f64 = pipes.filter(|(pipe, _)| cut(pipe)).map(|(_, packets)| packets).sum();
        let partition = Partition { cores, owner: owner.clone() };
        let found = Prediction::by_node(&known.parts(), &partition);
        prop_assert!(close(found.efficiency, packets / (packets + crossings)), "{found:?}");
        prop_assert_eq!(found.cut_pipes, topology.pipes().iter().filter(|pipe| cut(pipe)).count());
        let costs = Costs::THREADS;
        let hops: f64 = walked.pipes.iter().sum();
        let all = hops * costs.hop_ns + 2.0 * packets * costs.end_ns + crossings * costs.crossing_ns;
        prop_assert!(close(found.loads.iter().sum::<f64>(), all / 1e9));

        let owner: Vec<u16> = (0..topology.pipes().len()).map(core).collect();
        let turns = walked.turns.iter();
        let cut = turns.filter(|((from, to), _)| owner[from.index()] != owner[to.index()]);
        let crossings: f64 = cut.map(|(_, packets)| packets).sum();
        let found = Prediction::by_pipe(&known.parts(), cores, &owner).expect("turns");
        prop_assert!(close(found.efficiency, packets / (packets + crossings)), "{found:?}");
        let all = hops * costs.hop_ns + 2.0 * packets * costs.end_ns + crossings * costs.crossing_ns;
        prop_assert!(close(found.loads.iter().sum::<f64>(), all / 1e9));
    }
}

/// Three chains of routers with two hosts each, joined by nothing.
fn three_pieces() -> Topology {
    let mut wires = Vec::new();
    for piece in ["a", "b", "c"] {
        wires.push(wire(&format!("h{piece}0"), &format!("r{piece}0"), 10));
        wires.push(wire(&format!("r{piece}0"), &format!("r{piece}1"), 10));
        wires.push(wire(&format!("r{piece}1"), &format!("h{piece}1"), 10));
    }
    wired(&wires)
}

#[test]
fn pieces_that_nothing_joins_go_to_cores_of_their_own() {
    let topology = three_pieces();
    let known = Known::new(&topology);
    let problem = Problem::by_node(&known.parts());
    for method in [Method::Metis, Method::Best] {
        let owner = method.split(&problem, 3, 1);
        let found = Prediction::by_node(&known.parts(), &Partition { cores: 3, owner });
        assert_eq!((found.efficiency, found.cut_pipes), (1.0, 0), "{method:?}");
        assert!(found.max_load() < 1.01 * found.mean_load());
    }
}

#[test]
fn without_any_delay_all_is_on_one_core() {
    let wires = [
        wire("h0", "r0", 0),
        wire("r0", "r1", 0),
        wire("r1", "h1", 0),
    ];
    let topology = wired(&wires);
    let known = Known::new(&topology);
    for method in Method::ALL {
        let owner = method.split(&Problem::by_node(&known.parts()), 4, 1);
        assert!(owner.iter().all(|core| *core == owner[0]), "{method:?}");
    }
}

#[test]
fn one_link_and_many_cores_are_split_as_far_as_they_go() {
    let topology = wired(&[wire("h0", "h1", 5)]);
    let known = Known::new(&topology);
    for method in Method::ALL {
        let mut owner = method.split(&Problem::by_node(&known.parts()), 1024, 1);
        owner.sort_unstable();
        owner.dedup();
        assert_eq!(owner.len(), 2, "{method:?}");
    }
}

#[test]
fn without_hosts_pipes_count_alike() {
    let ring: Vec<_> = (0..12)
        .map(|n| wire(&format!("r{n}"), &format!("r{}", (n + 1) % 12), 5))
        .collect();
    let topology = wired(&ring);
    let known = Known::new(&topology);
    for method in Method::ALL {
        let owner = method.split(&Problem::by_node(&known.parts()), 4, 1);
        for core in 0..4 {
            let own = owner.iter().filter(|owner| **owner == core).count();
            assert!((2..=4).contains(&own), "{method:?}: {owner:?}");
        }
    }
}

/// Two sites of short links, joined by a long one; the traffic between them is heavier than that
/// at each of them, so without regard to look-ahead the cut would lie elsewhere.
#[test]
fn look_ahead_is_worth_a_few_crossings() {
    let mut wires = Vec::new();
    for site in ["a", "b"] {
        for n in 0..4 {
            wires.push(wire(&format!("h{site}{n}"), &format!("r{site}"), 1));
        }
    }
    wires.push(wire("ra", "rb", 10_000));
    let topology = wired(&wires);
    let known = Known::new(&topology);
    let owner = Method::Best.split(&Problem::by_node(&known.parts()), 2, 1);
    let found = Prediction::by_node(&known.parts(), &Partition { cores: 2, owner });
    assert_eq!(found.look_ahead, Some(Span::from_ms(10)));
    assert_eq!(found.cut_pipes, 2);
}
