//! What happens during a run: the events of the file as a stream of changes in order of time.
//!
//! A [`Schedule`] is what the plan says; a [`Timeline`] goes through it once. It reads no clock:
//! its driver asks when the next step is ([`Timeline::next_at`]) and takes it ([`Timeline::pop`]).
//!
//! **Order.** By time; at one time in the order of the file; routes follow last.
//!
//! **Repetition** takes no memory: an event keeps the number of its turn, and a turn ends before
//! the next one begins (the plan refuses what lasts longer than its period).
//!
//! **Ramps** are straight lines from the value that a pipe has when the ramp begins, in steps.
//! A pipe without such a value (an unlimited rate) takes the last one at the first step.
//!
//! **Failures count.** A pipe that has been taken down twice, by events or by hand, comes back when
//! it has been brought up twice; bringing up what is up does nothing. The first failure decides
//! whether the queue is kept. After each change routes follow once the network has converged.
//!
//! Left out: what changes do to packets (the engine knows).

mod ramp;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use longhaul_core::params::PipeParams;
use longhaul_core::topology::{PipeId, Topology};
use longhaul_core::{Span, Time};

use crate::patch::Patch;
pub(crate) use ramp::Line;
pub use ramp::Ramp;

/// The most reroutes that may be pending; beyond that the last one is postponed instead.
const REROUTES_MAX: usize = 1 << 16;

/// What happens during a run, and how fast routers react.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    /// In the order of the file.
    pub events: Vec<Event>,
    /// From a failure or repair until routes follow it.
    pub convergence: Span,
}

impl Schedule {
    /// Visits all parameters that pipes are given: by each event, in the order in which they first
    /// happen, on top of those before.
    pub(crate) fn for_each_change(
        &self,
        topology: &Topology,
        mut visit: impl FnMut(PipeId, &PipeParams),
    ) {
        let mut changed: HashMap<PipeId, PipeParams> = HashMap::new();
        let mut events: Vec<&Event> = self.events.iter().collect();
        events.sort_by_key(|event| event.at);
        for event in events {
            let Some((pipes, patch)) = event.action.patch() else {
                continue;
            };
            for &pipe in pipes {
                let params = changed.get(&pipe).unwrap_or(&topology.pipe(pipe).params);
                let params = patch.apply(params);
                visit(pipe, &params);
                changed.insert(pipe, params);
            }
        }
    }

    /// By pipe: a bound that its delay never falls below, in whatever order events repeat. Any delay
    /// with its jitter that a pipe ever has may meet any trace that it ever has. A trace's least
    /// delay falls with the pipe's own, so the least of these decides.
    pub fn least_delays(&self, topology: &Topology) -> Vec<Span> {
        let without_trace = |params: &PipeParams| PipeParams {
            trace: None,
            ..params.clone()
        };
        let pipes = topology.pipes().iter();
        let mut least: Vec<Span> = pipes.map(|pipe| pipe.params.least_delay()).collect();
        // For pipes whose delay changes: their parameters with the least delay, and without a
        // trace.
        let mut lowest: HashMap<PipeId, PipeParams> = HashMap::new();
        for (pipe, patch) in self.patches().filter(|(_, patch)| patch.delay.is_some()) {
            let before = lowest.entry(pipe);
            let before = before.or_insert_with(|| without_trace(&topology.pipe(pipe).params));
            let after = without_trace(&patch.apply(before));
            if after.least_delay() < before.least_delay() {
                *before = after;
            }
        }
        let mut lower = |pipe: PipeId, params: &PipeParams| {
            let known = &mut least[pipe.index()];
            *known = (*known).min(params.least_delay());
        };
        for (&pipe, params) in &lowest {
            let trace = topology.pipe(pipe).params.trace.clone();
            lower(
                pipe,
                &PipeParams {
                    trace,
                    ..params.clone()
                },
            );
        }
        for (pipe, patch) in self.patches().filter(|(_, patch)| patch.trace.is_some()) {
            let own = lowest.get(&pipe).unwrap_or(&topology.pipe(pipe).params);
            let trace = patch.apply(own).trace;
            lower(
                pipe,
                &PipeParams {
                    trace,
                    ..own.clone()
                },
            );
        }
        least
    }

    /// What events change of which pipe, in the order of the file.
    fn patches(&self) -> impl Iterator<Item = (PipeId, &Patch)> {
        let patches = self.events.iter().filter_map(|event| event.action.patch());
        patches.flat_map(|(pipes, patch)| pipes.iter().map(move |&pipe| (pipe, patch)))
    }
}

/// Something that happens, once or again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When it happens first.
    pub at: Time,
    /// How long after the last time it happens again; `None` is once.
    pub every: Option<Span>,
    /// How often in all; `None` is for ever.
    pub times: Option<u64>,
    /// What happens.
    pub action: Action,
    /// The same for people.
    pub text: String,
}

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Parameters change at once.
    Set {
        /// Which pipes.
        pipes: Vec<PipeId>,
        /// What changes.
        patch: Arc<Patch>,
    },
    /// Parameters change in a straight line.
    Ramp {
        /// Which pipes.
        pipes: Vec<PipeId>,
        /// The final values, and the steps towards them.
        ramp: Ramp,
    },
    /// Pipes fail.
    Down {
        /// Which pipes.
        pipes: Vec<PipeId>,
        /// For how long; `None` is for good.
        lasts: Option<Span>,
        /// Whether what waits in queues survives.
        keep_queue: bool,
    },
    /// Pipes come back.
    Up {
        /// Which pipes.
        pipes: Vec<PipeId>,
    },
}

impl Action {
    /// What becomes of the parameters of which pipes, if they change.
    fn patch(&self) -> Option<(&[PipeId], &Patch)> {
        match self {
            Self::Set { pipes, patch } => Some((pipes, patch)),
            Self::Ramp { pipes, ramp } => Some((pipes, &ramp.to)),
            Self::Down { .. } | Self::Up { .. } => None,
        }
    }
}

impl Action {
    /// The pipes that it is about.
    pub fn pipes(&self) -> &[PipeId] {
        match self {
            Self::Set { pipes, .. }
            | Self::Ramp { pipes, .. }
            | Self::Down { pipes, .. }
            | Self::Up { pipes } => pipes,
        }
    }
}

/// A change of the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Parameters of a pipe.
    Params(PipeId, Arc<Patch>),
    /// A pipe fails or comes back.
    Up {
        /// Which pipe.
        pipe: PipeId,
        /// Whether it comes back.
        up: bool,
        /// Where it fails: whether what waits in the queue survives.
        keep_queue: bool,
    },
    /// Routes follow the pipes that are up now.
    Reroute,
}

/// One step of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When.
    pub at: Time,
    /// The event that begins with it, by number.
    pub begins: Option<usize>,
    /// What changes; nothing at the beginning of a ramp.
    pub changes: Vec<Change>,
}

/// A way through a schedule.
#[derive(Debug, Clone)]
pub struct Timeline {
    schedule: Arc<Schedule>,
    /// When each event that is not over goes on, and its number.
    next: BinaryHeap<Reverse<(Time, usize)>>,
    /// By event.
    turns: Vec<Turn>,
    /// How often each pipe has been taken down.
    down: HashMap<PipeId, u32>,
    /// When routes are to follow; ascending.
    reroutes: VecDeque<Time>,
}

/// How far an event has come.
#[derive(Debug, Clone, Default)]
struct Turn {
    /// Turns that are over.
    done: u64,
    /// When the present turn began; `None` between turns.
    began: Option<Time>,
    /// What the pipes of a ramp were like when it began.
    from: Vec<PipeParams>,
}

impl Timeline {
    /// At the beginning of `schedule`.
    pub fn new(schedule: Arc<Schedule>) -> Self {
        let events = schedule.events.iter().zip(0..);
        Self {
            next: events
                .map(|(event, number)| Reverse((event.at, number)))
                .collect(),
            turns: vec![Turn::default(); schedule.events.len()],
            down: HashMap::new(),
            reroutes: VecDeque::new(),
            schedule,
        }
    }

    /// When the next step is.
    pub fn next_at(&self) -> Option<Time> {
        let event = self.next.peek().map(|Reverse((at, _))| *at);
        let reroute = self.reroutes.front().copied();
        event.into_iter().chain(reroute).min()
    }

    /// Takes the next step if it is at or before `until`. `present` says what a pipe is like now,
    /// all steps before this one included.
    pub fn pop(&mut self, until: Time, present: impl Fn(PipeId) -> PipeParams) -> Option<Step> {
        let at = self.next_at().filter(|at| *at <= until)?;
        match self.next.peek() {
            Some(&Reverse((time, number))) if time == at => {
                self.next.pop();
                Some(self.go_on(number, at, present))
            }
            _ => {
                self.reroutes.pop_front();
                let changes = vec![Change::Reroute];
                Some(Step {
                    at,
                    begins: None,
                    changes,
                })
            }
        }
    }

    /// Takes a pipe down or brings it up beside the schedule, at `now`. Whether that changes
    /// anything.
    pub fn switch(&mut self, pipe: PipeId, up: bool, now: Time) -> bool {
        let downs = self.down.entry(pipe).or_default();
        let before = *downs;
        *downs = if up {
            before.saturating_sub(1)
        } else {
            before.saturating_add(1)
        };
        let changed = (before == 0) != (*downs == 0);
        if *downs == 0 {
            self.down.remove(&pipe);
        }
        if changed {
            self.reroute_after(now);
        }
        changed
    }

    /// Whether a pipe is up.
    pub fn is_up(&self, pipe: PipeId) -> bool {
        !self.down.contains_key(&pipe)
    }

    fn reroute_after(&mut self, now: Time) {
        let at = now + self.schedule.convergence;
        let at = self.reroutes.back().map_or(at, |last| at.max(*last));
        if self.reroutes.back() == Some(&at) {
            return;
        }
        if self.reroutes.len() == REROUTES_MAX {
            self.reroutes.pop_back();
        }
        self.reroutes.push_back(at);
    }

    /// The next step of an event, which is due.
    fn go_on(&mut self, number: usize, at: Time, present: impl Fn(PipeId) -> PipeParams) -> Step {
        let schedule = Arc::clone(&self.schedule);
        let began = self.turns[number].began;
        let (mut changes, mut goes_on) = (Vec::new(), None);
        match (&schedule.events[number].action, began) {
            (Action::Set { pipes, patch }, _) => {
                let change = |pipe: &PipeId| Change::Params(*pipe, Arc::clone(patch));
                changes.extend(pipes.iter().map(change));
            }
            (Action::Ramp { pipes, ramp }, None) => {
                self.turns[number].from = pipes.iter().map(|pipe| present(*pipe)).collect();
                goes_on = Some(at + ramp.step.min(ramp.over));
            }
            (Action::Ramp { pipes, ramp }, Some(began)) => {
                let passed = at.since(began);
                for (pipe, from) in pipes.iter().zip(&self.turns[number].from) {
                    changes.push(Change::Params(*pipe, ramp.at(passed, from)));
                }
                let end = began + ramp.over;
                goes_on = (at < end).then(|| end.min(at + ramp.step));
            }
            (
                Action::Down {
                    pipes,
                    lasts,
                    keep_queue,
                },
                None,
            ) => {
                changes = self.switch_all(pipes, false, *keep_queue, at);
                goes_on = lasts.map(|lasts| at + lasts);
            }
            (Action::Down { pipes, .. }, Some(_)) | (Action::Up { pipes }, _) => {
                changes = self.switch_all(pipes, true, false, at);
            }
        }
        self.plan_next(number, at, goes_on);
        let begins = began.is_none().then_some(number);
        Step {
            at,
            begins,
            changes,
        }
    }

    /// Schedules an event again: in the same turn, or in the next one.
    fn plan_next(&mut self, number: usize, at: Time, goes_on: Option<Time>) {
        let event = &self.schedule.events[number];
        let turn = &mut self.turns[number];
        let began = turn.began.unwrap_or(at);
        // At the end of time there is no later moment, so the event is over.
        if let Some(next) = goes_on.filter(|next| *next > at) {
            turn.began = Some(began);
            self.next.push(Reverse((next, number)));
            return;
        }
        turn.began = None;
        turn.from = Vec::new();
        turn.done += 1;
        let Some(every) = event
            .every
            .filter(|_| event.times.is_none_or(|n| turn.done < n))
        else {
            return;
        };
        let next = began + every;
        if next > began {
            self.next.push(Reverse((next, number)));
        }
    }

    fn switch_all(
        &mut self,
        pipes: &[PipeId],
        up: bool,
        keep_queue: bool,
        at: Time,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for &pipe in pipes {
            if self.switch(pipe, up, at) {
                changes.push(Change::Up {
                    pipe,
                    up,
                    keep_queue,
                });
            }
        }
        changes
    }
}
