//! The machine's memory that a run needs, estimated before it starts.

use longhaul_lab::run::ring_configs;
use longhaul_lab::run::virtual_time::memory::Needs;
use longhaul_plan::plan::{Plan, RunClock};
use serde_json::{Value, json};

use crate::style;

/// Kernel memory of one host: measured over 500 of them.
const HOST_BYTES: u64 = 300 << 10;
/// Beside the packet pool.
enum Memory {
    Real {
        ring: u64,
        hosts: u64,
        /// Of one connection of the host with the largest buffers, to receive and to send.
        socket: (u64, u64),
    },
    Virtual(Needs),
}

impl Memory {
    fn of(plan: &Plan) -> Self {
        if plan.clock == RunClock::Virtual {
            return Self::Virtual(Needs::of(plan));
        }
        let tcp = || plan.hosts.iter().map(|host| &host.tcp);
        Self::Real {
            ring: ring_configs(plan)
                .iter()
                .map(|ring| ring.bytes() as u64)
                .sum(),
            hosts: HOST_BYTES * plan.hosts.len() as u64,
            socket: (
                tcp().map(|tcp| tcp.rmem_max).max().unwrap_or(0),
                tcp().map(|tcp| tcp.wmem_max).max().unwrap_or(0),
            ),
        }
    }
}

/// The memory of one modelled flow, from the smallest kind in the plan to the largest.
fn each_flow(plan: &Plan) -> String {
    let groups = plan.traffic.groups.iter();
    let mut sizes: Vec<u64> = groups.map(|group| Needs::of_flow(&group.work)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(style::bytes).collect();
    sizes.join(" to ")
}

/// The section of `check`.
pub(crate) fn section(plan: &Plan) -> String {
    let pool = format!(
        "up to {} ({} packets of {} bytes)",
        style::bytes(plan.memory_bytes()),
        style::grouped(plan.packet_slots() as u64),
        style::grouped(plan.slot_bytes() as u64)
    );
    let mut rows = vec![("packet pool", pool)];
    match Memory::of(plan) {
        Memory::Real {
            ring,
            hosts,
            socket: (receive, send),
        } => rows.extend([
            ("receive ring", style::bytes(ring)),
            ("hosts", format!("about {}", style::bytes(hosts))),
            (
                "each TCP connection",
                format!(
                    "up to {} of receive and {} of send buffer",
                    style::bytes(receive),
                    style::bytes(send)
                ),
            ),
        ]),
        Memory::Virtual(needs) => rows.extend([
            ("network", format!("about {}", style::bytes(needs.network))),
            (
                "flows",
                format!(
                    "about {}{}, and {} for each active flow",
                    style::bytes(needs.flows),
                    match needs.at_once {
                        0 => String::new(),
                        bytes => format!(", at least {} while all are active", style::bytes(bytes)),
                    },
                    each_flow(plan)
                ),
            ),
        ]),
    }
    let row = |(what, size): (&str, String)| vec![what.to_owned(), size];
    style::table(&rows.into_iter().map(row).collect::<Vec<_>>())
}

/// The same as JSON.
pub(crate) fn as_json(plan: &Plan) -> Value {
    let mut value = json!({
        "packet_slots": plan.packet_slots(), "slot_bytes": plan.slot_bytes(),
        "packet_pool_bytes": plan.memory_bytes(),
    });
    match Memory::of(plan) {
        Memory::Real { ring, hosts, .. } => {
            value["ring_bytes"] = json!(ring);
            value["hosts_bytes"] = json!(hosts);
        }
        Memory::Virtual(needs) => {
            value["network_bytes"] = json!(needs.network);
            value["flows_bytes"] = json!(needs.flows);
            value["flows_at_once_bytes"] = json!(needs.at_once);
        }
    }
    value
}
