//! The loop's side: takes a sample of all cores at each edge of a bin.

use std::sync::Arc;

use longhaul_core::observe::{Counters, PipeCounters};
use longhaul_core::witness::WitnessId;
use longhaul_core::{PipeId, Span, Time};
use longhaul_emulation::Emulation;
use longhaul_plan::measure::Point;

use super::capture::{CaptureId, Tap, Wanted};
use super::flows::FlowTable;
use super::recorder::ToRecorder;
use super::rows::widened;
use super::sample::{CoreBin, CoreRow, PipeRow, Sample};
use super::setup::Setup;
use super::timeline::Follower;
use crate::connections::Connection;

/// How often captured packets are drained from taps: 12 MB of them at 10 Gbit/s.
const DRAIN: Span = Span::from_ms(10);

/// Whether the loop waits until a sample can be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until there is room.
    Yes,
    /// Not at all: the bin becomes wider.
    No,
}

/// Takes samples.
pub(crate) struct Sampler {
    setup: Arc<Setup>,
    to: ToRecorder,
    /// Where the bin begins that is open.
    start: Time,
    /// Where it ends.
    edge: Time,
    /// When packets are taken away next.
    drain: Time,
    /// When connections are sampled next.
    connections_at: Time,
    pipes: Vec<PipeId>,
    before: Vec<PipeCounters>,
    counters: Counters,
    /// Packets in the network at the last sample.
    inside: u64,
    /// How often bins have doubled their width. It comes back with the samples, so that in a virtual run it does
    /// not depend on the machine.
    doublings: u32,
    cores: Vec<CoreWitnesses>,
    bin: Option<CoreBin>,
}

/// The witnesses at a core.
#[derive(Debug, Default)]
struct CoreWitnesses {
    flows: Option<WitnessId>,
    follower: Option<WitnessId>,
    taps: Vec<WitnessId>,
}

impl Sampler {
    /// Of emulations at t = 0, from which it measures what the plan says.
    pub(super) fn new(setup: Arc<Setup>, to: ToRecorder) -> Self {
        Self {
            pipes: setup.pipes.clone(),
            before: vec![PipeCounters::default(); setup.pipes.len()],
            start: Time::ZERO,
            edge: setup.every.map_or(Time::MAX, |every| Time::ZERO + every),
            drain: Time::ZERO + DRAIN,
            connections_at: setup
                .connections
                .map_or(Time::MAX, |every| Time::ZERO + every),
            counters: Counters::default(),
            inside: 0,
            doublings: 0,
            cores: Vec::new(),
            bin: None,
            setup,
            to,
        }
    }

    /// A sampler without a recorder, for tests of loops.
    #[cfg(test)]
    pub(crate) fn idle(plan: &longhaul_plan::plan::Plan) -> Self {
        let setup = Arc::new(Setup::of(plan));
        Self::new(setup, ToRecorder::to_nobody())
    }

    /// Installs what measures in the emulation of the next core.
    pub(crate) fn install(&mut self, emulation: &mut Emulation) {
        for &pipe in &self.pipes {
            emulation.measure_queue(pipe);
        }
        let mut core = CoreWitnesses::default();
        if self.setup.flows {
            core.flows = Some(emulation.watch(Box::new(FlowTable::new())));
        }
        if !self.setup.timelines.is_empty() {
            let follower = Follower::new(Arc::clone(&self.setup.timelines));
            core.follower = Some(emulation.watch(Box::new(follower)));
        }
        for (number, wanted) in (0..).zip(&self.setup.captures) {
            let tap = Tap::new(number, Arc::clone(wanted), Time::ZERO);
            core.taps.push(emulation.watch(Box::new(tap)));
        }
        self.cores.push(core);
    }

    /// Begins a capture while the run is under way.
    pub(crate) fn begin_capture(
        &mut self,
        capture: CaptureId,
        wanted: Arc<Wanted>,
        emulation: &mut Emulation,
    ) {
        if let Some(core) = self.cores.first_mut() {
            let tap = Tap::new(capture, wanted, emulation.now());
            core.taps.push(emulation.watch(Box::new(tap)));
        }
    }

    /// Ends captures that nobody reads any more, at one core.
    fn end_captures(&mut self, number: usize, emulation: &mut Emulation) {
        let setup = &self.setup;
        self.cores[number].taps.retain(|&id| {
            let capture = emulation.witness::<Tap>(id).map(|tap| tap.capture());
            let ended = capture.is_some_and(|capture| setup.has_ended(capture));
            if ended {
                emulation.unwatch::<Tap>(id);
            }
            !ended
        });
    }

    /// When the next sample is due; events at that very time belong to the bin after it.
    pub(crate) fn edge(&self) -> Time {
        let drain = self.drains_at().unwrap_or(Time::MAX);
        self.edge.min(self.connections_at).min(drain)
    }

    /// Whether the bin is over at `now`.
    pub(crate) fn closes_at(&self, now: Time) -> bool {
        now >= self.edge
    }

    /// Adds a live loop's own figures to the open bin.
    pub(crate) fn add(&mut self, bin: CoreBin) {
        // A bin for which there was no sample goes on.
        self.bin.get_or_insert_default().merge(&bin);
    }

    /// Whether packets have to be taken away soon, whatever else happens.
    pub(crate) fn drains_at(&self) -> Option<Time> {
        self.setup.drains().then_some(self.drain)
    }

    /// Takes a sample of emulations that have done everything before `now` and nothing after it; the next bin
    /// begins there. If no packet is inside, empty bins are skipped up to the `next` event. If some wait while
    /// nothing happens, the bin is extended to that event, or, if the loop may wait for room, bins are taken in
    /// between.
    pub(crate) fn take<'e>(
        &mut self,
        emulations: impl Iterator<Item = &'e mut Emulation>,
        (now, next): (Time, Option<Time>),
        wait: Wait,
    ) {
        let closes = self.closes_at(now);
        self.take_away(emulations, now, closes, wait);
        let next = next.map_or(now, |next| next.max(now));
        let next = match (self.inside, wait) {
            (1.., Wait::Yes) => now,
            _ => next,
        };
        self.drain = cell_of(next, DRAIN).1;
        if let Some(every) = self.setup.connections
            && now >= self.connections_at
        {
            self.connections_at = cell_of(next, self.widened(every)).1;
        }
        if let Some(every) = self.setup.every
            && closes
        {
            let (begin, end) = cell_of(next, self.widened(every));
            self.edge = end;
            // A bin that could not be taken goes on.
            if self.start >= now && self.inside == 0 {
                self.start = begin.max(now);
            }
        }
    }

    /// A width that the budget of the disk allows.
    fn widened(&self, every: Span) -> Span {
        widened(every, self.doublings)
    }

    /// Takes the last sample, at the end of the run.
    pub(crate) fn finish<'e>(
        mut self,
        emulations: impl Iterator<Item = &'e mut Emulation>,
        now: Time,
    ) {
        let closes = self.setup.every.is_some();
        self.start = self.start.min(now); // where bins up to something later had been passed over
        self.take_away(emulations, now, closes, Wait::Yes);
    }

    fn take_away<'e>(
        &mut self,
        emulations: impl Iterator<Item = &'e mut Emulation>,
        now: Time,
        closes: bool,
        wait: Wait,
    ) {
        let Some(mut sample) = self.to.empty_sample(wait) else {
            return;
        };
        (sample.start, sample.until) = (self.start, now);
        self.doublings = sample.doublings;
        self.fill(&mut sample, emulations, closes);
        self.to.send(sample);
        if closes {
            self.start = now;
        }
    }

    fn fill<'e>(
        &mut self,
        sample: &mut Sample,
        emulations: impl Iterator<Item = &'e mut Emulation>,
        closes: bool,
    ) {
        let mut counters = Counters::default();
        let mut inside = 0;
        for (number, emulation) in emulations.enumerate() {
            if self.setup.any_has_ended() {
                self.end_captures(number, emulation);
            }
            counters.merge(emulation.engine().counters());
            inside += emulation.engine().inside();
            if closes {
                self.read_pipes(sample, emulation);
            }
            if sample.until >= self.connections_at
                && let Some(traffic) = emulation.traffic()
            {
                let until = sample.until;
                let list = &mut sample.connections;
                traffic.connections(&mut |of| list.push((until, Connection::of_model(of))));
            }
            let core = &self.cores[number];
            if let Some(id) = core.flows.filter(|_| closes)
                && let Some(flows) = emulation.witness::<FlowTable>(id)
            {
                flows.take(&mut sample.flows, &mut sample.others);
            }
            if let Some(id) = core.follower
                && let Some(follower) = emulation.witness::<Follower>(id)
            {
                follower.take(
                    sample.until,
                    &mut sample.passages,
                    &mut sample.passages_missed,
                );
            }
            for &id in &core.taps {
                let wanted = emulation.witness::<Tap>(id).map(|tap| tap.wanted());
                let delay = wanted.map_or(Span::ZERO, |wanted| longest_lag(&wanted, emulation));
                let tap = emulation.witness::<Tap>(id);
                sample.chunks.extend(tap.and_then(|tap| tap.take(delay)));
            }
        }
        self.inside = inside;
        let is_empty = sample.start >= sample.until && counters == self.counters;
        if self.setup.core && closes && !is_empty {
            let before = std::mem::replace(&mut self.counters, counters);
            sample.core = Some(CoreRow {
                entered: counters.entered - before.entered,
                created: counters.created - before.created,
                delivered: counters.delivered - before.delivered,
                dropped: counters.dropped.total() - before.dropped.total(),
                hops: counters.hops - before.hops,
                inside,
                bin: self.bin.take(),
            });
        }
    }

    /// Reads the pipes that a core owns.
    fn read_pipes(&mut self, sample: &mut Sample, emulation: &mut Emulation) {
        for (&pipe, before) in self.pipes.iter().zip(&mut self.before) {
            if !emulation.engine().owns_pipe(pipe) {
                continue;
            }
            let queue = emulation.take_queue_use(pipe);
            let now = emulation.engine().pipe_counters(pipe);
            let counters = now.since(before);
            *before = now;
            if counters != PipeCounters::default() || queue != Default::default() {
                sample.pipes.push(PipeRow {
                    pipe,
                    counters,
                    queue,
                    waiting: emulation.engine().waiting(pipe),
                });
            }
        }
    }
}

/// How much later than a packet's loss the pipes that a capture watches at this core may report it.
fn longest_lag(wanted: &Wanted, emulation: &Emulation) -> Span {
    let engine = emulation.engine();
    let pipes = match wanted.point {
        Point::Exit => wanted.pipes.iter(),
        Point::Entry => [].iter(), // arrivals and refusals are reported at once
    };
    let own = pipes.filter(|pipe| engine.owns_pipe(**pipe));
    let delays = own.map(|pipe| engine.params(*pipe).delay);
    delays.max().unwrap_or(Span::ZERO)
}

/// The cell of a grid that a time lies in: its begin and its end.
fn cell_of(time: Time, width: Span) -> (Time, Time) {
    let begin = time.as_ns() / width.as_ns() * width.as_ns();
    let begin = Time::from_ns(begin);
    (begin, begin + width)
}
