//! What every method makes: an owner for each node.

use longhaul_core::NodeId;

use crate::graph::Graph;

/// The most cores of a partition.
pub const MAX_CORES: u16 = 1024;

/// The core that owns each node. A node's owner has its state and all pipes that leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// How many cores there are, 1 or more; some may own nothing.
    pub cores: u16,
    /// By node number: its core, below `cores`.
    pub owner: Vec<u16>,
}

impl Partition {
    /// Everything on one core.
    pub fn single(nodes: usize) -> Self {
        Self {
            cores: 1,
            owner: vec![0; nodes],
        }
    }

    /// The core of a node.
    #[inline]
    pub fn of(&self, node: NodeId) -> u16 {
        self.owner[node.index()]
    }
}

/// A way to split a graph.
pub trait Partitioner {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// A core below `cores` for each vertex. The same graph, `cores` (1 to [`MAX_CORES`]) and
    /// `seed` give the same answer on every machine.
    fn split(&self, graph: &Graph, cores: u16, seed: u64) -> Vec<u16>;
}
