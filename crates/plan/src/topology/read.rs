//! From experiment files to sketches, and from sketches into experiment files.

use std::path::Path;

use longhaul_core::params::LossModel;
use longhaul_core::topology::NodeKind;

use super::{Kind, Sketch, SketchLink, SketchNode, SketchPipe, Tier, generate, import, spell};
use crate::file::error::{Errors, Faults, Pos};
use crate::file::tree::{Key, Node, Value};
use crate::plan::{Limits, Plan, RunClock};

/// The network of an experiment file, for drawing: as it is planned, with the positions that
/// the file or its generator gives.
///
/// # Errors
/// Those of [`Plan::from_file_with`].
pub fn experiment(path: &Path, overrides: &[(String, String)]) -> Result<Sketch, Errors> {
    let plan = Plan::from_file_with(path, overrides)?;
    Ok(of_plan(&plan))
}

/// The network of a plan. A router that no host is joined to counts as core. Loss that is not
/// independent of the packets before is left out.
pub fn of_plan(plan: &Plan) -> Sketch {
    let topology = &plan.topology;
    let mut sketch = Sketch {
        title: plan.name.clone(),
        ..Sketch::default()
    };
    for node in topology.nodes() {
        let (kind, tier) = match node.kind {
            NodeKind::Host => (Kind::Host, Tier::Access),
            NodeKind::Router => (Kind::Router, Tier::Core),
            NodeKind::Lan => (Kind::Lan, Tier::Edge),
        };
        sketch.add_node(SketchNode {
            name: node.name.clone(),
            kind,
            position: plan.positions.get(&node.name).copied(),
            tier,
        });
    }
    let pipe = |params: &longhaul_core::params::PipeParams| SketchPipe {
        rate: params.rate,
        delay: params.delay,
        loss: match &params.loss {
            LossModel::Independent(loss) => Some(*loss).filter(|loss| !loss.is_never()),
            _ => None,
        },
        queue: Some(params.queue),
    };
    for forward in topology.pipes() {
        let back = topology.pipe(forward.back);
        let hosts = |end: longhaul_core::NodeId| topology.node(end).kind == NodeKind::Host;
        if hosts(forward.from) {
            let other = &mut sketch.nodes[forward.to.index()];
            other.tier = other.tier.max(Tier::Edge);
        }
        // Each link once, from the end whose number is smaller.
        if forward.from > forward.to {
            continue;
        }
        let (there, again) = (pipe(&forward.params), pipe(&back.params));
        sketch.links.push(SketchLink {
            ends: [forward.from.index(), forward.to.index()],
            name: None,
            label: Some(forward.link.clone()),
            forward: there,
            back: (there != again).then_some(again),
        });
    }
    sketch
}

/// Puts the nodes and links of `topology: { generate: …, import: … }` into the tree of a file
/// that lies in `folder`, and gives what is to be known about them. Problems go to `faults`.
pub(crate) fn expand(root: &mut Node, folder: &Path, faults: &mut Faults) -> Vec<String> {
    let mut text = |name| match &entry(root, name)?.value {
        Value::Text { text, .. } => Some(text.trim().to_owned()),
        _ => None,
    };
    let seed = text("seed").and_then(|seed| seed.parse().ok());
    // Whatever else stands there is reported when the file is read.
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
        // What has a problem has no nodes either: that is no second problem.
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
