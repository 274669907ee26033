//! Resources of hosts: which CPUs, memory and disk their programs have.
//!
//! This module decides what the file alone can decide. The run finds out whether a machine has as
//! much, and by what it enforces it.

use std::fmt;
use std::sync::Arc;

use longhaul_core::units::Bytes;

use crate::file::resources::{
    ByteRate, CpuAmount, CpuField, CpuSpec, CpuSpeed, DiskSpec, ResourceFields,
};
use crate::file::spec::{Experiment, Kind, NodeSpec};
use crate::file::wrap::{At, Either, Quantity};
use crate::limits::RunClock;
use crate::text::error::{Faults, Pos, shown};

/// The least share of a CPU, in thousandths: a smaller one needs periods so long that programs
/// notice them.
const LEAST_SHARE: u64 = 10;
/// The most CPUs that a host can ask for.
const MOST_CPUS: u64 = 4_096;
/// The least memory: a program in it starts, and does not do much more.
const LEAST_MEMORY: u64 = 4 << 20;
/// The fastest CPU, in thousandths of the reference.
const FASTEST: u64 = 1_000_000;
/// The slowest disk: a page a second.
const SLOWEST_DISK: u64 = 4_096;

/// What a host has for its programs; what is `None` is the machine's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Its CPUs.
    pub cpu: Option<Cpus>,
    /// Its memory in bytes.
    pub memory: Option<u64>,
    /// Its disk.
    pub disk: Option<Disk>,
}

impl Resources {
    /// Whether nothing is said of them.
    pub const fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.disk.is_none()
    }
}

/// The CPUs of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    /// How many its programs see.
    pub count: u32,
    /// How much CPU time all of them are together.
    pub time: CpuTime,
}

/// How much CPU time a host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuTime {
    /// In thousandths of one of the machine's CPUs.
    OfMachine(u64),
    /// In thousandths of the reference, which the machine must be measured for.
    OfReference(u64),
}

impl fmt::Display for Cpus {
    /// As the file may write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |all: u64| decimal(all as f64 / f64::from(self.count.max(1)) / 1000.0);
        match self.time {
            CpuTime::OfReference(all) => {
                write!(f, "{{ count: {}, speed: {} ref }}", self.count, each(all))
            }
            CpuTime::OfMachine(all) if all < 1_000 && self.count == 1 => {
                write!(f, "{} %", decimal(all as f64 / 10.0))
            }
            CpuTime::OfMachine(1_000) if self.count == 1 => f.write_str("1 CPU"),
            CpuTime::OfMachine(all) if u64::from(self.count) == all.div_ceil(1_000) => {
                write!(f, "{} CPUs", decimal(all as f64 / 1000.0))
            }
            CpuTime::OfMachine(all) => {
                let percent = decimal(all as f64 / f64::from(self.count.max(1)) / 10.0);
                write!(f, "{{ count: {}, speed: {percent} % }}", self.count)
            }
        }
    }
}

/// A number to a thousandth, without zeros at its end.
fn decimal(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// What a disk does at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes a second that are read.
    pub read: Option<u64>,
    /// Bytes a second that are written.
    pub write: Option<u64>,
    /// Reads a second, and as many writes.
    pub iops: Option<u32>,
}

/// The resources of each entry of the file; problems go to `faults`.
pub(super) fn read(
    spec: &Experiment,
    clock: RunClock,
    warnings: &mut Vec<String>,
    faults: &mut Faults,
) -> Vec<Arc<Resources>> {
    let none = Arc::new(Resources::default());
    let mut without_effect = Vec::new();
    let nodes = &spec.topology.nodes.0;
    let resources = nodes.iter().map(|(name, node)| {
        let Some(node) = &node.0 else {
            return none.clone();
        };
        let fields = node.resources();
        let before = faults.count();
        let resources = Resources {
            cpu: fields.cpu.and_then(|field| cpu(field, faults)),
            memory: fields.memory.and_then(|field| memory(field, faults)),
            disk: fields.disk.and_then(|field| disk(field, faults)),
        };
        refuse_on_nodes_without_programs(node, fields, faults);
        if resources.is_empty() {
            return none.clone();
        }
        if clock == RunClock::Virtual && faults.count() == before {
            without_effect.push(shown(&name.value));
        }
        Arc::new(resources)
    });
    let resources = resources.collect();
    if let Some((first, more)) = without_effect.split_first() {
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        warnings.push(format!(
            "`cpu`, `memory` and `disk` of `{first}`{more} have no effect: a virtual run has no \
             programs"
        ));
    }
    resources
}

/// Routers and lans run nothing that resources could be for.
fn refuse_on_nodes_without_programs(
    node: &NodeSpec,
    fields: ResourceFields<'_>,
    faults: &mut Faults,
) {
    let kind = match node.kind {
        Kind::Host => return,
        Kind::Router => "router",
        Kind::Lan => "lan",
    };
    let given: [(&str, Option<Pos>); 3] = [
        ("cpu", fields.cpu.map(place)),
        ("memory", fields.memory.map(Quantity::at)),
        ("disk", fields.disk.map(|disk| disk.at)),
    ];
    for (field, at) in given {
        if let Some(at) = at {
            let message = format!("a {kind} runs no programs, so `{field}` has no effect");
            faults.add(at, message, format!("remove `{field}`"));
        }
    }
}

fn place(field: &CpuField) -> Pos {
    match field {
        Either::Short(amount) => amount.at(),
        Either::Long(spec) => spec.at,
    }
}

fn cpu(field: &CpuField, faults: &mut Faults) -> Option<Cpus> {
    let amount = match field {
        Either::Short(amount) => amount,
        Either::Long(spec) => return cpus(spec, faults),
    };
    let CpuAmount {
        thousandths,
        is_share,
    } = amount.get(faults)?;
    if is_share && thousandths > 1_000 {
        let cpus = thousandths as f64 / 1_000.0;
        let message = "a share of one CPU cannot be more than 100 %";
        faults.add(amount.at(), message, format!("write `{cpus} CPUs`"));
        return None;
    }
    let count = thousandths.div_ceil(1_000);
    in_bounds(amount.at(), thousandths, count, faults)?;
    Some(Cpus {
        count: count as u32,
        time: CpuTime::OfMachine(thousandths),
    })
}

/// The same of a number and a speed.
fn cpus(spec: &At<CpuSpec>, faults: &mut Faults) -> Option<Cpus> {
    let (count, count_at) = match &spec.value.count {
        Some(count) => (count.value, count.at),
        None => (1, spec.at),
    };
    let all = |each: u64| each.saturating_mul(u64::from(count));
    let Some(speed) = &spec.value.speed else {
        in_bounds(count_at, all(1_000), u64::from(count), faults)?;
        return Some(Cpus {
            count,
            time: CpuTime::OfMachine(all(1_000)),
        });
    };
    let time = match speed.get(faults)? {
        CpuSpeed::OfMachine(each) if each > 1_000 => {
            let message = "a CPU cannot be faster than the machine's own";
            faults.add(speed.at(), message, "write at most `100 %`");
            return None;
        }
        CpuSpeed::OfMachine(each) => CpuTime::OfMachine(all(each)),
        CpuSpeed::OfReference(each) if !(1..=FASTEST).contains(&each) => {
            let message = "the speed of a CPU must be between 0.001 ref and 1000 ref";
            faults.add(speed.at(), message, "write it like `0.8 ref`");
            return None;
        }
        CpuSpeed::OfReference(each) => CpuTime::OfReference(all(each)),
    };
    let thousandths = match time {
        CpuTime::OfMachine(all) => all,
        CpuTime::OfReference(_) => all(1_000),
    };
    in_bounds(count_at, thousandths, u64::from(count), faults)?;
    Some(Cpus { count, time })
}

/// Refuses what no machine could give.
fn in_bounds(at: Pos, thousandths: u64, count: u64, faults: &mut Faults) -> Option<()> {
    if count == 0 || thousandths == 0 {
        let message = "a host without CPU time cannot run anything";
        faults.add(at, message, "write a share such as `50 %`");
        return None;
    }
    if count > MOST_CPUS {
        let message = format!("a host has at most {MOST_CPUS} CPUs");
        faults.add(at, message, "write a number such as `2 CPUs`");
        return None;
    }
    if thousandths < LEAST_SHARE {
        let message = "a host needs at least 1 % of a CPU";
        faults.add(at, message, "write a share such as `5 %`");
        return None;
    }
    Some(())
}

fn memory(field: &Quantity<Bytes>, faults: &mut Faults) -> Option<u64> {
    let bytes = field.get(faults)?.0;
    if bytes < LEAST_MEMORY {
        let message = "a host needs at least 4 MiB of memory for a program to start";
        faults.add(field.at(), message, "write it like `512 MiB`");
        return None;
    }
    Some(bytes)
}

fn disk(spec: &At<DiskSpec>, faults: &mut Faults) -> Option<Disk> {
    let DiskSpec { read, write, iops } = &spec.value;
    if read.is_none() && write.is_none() && iops.is_none() {
        let message = "`disk` is empty";
        faults.add(
            spec.at,
            message,
            "give `read`, `write` or `iops`, or remove `disk`",
        );
        return None;
    }
    let mut rate = |field: &Option<Quantity<ByteRate>>| {
        let field = field.as_ref()?;
        let ByteRate(rate) = field.get(faults)?;
        if rate < SLOWEST_DISK {
            let message = "a disk needs at least 4 KiB/s, a page a second";
            faults.add(field.at(), message, "write it like `20 MB/s`");
            return None;
        }
        Some(rate)
    };
    let (read, write) = (rate(read), rate(write));
    if let Some(iops) = iops.as_ref().filter(|iops| iops.value == 0) {
        let message = "a disk needs at least 1 operation a second";
        faults.add(iops.at, message, "write a number such as `200`");
    }
    Some(Disk {
        read,
        write,
        iops: iops.as_ref().map(|iops| iops.value),
    })
}
