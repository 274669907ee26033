//! A shaped pipe: discipline → sender → loss and corruption → delay → next node.
//!
//! Theory: the start of service is an event. It happens when a packet finds the sender idle, or when the
//! packet before has departed; the discipline then chooses the packet, and its departure is computed. The
//! pipe's next departure and the head of its flight are in the engine's pending set. Departures precede all
//! packets that come out of a pipe at the same time. They touch nothing but their own pipe, so the order in
//! which pipes handle them does not matter, nor whether a pipe handles them late or, for arrivals handed
//! over ahead of time, early. A packet that enters is served after all departures up to its entry.
//!
//! Service that takes no time (an unlimited rate, a full bucket) happens within the entry. If the packet
//! also comes out at that time, its microstep is one above that of the entry, as in a plain pipe; all other
//! packets come out at microstep 0.
//!
//! With parameters that a plain pipe could serve, all results are those of a plain pipe.
//!
//! **Order.** No packet comes out before its predecessor, even a lost one. Exempt are packets that are held
//! back, all packets where a jitter or a trace may reorder, and, with `overtake`, packets behind a change of
//! the parameters.
//!
//! **Changes.** Limit and discipline apply to packets that enter later (those that wait keep their place),
//! rate, burst and trace to everything not yet sent, pro rata for the packet in service, and all else to
//! packets that depart later.
//!
//! **Down.** Packets in flight and in the queue are lost, and none may enter. If the queue is kept, waiting
//! packets stay, and the packet in service is sent again from its first byte.
//!
//! A late arrival, stamped before the engine's time, is served as from its stamp, as far as the departures
//! already handled allow. The time by which it then comes out too late is its shift.
//!
//! Left out: the parts, one small file each.

use super::Context;
use super::delay::Moment;
use super::flight::Flight;
use super::gauge::Gauge;
use super::loss::Loss;
use super::queue::{Drain, Dropped, Enqueued, Item, Queue};
use super::sender::{Sender, Served};
use super::wire::{self, Wire};
use crate::element::Action;
use crate::engine::hash::Origination;
use crate::observe::PipeCounters;
use crate::packet;
use crate::params::PipeParams;
use crate::pool::{MARKED, Pool};
use crate::rng::Stream;
use crate::time::{Span, Time};
use crate::units::Framing;
use crate::witness::PacketEvent;

/// A pipe whose start of service is an event.
#[derive(Debug)]
pub(crate) struct Shaped {
    queue: Queue,
    sender: Sender,
    serving: Option<(Item, Served)>,
    /// The packet that was in service when the link went down.
    stopped: Option<Item>,
    pub(super) wire: Wire,
    pub(super) flight: Flight,
    /// No packet may come out before this, except those exempt from the order.
    last: Moment,
    /// All departures up to here have been handled.
    clock: Time,
    is_up: bool,
    /// The time of the departure that is in the pending set; it may be too early.
    alarm: Option<Time>,
    /// The key of the flow hash.
    seed: u64,
    counters: PipeCounters,
    pub(super) gauge: Option<Box<Gauge>>,
}

/// The state that a plain pipe hands over when it becomes shaped.
pub(super) struct Handover {
    pub(super) sender: Sender,
    pub(super) loss: Loss,
    pub(super) last: Moment,
    pub(super) counters: PipeCounters,
}

impl Shaped {
    /// The shaped form of the pipe called `name`, continuing from `handover` at `now`.
    pub(super) fn new(
        params: &PipeParams,
        handover: Handover,
        now: Time,
        seed: u64,
        name: &str,
    ) -> Self {
        let random = Stream::new(seed, &format!("{name}/queue"));
        Self {
            queue: Queue::new(params, random),
            sender: handover.sender,
            serving: None,
            stopped: None,
            wire: Wire::new(params, handover.loss, seed, name),
            flight: Flight::new(),
            last: handover.last,
            clock: now,
            is_up: true,
            alarm: None,
            seed,
            counters: handover.counters,
            gauge: None,
        }
    }

    /// Takes over a packet that a plain pipe has in service until `served`, or as the next to
    /// wait. Its descriptor holds its entry.
    pub(super) fn adopt(
        &mut self,
        params: &PipeParams,
        index: u32,
        served: Option<Served>,
        pool: &Pool,
    ) {
        let item = self.item(params, index, self.clock, pool);
        match served {
            Some(served) => self.serving = Some((item, served)),
            None => self.queue.push(item),
        }
    }

    /// A packet enters at `entry`.
    pub(super) fn enter(
        &mut self,
        params: &PipeParams,
        index: u32,
        entry: Moment,
        context: &mut Context<'_>,
    ) {
        context
            .record
            .went_in(context.id, index, entry.time, context.pool);
        if !self.is_up {
            return self.lose_down(index, entry.time, context);
        }
        self.run_to(params, entry.time, context);
        let now = self.clock.max(entry.time);
        self.clock = now;
        context.pool[index].set_due(entry);
        let item = self.item(params, index, now, context.pool);
        let rest = |(_, served): &(Item, Served)| served.departure.since(now);
        let drain = Drain {
            rate: self.sender.rate(now),
            rest: self.serving.as_ref().map(rest),
        };
        let counters = &mut self.counters;
        let mut lose = |dropped: Dropped| drop_queued(&dropped, now, counters, context);
        let enqueued = self.queue.enqueue(now, item, drain, &mut lose);
        if enqueued == Enqueued::QueuedMarked {
            self.mark(index, now, context);
        }
        self.start(now, context);
        self.gauge_level(now);
        self.run_to(params, now, context);
    }

    /// Handles all departures up to `to`.
    pub(super) fn run_to(&mut self, params: &PipeParams, to: Time, context: &mut Context<'_>) {
        while let Some((item, served)) = self.serving
            && served.departure <= to
            && served.departure < Time::MAX
        {
            self.serving = None;
            self.clock = self.clock.max(served.departure);
            self.counters.busy_ns += served.busy.1 - served.busy.0;
            self.depart(params, item.index, served.departure, context);
            self.start(served.departure, context);
        }
    }

    /// Starts the next packet's service at `now`, if the sender is idle.
    fn start(&mut self, now: Time, context: &mut Context<'_>) {
        if self.serving.is_some() || !self.is_up || self.queue.is_empty() {
            return;
        }
        let counters = &mut self.counters;
        let mut lose = |dropped: Dropped| drop_queued(&dropped, now, counters, context);
        let next = self.queue.dequeue(now, &mut lose);
        self.gauge_level(now);
        let Some((item, marked)) = next else {
            return;
        };
        if let Some(gauge) = &mut self.gauge {
            gauge.start(now.since(item.entered).as_ns());
        }
        if marked {
            self.mark(item.index, now, context);
        }
        let entered = context.pool[item.index].due().time;
        let served = self.sender.serve(entered, item.bytes);
        context
            .record
            .served(context.id, item.index, now, context.pool);
        self.serving = Some((item, served));
    }

    /// Reports to the gauge how many packets wait from `now` on.
    fn gauge_level(&mut self, now: Time) {
        let level = self.waiting().0;
        if let Some(gauge) = &mut self.gauge {
            gauge.set_level(now.as_ns(), level);
        }
    }

    /// Handles a departure: the packet's last bit is sent.
    fn depart(&mut self, params: &PipeParams, index: u32, now: Time, context: &mut Context<'_>) {
        let delay = self.wire.delay(params, now);
        let bytes = params.framing.counted(context.pool[index].ip_len());
        let entry = context.pool[index].due();
        if self.wire.loses(now, bytes) {
            let _ = self.in_order(params, came_out(entry, now, delay));
            return self.lose(index, now, context);
        }
        let held = match self.wire.pass(now, index, context.pool) {
            Action::Pass => Span::ZERO,
            Action::Hold(span) => span,
            Action::Drop => return self.lose(index, now, context),
        };
        if self.wire.corrupts(index, context.pool) {
            self.counters.corrupted += 1;
            context.change(index, now, PacketEvent::Corrupted);
        }
        let copy = self
            .wire
            .duplicates()
            .then(|| context.pool.duplicate(index));
        self.send_out(params, index, now, delay, held, context);
        match copy {
            None => {}
            Some(None) => context.record.counters.pool_exhausted += 1,
            Some(Some(copy)) => {
                self.counters.duplicated += 1;
                let how = Origination::Duplicate(context.id);
                context.record.originated(copy, index, how);
                context.record.counters.created += 1;
                context.record.inside += 1;
                let delay = self.wire.delay(params, now);
                self.send_out(params, copy, now, delay, held, context);
            }
        }
    }

    /// Puts a packet into flight at `now`, for `delay` and, if it is held back, `held` longer.
    fn send_out(
        &mut self,
        params: &PipeParams,
        index: u32,
        now: Time,
        delay: Span,
        held: Span,
        context: &mut Context<'_>,
    ) {
        let packet = &mut context.pool[index];
        packet.path_delay += delay;
        let mut due = match self.wire.hold(params) {
            None => self.in_order(params, came_out(packet.due(), now, delay + held)),
            Some(longer) => came_out(packet.due(), now, delay + held + longer),
        };
        if due.time < context.floor {
            let shift = context.floor.since(due.time).as_ns();
            context.pool[index].shift = u32::try_from(shift).unwrap_or(u32::MAX);
            due = Moment {
                time: context.floor,
                microstep: 0,
            };
        }
        context.pool[index].set_due(due);
        self.flight.push(index, context.pool);
    }

    /// When a packet that is due at `due` comes out, given the order.
    fn in_order(&mut self, params: &PipeParams, due: Moment) -> Moment {
        self.last = self.last.max(due);
        if wire::may_reorder(params) {
            due
        } else {
            self.last
        }
    }

    /// Takes out the head of the flight.
    pub(super) fn pop(&mut self, params: &PipeParams, pool: &Pool) -> Option<u32> {
        let (index, is_late) = self.flight.pop(pool)?;
        self.counters.reordered += u64::from(is_late);
        self.counters.packets += 1;
        self.counters.bytes += u64::from(params.framing.counted(pool[index].ip_len()));
        Some(index)
    }

    /// Changes the parameters from `old` to `new` at `now`.
    pub(super) fn set(
        &mut self,
        old: &PipeParams,
        new: &PipeParams,
        now: Time,
        context: &mut Context<'_>,
    ) {
        self.run_to(old, now, context);
        let now = self.clock.max(now);
        self.clock = now;
        let (seed, pool) = (self.seed, &*context.pool);
        let all = [true, true];
        self.queue
            .set(new, |item| describe(item, new.framing, all, seed, pool));
        let in_service = self.serving.is_some();
        let served = self.sender.set(old, new, in_service, now);
        if let (Some(served), Some((_, serving))) = (served, &mut self.serving) {
            self.counters.busy_ns += busy_until(serving, now);
            *serving = served;
        }
        self.wire.set(new);
        if new.overtake {
            self.last = Moment::default();
        }
        self.run_to(new, now, context);
    }

    /// Takes the link down, or up again, at `now`.
    pub(super) fn set_up(
        &mut self,
        params: &PipeParams,
        up: bool,
        keep_queue: bool,
        now: Time,
        context: &mut Context<'_>,
    ) {
        self.run_to(params, now, context);
        let now = self.clock.max(now);
        self.clock = now;
        match (self.is_up, up) {
            (false, true) => self.resume(params, now, context),
            (true, false) => self.halt(now, context),
            _ => {}
        }
        if !up && !keep_queue {
            let mut lost = Vec::with_capacity(self.queue.len());
            self.queue.drain(|item| lost.push(item));
            for item in self.stopped.take().into_iter().chain(lost) {
                self.lose_down(item.index, now, context);
            }
        }
        self.gauge_level(now);
    }

    fn halt(&mut self, now: Time, context: &mut Context<'_>) {
        self.is_up = false;
        while let Some((index, _)) = self.flight.pop(context.pool) {
            self.lose_down(index, now, context);
        }
        self.last = Moment::default();
        let serving = self.serving.take();
        self.sender.stop(serving.is_some(), now);
        if let Some((item, served)) = serving {
            self.counters.busy_ns += busy_until(&served, now);
            self.stopped = Some(item);
        }
    }

    fn resume(&mut self, params: &PipeParams, now: Time, context: &mut Context<'_>) {
        self.is_up = true;
        self.sender.stop(false, now);
        if let Some(item) = self.stopped.take() {
            let bytes = params.framing.counted(context.pool[item.index].ip_len());
            let entered = context.pool[item.index].due().time;
            self.serving = Some((item, self.sender.serve(entered.max(now), bytes)));
        }
        self.start(now, context);
        self.run_to(params, now, context);
    }

    /// The time of the next departure, if the pending set does not have it yet. The caller puts it in.
    pub(super) fn announce(&mut self) -> Option<Time> {
        let departure = self.serving.map(|(_, served)| served.departure);
        let departure = departure.filter(|&departure| departure < Time::MAX)?;
        if self.alarm.is_some() {
            return None;
        }
        self.alarm = Some(departure);
        self.alarm
    }

    /// Notes that the departure in the pending set has come.
    pub(super) const fn alarmed(&mut self) {
        self.alarm = None;
    }

    /// Notes that the pending set has dropped this pipe.
    pub(super) fn forget(&mut self) {
        self.alarm = None;
        self.flight.forget();
    }

    /// The counters, the sending time up to `now`.
    pub(super) fn counters(&self, now: Time) -> PipeCounters {
        let serving = self.serving.as_ref();
        let sending = serving.map_or(0, |(_, served)| busy_until(served, now));
        PipeCounters {
            busy_ns: self.counters.busy_ns + sending,
            ..self.counters
        }
    }

    /// Packets and counted bytes that wait.
    pub(super) fn waiting(&self) -> (u32, u64) {
        let stopped = self.stopped.map_or(0, |item| u64::from(item.bytes));
        let packets = self.queue.len() as u32 + u32::from(self.stopped.is_some());
        (packets, self.queue.bytes() + stopped)
    }

    /// Whether the pipe is up and empty at `now`, without even a lost packet's place.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        let sends = self.serving.is_some() || self.stopped.is_some();
        let free = Moment {
            time: now,
            microstep: 0,
        };
        let holds = !self.queue.is_empty() || !self.flight.is_empty() || self.last > free;
        self.is_up && !sends && !holds
    }

    pub(super) const fn is_up(&self) -> bool {
        self.is_up
    }

    fn item(&self, params: &PipeParams, index: u32, entered: Time, pool: &Pool) -> Item {
        let mut item = Item {
            index,
            bytes: 0,
            flow: 0,
            ecn_capable: false,
            entered,
        };
        let needs = [self.queue.needs_flow(), self.queue.needs_ecn()];
        describe(&mut item, params.framing, needs, self.seed, pool);
        item
    }

    fn mark(&mut self, index: u32, now: Time, context: &mut Context<'_>) {
        context.pool[index].put(MARKED, true);
        context.change(index, now, PacketEvent::Marked);
        self.counters.marked += 1;
    }

    /// Counts a packet that the pipe loses at `at`.
    pub(super) fn lose(&mut self, index: u32, at: Time, context: &mut Context<'_>) {
        self.counters.drops_loss += 1;
        context.end(index, at, PacketEvent::Loss);
    }

    /// Counts a packet that is lost at `at` because the link is down.
    fn lose_down(&mut self, index: u32, at: Time, context: &mut Context<'_>) {
        self.counters.drops_down += 1;
        context.end(index, at, PacketEvent::LinkDown);
    }
}

/// Counts a packet that the queue drops at `now`.
fn drop_queued(
    dropped: &Dropped,
    now: Time,
    counters: &mut PipeCounters,
    context: &mut Context<'_>,
) {
    counters.drops_queue += 1;
    counters.drops_early += u64::from(dropped.early);
    context.end(dropped.item.index, now, PacketEvent::Queue);
}

/// Fills in what the discipline needs to know of a packet: its bytes, and, as `needs` says, its flow and
/// whether its sender understands ECN marks.
fn describe(item: &mut Item, framing: Framing, needs: [bool; 2], seed: u64, pool: &Pool) {
    item.bytes = framing.counted(pool[item.index].ip_len());
    let [flow, ecn] = needs;
    if flow {
        item.flow = packet::flow_hash(pool.headers(item.index), seed);
    }
    item.ecn_capable = ecn && packet::is_ecn_capable(pool.headers(item.index));
}

/// When a packet that entered at `entry` and departs at `now` comes out after `delay`.
fn came_out(entry: Moment, now: Time, delay: Span) -> Moment {
    let time = now + delay;
    let microstep = if time == entry.time {
        entry.microstep.saturating_add(1)
    } else {
        0
    };
    Moment { time, microstep }
}

/// The time spent up to `now` on a packet in service.
fn busy_until(served: &Served, now: Time) -> u64 {
    let (from, to) = served.busy;
    now.as_ns().clamp(from, to) - from
}
