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
//! **Bounds.** Work is bounded by [`MOST_VISITS`]: with more destinations an even sample of them
//! stands for all, and the flow of a link is the mean of its directions. Turns, which grow with the
//! squares of degrees, are listed up to [`MOST_TURNS`] and left out beyond.
//!
//! Left out: packets for groups and for all, errors, and what hosts send to themselves.

mod block;

use longhaul_core::topology::NodeKind;
use longhaul_core::{PipeId, Topology};
use rustc_hash::FxHashMap;

use crate::matrix::{self, Block, TrafficMatrix};
use crate::tree::leaves;
use block::Pass;

/// Nodes and pipes that all searches together may visit: about a second.
pub const MOST_VISITS: usize = 60_000_000;
/// The most pairs of neighbouring pipes for which turns are listed.
pub const MOST_TURNS: usize = 8_000_000;
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
        Self::bounded(topology, matrix, turns, MOST_VISITS)
    }

    /// The same where all searches together may visit so many nodes and pipes.
    pub fn bounded(
        topology: &Topology,
        matrix: &TrafficMatrix,
        turns: bool,
        most_visits: usize,
    ) -> Self {
        let turns = turns && turns_are_few(topology);
        let most = (most_visits / visits(topology)).max(16);
        let blocks = blocks(matrix, topology);
        let mut pass = Pass::new(topology, most, turns);
        blocks.each(|block| pass.forward(block));
        if let Some(ratios) = overload(topology, pass.pipes()) {
            pass.restart(ratios);
            blocks.each(|block| pass.forward(block));
        }
        blocks.each(|block| pass.replies(block));
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
    let degrees = (0..nodes).map(|node| topology.outgoing(longhaul_core::NodeId(node)).len());
    let turns = degrees.fold(0usize, |sum, degree| sum.saturating_add(degree * degree));
    turns <= MOST_TURNS
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
    /// Single pairs, one block for each receiver and ratio of replies.
    pairs: Vec<Block>,
}

impl Blocks<'_> {
    fn each(&self, mut act: impl FnMut(&Block)) {
        self.matrix.blocks.iter().for_each(&mut act);
        self.pairs.iter().for_each(act);
    }
}

fn blocks<'a>(matrix: &'a TrafficMatrix, topology: &Topology) -> Blocks<'a> {
    let attached = leaves(topology);
    let at = |node: longhaul_core::NodeId| attached[node.index()].map_or(node, |leaf| leaf.at);
    let mut list: Vec<_> = matrix
        .pairs
        .iter()
        .filter(|pair| pair.from != pair.to)
        .collect();
    // Receivers of one node stand together, so that they find its table made.
    list.sort_by(|a, b| {
        let key = |pair: &matrix::Pair| (at(pair.to), pair.to);
        let replies = a.replies.total_cmp(&b.replies);
        key(a).cmp(&key(b)).then(replies).then(a.from.cmp(&b.from))
    });
    let mut pairs: Vec<Block> = Vec::new();
    for pair in list {
        match pairs.last_mut() {
            Some(block) if block.to[0].0 == pair.to && block.replies == pair.replies => {
                match block.from.last_mut() {
                    Some((from, packets)) if *from == pair.from => *packets += pair.packets,
                    _ => block.from.push((pair.from, pair.packets)),
                }
            }
            _ => pairs.push(Block {
                from: vec![(pair.from, pair.packets)],
                to: vec![(pair.to, 1.0)],
                replies: pair.replies,
            }),
        }
    }
    Blocks { matrix, pairs }
}
