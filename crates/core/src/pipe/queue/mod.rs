//! Queue disciplines: which packets wait for the sender, which is next and which are dropped.
//!
//! One file each. Disciplines decide at entry and at the start of service; a pipe with one of
//! them makes each start of service an event. [`Queue`] is the choice among them: a state
//! machine that takes the time as an argument and holds packets as small [`Item`]s. Drop-tail
//! by packets or bytes needs no such events: [`DropTail`] runs on the fast path of [`super`].
//!
//! What waits does not include the packet in service. The limit by time drops a packet whose
//! service would start later than the limit from now, reckoned from the bytes that wait, the rest
//! of the packet in service and the present rate; a rate that changes later calls nobody back,
//! and with an unlimited rate there is no such limit. Storage grows to the longest queue there
//! was and is used again, so that in the long run no packet costs an allocation.
//!
//! Left out: priorities, classes, a discipline of one's own.

mod codel;
mod drop_tail;
mod fifo;
mod fq_codel;
mod pie;
mod red;
#[cfg(test)]
mod tests;

pub(crate) use drop_tail::{DropTail, Inside};

use crate::params::{Discipline, PipeParams};
use crate::rng::Stream;
use crate::time::{Span, Time};
use crate::units::{QueueLimit, Rate};
use codel::CoDel;
use fifo::Fifo;
use fq_codel::FqCodel;
use pie::Pie;
use red::Red;

/// A packet that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its slot in the pool.
    pub(crate) index: u32,
    /// Its bytes as the pipe's framing counts them.
    pub(crate) bytes: u32,
    /// A hash of the flow that it belongs to; needed where [`Queue::needs_flow`] says so.
    pub(crate) flow: u64,
    /// Whether its sender understands ECN marks (RFC 3168: ECT(0), ECT(1) or CE); needed where
    /// [`Queue::needs_ecn`] says so.
    pub(crate) ecn_capable: bool,
    /// When it entered the queue.
    pub(crate) entered: Time,
}

/// What a discipline may know of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain {
    /// The present rate; `None` is unlimited.
    pub(crate) rate: Option<Rate>,
    /// The time until the packet in service is out; `None` where nothing is in service, so that
    /// a packet that finds the queue empty starts at once.
    pub(crate) rest: Option<Span>,
}

impl Drain {
    /// Whether a packet behind `bytes` waiting ones starts within `span`. Exact but for `rest`,
    /// which is in whole nanoseconds.
    fn starts_within(self, span: Span, bytes: u64) -> bool {
        let rest = self.rest.unwrap_or(Span::ZERO);
        let Some(rate) = self.rate else {
            return true;
        };
        let left = u128::from(span.saturating_sub(rest).as_ns());
        rest <= span && u128::from(bytes) * 8_000_000_000 <= left * u128::from(rate.bits_per_s())
    }

    /// Nanoseconds until a packet behind `bytes` waiting ones starts.
    fn wait_ns(self, bytes: f64) -> f64 {
        let rest = self.rest.map_or(0, Span::as_ns) as f64;
        rest + self
            .rate
            .map_or(0.0, |rate| bytes * 8e9 / rate.bits_per_s() as f64)
    }
}

/// The queue that a packet finds on arrival.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    limit: QueueLimit,
    packets: usize,
    bytes: u64,
    drain: Drain,
}

impl Ahead {
    /// Whether a packet of `bytes` may wait. One that would not have to wait always may.
    #[inline]
    fn has_room(self, bytes: u32) -> bool {
        if self.packets == 0 && self.drain.rest.is_none() {
            return true;
        }
        match self.limit {
            QueueLimit::Packets(most) => self.packets < most as usize,
            QueueLimit::Bytes(most) => self.bytes.saturating_add(u64::from(bytes)) <= most,
            QueueLimit::Time(span) => self.drain.starts_within(span, self.bytes),
        }
    }

    /// `admission` where a packet of `bytes` may wait.
    #[inline]
    fn or_full(self, bytes: u32, admission: Admission) -> Admission {
        if self.has_room(bytes) {
            admission
        } else {
            Admission::Full
        }
    }
}

/// The decision about an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    In,
    Marked,
    /// The discipline chose to drop it.
    Early,
    /// There is no room.
    Full,
}

/// What happened to an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// It waits.
    Queued,
    /// It waits, and is to be marked as having met congestion (CE).
    QueuedMarked,
    /// It is lost; `on_drop` has had it.
    Dropped,
}

/// A packet that the queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The packet.
    pub(crate) item: Item,
    /// True where the discipline chose to drop it; false where there was no room.
    pub(crate) early: bool,
}

/// A queue of one of the disciplines.
#[derive(Debug)]
pub(crate) struct Queue {
    limit: QueueLimit,
    random: Stream,
    state: State,
}

#[derive(Debug)]
enum State {
    Line(Fifo, Manager),
    Flows(Box<FqCodel>),
}

/// The discipline of a single FIFO.
#[derive(Debug)]
enum Manager {
    DropTail,
    Red(Red),
    CoDel(CoDel),
    Pie(Pie),
}

impl State {
    fn new(discipline: &Discipline) -> Self {
        let manager = match *discipline {
            Discipline::DropTail => Manager::DropTail,
            Discipline::Red(params) => Manager::Red(Red::new(params)),
            Discipline::CoDel(params) => Manager::CoDel(CoDel::new(params)),
            Discipline::Pie(params) => Manager::Pie(Pie::new(params)),
            Discipline::FqCodel(params) => return Self::Flows(Box::new(FqCodel::new(params))),
        };
        Self::Line(Fifo::default(), manager)
    }

    /// Takes new parameters, keeping all packets and all state; false where that cannot be.
    fn set(&mut self, discipline: &Discipline) -> bool {
        match (self, *discipline) {
            (Self::Line(_, Manager::DropTail), Discipline::DropTail) => {}
            (Self::Line(_, Manager::Red(red)), Discipline::Red(params)) => red.params = params,
            (Self::Line(_, Manager::CoDel(codel)), Discipline::CoDel(params)) => {
                codel.params = params;
            }
            (Self::Line(_, Manager::Pie(pie)), Discipline::Pie(params)) => pie.params = params,
            (Self::Flows(flows), Discipline::FqCodel(params)) => return flows.set(params),
            _ => return false,
        }
        true
    }

    /// Appends a packet without a decision.
    fn push(&mut self, item: Item) {
        match self {
            Self::Line(fifo, _) => fifo.push(item),
            Self::Flows(flows) => flows.push(item),
        }
    }
}

impl Queue {
    /// An empty queue; `random` is for those that drop by chance.
    pub(crate) fn new(params: &PipeParams, random: Stream) -> Self {
        Self {
            limit: params.queue,
            random,
            state: State::new(&params.discipline),
        }
    }

    /// Changes the queue. All that waits keeps waiting; a new limit holds for packets to come.
    /// Where the discipline is of the same kind its state stays, otherwise it starts afresh and
    /// the packets move over in order of entry. `describe` is called once for each of them, to
    /// fill in `bytes`, `flow` and `ecn_capable` as the new parameters need them.
    pub(crate) fn set(&mut self, params: &PipeParams, mut describe: impl FnMut(&mut Item)) {
        self.limit = params.queue;
        if self.state.set(&params.discipline) {
            match &mut self.state {
                State::Line(fifo, _) => fifo.describe(&mut describe),
                State::Flows(flows) => flows.describe(&mut describe),
            }
            return;
        }
        let mut state = State::new(&params.discipline);
        self.drain(|mut item| {
            describe(&mut item);
            state.push(item);
        });
        self.state = state;
    }

    /// A packet comes at `now`, which is its `entered`. Each packet that is lost for it, itself
    /// or another, goes to `on_drop`.
    #[inline]
    pub(crate) fn enqueue(
        &mut self,
        now: Time,
        item: Item,
        drain: Drain,
        on_drop: &mut impl FnMut(Dropped),
    ) -> Enqueued {
        let (fifo, manager) = match &mut self.state {
            State::Line(fifo, manager) => (fifo, manager),
            State::Flows(flows) => return flows.enqueue(self.limit, item, drain, on_drop),
        };
        let ahead = Ahead {
            limit: self.limit,
            packets: fifo.len(),
            bytes: fifo.bytes(),
            drain,
        };
        let admission = match manager {
            Manager::DropTail => ahead.or_full(item.bytes, Admission::In),
            Manager::Red(red) => red.admit(now, &item, ahead, &mut self.random),
            Manager::CoDel(codel) => codel.admit(&item, ahead),
            Manager::Pie(pie) => pie.admit(now, &item, ahead, &mut self.random),
        };
        match admission {
            Admission::In => fifo.push(item),
            Admission::Marked => {
                fifo.push(item);
                return Enqueued::QueuedMarked;
            }
            Admission::Early | Admission::Full => {
                let early = admission == Admission::Early;
                on_drop(Dropped { item, early });
                return Enqueued::Dropped;
            }
        }
        Enqueued::Queued
    }

    /// The packet whose service starts at `now`, and whether it is to be marked as having met
    /// congestion (CE). Each packet that the discipline drops on the way goes to `on_drop`; so
    /// there may be none although some were waiting.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        on_drop: &mut impl FnMut(Dropped),
    ) -> Option<(Item, bool)> {
        let (fifo, manager) = match &mut self.state {
            State::Line(fifo, manager) => (fifo, manager),
            State::Flows(flows) => return flows.dequeue(now, on_drop),
        };
        let item = match manager {
            Manager::DropTail => fifo.pop(),
            Manager::Red(red) => red.dequeue(now, fifo),
            Manager::CoDel(codel) => return codel.dequeue(now, fifo, on_drop),
            Manager::Pie(pie) => pie.dequeue(now, fifo),
        };
        item.map(|item| (item, false))
    }

    /// Appends a packet without a decision, one that waited elsewhere.
    pub(crate) fn push(&mut self, item: Item) {
        self.state.push(item);
    }

    /// Takes out all that waits, in order of entry, without a decision: for links that go down.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Item)) {
        match &mut self.state {
            State::Line(fifo, _) => fifo.drain(&mut each),
            State::Flows(flows) => flows.drain(&mut each),
        }
    }

    /// Packets waiting.
    pub(crate) fn len(&self) -> usize {
        match &self.state {
            State::Line(fifo, _) => fifo.len(),
            State::Flows(flows) => flows.len(),
        }
    }

    /// Counted bytes waiting.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.state {
            State::Line(fifo, _) => fifo.bytes(),
            State::Flows(flows) => flows.bytes(),
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`Item::flow`] must be filled in.
    pub(crate) const fn needs_flow(&self) -> bool {
        matches!(self.state, State::Flows(_))
    }

    /// Whether [`Item::ecn_capable`] must be filled in.
    pub(crate) const fn needs_ecn(&self) -> bool {
        match &self.state {
            State::Line(_, Manager::DropTail) => false,
            State::Line(_, Manager::Red(red)) => red.params.ecn,
            State::Line(_, Manager::CoDel(codel)) => codel.params.ecn,
            State::Line(_, Manager::Pie(pie)) => pie.params.ecn,
            State::Flows(flows) => flows.marks(),
        }
    }
}
