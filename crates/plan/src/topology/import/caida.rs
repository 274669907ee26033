//! CAIDA's relationships of autonomous systems: lines `provider|customer|-1` and `peer|peer|0`
//! (serial-1), with the source of the knowledge as a fourth field (serial-2).
//!
//! An autonomous system without customers is a stub. Delays and rates are not known. Routes of
//! this program are shortest paths: that providers do not carry their peers' traffic to other
//! peers for free (Gao, "On Inferring Autonomous System Relationships in the Internet", 2001) is
//! not modelled.

use super::graph::{Edge, Graph};
use super::text::{Flaw, Piece, lines};
use crate::text::error::shown;

/// Reads a file of relationships.
pub(super) fn read(text: &str) -> Result<Graph, Flaw> {
    let mut graph = Graph::default();
    for line in lines(text) {
        let fields: Vec<Piece<'_>> = line.split(|c| c == '|').take(4).collect();
        let [a, b, relation, ..] = fields[..] else {
            let hint = "lines are like `174|3356|0` or `174|64512|-1|bgp`";
            return Err(line.flaw("this line has fewer than 3 fields", hint));
        };
        let [a, b] = [system(&mut graph, a)?, system(&mut graph, b)?];
        let label = match relation.text.trim() {
            "-1" => {
                graph.nodes[a].stub = Some(false);
                "provider to customer"
            }
            "0" => "peers",
            other => {
                let message = format!("`{}` is not a relationship", shown(other));
                let hint = "-1 is a provider with its customer, and 0 are peers";
                return Err(relation.flaw(message, hint));
            }
        };
        graph.add_edge(Edge {
            at: line.at,
            ends: [a, b],
            label: Some(label.to_owned()),
            ..Edge::default()
        })?;
    }
    if !graph.edges.is_empty() {
        let note = "routes between autonomous systems are shortest paths here, whatever their \
                    relationships forbid";
        graph.notes.push(note.to_owned());
    }
    Ok(graph)
}

fn system(graph: &mut Graph, field: Piece<'_>) -> Result<usize, Flaw> {
    let number: u32 = field.text.trim().parse().map_err(|_| {
        let message = format!(
            "`{}` is not the number of an autonomous system",
            shown(field.text)
        );
        field.flaw(message, "those are whole numbers below 2^32")
    })?;
    let before = graph.nodes.len();
    let node = graph.node(field)?;
    if node == before {
        graph.nodes[node].label = Some(format!("AS{number}"));
        graph.nodes[node].stub = Some(true);
    }
    Ok(node)
}
