//! Changes of the network while the loop runs: what the run asks for, and what the file has
//! scheduled.
//!
//! The schedule stands in the order of events: everything stamped before a step enters before it,
//! everything due before it happens before it, and what has the same time comes after it.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TryRecvError};

use longhaul_core::Time;
use longhaul_core::engine::Engine;
use longhaul_core::observe::PipeCounters;
use longhaul_core::topology::{PipeId, PipeParams};

use super::{Drive, Platform};
use crate::patch::Patch;
use crate::schedule::{Change, Timeline};

/// What the run asks of the loop.
#[derive(Debug)]
pub enum Command {
    /// Changes of a pipe; the time from which they hold is sent back.
    Set {
        /// The pipe.
        pipe: PipeId,
        /// What changes.
        patch: Arc<Patch>,
        /// Where the answer goes.
        done: SyncSender<Time>,
    },
    /// Takes pipes down or brings them up; those that have changed are sent back, and when.
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

/// A pipe at a moment.
#[derive(Debug, Clone)]
pub struct Look {
    /// Which one.
    pub pipe: PipeId,
    /// What it does to packets.
    pub params: PipeParams,
    /// Whether it is up.
    pub up: bool,
    /// What has become of its packets.
    pub counters: PipeCounters,
    /// Packets and counted bytes that wait in its queue.
    pub waiting: (u32, u64),
}

impl<P: Platform> Drive<P> {
    /// Carries out what the run asks; false when it asks for nothing more.
    pub(super) fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Set { pipe, patch, done }) => {
                    self.set(pipe, &patch);
                    let _ = done.try_send(self.engine.now());
                }
                Ok(Command::Switch {
                    mut pipes,
                    up,
                    keep_queue,
                    done,
                }) => {
                    let now = self.engine.now();
                    pipes.retain(|&pipe| self.timeline.switch(pipe, up, now));
                    for &pipe in &pipes {
                        self.switch(pipe, up, keep_queue);
                    }
                    let _ = done.try_send((now, pipes));
                }
                Ok(Command::Look { pipes, done }) => {
                    let looks = pipes.into_iter().map(|pipe| self.look(pipe)).collect();
                    let _ = done.try_send((self.engine.now(), looks));
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn look(&self, pipe: PipeId) -> Look {
        Look {
            pipe,
            params: self.engine.params(pipe).clone(),
            up: self.timeline.is_up(pipe),
            counters: self.engine.pipe_counters(pipe),
            waiting: self.engine.waiting(pipe),
        }
    }

    fn set(&mut self, pipe: PipeId, patch: &Patch) {
        let params = patch.apply(self.engine.params(pipe));
        self.engine.set(pipe, params);
        self.find_lead(pipe);
    }

    fn switch(&mut self, pipe: PipeId, up: bool, keep_queue: bool) {
        self.engine.set_up(pipe, up, keep_queue);
        self.find_lead(pipe);
    }

    /// Takes the steps of the schedule at `at`, to which the engine has not been advanced yet.
    pub(super) fn take_steps(&mut self, at: Time) {
        apply_steps(&mut self.engine, &mut self.timeline, at, |_| {});
        self.find_leads();
    }
}

/// Advances an engine to `at`, and does there what `timeline` has scheduled up to then; `begun`
/// is told the number of each event that begins.
pub(crate) fn apply_steps(
    engine: &mut Engine,
    timeline: &mut Timeline,
    at: Time,
    mut begun: impl FnMut(usize),
) {
    engine.advance_before(at);
    while let Some(step) = timeline.pop(at, |pipe| engine.params(pipe).clone()) {
        step.begins.into_iter().for_each(&mut begun);
        for change in step.changes {
            match change {
                Change::Params(pipe, patch) => {
                    let params = patch.apply(engine.params(pipe));
                    engine.set(pipe, params);
                }
                Change::Up {
                    pipe,
                    up,
                    keep_queue,
                } => engine.set_up(pipe, up, keep_queue),
                Change::Reroute => engine.reroute(),
            }
        }
    }
}
