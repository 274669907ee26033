//! A share of a CPU for a host without control groups: its processes run and stop in short pieces.
//!
//! Purpose: the CPU model without root and without a delegated group. Theory: [`credit`] decides when a
//! host runs, by the CPU time that all its processes have used; the controller here measures that time
//! and carries the decisions out with `SIGSTOP` and `SIGCONT`, as MicroGrid's CPU scheduler and cpulimit
//! do. An ordinary user's other means do not serve: `ptrace` takes the processes from debuggers and stops
//! them at every signal; nice values, affinity and `SCHED_IDLE` move time between programs and leave none
//! unused; a freezer and quotas are files of control groups.
//!
//! CPU time is read from the process's CPU clock, with its threads. The kernel brings it up to date when a
//! thread leaves its CPU and at that CPU's ticks (`thread_group_cputime`, kernel/sched/cputime.c), so a
//! host may run a tick longer than it should (4 ms at 250 Hz). The next stop is longer by as much, so the
//! error does not add up. A process that lives between two samples is charged once its parent has waited
//! for it, by the times of ended children in `stat`, which are rounded to ticks. A child that nobody
//! waits for (`SIGCHLD` ignored) is charged for what was sampled of it.
//!
//! What programs can see of it:
//! - A stopped child is reported to a parent that waits with `WUNTRACED`. So parents stop before their
//!   children, and go on after them: a shell with job control never finds its job stopped. A tracer or a
//!   process that was orphaned to a subreaper in between may.
//! - `SIGCHLD` comes at each stop and continuation, but for parents that have set `SA_NOCLDSTOP` (as
//!   [`without_stop_signals`] does), and handlers of `SIGCONT` run.
//! - Calls that end with `EINTR` after a stop (signal(7): `epoll_wait`, `semop`, `sigtimedwait`, socket
//!   calls with a time-out) do so.
//! - Only processes that have run since the host was last continued, and their ancestors, are stopped. A
//!   sleeping process is left alone, and answers at once during a stop; what it uses then is charged.
//! - A process that somebody else has stopped stays stopped. A stop that somebody sends to a process that
//!   we have stopped is lost with our next continuation; a continuation is undone at the next sample.
//!
//! A controller that ends continues everything ([`Drop`]). One that is killed cannot: the processes die
//! with their PID namespace as ever, and its parent may call [`release`].
//!
//! Left out: the CPUs on which a host runs (a share of 1.5 is half of three as well as three quarters of
//! two), and real-time threads, which stop like all others.

pub mod credit;
mod hold;

use std::io;

use super::census::{Census, cpu_ns};
use crate::clock::monotonic_ns;
use credit::{Credit, QUANTUM_NS};
use hold::{Held, Host};

/// The most hosts that are sampled in one turn.
const TURN: usize = 64;
/// Hosts due within this of one another are sampled in one turn.
const TOGETHER_NS: u64 = 100_000;

/// A host and what it gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Process 1 of its PID namespace, by its number in the caller's. It is never stopped itself.
    pub init: i32,
    /// CPUs: 0.25 is a quarter of one, 1.5 may be three quarters of two.
    pub cpus: f64,
}

/// Gives hosts their shares: one controller for all hosts of a run. It runs in a process or thread whose
/// CPU time counts for no host, where `/proc` shows the hosts' processes.
#[derive(Debug)]
pub struct Controller {
    census: Census,
    hosts: Vec<Host>,
}

impl Controller {
    /// Starts with hosts that run. `cpus` are there for them.
    ///
    /// # Errors
    /// A host is gone, or its processes cannot be seen.
    pub fn new(shares: &[Share], cpus: usize) -> io::Result<Self> {
        let census = Census::new(shares.iter().map(|share| share.init))?;
        let now_ns = monotonic_ns();
        let host = |share: &Share| {
            let credit = Credit::new(share.cpus, cpus, now_ns, 0);
            Host::new(share.init, credit, now_ns)
        };
        let hosts = shares.iter().map(host).collect::<io::Result<_>>()?;
        Ok(Self { census, hosts })
    }

    /// CPU time that a host's processes have used since the controller began.
    pub fn used_ns(&self, host: usize) -> u64 {
        self.hosts[host].used_ns()
    }

    /// Does what is due; returns when the next turn is.
    pub fn turn(&mut self) -> u64 {
        let now_ns = monotonic_ns();
        for arrival in self.census.arrivals(now_ns) {
            self.hosts[arrival.host].admit(arrival, now_ns);
        }
        if self.census.take_missed() {
            self.hosts.iter_mut().for_each(Host::has_missed);
        }
        let mut due: Vec<usize> = (0..self.hosts.len()).collect();
        due.retain(|&host| self.hosts[host].due_ns() <= now_ns + TOGETHER_NS);
        due.sort_unstable_by_key(|&host| self.hosts[host].due_ns());
        for &host in due.iter().take(TURN) {
            for pid in self.hosts[host].step() {
                self.census.forget(pid);
            }
        }
        let next = self.hosts.iter().map(Host::due_ns).min();
        next.unwrap_or(u64::MAX).min(now_ns + QUANTUM_NS)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.hosts.iter_mut().for_each(Host::resume);
    }
}

/// Continues every process of these hosts, whoever has stopped it: for the parent of a dead controller.
///
/// # Errors
/// A host is gone.
pub fn release(inits: &[i32]) -> io::Result<()> {
    let mut census = Census::new(inits.iter().copied())?;
    for arrival in census.arrivals(monotonic_ns()).iter().rev() {
        Held::Continued.send(arrival.pid);
    }
    Ok(())
}

/// Spares the calling process a `SIGCHLD` for each stop and continuation of its children; the signal
/// keeps its default action. For the parents of programs; a new program does not inherit it.
pub fn without_stop_signals() {
    // SAFETY: an all-zero action is the default one without a mask; it outlives the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(test)]
#[path = "duty/tests.rs"]
mod tests;
