//! One host: what its processes have used, and stopping and continuing them in order.

use std::collections::{HashMap, HashSet};
use std::io;

use rustix::process::{Pid, Signal, kill_process};

use super::cpu_ns;
use super::credit::Credit;
use crate::clock::monotonic_ns;
use crate::cpu::schedstat;
use crate::procfs::{numbers_in, tick_ns};
use crate::resources::census::{Arrival, Stat, StatFile};

/// Parents get so long to stop before their children do, looked at that often.
const PARENTS_NS: u64 = 20_000_000;
const PARENTS_LOOK_NS: u64 = 100_000;
/// After a stop, a host that forks is looked at again after this.
const FORKS_NS: u64 = 300_000;
/// It counts as one that forks for so long.
const FORKED_NS: u64 = 100_000_000;
/// A held process that has used more than this between two looks may have been continued by somebody;
/// or the signal took its time.
const ESCAPED_NS: u64 = 200_000;
/// Who has run within this is asked how long it has waited for a CPU; so many threads of it.
const RAN_NS: u64 = 200_000_000;
const THREADS: usize = 16;
/// Ended children are counted that often; less often where it would cost more than a hundredth.
const COUNT_NS: u64 = 50_000_000;
const COUNT_COST: u64 = 100;

/// What is sent to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Stopped,
    Continued,
}

impl Held {
    /// The number was a process at the last look; for another to have it, the kernel would have had to
    /// give all others first.
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
    /// Has run since the host last went on.
    active: bool,
    /// Stopped by us since the host last went on.
    held: bool,
    /// Has run although it is held.
    escaped: bool,
}

/// How far stopping is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Runs,
    /// The parents are told to stop; their children are by this time at the latest.
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
    /// What had been counted of processes that have gone since the last count and were waited for.
    gone_ns: u64,
    /// Somebody has gone, seen or not.
    missed: bool,
    /// More was counted than parents say, by what ticks leave out.
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

    /// Measures, decides, carries out. Returns who has gone.
    pub(super) fn look(&mut self) -> Vec<i32> {
        let gone = self.measure(monotonic_ns());
        // Not before: who takes this thread's CPU in between must not seem to have used more than passed.
        let now_ns = monotonic_ns();
        if self.missed && now_ns >= self.count_due_ns {
            self.count_children(now_ns);
        }
        let members = &mut self.members;
        let waited = || members.iter_mut().map(|member| member.waited(now_ns)).sum();
        let decision = self.credit.look(now_ns, self.used_ns, waited);
        self.due_ns = decision.next_ns;
        if !decision.stopped {
            self.go_on();
            return gone;
        }
        let parents = self.parents();
        // A child that is found only now may have a parent that slept until now.
        if self.hold(|member| parents.contains(&member.pid)) || self.phase == Phase::Runs {
            self.phase = Phase::Parents(now_ns + PARENTS_NS);
        }
        if let Phase::Parents(until_ns) = self.phase {
            if now_ns < until_ns && self.any_runs(&parents) {
                self.due_ns = now_ns + PARENTS_LOOK_NS;
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

    /// Charges what processes have used that nobody has seen, or not to their ends: their parents say
    /// it once they have waited for them.
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
        // No more than the ticks hide: what was not waited for never comes.
        self.ahead_ns = counted_ns.saturating_sub(said_ns).min(2 * tick_ns());
        self.gone_ns = 0;
        self.missed = false;
        let cost_ns = crate::cpu::own_cpu_ns() - began_ns;
        self.count_due_ns = now_ns + COUNT_NS.max(cost_ns * COUNT_COST);
    }

    /// The ancestors of those that are to be stopped.
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

    /// Stops those of `which` that are not; whether there was one.
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
            // Stopped by somebody else, who will also continue it; or ended.
            if !matches!(stat.state, b'T' | b't' | b'Z' | b'X') {
                Held::Stopped.send(member.pid);
                member.held = true;
                any = true;
            }
        }
        any
    }

    /// Whether one of these that is to be stopped is not yet.
    fn any_runs(&self, pids: &HashSet<i32>) -> bool {
        let told = |member: &&Member| member.held && pids.contains(&member.pid);
        let runs = |stat: Stat| !matches!(stat.state, b'T' | b't' | b'Z' | b'X');
        let mut told = self.members.iter().filter(told);
        told.any(|member| member.stat.read().is_some_and(runs))
    }

    /// Continues who was stopped, children before their parents.
    pub(super) fn go_on(&mut self) {
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

impl Member {
    /// How long its threads have waited for a CPU since the last time that it was asked.
    fn waited(&mut self, now_ns: u64) -> u64 {
        if now_ns - self.ran_at_ns > RAN_NS {
            return 0;
        }
        let folder = format!("/proc/{}/task", self.pid);
        let of = |thread| schedstat(&format!("{folder}/{thread}/schedstat"));
        let threads = numbers_in(&folder).take(THREADS).filter_map(of);
        let waited_ns = threads.map(|stat| stat.waited_ns).sum();
        let before_ns = self.waited_ns.replace(waited_ns).unwrap_or(waited_ns);
        waited_ns.saturating_sub(before_ns)
    }
}
