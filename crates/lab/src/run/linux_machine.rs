//! A virtual run's machine, where that is Linux.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longhaul_linux::channel::{Channel, Listener};
use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::cpu;
use longhaul_linux::memory::{available_bytes, prefer_large_pages, resident_bytes};
use longhaul_linux::wait::{take_signal, termination_signals};

use super::virtual_time::{Clock, Machine};
use crate::calibrate::MachineCosts;
use crate::control::{Reply, Request};
use crate::summary::{self, CoreFacts};

/// The most connections of other processes at a time.
const CALLERS_MAX: usize = 64;

/// This machine.
#[derive(Debug, Default)]
pub(super) struct LinuxMachine {
    /// Signals that ask for the end, once a run has begun.
    signals: Option<OwnedFd>,
    /// Where other processes call.
    listener: Option<Listener>,
    callers: Vec<Channel>,
}

/// Answers a caller's request, if one waits; whether it is still there.
fn is_served(caller: &Channel, answer: &mut dyn FnMut(&Request) -> Reply) -> bool {
    let reply = match caller.receive::<Request>() {
        Ok(Some((request, _))) => answer(&request),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
        Err(error) if error.kind() == ErrorKind::Other => {
            Reply::Error(format!("not a request: {error}"))
        }
        Ok(None) | Err(_) => return false,
    };
    caller.send(&reply, &[]).is_ok()
}

impl Machine for LinuxMachine {
    fn memory(&self) -> Option<u64> {
        available_bytes().map(|bytes| bytes + resident_bytes())
    }

    fn begin(&mut self) -> io::Result<()> {
        // No live packets: filling large pages delays nobody.
        prefer_large_pages();
        self.signals = Some(termination_signals()?);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Arc::new(|| Duration::from_nanos(monotonic_ns()))
    }

    fn cpu_clock(&self) -> Clock {
        Arc::new(|| Duration::from_nanos(cpu::own_cpu_ns()))
    }

    fn listen(&mut self, socket: &Path) -> io::Result<()> {
        self.listener = Some(Listener::bind_abstract(socket)?);
        Ok(())
    }

    fn serve(&mut self, answer: &mut dyn FnMut(&Request) -> Reply) {
        let Some(listener) = &self.listener else {
            return;
        };
        while let Ok(Some(caller)) = listener.accept() {
            // A caller beyond the limit is hung up on.
            if self.callers.len() < CALLERS_MAX {
                self.callers.push(caller);
            }
        }
        self.callers.retain(|caller| is_served(caller, answer));
    }

    fn interrupted(&mut self) -> Option<i32> {
        take_signal(self.signals.as_ref()?.as_fd())
    }

    fn cpus(&self) -> usize {
        cpu::allowed().map_or(1, |cpus| cpus.len())
    }

    fn costs(&self) -> MachineCosts {
        MachineCosts::known()
    }

    fn facts(&self) -> summary::Machine {
        let core = CoreFacts {
            scheduling: "ordinary",
            ..CoreFacts::default()
        };
        summary::machine(core, Vec::new(), self.cpus())
    }
}
