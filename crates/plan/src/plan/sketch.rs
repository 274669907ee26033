//! The network of a plan as a sketch, for drawing.

use std::path::Path;

use longhaul_core::params::LossModel;
use longhaul_core::topology::NodeKind;

use super::Plan;
use crate::text::error::Errors;
use crate::topology::{Kind, Sketch, SketchLink, SketchNode, SketchPipe, Tier};

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
/// independent of the packets before is left out, and so are labels.
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
            labels: None,
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
            labels: None,
            forward: there,
            back: (there != again).then_some(again),
        });
    }
    sketch
}
