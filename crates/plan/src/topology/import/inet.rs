//! What Inet-3.0 writes (Winick, Jamin, "Inet-3.0: Internet Topology Generator", University of
//! Michigan, CSE-TR-456-02): a line with the numbers of nodes and links, then `id x y` for each
//! node and `from to length` for each link.
//!
//! Lengths are those of a plane without a unit: without the option `unit` they are not delays.

use super::graph::{Edge, Graph, Node};
use super::options::ImportOptions;
use super::text::{Flaw, Piece, lines};

/// Reads an Inet file.
pub(super) fn read(text: &str, options: &ImportOptions) -> Result<Graph, Flaw> {
    let mut graph = Graph::default();
    let mut lines = lines(text);
    let mut next = || {
        lines
            .next()
            .map(|line| (line, line.fields().take(4).collect::<Vec<_>>()))
    };
    let cut = |what: &str, there: usize, promised: usize| {
        let message = format!("there are {there} {what} instead of the {promised} announced");
        let hint = "the file may be cut off: fetch it again, or correct the first line";
        Flaw::at(text.trim_end().len(), message, hint)
    };
    let (nodes, links) = match next() {
        Some((_, head)) if head.len() == 2 => (
            head[0].whole("a number of nodes")?,
            head[1].whole("a number of links")?,
        ),
        Some((line, _)) => {
            let hint = "the first line has the numbers of nodes and links: `3037 4788`";
            return Err(line.flaw("this line does not have 2 fields", hint));
        }
        None => return Err(cut("nodes", 0, 1)),
    };
    for number in 0..nodes {
        let (line, fields) = next().ok_or_else(|| cut("nodes", number, nodes))?;
        let [id, x, y] = three(line, &fields, "nodes are like `0 4120 977`")?;
        id.whole("the number of a node")?;
        let node = Node {
            at: id.at,
            position: Some((x.number("a coordinate")?, y.number("a coordinate")?)),
            ..Node::default()
        };
        graph.add_node(id.text, node)?;
    }
    for number in 0..links {
        let (line, fields) = next().ok_or_else(|| cut("links", number, links))?;
        let [from, to, length] = three(line, &fields, "links are like `0 17 1250`")?;
        length.number("a length")?;
        graph.add_edge(Edge {
            at: line.at,
            ends: [graph.known(from)?, graph.known(to)?],
            delay: options.unit.map(|unit| length.delay(unit)).transpose()?,
            ..Edge::default()
        })?;
    }
    if let Some((line, _)) = next() {
        let hint = "correct the numbers in the first line, or remove the surplus lines";
        return Err(line.flaw("a line after the last link", hint));
    }
    if options.unit.is_none() && links > 0 {
        let note = "links have lengths without a unit: `unit: 1 us`, for example, makes delays of \
                    them";
        graph.notes.push(note.to_owned());
    }
    Ok(graph)
}

fn three<'a>(line: Piece<'a>, fields: &[Piece<'a>], hint: &str) -> Result<[Piece<'a>; 3], Flaw> {
    fields.try_into().map_err(|_| {
        let message = format!("this line has {} fields instead of 3", fields.len());
        line.flaw(message, hint)
    })
}
