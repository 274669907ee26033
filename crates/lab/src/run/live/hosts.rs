//! Lowers a plan's hosts to the sandbox's configuration of them on this machine.

use std::hash::Hasher;
use std::net::IpAddr;

use longhaul_core::engine::{GATEWAY_MAC, host_mac};
use longhaul_core::topology::NodeKind;
use longhaul_emulation::Known;
use longhaul_linux::packet_io::RingConfig;
use longhaul_linux::resources::Limits;
use longhaul_linux::sandbox::{
    HostConfig, SandboxConfig, TcpConfig, orders_super_packets, tcp_buckets,
};
use longhaul_plan::plan::{HostPlan, Plan};
use longhaul_proto::names::DOMAIN;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::backpressure::SPEED_START;
use super::bottleneck::{self, Bottleneck};
use super::placement::Placement;
use crate::folder::RunFolder;
use crate::run::RunOptions;

pub(super) fn sandbox_config(
    plan: &Plan,
    options: &RunOptions,
    folder: &RunFolder,
    placement: &Placement,
) -> SandboxConfig {
    SandboxConfig {
        hosts_file: hosts_file(plan),
        domain: Some(DOMAIN.to_owned()),
        visible: vec![options.experiment_dir.clone(), folder.path().to_owned()],
        cpus: placement.programs.clone(),
        remove: folder.control_socket(),
        gateway_mac: GATEWAY_MAC,
        offload: offloads(plan),
        tcp_buckets: tcp_buckets(plan.hosts.len()),
    }
}

/// Every host's `/etc/hosts`: itself, and all nodes that have an address, by both of their names.
pub(super) fn hosts_file(plan: &Plan) -> String {
    let nodes = plan.topology.nodes().iter();
    let addressed = nodes.filter(|node| node.kind != NodeKind::Lan);
    let line = |address: IpAddr, name: &str| format!("{address}\t{name}\t{name}.{DOMAIN}\n");
    let lines = addressed.map(|n| line(n.ipv4.into(), &n.name) + &line(n.ipv6.into(), &n.name));
    let local = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    std::iter::once(local).chain(lines).collect()
}

/// `hosts.txt`: name, IPv4 and IPv6 address of each host.
pub(super) fn host_list(plan: &Plan) -> String {
    let line = |host: &HostPlan| {
        let node = plan.topology.node(host.node);
        format!("{} {} {}\n", node.name, node.ipv4, node.ipv6)
    };
    plan.hosts.iter().map(line).collect()
}

/// Whether there are hosts that hand over super-packets.
pub(super) fn offloads(plan: &Plan) -> bool {
    let hands_over =
        |host: &HostPlan| bottleneck::of_host(plan, host, &Known::default(), true).segments() > 1;
    // Modelled hosts take packets, not super-packets.
    plan.offload
        && plan.traffic.flows == 0
        && orders_super_packets()
        && plan.hosts.iter().any(hands_over)
}

/// The same plan for a machine whose kernel cannot steer super-packets to one of the run's CPUs,
/// and so cannot keep them in order.
pub(super) fn without_offload(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.offload = false;
    if plan.asks_for_offload {
        plan.warnings.push(
            "`offload` has no effect: the kernel steers no packets to the run's CPUs (are they \
             isolated?)"
                .to_owned(),
        );
    }
    plan
}

/// The receive rings of a plan's run on this machine.
pub fn ring_configs(plan: &Plan) -> Vec<RingConfig> {
    if offloads(plan) {
        RingConfig::with_super_packets(largest_mtu(plan)).into()
    } else {
        vec![RingConfig::for_mtu(largest_mtu(plan))]
    }
}

pub(super) fn host_configs(plan: &Plan) -> Vec<HostConfig> {
    let offload = offloads(plan);
    let config = |host: &HostPlan| {
        let node = plan.topology.node(host.node);
        let bottleneck = bottleneck::of_host(plan, host, &Known::default(), offload);
        HostConfig {
            name: host.name.clone(),
            machine_id: machine_id(plan.seed, &host.name),
            memory: host.resources.memory,
            mac: host_mac(host.node),
            ipv4: node.ipv4,
            ipv6: node.ipv6,
            mtu: host.mtu,
            tcp: TcpConfig {
                congestion: host.tcp.congestion.clone(),
                rmem_max: host.tcp.rmem_max,
                wmem_max: host.tcp.wmem_max,
                ecn: host.tcp.ecn,
            },
            shaper: Some(match bottleneck {
                Bottleneck::Link { shaper, .. } => shaper,
                Bottleneck::Machine => {
                    let frame = bottleneck::longest_frame(host.mtu, offload);
                    bottleneck::machine_shaper(SPEED_START, frame)
                }
            }),
            segments: if offload { bottleneck.segments() } else { 1 },
            limits: Limits::default(),
            groups: Vec::new(),
            cpus: Vec::new(),
        }
    };
    plan.hosts.iter().map(config).collect()
}

/// The machine-id of a host: its own, and the same whenever the experiment runs with this seed. It has
/// the form of a random UUID, as machine-id(5) asks for.
fn machine_id(seed: u64, name: &str) -> u128 {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let mut hasher = SipHasher24::new_with_keys(seed, 0);
    hasher.write(name.as_bytes());
    let hash = hasher.finish128().as_u128();
    hash & !VERSION & !VARIANT | 4 << 76 | 0b10 << 62
}

pub(super) fn largest_mtu(plan: &Plan) -> u32 {
    plan.hosts
        .iter()
        .map(|host| host.mtu)
        .max()
        .unwrap_or(plan.mtu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_every_seed_has_a_machine_id_of_its_own() {
        let ids = [(1, "a"), (1, "b"), (2, "a")].map(|(seed, name)| machine_id(seed, name));
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
        assert_eq!(ids[0], machine_id(1, "a"));
        for id in ids.map(|id| format!("{id:032x}")) {
            assert_eq!(&id[12..13], "4", "{id}");
            assert!("89ab".contains(&id[16..17]), "{id}");
        }
    }
}
