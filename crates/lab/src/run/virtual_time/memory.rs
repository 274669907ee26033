//! What a virtual run takes of the machine's memory at least, before it is run.
//!
//! The figures for one node, pipe and flow were measured as differences of peaks of the resident
//! memory (`/usr/bin/time -v longhaul run`): hosts on a router, 50,000 to 200,000 as a group, 1961
//! B for a host with its link, 20,000 to 100,000 generated, 2403 B; 1 to 21 flows of each of
//! 100,000 hosts that never start, 66 B; 1 to 201 of each of 1000 hosts that never end, 4.8 kB for
//! requests and 1.0 kB for datagrams. Where they differ, the smaller one counts, and what cannot be
//! known is left out, so that nothing is refused that might fit: packets, which take what queues
//! hold at a time, and flows that start at random and end by themselves.

use longhaul_core::Time;
use longhaul_core::params::Distribution;

use super::Machine;
use crate::run::RunError;
use longhaul_plan::flow_groups::{Carrier, Draw, Each, FlowGroup, Work};
use longhaul_plan::plan::Plan;

/// What is kept of a node.
const NODE_BYTES: u64 = 450;
/// What is kept of a pipe.
const PIPE_BYTES: u64 = 750;
/// What is kept of a flow that is not under way.
const FLOW_BYTES: u64 = 66;
/// What both ends of a TCP flow take that is under way.
const TCP_BYTES: u64 = 4500;
/// What both ends of a flow of datagrams take.
const UDP_BYTES: u64 = 900;

/// The parts of a run that are known before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of nodes and pipes.
    pub network: u64,
    /// Bytes of all flows before they start and when they are over.
    pub flows: u64,
    /// Bytes of the flows that are certain to be under way at one time, beside the above.
    pub at_once: u64,
}

impl Needs {
    /// Those of a virtual run of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let (nodes, pipes) = (plan.topology.nodes().len(), plan.topology.pipes().len());
        let groups = plan.traffic.groups.iter();
        let certain = groups.map(|group| (group.is_bounded(), at_once(group, plan)));
        // Who ends by itself may be gone before another entry begins.
        let (mut stay, mut pass) = (0, 0);
        for (is_bounded, bytes) in certain {
            if is_bounded {
                pass = bytes.max(pass)
            } else {
                stay += bytes
            }
        }
        Self {
            network: nodes as u64 * NODE_BYTES + pipes as u64 * PIPE_BYTES,
            flows: plan.traffic.flows * FLOW_BYTES,
            at_once: stay + pass,
        }
    }

    /// Bytes in all.
    pub const fn total(&self) -> u64 {
        self.network + self.flows + self.at_once
    }

    /// Bytes of a flow of such work while it is under way.
    pub const fn of_flow(work: &Work) -> u64 {
        match work {
            Work::Paced {
                by: Carrier::Udp(_),
                ..
            } => UDP_BYTES,
            _ => TCP_BYTES,
        }
    }

    /// Refuses a run that cannot fit. The plan is there already, and counts among what is needed.
    pub(crate) fn check(&self, machine: &dyn Machine) -> Result<(), RunError> {
        let available = machine.memory().unwrap_or(u64::MAX);
        if self.total() <= available {
            return Ok(());
        }
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        Err(RunError::Memory {
            needed: gib(self.total()),
            available: gib(available),
        })
    }
}

/// Bytes of the flows of a group that are certain to be under way at one time.
fn at_once(group: &FlowGroup, plan: &Plan) -> u64 {
    let Each::Together(count) = group.each else {
        return 0;
    };
    let last = match &group.start {
        Draw::Constant(start) => *start as f64,
        Draw::Random(Distribution::Uniform { high, .. }) if !group.is_bounded() => *high,
        _ => return 0,
    };
    let end = plan.duration.map(|duration| Time::ZERO + duration);
    if end.is_some_and(|end| last >= end.as_ns() as f64) {
        return 0;
    }
    let flows = (group.pairs.len() as u64).saturating_mul(count);
    flows.saturating_mul(Needs::of_flow(&group.work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::virtual_time::tests::with_memory;

    fn needs(traffic: &str) -> Needs {
        let text = format!(
            "clock: virtual\nduration: 10 s\ntopology:\n  nodes: {{ a: {{ count: 20 }}, r: {{ kind: \
             router }} }}\n  links: [{{ ends: [a, r], delay: 1 ms }}]\ntraffic:\n{traffic}"
        );
        Needs::of(&Plan::from_text(&text, "memory.yaml").unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn flows_count_as_under_way_where_that_is_certain() {
        let all = |rest: &str| format!("  x: {{ from: a, pattern: all-to-all, {rest} }}\n");
        let flows = 20 * 19;
        for (rest, each, under_way) in [
            ("bytes: 1 kB", 1, TCP_BYTES),
            ("flows: 3", 3, TCP_BYTES),
            ("model: udp, rate: 1 kbit/s", 1, UDP_BYTES),
            ("start: { uniform: [0 s, 5 s] }", 1, TCP_BYTES),
            ("start: { uniform: [0 s, 5 s] }, bytes: 1 kB", 1, 0),
            ("start: { uniform: [0 s, 15 s] }", 1, 0),
            ("start: 20 s, bytes: 1 kB", 1, 0),
        ] {
            let found = needs(&all(rest));
            assert_eq!(found.flows, flows * each * FLOW_BYTES, "{rest}");
            assert_eq!(found.at_once, flows * each * under_way, "{rest}");
            assert_eq!(found.network, 21 * NODE_BYTES + 40 * PIPE_BYTES);
        }
        // Of two that end, the larger one; those without end stay.
        let one = "  a: { from: a0, to: a1, bytes: 1 kB, flows: 5 }\n  b: { from: a0, to: a1, \
                   bytes: 1 kB, start: 2 s }\n  c: { from: a0, to: a1 }\n";
        assert_eq!(needs(one).at_once, 6 * TCP_BYTES);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        let needs = Needs {
            network: 1 << 30,
            flows: 1 << 30,
            at_once: 3 << 30,
        };
        assert!(needs.check(&with_memory(Some(5 << 30))).is_ok());
        let error = needs.check(&with_memory(Some((5 << 30) - 1)));
        let error = error.unwrap_err().to_string();
        for part in ["at least 5.0 GiB", "has 5.0 GiB", "fewer"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_run_that_no_machine_can_hold_is_refused_before_it_starts() {
        let large = "  x: { from: a, pattern: all-to-all, flows: 20000 }\n";
        let found = needs(large);
        assert_eq!(found.at_once, 380 * 20_000 * TCP_BYTES);
        assert!(found.check(&with_memory(Some(16 << 30))).is_err());
        assert!(found.check(&with_memory(None)).is_ok(), "memory unknown");
    }
}
