//! What each host has of the machine, or why it cannot have it.

use std::fmt;

use longhaul_linux::resources::{self as linux, Limits, period_us};
use longhaul_plan::plan::{CpuTime, Cpus, HostPlan, Plan, RunClock};
use thiserror::Error;

use super::facts::Facts;
use super::mapping::{self, Demand};

/// The least CPU time that a host can be kept to, in thousandths.
const LEAST_QUOTA: f64 = 10.0;

/// What a host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostShare {
    /// What its programs are kept to.
    pub limits: Limits,
    /// The CPUs that they run on; empty for all of programs.
    pub cpus: Vec<usize>,
}

/// What all hosts of a plan have.
#[derive(Debug, Clone)]
pub struct Allotment {
    /// By number.
    pub hosts: Vec<HostShare>,
    /// What this machine has.
    pub facts: Facts,
    /// Demands beyond what the machine has at once, which the caller accepted.
    pub excess: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// What this machine cannot give.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Misfit {
    /// What cannot be given at all.
    pub impossible: Vec<String>,
    /// Demands that each fit, but not all at once.
    pub excess: Vec<String>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        f.write_str("this machine lacks resources that hosts ask for")?;
        let problems = self.impossible.iter().chain(&self.excess);
        for problem in problems.take(SHOWN) {
            write!(f, "\n  {problem}")?;
        }
        let more = (self.impossible.len() + self.excess.len()).saturating_sub(SHOWN);
        if more > 0 {
            write!(f, "\n  … and {more} more")?;
        }
        if self.impossible.is_empty() {
            f.write_str("\nhint: ask for less, or add --oversubscribe to `longhaul run`; the verdict is then degraded at best")?;
        }
        Ok(())
    }
}

impl Allotment {
    /// What hosts of `plan` have on a machine; `oversubscribe` accepts demands that do not fit at
    /// once.
    ///
    /// # Errors
    /// What the machine does not have.
    pub fn of(plan: &Plan, facts: Facts, oversubscribe: bool) -> Result<Self, Misfit> {
        let mut misfit = Misfit {
            impossible: Vec::new(),
            excess: Vec::new(),
        };
        let mut notes = Vec::new();
        let mut limits = vec![Limits::default(); plan.hosts.len()];
        if plan.clock == RunClock::Real {
            for (host, limits) in plan.hosts.iter().zip(&mut limits) {
                let mut asked = Asked {
                    host,
                    facts: &facts,
                    problems: &mut misfit.impossible,
                };
                *limits = asked.limits();
            }
            misfit.excess = excess(&limits, &facts);
            notes = self::notes(plan, &limits, &facts);
        }
        if !misfit.impossible.is_empty() || !(oversubscribe || misfit.excess.is_empty()) {
            return Err(misfit);
        }
        let demands: Vec<_> = limits.iter().map(demand).collect();
        let cpus = mapping::map(&demands, &facts.cpus);
        let hosts = limits.into_iter().zip(cpus);
        Ok(Self {
            hosts: hosts
                .map(|(limits, cpus)| HostShare { limits, cpus })
                .collect(),
            facts,
            excess: misfit.excess,
            notes,
        })
    }

    /// Whether no host is kept to anything.
    pub fn is_empty(&self) -> bool {
        self.hosts.iter().all(|host| host.limits.is_empty())
    }

    /// The limits of each host that control groups enforce, and those that other means do.
    pub fn limits(&self) -> (Vec<Limits>, Vec<Limits>) {
        let support = &self.facts.support;
        let groups = |means: &Result<linux::Means, _>| means.as_ref().is_ok_and(|m| m.is_groups());
        let (cpu, memory) = (groups(&support.cpu), groups(&support.memory));
        let split = |host: &HostShare| {
            let limits = host.limits;
            let by_groups = Limits {
                cpu: limits.cpu.filter(|_| cpu),
                memory: limits.memory.filter(|_| memory),
                disk: limits.disk,
            };
            let otherwise = Limits {
                cpu: limits.cpu.filter(|_| !cpu),
                memory: limits.memory.filter(|_| !memory),
                disk: None,
            };
            (by_groups, otherwise)
        };
        self.hosts.iter().map(split).unzip()
    }
}

fn demand(limits: &Limits) -> Option<Demand> {
    limits.cpu.map(|cpu| Demand {
        quota: cpu.quota,
        count: cpu.count,
    })
}

/// One host's wishes on a machine.
struct Asked<'a> {
    host: &'a HostPlan,
    facts: &'a Facts,
    problems: &'a mut Vec<String>,
}

impl Asked<'_> {
    fn refuse(&mut self, problem: impl fmt::Display) {
        self.problems.push(format!("{}: {problem}", self.host.name));
    }

    fn limits(&mut self) -> Limits {
        let wishes = *self.host.resources;
        Limits {
            cpu: wishes.cpu.and_then(|cpus| self.cpu(cpus)),
            memory: wishes.memory.and_then(|bytes| self.memory(bytes)),
            disk: wishes.disk.and_then(|disk| {
                self.disk(linux::Disk {
                    read: disk.read,
                    write: disk.write,
                    iops: disk.iops.map(u64::from),
                })
            }),
        }
    }

    fn cpu(&mut self, cpus: Cpus) -> Option<linux::Cpu> {
        if let Err(lack) = &self.facts.support.cpu {
            self.refuse(format_args!("`cpu`: {}; {}", lack.reason, lack.remedy));
            return None;
        }
        let there = self.facts.cpus.len().max(1);
        if cpus.count as usize > there {
            let what = if there == 1 { "CPU" } else { "CPUs" };
            self.refuse(format_args!(
                "it asks for {} CPUs, and this machine has {there} {what} for programs",
                cpus.count
            ));
            return None;
        }
        let quota = match cpus.time {
            CpuTime::OfMachine(thousandths) => thousandths as f64,
            CpuTime::OfReference(thousandths) => {
                let speed = self.facts.speed.unwrap_or(1.0);
                let each = thousandths as f64 / 1_000.0 / f64::from(cpus.count.max(1));
                if each > speed {
                    self.refuse(format_args!(
                        "it asks for CPUs of {each} ref, and this machine's have {speed:.2} ref"
                    ));
                    return None;
                }
                thousandths as f64 / speed
            }
        };
        if quota < LEAST_QUOTA {
            self.refuse(format_args!(
                "it asks for {:.2} % of a CPU of this machine, and the least that can be enforced is 1 %",
                quota / 10.0
            ));
            return None;
        }
        Some(linux::Cpu {
            quota: quota.round() as u32,
            count: cpus.count,
        })
    }

    fn memory(&mut self, asked: u64) -> Option<u64> {
        if let Err(lack) = &self.facts.support.memory {
            self.refuse(format_args!("`memory`: {}; {}", lack.reason, lack.remedy));
            return None;
        }
        let there = self.facts.memory[0];
        if asked > there {
            self.refuse(format_args!(
                "it asks for {} of memory, and this machine has {}",
                size(asked),
                size(there)
            ));
            return None;
        }
        Some(asked)
    }

    fn disk(&mut self, disk: linux::Disk) -> Option<linux::Disk> {
        if let Err(lack) = &self.facts.support.disk {
            self.refuse(format_args!("`disk`: {}; {}", lack.reason, lack.remedy));
            return None;
        }
        if let Err(problem) = &self.facts.device {
            self.refuse(format_args!(
                "`disk`: {problem}; give the run a folder on a disk with --out"
            ));
            return None;
        }
        Some(disk)
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match mib {
        mib if mib < 1024.0 => format!("{:.0} MiB", mib.floor()),
        mib => format!("{:.1} GiB", mib / 1024.0),
    }
}

/// Demands that do not fit at once.
fn excess(limits: &[Limits], facts: &Facts) -> Vec<String> {
    let mut excess = Vec::new();
    let quotas = limits.iter().filter_map(|host| host.cpu);
    let asked: u64 = quotas.map(|cpu| u64::from(cpu.quota)).sum();
    let there = facts.cpus.len().max(1);
    if asked > there as u64 * 1_000 {
        let left = if there == 1 {
            "is 1"
        } else {
            &format!("are {there}")
        };
        excess.push(format!(
            "all hosts together ask for {:.2} CPUs, and there {left} for programs",
            asked as f64 / 1_000.0
        ));
    }
    let asked: u64 = limits.iter().filter_map(|host| host.memory).sum();
    let free = facts.memory[1];
    if asked > free {
        excess.push(format!(
            "all hosts together ask for {} of memory, and {} is free",
            size(asked),
            size(free)
        ));
    }
    excess
}

/// Notes on the limits of hosts.
fn notes(plan: &Plan, limits: &[Limits], facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |has: &dyn Fn(&Limits) -> bool, text: &dyn Fn(&Limits) -> String| {
        let mut with = plan
            .hosts
            .iter()
            .zip(limits)
            .filter(|(_, limits)| has(limits));
        if let Some((host, limits)) = with.next() {
            let more = match with.count() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            notes.push(format!("{}{more}: {}", host.name, text(limits)));
        }
    };
    let groups = facts
        .support
        .cpu
        .as_ref()
        .is_ok_and(|means| means.is_groups());
    let cpu = |limits: &Limits| limits.cpu.filter(|_| groups);
    let period = |limits: &Limits| cpu(limits).map_or(0, |cpu| period_us(cpu.quota).0);
    let rests = |limits: &Limits| {
        cpu(limits).map_or(0, |cpu| {
            period_us(cpu.quota)
                .0
                .saturating_sub(period_us(cpu.quota).1)
        })
    };
    note(&|limits| period(limits) > 10_000, &|limits| {
        format!(
            "programs with less than 10 % of a CPU may be stopped for up to {} ms at a time",
            rests(limits) / 1_000
        )
    });
    if facts.support.disk == Ok(linux::Means::GroupsV1) {
        let writes = |limits: &Limits| {
            let disk = limits.disk;
            disk.is_some_and(|disk| disk.write.is_some() || disk.iops.is_some())
        };
        note(&writes, &|_| {
            "control groups of version 1 throttle only reads and direct writes (O_DIRECT): writes \
             through the page cache are not limited"
                .to_owned()
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use longhaul_linux::resources::{Device, Means, NoDevice, Support, Unsupported};

    use super::*;

    /// A machine with four CPUs for programs, of 2 ref each, and 8 GiB, half of them free.
    fn facts() -> Facts {
        Facts {
            cpus: vec![0, 1, 2, 3],
            memory: [8 << 30, 4 << 30],
            speed: Some(2.0),
            support: Support {
                cpu: Ok(Means::GroupsV2),
                memory: Ok(Means::GroupsV2),
                disk: Ok(Means::GroupsV1),
            },
            device: Ok(Device {
                number: "8:0".to_owned(),
                name: "sda".to_owned(),
            }),
        }
    }

    /// The allotment of `count` hosts that each ask for `asked`.
    fn allot(count: u32, asked: &str, facts: Facts) -> Result<Allotment, Misfit> {
        let text = format!(
            "topology: {{ nodes: {{ h: {{ count: {count}, {asked} }}, r: {{ kind: router }} }}, \
             links: [{{ ends: [h, r] }}] }}"
        );
        let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
        Allotment::of(&plan, facts, false)
    }

    #[test]
    fn speeds_become_shares_of_this_machines_cpus() {
        for (asked, quota, count) in [
            ("cpu: 25 %", 250, 1),
            ("cpu: 1.5 CPUs", 1_500, 2),
            ("cpu: { count: 1, speed: 0.5 ref }", 250, 1),
            ("cpu: { count: 2, speed: 1.5 ref }", 1_500, 2),
        ] {
            let allotment = allot(1, asked, facts()).unwrap();
            let HostShare { limits, cpus } = &allotment.hosts[0];
            assert_eq!(limits.cpu, Some(linux::Cpu { quota, count }), "{asked}");
            assert_eq!(cpus.len(), count as usize, "{asked}");
        }
        let none = allot(2, "", facts()).unwrap();
        assert!(none.is_empty() && none.hosts[0].cpus.is_empty());
    }

    #[test]
    fn what_the_machine_does_not_have_is_named_with_the_host() {
        let mut busy = facts();
        let lack = |reason: &str| Unsupported {
            reason: reason.to_owned(),
            remedy: "run as root".to_owned(),
        };
        busy.support.disk = Err(lack("no groups"));
        let mut tmpfs = facts();
        tmpfs.device = Err(NoDevice::NoDisk {
            folder: "/run/x".into(),
            kind: "tmpfs".to_owned(),
        });
        for (asked, facts, expected) in [
            (
                "cpu: 5 CPUs",
                facts(),
                "h0: it asks for 5 CPUs, and this machine has 4 CPUs for programs",
            ),
            (
                "cpu: { speed: 2.5 ref }",
                facts(),
                "h0: it asks for CPUs of 2.5 ref, and this machine's have 2.00 ref",
            ),
            (
                "cpu: { speed: 0.01 ref }",
                facts(),
                "h0: it asks for 0.50 % of a CPU of this machine, and",
            ),
            (
                "memory: 9 GiB",
                facts(),
                "h0: it asks for 9.0 GiB of memory, and this machine has 8.0 GiB",
            ),
            (
                "disk: { read: 1 MB/s }",
                busy,
                "h0: `disk`: no groups; run as root",
            ),
            (
                "disk: { iops: 5 }",
                tmpfs,
                "h0: `disk`: /run/x is on tmpfs, which has no disk",
            ),
        ] {
            let misfit = allot(1, asked, facts).unwrap_err();
            assert!(misfit.impossible[0].starts_with(expected), "{misfit}");
            assert!(!misfit.to_string().contains("--oversubscribe"), "{misfit}");
        }
    }

    #[test]
    fn what_does_not_fit_at_once_is_refused_unless_the_caller_insists() {
        assert!(allot(4, "cpu: 1 CPU", facts()).is_ok());
        assert!(allot(8, "memory: 512 MiB", facts()).is_ok());
        for (count, asked, expected) in [
            (
                5,
                "cpu: 90 %",
                "all hosts together ask for 4.50 CPUs, and there are 4 for programs",
            ),
            (
                9,
                "memory: 512 MiB",
                "all hosts together ask for 4.5 GiB of memory, and 4.0 GiB is free",
            ),
        ] {
            let misfit = allot(count, asked, facts()).unwrap_err();
            assert_eq!(misfit.excess, [expected]);
            assert!(misfit.to_string().contains("--oversubscribe"), "{misfit}");
        }
        let text = "topology: { nodes: { h: { cpu: 4 CPUs }, i: { cpu: 1 CPU } }, links: [{ ends: [h, i] }] }";
        let plan = Plan::from_text(text, "f.yaml").unwrap();
        let forced = Allotment::of(&plan, facts(), true).unwrap();
        assert_eq!(forced.excess.len(), 1);
        assert_eq!(forced.hosts[0].cpus, [0, 1, 2, 3]);
    }

    #[test]
    fn limits_go_to_control_groups_where_there_are_any() {
        let asked = "cpu: 50 %, memory: 64 MiB, disk: { write: 1 MB/s }";
        let mut mixed = facts();
        mixed.support.cpu = Ok(Means::DutyCycle);
        let allotment = allot(1, asked, mixed).unwrap();
        let (groups, warden) = allotment.limits();
        assert!(groups[0].cpu.is_none() && groups[0].memory.is_some() && groups[0].disk.is_some());
        assert!(warden[0].cpu.is_some() && warden[0].memory.is_none());
        assert!(
            allotment.notes.iter().any(|note| note.contains("O_DIRECT")),
            "version 1"
        );
    }
}
