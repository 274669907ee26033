//! What all formats come down to before anything is decided about it: nodes with the file's own
//! ids, edges with what the file says about them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use longhaul_core::Span;
use longhaul_core::units::{Probability, Rate};

use super::text::{Flaw, Piece, Tally};
use crate::limits::{MAX_LINKS, MAX_ROUTERS};
use crate::text::error::shown;
use crate::topology::SketchLabels;

/// How many edges are read: a directed file has one for each direction of a link.
const MAX_EDGES: usize = 2 * MAX_LINKS;

/// A node of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// Where it stands in the file, in bytes.
    pub(super) at: usize,
    /// What people call it; its id if that is absent.
    pub(super) label: Option<String>,
    /// Longitude and latitude where [`Graph::geographic`], else a point of a plane.
    pub(super) position: Option<(f64, f64)>,
    /// What the file says of the rates of hosts there, towards the node and from it.
    pub(super) access: [Option<Rate>; 2],
    /// Whether it carries nobody else's traffic, if the file says so.
    pub(super) stub: Option<bool>,
    /// What the file says that sets may choose it by.
    pub(super) labels: SketchLabels,
}

/// An edge of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Edge {
    /// Where it stands in the file, in bytes.
    pub(super) at: usize,
    /// The nodes, by number.
    pub(super) ends: [usize; 2],
    /// One direction of a link: another edge may be the other one.
    pub(super) directed: bool,
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Span>,
    pub(super) loss: Option<Probability>,
    /// What the file calls it.
    pub(super) label: Option<String>,
    /// What the file says that sets may choose it by.
    pub(super) labels: SketchLabels,
}

/// A network as a file has it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) title: Option<String>,
    /// Whether positions are on the Earth.
    pub(super) geographic: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    pub(super) notes: Vec<String>,
    by_id: HashMap<String, usize>,
    /// Edges whose ends are not known yet.
    waiting: Vec<(Edge, [String; 2])>,
}

impl Graph {
    /// An empty network; `geographic` if its positions are on the Earth.
    pub(super) fn new(geographic: bool) -> Self {
        Self {
            geographic,
            ..Self::default()
        }
    }

    /// Adds a node whose id must be new.
    pub(super) fn add_node(&mut self, id: &str, mut node: Node) -> Result<usize, Flaw> {
        if self.nodes.len() >= MAX_ROUTERS {
            return Err(too_many(node.at, MAX_ROUTERS, "nodes"));
        }
        let number = self.nodes.len();
        match self.by_id.entry(id.to_owned()) {
            Entry::Occupied(_) => {
                let message = format!("a second node with the id `{}`", shown(id));
                Err(Flaw::at(
                    node.at,
                    message,
                    "give each node an id of its own",
                ))
            }
            Entry::Vacant(entry) => {
                entry.insert(number);
                node.label.get_or_insert_with(|| id.to_owned());
                self.nodes.push(node);
                Ok(number)
            }
        }
    }

    /// The node of an id, which is added where it is new.
    pub(super) fn node(&mut self, id: Piece<'_>) -> Result<usize, Flaw> {
        match self.by_id.get(id.text) {
            Some(number) => Ok(*number),
            None => {
                let node = Node {
                    at: id.at,
                    ..Node::default()
                };
                self.add_node(id.text, node)
            }
        }
    }

    /// The node of an id that must be there.
    pub(super) fn known(&self, id: Piece<'_>) -> Result<usize, Flaw> {
        self.by_id.get(id.text).copied().ok_or_else(|| {
            let message = format!("there is no node with the id `{}`", shown(id.text));
            id.flaw(message, "add the node, or remove the edge")
        })
    }

    /// Adds an edge whose ends are known.
    pub(super) fn add_edge(&mut self, edge: Edge) -> Result<(), Flaw> {
        if self.edges.len() >= MAX_EDGES {
            return Err(too_many(edge.at, MAX_EDGES, "edges"));
        }
        self.edges.push(edge);
        Ok(())
    }

    /// Adds an edge between nodes that may still follow; [`Self::join`] finds them.
    pub(super) fn add_edge_later(&mut self, edge: Edge, ends: [String; 2]) -> Result<(), Flaw> {
        if self.waiting.len() >= MAX_EDGES {
            return Err(too_many(edge.at, MAX_EDGES, "edges"));
        }
        self.waiting.push((edge, ends));
        Ok(())
    }

    /// Finds the ends of the edges that wait for them.
    pub(super) fn join(&mut self) -> Result<(), Flaw> {
        for (mut edge, ends) in std::mem::take(&mut self.waiting) {
            let at = edge.at;
            let find = |id: &str| self.known(Piece { at, text: id });
            edge.ends = [find(&ends[0])?, find(&ends[1])?];
            self.edges.push(edge);
        }
        Ok(())
    }

    /// Adds what a tally says, if anything.
    pub(super) fn note(&mut self, tally: &Tally, what: (&str, &str), rest: impl AsRef<str>) {
        self.notes.extend(tally.note(what, rest));
    }

    /// What a node is called in messages.
    pub(super) fn called(&self, node: usize) -> String {
        self.nodes[node].label.clone().unwrap_or_default()
    }

    /// Both ends of an edge, for messages.
    pub(super) fn between(&self, ends: [usize; 2]) -> String {
        format!("{} – {}", self.called(ends[0]), self.called(ends[1]))
    }
}

fn too_many(at: usize, limit: usize, what: &str) -> Flaw {
    Flaw::at(
        at,
        format!("the file has more than {limit} {what}"),
        format!("at most {limit} {what} are supported: import a part of the network"),
    )
}
