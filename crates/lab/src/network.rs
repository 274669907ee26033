//! `network.json`: the network of a run and who ran on it, written before the run begins.
//!
//! Purpose: a page or a tool can draw the topology of any run folder, also of one whose run was killed
//! before its summary. Parameters are those at t = 0; the series record what events change.
//!
//! Left out: networks with more than [`PIPES_MAX`] pipes, of which the file says only how large they are;
//! and command lines and environments of programs, which may hold secrets.

use longhaul_core::params::LossModel;
use longhaul_core::topology::{Node, NodeKind, Pipe};
use longhaul_plan::plan::Plan;
use longhaul_plan::topology::{Kind, Sketch, SketchLink, SketchNode};
use serde::{Deserialize, Serialize};

/// The version of the file.
pub const VERSION: u32 = 1;
/// Networks with more pipes are not written down: the file would take longer than the run's set-up.
const PIPES_MAX: usize = 100_000;

/// A network and what ran on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkFile {
    /// [`VERSION`].
    pub version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The clock: real or virtual.
    pub clock: String,
    /// The seed.
    pub seed: u64,
    /// The version of Longhaul.
    pub longhaul: String,
    /// Upper bound of the run.
    pub duration_s: Option<f64>,
    /// How late packets may be.
    pub tolerance_ns: u64,
    /// All nodes; empty for a network that is too large.
    pub nodes: Vec<NodeEntry>,
    /// All pipes, in the order of their numbers.
    pub pipes: Vec<PipeEntry>,
    /// How many nodes and pipes there are.
    pub nodes_seen: usize,
    /// See `nodes_seen`.
    pub pipes_seen: usize,
    /// All programs.
    pub programs: Vec<ProgramEntry>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeEntry {
    /// Its name.
    pub name: String,
    /// `host`, `router` or `lan`.
    pub kind: String,
    /// Where the file places it in drawings.
    pub position: Option<(f64, f64)>,
}

/// A pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipeEntry {
    /// Its name.
    pub name: String,
    /// The link that it is a direction of.
    pub link: String,
    /// Nodes, by their places in the list.
    pub from: usize,
    /// See `from`.
    pub to: usize,
    /// Its rate; `null` is unlimited.
    pub rate_bps: Option<u64>,
    /// Its delay, in the mean.
    pub delay_ns: u64,
    /// Its loss, in words; `null` is none.
    pub loss: Option<String>,
    /// What may wait, in words.
    pub queue: String,
    /// The largest IP packet in bytes.
    pub mtu: u32,
}

/// A program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramEntry {
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Whether it is a service.
    pub service: bool,
}

impl NetworkFile {
    /// Of a plan.
    pub fn of(plan: &Plan) -> Self {
        let topology = &plan.topology;
        let fits = topology.pipes().len() <= PIPES_MAX;
        let node = |node: &Node| NodeEntry {
            name: node.name.clone(),
            kind: kind_name(node.kind).to_owned(),
            position: plan.positions.get(&node.name).copied(),
        };
        let program = |program: &longhaul_plan::plan::ProgramPlan| ProgramEntry {
            name: program.name.clone(),
            host: plan.hosts[program.host].name.clone(),
            service: program.service,
        };
        Self {
            version: VERSION,
            experiment: plan.name.clone(),
            clock: plan.clock.name().to_owned(),
            seed: plan.seed,
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            duration_s: plan.duration.map(|duration| duration.as_s()),
            tolerance_ns: plan.tolerance.as_ns(),
            nodes: some(fits, topology.nodes(), node),
            pipes: some(fits, topology.pipes(), pipe),
            nodes_seen: topology.nodes().len(),
            pipes_seen: topology.pipes().len(),
            programs: plan.programs.iter().map(program).collect(),
        }
    }

    /// The JSON text of `network.json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data") + "\n"
    }

    /// As something to lay out and draw. Nothing where pipes name nodes that are not there.
    pub fn sketch(&self) -> Option<Sketch> {
        let mut sketch = Sketch {
            title: self.experiment.clone(),
            ..Sketch::default()
        };
        for node in &self.nodes {
            sketch.add_node(SketchNode {
                name: node.name.clone(),
                kind: match node.kind.as_str() {
                    "host" => Kind::Host,
                    "lan" => Kind::Lan,
                    _ => Kind::Router,
                },
                position: node.position,
                ..SketchNode::default()
            });
        }
        for pipe in &self.pipes {
            if pipe.from.max(pipe.to) >= self.nodes.len() || pipe.from == pipe.to {
                return None;
            }
            if pipe.from < pipe.to {
                sketch.links.push(SketchLink {
                    ends: [pipe.from, pipe.to],
                    ..SketchLink::default()
                });
            }
        }
        Some(sketch)
    }
}

fn some<T, U>(fits: bool, list: &[T], entry: impl Fn(&T) -> U) -> Vec<U> {
    if fits {
        list.iter().map(entry).collect()
    } else {
        Vec::new()
    }
}

const fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Host => "host",
        NodeKind::Router => "router",
        NodeKind::Lan => "lan",
    }
}

fn pipe(pipe: &Pipe) -> PipeEntry {
    let params = &pipe.params;
    let loses = !matches!(&params.loss, LossModel::Independent(loss) if loss.is_never());
    PipeEntry {
        name: pipe.name.clone(),
        link: pipe.link.clone(),
        from: pipe.from.index(),
        to: pipe.to.index(),
        rate_bps: params.rate.map(|rate| rate.bits_per_s()),
        delay_ns: params.delay.as_ns(),
        loss: loses.then(|| params.loss.to_string()),
        queue: params.queue.to_string(),
        mtu: pipe.mtu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_back_as_it_was_and_can_be_drawn() {
        let text = "
            topology:
              nodes: { a: {}, b: {}, r: { kind: router, position: [1, 2] } }
              links:
                - { ends: [a, r], rate: 10 Mbit/s, delay: 3 ms, loss: 1 % }
                - { ends: [r, b] }
            programs: { work: { on: a, run: sh -c 'echo $SECRET', env: { SECRET: hush } } }
        ";
        let plan = Plan::from_text(text, "test").unwrap_or_else(|e| panic!("{e}"));
        let file = NetworkFile::of(&plan);
        let json = file.to_json();
        assert_eq!(serde_json::from_str::<NetworkFile>(&json).unwrap(), file);
        assert!(!json.contains("hush") && !json.contains("SECRET"), "{json}");
        let slow = file.pipes.iter().find(|pipe| pipe.name == "a>r").unwrap();
        assert_eq!(
            (slow.rate_bps, slow.delay_ns),
            (Some(10_000_000), 3_000_000)
        );
        assert!(slow.loss.as_deref().is_some_and(|loss| loss.contains('1')));
        let sketch = file.sketch().unwrap();
        assert_eq!((sketch.nodes.len(), sketch.links.len()), (3, 2));
        let router = sketch.nodes.iter().find(|node| node.name == "r").unwrap();
        assert_eq!(
            (router.kind, router.position),
            (Kind::Router, Some((1.0, 2.0)))
        );
    }

    #[test]
    fn a_pipe_that_leads_nowhere_cannot_be_drawn() {
        let mut file = NetworkFile {
            nodes: vec![NodeEntry::default(); 2],
            pipes: vec![PipeEntry {
                to: 1,
                ..PipeEntry::default()
            }],
            ..NetworkFile::default()
        };
        assert!(file.sketch().is_some());
        file.pipes[0].to = 2;
        assert!(file.sketch().is_none());
    }
}
