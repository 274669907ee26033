//! GraphML (graphml.graphdrawing.org): XML with nodes, edges, and `data` elements whose keys are
//! declared first and have names there (`attr.name`).
//!
//! The reader takes one event after another. No entities but those of XML itself and characters
//! by number are known, so that nothing can expand; what a DTD declares is passed over.
//!
//! Left out: graphs within nodes (refused), hyperedges (noted), ports.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::graph::Graph;
use super::text::{Flaw, floor};
use super::zoo::{EdgeAttributes, NodeAttributes, Seen};
use crate::text::error::shown;

/// The longest text of a `data` element in bytes; more is cut off.
const MAX_DATA: usize = 4096;
/// How many keys a file may declare.
const MAX_KEYS: usize = 500;

/// A node or edge that has begun.
enum Item {
    Node(String, NodeAttributes),
    Edge([String; 2], EdgeAttributes),
}

/// A key's name, and its value where an element does not give one.
struct Key {
    name: String,
    /// `node`, `edge`, `graph` or `all`.
    of: String,
    default: Option<String>,
}

/// Where text belongs.
enum Text {
    /// To the attribute of this name.
    Data(String),
    /// To the default of the key of this id.
    Default(String),
}

#[derive(Default)]
struct State {
    graph: Graph,
    seen: Seen,
    keys: BTreeMap<String, Key>,
    /// The key that is being declared.
    declared: Option<String>,
    /// Whether edges have a direction unless they say otherwise, once a graph has begun.
    directed: Option<bool>,
    /// The node or edge that has begun, and how many elements it is in.
    item: Option<(Item, usize)>,
    /// Where the text of the innermost element goes, where that begins, and the text.
    text: Option<(Text, usize, String)>,
    depth: usize,
    hyperedges: usize,
}

/// Reads a GraphML file.
pub(super) fn read(text: &str) -> Result<Graph, Flaw> {
    let mut reader = Reader::from_str(text);
    let mut state = State::default();
    state.graph.geographic = true;
    loop {
        let at = position(reader.buffer_position());
        let event = reader.read_event().map_err(|error| {
            let at = position(reader.error_position()).max(at);
            let message = format!("this is not XML: {}", shown(&error.to_string()));
            let hint = "the file may be cut off: fetch it again, or correct it";
            Flaw::at(at, message, hint)
        })?;
        match event {
            Event::Start(element) => state.start(&element, at)?,
            Event::Empty(element) => {
                state.start(&element, at)?;
                state.end(element.local_name().as_ref())?;
            }
            Event::End(element) => state.end(element.local_name().as_ref())?,
            Event::Text(part) => state.add(&part),
            Event::CData(part) => state.add(&part.into_inner()),
            Event::GeneralRef(name) => state.refer(&name, at)?,
            Event::Eof if state.depth > 0 => {
                let hint = "the file may be cut off: fetch it again";
                return Err(Flaw::at(text.len(), "an element is not closed", hint));
            }
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    state.finish()
}

fn position(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// An attribute of an XML element.
fn attribute(element: &BytesStart<'_>, name: &str, at: usize) -> Result<Option<String>, Flaw> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("this element is not XML: {}", shown(&error.to_string()));
        Flaw::at(at, message, "write attributes like `id=\"n0\"`")
    };
    // Looking for attributes that are there twice would take quadratic time.
    for found in element.attributes().with_checks(false) {
        let found = found.map_err(|e| bad(&e))?;
        if found.key.as_ref() == name {
            let value = found.normalized_value(XmlVersion::Implicit1_0);
            return Ok(Some(value.map_err(|e| bad(&e))?.into_owned()));
        }
    }
    Ok(None)
}

fn required(element: &BytesStart<'_>, name: &str, at: usize) -> Result<String, Flaw> {
    attribute(element, name, at)?.ok_or_else(|| {
        let message = format!("`{}` has no `{name}`", shown(element.name().as_ref()));
        Flaw::at(at, message, format!("write it like `{name}=\"n0\"`"))
    })
}

impl State {
    fn start(&mut self, element: &BytesStart<'_>, at: usize) -> Result<(), Flaw> {
        self.depth += 1;
        match element.local_name().as_ref() {
            "key" => self.declare(element, at)?,
            "default" if self.declared.is_some() => {
                let id = self.declared.clone().unwrap_or_default();
                self.text = Some((Text::Default(id), at, String::new()));
            }
            "graph" => self.begin_graph(element, at)?,
            "node" => {
                self.outside(at)?;
                let id = required(element, "id", at)?;
                let mut node = NodeAttributes::default();
                node.node.at = at;
                for key in self.keys.values().filter(|key| key.of != "edge") {
                    if let Some(value) = &key.default {
                        node.set(&key.name, value, at)?;
                    }
                }
                self.item = Some((Item::Node(id, node), self.depth));
            }
            "edge" => {
                self.outside(at)?;
                self.begin_edge(element, at)?;
            }
            "hyperedge" => self.hyperedges += 1,
            "data" => {
                let id = required(element, "key", at)?;
                // Some writers leave declarations out and use names for ids.
                let name = self.keys.get(&id).map_or(id, |key| key.name.clone());
                self.text = Some((Text::Data(name), at, String::new()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Nodes and edges are not nested in one another.
    fn outside(&self, at: usize) -> Result<(), Flaw> {
        if self.directed.is_none() {
            let hint = "GraphML has `<graphml> <graph> <node id=\"n0\"/> … </graph> </graphml>`";
            return Err(Flaw::at(at, "this is outside of a graph", hint));
        }
        if self.item.is_some() {
            let hint = "graphs within nodes are not supported: draw them into one graph";
            return Err(Flaw::at(at, "a node or edge within another", hint));
        }
        Ok(())
    }

    fn declare(&mut self, element: &BytesStart<'_>, at: usize) -> Result<(), Flaw> {
        if self.keys.len() >= MAX_KEYS {
            let message = format!("the file declares more than {MAX_KEYS} keys");
            return Err(Flaw::at(at, message, "remove those that are not used"));
        }
        let id = required(element, "id", at)?;
        let name = attribute(element, "attr.name", at)?.unwrap_or_else(|| id.clone());
        let of = attribute(element, "for", at)?.unwrap_or_else(|| "all".to_owned());
        let key = Key {
            name,
            of,
            default: None,
        };
        self.declared = Some(id.clone());
        self.keys.insert(id, key);
        Ok(())
    }

    fn begin_graph(&mut self, element: &BytesStart<'_>, at: usize) -> Result<(), Flaw> {
        if self.directed.is_some() {
            let hint = "only one graph is imported: leave one in the file";
            return Err(Flaw::at(at, "a second graph", hint));
        }
        let kind = attribute(element, "edgedefault", at)?;
        self.directed = Some(kind.as_deref() == Some("directed"));
        Ok(())
    }

    fn begin_edge(&mut self, element: &BytesStart<'_>, at: usize) -> Result<(), Flaw> {
        let ends = [
            required(element, "source", at)?,
            required(element, "target", at)?,
        ];
        let mut edge = EdgeAttributes::default();
        edge.edge.at = at;
        edge.edge.directed = match attribute(element, "directed", at)?.as_deref() {
            Some(directed) => directed == "true",
            None => self.directed == Some(true),
        };
        for key in self.keys.values().filter(|key| key.of != "node") {
            if let Some(value) = &key.default {
                edge.set(&key.name, value, at)?;
            }
        }
        self.item = Some((Item::Edge(ends, edge), self.depth));
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), Flaw> {
        if let Some((kind, at, text)) = self.text.take() {
            self.give(kind, at, text)?;
        } else if let Some((item, _)) = self.item.take_if(|(_, depth)| *depth == self.depth) {
            match item {
                Item::Node(id, node) => node.finish(&id, &mut self.graph, &mut self.seen)?,
                Item::Edge(ends, edge) => edge.finish(ends, &mut self.graph, &mut self.seen)?,
            }
        } else if name == "key" {
            self.declared = None;
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    /// Gives the text of an element to what it says something about.
    fn give(&mut self, kind: Text, at: usize, text: String) -> Result<(), Flaw> {
        match (kind, &mut self.item) {
            (Text::Default(id), _) => {
                if let Some(key) = self.keys.get_mut(&id) {
                    key.default = Some(text);
                }
            }
            (Text::Data(name), Some((Item::Node(_, node), _))) => node.set(&name, &text, at)?,
            (Text::Data(name), Some((Item::Edge(_, edge), _))) => edge.set(&name, &text, at)?,
            (Text::Data(name), None) => {
                if name == "label" {
                    self.graph.title = Some(text);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, part: &str) {
        if let Some((_, _, text)) = &mut self.text {
            let room = MAX_DATA.saturating_sub(text.len());
            text.push_str(&part[..floor(part, room)]);
        }
    }

    fn refer(&mut self, name: &str, at: usize) -> Result<(), Flaw> {
        let text: Cow<'_, str> = match quick_xml::escape::unescape(&format!("&{name};")) {
            Ok(text) => text.into_owned().into(),
            Err(_) => {
                let message = format!("the entity `&{};` is not known", shown(name));
                let hint = "only &amp; &lt; &gt; &quot; &apos; and characters by number are read";
                return Err(Flaw::at(at, message, hint));
            }
        };
        self.add(&text);
        Ok(())
    }

    fn finish(mut self) -> Result<Graph, Flaw> {
        if self.directed.is_none() {
            let hint = "GraphML has `<graphml> <graph> <node id=\"n0\"/> … </graph> </graphml>`";
            return Err(Flaw::whole("there is no graph in this file", hint));
        }
        self.graph.join()?;
        self.seen.note(&mut self.graph);
        if self.hyperedges > 0 {
            let note = format!("{} hyperedges: left out", self.hyperedges);
            self.graph.notes.push(note);
        }
        Ok(self.graph)
    }
}
