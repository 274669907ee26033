//! From what a plan says of its traffic to a traffic matrix.
//!
//! **Programs** can say anything to anybody: all hosts that run one send to each other by gravity,
//! as much as their links carry. **Modelled traffic** is known: each entry's flows count with their
//! packets per second, averaged over the run (60 s where nothing bounds it): bytes that are
//! bounded over the whole run, rates and requests while they last, and transfers without end as
//! much as the hosts' links carry. TCP answers every other segment. Nothing exceeds what a host's
//! links carry. Where a plan has neither, all hosts send to each other.
//!
//! Left out: who of the programs is a server; retransmissions, handshakes and routers' messages.

use longhaul_core::NodeId;
use longhaul_partition::matrix::{Block, Pair, TrafficMatrix, receives, sends};
use longhaul_plan::flow_groups::{Carrier, Draw, Each, FlowGroup, Pairs, Work};
use longhaul_plan::plan::Plan;

/// The length of a run that nothing bounds, in seconds.
const RUN_S: f64 = 60.0;
/// What a request takes besides thinking, in seconds.
const EXCHANGE_S: f64 = 0.01;
/// Acknowledgements for each segment of TCP.
const ACKS: f64 = 0.5;
/// Pairs of an entry that are evaluated; of more, an even sample stands for all.
const MOST_PAIRS: usize = 2_000_000;

/// Expected traffic.
#[derive(Debug, Clone)]
pub struct ExpectedTraffic {
    /// Who sends how much to whom.
    pub matrix: TrafficMatrix,
    /// The hosts, where of all traffic nothing but its hosts is known.
    pub unknown: Vec<NodeId>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// What each pair of an entry sends.
#[derive(Debug, Clone, Copy)]
enum Volume {
    /// Packets per second, and packets that come back for each.
    Packets(f64, f64),
    /// What links carry, during this part of the run.
    Links(f64),
}

impl ExpectedTraffic {
    /// The expected traffic of a plan.
    pub fn of(plan: &Plan) -> Self {
        let topology = &plan.topology;
        let mut matrix = TrafficMatrix::default();
        let mut notes = Vec::new();
        for group in &plan.traffic.groups {
            add(group, plan, &mut matrix, &mut notes);
        }
        let mut hosts = plan.program_nodes();
        let declared = !matrix.is_empty();
        if hosts.len() < 2 {
            hosts.clear();
            if !declared {
                hosts = plan.hosts.iter().map(|host| host.node).collect();
                notes.push(
                    "the file says nothing about traffic: assuming that all hosts send to one another"
                        .to_owned(),
                );
            }
        }
        matrix.limit_to_links(topology);
        if !hosts.is_empty() {
            matrix.blocks.push(Block::gravity(topology, &hosts, &hosts));
        }
        Self {
            unknown: if declared { Vec::new() } else { hosts },
            matrix,
            notes,
        }
    }
}

/// Adds an entry.
fn add(group: &FlowGroup, plan: &Plan, matrix: &mut TrafficMatrix, notes: &mut Vec<String>) {
    let topology = &plan.topology;
    let run_s = plan.duration.map_or(RUN_S, |span| span.as_s().max(1e-9));
    let volume = volume(group, run_s);
    match &group.pairs {
        Pairs::All(from, to) => match volume {
            Volume::Links(part) => {
                let mut block = Block::gravity(topology, from, to);
                block
                    .from
                    .iter_mut()
                    .for_each(|(_, weight)| *weight *= part);
                block.replies = ACKS;
                matrix.blocks.push(block);
            }
            Volume::Packets(packets, replies) => matrix.blocks.push(Block {
                from: from.iter().map(|&host| (host, 1.0)).collect(),
                to: to.iter().map(|&host| (host, packets)).collect(),
                replies,
            }),
        },
        Pairs::List(list) => {
            let pairs = list.iter().map(|&pair| of_pair(pair, volume, plan));
            matrix.pairs.extend(pairs);
        }
        Pairs::Recorded(list) => {
            let step = list.len().div_ceil(MOST_PAIRS).max(1);
            if step > 1 {
                notes.push(format!(
                    "of the {} flows of `{}`, only every {step}th is considered",
                    list.len(),
                    group.name
                ));
            }
            let (mss, replies) = carried(&group.work);
            let flows = list.iter().step_by(step).map(|flow| Pair {
                from: flow.from,
                to: flow.to,
                packets: (flow.bytes as f64 / mss).ceil() / run_s * step as f64,
                replies,
            });
            matrix.pairs.extend(flows);
        }
    }
}

/// What one pair sends.
fn of_pair((from, to): (NodeId, NodeId), volume: Volume, plan: &Plan) -> Pair {
    let (packets, replies) = match volume {
        Volume::Packets(packets, replies) => (packets, replies),
        Volume::Links(part) => {
            let links = sends(&plan.topology, from).min(receives(&plan.topology, to));
            (links * part, ACKS)
        }
    };
    Pair {
        from,
        to,
        packets,
        replies,
    }
}

/// The payload of a packet in bytes, and the packets that come back for each.
fn carried(work: &Work) -> (f64, f64) {
    let (payload, replies) = match work {
        Work::Bulk { tcp, .. } | Work::Requests { tcp, .. } => (tcp.base.mss, ACKS),
        Work::Paced {
            by: Carrier::Tcp(tcp),
            ..
        } => (tcp.base.mss, ACKS),
        Work::Paced {
            by: Carrier::Udp(payload),
            ..
        } => (*payload, 0.0),
    };
    (f64::from(payload.max(1)), replies)
}

/// What each pair of an entry sends, averaged over the run.
fn volume(group: &FlowGroup, run_s: f64) -> Volume {
    let start = mean(&group.start) / 1e9;
    let stop = group.stop.map_or(run_s, |stop| stop.as_s().min(run_s));
    let lasts = (stop - start).clamp(0.0, run_s);
    let active = lasts / run_s;
    let flows = match &group.each {
        Each::Together(count) => *count as f64,
        Each::Spaced { gap, count, end } => {
            let room = (end.as_s().min(run_s) - start).max(0.0) / (mean(gap) / 1e9).max(1e-9);
            count.map_or(room + 1.0, |count| (count as f64).min(room + 1.0))
        }
    };
    let (payload, replies) = carried(&group.work);
    let bounded = |bytes: &Draw| (mean(bytes) / payload).ceil().max(1.0) / run_s;
    match &group.work {
        Work::Bulk {
            bytes: Some(bytes), ..
        } => Volume::Packets(flows * bounded(bytes), replies),
        Work::Bulk { bytes: None, .. } => Volume::Links(active),
        Work::Requests {
            request,
            response,
            think,
            count,
            ..
        } => {
            let ask = (mean(request) / payload).ceil().max(1.0);
            let answer = (mean(response) / payload).ceil().max(1.0);
            let most = lasts / (mean(think) / 1e9 + EXCHANGE_S);
            let exchanges = count.map_or(most, |count| (count as f64).min(most)) / run_s;
            let (there, back) = (ask + ACKS * answer, answer + ACKS * ask);
            Volume::Packets(flows * exchanges * there, back / there)
        }
        Work::Paced { rate, bytes, .. } => {
            let rate = rate.bits_per_s() as f64 / 8.0 / payload * active;
            let rate = bytes
                .as_ref()
                .map_or(rate, |bytes| rate.min(bounded(bytes)));
            Volume::Packets(flows * rate, replies)
        }
    }
}

/// The mean of a draw; what has none counts with its median.
fn mean(draw: &Draw) -> f64 {
    match draw {
        Draw::Constant(value) | Draw::Exponential(value) => *value as f64,
        Draw::Random(distribution) => {
            let mean = distribution.mean();
            let value = if mean.is_finite() {
                mean
            } else {
                distribution.quantile(0.5)
            };
            value.clamp(0.0, 1e18)
        }
    }
}
