//! The figures of a calibration, as its file holds them. docs/calibration.md describes the fields.

use serde::{Deserialize, Serialize};

use crate::fidelity::{Quantiles, State};
use longhaul_plan::plan::Plan;

/// UDP packets of one kind, and how the emulation kept up with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Pipes on the way.
    pub hops: u32,
    /// Length of the IP packets in bytes.
    pub packet_bytes: u32,
    /// The rate that was asked for; `None` for as much as the sender could.
    pub asked_packets_per_s: Option<u64>,
    /// The rate that the sender reached.
    pub sent_packets_per_s: f64,
    /// Of it, what arrived.
    pub delivered_packets_per_s: f64,
    /// Packets that the sender's kernel took.
    pub sent: u64,
    /// Packets that entered the emulated network.
    pub entered: u64,
    /// Packets that came out of it.
    pub delivered: u64,
    /// Packets that the emulated network still held, or had dropped, at the end.
    pub left: u64,
    /// Packets that the machine lost.
    pub physical_drops: u64,
    /// The part of the time that the core was on its CPU, spinning included.
    pub core_busy: f64,
    /// How late packets left.
    pub lateness_ns: Quantiles,
    /// The verdict of the best try.
    pub state: State,
    /// How many tries there were.
    pub tries: u32,
}

/// One TCP connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tcp {
    /// Pipes on the way.
    pub hops: u32,
    /// The links' MTU.
    pub mtu: u32,
    /// Payload that arrived.
    pub bytes: u64,
    /// In which time.
    pub seconds: f64,
    /// The one over the other.
    pub bits_per_s: f64,
    /// The part of the time that the core was on its CPU, spinning included.
    pub core_busy: f64,
    /// How late packets left.
    pub lateness_ns: Quantiles,
    /// Packets that the machine lost.
    pub physical_drops: u64,
    /// The verdict.
    pub state: State,
}

/// A number of hosts coming up and going away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    /// How many.
    pub hosts: u32,
    /// Until all were up and connected.
    pub setup_s: f64,
    /// The same for each.
    pub setup_per_host_s: f64,
    /// Until nothing of them was left.
    pub teardown_s: f64,
    /// Memory that the machine had less of while they were up, the core's included; `None` where
    /// it is unknown.
    pub used_bytes: Option<u64>,
}

/// Memory of things.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Of each host; `None` where unknown. Measured, with all that the kernel keeps.
    pub host_bytes: Option<u64>,
    /// Of each packet inside the network, at MTU 1500.
    pub packet_bytes: u64,
    /// Of each packet inside the network, at MTU 9000.
    pub jumbo_packet_bytes: u64,
}

impl Memory {
    /// What things take, hosts by what `hosts` took.
    pub(super) fn of(hosts: &[Hosts]) -> Self {
        let slot = |mtu: u32| {
            let plan = Plan::from_text(
                &format!(
                    "mtu: {mtu}\ntopology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [{{ ends: [a, b] }}] }}\n"
                ),
                "memory.yaml",
            );
            plan.map_or(0, |plan| plan.slot_bytes() as u64)
        };
        Self {
            host_bytes: per_host(hosts),
            packet_bytes: slot(1500),
            jumbo_packet_bytes: slot(9000),
        }
    }
}

/// What each host adds, from the difference between the smallest and the largest number of them.
fn per_host(hosts: &[Hosts]) -> Option<u64> {
    let largest = hosts.iter().max_by_key(|all| all.hosts)?;
    let smallest = hosts.iter().min_by_key(|all| all.hosts)?;
    let (mut bytes, mut count) = (largest.used_bytes?, u64::from(largest.hosts));
    if smallest.hosts < largest.hosts {
        bytes = bytes.checked_sub(smallest.used_bytes?)?;
        count -= u64::from(smallest.hosts);
    }
    bytes.checked_div(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_memory_is_what_more_of_them_add() {
        let hosts = |hosts, used_bytes| Hosts {
            hosts,
            setup_s: 0.1,
            setup_per_host_s: 0.0,
            teardown_s: 0.0,
            used_bytes,
        };
        let both = [hosts(100, Some(90_000)), hosts(500, Some(290_000))];
        assert_eq!(per_host(&both), Some(500));
        assert_eq!(per_host(&both[1..]), Some(580));
        assert_eq!(per_host(&[hosts(100, None), hosts(500, Some(1))]), None);
        assert_eq!(per_host(&[]), None);
    }
}
