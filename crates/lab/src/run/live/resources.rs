//! Hosts' resources as a run goes on: CPU time that hosts were denied, and processes killed for
//! memory.
//!
//! Theory of starvation. A host's tasks may wait for a CPU for three reasons: others have it, which
//! falsifies the experiment; the host has used up its own quota, which is the experiment; or its
//! tasks outnumber its CPUs, which is the host's own affair. Two bounds hold for what others took:
//! the time that tasks waited while the host was not throttled by its quota, and the part of its
//! quota that the host did not use. A host that got its whole quota lacked nothing.

use std::time::Duration;

use longhaul_linux::resources::{GroupUsage, Groups};
use longhaul_linux::sandbox::HostCounters;
use longhaul_plan::plan::Plan;

use crate::resources::{Allotment, ResourcesSummary};

/// What a host lacked within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lacked {
    /// CPU time within its quota that it wanted and did not get.
    pub(super) time: Duration,
    /// The same for a whole CPU: of a host with half a CPU, twice as much.
    pub(super) of_a_cpu: Duration,
}

/// What is known of each host.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    throttled_ns: u64,
    /// Kills for want of memory that have been reported for programs.
    reported_kills: u64,
    /// Kills that the watchdog has reported.
    watchdog_kills: u64,
}

/// Monitors what hosts with resources use and lack.
pub(super) struct ResourceMonitor<'a> {
    allotment: &'a Allotment,
    groups: Option<&'a Groups>,
    names: Vec<&'a str>,
    seen: Vec<Seen>,
    /// CPUs of programs.
    cpus: usize,
}

impl<'a> ResourceMonitor<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        allotment: &'a Allotment,
        groups: Option<&'a Groups>,
    ) -> Self {
        Self {
            allotment,
            groups,
            names: plan.hosts.iter().map(|host| host.name.as_str()).collect(),
            seen: vec![Seen::default(); plan.hosts.len()],
            cpus: allotment.facts.cpus.len().max(1),
        }
    }

    /// Notes for the user, known from the start.
    pub(super) fn notes(&self) -> &'a [String] {
        &self.allotment.notes
    }

    /// The CPUs that a host's programs run on.
    pub(super) fn cpus_of(&self, host: usize) -> &[usize] {
        match self.allotment.hosts.get(host) {
            Some(share) if !share.cpus.is_empty() => &share.cpus,
            _ => &self.allotment.facts.cpus,
        }
    }

    /// How much CPU time a host's programs are kept to, in CPUs; `None` where they are not.
    pub(super) fn quota_of(&self, host: usize) -> Option<f64> {
        let limit = self.allotment.hosts.get(host)?.limits.cpu?;
        Some(f64::from(limit.quota) / 1_000.0)
    }

    /// What a host lacked since the last call, `took` ago.
    pub(super) fn lacked(
        &mut self,
        host: usize,
        before: &HostCounters,
        now: &HostCounters,
        took: Duration,
    ) -> Lacked {
        let usage = self.usage(host);
        let throttled = &mut self.seen[host].throttled_ns;
        let throttled_ns = usage.throttled_ns.saturating_sub(*throttled);
        *throttled = usage.throttled_ns;
        let limit = self
            .allotment
            .hosts
            .get(host)
            .and_then(|share| share.limits.cpu);
        let quota = limit.map_or(self.cpus as f64, |cpu| f64::from(cpu.quota) / 1_000.0);
        let throttled_waits = throttled_ns.saturating_mul(u64::from(now.tasks.max(1)));
        lacked(
            now.run_wait_ns
                .saturating_sub(before.run_wait_ns)
                .saturating_sub(throttled_waits),
            now.cpu_ns.saturating_sub(before.cpu_ns),
            quota,
            took,
        )
    }

    /// A process of a host was ended for want of memory, by the watchdog.
    pub(super) fn note_kill(&mut self, host: usize) {
        if let Some(seen) = self.seen.get_mut(host) {
            seen.watchdog_kills += 1;
        }
    }

    /// Why a program of this host was killed, where the kernel did it for want of memory.
    pub(super) fn killed(&mut self, host: usize) -> Option<String> {
        let kills = self.usage(host).oom_kills;
        let limit = self.allotment.hosts.get(host)?.limits.memory?;
        let reported = &mut self.seen[host].reported_kills;
        if kills <= *reported {
            return None;
        }
        *reported += 1;
        Some(format!(
            "it was killed: {} had used up its {} of memory",
            self.names[host],
            size(limit)
        ))
    }

    /// Warnings at the end of the run.
    pub(super) fn warnings(&self) -> Vec<String> {
        let hosts = self.names.iter().zip(&self.allotment.hosts).enumerate();
        let warnings = hosts.filter_map(|(host, (name, share))| {
            let kills = self.usage(host).oom_kills;
            let limit = share.limits.memory.filter(|_| kills > 0)?;
            let (what, were) = match kills {
                1 => ("process", "was"),
                _ => ("processes", "were"),
            };
            Some(format!(
                "{kills} {what} on {name} {were} killed, since the host had used up its {} of memory",
                size(limit)
            ))
        });
        warnings.collect()
    }

    /// What the summary says.
    pub(super) fn summary(&self, counters: &[HostCounters]) -> Option<ResourcesSummary> {
        let been = counters.iter().enumerate();
        let been: Vec<_> = been
            .map(|(host, now)| (self.usage(host), now.cpu_ns))
            .collect();
        ResourcesSummary::of(self.allotment, &self.names, &been)
    }

    fn usage(&self, host: usize) -> GroupUsage {
        let groups = self.groups.map(|groups| groups.usage(host));
        let usage = groups.unwrap_or_default();
        GroupUsage {
            oom_kills: usage.oom_kills + self.seen[host].watchdog_kills,
            ..usage
        }
    }
}

/// What a host with a quota of CPUs lacked whose tasks waited and ran for this long.
fn lacked(waited_ns: u64, ran_ns: u64, quota: f64, took: Duration) -> Lacked {
    let right = took.mul_f64(quota);
    let unused = right.saturating_sub(Duration::from_nanos(ran_ns));
    let time = Duration::from_nanos(waited_ns).min(unused);
    Lacked {
        time,
        of_a_cpu: time.div_f64(quota.clamp(0.001, 1.0)),
    }
}

/// A size in MiB, for people.
fn size(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(ms: u64) -> u64 {
        ms * 1_000_000
    }

    #[test]
    fn a_host_that_had_its_share_lacked_nothing() {
        // Two busy tasks on one CPU, and one that others kept from it for half of the second.
        assert_eq!(
            lacked(ms(1_000), ms(1_000), 1.0, SECOND).time,
            Duration::ZERO
        );
        assert_eq!(lacked(ms(500), ms(500), 1.0, SECOND).time.as_millis(), 500);
        // A quarter of a CPU, all of it; then none of it.
        assert_eq!(lacked(ms(750), ms(250), 0.25, SECOND).time, Duration::ZERO);
        let nothing = lacked(ms(1_000), 0, 0.25, SECOND);
        assert_eq!(nothing.time.as_millis(), 250);
        assert_eq!(nothing.of_a_cpu.as_millis(), 1_000);
        // A host that did not want to run was not kept from running.
        assert_eq!(lacked(ms(3), ms(10), 2.0, SECOND).time.as_millis(), 3);
    }
}
