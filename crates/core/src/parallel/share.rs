//! Which core owns which node, and an engine's own numbers of its pipes.
//!
//! An engine over a share numbers its pipes from 0: its own in the order of their numbers in the
//! topology, then those that lead to it from other cores, of which it has only the far end. An engine
//! over the whole network keeps the topology's numbers and no table.

use std::sync::Arc;

use crate::pool::NIL;
use crate::route::Junctions;
use crate::topology::{NodeId, PipeId, Topology};

/// The number of a core, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u16);

impl CoreId {
    /// For indexing tables of cores.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A network whose nodes are split among cores.
#[derive(Debug)]
pub struct Split {
    topology: Arc<Topology>,
    /// By node; empty for one core.
    owners: Box<[CoreId]>,
    cores: usize,
    /// By core: the pipes that lead from it to another one, by number.
    cuts: Box<[Box<[PipeId]>]>,
    pub(crate) junctions: Arc<Junctions>,
}

impl Split {
    /// A network on one core.
    pub fn whole(topology: impl Into<Arc<Topology>>) -> Self {
        let topology = topology.into();
        Self {
            junctions: Arc::new(Junctions::new(&topology)),
            owners: Box::default(),
            cores: 1,
            cuts: Box::new([Box::default()]),
            topology,
        }
    }

    /// A network split among `cores`; `owners` gives the owner of each node.
    ///
    /// # Panics
    /// Where there is not one owner for each node, or one is not below `cores`.
    pub fn new(topology: impl Into<Arc<Topology>>, owners: Vec<CoreId>, cores: usize) -> Self {
        let mut split = Self::whole(topology);
        if cores > 1 {
            assert_eq!(owners.len(), split.topology.nodes().len(), "an owner each");
            assert!(owners.iter().all(|owner| owner.index() < cores));
            split.owners = owners.into();
            split.cores = cores;
            let mut cuts = vec![Vec::new(); cores];
            for pipe in (0..split.topology.pipes().len() as u32).map(PipeId) {
                let owner = split.owner_of(pipe);
                if owner != split.destination_of(pipe) {
                    cuts[owner.index()].push(pipe);
                }
            }
            split.cuts = cuts.into_iter().map(Vec::into).collect();
        }
        split
    }

    /// The network.
    pub const fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// How many cores there are.
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Who owns a node.
    pub fn owner(&self, node: NodeId) -> CoreId {
        self.owners.get(node.index()).copied().unwrap_or(CoreId(0))
    }

    /// Who owns a pipe: the owner of the node that it leaves.
    pub fn owner_of(&self, pipe: PipeId) -> CoreId {
        self.owner(self.topology.pipe(pipe).from)
    }

    /// Where a pipe leads to: the owner of the node at its end.
    pub fn destination_of(&self, pipe: PipeId) -> CoreId {
        self.owner(self.topology.pipe(pipe).to)
    }

    /// The pipes that lead from a core to another one, by number.
    pub fn cut_from(&self, core: CoreId) -> &[PipeId] {
        &self.cuts[core.index()]
    }
}

/// The number of a pipe in one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalPipe(pub(crate) u32);

impl LocalPipe {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one engine has of a network.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) split: Arc<Split>,
    core: CoreId,
    /// By pipe of the topology: its number here, or [`NIL`]; empty for the whole network.
    local: Box<[u32]>,
    /// By number here, where it is not the topology's.
    global: Box<[PipeId]>,
    /// How many pipes it has that are its own.
    own: usize,
}

impl Share {
    pub(crate) fn new(split: Arc<Split>, core: CoreId) -> Self {
        let count = split.topology.pipes().len();
        let (mut local, mut global, mut own) = (Vec::new(), Vec::new(), count);
        if split.cores > 1 {
            let pipes = || (0..count as u32).map(PipeId);
            global.extend(pipes().filter(|&pipe| split.owner_of(pipe) == core));
            own = global.len();
            let leads_here = |pipe: &PipeId| {
                split.destination_of(*pipe) == core && split.owner_of(*pipe) != core
            };
            global.extend(pipes().filter(leads_here));
            local.resize(count, NIL);
            for (pipe, number) in global.iter().zip(0..) {
                local[pipe.index()] = number;
            }
        }
        Self {
            split,
            core,
            local: local.into(),
            global: global.into(),
            own,
        }
    }

    /// How many pipes it has.
    pub(crate) fn len(&self) -> usize {
        self.own + self.global.len().saturating_sub(self.own)
    }

    pub(crate) fn owns(&self, node: NodeId) -> bool {
        self.split.owner(node) == self.core
    }

    /// The number of a pipe here; `None` where it is neither owned nor leads here.
    #[inline]
    pub(crate) fn local(&self, pipe: PipeId) -> Option<LocalPipe> {
        if self.local.is_empty() {
            return Some(LocalPipe(pipe.0));
        }
        let local = self.local[pipe.index()];
        (local != NIL).then_some(LocalPipe(local))
    }

    /// The number of a pipe that is owned here.
    pub(crate) fn own(&self, pipe: PipeId) -> Option<LocalPipe> {
        self.local(pipe).filter(|local| local.index() < self.own)
    }

    /// Whether a pipe is owned here, and does not only lead here.
    pub(crate) const fn is_own(&self, pipe: LocalPipe) -> bool {
        pipe.index() < self.own
    }

    /// The number of a pipe in the topology.
    #[inline]
    pub(crate) fn global(&self, pipe: LocalPipe) -> PipeId {
        let known = self.global.get(pipe.index()).copied();
        known.unwrap_or(PipeId(pipe.0))
    }

    /// The core that a pipe leads to, where that is another one.
    pub(crate) fn exit(&self, pipe: LocalPipe) -> Option<CoreId> {
        let to = self.split.destination_of(self.global(pipe));
        (self.is_own(pipe) && to != self.core).then_some(to)
    }
}
