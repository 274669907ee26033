//! How good every method is on the paper's networks: efficiency, loads and look-ahead, medians
//! over seeds.
//!
//! `cargo run --release -p longhaul-partition --example efficiency [-- SEEDS]` (default 11). h2 and
//! h5 are four trees of 400 clients in all; `internet` has 4000 routers, 200 of them stubs, with 400
//! clients; all clients behind 3 Mbit/s. Partitions are made as if nothing were known of the
//! traffic, and judged twice: by the traffic they were made for (every client to all others), and
//! by the paper's workload (every client to four random others, in other trees where there are
//! trees).

use std::time::Instant;

use longhaul_core::{NodeId, Span, Topology};
use longhaul_partition::conservative::Conservative;
use longhaul_partition::costs::Costs;
use longhaul_partition::flows::Flows;
use longhaul_partition::lookahead::least_delays;
use longhaul_partition::matrix::{Pair, TrafficMatrix, sends};
use longhaul_partition::predict::Prediction;
use longhaul_partition::problem::{Parts, Problem};
use longhaul_partition::{Method, Partition};
use longhaul_plan::plan::Plan;

const NETWORKS: [(&str, &str); 3] = [
    (
        "h2",
        "kind: tree, trees: 4, degree: 10, height: 2, clients: 400",
    ),
    (
        "h5",
        "kind: tree, trees: 4, degree: 2, height: 5, clients: 400",
    ),
    (
        "internet",
        "kind: internet, routers: 4000, stubs: 200, clients: 400",
    ),
];

fn main() {
    let seeds = std::env::args()
        .nth(1)
        .map_or(11, |text| text.parse().expect("a number"));
    println!("medians over {seeds} seeds; loads as the busiest core over the mean");
    for (name, kind) in NETWORKS {
        let text = format!(
            "name: {name}\ntopology: {{ generate: {{ {kind}, rate: 1 Gbit/s, access_rate: 3 Mbit/s }} }}\n"
        );
        let plan = Plan::from_text(&text, "network.yaml").expect("a network");
        network(name, &plan.topology, seeds);
    }
}

/// Everything that is known of a network.
struct Known<'a> {
    topology: &'a Topology,
    delays: Vec<Span>,
    flows: Flows,
    paper: Flows,
    conservative: Option<Conservative>,
}

impl Known<'_> {
    fn parts<'a>(&'a self, flows: &'a Flows) -> Parts<'a> {
        Parts {
            topology: self.topology,
            least_delays: &self.delays,
            flows,
            conservative: self.conservative.as_ref(),
            costs: Costs::THREADS,
        }
    }
}

fn network(name: &str, topology: &Topology, seeds: u64) {
    let clients: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let started = now();
    let matrix = TrafficMatrix::all_pairs(topology, &clients);
    let known = Known {
        topology,
        delays: least_delays(topology),
        flows: Flows::expected(topology, &matrix, true),
        paper: Flows::expected(topology, &paper_workload(topology, &clients), true),
        conservative: Conservative::of(topology, &clients),
    };
    let parts = known.parts(&known.flows);
    let (nodes, pipes) = (Problem::by_node(&parts), Problem::by_pipe(&parts));
    println!(
        "\n{name}: {} nodes, {} pipes; flows and graphs in {:.2} s",
        topology.nodes().len(),
        topology.pipes().len(),
        started.elapsed().as_secs_f64()
    );
    let head = [
        "method",
        "by",
        "cores",
        "efficiency",
        "workload",
        "load",
        "look-ahead us",
        "cost",
        "s",
    ];
    println!(
        "  {:10} {:5} {:>5} {:>10} {:>9} {:>6} {:>13} {:>7} {:>6}",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8]
    );
    let list = std::env::args()
        .nth(2)
        .unwrap_or_else(|| "2,3,4,5,6,7,8".to_owned());
    for cores in list
        .split(',')
        .map(|text| text.parse().expect("numbers of cores"))
    {
        for method in Method::ALL {
            let rows: Vec<Row> = (1..=seeds)
                .map(|seed| by_node(&known, &nodes, method, cores, seed))
                .collect();
            print(method, "node", cores, &rows);
        }
        let Some(pipes) = &pipes else { continue };
        for method in Method::ALL {
            let rows = (1..=seeds).filter_map(|seed| by_pipe(&known, pipes, method, cores, seed));
            print(method, "pipe", cores, &rows.collect::<Vec<_>>());
        }
    }
}

/// Efficiency, efficiency of the paper's workload, load, look-ahead in µs, cost, seconds.
type Row = [f64; 6];

fn row(all: &Prediction, paper: &Prediction, seconds: f64) -> Row {
    let look_ahead = all
        .look_ahead
        .map_or(f64::NAN, |span| span.as_ns() as f64 / 1e3);
    let load = all.max_load() / all.mean_load();
    [
        all.efficiency,
        paper.efficiency,
        load,
        look_ahead,
        all.cost,
        seconds,
    ]
}

fn by_node(known: &Known<'_>, problem: &Problem, method: Method, cores: u16, seed: u64) -> Row {
    let started = now();
    let owner = method.split(problem, cores, seed);
    let seconds = started.elapsed().as_secs_f64();
    let partition = Partition { cores, owner };
    let judge = |flows| Prediction::by_node(&known.parts(flows), &partition);
    row(&judge(&known.flows), &judge(&known.paper), seconds)
}

fn by_pipe(
    known: &Known<'_>,
    problem: &Problem,
    method: Method,
    cores: u16,
    seed: u64,
) -> Option<Row> {
    let started = now();
    let owner = method.split(problem, cores, seed);
    let seconds = started.elapsed().as_secs_f64();
    let judge = |flows| Prediction::by_pipe(&known.parts(flows), cores, &owner);
    Some(row(&judge(&known.flows)?, &judge(&known.paper)?, seconds))
}

fn print(method: Method, by: &str, cores: u16, rows: &[Row]) {
    let column = |index: usize| -> f64 {
        let mut column: Vec<f64> = rows.iter().map(|row| row[index]).collect();
        column.sort_unstable_by(f64::total_cmp);
        column.get(column.len() / 2).copied().unwrap_or(f64::NAN)
    };
    println!(
        "  {:10} {by:5} {cores:5} {:10.3} {:9.3} {:6.3} {:13.0} {:7.4} {:6.3}",
        method.name(),
        column(0),
        column(1),
        column(2),
        column(3),
        column(4),
        column(5)
    );
}

/// Every client sends to four random others; in trees to those of other trees, whose names begin
/// differently.
fn paper_workload(topology: &Topology, clients: &[NodeId]) -> TrafficMatrix {
    let mut draws = longhaul_core::rng::Stream::new(1, "workload");
    let tree = |client: NodeId| {
        let up = topology.outgoing(client)[0];
        let name = &topology.node(topology.pipe(up).to).name;
        name.strip_prefix('t')
            .and_then(|rest| rest.split('r').next())
    };
    let mut pairs = Vec::new();
    for &from in clients {
        let mut chosen: Vec<NodeId> = Vec::new();
        while chosen.len() < 4 {
            let to = clients[(draws.draw() % clients.len() as u64) as usize];
            let apart = tree(from).is_none() || tree(from) != tree(to);
            if to != from && apart && !chosen.contains(&to) {
                chosen.push(to);
            }
        }
        let packets = sends(topology, from) / 4.0;
        pairs.extend(chosen.into_iter().map(|to| Pair {
            from,
            to,
            packets,
            replies: 0.5,
        }));
    }
    TrafficMatrix {
        blocks: Vec::new(),
        pairs,
    }
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // measuring is what this program is for
    Instant::now()
}
