//! The paper's conservative weights, for when nothing is known of the traffic (its Figure 6).
//!
//! Theory: every client talks to every other one, and each flow is as fast as the narrowest pipe
//! of its path. In the tree of one client a pipe carries the fastest of the flows through it, its
//! *partial flow*. What goes on from pipe `e` into pipe `f` grows by the partial flow of the tree,
//! client by client, up to the pipe's rate: the worst that a cut between the two could cost at
//! any time, not the sum of what passes.
//!
//! Two readings of the figure. Each pair of neighbouring pipes of a tree counts once for each
//! client, not once for each path, as the paper's run time says. And trees are those of receivers
//! here, because routes are tables by destination; so partial flow and bound are those of `e`,
//! where the paper, with trees of senders, has `f`: the same sums with all pipes turned around.
//!
//! A pipe without a rate counts as the fastest one that has one, or as 1 Gbit/s. Where routes share
//! packets over equal pipes, each carries its part.
//!
//! Left out: more turns than [`MAX_TURNS`](crate::flows::MAX_TURNS) (there are no conservative
//! weights then).

use longhaul_core::route::Routes;
use longhaul_core::{NodeId, PipeId, Topology};

use crate::flows::{MAX_VISITS, ROUTE_ENTRIES, Turn, TurnSums, sorted, turns_are_few, visits};
use crate::matrix;
use crate::tree::{Leaf, Tree, leaves};

/// The conservative weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Conservative {
    /// What may go on from pipe to pipe, in packets per second, in the order of their numbers.
    pub turns: Vec<Turn>,
    /// By pipe: what may come out of it for the node itself.
    pub ends: Vec<f64>,
}

impl Conservative {
    /// The weights where every one of `clients` talks to all others; `None` where there are too
    /// many turns, or destinations for [`MAX_VISITS`].
    pub fn of(topology: &Topology, clients: &[NodeId]) -> Option<Self> {
        let mut clients = clients.to_vec();
        clients.sort_unstable();
        clients.dedup();
        let mut map = FlowMap::new(topology);
        let groups = map.by_attachment(&clients);
        if !turns_are_few(topology) || groups.len().saturating_mul(visits(topology)) > MAX_VISITS {
            return None;
        }
        for (at, members) in &groups {
            map.destination(*at, members, &groups);
            map.neighbours(members);
        }
        Some(Self {
            turns: sorted(map.turns),
            ends: map.ends,
        })
    }
}

/// Clients by the node that their ways begin and end at.
type ByAttachment = Vec<(NodeId, Vec<NodeId>)>;

/// The flow map under way.
struct FlowMap<'a> {
    topology: &'a Topology,
    routes: Routes,
    leaves: Vec<Option<Leaf>>,
    tree: Tree,
    /// By pipe: packets per second.
    capacity: Vec<f64>,
    turns: TurnSums,
    ends: Vec<f64>,
    /// By node of the current tree: the narrowest pipe on the way to the destination, and the
    /// fastest flow that arrives.
    onward: Vec<f64>,
    arriving: Vec<f64>,
    /// Of the current tree: the flow of each pipe as far as the pipes before it let through.
    arrivals: Vec<(PipeId, f64)>,
}

impl<'a> FlowMap<'a> {
    fn new(topology: &'a Topology) -> Self {
        let (nodes, pipes) = (topology.nodes().len(), topology.pipes());
        let known = pipes
            .iter()
            .filter_map(|pipe| matrix::capacity(&pipe.params));
        let fastest = known.reduce(f64::max);
        let capacity = pipes.iter().map(|pipe| {
            matrix::capacity(&pipe.params)
                .or(fastest)
                .unwrap_or_else(|| matrix::nominal_capacity(&pipe.params))
        });
        Self {
            topology,
            routes: Routes::with_bound(topology, ROUTE_ENTRIES),
            leaves: leaves(topology),
            tree: Tree::new(topology),
            capacity: capacity.collect(),
            turns: TurnSums::default(),
            ends: vec![0.0; pipes.len()],
            onward: vec![0.0; nodes],
            arriving: vec![0.0; nodes],
            arrivals: Vec::new(),
        }
    }

    fn by_attachment(&self, clients: &[NodeId]) -> ByAttachment {
        let at = |client: NodeId| self.leaves[client.index()].map_or(client, |leaf| leaf.at);
        let mut list: Vec<_> = clients.iter().map(|&client| (at(client), client)).collect();
        list.sort_unstable();
        let mut groups: ByAttachment = Vec::new();
        for (at, client) in list {
            match groups.last_mut() {
                Some((last, members)) if *last == at => members.push(client),
                _ => groups.push((at, vec![client])),
            }
        }
        groups
    }

    /// Adds the trees of the clients at one node.
    fn destination(&mut self, to: NodeId, members: &[NodeId], groups: &ByAttachment) {
        let topology = self.topology;
        let others = || groups.iter().filter(|(at, _)| *at != to);
        let sources = others().map(|(at, _)| *at);
        self.tree.grow(topology, &mut self.routes, to, sources);
        self.widths(to);
        for (at, senders) in others() {
            if self.tree.leads_from(*at) {
                let width = |host: &NodeId| match self.leaves[host.index()] {
                    Some(leaf) => self.capacity[leaf.up.index()],
                    None => f64::INFINITY,
                };
                self.arriving[at.index()] = senders.iter().map(width).fold(0.0, f64::max);
            }
        }
        self.partial_flows();
        // Clients whose last pipes are alike have trees alike.
        let last = |host: &NodeId| match self.leaves[host.index()] {
            Some(leaf) => self.capacity[leaf.down.index()],
            None => f64::INFINITY,
        };
        let mut lasts: Vec<f64> = members.iter().map(last).collect();
        lasts.sort_unstable_by(f64::total_cmp);
        for alike in lasts.chunk_by(|a, b| a == b) {
            self.add_tree(to, alike[0], alike.len() as f64, others());
        }
        self.leaf_turns(to, members);
    }

    /// The narrowest pipe from each node of the tree on.
    fn widths(&mut self, to: NodeId) {
        for &node in self.tree.order() {
            let width = |&pipe: &PipeId| {
                let next = self.topology.pipe(pipe).to;
                self.capacity[pipe.index()].min(self.onward[next.index()])
            };
            let widths = self.tree.next(node).iter().map(width);
            self.onward[node.index()] = if node == to {
                f64::INFINITY
            } else {
                widths.fold(0.0, f64::max)
            };
            self.arriving[node.index()] = 0.0;
        }
    }

    /// The fastest flow into each pipe of the tree, by the pipes before and behind it.
    fn partial_flows(&mut self) {
        self.arrivals.clear();
        for &node in self.tree.order().iter().rev() {
            let next = self.tree.next(node);
            for &pipe in next {
                let flow = self.arriving[node.index()] / next.len() as f64;
                let flow = flow.min(self.capacity[pipe.index()]);
                let peer = self.topology.pipe(pipe).to.index();
                self.arriving[peer] = self.arriving[peer].max(flow);
                self.arrivals.push((pipe, flow.min(self.onward[peer])));
            }
        }
    }

    /// Adds the trees of `count` clients whose last pipe carries `last`.
    fn add_tree<'g>(
        &mut self,
        to: NodeId,
        last: f64,
        count: f64,
        sources: impl Iterator<Item = &'g (NodeId, Vec<NodeId>)>,
    ) {
        for index in 0..self.arrivals.len() {
            let (pipe, flow) = self.arrivals[index];
            let at = self.topology.pipe(pipe).to;
            self.turn_on(pipe, at, flow.min(last), count);
            if at == to && self.leaves_nobody(to) {
                let bound = self.capacity[pipe.index()];
                let end = &mut self.ends[pipe.index()];
                *end = (*end + count * flow.min(last)).min(bound);
            }
        }
        for (at, senders) in sources {
            if !self.tree.leads_from(*at) {
                continue;
            }
            let onward = self.onward[at.index()].min(last);
            for sender in senders {
                if let Some(leaf) = self.leaves[sender.index()] {
                    let flow = self.capacity[leaf.up.index()].min(onward);
                    self.turn_on(leaf.up, *at, flow, count);
                }
            }
        }
    }

    /// Whether a destination is a host itself.
    fn leaves_nobody(&self, to: NodeId) -> bool {
        !self.topology.node(to).kind.transits()
    }

    /// Adds what goes on from a pipe at a node of the tree.
    fn turn_on(&mut self, pipe: PipeId, at: NodeId, flow: f64, count: f64) {
        let next = self.tree.next(at);
        let bound = self.capacity[pipe.index()];
        for &onward in next {
            let sum = self.turns.entry((pipe, onward)).or_default();
            *sum = (*sum + count * flow / next.len() as f64).min(bound);
        }
    }

    /// Adds what goes on from the last pipes of the tree to each of the clients, each in the one
    /// tree that is its own.
    fn leaf_turns(&mut self, to: NodeId, members: &[NodeId]) {
        let down = |host: &NodeId| self.leaves[host.index()].map(|leaf| leaf.down);
        for down in members.iter().filter_map(down) {
            for &(pipe, flow) in &self.arrivals {
                if self.topology.pipe(pipe).to == to {
                    let flow = flow.min(self.capacity[down.index()]);
                    self.turns.insert((pipe, down), flow);
                    self.ends[down.index()] = self.ends[down.index()].max(flow);
                }
            }
        }
    }

    /// Adds what goes from leaf to leaf of one node.
    fn neighbours(&mut self, members: &[NodeId]) {
        for a in members {
            for b in members.iter().filter(|b| *b != a) {
                let ends = (self.leaves[a.index()], self.leaves[b.index()]);
                if let (Some(from), Some(to)) = ends {
                    let (up, down) = (from.up, to.down);
                    let flow = self.capacity[up.index()].min(self.capacity[down.index()]);
                    self.turns.insert((up, down), flow);
                    self.ends[down.index()] = self.ends[down.index()].max(flow);
                }
            }
        }
    }
}
