//! From a traffic matrix to flows: how many packets per second each pipe carries, and how many of
//! them go on into which next pipe.
//!
//! Theory: all packets to one destination follow one next-hop table ([`crate::tree`]), so one pass
//! over its nodes sums what all sources send, O(nodes + pipes) for each destination instead of
//! O(path) for each pair. Where routes share packets over equal pipes, each gets an equal part.
//! Leaves of one node share its ways and are worked out together.
//!
//! **Narrow pipes.** Senders slow down where a pipe of their path is asked for more than it
//! carries: a first pass gives what each pipe is asked for, and each flow then counts with the
//! least ratio of capacity to demand on its path. No pipe inside the network carries more than its
//! rate then. Replies slow down with what they answer, by the pipes of the way back, which
//! are the same links where routes are symmetric.
//!
//! **Bounds.** Work is bounded by [`MAX_VISITS`]: with more destinations an even sample of them
//! stands for all. What goes towards a destination that few others lie behind is then known badly,
//! what comes from there well; so of a link's two directions the one on the way to more of the
//! sample counts for both. Turns, which grow with the
//! squares of degrees, are listed up to [`MAX_TURNS`] and left out beyond.
//!
//! Left out: packets for groups and for all, errors, and what hosts send to themselves.

mod block;

use longhaul_core::topology::NodeKind;
use longhaul_core::{NodeId, PipeId, Topology};
use rustc_hash::FxHashMap;

use crate::matrix::{self, Block, TrafficMatrix};
use crate::tree::leaves;
use block::Pass;

/// Nodes and pipes that all searches together may visit: about a second.
pub const MAX_VISITS: usize = 60_000_000;
/// The most pairs of neighbouring pipes for which turns are listed.
pub const MAX_TURNS: usize = 8_000_000;
/// Tables that routes keep at a time: destinations are asked for one after the other.
pub(crate) const ROUTE_ENTRIES: usize = 1 << 22;

/// Expected packets per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Flows {
    /// Into each pipe, by number.
    pub pipes: Vec<f64>,
    /// From programs and modelled traffic of each node into the network.
    pub sent: Vec<f64>,
    /// From the network to them.
    pub received: Vec<f64>,
    /// Into the network in all: the edge traffic.
    pub packets: f64,
    /// From pipe to pipe, in the order of their numbers; `None` where they are not listed.
    pub turns: Option<Vec<Turn>>,
    /// Destinations that were worked out, and all of them, where it was a sample.
    pub sample: Option<(usize, usize)>,
}

/// What goes on from one pipe into another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// Where packets come out.
    pub from: PipeId,
    /// Where they go on.
    pub to: PipeId,
    /// How many.
    pub packets: f64,
}

/// Sums of turns by pair of pipes.
pub(crate) type TurnSums = FxHashMap<(PipeId, PipeId), f64>;

impl Flows {
    /// The flows of `matrix`; with `turns`, those from pipe to pipe too.
    pub fn expected(topology: &Topology, matrix: &TrafficMatrix, turns: bool) -> Self {
        Self::bounded(topology, matrix, turns, MAX_VISITS)
    }

    /// [`Flows::expected`] with a bound on the nodes and pipes that all searches together may visit.
    pub fn bounded(
        topology: &Topology,
        matrix: &TrafficMatrix,
        turns: bool,
        most_visits: usize,
    ) -> Self {
        let turns = turns && turns_are_few(topology);
        let most = (most_visits / visits(topology)).max(16);
        let blocks = Blocks::new(matrix, topology, most);
        let mut pass = Pass::new(topology, most, turns);
        blocks.forward(|block, sampled| pass.forward(block, sampled));
        if let Some(ratios) = overload(topology, &pass.pipes()) {
            pass.restart(ratios);
            blocks.forward(|block, sampled| pass.forward(block, sampled));
        }
        blocks.replies(|block, sampled| pass.replies(block, sampled));
        pass.finish()
    }
}

/// The nodes and pipes that one destination's search may visit: leaves are in no tree.
pub(crate) fn visits(topology: &Topology) -> usize {
    let leaves = leaves(topology).into_iter().flatten().count();
    let all = topology.nodes().len() + topology.pipes().len();
    (all - 3 * leaves).max(1)
}

/// Whether the turns of a topology are few enough to be listed.
pub fn turns_are_few(topology: &Topology) -> bool {
    let nodes = topology.nodes().len() as u32;
    let degrees = (0..nodes).map(|node| topology.outgoing(NodeId(node)).len());
    let turns = degrees.fold(0usize, |sum, degree| sum.saturating_add(degree * degree));
    turns <= MAX_TURNS
}

/// Turns in the order of their pipes.
pub(crate) fn sorted(sums: TurnSums) -> Vec<Turn> {
    let turn = |((from, to), packets)| Turn { from, to, packets };
    let mut turns: Vec<Turn> = sums.into_iter().map(turn).collect();
    turns.sort_unstable_by_key(|turn| (turn.from, turn.to));
    turns
}

/// By pipe inside the network: what it carries of what it is asked for, where that is not all;
/// `None` where all pipes carry all.
fn overload(topology: &Topology, asked: &[f64]) -> Option<Vec<f64>> {
    let is_host = |node| topology.node(node).kind == NodeKind::Host;
    let mut any = false;
    let ratio = |(pipe, &asked): (&longhaul_core::topology::Pipe, &f64)| {
        let inner = !is_host(pipe.from) && !is_host(pipe.to);
        match matrix::capacity(&pipe.params) {
            Some(capacity) if inner && asked > capacity => {
                any = true;
                capacity / asked
            }
            _ => 1.0,
        }
    };
    let ratios = topology.pipes().iter().zip(asked).map(ratio).collect();
    any.then_some(ratios)
}

/// All traffic in product form.
struct Blocks<'a> {
    matrix: &'a TrafficMatrix,
    /// Single pairs, one block for each receiver.
    pairs: Vec<(Block, Sampled)>,
    /// Their replies, one block for each receiver of them.
    replies: Vec<(Block, Sampled)>,
}

/// Whether a block of pairs is in the sample of destinations.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sampled {
    /// There is no sample of blocks.
    All,
    /// It is in the sample and represents this many.
    For(f64),
    /// It is not in the sample; others represent it.
    Not,
}

impl<'a> Blocks<'a> {
    fn new(matrix: &'a TrafficMatrix, topology: &Topology, most: usize) -> Self {
        let attached = leaves(topology);
        let at = |node: NodeId| attached[node.index()].map_or(node, |leaf| leaf.at);
        let pairs = || matrix.pairs.iter().filter(|pair| pair.from != pair.to);
        let forward = pairs().map(|pair| (pair.from, pair.to, pair.packets));
        let back = pairs().map(|pair| (pair.to, pair.from, pair.packets * pair.replies));
        let back = back.filter(|(.., packets)| *packets > 0.0);
        Self {
            matrix,
            pairs: by_receiver(forward.collect(), at, most),
            replies: by_receiver(back.collect(), at, most),
        }
    }

    fn forward(&self, mut act: impl FnMut(&Block, Sampled)) {
        let blocks = self.matrix.blocks.iter();
        blocks.for_each(|block| act(block, Sampled::All));
        self.pairs
            .iter()
            .for_each(|(block, sampled)| act(block, *sampled));
    }

    fn replies(&self, mut act: impl FnMut(&Block, Sampled)) {
        for block in self
            .matrix
            .blocks
            .iter()
            .filter(|block| block.replies > 0.0)
        {
            let scaled = block
                .to
                .iter()
                .map(|&(host, weight)| (host, weight * block.replies));
            let replies = Block {
                from: scaled.collect(),
                to: block.from.clone(),
                replies: 0.0,
            };
            act(&replies, Sampled::All);
        }
        self.replies
            .iter()
            .for_each(|(block, sampled)| act(block, *sampled));
    }
}

/// Blocks of pairs (from, to, packets), one for each receiver. Pairs at no more than `most`
/// destinations are worked out, of more an even sample.
fn by_receiver(
    mut pairs: Vec<(NodeId, NodeId, f64)>,
    at: impl Fn(NodeId) -> NodeId,
    most: usize,
) -> Vec<(Block, Sampled)> {
    // Receivers of one node are adjacent, so that they find its table made.
    pairs.sort_by_key(|&(from, to, _)| (at(to), to, from));
    let groups = pairs.chunk_by(|a, b| at(a.1) == at(b.1));
    let step = groups.clone().count().div_ceil(most).max(1);
    let mut blocks = Vec::new();
    for (number, group) in groups.enumerate() {
        let sampled = match number % step {
            _ if step == 1 => Sampled::All,
            0 => Sampled::For(step as f64),
            _ => Sampled::Not,
        };
        let alike = group.chunk_by(|a, b| a.1 == b.1);
        blocks.extend(alike.map(|pairs| (of_one(pairs), sampled)));
    }
    blocks
}

/// Pairs with one receiver, in the order of their senders.
fn of_one(pairs: &[(NodeId, NodeId, f64)]) -> Block {
    let mut from: Vec<(NodeId, f64)> = Vec::new();
    for &(sender, _, packets) in pairs {
        match from.last_mut() {
            Some((last, sum)) if *last == sender => *sum += packets,
            _ => from.push((sender, packets)),
        }
    }
    Block {
        from,
        to: vec![(pairs[0].1, 1.0)],
        replies: 0.0,
    }
}
