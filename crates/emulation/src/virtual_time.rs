//! The virtual clock: time jumps to whatever comes next, on one core or on several.
//!
//! Each core has a [lane]: an emulation of its share of the network. With one lane, what is decided
//! ([`control`]) is done at once; with several, threads go on in rounds ([`threads`]). All results
//! are the same for every number of cores and every split, but for a run that needs more packets at
//! once than there is room for: it ends with [`Stop::Full`], and when depends on the split.
//!
//! Left out: the clock that people wait by, and everything that is written down.

mod control;
mod lane;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::engine::{Engine, EngineConfig};
use longhaul_core::observe::{Counters, PipeCounters};
use longhaul_core::parallel::{CoreId, Split};
use longhaul_core::params::PipeParams;
use longhaul_core::topology::PipeId;
use longhaul_core::{Span, Time};
use longhaul_plan::plan::Plan;
use longhaul_proto::modelled;

use crate::emulation::Modelled;
use crate::{Applied, Emulation};
use control::{Control, Next, Progress};
use lane::Lane;

pub use control::{GRID, Stop};

/// Rounds between two checks whether the caller wants to pause. A check reads the machine's clock,
/// which costs some 30 ns; a round can take a large part of a second where look-ahead and load are
/// large, and an interrupted run must not go on for many of these.
const ROUNDS_PER_CHECK: u64 = 16;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There is more to do before the horizon.
    More,
    /// Everything before the horizon is done.
    Reached,
    /// The run is over.
    Over(Stop),
}

/// What a run needs from its caller while it is under way.
pub struct Watch<'a> {
    /// Whether the caller wants the run to pause; polled by its own thread, every few rounds.
    pub pauses: &'a mut dyn FnMut() -> bool,
    /// What several cores measure their work by.
    pub clocks: Clocks<'a>,
}

/// Clocks of the machine; nothing that is simulated depends on them.
#[derive(Clone, Copy)]
pub struct Clocks<'a> {
    /// How long after some fixed moment it is.
    pub now: &'a (dyn Fn() -> Duration + Sync),
    /// CPU time that the calling thread has used.
    pub cpu_time: &'a (dyn Fn() -> Duration + Sync),
}

/// How a virtual run goes, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualConfig {
    /// The run's bound, if it has one.
    pub duration: Option<Span>,
    /// How many flows end by themselves; where there are any, the run ends with them.
    pub bounded: u64,
    /// Whether the engine may go on alone for a window. Without, everything goes event by event,
    /// and the results are the same.
    pub windows: bool,
    /// Whether all events are hashed.
    pub trace_hash: bool,
}

impl VirtualConfig {
    /// That of a plan, with windows and the trace hash.
    pub fn of(plan: &Plan) -> Self {
        Self {
            duration: plan.duration,
            bounded: plan.traffic.bounded,
            windows: true,
            trace_hash: true,
        }
    }
}

/// A plan on the virtual clock.
pub struct VirtualRun {
    lanes: Vec<Lane>,
    split: Arc<Split>,
    control: Control,
}

impl VirtualRun {
    /// A run at t = 0, of a network that is split as `split` says.
    ///
    /// # Errors
    /// The modelled hosts could not be made.
    pub fn new(
        plan: &Plan,
        split: Arc<Split>,
        config: VirtualConfig,
    ) -> Result<Self, modelled::Error> {
        let modelled = Modelled::new(plan)?;
        let lane = |core| {
            let engine = EngineConfig {
                trace_hash: config.trace_hash,
                ..Emulation::engine_config_of(plan, &split, core)
            };
            let emulation = modelled.emulation(plan, &split, core, engine);
            Lane::new(core, emulation, config.windows)
        };
        let lanes = (0..split.cores() as u16).map(CoreId).map(lane);
        let end = config.duration.map(|duration| Time::ZERO + duration);
        Ok(Self {
            lanes: lanes.collect(),
            control: Control::new(end, config.bounded > 0),
            split,
        })
    }

    /// Goes on until everything before `horizon` is done, or the caller wants to pause.
    pub fn run(&mut self, horizon: Time, watch: Watch<'_>) -> Outcome {
        match self.lanes.as_mut_slice() {
            [lane] => run_alone(lane, &mut self.control, horizon, watch.pauses),
            lanes => threads::run(lanes, &self.split, &mut self.control, horizon, watch),
        }
    }

    /// Of several cores: CPU time of each, the time left out in which it waited for others.
    pub fn worked(&self) -> impl Iterator<Item = Duration> {
        self.lanes.iter().map(|lane| lane.worked)
    }

    /// How the network is split.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The cores' emulations.
    pub fn emulations(&self) -> impl ExactSizeIterator<Item = &Emulation> {
        self.lanes.iter().map(|lane| &lane.emulation)
    }

    /// The same, to be measured.
    pub fn emulations_mut(&mut self) -> impl Iterator<Item = &mut Emulation> {
        self.lanes.iter_mut().map(|lane| &mut lane.emulation)
    }

    /// The emulation of a core.
    fn of(&self, core: CoreId) -> &Emulation {
        &self.lanes[core.index()].emulation
    }

    /// The time up to which all events are handled.
    pub fn now(&self) -> Time {
        let all = self.emulations().map(Emulation::now);
        all.min().unwrap_or(Time::ZERO)
    }

    /// When something happens next, if ever.
    pub fn next_at(&self) -> Option<Time> {
        let own = self.emulations().filter_map(Emulation::next_at);
        let cores = || (0..self.lanes.len() as u16).map(CoreId);
        let exits = self.emulations().flat_map(|emulation| {
            let engine = &emulation.engine;
            cores().filter_map(|to| engine.next_exit(to))
        });
        own.chain(exits).min()
    }

    /// What became of all packets; none counts as imported or exported.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for emulation in self.emulations() {
            sum.merge(emulation.engine.counters());
        }
        (sum.imported, sum.exported) = (0, 0);
        sum
    }

    /// Packets in pipes.
    pub fn inside(&self) -> u64 {
        self.emulations().map(|own| own.engine.inside()).sum()
    }

    /// What became of a pipe's packets.
    pub fn pipe_counters(&self, pipe: PipeId) -> PipeCounters {
        let owner = self.of(self.split.owner_of(pipe));
        owner.engine.pipe_counters(pipe)
    }

    /// What a pipe is like now.
    pub fn params(&self, pipe: PipeId) -> &PipeParams {
        self.of(self.split.owner_of(pipe)).params(pipe)
    }

    /// What modelled flows have done so far, in the order of the plan.
    pub fn flows(&self) -> impl Iterator<Item = modelled::FlowResult<'_>> {
        modelled::results(self.emulations().filter_map(Emulation::traffic))
    }

    /// How many packets modelled hosts have received.
    pub fn received(&self) -> u64 {
        self.emulations().map(Emulation::received).sum()
    }

    /// The hash of all events so far.
    pub fn trace_hash(&self) -> u64 {
        Engine::joint_trace_hash(self.emulations().map(Emulation::engine))
    }

    /// The changes applied since the last call, if there were any.
    pub fn take_applied(&mut self) -> Option<Applied> {
        // All cores have the same schedule, and states of single pipes are not needed here.
        let all = self.lanes.iter_mut();
        let taken = all.map(|lane| lane.emulation.take_applied());
        taken.collect::<Vec<_>>().into_iter().next().flatten()
    }
}

/// [`VirtualRun::run`] with one lane.
fn run_alone(
    lane: &mut Lane,
    control: &mut Control,
    horizon: Time,
    pauses: &mut dyn FnMut() -> bool,
) -> Outcome {
    for round in 0_u64.. {
        if round > 0 && round.is_multiple_of(ROUNDS_PER_CHECK) && pauses() {
            return Outcome::More;
        }
        let next = lane.next();
        let progress = Progress {
            next,
            step: lane.emulation.next_step(),
            is_done: lane.emulation.traffic_is_done(),
            is_stuck: lane.is_stuck(),
            is_full: lane.is_full(),
        };
        match (control.decide(&progress, horizon), next) {
            (Next::Advance(bound), Some(next)) => lane.round(next, bound),
            (Next::Advance(bound), None) => lane.advance_before(bound),
            (Next::Steps(at), _) => lane.take_steps(at),
            (Next::Reached(limit), _) => {
                lane.emulation.advance_before(limit);
                return Outcome::Reached;
            }
            (Next::Over(stop, end), _) => {
                if let Some(end) = end {
                    lane.emulation.advance_before(end);
                }
                return Outcome::Over(stop);
            }
        }
    }
    Outcome::More
}
