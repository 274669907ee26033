//! The attributes of nodes and edges that GML and GraphML files carry: those of the Internet
//! Topology Zoo (Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011) and those of
//! Shadow's network graphs.
//!
//! A few of them become labels, so that sets of hosts and links can be chosen by them
//! ([`NODE_LABELS`]). Keys that mean nothing here are passed over. Shadow's `jitter` is not taken over, as Shadow
//! itself gives it no effect.

use std::sync::Arc;

use super::graph::{Edge, Graph, Node};
use super::text::{Flaw, Tally, fraction, rate, rate_of_label, shadow_rate, shadow_time};
use crate::text::error::shown;
use crate::topology::{SketchLabels, names};

/// The attributes of nodes that become labels, in lower case.
const NODE_LABELS: [&str; 11] = [
    "asn",
    "city",
    "city_code",
    "country",
    "country_code",
    "internal",
    "region",
    "role",
    "site",
    "tier",
    "type",
];
/// The attributes of edges that become labels, with what these are called.
const EDGE_LABELS: [(&str, &str); 5] = [
    ("linktype", "type"),
    ("region", "region"),
    ("role", "role"),
    ("tier", "tier"),
    ("type", "type"),
];

/// What a node says of itself.
#[derive(Debug, Default)]
pub(super) struct NodeAttributes {
    pub(super) node: Node,
    longitude: Option<f64>,
    latitude: Option<f64>,
    external: bool,
}

/// What an edge says of itself.
#[derive(Debug, Default)]
pub(super) struct EdgeAttributes {
    pub(super) edge: Edge,
    /// `LinkSpeedRaw`: bits per second.
    raw: Option<f64>,
    speed: Option<String>,
    units: Option<String>,
    kind: Option<String>,
    jitter: bool,
}

/// What was seen in a file and is worth a note.
#[derive(Debug, Default)]
pub(super) struct Seen {
    external: Tally,
    jitter: usize,
}

impl NodeAttributes {
    /// Takes one attribute; `at` is its place in the file.
    pub(super) fn set(&mut self, key: &str, value: &str, at: usize) -> Result<(), Flaw> {
        // What is not a number is not a place, which is noted when the node is placed.
        let number = || Some(value.trim().parse().unwrap_or(f64::NAN));
        let key_lower = key.to_ascii_lowercase();
        if NODE_LABELS.contains(&key_lower.as_str()) {
            label(&mut self.node.labels, &key_lower, value);
        }
        match key_lower.as_str() {
            "label" => self.node.label = Some(value.to_owned()).filter(|l| !l.trim().is_empty()),
            "longitude" | "lon" | "lng" => self.longitude = number(),
            "latitude" | "lat" => self.latitude = number(),
            "internal" => self.external = value.trim() == "0",
            "host_bandwidth_up" | "bandwidth_up" => {
                self.node.access[0] = Some(bandwidth(key, value, at)?);
            }
            "host_bandwidth_down" | "bandwidth_down" => {
                self.node.access[1] = Some(bandwidth(key, value, at)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the node to a graph.
    pub(super) fn finish(self, id: &str, graph: &mut Graph, seen: &mut Seen) -> Result<(), Flaw> {
        let mut node = self.node;
        node.position = self.longitude.zip(self.latitude);
        let number = graph.add_node(id, node)?;
        if self.external {
            seen.external.add(|| graph.called(number));
        }
        Ok(())
    }
}

impl EdgeAttributes {
    /// Takes one attribute; `at` is its place in the file.
    pub(super) fn set(&mut self, key: &str, value: &str, at: usize) -> Result<(), Flaw> {
        let text = || Some(value.trim().to_owned()).filter(|text| !text.is_empty());
        let key_lower = key.to_ascii_lowercase();
        let known = EDGE_LABELS.iter().find(|(known, _)| *known == key_lower);
        if let Some((_, called)) = known {
            label(&mut self.edge.labels, called, value);
        }
        match key_lower.as_str() {
            "linkspeedraw" => self.raw = value.trim().parse().ok(),
            "linkspeed" => self.speed = text(),
            "linkspeedunits" => self.units = text(),
            "linklabel" => self.edge.label = text(),
            "linktype" => self.kind = text(),
            "latency" => {
                let delay = shadow_time(value).ok_or_else(|| {
                    let message = format!("`{}` is not a latency of at most an hour", shown(value));
                    Flaw::at(at, message, "write it like `latency \"10 ms\"`")
                })?;
                self.edge.delay = Some(delay);
            }
            "packet_loss" => {
                let loss = value
                    .trim()
                    .parse()
                    .ok()
                    .and_then(fraction)
                    .ok_or_else(|| {
                        let message = format!("`{}` is not a fraction from 0 to 1", shown(value));
                        Flaw::at(at, message, "write it like `packet_loss 0.01`")
                    })?;
                self.edge.loss = Some(loss);
            }
            "jitter" => self.jitter = shadow_time(value).is_none_or(|span| span.as_ns() > 0),
            _ => {}
        }
        Ok(())
    }

    /// Adds the edge between the nodes of these ids to a graph.
    pub(super) fn finish(
        self,
        ends: [String; 2],
        graph: &mut Graph,
        seen: &mut Seen,
    ) -> Result<(), Flaw> {
        let mut edge = self.edge;
        let speed = || Some(self.speed? + self.units.as_deref().unwrap_or_default());
        let named = |text: Option<String>| rate_of_label(&text?);
        edge.rate = self
            .raw
            .and_then(rate)
            .or_else(|| named(speed()))
            .or_else(|| named(edge.label.clone()))
            .or_else(|| named(self.kind));
        seen.jitter += usize::from(self.jitter);
        graph.add_edge_later(edge, ends)
    }
}

impl Seen {
    /// Says what was seen.
    pub(super) fn note(&self, graph: &mut Graph) {
        let what = (
            "node is outside of the network",
            "nodes are outside of the network",
        );
        graph.note(
            &self.external,
            what,
            "kept as nodes like the others (`Internal 0`)",
        );
        if self.jitter > 0 {
            let note = format!("{} edges have jitter: not taken over", self.jitter);
            graph.notes.push(note);
        }
    }
}

/// Adds a label, if a part of the value is valid in one.
fn label(labels: &mut SketchLabels, key: &str, value: &str) {
    let value = names::clean(value);
    if !value.is_empty() {
        let labels = Arc::make_mut(labels.get_or_insert_default());
        labels.insert(key.to_owned(), value);
    }
}

fn bandwidth(key: &str, value: &str, at: usize) -> Result<longhaul_core::units::Rate, Flaw> {
    shadow_rate(value).ok_or_else(|| {
        let message = format!("`{}` is not a bandwidth", shown(value));
        Flaw::at(at, message, format!("write it like `{key} \"100 Mbit\"`"))
    })
}
