//! Changes of the network while the loop runs: by command of the run, and by the file's schedule.
//!
//! A scheduled step has its place in the order of events: packets stamped or due before it come
//! first, those of the same time come after it. The loop reports every change, whoever asked for it,
//! so that the supervisor knows the network's state without working it out again.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TryRecvError, TrySendError};

use longhaul_core::Time;
use longhaul_core::topology::PipeId;
use longhaul_emulation::PipeState;
use longhaul_plan::patch::Patch;

use super::{Drive, Platform};
use crate::measure::{CaptureId, CoreBin, Wait, Wanted};

/// What the run asks of the loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// Changes pipes; answers with the time from which that holds, once it has been reported.
    Set {
        /// The pipes.
        pipes: Vec<PipeId>,
        /// What changes.
        patch: Arc<Patch>,
        /// Where the answer goes.
        done: SyncSender<Time>,
    },
    /// Takes pipes down or brings them up; answers with the time and the pipes that have changed,
    /// once that has been reported.
    Switch {
        /// The pipes.
        pipes: Vec<PipeId>,
        /// Whether they come back.
        up: bool,
        /// Whether packets in their queues survive a failure.
        keep_queue: bool,
        /// Where the answer goes.
        done: SyncSender<(Time, Vec<PipeId>)>,
    },
    /// Records packets from now on; answers with the time from which it does.
    Capture {
        /// The capture's number.
        number: CaptureId,
        /// Which packets.
        wanted: Arc<Wanted>,
        /// Where the answer goes.
        done: SyncSender<Time>,
    },
    /// Asks for the present state of pipes; answers with it and its time.
    ReadState {
        /// The pipes.
        pipes: Vec<PipeId>,
        /// Where the answer goes.
        done: SyncSender<(Time, Vec<PipeState>)>,
    },
}

impl<P: Platform> Drive<P> {
    /// Carries out the run's commands; false once it has hung up, which ends the loop.
    pub(super) fn carry_out_commands(&mut self) -> bool {
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
                    self.report_changes();
                    let _ = done.try_send((now, pipes));
                }
                Ok(Command::Capture {
                    number,
                    wanted,
                    done,
                }) => {
                    let emulation = &mut self.emulation;
                    self.sampler.begin_capture(number, wanted, emulation);
                    let _ = done.try_send(self.emulation.now());
                }
                Ok(Command::ReadState { pipes, done }) => {
                    let states = pipes
                        .into_iter()
                        .map(|pipe| self.emulation.pipe_state(pipe));
                    let _ = done.try_send((self.emulation.now(), states.collect()));
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
        self.report_changes();
    }

    /// Closes the bin and takes the steps of the schedule at `at`, to which the engine has not been
    /// advanced yet. The bin comes first: a step at its edge belongs to the next one.
    pub(super) fn halt(&mut self, at: Time, now: Time) {
        if at == self.sampler.edge() {
            self.emulation.advance_before(at);
            self.take_sample(at, now);
        }
        if self.emulation.next_step() == Some(at) {
            self.take_steps(at);
        }
    }

    /// Takes the sample of the bin that ends at an edge.
    fn take_sample(&mut self, edge: Time, now: Time) {
        if self.sampler.closes_at(edge) {
            self.complete_bin();
        }
        let arrives = self.platform.peek().map(|arrival| arrival.stamp);
        let next = self.emulation.next_at().into_iter().chain(arrives);
        let next = next.fold(now, Time::min);
        let emulations = std::iter::once(&mut self.emulation);
        self.sampler.take(emulations, (edge, Some(next)), Wait::No);
    }

    /// Adds to a bin what only this loop knows of it.
    pub(super) fn complete_bin(&mut self) {
        let (busy, pool) = (
            self.load.busy(),
            self.emulation.engine().counters().pool_exhausted,
        );
        let (busy_seen, pool_seen) = std::mem::replace(&mut self.bin_seen, (busy, pool));
        let worked = busy.saturating_sub(busy_seen);
        self.sampler.add(CoreBin {
            busy_ns: u64::try_from(worked.as_nanos()).unwrap_or(u64::MAX),
            pool: pool - pool_seen,
            ..self.meter.take_bin()
        });
    }

    /// Takes the steps of the schedule at `at`, to which the engine has not been advanced yet.
    pub(super) fn take_steps(&mut self, at: Time) {
        self.emulation.take_steps(at);
        self.find_leads();
        self.report_changes();
    }

    /// Reports changes to the run; while its channel is full they add up, and are reported together later.
    pub(super) fn report_changes(&mut self) {
        if let Some(applied) = self.emulation.take_applied()
            && let Err(TrySendError::Full(applied)) = self.applied.try_send(applied)
        {
            self.emulation.restore_applied(applied);
        }
    }
}
