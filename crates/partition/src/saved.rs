//! A partition in a file: JSON with the core of each node, and a fingerprint of the topology.
//!
//! ```json
//! { "format": "longhaul-partition-1", "topology": "0123…", "cores": 2, "method": "best",
//!   "seed": 1, "owner": { "a": 0, "b": 1 } }
//! ```
//!
//! The fingerprint covers names, kinds and links, and not what links do to packets, so that a
//! partition serves for a sweep over rates and delays. What would break an engine is checked
//! when it is read: that each node has one owner, and that no pipe without delay is cut.
//!
//! Left out: reading and writing the file (the caller's).

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use longhaul_core::topology::NodeKind;
use longhaul_core::{Span, Topology};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use thiserror::Error;

use crate::{MAX_CORES, Partition};

/// The largest file that is read: owners of two million nodes with long names.
pub const MAX_BYTES: u64 = 1 << 28;

const FORMAT: &str = "longhaul-partition-1";

/// A partition as a file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    format: String,
    topology: String,
    /// How many cores there are.
    pub cores: u16,
    /// The method that made it.
    pub method: String,
    /// What its draws followed from.
    pub seed: u64,
    /// By name.
    owner: BTreeMap<String, u16>,
}

/// Why a file is not a partition of a topology.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SavedError {
    /// Not such JSON.
    #[error("not a saved partition: {0}; make one with `longhaul partition FILE --save`")]
    Unreadable(String),
    /// Of another version.
    #[error("this partition has the format `{0}` instead of `longhaul-partition-1`; save it again")]
    Format(String),
    /// Of a network with other nodes or links.
    #[error(
        "this partition is of another topology{0}; make one of this topology with `longhaul partition FILE --save`"
    )]
    OtherTopology(String),
    /// A number of cores that cannot be.
    #[error("a partition has 1 to 1024 cores, not {0}")]
    Cores(u16),
    /// A core that does not exist.
    #[error("`{node}` is on core {core}, and the {cores} cores count from 0")]
    Owner {
        /// The node.
        node: String,
        /// Its core.
        core: u16,
        /// How many there are.
        cores: u16,
    },
    /// A cut where packets go on at once.
    #[error(
        "`{pipe}` leads from core {from} to core {to} and may have no delay; give it one, or make a new partition"
    )]
    NoDelay {
        /// The pipe.
        pipe: String,
        /// The core that it leaves.
        from: u16,
        /// The core that it leads to.
        to: u16,
    },
}

impl Saved {
    /// A partition of `topology`.
    ///
    /// # Panics
    /// Where it is not one of this topology.
    pub fn new(topology: &Topology, partition: &Partition, method: &str, seed: u64) -> Self {
        let names = topology.nodes().iter().map(|node| node.name.clone());
        assert_eq!(topology.nodes().len(), partition.owner.len());
        Self {
            format: FORMAT.to_owned(),
            topology: fingerprint(topology),
            cores: partition.cores,
            method: method.to_owned(),
            seed,
            owner: names.zip(partition.owner.iter().copied()).collect(),
        }
    }

    /// The text of a file.
    pub fn to_json(&self) -> String {
        // Numbers and text: nothing that JSON cannot say.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Where it is not one of a saved partition.
    pub fn from_json(text: &str) -> Result<Self, SavedError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let unreadable = |error: serde_json::Error| SavedError::Unreadable(error.to_string());
        let head: Head = serde_json::from_str(text).map_err(unreadable)?;
        if head.format != FORMAT {
            let shown = head.format.chars().take(40).collect();
            return Err(SavedError::Format(shown));
        }
        serde_json::from_str(text).map_err(unreadable)
    }

    /// The partition, if it is one of `topology` that engines can run with these least delays by
    /// pipe.
    ///
    /// # Errors
    /// Where it is not.
    pub fn partition(
        &self,
        topology: &Topology,
        least_delays: &[Span],
    ) -> Result<Partition, SavedError> {
        if !(1..=MAX_CORES).contains(&self.cores) {
            return Err(SavedError::Cores(self.cores));
        }
        let nodes = topology.nodes();
        if let Some(name) = self.owner.keys().find(|name| topology.find(name).is_none()) {
            let name: String = name.chars().take(40).collect();
            return Err(SavedError::OtherTopology(format!(
                ": it has a node `{name}`"
            )));
        }
        let mut owner = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(&core) = self.owner.get(&node.name) else {
                let missing = format!(": it has no node `{}`", node.name);
                return Err(SavedError::OtherTopology(missing));
            };
            if core >= self.cores {
                return Err(SavedError::Owner {
                    node: node.name.clone(),
                    core,
                    cores: self.cores,
                });
            }
            owner.push(core);
        }
        if self.topology != fingerprint(topology) {
            let same = ": the nodes are the same, the links are not".to_owned();
            return Err(SavedError::OtherTopology(same));
        }
        let partition = Partition {
            cores: self.cores,
            owner,
        };
        partition.check(topology, least_delays)?;
        Ok(partition)
    }
}

impl Partition {
    /// Whether engines can run it: no pipe that may have no delay leads to another core.
    ///
    /// # Errors
    /// The first one that does.
    pub fn check(&self, topology: &Topology, least_delays: &[Span]) -> Result<(), SavedError> {
        let pipes = topology.pipes().iter().zip(least_delays);
        let mut instant = pipes.filter(|(_, least)| **least == Span::ZERO);
        let cut = instant.find(|(pipe, _)| self.of(pipe.from) != self.of(pipe.to));
        match cut {
            None => Ok(()),
            Some((pipe, _)) => Err(SavedError::NoDelay {
                pipe: pipe.name.clone(),
                from: self.of(pipe.from),
                to: self.of(pipe.to),
            }),
        }
    }
}

/// What distinguishes topologies: nodes and links by name, 128 bits as hexadecimal digits.
pub fn fingerprint(topology: &Topology) -> String {
    let mut hasher = SipHasher13::new();
    let mut text = |text: &str| {
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text.as_bytes());
    };
    for node in topology.nodes() {
        text(&node.name);
        text(match node.kind {
            NodeKind::Host => "host",
            NodeKind::Router => "router",
            NodeKind::Lan => "lan",
        });
    }
    for pipe in topology.pipes() {
        text(&pipe.name);
        text(&topology.node(pipe.from).name);
        text(&topology.node(pipe.to).name);
    }
    format!("{:032x}", hasher.finish128().as_u128())
}
