//! Paths: who reaches whom, how long and how wide the longest paths are, and what follows for
//! TCP buffers.
//!
//! Packets take the path of the least delay, then of the fewest hops, and hosts never forward. One
//! search per kind of host (hosts joined to the same router by equal links see the same network)
//! finds the longest round trip to other hosts and, going back up the tree of paths, the longest
//! round trip through every pipe. Round trips return by the same links. A path without any rate
//! counts as 10 Gbit/s.
//!
//! Left out: very large networks of very different hosts (see [`BUDGET`]) get an upper bound of the
//! round trips, and no warning of short queues.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use longhaul_core::topology::NodeKind;
use longhaul_core::{NodeId, PipeId, Topology};

use super::nodes::Nodes;
use crate::text::error::Faults;

/// The rate of a path without any, in bits per second.
pub(super) const UNLIMITED: u64 = 10_000_000_000;
/// How many nodes and pipes all searches together may visit: about half a second.
const BUDGET: usize = 20_000_000;
/// The smallest and the largest automatic TCP buffer.
const TCP_BUFFER: [u64; 2] = [4 << 20, 1 << 30];
/// How far and how wide the network is.
#[derive(Debug)]
pub(crate) struct Reach {
    /// By node: the largest bandwidth-delay product to another host in bytes.
    product: Vec<u64>,
    /// By pipe: the longest round trip through it in nanoseconds, 0 where unknown.
    pub(super) round_trip: Vec<u64>,
}

impl Reach {
    /// The TCP buffer that keeps the longest path of a host full, four times over.
    pub(crate) fn tcp_buffer(&self, host: NodeId) -> u64 {
        let [least, most] = TCP_BUFFER;
        self.product[host.index()]
            .saturating_mul(4)
            .next_multiple_of(4096)
            .clamp(least, most)
    }
}

/// `rate` in bit/s times `time_ns`, in bytes.
pub fn bytes(rate: u64, time_ns: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(time_ns) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX / 8)
}

/// Searches from every kind of host.
pub(crate) fn measure(topology: &Topology) -> Reach {
    let (nodes, pipes) = (topology.nodes().len(), topology.pipes().len());
    let mut reach = Reach {
        product: vec![0; nodes],
        round_trip: vec![0; pipes],
    };
    let kinds = kinds_of_hosts(topology);
    let mut search = Search::new(topology);
    if kinds.len().saturating_mul(nodes + pipes) > BUDGET {
        bound(topology, &kinds, &mut search, &mut reach);
        return reach;
    }
    for members in &kinds {
        search.run(members[0]);
        let product = search.longest(&mut reach.round_trip);
        for member in members {
            reach.product[member.index()] = product;
        }
        // Only one member was searched from. Its access pipes stand for those of the others: out as
        // they are, and in with the longest round trip that the search found into any member.
        if members.len() > 1 {
            let own = |member: &NodeId| topology.outgoing(*member)[0];
            let out = own(&members[0]);
            let back = |member: &NodeId| topology.pipe(own(member)).back;
            let into = members
                .iter()
                .map(|m| reach.round_trip[back(m).index()])
                .max()
                .unwrap_or(0);
            for member in members {
                reach.round_trip[own(member).index()] = reach.round_trip[out.index()];
                reach.round_trip[back(member).index()] = into;
            }
        }
    }
    reach
}

/// An upper bound from one search: any path is at most as long as the detour over one host.
fn bound(topology: &Topology, kinds: &[Vec<NodeId>], search: &mut Search<'_>, reach: &mut Reach) {
    let Some(hub) = kinds.first().map(|members| members[0]) else {
        return;
    };
    search.run(hub);
    let round_trip = |host: NodeId| search.round_trip(host);
    let farthest = topology
        .hosts()
        .map(|(host, _)| round_trip(host))
        .max()
        .unwrap_or(0);
    for (host, _) in topology.hosts() {
        let rates = topology
            .outgoing(host)
            .iter()
            .map(|pipe| topology.pipe(*pipe).params.rate);
        let rate = rates
            .map(|rate| rate.map_or(UNLIMITED, |rate| rate.bits_per_s()))
            .max();
        let longest = round_trip(host).saturating_add(farthest);
        reach.product[host.index()] = bytes(rate.unwrap_or(0), longest);
    }
}

/// Hosts in groups of those that see the same network.
fn kinds_of_hosts(topology: &Topology) -> Vec<Vec<NodeId>> {
    let mut kinds: Vec<Vec<NodeId>> = Vec::new();
    let mut known = HashMap::new();
    for (host, _) in topology.hosts() {
        let &[out] = topology.outgoing(host) else {
            kinds.push(vec![host]);
            continue;
        };
        let (out, back) = (topology.pipe(out), topology.pipe(topology.pipe(out).back));
        if topology.node(out.to).kind == NodeKind::Host {
            kinds.push(vec![host]);
            continue;
        }
        let key = (
            out.to,
            out.params.rate,
            out.params.delay,
            back.params.rate,
            back.params.delay,
        );
        let index = *known.entry(key).or_insert(kinds.len());
        match kinds.get_mut(index) {
            Some(members) => members.push(host),
            None => kinds.push(vec![host]),
        }
    }
    kinds
}

/// Dijkstra's search from a host, with memory that is used again.
struct Search<'a> {
    topology: &'a Topology,
    /// By node: delay and hops from the source; `u64::MAX` where unknown.
    distance: Vec<(u64, u32)>,
    /// By node: the delay back over the same links, and the smallest rate on the way.
    back: Vec<(u64, u64)>,
    /// By node: the pipe that leads to it.
    via: Vec<PipeId>,
    /// Nodes in the order of their distance.
    order: Vec<NodeId>,
}

impl<'a> Search<'a> {
    fn new(topology: &'a Topology) -> Self {
        let nodes = topology.nodes().len();
        Self {
            topology,
            distance: vec![(u64::MAX, 0); nodes],
            back: vec![(0, UNLIMITED); nodes],
            via: vec![PipeId(u32::MAX); nodes],
            order: Vec::with_capacity(nodes),
        }
    }

    fn run(&mut self, source: NodeId) {
        self.distance.fill((u64::MAX, 0));
        self.order.clear();
        self.distance[source.index()] = (0, 0);
        self.back[source.index()] = (0, UNLIMITED);
        let mut open = BinaryHeap::from([Reverse((0, 0, source))]);
        while let Some(Reverse((delay, hops, node))) = open.pop() {
            if (delay, hops) != self.distance[node.index()] {
                continue;
            }
            self.order.push(node);
            // Hosts never forward: a path may end at one, not lead through it.
            if node != source && self.topology.node(node).kind == NodeKind::Host {
                continue;
            }
            for &id in self.topology.outgoing(node) {
                let pipe = self.topology.pipe(id);
                let next = (
                    delay
                        .saturating_add(pipe.params.delay.as_ns())
                        // `u64::MAX` is kept for unknown distances.
                        .min(u64::MAX - 1),
                    hops + 1,
                );
                if next < self.distance[pipe.to.index()] {
                    let return_delay = self.topology.pipe(pipe.back).params.delay.as_ns();
                    let rate = pipe.params.rate.map_or(UNLIMITED, |rate| rate.bits_per_s());
                    let (back, narrowest) = self.back[node.index()];
                    self.distance[pipe.to.index()] = next;
                    // The first pipe replaces `UNLIMITED` instead of being capped by it, so that a
                    // path of rates above 10 Gbit/s keeps them.
                    let narrowest = if hops == 0 { rate } else { narrowest.min(rate) };
                    self.back[pipe.to.index()] = (back.saturating_add(return_delay), narrowest);
                    self.via[pipe.to.index()] = id;
                    open.push(Reverse((next.0, next.1, pipe.to)));
                }
            }
        }
    }

    /// The round trip to a node of the last search; 0 where no path leads there.
    fn round_trip(&self, node: NodeId) -> u64 {
        match self.distance[node.index()].0 {
            u64::MAX => 0,
            delay => delay.saturating_add(self.back[node.index()].0),
        }
    }

    /// The largest bandwidth-delay product to another host; `through` is raised, pipe by pipe, to
    /// the longest round trip that leads through it.
    fn longest(&self, through: &mut [u64]) -> u64 {
        let mut product = 0;
        let mut farthest: Vec<u64> = vec![0; self.distance.len()];
        // Farthest first, so that a node has heard from its whole subtree before it passes its
        // maximum to its parent.
        for &node in self.order.iter().skip(1).rev() {
            if self.topology.node(node).kind == NodeKind::Host {
                let round_trip = self.round_trip(node);
                product = product.max(bytes(self.back[node.index()].1, round_trip));
                farthest[node.index()] = round_trip;
            }
            let via = self.via[node.index()];
            let (far, parent) = (farthest[node.index()], self.topology.pipe(via).from);
            farthest[parent.index()] = farthest[parent.index()].max(far);
            through[via.index()] = through[via.index()].max(far);
        }
        product
    }
}

/// Two hosts without a path between them are an error; the first such host is named.
pub(crate) fn check_reachable(topology: &Topology, nodes: &Nodes, faults: &mut Faults) {
    let areas = router_areas(topology);
    let hosts: Vec<NodeId> = {
        let entries = nodes.list.iter().filter(|node| node.kind == NodeKind::Host);
        entries
            .filter_map(|node| topology.find(&node.name))
            .collect()
    };
    let mut members: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for &host in &hosts {
        let mut own: Vec<u32> = neighbours(topology, host)
            .filter_map(|n| areas[n.index()])
            .collect();
        own.sort_unstable();
        own.dedup();
        own.into_iter()
            .for_each(|area| members.entry(area).or_default().push(host));
    }
    // The usual case: all hosts are joined to one network of routers.
    if members.values().any(|area| area.len() == hosts.len()) {
        return;
    }
    // By node: the last host that was found to reach it, so that nothing is cleared between hosts.
    let mut seen: Vec<Option<NodeId>> = vec![None; topology.nodes().len()];
    for &host in &hosts {
        seen[host.index()] = Some(host);
        for neighbour in neighbours(topology, host) {
            seen[neighbour.index()] = Some(host);
            let area = areas[neighbour.index()].and_then(|area| members.get(&area));
            area.into_iter()
                .flatten()
                .for_each(|other| seen[other.index()] = Some(host));
        }
        let mut unseen = hosts
            .iter()
            .filter(|other| seen[other.index()] != Some(host));
        if let Some(&other) = unseen.next() {
            return refuse(topology, nodes, (host, other), unseen.count(), faults);
        }
    }
}

fn refuse(
    topology: &Topology,
    nodes: &Nodes,
    (host, other): (NodeId, NodeId),
    more: usize,
    faults: &mut Faults,
) {
    let name = |id: NodeId| topology.node(id).name.as_str();
    let more = match more {
        0 => String::new(),
        1 => " (nor to 1 more host)".to_owned(),
        n => format!(" (nor to {n} more hosts)"),
    };
    let message = format!(
        "no path leads from `{}` to `{}`{more}",
        name(host),
        name(other)
    );
    let lonely = [other, host]
        .into_iter()
        .find(|id| topology.outgoing(*id).is_empty());
    let hint = match lonely {
        Some(id) => format!("`{}` has no link: add one to `topology: links`", name(id)),
        None => "join them by links; hosts do not forward, so a node in between is a router".into(),
    };
    let index = nodes.find(name(lonely.unwrap_or(other)));
    let at = index.map(|index| nodes.list[index].at).unwrap_or_default();
    faults.add(at, message, hint);
}

fn neighbours(topology: &Topology, node: NodeId) -> impl Iterator<Item = NodeId> {
    topology
        .outgoing(node)
        .iter()
        .map(|pipe| topology.pipe(*pipe).to)
}

/// By router or lan: the number of the connected component of routers and lans that it is in.
fn router_areas(topology: &Topology) -> Vec<Option<u32>> {
    let transits = |id: NodeId| topology.node(id).kind.transits();
    let mut areas = vec![None; topology.nodes().len()];
    for (start, area) in (0..topology.nodes().len() as u32).map(NodeId).zip(0..) {
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if transits(node) && areas[node.index()].is_none() {
                areas[node.index()] = Some(area);
                open.extend(neighbours(topology, node));
            }
        }
    }
    areas
}
