//! A run of two cores, made up, and what its summary says of it.

use std::path::PathBuf;
use std::time::Duration;

use longhaul_core::observe::{Counters, Dropped, PipeCounters};
use longhaul_core::{Span, Time};
use longhaul_partition::predict::Prediction;
use longhaul_plan::plan::Plan;

use super::*;
use crate::fidelity::Judge;
use crate::summary::{self, CoreFacts, Load};

/// A folder of its own, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("longhaul-ledger-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const EXPERIMENT: &str = "
clock: virtual
duration: 10 s
topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], rate: 8 Mbit/s, delay: 1 ms }] }
traffic: { x: { from: a, to: b, bytes: 1 kB } }
";

/// What such cores come to.
fn closed(name: &str, cores: Vec<CoreEnd>) -> Summary {
    let scratch = Scratch::new(name);
    let plan = Plan::from_text(EXPERIMENT, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    let folder = RunFolder::create(&scratch.0, EXPERIMENT, false).expect("a folder of its own");
    let ledger = Ledger::new(&plan, &folder, Vec::new()).expect("series in it");
    let expected = Expected {
        method: "best",
        costs: "threads",
        prediction: Prediction {
            efficiency: 0.5,
            loads: vec![0.25, 0.75],
            cut_pipes: 2,
            look_ahead: None,
            cost: 0.75,
        },
    };
    let mut summary = ledger.close(End {
        time: Time::ZERO + Span::from_s(10),
        machine: summary::machine(CoreFacts::default(), Vec::new(), 2),
        verdict: Judge::new(plan.tolerance, Vec::new(), Vec::new()).virtual_verdict(),
        params: &|_| None,
        loop_time: cores.iter().map(|core| core.cpu).sum(),
        expected: Some(&expected).filter(|_| cores.len() > 1),
        cores,
        traffic: Vec::new(),
        programs: Vec::new(),
        measured: Default::default(),
        resources: None,
        trace_hash: None,
    });
    summary.machine.load_before = 0.0;
    summary
}

/// The core of `a`, and of its pipe: 100 packets entered it, two of them were lost, one waits, and
/// 97 went on to the other core, from which 40 came.
fn first() -> CoreEnd {
    CoreEnd {
        cpu: Duration::from_secs(4),
        had: Duration::from_secs(10),
        pipes: 1,
        network: Network {
            counters: Counters {
                entered: 100,
                delivered: 40,
                hops: 97,
                dropped: Dropped {
                    queue: 2,
                    ..Dropped::default()
                },
                imported: 40,
                exported: 97,
                ..Counters::default()
            },
            pipes: vec![
                PipeCounters {
                    packets: 97,
                    bytes: 97_000,
                    drops_queue: 2,
                    busy_ns: 5_000_000_000,
                    ..PipeCounters::default()
                },
                PipeCounters::default(),
            ],
            inside: 1,
            multicast_data: 0,
        },
    }
}

/// The core of `b` and its pipe: three packets were made there, one for `b` itself.
fn second() -> CoreEnd {
    CoreEnd {
        cpu: Duration::from_secs(1),
        had: Duration::from_secs(10),
        pipes: 1,
        network: Network {
            counters: Counters {
                entered: 38,
                created: 3,
                delivered: 98,
                hops: 40,
                imported: 97,
                exported: 40,
                ..Counters::default()
            },
            pipes: vec![
                PipeCounters::default(),
                PipeCounters {
                    packets: 40,
                    bytes: 4_000,
                    busy_ns: 1_000_000_000,
                    ..PipeCounters::default()
                },
            ],
            inside: 0,
            multicast_data: 0,
        },
    }
}

#[test]
fn two_cores_are_summed_up() {
    let summary = closed("two", vec![first(), second()]);
    let cores: Vec<_> = summary
        .cores
        .iter()
        .map(|core| (core.pipes, core.packets, core.cross_core, core.busy))
        .collect();
    assert_eq!(cores, [(1, 140, 137, 0.4), (1, 138, 137, 0.1)]);
    // 141 packets began, and 137 were worked on a second time.
    assert_eq!(summary.efficiency, Some(141.0 / 278.0));
    let partition = summary.partition.as_ref().expect("of two cores");
    assert_eq!(partition.method, "best");
    let packets = (partition.edge_packets, partition.crossing_packets);
    assert_eq!(packets, (141, 137));
    let load = |efficiency, load_max, load_mean| Load {
        efficiency,
        load_max,
        load_mean,
    };
    assert_eq!(partition.predicted, load(0.5, 0.75, 0.5));
    assert_eq!(partition.measured, load(141.0 / 278.0, 0.4, 0.25));
    let packets = &summary.packets;
    assert_eq!((packets.entered, packets.created), (138, 3));
    assert_eq!((packets.delivered, packets.inside), (138, 1));
    assert_eq!((packets.dropped.queue, packets.hops), (2, 137));
    assert_eq!(summary.hops_per_s, 137.0 / 5.0);
    let pipes: Vec<_> = summary
        .pipes
        .iter()
        .map(|pipe| (pipe.name.as_str(), pipe.counts.packets, pipe.utilisation))
        .collect();
    assert_eq!(pipes, [("a>b", 97, Some(0.5)), ("b>a", 40, Some(0.1))]);
    assert_eq!((summary.pipes_seen, summary.pipes[0].counts.drops), (2, 2));
}

#[test]
fn the_order_of_cores_changes_their_order_alone() {
    let [one, other] = [vec![first(), second()], vec![second(), first()]]
        .map(|cores| closed("order", cores))
        .map(|mut summary| {
            summary.cores.sort_by_key(|core| core.packets);
            summary.to_json()
        });
    assert_eq!(one, other);
}

#[test]
fn one_core_has_no_efficiency() {
    let mut alone = first();
    let counters = &mut alone.network.counters;
    (counters.imported, counters.exported) = (0, 0);
    let summary = closed("one", vec![alone]);
    assert_eq!((summary.efficiency, &summary.partition), (None, &None));
    assert_eq!(
        (summary.cores[0].packets, summary.cores[0].cross_core),
        (100, 0)
    );
    // Nor have two that have had nothing to do.
    let idle = closed("idle", vec![CoreEnd::default(), CoreEnd::default()]);
    assert_eq!(idle.efficiency, None);
    assert_eq!((idle.packets.entered, idle.hops_per_s), (0, 0.0));
}
