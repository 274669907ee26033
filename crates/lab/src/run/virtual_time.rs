//! One execution of a plan on the virtual clock: build, drive, write down.
//!
//! No namespaces, no programs, no waiting: one thread computes as fast as it can, so a virtual run
//! works wherever the binary does. It is faithful by construction; only packets that found no
//! memory could break that, and they are counted and judged as in any run.
//!
//! The loop ([`VirtualRun`]) reads no clock. This module does, for the progress and the speed
//! that it reports: nothing of what is simulated depends on it.

pub mod memory;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use longhaul_core::engine::EngineConfig;
use longhaul_core::topology::PipeId;
use longhaul_core::{Span, Time};
use longhaul_emulation::{Emulation, Outcome, Stop, VirtualRun};
use longhaul_linux::clock::MachineTime;
use longhaul_linux::cpu;
use longhaul_linux::memory::prefer_large_pages;
use longhaul_linux::wait::{take_signal, termination_signals};

use crate::fidelity::{Judge, Second, second_of};
use crate::flows::{self, Flows};
use crate::folder::RunFolder;
use crate::run::{Begun, Observer, Progress, RunError, io_error};
use crate::series::Report;
use crate::series::Series;
use crate::summary::{
    self, CoreFacts, CoreSummary, EVENTS_MAX, EventSummary, Packets, PipeSummary, Summary, seconds,
};
use longhaul_plan::plan::Plan;

/// Rounds of the loop between two looks at the clock.
const ROUNDS: u32 = 256;
/// How often the observer hears of the run.
const PROGRESS: Duration = Duration::from_millis(200);
/// Pipes are written down second by second where there are at most so many.
const PIPES_MAX: usize = 100_000;
/// So many pipes are in `summary.json`; of more, the busiest.
const PIPES_SHOWN: usize = 400_000;
/// The pipes in `summary.json` of an experiment with more.
const BUSIEST: usize = 10_000;

/// Runs a plan whose clock is virtual; the summary lacks the figures that only the caller knows.
pub(crate) fn run(
    plan: &Plan,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    begun: Begun,
) -> Result<Summary, RunError> {
    // Nobody waits for a packet.
    prefer_large_pages();
    let signals = termination_signals().map_err(io_error("blocking signals"))?;
    let mut simulation = Simulation::new(plan, folder, signals)?;
    let setup = begun.passed();
    observer.progress(&Progress::Started);
    simulation.go(observer)?;
    let mut summary = simulation.finish(folder)?;
    summary.setup_s = setup.as_secs_f64();
    Ok(summary)
}

/// A virtual run under way.
struct Simulation<'a> {
    plan: &'a Plan,
    run: VirtualRun,
    /// The first events that have begun, and how many in all.
    events: Vec<EventSummary>,
    events_seen: u64,
    series: Series,
    judge: Judge,
    signals: OwnedFd,
    /// The second that is being simulated.
    second: u64,
    received: u64,
    pool_seen: u64,
    error: Option<String>,
    stop: Option<Stop>,
    /// CPU time of the drive loop.
    cpu: Duration,
    meter: Meter,
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a Plan, folder: &RunFolder, signals: OwnedFd) -> Result<Self, RunError> {
        let config = EngineConfig {
            seed: plan.seed,
            slot_size: plan.slot_bytes(),
            slots: u32::try_from(plan.packet_slots()).unwrap_or(u32::MAX - 1),
            trace_hash: true,
            ..EngineConfig::default()
        };
        let emulation = Emulation::new(plan, config).map_err(RunError::Traffic)?;
        let end = (plan.duration, plan.traffic.bounded);
        let run = VirtualRun::new(emulation, end, true);
        let names = plan.topology.pipes().iter().map(|pipe| pipe.name.clone());
        let names = match plan.topology.pipes().len() {
            ..=PIPES_MAX => names.collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            plan,
            run,
            events: Vec::new(),
            events_seen: 0,
            series: Series::create(folder, names).map_err(io_error("time series"))?,
            judge: Judge::new(plan.tolerance, Vec::new(), Vec::new()),
            signals,
            second: 0,
            received: 0,
            pool_seen: 0,
            error: None,
            stop: None,
            cpu: Duration::ZERO,
            meter: Meter {
                told: MachineTime::now(),
                time: Time::ZERO,
                hops: 0,
            },
        })
    }

    /// Drives to the end.
    fn go(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        while self.stop.is_none() && self.error.is_none() {
            let horizon = Time::from_ns((self.second + 1).saturating_mul(1_000_000_000));
            let before = cpu::own_cpu_ns();
            let outcome = self.run.run(horizon, ROUNDS);
            self.cpu += Duration::from_nanos(cpu::own_cpu_ns() - before);
            self.note_events();
            match outcome {
                Outcome::More => {}
                Outcome::Reached => self.close_second()?,
                Outcome::Over(stop) => self.stop = Some(stop),
            }
            self.tell(observer);
        }
        if self.stop == Some(Stop::Stuck) {
            self.error = Some(format!(
                "time does not pass any more at {} s: hosts answer each other on a path without any \
                 delay and rate; give one of its links a `delay`",
                self.run.emulation().now().as_s()
            ));
        }
        self.close_second()
    }

    /// Takes note of what the file had scheduled.
    fn note_events(&mut self) {
        while let Some(applied) = self.run.emulation().poll_applied() {
            let Some(number) = applied.event else {
                continue;
            };
            if self.events.len() < EVENTS_MAX {
                self.events.push(EventSummary {
                    at_s: applied.at.as_s(),
                    event: self.plan.schedule.events[number].text.clone(),
                });
            }
            self.events_seen += 1;
        }
    }

    /// Looks at the clock and for signals now and then.
    fn tell(&mut self, observer: &mut dyn Observer) {
        let now = MachineTime::now();
        if now.since(self.meter.told) < PROGRESS {
            return;
        }
        if let Some(signal) = take_signal(self.signals.as_fd()) {
            observer.progress(&Progress::Note("interrupted: winding up".to_owned()));
            self.error = Some(format!("interrupted by signal {signal}"));
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
        let report = Report {
            second,
            counters,
            pipes: pipes.collect(),
            inside: engine.inside(),
            multicast_data: 0,
        };
        self.series
            .add(&report)
            .map_err(io_error("writing time series"))?;
        // Seconds in which nothing happens are passed over.
        let next = next.map_or(number + 1, second_of);
        self.second = next.max(number + 1);
        Ok(())
    }

    /// Writes down what has come of it.
    fn finish(mut self, folder: &RunFolder) -> Result<Summary, RunError> {
        let plan = self.plan;
        let emulation = self.run.emulation();
        let end = emulation.now();
        let flows = match emulation.traffic() {
            None => Ok(Flows::default()),
            Some(traffic) => flows::write_down(plan, traffic, folder, end),
        };
        let flows = flows.unwrap_or_else(|error| {
            self.error.get_or_insert(format!("writing flows: {error}"));
            Flows::default()
        });
        if let Err(error) = self.series.finish() {
            self.error
                .get_or_insert(format!("writing time series: {error}"));
        }
        let engine = self.run.emulation().engine();
        let counters = engine.counters();
        let all = plan.topology.pipes().len();
        let pipes = plan.topology.pipes().iter().zip((0..).map(PipeId));
        let mut pipes: Vec<PipeSummary> = pipes
            .map(|(pipe, id)| {
                PipeSummary::new(pipe, engine.params(id), &engine.pipe_counters(id), end)
            })
            .collect();
        if all > PIPES_SHOWN {
            pipes.sort_by_key(|pipe| std::cmp::Reverse(pipe.counts.bytes));
            pipes.truncate(BUSIEST);
        }
        let mut warnings = plan.warnings.clone();
        warnings.extend(self.stop.and_then(warning).map(str::to_owned));
        let core = CoreFacts {
            scheduling: "ordinary",
            ..CoreFacts::default()
        };
        Ok(Summary {
            experiment: plan.name.clone(),
            clock: plan.clock.name().to_owned(),
            seed: plan.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: folder.path().display().to_string(),
            machine: summary::machine(core, Vec::new(), allowed_cpus()),
            verdict: self.judge.virtual_verdict(),
            packets: Packets::new(counters, engine.inside(), 0),
            trace_hash: Some(format!("{:016x}", engine.trace_hash())),
            simulated_s: seconds(end),
            wall_s: 0.0,
            cpu_s: 0.0,
            setup_s: 0.0,
            teardown_s: 0.0,
            hops_per_s: counters.hops as f64 / self.cpu.as_secs_f64().max(1e-9),
            error: self.error,
            warnings,
            programs: Vec::new(),
            flows: flows.list,
            flows_seen: flows.seen,
            flow_groups: flows.groups,
            events: self.events,
            events_seen: self.events_seen,
            pipes,
            pipes_seen: all,
            cores: vec![CoreSummary {
                pipes: all,
                packets: counters.entered + counters.created,
                cross_core: 0,
                busy: self.cpu.as_secs_f64() / end.as_s().max(1e-9),
            }],
            efficiency: None,
            attempts: Vec::new(),
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

fn allowed_cpus() -> usize {
    cpu::allowed().map_or(1, |cpus| cpus.len())
}

/// How fast it goes, over the time since the last look.
#[derive(Debug)]
struct Meter {
    told: MachineTime,
    time: Time,
    hops: u64,
}

impl Meter {
    /// Experiment time over real time, and packet-hops per second.
    fn look(&mut self, now: MachineTime, time: Time, hops: u64) -> (f64, f64) {
        let passed = now.since(self.told).as_secs_f64().max(1e-9);
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
