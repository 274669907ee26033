//! A virtual run's machine, where that is Linux.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::cpu;
use longhaul_linux::memory::{available_bytes, prefer_large_pages, resident_bytes};
use longhaul_linux::wait::{take_signal, termination_signals};

use super::virtual_time::{Clock, Machine};
use crate::summary::{self, CoreFacts};

/// This machine.
#[derive(Debug, Default)]
pub(super) struct LinuxMachine {
    /// Signals that ask for the end, once a run has begun.
    signals: Option<OwnedFd>,
}

impl Machine for LinuxMachine {
    fn memory(&self) -> Option<u64> {
        available_bytes().map(|bytes| bytes + resident_bytes())
    }

    fn begin(&mut self) -> io::Result<()> {
        // Nobody waits for a packet.
        prefer_large_pages();
        self.signals = Some(termination_signals()?);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Arc::new(|| Duration::from_nanos(monotonic_ns()))
    }

    fn cpu_time(&self) -> Duration {
        Duration::from_nanos(cpu::own_cpu_ns())
    }

    fn interrupted(&mut self) -> Option<i32> {
        take_signal(self.signals.as_ref()?.as_fd())
    }

    fn cpus(&self) -> usize {
        cpu::allowed().map_or(1, |cpus| cpus.len())
    }

    fn facts(&self) -> summary::Machine {
        let core = CoreFacts {
            scheduling: "ordinary",
            ..CoreFacts::default()
        };
        summary::machine(core, Vec::new(), self.cpus())
    }
}
