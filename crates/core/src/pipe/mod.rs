//! One direction of a link: queue → serialisation → loss → delay → next node.
//!
//! Theory: a packet's departure is decided when its service starts. With a constant rate and drop-tail,
//! nothing between its entry and its start can change the departure, except a change of the pipe itself. So
//! departure, loss and due time are computed at entry, a pipe's packets are one chain in order of due time,
//! and a hop is one event. A change of the pipe recomputes the packets that have not departed. A lost packet
//! stays in the chain until it would have come out.
//!
//! That is a *plain* pipe. One whose parameters need more is *shaped* ([`shaped`]): each start of service
//! is an event. A plain pipe with packets inside becomes shaped when its parameters demand it, without
//! affecting any of them, and stays shaped until it is empty and the parameters are plain again. A link that
//! is down is shaped, too.
//!
//! Left out: the mechanisms, one small file each.

mod batch;
mod bit_errors;
mod change;
mod choice;
mod corrupt;
pub(crate) mod delay;
mod flight;
mod gauge;
mod jitter;
mod loss;
mod queue;
pub(crate) mod rate;
mod reshape;
mod sender;
mod shaped;
mod shaper;
mod trace;
mod wire;

use std::sync::Arc;

use crate::engine::record::Record;
use crate::observe::{PipeCounters, QueueUse};
use crate::parallel::LocalPipe;
use crate::pool::{LOST, NIL, Pool};
use crate::rng::Stream;
use crate::time::{Span, Time};
use crate::topology::{self, NodeKind, PipeParams};
use crate::units::{Framing, QueueLimit};
use crate::witness::PacketEvent;
use delay::{Delay, Moment};
use gauge::Gauge;
use loss::Loss;
use queue::{DropTail, Inside};
use rate::Server;
use sender::Sender;
use shaped::Shaped;

pub(crate) use batch::Batch;

/// A pipe and its packets, laid out by cache lines: in a plain pipe a packet that comes out touches the
/// first line, one that enters the first two, and one that has to wait the third as well.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Pipe {
    /// The chain of all packets inside a plain pipe, in order of entry and of due time.
    head: u32,
    /// Undefined while there is no head.
    tail: u32,
    /// Place among all pipes sorted by (receiving node, pipe); orders events of the same moment.
    pub(crate) rank: u32,
    /// The receiving node.
    pub(crate) to: u32,
    queue: DropTail,
    packets: u64,
    bytes: u64,
    busy_ns: u64,
    /// Packets inside a plain pipe.
    inside: u32,
    mtu: u16,
    /// Bytes that the framing adds to a packet.
    overhead: u8,
    /// Flags: [`LOSES`] and the following.
    traits: u8,

    delay: Delay,
    server: Server,

    limit: QueueLimit,
    drops_queue: u64,
    drops_loss: u64,
    shaped: Option<Box<Shaped>>,
    cold: Box<Cold>,
    loss: Loss,
    /// The gauge of a plain pipe; a shaped one keeps it in [`Shaped`].
    gauge: Option<Box<Gauge>>,
}

/// Flag of a pipe: it may lose packets.
const LOSES: u8 = 1;
/// Flag of a pipe: it is shaped.
const SHAPED: u8 = 2;
/// Flag of a pipe: the receiving node is a host.
const TO_HOST: u8 = 4;
/// Flag of a pipe: the receiving node is a router.
const TO_ROUTER: u8 = 8;
/// Flag of a pipe: it leads to another core.
const EXIT: u8 = 16;
/// Flag of a pipe: its queue is measured.
const GAUGED: u8 = 32;

const _: () = assert!(size_of::<Pipe>() <= 256);
const _: () = assert!(std::mem::offset_of!(Pipe, delay) == 64);
const _: () = assert!(std::mem::offset_of!(Pipe, limit) == 128);

/// Bytes that the framing adds to a packet.
const fn overhead(framing: Framing) -> u32 {
    framing.counted(0)
}

/// State that the fast path does not need, allocated separately to keep [`Pipe`] small.
#[derive(Debug)]
struct Cold {
    /// Shared with the topology until changed.
    params: Arc<PipeParams>,
    seed: u64,
    /// Keeps the pipe shaped, for tests.
    always_shaped: bool,
    /// Counters that only a shaped pipe has, from when this one was shaped.
    counters: Option<Box<PipeCounters>>,
}

/// The parts of the engine that a shaped pipe uses.
pub(crate) struct Context<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) record: &'a mut Record,
    /// The engine's time: nothing comes out earlier.
    pub(crate) floor: Time,
    /// The pipe's number.
    pub(crate) id: LocalPipe,
}

impl Context<'_> {
    /// Records that the pipe changed a packet.
    fn change(&mut self, index: u32, at: Time, event: PacketEvent) {
        self.record.changed(self.id, index, at, event, self.pool);
    }

    /// Records that a packet ended in the pipe at `at`.
    fn end(&mut self, index: u32, at: Time, event: PacketEvent) {
        self.record
            .ended_inside(self.id, index, at, event, self.pool);
    }
}

impl Pipe {
    /// An empty pipe that leads to a node of `kind`; shaped if its parameters or `always_shaped` demand it.
    pub(crate) fn new(
        pipe: &topology::Pipe,
        kind: NodeKind,
        rank: u32,
        seed: u64,
        always_shaped: bool,
    ) -> Self {
        let name = &pipe.name;
        let params = Arc::clone(&pipe.params);
        let mut pipe = Self {
            head: NIL,
            tail: NIL,
            rank,
            to: pipe.to.0,
            queue: DropTail::new(),
            packets: 0,
            bytes: 0,
            busy_ns: 0,
            inside: 0,
            mtu: u16::try_from(pipe.mtu).unwrap_or(u16::MAX), // no packet is longer
            overhead: overhead(params.framing) as u8,
            traits: match kind {
                NodeKind::Host => TO_HOST,
                NodeKind::Router => TO_ROUTER,
                NodeKind::Lan => 0,
            },
            delay: Delay::new(params.delay),
            server: Server::new(params.rate),
            limit: params.queue,
            drops_queue: 0,
            drops_loss: 0,
            shaped: None,
            loss: Loss::new(&params.loss, Stream::new(seed, name)),
            cold: Box::new(Cold {
                params,
                seed,
                always_shaped,
                counters: None,
            }),
            gauge: None,
        };
        if !pipe.cold.params.loss.is_never() {
            pipe.traits |= LOSES;
        }
        if always_shaped || !pipe.cold.params.is_plain() {
            let sender = Sender::new(&pipe.cold.params);
            pipe.shaped = Some(pipe.make_shaped(sender, name, Moment::default(), Time::ZERO));
            pipe.traits |= SHAPED;
        }
        pipe
    }

    /// The far end of a pipe from another core: holds the packets that come out of it.
    pub(crate) fn far_end(pipe: &topology::Pipe, kind: NodeKind, rank: u32) -> Self {
        let params = PipeParams {
            delay: pipe.params.delay,
            ..PipeParams::default()
        };
        let pipe = topology::Pipe {
            params: Arc::new(params),
            ..pipe.clone()
        };
        Self::new(&pipe, kind, rank, 0, false)
    }

    /// Appends, at the far end of a pipe, a packet that comes out at its `due`.
    pub(crate) fn hold(&mut self, index: u32, pool: &mut Pool) {
        pool[index].next = NIL;
        if self.head == NIL {
            self.head = index;
        } else {
            debug_assert!(pool[self.tail].due() <= pool[index].due());
            pool[self.tail].next = index;
        }
        self.tail = index;
        self.inside += 1;
    }

    /// Sets whether the pipe leads to another core.
    pub(crate) fn leads_out(&mut self, leads: bool) {
        let exit = if leads { EXIT } else { 0 };
        self.traits = self.traits & !EXIT | exit;
    }

    /// Whether the pipe leads to another core.
    #[inline]
    pub(crate) const fn is_exit(&self) -> bool {
        self.is(EXIT)
    }

    /// A lower bound of the time from a packet's entry until it comes out.
    pub(crate) fn least_delay(&self) -> Span {
        self.cold.params.least_delay()
    }

    pub(crate) fn params(&self) -> &PipeParams {
        &self.cold.params
    }

    #[inline]
    const fn is(&self, one: u8) -> bool {
        self.traits & one != 0
    }

    #[inline]
    pub(crate) const fn is_shaped(&self) -> bool {
        self.is(SHAPED)
    }

    /// Whether the receiving node is a host.
    #[inline]
    pub(crate) const fn leads_to_host(&self) -> bool {
        self.is(TO_HOST)
    }

    /// Whether the receiving node is a router.
    #[inline]
    pub(crate) const fn leads_to_router(&self) -> bool {
        self.is(TO_ROUTER)
    }

    /// The largest IP packet that it takes.
    #[inline]
    pub(crate) const fn mtu(&self) -> u32 {
        self.mtu as u32
    }

    /// The bytes that the framing counts for an IP packet of `ip_len`.
    #[inline]
    const fn counted(&self, ip_len: u32) -> u32 {
        ip_len + self.overhead()
    }

    #[inline]
    const fn overhead(&self) -> u32 {
        self.overhead as u32
    }

    /// The least time from an entry until the packet comes out, as far as it is known beforehand.
    pub(crate) fn lead(&self) -> Span {
        if self.is_shaped() {
            Span::ZERO
        } else {
            self.delay.span
        }
    }

    /// How long a packet that enters at `at`, not before `now`, waits for others. A lower bound.
    pub(crate) fn backlog(&self, at: Time, now: Time) -> Span {
        match &self.shaped {
            None => Span::from_ns(self.server.wait(at.as_ns())),
            Some(shaped) if self.cold.params.sends_steadily() => {
                let (_, bytes) = shaped.waiting();
                let rate = self.cold.params.rate;
                rate.map_or(Span::ZERO, |rate| rate.time_for(bytes))
                    .saturating_sub(at.since(now))
            }
            Some(_) => Span::ZERO,
        }
    }

    /// When the first packet inside a plain pipe comes out.
    #[inline]
    pub(crate) fn next_due(&self, pool: &Pool) -> Option<Moment> {
        (self.head != NIL).then(|| pool[self.head].due())
    }

    /// The first packet inside a plain pipe, `NIL` where there is none.
    #[inline]
    pub(crate) const fn first(&self) -> u32 {
        self.head
    }

    /// The delay of a plain pipe.
    pub(crate) fn constant_delay(&self) -> Option<Span> {
        (!self.is_shaped()).then_some(self.delay.span)
    }

    /// Enqueues a packet in a plain pipe at `entry`; it comes out no earlier than `floor`, the engine's
    /// time. False if the queue is full.
    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        index: u32,
        entry: Moment,
        floor: Time,
        pool: &mut Pool,
    ) -> bool {
        let bytes = self.counted(pool[index].ip_len());
        let ns = entry.time.as_ns();
        if !self.server.is_busy(ns) {
            self.queue.begin_at(index);
        } else if !self.has_room(ns, bytes, pool) {
            self.drops_queue += 1;
            return false;
        }
        let (start, departure) = self.server.serve(ns, bytes);
        self.busy_ns += departure.ns - start.ns;
        if self.is(GAUGED)
            && let Some(gauge) = &mut self.gauge
        {
            gauge.enter(ns, start.ceil());
        }
        let lost = self.is(LOSES) && self.loss.hits();
        let mut due = self
            .delay
            .carry(entry, Time::from_ns(departure.ceil()), self.delay.span);
        if due.time < floor {
            let shift = floor.since(due.time).as_ns();
            pool[index].shift = u32::try_from(shift).unwrap_or(u32::MAX);
            due = Moment {
                time: floor,
                microstep: 0,
            };
        }
        let packets = pool.all_mut();
        let packet = &mut packets[index as usize];
        packet.enter(due, departure, lost);
        packet.path_delay += self.delay.span;
        self.queue.push(bytes);
        self.inside += 1;
        if self.head == NIL {
            self.head = index;
        } else {
            packets[self.tail as usize].next = index;
        }
        self.tail = index;
        true
    }

    /// Whether the queue of a plain pipe has room for `bytes` at `ns`.
    #[inline]
    fn has_room(&mut self, ns: u64, bytes: u32, pool: &Pool) -> bool {
        if self.queue.has_surely_room(self.limit, bytes) {
            return true;
        }
        self.queue.catch_up(self.inside(), ns, pool);
        self.queue
            .has_room(self.limit, bytes, self.overhead(), pool)
    }

    /// The packets inside a plain pipe.
    const fn inside(&self) -> Inside {
        Inside {
            head: self.head,
            packets: self.inside,
            overhead: self.overhead(),
        }
    }

    /// Takes out the first packet of a plain pipe, which must exist.
    #[inline]
    pub(crate) fn pop(&mut self, pool: &Pool) -> u32 {
        let index = self.head;
        let packet = &pool[index];
        let bytes = self.counted(packet.ip_len());
        self.inside -= 1;
        self.head = packet.next;
        if packet.is(LOST) {
            self.drops_loss += 1;
        } else {
            self.packets += 1;
            self.bytes += u64::from(bytes);
        }
        index
    }

    /// Takes out the first packets of a plain pipe, after which `head` is the first. Those of them that were
    /// lost are counted by [`Pipe::lose`].
    #[inline]
    pub(crate) fn pop_all(&mut self, taken: &Batch, head: u32) {
        self.inside -= taken.packets;
        self.packets += u64::from(taken.packets);
        self.bytes += self.counted_of(taken);
        self.head = head;
    }

    /// Undoes [`Pipe::pop_all`]: `head` was the first before.
    pub(crate) fn put_back(&mut self, taken: &Batch, head: u32) {
        self.inside += taken.packets;
        self.packets -= u64::from(taken.packets);
        self.bytes -= self.counted_of(taken);
        self.head = head;
    }

    /// The counted bytes of a batch.
    #[inline]
    fn counted_of(&self, taken: &Batch) -> u64 {
        taken.bytes + u64::from(self.overhead) * u64::from(taken.packets)
    }

    /// Counts a packet of a popped batch, of `ip_len`, as lost.
    pub(crate) fn lose(&mut self, ip_len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(self.counted(ip_len));
        self.drops_loss += 1;
    }

    /// The last packet inside a plain pipe.
    #[inline]
    pub(crate) fn last(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.tail)
    }

    /// Loads the cache lines that an entry needs.
    #[inline]
    pub(crate) fn prefetch(&self) -> u32 {
        self.tail ^ self.delay.span.as_ns() as u32
    }

    /// The counters, the sending time only as far as it lies before `now`.
    pub(crate) fn counters(&self, now: Time) -> PipeCounters {
        if let Some(shaped) = &self.shaped {
            return shaped.counters(now);
        }
        let ahead = self.server.busy_until().ns.saturating_sub(now.as_ns());
        PipeCounters {
            packets: self.packets,
            bytes: self.bytes,
            drops_queue: self.drops_queue,
            drops_loss: self.drops_loss,
            busy_ns: self.busy_ns.saturating_sub(ahead),
            ..self.cold.counters.as_deref().copied().unwrap_or_default()
        }
    }

    /// When the service of the packet that entered this plain pipe last begins.
    pub(crate) fn last_start(&self, ip_len: u32) -> Time {
        let departure = self.server.busy_until();
        let start = self.server.start_of(departure, self.counted(ip_len));
        Time::from_ns(start.ceil())
    }

    /// Measures the queue from `now` on, where it is not measured yet.
    pub(crate) fn measure(&mut self, now: Time, pool: &Pool) {
        if self.is(GAUGED) {
            return;
        }
        let mut gauge = Gauge::new(now);
        gauge.set_level(now.as_ns(), self.waiting(now, pool).0);
        self.traits |= GAUGED;
        match &mut self.shaped {
            Some(shaped) => shaped.gauge = Some(Box::new(gauge)),
            None => self.gauge = Some(Box::new(gauge)),
        }
    }

    /// The use of a measured queue since the last call.
    pub(crate) fn take_queue_use(&mut self, now: Time) -> QueueUse {
        let shaped = self
            .shaped
            .as_mut()
            .and_then(|shaped| shaped.gauge.as_mut());
        let gauge = self.gauge.as_mut().or(shaped);
        gauge.map_or_else(QueueUse::default, |gauge| gauge.take(now))
    }

    /// Packets and counted bytes that wait at `now`, without the packet in service.
    pub(crate) fn waiting(&self, now: Time, pool: &Pool) -> (u32, u64) {
        if let Some(shaped) = &self.shaped {
            return shaped.waiting();
        }
        let sent_later = |&index: &u32| pool[index].sent() > now;
        let first = self
            .queue
            .first_unsent(self.inside(), &self.server, now, pool);
        let inside = pool.list(first).filter(sent_later);
        inside.skip(1).fold((0, 0), |(packets, bytes), index| {
            let counted = self.counted(pool[index].ip_len());
            (packets + 1, bytes + u64::from(counted))
        })
    }
}
