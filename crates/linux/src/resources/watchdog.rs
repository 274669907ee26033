//! A host's memory without control groups: its processes are added up, and the biggest is killed.
//!
//! Purpose: the memory limit without root and without a delegated group. Theory: two mechanisms.
//! [`limit_data`] bounds each program's own data (`RLIMIT_DATA`: heap and private writable mappings,
//! whether touched or not), so that a single program that asks for more gets `ENOMEM` at once. The
//! [`Watchdog`] sums up what all processes of a host hold and does what the kernel's OOM killer does.
//!
//! Shared pages are to count once, which is what PSS is for (`smaps_rollup`, proc_pid_smaps(5)), but
//! it walks all page tables of a process: milliseconds for each gigabyte. RSS (`statm`) is never less and
//! costs microseconds. So PSS is read only where the sum of RSS is above the limit, and the next sample
//! comes no earlier than [`COST`] times as long after the last one as that took.
//!
//! Files of a host's own tmpfs count in PSS only where they are mapped, and no rlimit bounds them. What
//! such folders hold is read besides (statfs(2)), and the larger of that and of mapped shared memory
//! counts, since how far the two overlap is unknown. Mount them with `size=` of the host's limit, so
//! that a program that fills them gets `ENOSPC`; once they are full, killing frees nothing.
//!
//! Left out: what is allocated between two samples, some [`LEAST_NS`] apart: 1 GB/s for 20 ms is 20 MB
//! beyond the limit. Memory of the kernel for the host (sockets, page tables), and page cache of files
//! that are not mapped. RSS itself may be behind by 64 pages for each CPU (Linux 6.2 and later). Thread
//! stacks count in full for `RLIMIT_DATA`: a program with hundreds of threads needs more than it holds.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::statfs;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use super::census::{Census, cpu_ns};
use crate::clock::monotonic_ns;
use crate::cpu::own_cpu_ns;
use crate::procfs::{kib, resident_bytes};

/// The least and the most time between two samples.
const LEAST_NS: u64 = 20_000_000;
const MOST_NS: u64 = 1_000_000_000;
/// The watchdog sleeps this many times as long as it has worked: it uses less than 1 % of a CPU.
const COST: u64 = 100;
/// How long a killed process gets to free its memory before the next one is killed.
const DYING_NS: u64 = 2_000_000_000;

/// A host and what it may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Process 1 of its PID namespace, by its number in the caller's. It is not counted, nor killed.
    pub init: i32,
    /// Bytes.
    pub bytes: u64,
    /// Folders that are a tmpfs of the host's own, as its programs see them.
    pub folders: Vec<PathBuf>,
}

/// A process that was killed for its host's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    /// The number of its host, in the order of the limits.
    pub host: usize,
    /// Its number in the caller's PID namespace.
    pub pid: i32,
    /// Its name, as the kernel has it (15 bytes).
    pub name: String,
    /// What it held.
    pub pss_bytes: u64,
    /// What all processes and folders of the host held.
    pub host_bytes: u64,
    /// Of these, files of tmpfs folders that no process has mapped.
    pub files_bytes: u64,
    /// What the host may hold.
    pub limit_bytes: u64,
}

/// Kills processes of hosts that hold too much: one watchdog for all hosts of a run, where `/proc` shows
/// their processes.
#[derive(Debug)]
pub struct Watchdog {
    census: Census,
    limits: Vec<Limit>,
    processes: HashMap<i32, usize>,
    /// The last one killed of each host, and when.
    dying: Vec<Option<(i32, u64)>>,
    due_ns: u64,
}

impl Watchdog {
    /// Begins to watch.
    ///
    /// # Errors
    /// A host is gone, or its processes cannot be seen.
    pub fn new(limits: Vec<Limit>) -> io::Result<Self> {
        Ok(Self {
            census: Census::new(limits.iter().map(|limit| limit.init))?,
            processes: HashMap::new(),
            dying: vec![None; limits.len()],
            limits,
            due_ns: 0,
        })
    }

    /// When [`turn`](Self::turn) has something to do again, in nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Samples all hosts; kills at most one process of each.
    pub fn turn(&mut self) -> Vec<Killed> {
        let (now_ns, before_ns) = (monotonic_ns(), own_cpu_ns());
        for arrival in self.census.arrivals(now_ns) {
            self.processes.insert(arrival.pid, arrival.host);
        }
        let mut hosts = vec![Vec::new(); self.limits.len()];
        for (&pid, &host) in &self.processes {
            hosts[host].push((pid, resident_bytes(pid)));
        }
        let gone = hosts.iter().flatten().filter(|(_, bytes)| bytes.is_none());
        let gone: Vec<i32> = gone.map(|(pid, _)| *pid).collect();
        for pid in gone.into_iter().filter(|&pid| cpu_ns(pid).is_none()) {
            self.processes.remove(&pid);
            self.census.forget(pid);
        }
        let hosts = hosts.iter().enumerate();
        let killed = hosts.filter_map(|(host, processes)| self.judge(host, processes, now_ns));
        let killed: Vec<Killed> = killed.collect();
        for Killed { host, pid, .. } in &killed {
            self.dying[*host] = Some((*pid, now_ns));
        }
        let cost_ns = own_cpu_ns() - before_ns;
        self.due_ns = now_ns + (cost_ns * COST).clamp(LEAST_NS, MOST_NS.max(cost_ns * COST));
        killed
    }

    /// Kills the biggest process of a host that holds too much.
    fn judge(&self, host: usize, processes: &[(i32, Option<u64>)], now_ns: u64) -> Option<Killed> {
        let limit = &self.limits[host];
        let dies = |(pid, at): (i32, u64)| cpu_ns(pid).is_some() && now_ns - at < DYING_NS;
        if self.dying[host].is_some_and(dies) {
            return None;
        }
        let folders = limit.folders.iter();
        let files: u64 = folders.map(|folder| tmpfs_bytes(limit.init, folder)).sum();
        let resident: u64 = processes.iter().filter_map(|(_, bytes)| *bytes).sum();
        if resident + files <= limit.bytes {
            return None;
        }
        let holds = |&(pid, _): &(i32, Option<u64>)| Some((pid, Pss::of(pid)?));
        let holds: Vec<(i32, Pss)> = processes.iter().filter_map(holds).collect();
        let sum = |part: fn(&Pss) -> u64| holds.iter().map(|(_, pss)| part(pss)).sum::<u64>();
        let files_bytes = files.saturating_sub(sum(|pss| pss.shared));
        let host_bytes = sum(|pss| pss.all) + files_bytes;
        if host_bytes <= limit.bytes {
            return None;
        }
        let &(pid, pss) = holds.iter().max_by_key(|(_, pss)| pss.all)?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        // The number was this process a moment ago, and is not given to another one so soon.
        kill_process(Pid::from_raw(pid)?, Signal::KILL).ok()?;
        Some(Killed {
            host,
            pid,
            name: name.trim_end().to_owned(),
            pss_bytes: pss.all,
            host_bytes,
            files_bytes,
            limit_bytes: limit.bytes,
        })
    }
}

/// Bounds the data of the calling process and of what it starts; a tighter limit stays.
///
/// # Errors
/// The kernel refuses.
pub fn limit_data(bytes: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Data);
    let tighter = |limit: Option<u64>| Some(limit.map_or(bytes, |limit| limit.min(bytes)));
    let limit = Rlimit {
        current: tighter(limit.current),
        maximum: tighter(limit.maximum),
    };
    Ok(setrlimit(Resource::Data, limit)?)
}

/// What a process holds, with shared pages divided among those that share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pss {
    all: u64,
    /// Of this, shared memory and files of a tmpfs.
    shared: u64,
}

impl Pss {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            all: kib(text, "Pss:")?,
            shared: kib(text, "Pss_Shmem:").unwrap_or(0),
        })
    }
}

/// What a tmpfs of a host holds; 0 for any other folder.
pub(crate) fn tmpfs_bytes(init: i32, folder: &std::path::Path) -> u64 {
    let path = format!("/proc/{init}/root{}", folder.display());
    match statfs(path) {
        Ok(stat) if stat.f_type == libc::TMPFS_MAGIC => {
            stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_bsize.unsigned_abs()
        }
        _ => 0,
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
