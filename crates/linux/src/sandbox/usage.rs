//! Reads a host's figures from `/proc`: dropped frames, tasks, listening sockets, TCP counters.

use std::collections::HashMap;
use std::fs;

use super::boot::INTERFACE;
use super::{HostUsage, TcpCounters};
use crate::cpu::{Schedstat, schedstat};
use crate::procfs::{numbers_in, resident_bytes};

/// Frames that an interface dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Drops {
    /// While it received them.
    pub(super) received: u64,
    /// While it sent them.
    pub(super) sent: u64,
}

/// What each interface dropped, as `/proc/PID/net/dev` shows it.
fn drops(table: &str) -> impl Iterator<Item = (&str, Drops)> {
    table.lines().filter_map(|line| {
        let (name, fields) = line.split_once(':')?;
        // receive: bytes packets errs drop fifo frame compressed multicast; transmit: the same.
        let field = |number| fields.split_whitespace().nth(number)?.parse().ok();
        let (received, sent) = (field(3)?, field(11)?);
        Some((name.trim(), Drops { received, sent }))
    })
}

/// Frames that a host's end of its cable lost: the core's end had no room for them.
pub(super) fn to_core_dropped(pid: i32) -> u64 {
    let table = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    drops(&table)
        .find(|(name, _)| *name == INTERFACE)
        .map_or(0, |(_, drops)| drops.sent)
}

/// What the core's ends of the cables lost, by host number.
pub(super) fn cable_drops() -> Vec<(usize, Drops)> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    drops(&table)
        .filter_map(|(name, drops)| Some((name.strip_prefix('h')?.parse().ok()?, drops)))
        .collect()
}

/// Whether a TCP socket listens on `port` in the network namespace of `pid`.
pub(super) fn listening(pid: i32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().is_some_and(|local| local.ends_with(&port));
            local && words.nth(1) == Some(LISTEN)
        })
    })
}

/// What the TCP of these processes' network namespaces has counted.
pub(super) fn tcp_counters(pids: impl Iterator<Item = i32>) -> TcpCounters {
    let mut sum = TcpCounters::default();
    for pid in pids {
        let table = |name| fs::read_to_string(format!("/proc/{pid}/net/{name}"));
        let snmp = table("snmp").unwrap_or_default();
        let netstat = table("netstat").unwrap_or_default();
        sum.retransmissions += counter(&snmp, "Tcp:", "RetransSegs");
        sum.spurious_retransmissions += counter(&netstat, "TcpExt:", "TCPDSACKRecv");
        sum.timeouts += counter(&netstat, "TcpExt:", "TCPTimeouts");
        sum.spurious_timeouts += counter(&netstat, "TcpExt:", "TCPSpuriousRTOs");
    }
    sum
}

/// A counter of a table that has a line of names and one of values for each protocol; 0 where the
/// kernel does not have it.
fn counter(table: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = table.lines().filter(|line| line.starts_with(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let place = names.split_whitespace().position(|word| word == name);
    let value = place.and_then(|place| values.split_whitespace().nth(place));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// What every host's tasks have used, added up over the run.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// What each task had used by the last sample.
    seen: HashMap<i32, Schedstat>,
    totals: Vec<Schedstat>,
}

impl Tasks {
    /// Samples all tasks of the sandbox; with `memory` also what processes hold, which takes
    /// another file of each.
    pub(super) fn scan(
        &mut self,
        inits: impl Iterator<Item = i32>,
        memory: bool,
    ) -> Vec<HostUsage> {
        let mut host_of = HashMap::new();
        let mut init_pids = Vec::new();
        for (pid, host) in inits.zip(0usize..) {
            init_pids.push(pid);
            if let Some(namespace) = pid_namespace(pid) {
                host_of.insert(namespace, host);
            }
        }
        let mut usage = vec![HostUsage::default(); init_pids.len()];
        self.totals.resize(init_pids.len(), Schedstat::default());
        init_pids.sort_unstable();
        let mut seen = HashMap::new();
        for pid in numbers_in("/proc").filter(|pid| init_pids.binary_search(pid).is_err()) {
            let Some(&host) = pid_namespace(pid).and_then(|namespace| host_of.get(&namespace))
            else {
                continue;
            };
            let (usage, total) = (&mut usage[host], &mut self.totals[host]);
            usage.processes += 1;
            if memory {
                usage.resident_bytes += resident_bytes(pid).unwrap_or(0);
            }
            for task in numbers_in(&format!("/proc/{pid}/task")) {
                let Some(now) = schedstat(&format!("/proc/{pid}/task/{task}/schedstat")) else {
                    continue;
                };
                usage.tasks += 1;
                // A reused number begins below what its last owner had used.
                let before = self.seen.get(&task).copied().unwrap_or_default();
                total.ran_ns += now.ran_ns.saturating_sub(before.ran_ns);
                total.waited_ns += now.waited_ns.saturating_sub(before.waited_ns);
                seen.insert(task, now);
            }
        }
        self.seen = seen;
        for (usage, total) in usage.iter_mut().zip(&self.totals) {
            (usage.cpu_ns, usage.run_wait_ns) = (total.ran_ns, total.waited_ns);
        }
        usage
    }
}

fn pid_namespace(pid: i32) -> Option<std::ffi::OsString> {
    fs::read_link(format!("/proc/{pid}/ns/pid"))
        .ok()
        .map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let table = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoMin MaxConn RetransSegs\n\
                     Tcp: 200 -1 17\nTcpExt: RetransSegs\nTcpExt: 5\n";
        assert_eq!(counter(table, "Tcp:", "RetransSegs"), 17);
        assert_eq!(counter(table, "TcpExt:", "RetransSegs"), 5);
        assert_eq!(counter(table, "Tcp:", "MaxConn"), 0, "it says -1");
        assert_eq!(counter(table, "Udp:", "InErrors"), 0);
    }

    #[test]
    fn an_interface_has_two_counters_of_drops() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame \
                     compressed multicast|bytes packets errs drop fifo colls carrier compressed\n\
                     h12: 1 2 3 40 5 6 7 8 9 10 11 120 13 14 15 16\n";
        let seen: Vec<_> = drops(table).collect();
        let h12 = Drops {
            received: 40,
            sent: 120,
        };
        assert_eq!(seen, [("h12", h12)]);
    }
}
