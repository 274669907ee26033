//! What `summary.json` says of hosts' resources.

use longhaul_linux::resources::{GroupUsage, Limits, Means, Unsupported, period_us};
use serde::Serialize;

use super::allot::Allotment;

/// The means that limited hosts to their resources, and the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourcesSummary {
    /// By what CPU time was limited: `cgroup-v1`, `cgroup-v2` or `duty-cycle`; `null` where none was.
    pub cpu: Option<String>,
    /// The same of memory; without control groups `watchdog`.
    pub memory: Option<String>,
    /// The same of disks.
    pub disk: Option<String>,
    /// The disk that was throttled.
    pub device: Option<String>,
    /// The speed of a CPU of the machine, in `ref`, where the file asks for any.
    pub machine_ref: Option<f64>,
    /// What hosts asked for beyond what the machine has, where the caller insisted.
    pub excess: Vec<String>,
    /// The hosts that are kept to anything.
    pub hosts: Vec<HostResources>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostResources {
    /// Its name.
    pub name: String,
    /// Its CPU time.
    pub cpu: Option<CpuResources>,
    /// Its memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The most that it had at once; `null` without control groups.
    pub memory_peak_bytes: Option<u64>,
    /// Processes that the kernel ended for want of memory.
    pub oom_kills: u64,
    /// Bytes a second that it may read.
    pub disk_read_bps: Option<u64>,
    /// Bytes a second that it may write.
    pub disk_write_bps: Option<u64>,
    /// Reads a second, and as many writes.
    pub disk_iops: Option<u64>,
}

/// The CPU time of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuResources {
    /// What it may use at most, in CPUs.
    pub quota: f64,
    /// How many CPUs it sees.
    pub count: u32,
    /// Which of the machine's.
    pub cpus: Vec<usize>,
    /// The period in which it has its quota; `null` without control groups.
    pub period_us: Option<u64>,
    /// CPU time that it used.
    pub used_s: f64,
    /// How long its CPUs were throttled because its quota was used up; `null` without control
    /// groups.
    pub throttled_s: Option<f64>,
}

impl ResourcesSummary {
    /// The summary of a run whose hosts have these names, from what each host went through and the
    /// CPU time that it used in nanoseconds. `None` where none was kept to anything.
    pub(crate) fn of(
        allotment: &Allotment,
        names: &[&str],
        been: &[(GroupUsage, u64)],
    ) -> Option<Self> {
        if allotment.is_empty() {
            return None;
        }
        let has = |part: fn(&Limits) -> bool| {
            let mut limits = allotment.hosts.iter().map(|host| &host.limits);
            limits.any(part)
        };
        let support = &allotment.facts.support;
        let means = |wanted: bool, means: &Result<longhaul_linux::resources::Means, _>| {
            means
                .as_ref()
                .ok()
                .filter(|_| wanted)
                .map(|means| means.name().to_owned())
        };
        let by_groups = |means: &Result<Means, Unsupported>| {
            means.as_ref().is_ok_and(|means| means.is_groups())
        };
        let has_disk = has(|limits| limits.disk.is_some());
        let hosts = allotment.hosts.iter().zip(names).zip(been);
        let hosts = hosts.filter(|((share, _), _)| !share.limits.is_empty());
        let hosts = hosts.map(|((share, name), (usage, cpu_ns))| {
            let limits = share.limits;
            HostResources {
                name: (*name).to_owned(),
                cpu: limits.cpu.map(|cpu| CpuResources {
                    quota: f64::from(cpu.quota) / 1_000.0,
                    count: cpu.count,
                    cpus: share.cpus.clone(),
                    period_us: by_groups(&support.cpu).then(|| period_us(cpu.quota).0),
                    used_s: *cpu_ns as f64 / 1e9,
                    throttled_s: by_groups(&support.cpu).then_some(usage.throttled_ns as f64 / 1e9),
                }),
                memory_bytes: limits.memory,
                memory_peak_bytes: limits
                    .memory
                    .filter(|_| by_groups(&support.memory))
                    .map(|_| usage.memory_peak),
                oom_kills: usage.oom_kills,
                disk_read_bps: limits.disk.and_then(|disk| disk.read),
                disk_write_bps: limits.disk.and_then(|disk| disk.write),
                disk_iops: limits.disk.and_then(|disk| disk.iops),
            }
        });
        Some(Self {
            cpu: means(has(|limits| limits.cpu.is_some()), &support.cpu),
            memory: means(has(|limits| limits.memory.is_some()), &support.memory),
            disk: means(has_disk, &support.disk),
            device: allotment
                .facts
                .device
                .as_ref()
                .ok()
                .filter(|_| has_disk)
                .map(|d| d.name.clone()),
            machine_ref: allotment.facts.speed,
            excess: allotment.excess.clone(),
            hosts: hosts.collect(),
        })
    }
}
