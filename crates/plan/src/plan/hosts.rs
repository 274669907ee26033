//! Hosts: their network cards, and the TCP that the file asks for.

use std::sync::Arc;

use longhaul_core::topology::Node;
use longhaul_core::units::Bytes;
use longhaul_core::{NodeId, Topology};

use super::nodes::Nodes;
use super::paths::Reach;
use super::resources::Resources;
use super::{HostPlan, TCP_BUFFER, TcpProfile};
use crate::file::spec::{Experiment, Tcp};
use crate::file::wrap::Quantity;
use crate::text::error::{Faults, shown};

/// The TCP that a file asks for; what is absent is pinned to the defaults.
#[derive(Debug, Clone, Default)]
pub(crate) struct TcpWish {
    congestion: Option<String>,
    rmem: Option<u64>,
    wmem: Option<u64>,
    ecn: Option<bool>,
}

impl TcpWish {
    pub(super) fn new(spec: Option<&Tcp>, faults: &mut Faults) -> Self {
        let Some(spec) = spec else {
            return Self::default();
        };
        let mut buffer = |field: &Option<Quantity<Bytes>>| {
            let field = field.as_ref()?;
            let bytes = field.get(faults)?.0;
            if !TCP_BUFFER.contains(&bytes) {
                let message = "a TCP buffer must have between 4 KiB and 1 GiB";
                faults.add(field.at(), message, "write it like `16 MiB`");
            }
            Some(bytes)
        };
        let (rmem, wmem) = (buffer(&spec.rmem), buffer(&spec.wmem));
        let congestion = spec.congestion.as_ref().map(|name| {
            // The kernel's bound is TCP_CA_NAME_MAX, 16 with the closing zero.
            let fits = (1..16).contains(&name.value.len());
            let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if !fits || !name.value.chars().all(known) {
                let message = format!(
                    "`{}` is not a name of a congestion control",
                    shown(&name.value)
                );
                faults.add(
                    name.at,
                    message,
                    "write a name such as `cubic`, `reno` or `bbr`",
                );
            }
            name.value.clone()
        });
        Self {
            congestion,
            rmem,
            wmem,
            ecn: spec.ecn,
        }
    }

    /// With what is absent here taken from `other`.
    fn or(self, other: &Self) -> Self {
        Self {
            congestion: self.congestion.or_else(|| other.congestion.clone()),
            rmem: self.rmem.or(other.rmem),
            wmem: self.wmem.or(other.wmem),
            ecn: self.ecn.or(other.ecn),
        }
    }
}

/// The hosts, each with its network cards, its TCP and the resources of its entry.
pub(super) fn lower(
    spec: &Experiment,
    topology: &Topology,
    nodes: &Nodes,
    reach: &Reach,
    (tcp, mtu, resources): (&TcpWish, u32, &[Arc<Resources>]),
    faults: &mut Faults,
) -> Vec<HostPlan> {
    let entries = &spec.topology.nodes.0;
    let wishes: Vec<TcpWish> = entries
        .iter()
        .map(|(_, node)| {
            let own = node.0.as_ref().and_then(|node| node.tcp.as_ref());
            TcpWish::new(own.map(|own| &own.value), faults).or(tcp)
        })
        .collect();
    let host = |(id, node): (NodeId, &Node)| {
        let entry = nodes
            .find(&node.name)
            .map_or(0, |index| nodes.list[index].entry);
        let wish = wishes.get(entry).unwrap_or(tcp);
        let nic = topology.outgoing(id).to_vec();
        let buffer = reach.tcp_buffer(id);
        HostPlan {
            node: id,
            name: node.name.clone(),
            mtu: nic
                .iter()
                .map(|pipe| topology.pipe(*pipe).mtu)
                .min()
                .unwrap_or(mtu),
            tcp: TcpProfile {
                congestion: wish
                    .congestion
                    .clone()
                    .unwrap_or_else(|| "cubic".to_owned()),
                rmem_max: wish.rmem.unwrap_or(buffer),
                wmem_max: wish.wmem.unwrap_or(buffer),
                ecn: wish.ecn.unwrap_or(false),
            },
            nic,
            resources: resources.get(entry).cloned().unwrap_or_default(),
        }
    };
    topology.hosts().map(host).collect()
}
