//! The information service: which hosts a run has, and what they do at present.
//!
//! [`HostsNow`] is the one answer to all clients: `longhaul hosts` and other programs outside, over the
//! control socket, and programs on hosts, over a socket of their host ([`http`] has the protocol). It
//! describes this run alone, and of the machine nothing but the numbers of CPUs that hosts are on.
//!
//! Programs and CPU time come from what the supervisor samples each second anyway, so a query costs a
//! run nothing but the answer.

mod http;
mod service;

use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_plan::plan::{CpuTime, Cpus, HostPlan, Plan, Resources};
use serde::{Deserialize, Serialize};

pub(crate) use service::Services;

/// The hosts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostsNow {
    /// The experiment's name.
    pub experiment: String,
    /// Experiment time.
    pub time_s: f64,
    /// Every host, in the order of the plan.
    pub hosts: Vec<HostNow>,
}

/// A host at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostNow {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub ipv4: Ipv4Addr,
    /// See `ipv4`.
    pub ipv6: Ipv6Addr,
    /// What its programs have; what is `null` is the machine's.
    pub resources: Asked,
    /// Where its programs run; `null` in virtual time, where there are none.
    pub place: Option<Place>,
    /// What they do; `null` in virtual time.
    pub load: Option<Load>,
}

/// What the file gives a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its CPUs.
    pub cpu: Option<AskedCpu>,
    /// Its memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Its disk.
    pub disk: Option<AskedDisk>,
}

/// The CPUs of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedCpu {
    /// As the file may write it.
    pub text: String,
    /// How many its programs see.
    pub count: u32,
    /// How much CPU time all of them are together, in the machine's CPUs; `null` where the file says
    /// it in others.
    pub cpus: Option<f64>,
    /// The same in CPUs of the reference; `null` where the file says it in the machine's.
    pub reference: Option<f64>,
}

/// What the disk of a host does at most; what is `null` is as the machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedDisk {
    /// Bytes a second that are read.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes a second that are written.
    pub write_bytes_per_s: Option<u64>,
    /// Reads a second, and as many writes.
    pub iops: Option<u32>,
}

impl Asked {
    fn of(resources: &Resources) -> Self {
        let cpu = |cpus: &Cpus| {
            let (machine, reference) = match cpus.time {
                CpuTime::OfMachine(thousandths) => (Some(thousandths), None),
                CpuTime::OfReference(thousandths) => (None, Some(thousandths)),
            };
            let whole = |thousandths: u64| thousandths as f64 / 1000.0;
            AskedCpu {
                text: cpus.to_string(),
                count: cpus.count,
                cpus: machine.map(whole),
                reference: reference.map(whole),
            }
        };
        Self {
            cpu: resources.cpu.as_ref().map(cpu),
            memory_bytes: resources.memory,
            disk: resources.disk.map(|disk| AskedDisk {
                read_bytes_per_s: disk.read,
                write_bytes_per_s: disk.write,
                iops: disk.iops,
            }),
        }
    }
}

/// Where a host's programs run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Numbers of CPUs of the machine.
    pub cpus: Vec<usize>,
    /// How much CPU time all of it together is kept to, in CPUs of the machine; `null` where it is not.
    pub quota: Option<f64>,
}

/// What a host's programs do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Whether any process is there.
    pub busy: bool,
    /// The programs of the experiment that run there now.
    pub programs: Vec<String>,
    /// Processes at the end of the last second, whoever has started them.
    pub processes: u32,
    /// CPU time that they have used by then, in seconds of the machine.
    pub cpu_s: f64,
    /// The same over the last second: CPUs in use, 1 is a whole one.
    pub cpus_used: f64,
    /// That, as a share of the host's quota; `null` where it has none.
    pub share_used: Option<f64>,
}

impl HostsNow {
    /// The hosts of `plan`, each with what `state` says of it.
    pub(crate) fn new(
        plan: &Plan,
        time_s: f64,
        state: impl Fn(usize) -> (Option<Place>, Option<Load>),
    ) -> Self {
        let host = |(number, host): (usize, &HostPlan)| {
            let node = plan.topology.node(host.node);
            let (place, load) = state(number);
            HostNow {
                name: host.name.clone(),
                ipv4: node.ipv4,
                ipv6: node.ipv6,
                resources: Asked::of(&host.resources),
                place,
                load,
            }
        };
        Self {
            experiment: plan.name.clone(),
            time_s,
            hosts: plan.hosts.iter().enumerate().map(host).collect(),
        }
    }
}
