//! CPUs: which ones there are, and keeping the core and the programs apart.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::{fs, io};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::ClockId;

/// The CPUs that this thread may use.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Numbers of CPUs as the kernel lists them: in order, neighbours as a range.
pub fn list(cpus: &[usize]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    let neighbours = cpus.chunk_by(|one, next| one + 1 == *next);
    let ranges = neighbours.map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        _ => range[0].to_string(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// Binds this thread, and what it starts from now on, to `cpus`.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    pin_thread(0, cpus)
}

/// The same for a thread by its id.
pub(crate) fn pin_thread(thread: i32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(sched_setaffinity(Pid::from_raw(thread), &set)?)
}

/// A CPU that no other run's core uses, for as long as this value lives.
#[derive(Debug)]
pub struct CoreCpu {
    /// Its number.
    pub cpu: usize,
    _claim: Option<OwnedFd>,
}

/// Picks a CPU for a core: the last one that no other run of this machine has claimed, or
/// simply the last. `None` where there is only one CPU, which core and programs must share.
///
/// The claim is an abstract socket name: the kernel forgets it with its process.
pub fn claim_core_cpu() -> Option<CoreCpu> {
    let cpus = allowed().ok()?;
    if cpus.len() < 2 {
        return None;
    }
    let claimed = cpus.iter().rev().find_map(|&cpu| {
        let claim = bind_abstract(&format!("longhaul-core-cpu-{cpu}")).ok()?;
        Some(CoreCpu {
            cpu,
            _claim: Some(claim),
        })
    });
    claimed.or_else(|| cpus.last().map(|&cpu| CoreCpu { cpu, _claim: None }))
}

fn bind_abstract(name: &str) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let fd = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    net::bind(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(fd)
}

/// How the kernel schedules a core's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// In real time, before every ordinary program of its CPU. Only for a thread that leaves CPU
    /// time to others, by sleeping or as [`RealTime`](crate::real_time::RealTime) does.
    RealTime,
    /// In real time, before the former.
    Recall,
    /// As an ordinary program with a short slice (kernel 6.12 and later; needs no root).
    ShortSlice,
}

impl Scheduling {
    /// As `summary.json` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTime | Self::Recall => "real-time",
            Self::ShortSlice => "short-slice",
        }
    }

    /// Schedules the calling thread so; false where it may not be.
    pub fn apply(self) -> bool {
        self.apply_to(0)
    }

    /// The same for a thread of this process, by its id.
    pub(crate) fn apply_to(self, thread: i32) -> bool {
        #[repr(C)]
        #[derive(Default)]
        struct SchedAttr {
            size: u32,
            policy: u32,
            flags: u64,
            nice: i32,
            priority: u32,
            runtime_ns: u64,
            deadline_ns: u64,
            period_ns: u64,
        }
        const SLICE_NS: u64 = 100_000;
        let (policy, priority, runtime_ns) = match self {
            Self::RealTime => (libc::SCHED_FIFO as u32, 1, 0),
            Self::Recall => (libc::SCHED_FIFO as u32, 2, 0),
            Self::ShortSlice => (libc::SCHED_OTHER as u32, 0, SLICE_NS),
        };
        let attr = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy,
            priority,
            runtime_ns,
            ..SchedAttr::default()
        };
        // SAFETY: the structure is the first version of the kernel's and outlives the call.
        unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) == 0 }
    }
}

/// Asks the kernel to wake the calling thread to the microsecond, without timer slack.
pub fn without_timer_slack() {
    // If refused, the thread is only less punctual, and lateness shows that.
    set_current_timer_slack(Some(NonZeroU64::MIN)).ok();
}

/// Nanoseconds that the calling thread has waited for a CPU so far.
pub fn own_run_wait_ns() -> u64 {
    let own = schedstat("/proc/thread-self/schedstat");
    own.unwrap_or_default().waited_ns
}

/// What a task has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Schedstat {
    /// Nanoseconds on a CPU.
    pub(crate) ran_ns: u64,
    /// Nanoseconds spent waiting on a run queue.
    pub(crate) waited_ns: u64,
}

/// Reads a `schedstat` file; none where the task is gone.
pub(crate) fn schedstat(path: &str) -> Option<Schedstat> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    Some(Schedstat {
        ran_ns: words.next()?.ok()?,
        waited_ns: words.next()?.ok()?,
    })
}

/// CPU time that the hypervisor has taken from the CPUs of this machine since they began, in
/// nanoseconds, to a hundredth of a second; 0 where it does not say.
pub fn stolen_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stolen_ticks(&stat).unwrap_or(0);
    ticks.saturating_mul(crate::procfs::tick_ns())
}

/// The same in ticks, of what `/proc/stat` says (proc_stat(5)).
fn stolen_ticks(stat: &str) -> Option<u64> {
    const STEAL: usize = 8;
    let all = stat.lines().find(|line| line.starts_with("cpu "))?;
    all.split_ascii_whitespace().nth(STEAL)?.parse().ok()
}

/// CPU time that all threads of this process have used, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    crate::clock::read(ClockId::ProcessCPUTime)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    crate::clock::read(ClockId::ThreadCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_cpus_are_a_range() {
        assert_eq!(list(&[7, 0, 1, 2, 5, 8]), "0-2,5,7-8");
        assert_eq!((list(&[3]), list(&[])), ("3".to_owned(), String::new()));
    }

    #[test]
    fn stolen_time_is_the_eighth_number_of_all_cpus() {
        let stat = "cpu  1 2 3 4 5 6 7 89 10 11\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(stolen_ticks(stat), Some(89));
        assert_eq!(stolen_ticks("cpu  1 2 3 4 5 6 7\n"), None);
        assert_eq!(stolen_ticks(""), None);
    }
}
