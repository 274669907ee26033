//! What BRITE writes (Medina, Lakhina, Matta, Byers, "BRITE: Universal Topology Generation from a
//! User's Perspective", 2001): a line with the numbers of nodes and edges, then
//! `id x y indegree outdegree as type` for each node and
//! `id from to length delay bandwidth as-from as-to type [direction]` for each edge.
//!
//! Delays are in milliseconds and bandwidths in Mbit/s, as ns-3's reader takes them; a bandwidth
//! of 0 or less was not assigned. The direction is `U` or, for one way only, `D`.

use longhaul_core::Span;

use super::graph::{Edge, Graph, Node};
use super::options::ImportOptions;
use super::text::{Flaw, Piece, lines, rate};

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Head,
    Nodes,
    Edges,
}

/// Reads a BRITE file.
pub(super) fn read(text: &str, options: &ImportOptions) -> Result<Graph, Flaw> {
    let mut graph = Graph::default();
    let mut section = Section::Head;
    let mut promised = [None; 2];
    for line in lines(text) {
        let fields: Vec<Piece<'_>> = line.fields().take(12).collect();
        match (fields[0].text, section) {
            ("Nodes:", _) => (section, promised[0]) = (Section::Nodes, number_in(line)),
            ("Edges:", _) => (section, promised[1]) = (Section::Edges, number_in(line)),
            (_, Section::Head) => {}
            (_, Section::Nodes) => node(&mut graph, line, &fields)?,
            (_, Section::Edges) => edge(&mut graph, line, &fields, options)?,
        }
    }
    graph.join()?;
    let there = [graph.nodes.len(), graph.edges.len()];
    for ((promised, there), what) in promised.into_iter().zip(there).zip(["nodes", "edges"]) {
        if let Some(promised) = promised.filter(|promised| *promised != there) {
            let message = format!("there are {there} {what} instead of the {promised} announced");
            let hint = "the file may be cut off: fetch it again, or correct the number";
            return Err(Flaw::at(text.trim_end().len(), message, hint));
        }
    }
    Ok(graph)
}

/// The number of `Nodes: ( 20 )`.
fn number_in(line: Piece<'_>) -> Option<usize> {
    line.split(|c| !c.is_ascii_digit())
        .next()?
        .text
        .parse()
        .ok()
}

fn node(graph: &mut Graph, line: Piece<'_>, fields: &[Piece<'_>]) -> Result<(), Flaw> {
    let [id, x, y, ..] = fields else {
        let hint = "nodes are like `0 570.00 880.00 4 4 -1 RT_NODE`";
        return Err(line.flaw("this node has fewer than 3 fields", hint));
    };
    id.whole("the number of a node")?;
    let node = Node {
        at: id.at,
        position: Some((x.number("a coordinate")?, y.number("a coordinate")?)),
        ..Node::default()
    };
    graph.add_node(id.text, node)?;
    Ok(())
}

fn edge(
    graph: &mut Graph,
    line: Piece<'_>,
    fields: &[Piece<'_>],
    options: &ImportOptions,
) -> Result<(), Flaw> {
    let [_, from, to, _length, delay, bandwidth, rest @ ..] = fields else {
        let hint = "edges are like `0 3 2 260.06 0.87 10.00 -1 -1 E_RT U`";
        return Err(line.flaw("this edge has fewer than 6 fields", hint));
    };
    let mbit = bandwidth.number("a bandwidth")?;
    let edge = Edge {
        at: line.at,
        directed: rest.last().is_some_and(|field| field.text == "D"),
        rate: rate(mbit * 1e6),
        delay: Some(delay.delay(options.unit.unwrap_or(Span::from_ms(1)))?),
        ..Edge::default()
    };
    graph.known(*from)?;
    graph.known(*to)?;
    graph.add_edge_later(edge, [from.text.to_owned(), to.text.to_owned()])
}
