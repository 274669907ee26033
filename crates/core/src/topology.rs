//! The target network: nodes and the pipes between them, numbered by name.
//!
//! Each direction of a link is a pipe. Nodes and pipes get their numbers in the order of their
//! names, never in the order of a file, so that the event order (and with it every result) does
//! not depend on how a file was written.
//!
//! Left out: where a topology comes from (`longhaul-plan` reads files) and how packets find
//! their way ([`crate::route`]).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

pub use crate::params::PipeParams;

/// The number of a node: its place among all nodes sorted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The number of a pipe: its place among all pipes sorted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub u32);

impl NodeId {
    /// For indexing tables of nodes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PipeId {
    /// For indexing tables of pipes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node does with packets that are not for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Runs programs; never forwards.
    Host,
    /// Forwards.
    Router,
    /// Joins its neighbours as a switch does: passes frames on as they are, and those for a
    /// group to all.
    Lan,
}

impl NodeKind {
    /// Whether paths may lead through such a node.
    pub const fn transits(self) -> bool {
        !matches!(self, Self::Host)
    }
}

/// Which of several equally short next pipes packets take; of those of one node, the first
/// pipe's setting counts. See [`crate::route::balance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Balance {
    /// All take the first one.
    #[default]
    First,
    /// Each flow takes one by its hash.
    Flow,
    /// Each new flow takes the next one in turn, and stays with it.
    RoundRobin,
}

/// A node of the target network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Unique among nodes.
    pub name: String,
    /// Host, router or lan.
    pub kind: NodeKind,
    /// Its one IPv4 address; a lan has none, and this is ignored.
    pub ipv4: Ipv4Addr,
    /// Its one IPv6 address; a lan has none.
    pub ipv6: Ipv6Addr,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipe {
    /// Unique among pipes: `x>y`, `x>y#2`.
    pub name: String,
    /// The link that it is a direction of: `x-y`.
    pub link: String,
    /// Where packets come from.
    pub from: NodeId,
    /// Where packets go.
    pub to: NodeId,
    /// The link's other direction.
    pub back: PipeId,
    /// The largest IP packet it carries, in bytes.
    pub mtu: u32,
    /// Whether it shares packets with equally good pipes.
    pub balance: Balance,
    /// What it does to packets; pipes that do the same may share it.
    pub params: Arc<PipeParams>,
}

/// Why a set of nodes and links is not a topology.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("two nodes are called `{0}`")]
    DuplicateNode(String),
    /// Two links of one name.
    #[error("two links are called `{0}`")]
    DuplicateLink(String),
    /// A link whose end does not exist.
    #[error("link `{link}` ends at `{node}`, which is not a node")]
    UnknownEnd {
        /// The link.
        link: String,
        /// The missing node.
        node: String,
    },
    /// A link from a node to itself.
    #[error("link `{0}` leads from a node to itself")]
    SelfLink(String),
    /// Two nodes of one address.
    #[error("`{first}` and `{second}` have the same address {address}")]
    DuplicateAddress {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// What they share.
        address: String,
    },
    /// A link that closes a ring of lans: a broadcast would circulate for ever.
    #[error("link `{0}` closes a loop of LAN segments")]
    LanRing(String),
}

/// A checked network. Build one with [`Topology::new`].
#[derive(Debug, Clone)]
pub struct Topology {
    nodes: Vec<Node>,
    pipes: Vec<Pipe>,
    /// By node, and at the end: where its pipes begin in the list of those that leave nodes.
    starts: Vec<u32>,
    outgoing: Vec<PipeId>,
    /// The first pipe of each link, in the order of the links' names.
    by_link: Vec<PipeId>,
    by_ipv4: FxHashMap<Ipv4Addr, NodeId>,
    by_ipv6: FxHashMap<Ipv6Addr, NodeId>,
}

/// A duplex link between two named nodes, as [`Topology::new`] takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// `x-y`, `x-y#2` or a name of its own.
    pub name: String,
    /// The names of its ends.
    pub ends: [String; 2],
    /// The names of its pipes, first end to second and back.
    pub pipe_names: [String; 2],
    /// The largest IP packet it carries, in bytes.
    pub mtu: u32,
    /// Whether its pipes share packets with equally good ones, such as parallel links.
    pub balance: Balance,
    /// First end to second, and back.
    pub params: [Arc<PipeParams>; 2],
}

impl Link {
    /// A link called `x-y` with the pipes `x>y` and `y>x`, the same both ways, MTU 1500, sharing
    /// nothing.
    pub fn new(x: &str, y: &str, params: impl Into<Arc<PipeParams>>) -> Self {
        let params = params.into();
        Self {
            name: format!("{x}-{y}"),
            ends: [x.to_owned(), y.to_owned()],
            pipe_names: [format!("{x}>{y}"), format!("{y}>{x}")],
            mtu: 1500,
            balance: Balance::First,
            params: [Arc::clone(&params), params],
        }
    }
}

impl Topology {
    /// Checks names, ends, addresses and that lans form no ring, and numbers everything by name.
    pub fn new(mut nodes: Vec<Node>, links: Vec<Link>) -> Result<Self, TopologyError> {
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(TopologyError::DuplicateNode(pair[0].name.clone()));
        }
        let (by_ipv4, by_ipv6) = address_tables(&nodes)?;
        let pipes = number_pipes(links, &nodes)?;
        check_lans(&nodes, &pipes)?;
        let (starts, outgoing) = by_sender(&pipes, nodes.len());
        Ok(Self {
            by_link: by_link(&pipes)?,
            nodes,
            pipes,
            starts,
            outgoing,
            by_ipv4,
            by_ipv6,
        })
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All pipes, by number.
    pub fn pipes(&self) -> &[Pipe] {
        &self.pipes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// One pipe.
    pub fn pipe(&self, id: PipeId) -> &Pipe {
        &self.pipes[id.index()]
    }

    /// The pipes that leave a node, by number.
    pub fn outgoing(&self, node: NodeId) -> &[PipeId] {
        let of = |node: usize| self.starts[node] as usize;
        &self.outgoing[of(node.index())..of(node.index() + 1)]
    }

    /// The hosts, by number.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let nodes = self
            .nodes
            .iter()
            .zip(0..)
            .map(|(node, id)| (NodeId(id), node));
        nodes.filter(|(_, node)| node.kind == NodeKind::Host)
    }

    /// The node of a name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        find(&self.nodes, name)
    }

    /// The node of an IPv4 address.
    pub fn by_ipv4(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.by_ipv4.get(&address).copied()
    }

    /// The node of an IPv6 address.
    pub fn by_ipv6(&self, address: Ipv6Addr) -> Option<NodeId> {
        self.by_ipv6.get(&address).copied()
    }

    /// The pipe of a name (`x>y`), or both pipes of a link (`x-y`), or none.
    pub fn find_pipes(&self, name: &str) -> Vec<PipeId> {
        let own = |&pipe: &PipeId| self.pipe(pipe).link.as_str();
        let place = self.by_link.binary_search_by(|pipe| own(pipe).cmp(name));
        let link = place.map_or(Vec::new(), |place| {
            let pipe = self.by_link[place];
            vec![pipe, self.pipe(pipe).back]
        });
        let pipe = self.pipes.binary_search_by(|pipe| (*pipe.name).cmp(name));
        let mut found = link;
        found.extend(pipe.ok().map(|id| PipeId(id as u32)));
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The node of a name among nodes in the order of their names.
fn find(nodes: &[Node], name: &str) -> Option<NodeId> {
    let place = nodes.binary_search_by(|node| (*node.name).cmp(name));
    place.ok().map(|id| NodeId(id as u32))
}

/// The pipes that leave nodes, node by node, by number; where those of each node begin, and at
/// the end where all end.
fn by_sender(pipes: &[Pipe], nodes: usize) -> (Vec<u32>, Vec<PipeId>) {
    let mut starts = vec![0; nodes + 1];
    for pipe in pipes {
        starts[pipe.from.index() + 1] += 1;
    }
    for node in 0..nodes {
        starts[node + 1] += starts[node];
    }
    let mut next = starts.clone();
    let mut outgoing = vec![PipeId(0); pipes.len()];
    for (pipe, id) in pipes.iter().zip(0..) {
        let place = &mut next[pipe.from.index()];
        outgoing[*place as usize] = PipeId(id);
        *place += 1;
    }
    (starts, outgoing)
}

/// The first pipe of each link, in the order of the links' names.
fn by_link(pipes: &[Pipe]) -> Result<Vec<PipeId>, TopologyError> {
    let link = |id: &PipeId| pipes[id.index()].link.as_str();
    let ids = (0..pipes.len() as u32).map(PipeId);
    let mut first: Vec<PipeId> = ids.filter(|&id| id < pipes[id.index()].back).collect();
    first.sort_unstable_by(|a, b| link(a).cmp(link(b)));
    match first
        .windows(2)
        .find(|pair| link(&pair[0]) == link(&pair[1]))
    {
        Some(pair) => Err(TopologyError::DuplicateLink(link(&pair[0]).to_owned())),
        None => Ok(first),
    }
}

type AddressTables = (FxHashMap<Ipv4Addr, NodeId>, FxHashMap<Ipv6Addr, NodeId>);

fn address_tables(nodes: &[Node]) -> Result<AddressTables, TopologyError> {
    let (mut by_ipv4, mut by_ipv6) = (FxHashMap::default(), FxHashMap::default());
    let addressed = nodes.iter().zip(0..);
    for (node, id) in addressed.filter(|(node, _)| node.kind != NodeKind::Lan) {
        let clash = |other: NodeId, address: String| TopologyError::DuplicateAddress {
            first: nodes[other.index()].name.clone(),
            second: node.name.clone(),
            address,
        };
        if let Some(other) = by_ipv4.insert(node.ipv4, NodeId(id)) {
            return Err(clash(other, node.ipv4.to_string()));
        }
        if let Some(other) = by_ipv6.insert(node.ipv6, NodeId(id)) {
            return Err(clash(other, node.ipv6.to_string()));
        }
    }
    Ok((by_ipv4, by_ipv6))
}

fn number_pipes(links: Vec<Link>, nodes: &[Node]) -> Result<Vec<Pipe>, TopologyError> {
    let mut pipes = Vec::with_capacity(links.len() * 2);
    for link in links {
        let end = |node: &String| {
            find(nodes, node).ok_or_else(|| TopologyError::UnknownEnd {
                link: link.name.clone(),
                node: node.clone(),
            })
        };
        let [x, y] = [end(&link.ends[0])?, end(&link.ends[1])?];
        if x == y {
            return Err(TopologyError::SelfLink(link.name));
        }
        let ways = [(x, y), (y, x)];
        for ((name, params), (from, to)) in link.pipe_names.into_iter().zip(link.params).zip(ways) {
            pipes.push(Pipe {
                name,
                link: link.name.clone(),
                from,
                to,
                back: PipeId(0),
                mtu: link.mtu,
                balance: link.balance,
                params,
            });
        }
    }
    in_order(pipes)
}

/// Sorts pipes by name; the two of a link are adjacent before.
fn in_order(mut pipes: Vec<Pipe>) -> Result<Vec<Pipe>, TopologyError> {
    // Numbers are sorted, and each pipe is moved to its place once.
    let mut order: Vec<u32> = (0..pipes.len() as u32).collect();
    let name = |number: u32| pipes[number as usize].name.as_str();
    order.sort_unstable_by(|&a, &b| name(a).cmp(name(b)));
    if let Some(pair) = order.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
        let link = &pipes[pair[0] as usize].link;
        return Err(TopologyError::DuplicateLink(link.clone()));
    }
    let mut places = vec![0; pipes.len()];
    for (new, &old) in (0..).zip(&order) {
        places[old as usize] = new;
    }
    for (old, pipe) in pipes.iter_mut().enumerate() {
        pipe.back = PipeId(places[old ^ 1]);
    }
    drop(order);
    for at in 0..pipes.len() {
        while places[at] as usize != at {
            let to = places[at] as usize;
            pipes.swap(at, to);
            places.swap(at, to);
        }
    }
    Ok(pipes)
}

/// Refuses rings of lans; links parallel to one another are none, since a frame for all takes one
/// of them.
fn check_lans(nodes: &[Node], pipes: &[Pipe]) -> Result<(), TopologyError> {
    // Disjoint sets: each lan points towards the representative of all lans that it is joined to.
    let mut parent: Vec<usize> = (0..nodes.len()).collect();
    let mut joined = FxHashSet::default();
    let is_lan = |node: NodeId| nodes[node.index()].kind == NodeKind::Lan;
    for pipe in pipes.iter().filter(|p| is_lan(p.from) && is_lan(p.to)) {
        if !joined.insert((pipe.from.min(pipe.to), pipe.from.max(pipe.to))) {
            continue;
        }
        let mut root = |mut node: usize| {
            while parent[node] != node {
                parent[node] = parent[parent[node]];
                node = parent[node];
            }
            node
        };
        let (x, y) = (root(pipe.from.index()), root(pipe.to.index()));
        if x == y {
            return Err(TopologyError::LanRing(pipe.link.clone()));
        }
        parent[x] = y;
    }
    Ok(())
}
