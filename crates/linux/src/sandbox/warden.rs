//! Imposes hosts' limits on CPU time and memory where there are no control groups for them.
//!
//! One process for all hosts, a child of the sandbox: it sees all processes of the run, counts for
//! no host, and dies with the sandbox. It takes turns of the duty cycle
//! ([`crate::resources::duty`]) and of the watchdog ([`crate::resources::watchdog`]), and writes a
//! line for each process that it has killed. When it is asked to end, or finds the sandbox gone, it
//! continues every process that it has stopped. If it is killed itself, the sandbox continues them
//! instead, and reports that to the run.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::thread::set_name;

use super::boot::PRIVATE;
use super::server::Host;
use crate::clock::monotonic_ns;
use crate::cpu::{self, Scheduling};
use crate::resources::duty::{self, Controller, Share};
use crate::resources::watchdog::{Killed, Limit, Watchdog};
use crate::sys::{self, Fork};

/// The warden as the sandbox knows it.
pub(super) struct Warden {
    pub(super) pid: i32,
    /// Its reports, a line for each process that it has killed.
    said: PipeReader,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
    /// Held open for as long as it must run; closing it ends the warden.
    _lifeline: PipeWriter,
}

/// A process that the warden has killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Killing {
    pub(super) host: usize,
    pub(super) pid: i32,
}

impl Warden {
    /// Starts it for the hosts with limits of its kind; `None` where no host has any. Programs have
    /// `cpus` CPUs. The process must have one thread.
    pub(super) fn start(hosts: &[Host], cpus: usize) -> io::Result<Option<Self>> {
        let mut work = Work::default();
        for (number, host) in hosts.iter().enumerate().filter(|(_, host)| host.alive) {
            let limits = host.config.limits;
            if let Some(cpu) = limits.cpu {
                let cpus = f64::from(cpu.quota) / 1_000.0;
                work.shares.push(Share {
                    init: host.pid,
                    cpus,
                });
            }
            if let Some(bytes) = limits.memory {
                work.of_limit.push(number);
                work.limits.push(Limit {
                    init: host.pid,
                    bytes,
                    folders: PRIVATE.iter().map(|(folder, _)| folder.into()).collect(),
                });
            }
        }
        if work.shares.is_empty() && work.limits.is_empty() {
            return Ok(None);
        }
        let (said, says) = io::pipe()?;
        let (lifeline, held) = io::pipe()?;
        // SAFETY: the sandbox has one thread.
        match unsafe { sys::fork(0) }? {
            Fork::Child => {
                drop((said, held));
                main(work, cpus, &lifeline, says)
            }
            Fork::Parent { pid, .. } => Ok(Some(Self {
                pid,
                said,
                partial: Vec::new(),
                _lifeline: held,
            })),
        }
    }

    /// The descriptor that is readable when it has reported something, or is dead.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.said.as_fd()
    }

    /// What it has reported since the last call; call this when something can be read.
    pub(super) fn listen(&mut self) -> Vec<Killing> {
        let mut bytes = [0; 4096];
        let read = self.said.read(&mut bytes).unwrap_or(0);
        self.partial.extend_from_slice(&bytes[..read]);
        let mut killings = Vec::new();
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            killings.extend(killing(&String::from_utf8_lossy(&line)));
        }
        killings
    }
}

/// Reads a line of the warden.
fn killing(line: &str) -> Option<Killing> {
    let mut words = line.split_whitespace();
    Some(Killing {
        host: words.next()?.parse().ok()?,
        pid: words.next()?.parse().ok()?,
    })
}

/// Continues what a dead warden has stopped.
pub(super) fn release(hosts: &[Host]) {
    let alive = hosts
        .iter()
        .filter(|host| host.alive && host.config.limits.cpu.is_some());
    let inits: Vec<i32> = alive.map(|host| host.pid).collect();
    // A host that is gone needs nothing.
    duty::release(&inits).ok();
}

/// The warden's limits.
#[derive(Default)]
struct Work {
    shares: Vec<Share>,
    limits: Vec<Limit>,
    /// The host of each limit.
    of_limit: Vec<usize>,
}

fn main(work: Work, cpus: usize, lifeline: &PipeReader, says: PipeWriter) -> ! {
    set_name(c"longhaul-warden").ok();
    sys::reset_signals();
    cpu::without_timer_slack();
    Scheduling::ShortSlice.apply();
    let code = match serve(work, cpus, lifeline.as_fd(), says) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code)
}

/// Takes turns until the other end of `lifeline` is closed; then continues everything.
fn serve(
    work: Work,
    cpus: usize,
    lifeline: BorrowedFd<'_>,
    mut says: PipeWriter,
) -> io::Result<()> {
    let of_limit = work.of_limit;
    let duty = (!work.shares.is_empty()).then(|| Controller::new(&work.shares, cpus));
    let watchdog = (!work.limits.is_empty()).then(|| Watchdog::new(work.limits));
    let (mut duty, mut watchdog) = (duty.transpose()?, watchdog.transpose()?);
    loop {
        let mut next_ns = duty.as_mut().map_or(u64::MAX, Controller::turn);
        if let Some(watchdog) = &mut watchdog {
            if watchdog.due_ns() <= monotonic_ns() {
                for Killed { host, pid, .. } in watchdog.turn() {
                    writeln!(says, "{} {pid}", of_limit[host])?;
                }
            }
            next_ns = next_ns.min(watchdog.due_ns());
        }
        let wait = Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()));
        if sys::wait_readable(&[lifeline], Some(wait))?[0] {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_host_and_a_process() {
        assert_eq!(killing("3 77\n"), Some(Killing { host: 3, pid: 77 }));
        assert_eq!(killing("3\n"), None);
        assert_eq!(killing("three 77\n"), None);
    }
}
