//! Samples hosts while a run goes on: CPU time and memory of their processes, and their kernels' TCP
//! connections.
//!
//! Both cost time of the CPUs that programs have. Where sampling takes more than 1 % of a CPU, the interval
//! grows until it takes less, and the run says so.

use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::MachineTime;
use longhaul_linux::connections::Connections;
use longhaul_linux::sandbox::{HostUsage, SandboxError, Usage};
use longhaul_plan::plan::Plan;

use super::supervise::Supervisor;
use crate::connections::{Connection, Dilation};
use crate::measure::HostRow;
use crate::pace::Pace;

/// Sampling may take one part in this many of a CPU.
const SHARE: u32 = 100;

/// How often one kind of sample is taken, and what that costs.
#[derive(Debug)]
struct Interval {
    /// What is sampled.
    what: &'static str,
    /// How often the file asks for it, where it does.
    asked: Option<Span>,
    /// How often it is sampled.
    every: Duration,
    next: MachineTime,
    samples: u32,
    cost: Duration,
}

impl Interval {
    fn new(what: &'static str, asked: Option<Span>, pace: Pace) -> Self {
        let every = asked.map_or(Duration::MAX, |span| pace.duration(span));
        Self {
            what,
            asked,
            every,
            next: pace.begin().at,
            samples: 0,
            cost: Duration::ZERO,
        }
    }

    /// Whether a sample is due; missed ones are not made up for. The interval has doubled `doublings` times to
    /// save room on the disk.
    fn is_due(&mut self, now: MachineTime, doublings: u32) -> bool {
        if self.asked.is_none() || now < self.next {
            return false;
        }
        let every = self.every.saturating_mul(1 << doublings.min(20));
        self.next = (self.next + every).max(now);
        true
    }

    /// How long until the next sample is due.
    fn due_in(&self, now: MachineTime) -> Option<Duration> {
        self.asked.map(|_| self.next.since(now))
    }

    /// Accounts for the cost of a sample, and lengthens the interval where the mean is too high.
    fn paid(&mut self, cost: Duration) {
        self.samples += 1;
        self.cost += cost;
        // The mean: a single sample includes whatever else the machine did.
        let mean = self.cost / self.samples;
        while self.every < mean * SHARE {
            self.every *= 2;
        }
    }

    fn warning(&self, pace: Pace) -> Option<String> {
        let asked = self.asked?;
        let done = pace.span(self.every);
        let mean = self.cost.checked_div(self.samples)?;
        (done > asked).then(|| {
            format!(
                "{} were sampled every {done} instead of every {asked}: a sample took {:.1} ms, and \
                 samples may take 1 % of a CPU",
                self.what,
                mean.as_secs_f64() * 1e3
            )
        })
    }
}

/// What the last samples said of hosts.
#[derive(Debug)]
pub(super) struct HostSampler {
    hosts: Interval,
    connections: Interval,
    used: Vec<HostUsage>,
    since: Time,
    /// Connections that did not fit into a sample.
    more: u64,
}

impl HostSampler {
    pub(super) fn new(plan: &Plan, pace: Pace) -> Self {
        let measure = &plan.measure;
        Self {
            hosts: Interval::new("hosts", measure.hosts, pace),
            connections: Interval::new("TCP connections", measure.connections, pace),
            used: vec![HostUsage::default(); plan.hosts.len()],
            since: Time::ZERO,
            more: 0,
        }
    }

    /// How long until the next sample.
    pub(super) fn due_in(&self, now: MachineTime) -> Option<Duration> {
        let all = [&self.hosts, &self.connections];
        all.iter().filter_map(|kind| kind.due_in(now)).min()
    }

    /// What is worth knowing at the end.
    pub(super) fn warnings(&self, pace: Pace) -> Vec<String> {
        let all = [&self.hosts, &self.connections];
        let mut warnings: Vec<String> = all.iter().filter_map(|kind| kind.warning(pace)).collect();
        if self.more > 0 {
            let more = self.more;
            warnings.push(format!(
                "series/connections lacks {more} rows: hosts had more connections than a sample holds"
            ));
        }
        warnings
    }

    /// What hosts have used since the last sample.
    fn host_rows(&mut self, usage: &Usage, now: Time, plan: &Plan) -> Vec<HostRow> {
        let since = std::mem::replace(&mut self.since, now);
        let hosts = plan.hosts.iter().zip(&usage.hosts).zip(&mut self.used);
        let row = |((host, now_used), before): ((&_, &HostUsage), &mut HostUsage)| {
            let host: &longhaul_plan::plan::HostPlan = host;
            let before = std::mem::replace(before, *now_used);
            HostRow {
                host: host.node,
                start: since,
                end: now,
                // The counters of a host that has died read as zero.
                cpu_ns: now_used.cpu_ns.saturating_sub(before.cpu_ns),
                wait_ns: now_used.run_wait_ns.saturating_sub(before.run_wait_ns),
                resident_bytes: now_used.resident_bytes,
                processes: now_used.processes,
                tasks: now_used.tasks,
            }
        };
        hosts.map(row).collect()
    }
}

impl Supervisor<'_> {
    /// Takes the samples that are due.
    pub(super) fn sample_hosts(&mut self) -> Result<(), SandboxError> {
        let now = self.core.now();
        let doublings = self.recorder.doublings();
        if self.host_sampler.hosts.is_due(now.at, doublings) {
            let usage = self.sandbox.usage()?;
            self.host_sampler.hosts.paid(usage.cost);
            let rows = self.host_sampler.host_rows(&usage, now.time, self.plan);
            // The first sample includes what hosts used before t = 0.
            if rows.iter().any(|row| row.end > row.start) && self.host_sampler.hosts.samples > 1 {
                self.recorder.hosts(rows);
            }
        }
        if self.host_sampler.connections.is_due(now.at, doublings) {
            self.sandbox.request_connections()?;
        }
        if self.host_sampler.connections.asked.is_some()
            && let Some(connections) = self.sandbox.poll_connections()?
        {
            self.take_connections(&connections);
        }
        Ok(())
    }

    fn take_connections(&mut self, connections: &Connections) {
        self.host_sampler.connections.paid(connections.cost);
        let mut rows = Vec::new();
        for of in &connections.hosts {
            let Some(host) = self.plan.hosts.get(of.host) else {
                continue;
            };
            self.host_sampler.more += of.more;
            let at = self.core.pace.time_at(of.at).unwrap_or(Time::ZERO);
            let list = of.list.iter();
            let row = |of| {
                (
                    at,
                    Connection::of_kernel(host.node, of, Dilation::of(self.plan.clock)),
                )
            };
            rows.extend(list.map(row));
        }
        self.recorder.connections(rows);
    }
}

#[cfg(test)]
mod tests {
    use longhaul_plan::plan::RunClock;

    use super::*;

    #[test]
    fn samples_that_cost_too_much_become_rarer() {
        let begin = MachineTime::from_ns(1_000_000_000);
        let pace = Pace::new(begin, Dilation::of(RunClock::Real));
        let mut samples = Interval::new("hosts", Some(Span::from_ms(100)), pace);
        let after = |ms: u64| begin + Duration::from_millis(ms);
        assert!(samples.is_due(begin, 0));
        samples.paid(Duration::from_micros(900)); // 0.9 % of 100 ms
        assert!(!samples.is_due(after(99), 0) && samples.is_due(after(100), 0));
        assert_eq!(samples.warning(pace), None);
        samples.paid(Duration::from_micros(2_900)); // the mean is 1.9 %
        assert!(samples.is_due(after(200), 0));
        assert!(!samples.is_due(after(399), 0) && samples.is_due(after(400), 0));
        let warning = samples.warning(pace).unwrap();
        assert!(
            warning.contains("every 200 ms instead of every 100 ms"),
            "{warning}"
        );
        // Little room on the disk makes them rarer, too.
        assert!(samples.is_due(after(600), 2) && !samples.is_due(after(1399), 2));
        // What was missed is not made up for.
        assert!(samples.is_due(after(5000), 0));
        assert!(!samples.is_due(after(4999), 0));
        let mut never = Interval::new("hosts", None, pace);
        assert!(!never.is_due(after(1_000_000), 0) && never.due_in(begin).is_none());
    }
}
