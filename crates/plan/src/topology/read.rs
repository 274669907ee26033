//! From sketches into experiment files: what `generate` and `import` stand for.

use std::path::Path;

use super::{Sketch, generate, import, spell};
use crate::limits::{Limits, RunClock};
use crate::text::error::{Faults, Pos};
use crate::text::tree::{Key, Node, Value};

/// Puts the nodes and links of `topology: { generate: …, import: … }` into the tree of a file that
/// lies in `folder`, and returns notes about them. Problems go to `faults`.
pub(crate) fn expand(root: &mut Node, folder: &Path, faults: &mut Faults) -> Vec<String> {
    let mut text = |name| match &entry(root, name)?.value {
        Value::Text { text, .. } => Some(text.trim().to_owned()),
        _ => None,
    };
    let seed = text("seed").and_then(|seed| seed.parse().ok());
    // Whatever else is there is reported when the file is read.
    let clock = match text("clock").as_deref() {
        Some("virtual") => RunClock::Virtual,
        _ => RunClock::Real,
    };
    let Some(topology) = entry(root, "topology") else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    for name in ["generate", "import"] {
        let Some(node) = entry(topology, name).cloned() else {
            continue;
        };
        let sketch = match name {
            "generate" => generate::from_tree(&node, seed.unwrap_or(1), &Limits::of(clock), faults),
            _ => import::from_tree(&node, folder, faults),
        };
        // What has a problem has no nodes either: that is not a second problem.
        let sketch = sketch.unwrap_or_default();
        insert(topology, &sketch, node.at);
        notes.extend(sketch.notes);
    }
    notes
}

fn entry<'a>(node: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    let Value::Map(entries) = &mut node.value else {
        return None;
    };
    let found = entries.iter_mut().find(|(key, _)| key.text == name);
    found.map(|(_, node)| node)
}

/// Adds a sketch's nodes and links to those of a file.
fn insert(topology: &mut Node, sketch: &Sketch, at: Pos) {
    let (nodes, links) = spell::tree(sketch, at);
    add(topology, "nodes", at, Value::Map(nodes));
    add(topology, "links", at, Value::List(links));
}

fn add(topology: &mut Node, name: &str, at: Pos, new: Value) {
    let Some(node) = entry(topology, name) else {
        if let Value::Map(entries) = &mut topology.value {
            let text = name.to_owned();
            entries.push((Key { at, text }, Node { at, value: new }));
        }
        return;
    };
    match (&mut node.value, new) {
        (Value::Map(old), Value::Map(new)) => old.extend(new),
        (Value::List(old), Value::List(new)) => old.extend(new),
        (old @ Value::Empty, new) => *old = new,
        // What is there is wrong by itself, and is reported when it is read.
        _ => {}
    }
}
