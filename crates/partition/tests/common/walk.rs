//! Flows by walking along every path of every pair.

use std::collections::BTreeMap;

use longhaul_core::route::{NextHop, Routes};
use longhaul_core::topology::NodeKind;
use longhaul_core::{NodeId, PipeId, Topology};
use longhaul_partition::matrix::{self, TrafficMatrix};

/// Flows by walking.
#[derive(Default)]
pub(crate) struct Walked {
    pub(crate) pipes: Vec<f64>,
    pub(crate) turns: BTreeMap<(PipeId, PipeId), f64>,
    pub(crate) sent: Vec<f64>,
    pub(crate) received: Vec<f64>,
}

struct Walker<'a> {
    topology: &'a Topology,
    routes: Routes,
    ratios: Vec<f64>,
    walked: Walked,
}

impl<'a> Walker<'a> {
    fn new(topology: &'a Topology, ratios: Vec<f64>) -> Self {
        let walked = Walked {
            pipes: vec![0.0; topology.pipes().len()],
            sent: vec![0.0; topology.nodes().len()],
            received: vec![0.0; topology.nodes().len()],
            ..Walked::default()
        };
        Self {
            topology,
            routes: Routes::new(topology),
            ratios,
            walked,
        }
    }

    fn next(&mut self, from: NodeId, to: NodeId) -> Vec<PipeId> {
        match self.routes.next_hop(self.topology, from, to) {
            Some(NextHop::One(pipe)) => vec![pipe],
            Some(NextHop::OneOf(set)) => self.routes.set(set).to_vec(),
            None => Vec::new(),
        }
    }

    /// The part that all paths from a node let through.
    fn ratio(&mut self, from: NodeId, to: NodeId, back: bool) -> f64 {
        if from == to {
            return 1.0;
        }
        let next = self.next(from, to);
        let mut sum = 0.0;
        for &id in &next {
            let pipe = self.topology.pipe(id);
            let held = if back { pipe.back } else { id };
            let onward = self.ratio(pipe.to, to, back);
            sum += self.ratios[held.index()].min(onward);
        }
        sum / next.len() as f64
    }

    fn send(&mut self, from: NodeId, to: NodeId, packets: f64, back: bool) {
        if from == to || self.next(from, to).is_empty() {
            return;
        }
        let packets = packets * self.ratio(from, to, back);
        self.walked.sent[from.index()] += packets;
        self.walked.received[to.index()] += packets;
        self.walk(from, to, packets, None);
    }

    fn walk(&mut self, at: NodeId, to: NodeId, packets: f64, last: Option<PipeId>) {
        if at == to {
            return;
        }
        let next = self.next(at, to);
        for &pipe in &next {
            let packets = packets / next.len() as f64;
            self.walked.pipes[pipe.index()] += packets;
            if let Some(last) = last {
                *self.walked.turns.entry((last, pipe)).or_default() += packets;
            }
            let onward = self.topology.pipe(pipe).to;
            self.walk(onward, to, packets, Some(pipe));
        }
    }
}

/// All pairs of a matrix: from, to, packets, replies.
fn pairs(matrix: &TrafficMatrix) -> Vec<(NodeId, NodeId, f64, f64)> {
    let mut list: Vec<_> = matrix
        .pairs
        .iter()
        .map(|pair| (pair.from, pair.to, pair.packets, pair.replies))
        .collect();
    for block in &matrix.blocks {
        for &(from, a) in &block.from {
            let to = block.to.iter();
            list.extend(to.map(|&(to, b)| (from, to, a * b, block.replies)));
        }
    }
    list
}

pub(crate) fn walk_all(topology: &Topology, matrix: &TrafficMatrix) -> Walked {
    let all = vec![1.0; topology.pipes().len()];
    let mut first = Walker::new(topology, all);
    for (from, to, packets, _) in pairs(matrix) {
        first.send(from, to, packets, false);
    }
    let is_host = |node| topology.node(node).kind == NodeKind::Host;
    let ratio = |(pipe, asked): (&longhaul_core::topology::Pipe, &f64)| {
        let inner = !is_host(pipe.from) && !is_host(pipe.to);
        let capacity = matrix::capacity(&pipe.params).filter(|capacity| inner && asked > capacity);
        capacity.map_or(1.0, |capacity| capacity / asked)
    };
    let ratios = topology.pipes().iter().zip(&first.walked.pipes).map(ratio);
    let mut walker = Walker::new(topology, ratios.collect());
    for (from, to, packets, replies) in pairs(matrix) {
        walker.send(from, to, packets, false);
        walker.send(to, from, packets * replies, true);
    }
    walker.walked
}
