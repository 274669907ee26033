//! Plans as partition problems.

use longhaul_core::PipeId;
use longhaul_partition::matrix::{receives, sends};

use super::*;

fn plan(text: &str) -> Plan {
    Plan::from_text(text, "p.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Two sites of two hosts; `more` is what the file says besides.
fn sites(more: &str) -> Plan {
    plan(&format!(
        "name: p\nduration: 10 s\ntopology:\n  nodes: {{ a: {{ count: 2 }}, b: {{ count: 2 }}, g: {{ kind: router }}, h: {{ kind: router }} }}\n  \
         links:\n    - {{ ends: [a, g], rate: 100 Mbit/s, delay: 1 ms }}\n    \
         - {{ ends: [g, h], rate: 1 Gbit/s, delay: 10 ms }}\n    \
         - {{ ends: [h, b], rate: 100 Mbit/s, delay: 1 ms }}\n{more}"
    ))
}

fn node(plan: &Plan, name: &str) -> longhaul_core::NodeId {
    plan.topology.find(name).expect("a node")
}

fn pipe(plan: &Plan, name: &str) -> PipeId {
    plan.find_pipes(name).expect("a pipe")[0]
}

/// Packets per second into a pipe.
fn flow(plan: &Plan, name: &str) -> f64 {
    let matrix = ExpectedTraffic::of(plan).matrix;
    Flows::expected(&plan.topology, &matrix, false).pipes[pipe(plan, name).index()]
}

fn assert_close(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{value}, not {expected}"
    );
}

#[test]
fn without_programs_and_traffic_all_hosts_talk() {
    let plan = sites("");
    let expected = ExpectedTraffic::of(&plan);
    assert_eq!(expected.unknown.len(), 4);
    assert_eq!(expected.notes.len(), 1);
    // Each host sends what its link carries, two thirds of it to the other site.
    let link = sends(&plan.topology, node(&plan, "a0"));
    assert_close(flow(&plan, "g>h"), 2.0 * link * 2.0 / 3.0);
}

#[test]
fn hosts_with_programs_talk_to_each_other_only() {
    let plan = sites("programs: { p: { on: a0, run: x }, q: { on: b1, run: x } }\n");
    assert_eq!(ExpectedTraffic::of(&plan).unknown.len(), 2);
    assert_eq!(flow(&plan, "a1>g"), 0.0);
    assert_close(
        flow(&plan, "a0>g"),
        sends(&plan.topology, node(&plan, "a0")),
    );
    // One program alone says nothing about its partners.
    let alone = sites("programs: { p: { on: a0, run: x } }\n");
    assert_eq!(ExpectedTraffic::of(&alone).unknown.len(), 4);
}

#[test]
fn declared_flows_count_with_their_packets_over_the_run() {
    // 10 MB in segments of 1448 or 1460 bytes over 10 s, and every other one is answered.
    let plan = sites("traffic: { t: { from: a0, to: b0, bytes: 10 MB } }\n");
    let there = flow(&plan, "g>h");
    assert!((680.0..700.0).contains(&there), "{there}");
    assert_close(flow(&plan, "h>g"), there / 2.0);
    assert!(ExpectedTraffic::of(&plan).unknown.is_empty());

    // 1 Mbit/s in datagrams of 1250 bytes during half of the run.
    let paced = sites(
        "traffic: { t: { from: a0, to: b0, model: udp, rate: 1 Mbit/s, packet: 1250 B, start: 5 s } }\n",
    );
    assert_close(flow(&paced, "g>h"), 50.0);
    assert_eq!(flow(&paced, "h>g"), 0.0);

    // Three flows of each of four pairs.
    let many = sites(
        "traffic: { t: { from: a, to: b, pattern: all-to-all, flows: 3, model: udp, rate: 1 Mbit/s, packet: 1250 B } }\n",
    );
    assert_close(flow(&many, "g>h"), 1200.0);
}

#[test]
fn transfers_without_end_are_as_fast_as_links() {
    let plan = sites("traffic: { t: { from: a0, to: b0 } }\n");
    let link = sends(&plan.topology, node(&plan, "a0"));
    assert_close(flow(&plan, "g>h"), link);
    // Two that end at one host share its link.
    let both = sites("traffic: { t: { from: a0, to: b0 }, u: { from: a1, to: b0 } }\n");
    assert_close(
        flow(&both, "g>h"),
        receives(&both.topology, node(&both, "b0")),
    );
}

#[test]
fn answers_go_the_other_way() {
    // 100 exchanges of one segment and ten.
    let plan = sites(
        "traffic: { t: { from: a0, to: b0, request: 100 B, response: 14 kB, requests: 100, think: 1 ms } }\n",
    );
    assert_close(flow(&plan, "a0>g"), 10.0 * (1.0 + 5.0));
    assert_close(flow(&plan, "g>a0"), 10.0 * (10.0 + 0.5));
}

#[test]
fn events_that_shorten_a_delay_count() {
    let plan = sites(
        "events: [ { at: 1 s, link: g-h, set: { delay: 2 ms } }, { at: 2 s, link: a0-g, set: { delay: 0 s } } ]\n",
    );
    let network = Network::of(&plan);
    let least = |name| network.least_delays()[pipe(&plan, name).index()];
    assert_eq!(least("g>h"), Span::from_ms(2));
    assert_eq!(least("a0>g"), Span::ZERO);
    assert_eq!(least("a1>g"), Span::from_ms(1));
    let partition = network.split(Method::Random, 4, 1);
    assert_eq!(
        partition.of(node(&plan, "a0")),
        partition.of(node(&plan, "g"))
    );
    assert_eq!(network.limits(4).len(), 1);
}

#[test]
fn what_cannot_be_split_is_said() {
    let joined =
        plan("name: p\ntopology:\n  nodes: { a: {}, b: {} }\n  links: [ { ends: [a, b] } ]\n");
    let notes = Network::of(&joined).limits(2);
    assert!(
        notes.len() == 1 && notes[0].contains("stay on one core"),
        "{notes:?}"
    );
    let small = plan(
        "name: p\ntopology:\n  nodes: { a: {}, b: {} }\n  links: [ { ends: [a, b], delay: 1 ms } ]\n",
    );
    let notes = Network::of(&small).limits(5);
    assert!(
        notes.len() == 1 && notes[0].starts_with("only 2 of 5 cores"),
        "{notes:?}"
    );
    assert!(Network::of(&small).limits(2).is_empty());
}

#[test]
fn conservative_weights_stand_for_traffic_that_is_known() {
    let network = "name: p\nduration: 10 s\ntopology: { generate: { kind: tree, trees: 3, degree: 2, height: 3, access_rate: 3 Mbit/s } }\n";
    let blind = plan(network);
    // Pairs across trees, and nothing within them.
    let traffic =
        "traffic: { t: { from: [h0, h1, h2, h3], to: [h8, h9, h16, h17], bytes: 1 GB } }\n";
    let known = plan(&format!("{network}{traffic}"));
    let conservative = Weighing {
        conservative: true,
        ..Weighing::default()
    };
    let split = |network: Network<'_>| network.split(Method::Metis, 3, 1).owner;
    let as_if_blind = split(Network::weighed(&known, By::Node, conservative));
    assert_eq!(as_if_blind, split(Network::of(&blind)));
    assert_ne!(as_if_blind, split(Network::of(&known)));
}

#[test]
fn loads_follow_the_costs_of_the_machine() {
    // 100 datagrams a second over two pipes, each sent and received.
    let text = "name: p\nduration: 10 s\n\
         topology:\n  nodes: { a: {}, r: { kind: router }, b: {} }\n  links: [ { ends: [a, r], delay: 1 ms }, { ends: [r, b], delay: 1 ms } ]\n\
         traffic: { t: { from: a, to: b, model: udp, rate: 1.2 Mbit/s, packet: 1472 B } }\n";
    let plan = plan(text);
    let load = |costs| {
        let weighing = Weighing {
            costs,
            ..Weighing::default()
        };
        let network = Network::weighed(&plan, By::Node, weighing);
        let packets = flow(&plan, "a>r");
        assert!(packets > 90.0, "{packets}");
        network.predict(&Partition::single(3)).max_load() / packets
    };
    assert_close(load(Costs::PAPER) * 1e9, 2.0 * 500.0 + 2.0 * 4_000.0);
    assert_close(load(Costs::THREADS) * 1e9, 2.0 * 100.0 + 2.0 * 400.0);
}
