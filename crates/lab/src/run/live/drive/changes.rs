//! Changes of the network while the loop runs: what the run asks for, and what the file has
//! scheduled.
//!
//! The schedule stands in the order of events: everything stamped before a step enters before it,
//! everything due before it happens before it, and what has the same time comes after it. The loop
//! tells of all that has changed, whoever wanted it: whoever follows knows what the network is like
//! and need not work it out again.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TryRecvError, TrySendError};

use longhaul_core::Time;
use longhaul_core::topology::PipeId;
use longhaul_emulation::Look;
use longhaul_plan::patch::Patch;

use super::{Drive, Platform};

/// What the run asks of the loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// Changes of pipes; the time from which they hold is sent back, after they have been told of.
    Set {
        /// The pipes.
        pipes: Vec<PipeId>,
        /// What changes.
        patch: Arc<Patch>,
        /// Where the answer goes.
        done: SyncSender<Time>,
    },
    /// Takes pipes down or brings them up; those that have changed are sent back, and when, after
    /// they have been told of.
    Switch {
        /// The pipes.
        pipes: Vec<PipeId>,
        /// Whether they come back.
        up: bool,
        /// Where they fail: whether what waits in queues survives.
        keep_queue: bool,
        /// Where the answer goes.
        done: SyncSender<(Time, Vec<PipeId>)>,
    },
    /// What pipes are like at present, and when that is.
    Look {
        /// The pipes.
        pipes: Vec<PipeId>,
        /// Where the answer goes.
        done: SyncSender<(Time, Vec<Look>)>,
    },
}

impl<P: Platform> Drive<P> {
    /// Carries out what the run asks; false when it asks for nothing more.
    pub(super) fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Set { pipes, patch, done }) => {
                    self.set(&pipes, &patch);
                    let _ = done.try_send(self.emulation.now());
                }
                Ok(Command::Switch {
                    pipes,
                    up,
                    keep_queue,
                    done,
                }) => {
                    let now = self.emulation.now();
                    let pipes = self.emulation.switch(&pipes, up, keep_queue);
                    pipes.iter().for_each(|&pipe| self.find_lead(pipe));
                    self.tell();
                    let _ = done.try_send((now, pipes));
                }
                Ok(Command::Look { pipes, done }) => {
                    let looks = pipes.into_iter().map(|pipe| self.emulation.look(pipe));
                    let _ = done.try_send((self.emulation.now(), looks.collect()));
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn set(&mut self, pipes: &[PipeId], patch: &Patch) {
        for &pipe in pipes {
            self.emulation.set(pipe, patch);
            self.find_lead(pipe);
        }
        self.tell();
    }

    /// Takes the steps of the schedule at `at`, to which the engine has not been advanced yet.
    pub(super) fn take_steps(&mut self, at: Time) {
        self.emulation.take_steps(at);
        self.find_leads();
        self.tell();
    }

    /// Tells the run of changes; where it does not listen, later and of all together.
    pub(super) fn tell(&mut self) {
        if let Some(applied) = self.emulation.take_applied()
            && let Err(TrySendError::Full(applied)) = self.applied.try_send(applied)
        {
            self.emulation.keep_applied(applied);
        }
    }
}
