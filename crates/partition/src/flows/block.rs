//! One pass over blocks of traffic: what each destination's tree adds to the flows.

use longhaul_core::route::Routes;
use longhaul_core::{NodeId, PipeId, Topology};

use super::{Flows, ROUTE_ENTRIES, Sampled, TurnSums, sorted};
use crate::matrix::Block;
use crate::tree::{Leaf, Tree, leaves};

/// Which pipes hold a flow back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Along {
    /// Those of its path.
    Path,
    /// Those of the way back, which it answers.
    Back,
}

/// Sums of flows under way.
pub(super) struct Pass<'a> {
    topology: &'a Topology,
    routes: Routes,
    leaves: Vec<Option<Leaf>>,
    tree: Tree,
    /// The most destinations of a block.
    most: usize,
    /// By pipe: the part of what it is asked for that it carries; empty for all of it.
    ratios: Vec<f64>,
    flows: Flows,
    /// By pipe: what a sample of pairs stands for. Empty where there is none.
    sampled_pairs: Vec<f64>,
    /// By pipe: the destinations that it is on the way to.
    used: Vec<u32>,
    turns: Option<TurnSums>,
    node: Vec<AtNode>,
    /// Of the current destination: what comes out of pipes, as lists by the node they lead to.
    arrivals: Vec<(PipeId, f64, u32)>,
}

/// What a unit of weight on either side comes to, by what it is counted for.
#[derive(Debug, Clone, Copy)]
struct Scales {
    /// Flows along the tree.
    tree: f64,
    /// What its sources send in all.
    out: f64,
}

/// What a pass keeps of a node.
#[derive(Debug, Clone, Copy)]
struct AtNode {
    /// Weights of the senders and of the receivers that are attached here, or are the node.
    from: f64,
    to: f64,
    /// Weight of the same host as sender and as receiver.
    own: [f64; 2],
    /// Per unit of weight: what senders send elsewhere, receivers receive from elsewhere.
    out: f64,
    inward: f64,
    /// Of the current destination: what starts here, what passes, the part that gets through
    /// from here, and the first of its arrivals.
    starts: f64,
    through: f64,
    ratio: f64,
    first: u32,
}

const NOTHING: AtNode = AtNode {
    from: 0.0,
    to: 0.0,
    own: [0.0, 0.0],
    out: 0.0,
    inward: 0.0,
    starts: 0.0,
    through: 0.0,
    ratio: 1.0,
    first: u32::MAX,
};

/// What leaves of a node do there, for turns: packets from all of its senders into each first
/// pipe, and from each last pipe to all of its receivers.
#[derive(Debug, Default)]
struct Ends {
    firsts: TurnSumsAt,
    lasts: TurnSumsAt,
}

type TurnSumsAt = std::collections::BTreeMap<(NodeId, PipeId), f64>;

impl<'a> Pass<'a> {
    pub(super) fn new(topology: &'a Topology, most: usize, turns: bool) -> Self {
        let (nodes, pipes) = (topology.nodes().len(), topology.pipes().len());
        Self {
            topology,
            routes: Routes::with_bound(topology, ROUTE_ENTRIES),
            leaves: leaves(topology),
            tree: Tree::new(topology),
            most,
            ratios: Vec::new(),
            flows: Flows {
                pipes: vec![0.0; pipes],
                sent: vec![0.0; nodes],
                received: vec![0.0; nodes],
                packets: 0.0,
                turns: None,
                sample: None,
            },
            sampled_pairs: Vec::new(),
            used: vec![0; pipes],
            turns: turns.then(TurnSums::default),
            node: vec![NOTHING; nodes],
            arrivals: Vec::new(),
        }
    }

    /// What pipes carry so far; of links between nodes in trees, where there is a sample, what
    /// the direction does that is on the way to more of it. Without sampled pairs, which are too
    /// few on any one link to say whether it is asked for too much.
    pub(super) fn pipes(&self) -> Vec<f64> {
        let own = &self.flows.pipes;
        if self.flows.sample.is_none() {
            return own.clone();
        }
        let is_leaf = |node: NodeId| self.leaves[node.index()].is_some();
        let pipes = self.topology.pipes().iter().enumerate();
        let estimate = |(id, pipe): (usize, &longhaul_core::topology::Pipe)| {
            let back = pipe.back.index();
            match self.used[id].cmp(&self.used[back]) {
                _ if is_leaf(pipe.from) || is_leaf(pipe.to) => own[id],
                std::cmp::Ordering::Greater => own[id],
                std::cmp::Ordering::Less => own[back],
                std::cmp::Ordering::Equal => (own[id] + own[back]) / 2.0,
            }
        };
        pipes.map(estimate).collect()
    }

    /// Begins again, where pipes carry only a part of what they are asked for.
    pub(super) fn restart(&mut self, ratios: Vec<f64>) {
        self.ratios = ratios;
        let flows = &mut self.flows;
        for list in [&mut flows.pipes, &mut flows.sent, &mut flows.received] {
            list.fill(0.0);
        }
        flows.packets = 0.0;
        flows.sample = None;
        self.used.fill(0);
        self.sampled_pairs.clear();
        if let Some(turns) = &mut self.turns {
            turns.clear();
        }
    }

    pub(super) fn finish(mut self) -> Flows {
        self.flows.pipes = self.pipes();
        for (sum, packets) in self.flows.pipes.iter_mut().zip(&self.sampled_pairs) {
            *sum += packets;
        }
        // A sample knows no turns of the destinations that it leaves out.
        let turns = self.turns.filter(|_| self.flows.sample.is_none());
        self.flows.turns = turns.map(sorted);
        self.flows
    }

    /// Adds a block.
    pub(super) fn forward(&mut self, block: &Block, sampled: Sampled) {
        self.add(block, Along::Path, sampled);
    }

    /// Adds a block that answers others.
    pub(super) fn replies(&mut self, block: &Block, sampled: Sampled) {
        self.add(block, Along::Back, sampled);
    }

    /// The node that a host's ways begin and end at.
    fn at(&self, host: NodeId) -> NodeId {
        self.leaves[host.index()].map_or(host, |leaf| leaf.at)
    }

    fn add(&mut self, block: &Block, along: Along, sampled: Sampled) {
        let (from, to) = (&block.from, &block.to);
        let mut ends = self.turns.is_some().then(Ends::default);
        let sources = self.gather(from, |node| &mut node.from, 0);
        let all = self.gather(to, |node| &mut node.to, 1);
        let step = all.len().div_ceil(self.most).max(1);
        let sample: Vec<NodeId> = match sampled {
            Sampled::Not => Vec::new(),
            _ => all.iter().copied().step_by(step).collect(),
        };
        let weight = |pass: &Self, list: &[NodeId]| -> f64 {
            list.iter().map(|node| pass.node[node.index()].to).sum()
        };
        let stretch = match weight(self, &sample) {
            0.0 => 0.0,
            part => weight(self, &all) / part,
        };
        let tree = match sampled {
            Sampled::For(all) => all,
            _ => stretch,
        };
        let scales = Scales { tree, out: stretch };
        if step > 1 || sampled != Sampled::All {
            let known = self.flows.sample.unwrap_or((0, 0));
            self.flows.sample = Some((known.0 + sample.len(), known.1 + all.len()));
        }
        let is_extrapolated = matches!(sampled, Sampled::For(_));
        if is_extrapolated {
            self.sampled_pairs.resize(self.used.len(), 0.0);
            std::mem::swap(&mut self.flows.pipes, &mut self.sampled_pairs);
        }
        for &destination in &sample {
            self.destination(destination, &sources, scales, along, ends.as_mut());
        }
        if is_extrapolated {
            std::mem::swap(&mut self.flows.pipes, &mut self.sampled_pairs);
        }
        if sample.len() < all.len() {
            self.fill_in(&sources, &all, &sample);
        }
        self.at_ends(from, to);
        if let Some(ends) = ends {
            self.turns_at_ends(from, to, &ends);
        }
        for node in sources.iter().chain(&all) {
            self.node[node.index()] = NOTHING;
        }
        for (host, _) in from.iter().chain(to) {
            self.node[host.index()].own = [0.0, 0.0];
        }
    }

    /// Sums the weights of hosts at the nodes where their ways begin or end; gives these nodes in
    /// the order in which they first appear.
    fn gather(
        &mut self,
        hosts: &[(NodeId, f64)],
        sum: impl Fn(&mut AtNode) -> &mut f64,
        role: usize,
    ) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for &(host, weight) in hosts.iter().filter(|(_, weight)| *weight > 0.0) {
            self.node[host.index()].own[role] = weight;
            let at = self.at(host);
            let sum = sum(&mut self.node[at.index()]);
            if *sum == 0.0 {
                nodes.push(at);
            }
            *sum += weight;
        }
        nodes
    }

    /// Adds what all sources send to what is attached to one node.
    fn destination(
        &mut self,
        to: NodeId,
        sources: &[NodeId],
        scales: Scales,
        along: Along,
        ends: Option<&mut Ends>,
    ) {
        let topology = self.topology;
        let elsewhere = sources.iter().copied().filter(|&source| source != to);
        self.tree.grow(topology, &mut self.routes, to, elsewhere);
        self.arrivals.clear();
        for &node in self.tree.order() {
            let at = &mut self.node[node.index()];
            (at.starts, at.through, at.first) = (0.0, 0.0, u32::MAX);
        }
        self.hold_back(along);
        let weight = self.node[to.index()].to;
        let mut inward = 0.0;
        for &source in sources {
            if source != to && self.tree.leads_from(source) {
                let at = &mut self.node[source.index()];
                at.out += weight * scales.out * at.ratio;
                at.starts = at.from * weight * scales.tree * at.ratio;
                inward += at.from * at.ratio;
            }
        }
        self.node[to.index()].inward = inward;
        self.flow_down(to, ends);
    }

    /// The share of the traffic starting at each node of the tree that its path carries.
    fn hold_back(&mut self, along: Along) {
        for &node in self.tree.order() {
            let next = self.tree.next(node);
            let mut ratio = 1.0;
            if !self.ratios.is_empty() && !next.is_empty() {
                let through = |&id: &PipeId| {
                    let pipe = self.topology.pipe(id);
                    let held = match along {
                        Along::Path => id,
                        Along::Back => pipe.back,
                    };
                    self.ratios[held.index()].min(self.node[pipe.to.index()].ratio)
                };
                ratio = next.iter().map(through).sum::<f64>() / next.len() as f64;
            }
            self.node[node.index()].ratio = ratio;
        }
    }

    /// Sums the traffic starting at the nodes of the tree along their paths to the destination.
    fn flow_down(&mut self, to: NodeId, mut ends: Option<&mut Ends>) {
        for index in (0..self.tree.order().len()).rev() {
            let node = self.tree.order()[index];
            let at = self.node[node.index()];
            if node == to {
                if let Some(ends) = ends.as_deref_mut() {
                    let mut place = at.first;
                    while let Some(&(pipe, packets, next)) = self.arrivals.get(place as usize) {
                        *ends.lasts.entry((to, pipe)).or_default() += packets;
                        place = next;
                    }
                }
                continue;
            }
            let next = self.tree.next(node);
            let share = 1.0 / next.len() as f64;
            for &pipe in next {
                let packets = (at.starts + at.through) * share;
                self.flows.pipes[pipe.index()] += packets;
                self.used[pipe.index()] += 1;
                let peer = &mut self.node[self.topology.pipe(pipe).to.index()];
                peer.through += packets;
                if let (Some(turns), Some(ends)) = (&mut self.turns, ends.as_deref_mut()) {
                    self.arrivals.push((pipe, packets, peer.first));
                    peer.first = self.arrivals.len() as u32 - 1;
                    if at.starts > 0.0 {
                        *ends.firsts.entry((node, pipe)).or_default() += at.starts * share;
                    }
                    let mut place = at.first;
                    while let Some(&(from, packets, next)) = self.arrivals.get(place as usize) {
                        *turns.entry((from, pipe)).or_default() += packets * share;
                        place = next;
                    }
                }
            }
        }
    }

    /// Receivers that the sample leaves out get what those in it get in the mean; without a sample
    /// all gets through.
    fn fill_in(&mut self, sources: &[NodeId], all: &[NodeId], sample: &[NodeId]) {
        let inward = |node: &NodeId| self.node[node.index()].inward;
        if !sample.is_empty() {
            let mean = sample.iter().map(inward).sum::<f64>() / sample.len() as f64;
            all.iter()
                .for_each(|node| self.node[node.index()].inward = mean);
            return;
        }
        for source in sources {
            for node in all.iter().filter(|node| *node != source) {
                self.node[source.index()].out += self.node[node.index()].to;
                self.node[node.index()].inward += self.node[source.index()].from;
            }
        }
    }

    /// What hosts send and receive, and what the pipes of leaves carry.
    fn at_ends(&mut self, from: &[(NodeId, f64)], to: &[(NodeId, f64)]) {
        for &(host, weight) in from {
            let leaf = self.leaves[host.index()];
            let at = self.node[self.at(host).index()];
            let local = (at.to - self.node[host.index()].own[1]).max(0.0);
            let packets = weight * (at.out + if leaf.is_some() { local } else { 0.0 });
            if let Some(leaf) = leaf {
                self.flows.pipes[leaf.up.index()] += packets;
            }
            self.flows.sent[host.index()] += packets;
            self.flows.packets += packets;
        }
        for &(host, weight) in to {
            let leaf = self.leaves[host.index()];
            let at = self.node[self.at(host).index()];
            let local = (at.from - self.node[host.index()].own[0]).max(0.0);
            let packets = weight * (at.inward + if leaf.is_some() { local } else { 0.0 });
            if let Some(leaf) = leaf {
                self.flows.pipes[leaf.down.index()] += packets;
            }
            self.flows.received[host.index()] += packets;
        }
    }

    /// What turns from and into the pipes of leaves.
    fn turns_at_ends(&mut self, from: &[(NodeId, f64)], to: &[(NodeId, f64)], ends: &Ends) {
        let Some(turns) = &mut self.turns else { return };
        let pipes = |node: NodeId| (node, PipeId(0))..=(node, PipeId(u32::MAX));
        let mut receivers: std::collections::BTreeMap<NodeId, Vec<(NodeId, PipeId, f64)>> =
            std::collections::BTreeMap::new();
        for &(host, weight) in to {
            let Some(leaf) = self.leaves[host.index()] else {
                continue;
            };
            let list = receivers.entry(leaf.at).or_default();
            list.push((host, leaf.down, weight));
            let all = self.node[leaf.at.index()].to;
            for (&(_, last), packets) in ends.lasts.range(pipes(leaf.at)) {
                *turns.entry((last, leaf.down)).or_default() += packets * weight / all;
            }
        }
        for &(host, weight) in from {
            let Some(leaf) = self.leaves[host.index()] else {
                continue;
            };
            let all = self.node[leaf.at.index()].from;
            for (&(_, first), packets) in ends.firsts.range(pipes(leaf.at)) {
                *turns.entry((leaf.up, first)).or_default() += packets * weight / all;
            }
            for &(other, down, to) in receivers.get(&leaf.at).into_iter().flatten() {
                if other != host {
                    *turns.entry((leaf.up, down)).or_default() += weight * to;
                }
            }
        }
    }
}
