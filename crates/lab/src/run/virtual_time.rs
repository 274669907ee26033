//! One execution of a plan on the virtual clock: build, drive, write down.
//!
//! No namespaces, no programs, no waiting: one thread computes as fast as it can, so a virtual run
//! works wherever the binary does. It is faithful by construction; only packets that found no
//! memory could break that, and they are counted and judged as in any run.
//!
//! The loop ([`VirtualRun`]) reads no clock. This module does, for the progress and the speed that
//! it reports: nothing of what is simulated depends on it. It asks the [`Machine`] for that, and
//! for all else that it wants of an operating system.

mod machine;
pub mod memory;
#[cfg(test)]
mod tests;

use std::time::Duration;

use longhaul_core::engine::EngineConfig;
use longhaul_core::topology::PipeId;
use longhaul_core::{Span, Time};
use longhaul_emulation::{Emulation, Outcome, Stop, VirtualConfig, VirtualRun};

use crate::fidelity::{Judge, Second, second_of};
use crate::folder::RunFolder;
use crate::run::ledger::{CoreEnd, End, Ledger, Network, PIPES_MAX};
use crate::run::{Begun, Observer, Progress, RunError, io_error};
use crate::summary::Summary;
use longhaul_plan::plan::Plan;
pub(super) use machine::Machine;

/// Rounds of the loop between two looks at the clock.
const ROUNDS: u32 = 256;
/// How often the observer hears of the run.
const PROGRESS: Duration = Duration::from_millis(200);

/// Runs a plan whose clock is virtual; the summary lacks the figures that only the caller knows.
pub(crate) fn run(
    plan: &Plan,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    machine: &mut dyn Machine,
    begun: Begun,
) -> Result<Summary, RunError> {
    machine.begin().map_err(io_error("blocking signals"))?;
    let mut simulation = Simulation::new(plan, folder, machine)?;
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
    run: VirtualRun,
    ledger: Ledger<'a>,
    judge: Judge,
    machine: &'a mut dyn Machine,
    /// The second that is being simulated.
    second: u64,
    received: u64,
    pool_seen: u64,
    stop: Option<Stop>,
    /// CPU time of the drive loop.
    cpu: Duration,
    meter: Meter,
}

impl<'a> Simulation<'a> {
    fn new(
        plan: &'a Plan,
        folder: &'a RunFolder,
        machine: &'a mut dyn Machine,
    ) -> Result<Self, RunError> {
        let config = EngineConfig {
            trace_hash: true,
            ..Emulation::engine_config(plan)
        };
        let emulation = Emulation::new(plan, config).map_err(RunError::Traffic)?;
        let run = VirtualRun::new(emulation, VirtualConfig::of(plan));
        Ok(Self {
            plan,
            run,
            ledger: Ledger::new(plan, folder, plan.warnings.clone())?,
            judge: Judge::new(plan.tolerance, Vec::new(), Vec::new()),
            second: 0,
            received: 0,
            pool_seen: 0,
            stop: None,
            cpu: Duration::ZERO,
            meter: Meter {
                told: machine.now(),
                time: Time::ZERO,
                hops: 0,
            },
            machine,
        })
    }

    /// Drives to the end.
    fn go(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        while self.stop.is_none() && !self.ledger.has_failed() {
            let horizon = Time::from_ns((self.second + 1).saturating_mul(1_000_000_000));
            let before = self.machine.cpu_time();
            let outcome = self.run.run(horizon, ROUNDS);
            self.cpu += self.machine.cpu_time().saturating_sub(before);
            self.note_events();
            match outcome {
                Outcome::More => {}
                Outcome::Reached => self.close_second()?,
                Outcome::Over(stop) => self.stop = Some(stop),
            }
            self.tell(observer);
        }
        if self.stop == Some(Stop::Stuck) {
            let problem = format!(
                "time does not pass any more at {} s: hosts answer each other on a path without any \
                 delay and rate; give one of its links a `delay`",
                self.run.emulation().now().as_s()
            );
            self.ledger.fail(problem);
        }
        self.close_second()
    }

    /// Takes note of what the file had scheduled.
    fn note_events(&mut self) {
        if let Some(applied) = self.run.emulation().take_applied() {
            self.ledger.note(&applied);
        }
    }

    /// Looks at the clock and for signals now and then.
    fn tell(&mut self, observer: &mut dyn Observer) {
        let now = self.machine.now();
        if now.saturating_sub(self.meter.told) < PROGRESS {
            return;
        }
        if let Some(signal) = self.machine.interrupted() {
            observer.progress(&Progress::Note("interrupted: winding up".to_owned()));
            self.ledger.fail(format!("interrupted by signal {signal}"));
        }
        let emulation = self.run.emulation();
        let (time, hops) = (emulation.now(), emulation.engine().counters().hops);
        let flows_done = emulation
            .traffic()
            .map_or(0, |traffic| traffic.progress().0 as u64);
        let (speed, hops_per_s) = self.meter.look(now, time, hops);
        observer.progress(&Progress::Simulating {
            time,
            duration: self.plan.duration,
            speed,
            hops_per_s,
            flows_done,
            flows: self.plan.traffic.flows,
        });
    }

    /// Writes down the second that is over.
    fn close_second(&mut self) -> Result<(), RunError> {
        let emulation = self.run.emulation();
        let (received, next) = (emulation.received(), emulation.next_at());
        let engine = emulation.engine();
        let counters = *engine.counters();
        // What happens at the end of a second belongs to the next one.
        let number = second_of(engine.now() - Span::from_ns(1));
        let mut second = Second {
            number,
            ..Second::default()
        };
        second.shares.packets = received - self.received;
        second.run.packets = received;
        second.drops.pool = counters.pool_exhausted - self.pool_seen;
        (self.received, self.pool_seen) = (received, counters.pool_exhausted);
        self.judge.second(&second);
        let pipes = match engine.topology().pipes().len() {
            pipes if pipes <= PIPES_MAX => pipes,
            _ => 0,
        };
        let pipes = (0..pipes as u32).map(|pipe| engine.pipe_counters(PipeId(pipe)));
        let network = Network {
            counters,
            pipes: pipes.collect(),
            inside: engine.inside(),
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
        let emulation = self.run.emulation();
        let engine = emulation.engine();
        let pipes = (0..engine.topology().pipes().len() as u32).map(PipeId);
        let end = emulation.now();
        let time = Duration::from_nanos(end.as_ns());
        self.ledger.close(End {
            time: end,
            machine: self.machine.facts(),
            verdict: self.judge.virtual_verdict(),
            params: &|pipe| Some(emulation.params(pipe)),
            cores: vec![CoreEnd {
                cpu: self.cpu,
                had: time,
                pipes: pipes.len(),
                network: Network {
                    counters: *engine.counters(),
                    pipes: pipes.map(|pipe| engine.pipe_counters(pipe)).collect(),
                    inside: engine.inside(),
                    multicast_data: 0,
                },
                ..CoreEnd::default()
            }],
            traffic: emulation.traffic(),
            programs: Vec::new(),
            trace_hash: Some(engine.trace_hash()),
        })
    }
}

/// What is worth knowing about the end of a run.
fn warning(stop: Stop) -> Option<&'static str> {
    match stop {
        Stop::Idle => Some("nothing was left to happen before all traffic had ended"),
        Stop::Done | Stop::Duration | Stop::Stuck => None,
    }
}

/// How fast it goes, over the time since the last look.
#[derive(Debug)]
struct Meter {
    told: Duration,
    time: Time,
    hops: u64,
}

impl Meter {
    /// Experiment time over real time, and packet-hops per second.
    fn look(&mut self, now: Duration, time: Time, hops: u64) -> (f64, f64) {
        let passed = now.saturating_sub(self.told).as_secs_f64().max(1e-9);
        let speed = time.since(self.time).as_s() / passed;
        let rate = (hops - self.hops) as f64 / passed;
        *self = Self {
            told: now,
            time,
            hops,
        };
        (speed, rate)
    }
}
