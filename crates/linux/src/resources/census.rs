//! The processes of hosts, as they come and go, without reading all of `/proc` every time.
//!
//! Theory: a host is a PID namespace, and a process cannot leave its own. The kernel numbers new
//! processes and threads in turn, and `/proc/loadavg` ends with the last number: while that has not
//! changed, no process is new, and when it has, the new ones are among the numbers in between. Whether a
//! number is a process shows in its CPU clock (`clock_getcpuclockid`(3)), at a fraction of the cost of a
//! file. A number may be given a moment before its process can be seen, so empty ones are tried again
//! for [`PENDING_NS`]; now and then all of `/proc` is read, in case something was missed.
//!
//! Left out: processes that have ended. Whoever uses them notices when reading about them fails.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::procfs::{numbers_in, tick_ns};

/// How long a number that is not a process yet is tried again, and the most such numbers.
const PENDING_NS: u64 = 50_000_000;
const PENDING_MAX: usize = 512;
/// The interval at which all of `/proc` is read.
const FULL_NS: u64 = 500_000_000;
/// `NS_GET_PARENT` of ioctl_nsfs(2).
const NS_GET_PARENT: libc::Ioctl = 0xb702;

/// What `/proc/PID/stat` says (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// `R`, `S`, `T` and so on.
    pub(super) state: u8,
    pub(super) parent: i32,
    /// CPU time of all children that have ended and been waited for, and of theirs.
    pub(super) children_ns: u64,
}

/// A process that was not known before.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) pid: i32,
    /// The number of its host.
    pub(super) host: usize,
    pub(super) stat: StatFile,
    /// Whether its parent is not of its host, so that no process of the host waits for it.
    pub(super) outside: bool,
    /// Whether it was there before the census began.
    pub(super) old: bool,
}

/// Knows all processes of some hosts.
#[derive(Debug)]
pub(super) struct Census {
    inits: HashSet<i32>,
    /// PID namespaces, by the numbers of their files, and which host they are of.
    namespaces: HashMap<u64, Option<usize>>,
    known: HashSet<i32>,
    load: File,
    last: i32,
    /// Numbers that are not processes yet, and since when.
    pending: Vec<(i32, u64)>,
    full_ns: Option<u64>,
    /// Whether a process may have come and gone unseen.
    missed: bool,
}

impl Census {
    /// Of the hosts whose PID namespaces these processes are the first of.
    ///
    /// # Errors
    /// One of them is gone, or its namespace may not be seen.
    pub(super) fn new(inits: impl Iterator<Item = i32>) -> io::Result<Self> {
        let inits: Vec<i32> = inits.collect();
        let mut namespaces = HashMap::new();
        for (&init, host) in inits.iter().zip(0..) {
            let named = |e: io::Error| io::Error::new(e.kind(), format!("process {init}: {e}"));
            namespaces.insert(namespace(init).map_err(named)?, Some(host));
        }
        Ok(Self {
            inits: inits.into_iter().collect(),
            namespaces,
            known: HashSet::new(),
            load: File::open("/proc/loadavg")?,
            last: 0,
            pending: Vec::new(),
            full_ns: None,
            missed: false,
        })
    }

    /// The processes that are new since the last call, the older before the younger.
    pub(super) fn arrivals(&mut self, now_ns: u64) -> Vec<Arrival> {
        let last = last_number(&self.load).unwrap_or(self.last);
        let since_full = self.full_ns.map(|full| now_ns.saturating_sub(full));
        let is_near = (self.last..=self.last.saturating_add(PENDING_MAX as i32)).contains(&last);
        let full = since_full.is_none_or(|since| since >= FULL_NS) || !is_near;
        let old = self.full_ns.is_none();
        let mut numbers: Vec<i32> = self.pending.iter().map(|&(pid, _)| pid).collect();
        if full {
            self.full_ns = Some(now_ns);
            numbers.extend(numbers_in("/proc"));
            numbers.sort_unstable();
        } else {
            numbers.extend(self.last + 1..=last);
        }
        // When numbers have wrapped around, or at first, the range in between means nothing.
        self.last = if is_near && !old { self.last } else { last };
        let mut arrivals = Vec::new();
        let mut empty = HashSet::new();
        for pid in numbers {
            if self.known.contains(&pid) || self.inits.contains(&pid) {
                continue;
            }
            if cpu_ns(pid).is_none() {
                empty.insert(pid);
                continue;
            }
            let Some(host) = self.host_of(pid) else {
                continue;
            };
            let Some((stat, now)) = StatFile::open(pid) else {
                continue;
            };
            self.known.insert(pid);
            let outside = self.host_of(now.parent) != Some(host);
            arrivals.push(Arrival {
                pid,
                host,
                stat,
                outside,
                old,
            });
        }
        self.wait_for(&empty, last, now_ns);
        self.last = last;
        arrivals
    }

    /// Notes numbers that are not processes yet, to be tried again.
    fn wait_for(&mut self, empty: &HashSet<i32>, last: i32, now_ns: u64) {
        let waiting: HashSet<i32> = self.pending.iter().map(|&(pid, _)| pid).collect();
        let before = self.pending.len();
        self.pending
            .retain(|(pid, since)| empty.contains(pid) && now_ns - since < PENDING_NS);
        self.missed |= self.pending.len() < before;
        if last <= self.last {
            return;
        }
        // Reading all of `/proc` does not show such numbers, so they are taken from the range.
        let new = (self.last + 1..=last).filter(|pid| !self.known.contains(pid));
        let new = new.filter(|pid| !waiting.contains(pid) && cpu_ns(*pid).is_none());
        let new: Vec<_> = new.collect();
        let room = PENDING_MAX.saturating_sub(self.pending.len());
        self.missed |= !new.is_empty();
        self.pending
            .extend(new.into_iter().rev().take(room).map(|pid| (pid, now_ns)));
    }

    /// Whether processes may have come and gone unseen since this was called last.
    pub(super) fn take_missed(&mut self) -> bool {
        std::mem::take(&mut self.missed)
    }

    /// Forgets a process that has ended: its number may come again.
    pub(super) fn forget(&mut self, pid: i32) {
        self.known.remove(&pid);
    }

    fn host_of(&mut self, pid: i32) -> Option<usize> {
        let file = File::open(format!("/proc/{pid}/ns/pid")).ok()?;
        self.host_of_namespace(&file)
    }

    /// The host that a PID namespace is of, or is within: programs may make namespaces of their own.
    fn host_of_namespace(&mut self, file: &File) -> Option<usize> {
        use std::os::fd::FromRawFd;
        let number = file.metadata().ok()?.ino();
        if let Some(&host) = self.namespaces.get(&number) {
            return host;
        }
        // SAFETY: no pointers; the result is checked and owned at once.
        let parent = unsafe {
            let fd = libc::ioctl(file.as_raw_fd(), NS_GET_PARENT);
            crate::sys::check(fd).ok().map(|fd| File::from_raw_fd(fd))
        };
        let host = parent.and_then(|parent| self.host_of_namespace(&parent));
        self.namespaces.insert(number, host);
        host
    }
}

fn namespace(pid: i32) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{pid}/ns/pid"))?.ino())
}

/// The last number that was given, of `/proc/loadavg`.
fn last_number(load: &File) -> Option<i32> {
    let mut text = [0; 128];
    let length = load.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(&text[..length]).ok()?;
    text.split_whitespace().last()?.parse().ok()
}

/// CPU time of a process, all threads together, also those that have ended; none where the number is no
/// process (a thread is none).
pub(super) fn cpu_ns(pid: i32) -> Option<u64> {
    // `MAKE_PROCESS_CPUCLOCK` with `CPUCLOCK_SCHED` (include/linux/posix-timers.h).
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer outlives the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The open `stat` file of a process: it never becomes another's.
#[derive(Debug)]
pub(super) struct StatFile(File);

impl StatFile {
    pub(super) fn open(pid: i32) -> Option<(Self, Stat)> {
        Self::at(&format!("/proc/{pid}/stat"))
    }

    /// The one of a process or thread whose file has this path.
    pub(super) fn at(path: &str) -> Option<(Self, Stat)> {
        let file = Self(File::open(path).ok()?);
        let stat = file.read()?;
        Some((file, stat))
    }

    /// None where the process is gone.
    pub(super) fn read(&self) -> Option<Stat> {
        let mut text = [0; 1024];
        let length = self.0.read_at(&mut text, 0).ok()?;
        parse(&text[..length])
    }
}

fn parse(text: &[u8]) -> Option<Stat> {
    const CHILDREN: usize = 13;
    // The name before may hold anything, also brackets.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let mut words = str::from_utf8(&text[end + 1..]).ok()?.split_whitespace();
    let state = *words.next()?.as_bytes().first()?;
    let parent = words.next()?.parse().ok()?;
    let mut ticks = words.skip(CHILDREN - 2).map(str::parse::<u64>);
    let children = ticks.next()?.ok()?.saturating_add(ticks.next()?.ok()?);
    Some(Stat {
        state,
        parent,
        children_ns: children.saturating_mul(tick_ns()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_file_is_read_behind_any_name() {
        let text = b"7 (a) b) R 4 7 7 0 -1 4194304 1 2 3 4 50 60 700 30 20 0 1 0 99 1 2";
        let stat = parse(text).unwrap();
        assert_eq!((stat.state, stat.parent), (b'R', 4));
        assert_eq!(stat.children_ns, 730 * tick_ns());
        assert_eq!(parse(b"7 (a) R 4 7"), None);
    }

    #[test]
    fn processes_have_clocks_and_threads_have_none() {
        let own = std::process::id() as i32;
        assert!(cpu_ns(own).is_some_and(|ns| ns > 0));
        // The harness runs tests in threads; a thread that asks by its own number asks for all.
        let others = numbers_in("/proc/self/task").filter(|&thread| thread != own);
        let this = rustix::thread::gettid().as_raw_pid();
        std::thread::spawn(move || assert_eq!(cpu_ns(this), None))
            .join()
            .unwrap();
        assert!(others.count() > 0);
    }
}
