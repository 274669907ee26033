//! The present state of hosts, for `longhaul hosts` and for programs on the hosts themselves.

use longhaul_linux::sandbox::HostCounters;

use super::programs::{Programs, State};
use super::supervise::Supervisor;
use crate::info::{HostsNow, Load, Place};

/// What hosts have used by the end of the last second, by number.
#[derive(Debug, Default)]
pub(super) struct Used {
    hosts: Vec<HostUsed>,
}

/// What one host has used.
#[derive(Debug, Clone, Copy, Default)]
struct HostUsed {
    processes: u32,
    cpu_ns: u64,
    /// What it used in the last second, and how long that was.
    last: (u64, f64),
}

impl HostUsed {
    /// CPUs in use over the last second.
    fn cpus(&self) -> f64 {
        match self.last {
            (ns, elapsed) if elapsed > 0.0 => ns as f64 / 1e9 / elapsed,
            _ => 0.0,
        }
    }
}

impl Used {
    /// Takes note of counters that are `elapsed` seconds after the last ones.
    pub(super) fn take(&mut self, counters: &[HostCounters], elapsed: f64) {
        self.hosts.resize(counters.len(), HostUsed::default());
        for (used, now) in self.hosts.iter_mut().zip(counters) {
            // The counters of a host that has died read as zero.
            let cpu_ns = used.cpu_ns.max(now.cpu_ns);
            *used = HostUsed {
                processes: now.processes,
                cpu_ns,
                last: (cpu_ns - used.cpu_ns, elapsed),
            };
        }
    }
}

impl Supervisor<'_> {
    /// All hosts of the run at this moment.
    pub(super) fn hosts_now(&self) -> HostsNow {
        let running = running(&self.programs, self.plan.hosts.len());
        let state = |host: usize| {
            let place = Place {
                cpus: self.resources.cpus_of(host).to_vec(),
                quota: self.resources.quota_of(host),
            };
            let used = self.used.hosts.get(host).copied().unwrap_or_default();
            let programs = running[host].clone();
            let cpus_used = used.cpus();
            let load = Load {
                busy: !programs.is_empty() || used.processes > 0,
                programs,
                processes: used.processes,
                cpu_s: used.cpu_ns as f64 / 1e9,
                cpus_used,
                share_used: place.quota.map(|quota| cpus_used / quota),
            };
            (Some(place), Some(load))
        };
        HostsNow::new(self.plan, self.core.now().time.as_s(), state)
    }
}

impl Supervisor<'_> {
    /// Sends the hosts' service the run's state, if it has asked for it.
    pub(super) fn answer_inquiry(&mut self) {
        if self.sandbox.is_asked() {
            let now = self.hosts_now();
            self.sandbox.send_state(&now);
        }
    }
}

/// The names of the programs that run now, by host.
fn running(programs: &Programs, hosts: usize) -> Vec<Vec<String>> {
    let mut running = vec![Vec::new(); hosts];
    for program in programs.list() {
        if matches!(program.state, State::Running { .. }) {
            running[program.host_number()].push(program.name().to_owned());
        }
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_that_of_the_last_second() {
        let mut used = Used::default();
        let counters = |cpu_ns, processes| HostCounters {
            cpu_ns,
            processes,
            ..HostCounters::default()
        };
        used.take(&[counters(1_000, 1), counters(0, 0)], 1.0);
        used.take(&[counters(3_000, 2), counters(0, 0)], 2.0);
        let host = used.hosts[0];
        assert_eq!(host.cpus(), 1e-6);
        assert_eq!(
            (host.processes, host.cpu_ns, host.last),
            (2, 3_000, (2_000, 2.0))
        );
        used.take(&[HostCounters::default(); 2], 1.0);
        assert_eq!((used.hosts[0].cpu_ns, used.hosts[0].last.0), (3_000, 0));
    }
}
