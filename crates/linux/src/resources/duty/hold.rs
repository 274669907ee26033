//! One host of the duty cycle: measures what its processes use, stops and continues them in order.
//!
//! Order: parents stop before their children and continue after them, so that a parent that waits with
//! `WUNTRACED` sees no stopped child. So stopping takes two phases: first the ancestors of all processes
//! to be stopped, then, once those have stopped or [`PARENTS_NS`] have passed, the others.

use std::collections::{HashMap, HashSet};
use std::io;

use rustix::process::{Pid, Signal, kill_process};

use super::cpu_ns;
use super::credit::{Credit, Tasks};
use crate::clock::monotonic_ns;
use crate::cpu::schedstat;
use crate::procfs::{numbers_in, tick_ns};
use crate::resources::census::{Arrival, Stat, StatFile};

/// How long parents get to stop before their children are stopped, and how often that is checked.
const PARENTS_NS: u64 = 20_000_000;
const PARENTS_CHECK_NS: u64 = 100_000;
/// A host that forks is sampled again this long after a stop, to stop children that it has missed.
const FORKS_NS: u64 = 300_000;
/// How long a host counts as one that forks.
const FORKED_NS: u64 = 100_000_000;
/// A held process that has used more than this between two samples has perhaps been continued by
/// somebody else, or the signal took its time: it is stopped again.
const ESCAPED_NS: u64 = 200_000;
/// A process that has run within this is asked how long it has waited for a CPU; and the most threads
/// of it that are asked.
const RAN_NS: u64 = 200_000_000;
const THREADS: usize = 16;
/// How often ended children are counted; less often where that would cost more than 1 % of a CPU.
const COUNT_NS: u64 = 50_000_000;
const COUNT_COST: u64 = 100;

/// What is sent to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Stopped,
    Continued,
}

impl Held {
    /// The number was this process at the last sample. The kernel gives numbers in turn, so it would
    /// have to give all others before this one names another process.
    pub(super) fn send(self, pid: i32) {
        let signal = match self {
            Self::Stopped => Signal::STOP,
            Self::Continued => Signal::CONT,
        };
        if let Some(pid) = Pid::from_raw(pid) {
            kill_process(pid, signal).ok();
        }
    }
}

#[derive(Debug)]
struct Member {
    pid: i32,
    parent: i32,
    outside: bool,
    stat: StatFile,
    used_ns: u64,
    /// What its ended children had used by the last count.
    children_ns: u64,
    waited_ns: Option<u64>,
    ran_at_ns: u64,
    /// Has run since the host was last continued.
    active: bool,
    /// Stopped by us since the host was last continued.
    held: bool,
    /// Has run although it is held.
    escaped: bool,
}

/// How far stopping has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Runs,
    /// The parents have been signalled; their children are stopped by this time at the latest.
    Parents(u64),
    Holds,
}

#[derive(Debug)]
pub(super) struct Host {
    credit: Credit,
    init: StatFile,
    init_pid: i32,
    init_children_ns: u64,
    /// In the order of their coming: parents before children.
    members: Vec<Member>,
    used_ns: u64,
    phase: Phase,
    due_ns: u64,
    forked_at_ns: Option<u64>,
    /// What has been charged of processes that have ended since the last count: their parents' `stat`
    /// includes it once they have waited for them.
    gone_ns: u64,
    /// A process has ended, whether it had been seen or not.
    missed: bool,
    /// How much more has been charged than parents' `stat` says, since that is rounded to ticks.
    ahead_ns: u64,
    count_due_ns: u64,
}

impl Host {
    pub(super) fn new(init: i32, credit: Credit, now_ns: u64) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("process {init} is gone"));
        let (file, stat) = StatFile::open(init).ok_or_else(gone)?;
        Ok(Self {
            credit,
            init: file,
            init_pid: init,
            init_children_ns: stat.children_ns,
            members: Vec::new(),
            used_ns: 0,
            phase: Phase::Runs,
            due_ns: now_ns,
            forked_at_ns: None,
            gone_ns: 0,
            missed: false,
            ahead_ns: 0,
            count_due_ns: now_ns,
        })
    }

    pub(super) const fn used_ns(&self) -> u64 {
        self.used_ns
    }

    pub(super) const fn due_ns(&self) -> u64 {
        self.due_ns
    }

    pub(super) const fn has_missed(&mut self) {
        self.missed = true;
    }

    pub(super) fn admit(&mut self, arrival: Arrival, now_ns: u64) {
        let Arrival { pid, stat, .. } = arrival;
        let Some(now) = stat.read() else { return };
        // What a newcomer has used is charged from its beginning.
        let old = arrival.old;
        self.members.push(Member {
            pid,
            parent: now.parent,
            outside: arrival.outside,
            stat,
            used_ns: if old { cpu_ns(pid).unwrap_or(0) } else { 0 },
            children_ns: if old { now.children_ns } else { 0 },
            waited_ns: None,
            ran_at_ns: now_ns,
            active: false,
            held: false,
            escaped: false,
        });
        self.forked_at_ns = (!old).then_some(now_ns).or(self.forked_at_ns);
        if self.credit.stopped() {
            self.due_ns = now_ns;
        }
    }

    /// Measures, decides, and stops or continues. Returns the processes that have ended.
    pub(super) fn step(&mut self) -> Vec<i32> {
        let gone = self.measure(monotonic_ns());
        // Read after measuring: if others take this thread's CPU in between, the host must not seem to
        // have used more CPU time than has passed.
        let now_ns = monotonic_ns();
        if self.missed && now_ns >= self.count_due_ns {
            self.count_children(now_ns);
        }
        let mut tasks = Members {
            list: &mut self.members,
            now_ns,
        };
        let decision = self.credit.decide(now_ns, self.used_ns, &mut tasks);
        self.due_ns = decision.next_ns;
        if !decision.stopped {
            self.resume();
            return gone;
        }
        let parents = self.parents();
        // A child found only now may have a parent that has slept so far: it is stopped first, too.
        if self.hold(|member| parents.contains(&member.pid)) || self.phase == Phase::Runs {
            self.phase = Phase::Parents(now_ns + PARENTS_NS);
        }
        if let Phase::Parents(until_ns) = self.phase {
            if now_ns < until_ns && self.any_runs(&parents) {
                self.due_ns = now_ns + PARENTS_CHECK_NS;
                return gone;
            }
            self.phase = Phase::Holds;
        }
        let newly = self.hold(|member| member.active);
        let forks = self.forked_at_ns.is_some_and(|at| now_ns - at < FORKED_NS);
        if newly && forks {
            self.due_ns = self.due_ns.min(now_ns + FORKS_NS);
        }
        gone
    }

    /// Reads the clocks.
    fn measure(&mut self, now_ns: u64) -> Vec<i32> {
        let mut gone = Vec::new();
        for member in &mut self.members {
            let Some(used_ns) = cpu_ns(member.pid) else {
                gone.push(member.pid);
                if !member.outside {
                    self.gone_ns += member.used_ns + member.children_ns;
                }
                continue;
            };
            let ran_ns = used_ns.saturating_sub(member.used_ns);
            member.used_ns = used_ns;
            self.used_ns += ran_ns;
            if ran_ns > 0 {
                member.ran_at_ns = now_ns;
                member.active = true;
            }
            if ran_ns > ESCAPED_NS && self.phase == Phase::Holds {
                member.escaped = true;
            }
        }
        if !gone.is_empty() {
            self.missed = true;
            self.members.retain(|member| !gone.contains(&member.pid));
            let orphans = self.members.iter_mut();
            for orphan in orphans.filter(|member| gone.contains(&member.parent)) {
                orphan.parent = self.init_pid;
                orphan.outside = false;
            }
        }
        gone
    }

    /// Charges the CPU time of processes that ended between samples: parents' `stat` includes the time of
    /// ended children once they have waited for them. What had been charged of them before is deducted.
    fn count_children(&mut self, now_ns: u64) {
        let began_ns = crate::cpu::own_cpu_ns();
        let mut said_ns = 0;
        let mut count = |file: &StatFile, before_ns: &mut u64| {
            if let Some(Stat { children_ns, .. }) = file.read() {
                said_ns += children_ns.saturating_sub(*before_ns);
                *before_ns = children_ns.max(*before_ns);
            }
        };
        count(&self.init, &mut self.init_children_ns);
        for member in &mut self.members {
            count(&member.stat, &mut member.children_ns);
        }
        let counted_ns = self.gone_ns + self.ahead_ns;
        self.used_ns += said_ns.saturating_sub(counted_ns);
        // Carried over up to two ticks, which rounding can hide; a child that is never waited for never
        // shows up, and must not be deducted for ever.
        self.ahead_ns = counted_ns.saturating_sub(said_ns).min(2 * tick_ns());
        self.gone_ns = 0;
        self.missed = false;
        let cost_ns = crate::cpu::own_cpu_ns() - began_ns;
        self.count_due_ns = now_ns + COUNT_NS.max(cost_ns * COUNT_COST);
    }

    /// The ancestors of the processes to be stopped.
    fn parents(&self) -> HashSet<i32> {
        let of: HashMap<i32, i32> = (self.members.iter())
            .map(|member| (member.pid, member.parent))
            .collect();
        let mut parents = HashSet::new();
        let active = self.members.iter().filter(|member| member.active);
        let mut next: Vec<i32> = active.map(|member| member.parent).collect();
        while let Some(pid) = next.pop() {
            if let Some(&parent) = of.get(&pid)
                && parents.insert(pid)
            {
                next.push(parent);
            }
        }
        parents
    }

    /// Stops the members that `which` chooses and that are not stopped yet; whether there was one.
    fn hold(&mut self, which: impl Fn(&Member) -> bool) -> bool {
        let mut any = false;
        for member in &mut self.members {
            if member.held && !member.escaped || !which(member) {
                continue;
            }
            member.escaped = false;
            let Some(stat) = member.stat.read() else {
                continue;
            };
            member.parent = stat.parent;
            // One that is stopped already was stopped by somebody else, who will continue it.
            if !matches!(stat.state, b'T' | b't' | b'Z' | b'X') {
                Held::Stopped.send(member.pid);
                member.held = true;
                any = true;
            }
        }
        any
    }

    /// Whether one of these that has been signalled has not stopped yet.
    fn any_runs(&self, pids: &HashSet<i32>) -> bool {
        let signalled = |member: &&Member| member.held && pids.contains(&member.pid);
        let runs = |stat: Stat| !matches!(stat.state, b'T' | b't' | b'Z' | b'X');
        let mut signalled = self.members.iter().filter(signalled);
        signalled.any(|member| member.stat.read().is_some_and(runs))
    }

    /// Continues the processes that we have stopped, children before their parents.
    pub(super) fn resume(&mut self) {
        if self.phase == Phase::Runs {
            return;
        }
        for member in self.members.iter_mut().rev() {
            if member.held {
                Held::Continued.send(member.pid);
            }
            (member.held, member.escaped, member.active) = (false, false, false);
        }
        self.phase = Phase::Runs;
    }
}

/// The processes of a host at a sample; those that have not run for [`RAN_NS`] are not asked.
struct Members<'a> {
    list: &'a mut [Member],
    now_ns: u64,
}

impl Members<'_> {
    fn recent(&mut self) -> impl Iterator<Item = &mut Member> {
        let now_ns = self.now_ns;
        let list = self.list.iter_mut();
        list.filter(move |member| now_ns - member.ran_at_ns <= RAN_NS)
    }
}

impl Tasks for Members<'_> {
    fn waited_ns(&mut self) -> u64 {
        self.recent().map(Member::waited_ns).sum()
    }

    fn any_is_runnable(&mut self) -> bool {
        self.recent().any(|member| member.is_runnable())
    }
}

impl Member {
    /// Its threads, as files of this name below `/proc`.
    fn threads(&self, file: &str) -> impl Iterator<Item = String> + use<> {
        let folder = format!("/proc/{}/task", self.pid);
        let file = file.to_owned();
        let threads = numbers_in(&folder).take(THREADS);
        threads.map(move |thread| format!("{folder}/{thread}/{file}"))
    }

    /// Whether one of its threads runs or waits for a CPU.
    fn is_runnable(&self) -> bool {
        let mut files = self.threads("stat");
        files.any(|path| StatFile::at(&path).is_some_and(|(_, stat)| stat.state == b'R'))
    }

    /// How long its threads have waited for a CPU since this was called last.
    fn waited_ns(&mut self) -> u64 {
        let threads = self.threads("schedstat");
        let threads = threads.filter_map(|path| schedstat(&path));
        let waited_ns = threads.map(|stat| stat.waited_ns).sum();
        let before_ns = self.waited_ns.replace(waited_ns).unwrap_or(waited_ns);
        waited_ns.saturating_sub(before_ns)
    }
}
