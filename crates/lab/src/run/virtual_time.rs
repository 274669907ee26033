//! One execution of a plan on the virtual clock: build, drive, write down.
//!
//! No namespaces, no programs, no waiting: one thread or several compute as fast as they can, so a virtual run
//! works wherever the binary does. It is faithful by construction; a run in which a packet finds no
//! memory ends with an error.
//!
//! The loop ([`VirtualRun`]) reads no clock. This module does, for the progress and the speed that it
//! reports; the simulation does not depend on it. The clock, and everything else of an operating
//! system, comes from the [`Machine`].

mod machine;
pub mod memory;
mod split;
#[cfg(test)]
mod tests;
mod top;

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::parallel::Split;
use longhaul_core::topology::PipeId;
use longhaul_core::{Span, Time};
use longhaul_emulation::{Clocks, Emulation, Outcome, Stop, VirtualConfig, VirtualRun, Watch};

use crate::fidelity::{Judge, Second, second_of};
use crate::folder::RunFolder;
use crate::measure::{Recorder, Sampler, Wait};
use crate::run::ledger::{CoreEnd, End, Expected, Ledger, Network, PIPES_MAX};
use crate::run::{Cores, Observer, Progress, RunError, RunStart, io_error};
use crate::summary::Summary;
use longhaul_plan::plan::Plan;
pub(super) use machine::{Clock, Machine};

/// How often progress is reported to the observer.
const PROGRESS: Duration = Duration::from_millis(200);

/// Runs a plan whose clock is virtual; the summary lacks the figures that only the caller knows.
pub(crate) fn run(
    plan: &Plan,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    machine: &mut dyn Machine,
    (cores, begun): (&Cores, RunStart),
) -> Result<Summary, RunError> {
    machine.begin().map_err(io_error("blocking signals"))?;
    let (split, expected, mut notes) = split::of(plan, cores, machine);
    if let Err(error) = machine.listen(&folder.control_socket()) {
        notes.push(format!("`longhaul top` cannot see this run: {error}"));
    }
    for note in &notes {
        observer.progress(&Progress::Note(note.clone()));
    }
    let mut simulation = Simulation::new(plan, folder, machine, (split, expected))?;
    notes
        .into_iter()
        .for_each(|note| simulation.ledger.warn(note));
    let setup = begun.passed();
    observer.progress(&Progress::Started);
    simulation.go(observer)?;
    let mut summary = simulation.finish();
    summary.setup_s = setup.as_secs_f64();
    Ok(summary)
}

/// A virtual run under way.
struct Simulation<'a> {
    plan: &'a Plan,
    folder: &'a RunFolder,
    run: VirtualRun,
    /// For several cores, what is predicted for the partition.
    expected: Option<Expected>,
    ledger: Ledger<'a>,
    judge: Judge,
    machine: &'a mut dyn Machine,
    /// The second that is being simulated.
    second: u64,
    received: u64,
    pool_seen: u64,
    stop: Option<Stop>,
    /// CPU time of the drive loop; of several cores, that of the first.
    cpu: Duration,
    /// How long the drive loop has taken.
    loop_time: Duration,
    meter: Meter,
    recorder: Recorder,
    /// None once the run is over.
    sampler: Option<Sampler>,
}

impl<'a> Simulation<'a> {
    fn new(
        plan: &'a Plan,
        folder: &'a RunFolder,
        machine: &'a mut dyn Machine,
        (split, expected): (Split, Option<Expected>),
    ) -> Result<Self, RunError> {
        let run = VirtualRun::new(plan, Arc::new(split), VirtualConfig::of(plan));
        let mut run = run.map_err(RunError::Traffic)?;
        let (recorder, mut sampler) =
            Recorder::start(plan, folder).map_err(io_error("starting to measure"))?;
        run.emulations_mut()
            .for_each(|emulation| sampler.install(emulation));
        Ok(Self {
            plan,
            folder,
            run,
            expected,
            ledger: Ledger::new(plan, folder, plan.warnings.clone())?,
            judge: Judge::new(plan.tolerance, Vec::new(), Vec::new()),
            second: 0,
            received: 0,
            pool_seen: 0,
            stop: None,
            cpu: Duration::ZERO,
            loop_time: Duration::ZERO,
            meter: Meter {
                reported: machine.clock()(),
                time: Time::ZERO,
                hops: 0,
            },
            machine,
            recorder,
            sampler: Some(sampler),
        })
    }

    /// Drives to the end.
    fn go(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        while self.stop.is_none() && !self.ledger.has_failed() {
            let second_end = Time::from_ns((self.second + 1).saturating_mul(1_000_000_000));
            let edge = self.sampler.as_ref().map_or(Time::MAX, Sampler::edge);
            let horizon = second_end.min(edge);
            let (now, reported) = (self.machine.clock(), self.meter.reported);
            let cpu_time = self.machine.cpu_clock();
            let before = cpu_time();
            let watch = Watch {
                pauses: &mut || now().saturating_sub(reported) >= PROGRESS,
                clocks: Clocks {
                    now: &*now,
                    cpu_time: &*cpu_time,
                },
            };
            let begun = now();
            let outcome = self.run.run(horizon, watch);
            self.loop_time += now().saturating_sub(begun);
            self.cpu += cpu_time().saturating_sub(before);
            self.note_events();
            match outcome {
                Outcome::More => {}
                Outcome::Reached => {
                    if horizon == edge {
                        self.take_sample(edge);
                    }
                    if horizon == second_end {
                        self.close_second()?;
                    }
                }
                Outcome::Over(stop) => self.stop = Some(stop),
            }
            self.report_progress(observer);
        }
        if let Some(problem) = self.stop.and_then(problem) {
            let at = self.run.now().as_s();
            self.ledger
                .fail(format!("at {at} s of experiment time, {problem}"));
        }
        self.close_second()
    }

    /// Takes what is measured up to an edge.
    fn take_sample(&mut self, edge: Time) {
        let next = self.run.next_at();
        if let Some(sampler) = &mut self.sampler {
            sampler.take(self.run.emulations_mut(), (edge, next), Wait::Yes);
        }
    }

    /// Takes note of what the file had scheduled.
    fn note_events(&mut self) {
        if let Some(applied) = self.run.take_applied() {
            self.ledger.note(&applied);
        }
    }

    /// Checks the clock and signals now and then.
    fn report_progress(&mut self, observer: &mut dyn Observer) {
        let now = self.machine.clock()();
        if now.saturating_sub(self.meter.reported) < PROGRESS {
            return;
        }
        if let Some(signal) = self.machine.interrupted() {
            observer.progress(&Progress::Note("interrupted: stopping".to_owned()));
            self.ledger.fail(format!("interrupted by signal {signal}"));
        }
        let (time, hops) = (self.run.now(), self.run.counters().hops);
        let flows_done = self.flows_done();
        let (speed, hops_per_s) = self.meter.take_speed(now, time, hops);
        self.serve((speed, hops_per_s));
        observer.progress(&Progress::Simulating {
            time,
            duration: self.plan.duration,
            speed,
            hops_per_s,
            flows_done,
            flows: self.plan.traffic.flows,
        });
    }

    /// Modelled flows that have ended.
    fn flows_done(&self) -> u64 {
        let traffic = self.run.emulations().filter_map(Emulation::traffic);
        traffic.map(|traffic| traffic.progress().0 as u64).sum()
    }

    /// By core: CPU time of its loop. A virtual run waits for nothing else, so with one core it is CPU
    /// time that its speed is counted by.
    fn cpu_times(&self) -> Vec<Duration> {
        match self.run.emulations().len() {
            1 => vec![self.cpu],
            _ => self.run.worked().collect(),
        }
    }

    /// Writes down the second that is over.
    fn close_second(&mut self) -> Result<(), RunError> {
        let run = &self.run;
        let (received, next) = (run.received(), run.next_at());
        let counters = run.counters();
        // What happens at the end of a second belongs to the next one.
        let number = second_of(run.now() - Span::from_ns(1));
        let mut second = Second {
            number,
            ..Second::default()
        };
        second.shares.packets = received - self.received;
        second.run.packets = received;
        second.drops.pool = counters.pool_exhausted - self.pool_seen;
        (self.received, self.pool_seen) = (received, counters.pool_exhausted);
        self.judge.second(&second);
        let pipes = match self.plan.topology.pipes().len() {
            pipes if pipes <= PIPES_MAX => pipes,
            _ => 0,
        };
        let pipes = (0..pipes as u32).map(|pipe| run.pipe_counters(PipeId(pipe)));
        let network = Network {
            counters,
            pipes: pipes.collect(),
            inside: run.inside(),
            multicast_data: 0,
        };
        self.ledger.second(&second, &network)?;
        // Seconds in which nothing happens are passed over.
        let next = next.map_or(number + 1, second_of);
        self.second = next.max(number + 1);
        Ok(())
    }

    /// Writes down what has come of it.
    fn finish(mut self) -> Summary {
        if let Some(warning) = self.stop.and_then(warning) {
            self.ledger.warn(warning);
        }
        let end = self.run.now();
        if let Some(sampler) = self.sampler.take() {
            sampler.finish(self.run.emulations_mut(), end);
        }
        let measured = self.recorder.finish();
        let time = Duration::from_nanos(end.as_ns());
        let cores = self.run.emulations();
        let all_pipes = self.plan.topology.pipes().len() as u32;
        let worked = self.cpu_times();
        let loop_time = match cores.len() {
            1 => self.cpu,
            _ => self.loop_time,
        };
        let core = |(emulation, cpu): (&Emulation, Duration)| {
            let engine = emulation.engine();
            let pipes = (0..all_pipes).map(PipeId);
            CoreEnd {
                cpu,
                had: time,
                pipes: pipes.clone().filter(|&pipe| engine.owns_pipe(pipe)).count(),
                network: Network {
                    counters: *engine.counters(),
                    pipes: pipes.map(|pipe| engine.pipe_counters(pipe)).collect(),
                    inside: engine.inside(),
                    multicast_data: 0,
                },
            }
        };
        self.ledger.close(End {
            time: end,
            machine: self.machine.facts(),
            verdict: self.judge.virtual_verdict(),
            params: &|pipe| Some(self.run.params(pipe)),
            loop_time,
            cores: cores.zip(worked).map(core).collect(),
            expected: self.expected.as_ref(),
            traffic: self
                .run
                .emulations()
                .filter_map(Emulation::traffic)
                .collect(),
            programs: Vec::new(),
            trace_hash: Some(self.run.trace_hash()),
            measured,
            resources: None,
        })
    }
}

/// What is worth knowing about the end of a run.
fn warning(stop: Stop) -> Option<&'static str> {
    match stop {
        Stop::Idle => Some(
            "the run ended because no packet or timer was left, although some traffic had not finished",
        ),
        Stop::Done | Stop::Duration => None,
        Stop::Stuck | Stop::NoLookAhead | Stop::Full => None,
    }
}

/// Why a run could not go on.
fn problem(stop: Stop) -> Option<&'static str> {
    match stop {
        Stop::Stuck => Some(
            "experiment time no longer advances: hosts answer each other over a path without delay \
             or rate; give one of its links a `delay`",
        ),
        Stop::NoLookAhead => Some(
            "a link between two cores has lost its delay: run with `--threads 1`, or with a partition \
             that does not cut it",
        ),
        Stop::Full => Some(
            "no memory was left for a packet: give the links shorter queues or delays, so that fewer \
             packets are in flight",
        ),
        Stop::Done | Stop::Duration | Stop::Idle => None,
    }
}

/// How fast it goes, since the last progress report.
#[derive(Debug)]
struct Meter {
    reported: Duration,
    time: Time,
    hops: u64,
}

impl Meter {
    /// Experiment time over real time, and packet-hops per second.
    fn take_speed(&mut self, now: Duration, time: Time, hops: u64) -> (f64, f64) {
        let passed = now.saturating_sub(self.reported).as_secs_f64().max(1e-9);
        let speed = time.since(self.time).as_s() / passed;
        let rate = (hops - self.hops) as f64 / passed;
        *self = Self {
            reported: now,
            time,
            hops,
        };
        (speed, rate)
    }
}
