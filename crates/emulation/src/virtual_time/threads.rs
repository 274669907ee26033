//! Several cores, each on a thread of its own, that go on together in rounds.
//!
//! A round has two parts with a gate before each. First every core publishes when it acts next, and
//! when what it sends to each other core comes out there; behind the gate all of them decide the
//! same, and how far each may go ([`Horizons`]). What comes out at another core before that one's
//! horizon is put into its mailbox. Behind the second gate each takes in what the others have put
//! there, and goes on alone up to its horizon. Mailboxes are read in the order of cores, and what is
//! in them is merged in the total order of events by the engine, so that nothing depends on which
//! thread comes first.
//!
//! A change of the network is a round of its own, before which everything earlier is done, so that
//! distances between cores can be measured anew after it.
//!
//! A thread that waits at a gate (a barrier) spins for a while, since the others are about to come, and
//! then yields; with more threads than CPUs it yields at once. A thread that panics closes the gates for all.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::parallel::{CoreId, Crossing, Horizons, Split};
use longhaul_core::{Span, Time};

use super::control::{Control, Next, Progress, Stop};
use super::lane::Lane;
use super::{Clocks, Outcome, ROUNDS_PER_CHECK, Watch};

/// How often a waiting thread polls the gate before it yields its CPU, where there is a CPU for every
/// thread: the others are about to come.
const SPINS: u32 = 4000;
/// No time: what an atomic holds where nothing is to come.
const NEVER: u64 = u64::MAX;

/// A barrier: all threads wait until the last one has come.
struct Gate {
    threads: usize,
    /// How often a waiting thread polls before it yields.
    spins: u32,
    waiting: AtomicUsize,
    /// How often all have come.
    passed: AtomicUsize,
    is_broken: AtomicBool,
}

impl Gate {
    fn new(threads: usize) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads,
            spins: if threads <= cpus { SPINS } else { 0 },
            waiting: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Waits for all; false where one of them will not come any more.
    fn wait(&self) -> bool {
        let passed = self.passed.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            self.passed.fetch_add(1, Ordering::Release);
            return !self.is_broken.load(Ordering::Acquire);
        }
        let mut spins = 0;
        while self.passed.load(Ordering::Acquire) == passed {
            if self.is_broken.load(Ordering::Acquire) {
                return false;
            }
            if spins < self.spins {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        true
    }
}

/// Breaks the gate when its thread ends by a panic.
struct Guard<'a>(&'a Gate);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::Release);
        }
    }
}

/// What a core publishes before a round. Aligned so that no two cores share a cache line.
#[repr(align(128))]
struct Published {
    next: AtomicU64,
    step: AtomicU64,
    is_done: AtomicBool,
    is_stuck: AtomicBool,
    is_full: AtomicBool,
    /// Whether the caller wants the run to pause.
    pauses: AtomicBool,
    /// By core: when the first packet comes out there.
    exits: Box<[AtomicU64]>,
    /// By core: the least delay of the pipes that lead directly there.
    direct_delays: Box<[AtomicU64]>,
}

/// What the threads share.
struct Shared {
    gate: Gate,
    cores: Box<[Published]>,
    /// From core times cores plus to core.
    mailboxes: Box<[Mutex<Crossing>]>,
}

impl Shared {
    fn new(cores: usize) -> Self {
        let times = || (0..cores).map(|_| AtomicU64::new(NEVER)).collect();
        let published = |_| Published {
            next: AtomicU64::new(NEVER),
            step: AtomicU64::new(NEVER),
            is_done: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            pauses: AtomicBool::new(false),
            exits: times(),
            direct_delays: times(),
        };
        Self {
            gate: Gate::new(cores),
            cores: (0..cores).map(published).collect(),
            mailboxes: (0..cores * cores).map(|_| Mutex::default()).collect(),
        }
    }

    /// When a core acts next, with what the others send it.
    fn next_of(&self, core: usize) -> Time {
        let own = self.cores[core].next.load(Ordering::Relaxed);
        let exits = self.cores.iter().map(|from| &from.exits[core]);
        let exits = exits.map(|exit| exit.load(Ordering::Relaxed));
        Time::from_ns(exits.fold(own, u64::min))
    }

    fn progress(&self, next: &[Time]) -> Progress {
        let some = |time: &Time| *time < Time::MAX;
        let any = |flag: fn(&Published) -> &AtomicBool| {
            let mut flags = self.cores.iter().map(flag);
            flags.any(|flag| flag.load(Ordering::Relaxed))
        };
        // All cores have the same schedule.
        let step = Time::from_ns(self.cores[0].step.load(Ordering::Relaxed));
        Progress {
            next: next.iter().min().copied().filter(some),
            step: Some(step).filter(some),
            is_done: {
                let mut done = self.cores.iter().map(|core| &core.is_done);
                done.all(|done| done.load(Ordering::Relaxed))
            },
            is_stuck: any(|core| &core.is_stuck),
            is_full: any(|core| &core.is_full),
        }
    }

    fn horizons(&self) -> Horizons {
        let delays = self.cores.iter().flat_map(|core| &core.direct_delays);
        let direct = delays.map(|delay| Span::from_ns(delay.load(Ordering::Relaxed)));
        Horizons::new(self.cores.len(), direct.collect())
    }

    fn mailbox(&self, from: usize, to: usize) -> std::sync::MutexGuard<'_, Crossing> {
        let mailbox = &self.mailboxes[from * self.cores.len() + to];
        // What a panic leaves behind is not read: its run is over.
        mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets all lanes go on, until everything before `horizon` is done or `pauses` returns true.
pub(super) fn run(
    lanes: &mut [Lane],
    split: &Split,
    control: &mut Control,
    horizon: Time,
    watch: Watch<'_>,
) -> Outcome {
    let clocks = watch.clocks;
    let shared = Shared::new(lanes.len());
    let start = *control;
    let Some((first, others)) = lanes.split_first_mut() else {
        return Outcome::More;
    };
    let (outcome, end) = std::thread::scope(|scope| {
        // From here on, whoever panics must not leave the others at a gate.
        let _guard = Guard(&shared.gate);
        for lane in others {
            let mut worker = Worker::new(lane, split, &shared, (start, clocks));
            let gate = &shared.gate;
            scope.spawn(move || {
                let _guard = Guard(gate);
                worker.run(horizon, &mut || false)
            });
        }
        let mut worker = Worker::new(first, split, &shared, (start, clocks));
        let outcome = worker.run(horizon, watch.pauses);
        (outcome, worker.control)
    });
    *control = end;
    outcome
}

/// The part of a thread's CPU time that was work, of which the clock saw `worked` of `passed`. Waiting
/// takes CPU time too. Asking for CPU time at each gate would say how much, but that is a system call
/// of 500 ns where rounds take a few microseconds; the clock takes 20. So what others took of the CPU
/// counts as if it had hit work and waiting alike.
fn part_of(used: Duration, worked: Duration, passed: Duration) -> Duration {
    match passed {
        Duration::ZERO => Duration::ZERO,
        _ => used.mul_f64((worked.as_secs_f64() / passed.as_secs_f64()).min(1.0)),
    }
}

/// A thread with its lane.
struct Worker<'a> {
    lane: &'a mut Lane,
    split: &'a Split,
    shared: &'a Shared,
    control: Control,
    clocks: Clocks<'a>,
    /// Since when it has been working, by the clock.
    since: Duration,
    /// How long it has worked before, by the clock.
    worked: Duration,
    /// By core.
    next: Vec<Time>,
}

impl<'a> Worker<'a> {
    fn new(
        lane: &'a mut Lane,
        split: &'a Split,
        shared: &'a Shared,
        (control, clocks): (Control, Clocks<'a>),
    ) -> Self {
        Self {
            lane,
            split,
            shared,
            control,
            clocks,
            since: Duration::ZERO,
            worked: Duration::ZERO,
            next: vec![Time::MAX; shared.cores.len()],
        }
    }

    fn run(&mut self, horizon: Time, pauses: &mut dyn FnMut() -> bool) -> Outcome {
        let Clocks { now, cpu_time } = self.clocks;
        let (begun, used) = (now(), cpu_time());
        self.since = begun;
        let outcome = self.run_rounds(horizon, pauses);
        let ended = now();
        self.worked += ended.saturating_sub(self.since);
        let used = cpu_time().saturating_sub(used);
        self.lane.worked += part_of(used, self.worked, ended.saturating_sub(begun));
        outcome
    }

    /// Waits for all others, which is not work; false where one of them will not come any more.
    fn wait(&mut self) -> bool {
        self.worked += (self.clocks.now)().saturating_sub(self.since);
        let all_came = self.shared.gate.wait();
        self.since = (self.clocks.now)();
        all_came
    }

    fn run_rounds(&mut self, horizon: Time, pauses: &mut dyn FnMut() -> bool) -> Outcome {
        self.publish_direct_delays();
        let mut horizons = None;
        for round in 0_u64.. {
            let checks = round > 0 && round.is_multiple_of(ROUNDS_PER_CHECK);
            self.publish(checks && pauses());
            if !self.wait() {
                return Outcome::More; // the thread that broke it panics
            }
            for core in 0..self.next.len() {
                self.next[core] = self.shared.next_of(core);
            }
            let pauses = &self.shared.cores[0].pauses;
            if pauses.load(Ordering::Relaxed) {
                return Outcome::More;
            }
            let progress = self.shared.progress(&self.next);
            let distances = horizons.get_or_insert_with(|| self.shared.horizons());
            match self.control.decide(&progress, horizon) {
                Next::Advance(bound) => {
                    if !self.has_look_ahead(bound, distances) {
                        return Outcome::Over(Stop::NoLookAhead);
                    }
                    if !self.go(bound, distances) {
                        return Outcome::More;
                    }
                }
                Next::Steps(at) => {
                    if !self.wait() {
                        return Outcome::More;
                    }
                    self.lane.take_steps(at);
                    self.publish_direct_delays();
                    horizons = None;
                }
                Next::Reached(limit) => {
                    self.lane.advance_before(limit);
                    return Outcome::Reached;
                }
                Next::Over(stop, end) => {
                    if let Some(end) = end {
                        self.lane.advance_before(end);
                    }
                    return Outcome::Over(stop);
                }
            }
        }
        Outcome::More
    }

    /// Publishes this core's state for the round.
    fn publish(&self, pauses: bool) {
        let published = &self.shared.cores[self.lane.core.index()];
        let ns = |time: Option<Time>| time.map_or(NEVER, Time::as_ns);
        let store = |to: &AtomicU64, time| to.store(ns(time), Ordering::Relaxed);
        let flag = |to: &AtomicBool, is| to.store(is, Ordering::Relaxed);
        store(&published.next, self.lane.next());
        store(&published.step, self.lane.emulation.next_step());
        flag(&published.is_done, self.lane.emulation.traffic_is_done());
        flag(&published.is_stuck, self.lane.is_stuck());
        flag(&published.is_full, self.lane.is_full());
        flag(&published.pauses, pauses);
        for (exit, core) in published.exits.iter().zip((0..).map(CoreId)) {
            store(exit, self.lane.emulation.engine.next_exit(core));
        }
    }

    /// Publishes the least delays of the pipes to other cores, as they are now.
    fn publish_direct_delays(&self) {
        let published = &self.shared.cores[self.lane.core.index()];
        let mut delays = vec![NEVER; published.direct_delays.len()];
        for &pipe in self.split.cut_from(self.lane.core) {
            let delay = &mut delays[self.split.destination_of(pipe).index()];
            *delay = (*delay).min(self.lane.emulation.engine.least_delay(pipe).as_ns());
        }
        for (published, delay) in published.direct_delays.iter().zip(delays) {
            published.store(delay, Ordering::Relaxed);
        }
    }

    /// Whether any core may go on: none may where a pipe between cores has come to take no time. All
    /// cores see the same.
    fn has_look_ahead(&self, bound: Time, horizons: &Horizons) -> bool {
        let mut cores = self.next.iter().enumerate();
        cores.any(|(core, next)| *next < horizons.horizon(core, &self.next).min(bound))
    }

    /// Goes on to this core's horizon, at most to `bound`; false where the gate is broken.
    fn go(&mut self, bound: Time, horizons: &Horizons) -> bool {
        let own = self.lane.core.index();
        let engine = &mut self.lane.emulation.engine;
        for to in (0..self.next.len()).filter(|to| *to != own) {
            let until = horizons.horizon(to, &self.next).min(bound);
            let core = CoreId(to as u16);
            if engine.next_exit(core).is_some_and(|exit| exit < until) {
                let mut mailbox = self.shared.mailbox(own, to);
                engine.export(core, until, &mut mailbox);
            }
        }
        if !self.wait() {
            return false;
        }
        for from in (0..self.next.len()).filter(|from| *from != own) {
            let mut mailbox = self.shared.mailbox(from, own);
            self.lane.emulation.engine.import(&mailbox);
            mailbox.clear();
        }
        let until = horizons.horizon(own, &self.next).min(bound);
        self.lane.advance_before(until);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_the_part_of_cpu_time_that_was_not_waiting() {
        let ms = Duration::from_millis;
        assert_eq!(part_of(ms(80), ms(30), ms(120)), ms(20));
        assert_eq!(part_of(ms(80), ms(130), ms(120)), ms(80));
        assert_eq!(part_of(ms(80), ms(0), ms(0)), ms(0));
    }
}
