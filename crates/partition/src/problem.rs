//! From flows to the graphs that are split: by node, as this engine runs, and by pipe or by link,
//! as the paper's figures count.
//!
//! Theory: in the paper's flow graph each pipe is a vertex, and an edge joins pipes between which
//! packets turn. A node's owner has all pipes that leave it, so by node these are one vertex, and
//! an edge carries what crosses the pipes between two nodes. Pipes with a least delay of 0 cannot
//! be cut (see [`crate::lookahead`]): what they join is one vertex from the start, so no method
//! can do wrong.
//!
//! Left out: how vertices are split ([`crate::method`]).

use longhaul_core::{NodeId, PipeId, Span, Topology};

use crate::conservative::Conservative;
use crate::costs::Costs;
use crate::flows::{Flows, Turn};
use crate::graph::{Edge, Graph, Groups, Vertex};

/// What all loads and edges of a graph sum to, about: far from the ends of 64 bits.
const WHOLE: f64 = (1u64 << 48) as f64;

/// A network to be split.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The vertex of each node, or of each pipe.
    pub groups: Groups,
    /// Vertices with their expected work, edges with that of handing packets over.
    pub expected: Graph,
    /// The same with the paper's conservative weights, where they are to be used.
    pub conservative: Option<Graph>,
    /// Units of work per nanosecond of a core's time in a second of experiment.
    pub per_ns: f64,
    /// What work costs.
    pub costs: Costs,
}

/// What a problem is made of.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// By pipe.
    pub least_delays: &'a [Span],
    /// Expected traffic.
    pub flows: &'a Flows,
    /// The paper's weights, where nothing is known of the traffic.
    pub conservative: Option<&'a Conservative>,
    /// What work costs.
    pub costs: Costs,
}

/// Work and crossings in nanoseconds, before they are whole numbers.
struct Draft {
    vertices: Vec<(f64, u32)>,
    edges: Vec<([u32; 2], f64, u64)>,
}

impl Problem {
    /// The vertices are nodes.
    pub fn by_node(parts: &Parts<'_>) -> Self {
        let Parts {
            topology,
            least_delays,
            flows,
            costs,
            ..
        } = *parts;
        let least = |pipe: PipeId| {
            let back = topology.pipe(pipe).back;
            least_delays[pipe.index()].min(least_delays[back.index()])
        };
        let links = || {
            let pipes = topology.pipes().iter().zip(0..);
            let pipes = pipes.map(|(pipe, id)| (PipeId(id), pipe));
            pipes.filter(|(id, pipe)| *id < pipe.back)
        };
        let joined = links().filter(|(id, _)| least(*id) == Span::ZERO);
        let joined = joined.map(|(_, pipe)| [pipe.from.0, pipe.to.0]);
        let groups = Groups::join(topology.nodes().len(), joined);
        let work = node_work(topology, flows, &costs);
        let nodes = work.iter().zip(0..).map(|(work, node)| {
            let pipes = topology.outgoing(NodeId(node)).len();
            (*work, pipes as u32)
        });
        let edge = |(id, pipe): (PipeId, &longhaul_core::topology::Pipe)| {
            let packets = flows.pipes[id.index()] + flows.pipes[pipe.back.index()];
            let ends = [pipe.from.0, pipe.to.0].map(|node| groups.of[node as usize]);
            (ends, packets * costs.crossing_ns, least(id).as_ns())
        };
        let draft = Draft {
            vertices: nodes.collect(),
            edges: links().map(edge).collect(),
        };
        let (expected, per_ns) = draft.graph(&groups);
        let conservative = parts.conservative.map(|weights| {
            let loads = paper_loads(topology, weights);
            let mut nodes = draft.vertices.clone();
            nodes.iter_mut().for_each(|(load, _)| *load = 0.0);
            let mut into = weights.ends.clone();
            for turn in &weights.turns {
                into[turn.from.index()] += turn.packets;
            }
            for (pipe, load) in topology.pipes().iter().zip(loads) {
                nodes[pipe.from.index()].0 += load;
            }
            let edge = |(id, pipe): (PipeId, &longhaul_core::topology::Pipe)| {
                let ends = [pipe.from.0, pipe.to.0].map(|node| groups.of[node as usize]);
                let weight = into[id.index()] + into[pipe.back.index()];
                (ends, weight, least(id).as_ns())
            };
            let draft = Draft {
                vertices: nodes,
                edges: links().map(edge).collect(),
            };
            draft.graph(&groups).0
        });
        Self {
            groups,
            expected,
            conservative,
            per_ns,
            costs,
        }
    }

    /// The vertices are pipes, each on its own; `None` where turns are not listed.
    pub fn by_pipe(parts: &Parts<'_>) -> Option<Self> {
        Self::of_pipes(parts, false)
    }

    /// The vertices are links, both pipes of each together: the paper's flow graph is one of
    /// undirected edges. `None` where turns are not listed.
    pub fn by_link(parts: &Parts<'_>) -> Option<Self> {
        Self::of_pipes(parts, true)
    }

    fn of_pipes(parts: &Parts<'_>, links: bool) -> Option<Self> {
        let Parts {
            topology,
            least_delays,
            flows,
            costs,
            ..
        } = *parts;
        let turns = flows.turns.as_ref()?;
        let delay = |turn: &Turn| least_delays[turn.from.index()];
        let instant = turns.iter().filter(|turn| delay(turn) == Span::ZERO);
        let joined = instant.map(|turn| [turn.from.0, turn.to.0]);
        let pipes = topology.pipes().iter().zip(0..).filter(|_| links);
        let joined = joined.chain(pipes.map(|(pipe, id)| [id, pipe.back.0]));
        let groups = Groups::join(topology.pipes().len(), joined);
        let edges = |turns: &[Turn], per_packet: f64| -> Vec<_> {
            let ends = |turn: &Turn| [turn.from, turn.to].map(|pipe| groups.of[pipe.index()]);
            let edge = |turn: &Turn| (ends(turn), turn.packets * per_packet, delay(turn).as_ns());
            turns.iter().map(edge).collect()
        };
        let work = pipe_work(topology, flows, &costs);
        let draft = Draft {
            vertices: work.iter().map(|work| (*work, 1)).collect(),
            edges: edges(turns, costs.crossing_ns),
        };
        let (expected, per_ns) = draft.graph(&groups);
        let conservative = parts.conservative.map(|weights| {
            let loads = paper_loads(topology, weights).into_iter();
            let vertices = loads.map(|load| (load, 1)).collect();
            let edges = edges(&weights.turns, 1.0);
            Draft { vertices, edges }.graph(&groups).0
        });
        Some(Self {
            groups,
            expected,
            conservative,
            per_ns,
            costs,
        })
    }

    /// What METIS is given: the paper's weights where nothing is known, else expected ones.
    pub fn weights(&self) -> &Graph {
        self.conservative.as_ref().unwrap_or(&self.expected)
    }

    /// What windows of this look-ahead cost, in units of work.
    pub(crate) fn windows(&self, look_ahead: Option<u64>) -> u64 {
        let span = look_ahead.map(Span::from_ns);
        (self.costs.windows(span) * self.per_ns) as u64
    }
}

/// The work of each node in nanoseconds: pipes that leave it, and what its programs send and
/// receive.
pub(crate) fn node_work(topology: &Topology, flows: &Flows, costs: &Costs) -> Vec<f64> {
    let ends = flows.sent.iter().zip(&flows.received);
    let mut work: Vec<f64> = ends.map(|(s, r)| (s + r) * costs.end_ns).collect();
    for (pipe, packets) in topology.pipes().iter().zip(&flows.pipes) {
        work[pipe.from.index()] += packets * costs.hop_ns;
    }
    work
}

/// The work of each pipe in nanoseconds: its packets, and those that set off into it or are at
/// their end behind it.
pub(crate) fn pipe_work(topology: &Topology, flows: &Flows, costs: &Costs) -> Vec<f64> {
    let mut ends = vec![0.0; topology.pipes().len()];
    // What does not turn from another pipe sets off here; what does not turn on ends here.
    for (end, packets) in ends.iter_mut().zip(&flows.pipes) {
        *end = 2.0 * packets;
    }
    for turn in flows.turns.iter().flatten() {
        ends[turn.from.index()] -= turn.packets;
        ends[turn.to.index()] -= turn.packets;
    }
    let hops = flows.pipes.iter().map(|packets| packets * costs.hop_ns);
    let ends = ends.iter().map(|end| end.max(0.0) * costs.end_ns);
    hops.zip(ends).map(|(hops, ends)| hops + ends).collect()
}

/// The paper's weight of each pipe: all that turns from it and into it.
fn paper_loads(topology: &Topology, weights: &Conservative) -> Vec<f64> {
    let mut loads = vec![0.0; topology.pipes().len()];
    for turn in &weights.turns {
        loads[turn.from.index()] += turn.packets;
        loads[turn.to.index()] += turn.packets;
    }
    loads
}

impl Draft {
    /// The graph of the groups, and how many units a nanosecond is. Without any work each pipe
    /// counts the same.
    fn graph(&self, groups: &Groups) -> (Graph, f64) {
        let loads: f64 = self.vertices.iter().map(|(load, _)| load).sum();
        let edges: f64 = self.edges.iter().map(|(_, weight, _)| weight).sum();
        let idle = loads <= 0.0;
        let per_ns = if idle { 1.0 } else { WHOLE / (loads + edges) };
        let load = |(load, size): (f64, u32)| {
            if idle {
                u64::from(size) << 20
            } else {
                whole(load * per_ns)
            }
        };
        let mut vertices = vec![Vertex::default(); groups.count];
        for (draft, group) in self.vertices.iter().zip(&groups.of) {
            let vertex = &mut vertices[*group as usize];
            vertex.load += load(*draft);
            vertex.size += draft.1;
        }
        (Graph::new(&vertices, &self.whole_edges(per_ns)), per_ns)
    }

    fn whole_edges(&self, per_unit: f64) -> Vec<Edge> {
        let edge = |&(ends, weight, delay): &([u32; 2], f64, u64)| Edge {
            ends,
            weight: whole(weight * per_unit),
            delay,
        };
        self.edges.iter().map(edge).collect()
    }
}

/// To the nearest whole number, and what is not nothing to at least 1.
fn whole(value: f64) -> u64 {
    let nearest = (value + 0.5) as u64;
    if value > 0.0 { nearest.max(1) } else { 0 }
}
