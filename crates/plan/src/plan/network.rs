//! Links and routers by name, for events and for changes to a run that is under way: one, an entry
//! of the file that stands for several, or a set.
//!
//! A pattern with `>` is one of pipes, any other one of links, both directions of each. Sets of
//! hosts choose one where exactly one is needed.

use std::collections::BTreeMap;

use longhaul_core::topology::NodeKind;
use longhaul_core::{NodeId, PipeId, Topology};

use crate::select::{self, Budget, Labels, SelectError, Universe};
use crate::text::error::shown;

/// Labels of a network.
#[derive(Debug, Clone, Default)]
pub struct NetworkLabels {
    /// Those of nodes.
    pub nodes: Labels<NodeId>,
    /// Those of links, each by the first of its pipes.
    pub links: Labels<PipeId>,
}

/// A network whose parts have names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network<'a> {
    pub(crate) topology: &'a Topology,
    /// The pipes of entries of the file that stand for several links.
    pub(crate) groups: &'a BTreeMap<String, Vec<PipeId>>,
    pub(crate) labels: &'a NetworkLabels,
}

impl Network<'_> {
    /// The pipes of a link, of an entry that stands for several, of a set of links or pipes, or
    /// one pipe; sorted, each once.
    pub(crate) fn pipes(
        &self,
        name: &str,
        budget: &Budget,
        briefly: bool,
    ) -> Result<Vec<PipeId>, SelectError> {
        let mut pipes = self.topology.find_pipes(name);
        if let (true, Some(group)) = (pipes.is_empty(), self.groups.get(name)) {
            pipes = group.clone();
        }
        if pipes.is_empty() && name.contains('>') && !name.contains('=') {
            pipes = select::find(&Pipes(*self), name, budget, briefly)?;
        } else if pipes.is_empty() {
            let links = select::find(&Links(*self), name, budget, briefly)?.into_iter();
            pipes = links
                .flat_map(|id| [id, self.topology.pipe(id).back])
                .collect();
        }
        budget.take(pipes.len())?;
        pipes.sort_unstable();
        pipes.dedup();
        Ok(pipes)
    }

    /// All pipes from and to a router or lan, or a set of them.
    pub(crate) fn pipes_of_routers(
        &self,
        name: &str,
        budget: &Budget,
        briefly: bool,
    ) -> Result<Vec<PipeId>, SelectError> {
        let routers = Forwarding(*self);
        let found = match self.topology.find(name) {
            Some(node) if routers.has(node) => vec![node],
            Some(_) => {
                let name = shown(name);
                return Err(SelectError {
                    problem: format!("`{name}` is a host, and only links and routers can fail"),
                    remedy: format!("take its link down: `link: {name}-…`"),
                });
            }
            None => select::find(&routers, name, budget, briefly)?,
        };
        let mut pipes: Vec<PipeId> = Vec::new();
        for node in found {
            let leaving = self.topology.outgoing(node);
            budget.take(leaving.len())?;
            pipes.extend(
                leaving
                    .iter()
                    .flat_map(|&pipe| [pipe, self.topology.pipe(pipe).back]),
            );
        }
        pipes.sort_unstable();
        pipes.dedup();
        Ok(pipes)
    }

    /// The one host of a name or of a set.
    pub(crate) fn host(&self, name: &str, budget: &Budget) -> Result<NodeId, SelectError> {
        let hosts = Hosts(*self);
        match self.topology.find(name) {
            Some(node) if hosts.has(node) => Ok(node),
            Some(node) => {
                let kind = match self.topology.node(node).kind {
                    NodeKind::Lan => "lan",
                    _ => "router",
                };
                let names = hosts.names().map(|(_, name)| name);
                Err(SelectError {
                    problem: format!("`{}` is a {kind}, not a host", shown(name)),
                    remedy: select::existing(hosts.what(), names),
                })
            }
            None => {
                let found = select::find(&hosts, name, budget, false)?;
                select::only(&hosts, name, &found)
            }
        }
    }
}

/// Nodes of some kinds.
fn nodes<'a>(
    topology: &'a Topology,
    fits: fn(NodeKind) -> bool,
) -> Box<dyn Iterator<Item = (NodeId, &'a str)> + 'a> {
    let nodes = topology.nodes().iter().zip((0..).map(NodeId));
    let fitting = nodes.filter(move |(node, _)| fits(node.kind));
    Box::new(fitting.map(|(node, id)| (id, node.name.as_str())))
}

/// The links, each by the first of its pipes.
struct Links<'a>(Network<'a>);

impl Universe for Links<'_> {
    type Id = PipeId;

    fn what(&self) -> [&'static str; 2] {
        ["link", "links"]
    }

    fn names(&self) -> Box<dyn Iterator<Item = (PipeId, &str)> + '_> {
        let pipes = self.0.topology.pipes().iter().zip((0..).map(PipeId));
        let first = pipes.filter(|(pipe, id)| *id < pipe.back);
        Box::new(first.map(|(pipe, id)| (id, pipe.link.as_str())))
    }

    fn labels(&self) -> &Labels<PipeId> {
        &self.0.labels.links
    }

    fn has(&self, _: PipeId) -> bool {
        true
    }

    fn aliases(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.groups.keys().map(String::as_str))
    }
}

/// The pipes.
struct Pipes<'a>(Network<'a>);

impl Universe for Pipes<'_> {
    type Id = PipeId;

    fn what(&self) -> [&'static str; 2] {
        ["pipe", "pipes"]
    }

    fn names(&self) -> Box<dyn Iterator<Item = (PipeId, &str)> + '_> {
        let pipes = self.0.topology.pipes().iter().zip((0..).map(PipeId));
        Box::new(pipes.map(|(pipe, id)| (id, pipe.name.as_str())))
    }

    fn labels(&self) -> &Labels<PipeId> {
        &self.0.labels.links
    }

    fn has(&self, _: PipeId) -> bool {
        true
    }
}

/// The routers and lans.
struct Forwarding<'a>(Network<'a>);

impl Universe for Forwarding<'_> {
    type Id = NodeId;

    fn what(&self) -> [&'static str; 2] {
        ["router", "routers"]
    }

    fn names(&self) -> Box<dyn Iterator<Item = (NodeId, &str)> + '_> {
        nodes(self.0.topology, |kind| kind != NodeKind::Host)
    }

    fn labels(&self) -> &Labels<NodeId> {
        &self.0.labels.nodes
    }

    fn has(&self, node: NodeId) -> bool {
        self.0.topology.node(node).kind != NodeKind::Host
    }
}

/// The hosts.
struct Hosts<'a>(Network<'a>);

impl Universe for Hosts<'_> {
    type Id = NodeId;
    const STEMS: bool = true;

    fn what(&self) -> [&'static str; 2] {
        ["host", "hosts"]
    }

    fn names(&self) -> Box<dyn Iterator<Item = (NodeId, &str)> + '_> {
        nodes(self.0.topology, |kind| kind == NodeKind::Host)
    }

    fn labels(&self) -> &Labels<NodeId> {
        &self.0.labels.nodes
    }

    fn has(&self, node: NodeId) -> bool {
        self.0.topology.node(node).kind == NodeKind::Host
    }
}
