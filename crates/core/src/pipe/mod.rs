//! One direction of a link: queue → serialisation → loss → delay → next node.
//!
//! Theory: what decides is the start of service. With a constant rate and drop-tail nothing
//! happens between a packet's entry and its start that could change its departure, save a
//! change of the pipe itself; so departure, loss and due time are computed at entry, a
//! pipe's packets are one chain in order of due time, and a hop is one event. A changed rate
//! computes anew what has not departed. A lost packet stays in the chain until it would have
//! come out.
//!
//! Left out: disciplines that decide at dequeue, links that are down, reordering, duplication,
//! corruption.

mod bit_errors;
mod choice;
mod corrupt;
pub(crate) mod delay;
mod flight;
mod jitter;
mod loss;
mod queue;
pub(crate) mod rate;
mod sender;
mod shaped;
mod shaper;
mod trace;
mod wire;

use crate::observe::PipeCounters;
use crate::pool::{NIL, Pool};
use crate::rng::Stream;
use crate::time::Time;
use crate::topology::{self, PipeParams};
use delay::{Delay, Moment};
use loss::Loss;
use queue::DropTail;
use rate::{Exact, Server};

/// A pipe and the packets in it.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The chain of all packets inside, in order of entry and of due time.
    head: u32,
    tail: u32,
    /// Place among all pipes by (receiving node, pipe): its rank among equal times.
    pub(crate) rank: u32,
    /// The receiving node.
    pub(crate) to: u32,
    pub(crate) mtu: u32,
    server: Server,
    queue: DropTail,
    delay: Delay,
    counters: PipeCounters,
    params: PipeParams,
    loss: Loss,
}

impl Pipe {
    pub(crate) fn new(pipe: &topology::Pipe, rank: u32, seed: u64) -> Self {
        let params = pipe.params.clone();
        Self {
            head: NIL,
            tail: NIL,
            rank,
            to: pipe.to.0,
            mtu: pipe.mtu,
            server: Server::new(params.rate),
            queue: DropTail::new(params.queue, params.framing),
            delay: Delay::new(params.delay),
            counters: PipeCounters::default(),
            loss: Loss::new(&params.loss, Stream::new(seed, &pipe.name)),
            params,
        }
    }

    pub(crate) const fn params(&self) -> &PipeParams {
        &self.params
    }

    /// When the first packet inside comes out.
    #[inline]
    pub(crate) fn next_due(&self, pool: &Pool) -> Option<Moment> {
        (self.head != NIL).then(|| pool[self.head].due)
    }

    /// A packet enters at `entry` and comes out no earlier than `floor`; false when the queue
    /// has no room for it.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        index: u32,
        entry: Moment,
        floor: Time,
        pool: &mut Pool,
    ) -> bool {
        let bytes = self.params.framing.counted(pool[index].ip_len);
        let ns = entry.time.as_ns();
        if self.server.is_busy(ns) && !self.queue.has_room(ns, bytes, pool) {
            self.counters.drops_queue += 1;
            return false;
        }
        let (start, departure) = self.server.serve(ns, bytes);
        self.counters.busy_ns += departure.ns - start.ns;
        let lost = self.loss.hits();
        let mut due = self
            .delay
            .carry(entry, Time::from_ns(departure.ceil()), self.delay.span);
        if due.time < floor {
            let shift = floor.since(due.time).as_ns();
            pool.origin_mut(index).staleness = u32::try_from(shift).unwrap_or(u32::MAX);
            due = Moment {
                time: floor,
                microstep: 0,
            };
            self.delay.last = due;
        }
        let packet = &mut pool[index];
        packet.due = due;
        packet.departure = departure;
        packet.delay = self.delay.span;
        packet.path_delay += self.delay.span;
        packet.lost = lost;
        packet.next = NIL;
        self.queue.push(index, bytes);
        match self.tail {
            NIL => self.head = index,
            tail => pool[tail].next = index,
        }
        self.tail = index;
        true
    }

    /// Takes out the first packet, which must exist.
    #[inline]
    pub(crate) fn pop(&mut self, pool: &Pool) -> u32 {
        let index = self.head;
        let packet = &pool[index];
        let bytes = self.params.framing.counted(packet.ip_len);
        self.queue.pop(index, bytes, packet.next);
        self.head = packet.next;
        if self.head == NIL {
            self.tail = NIL;
        }
        if packet.lost {
            self.counters.drops_loss += 1;
        } else {
            self.counters.packets += 1;
            self.counters.bytes += u64::from(bytes);
        }
        index
    }

    /// Changes the pipe at `now`. Rate and framing hold at once, pro rata for the packet in
    /// service; delay, loss and queue hold for packets that enter from now on.
    pub(crate) fn set(&mut self, params: PipeParams, now: Time, pool: &mut Pool) {
        let old = std::mem::replace(&mut self.params, params);
        let new = &self.params;
        self.delay.span = new.delay;
        self.loss.set(&new.loss);
        self.queue.catch_up(now.as_ns(), pool);
        self.queue.set(new.queue, new.framing, pool);
        if (old.rate, old.framing) != (new.rate, new.framing) {
            self.serve_anew(now, pool);
        }
    }

    /// Computes the departures of all that have not departed at `now` with the rate of `params`.
    fn serve_anew(&mut self, now: Time, pool: &mut Pool) {
        let now_ns = now.as_ns();
        let framing = self.params.framing;
        let old_server = std::mem::replace(&mut self.server, Server::new(self.params.rate));
        let first = self.queue.front();
        let mut previous = self.due_before(first, pool);
        self.server
            .restart(old_server.busy_until().ns.min(now_ns), 0);
        let mut old_free = Exact::at(now_ns);
        let mut index = first;
        while index != NIL {
            // Only arrivals that were handed over ahead of time enter after `now`.
            let entered = pool.origin(index).entered;
            let entry = entered.as_ns().max(now_ns);
            let packet = &mut pool[index];
            let in_service = index == first && entry == now_ns;
            let (start, departure) = if in_service {
                let work = old_server.work_left(packet.departure, now_ns);
                (Exact::at(now_ns), self.server.restart(now_ns, work))
            } else {
                self.server.serve(entry, framing.counted(packet.ip_len))
            };
            let old_time = packet.departure.ns - old_free.or_at(entry).ns;
            let busy = self.counters.busy_ns + (departure.ns - start.ns);
            self.counters.busy_ns = busy.saturating_sub(old_time);
            old_free = packet.departure;
            packet.departure = departure;
            let time = Time::from_ns(departure.ceil()) + packet.delay;
            // Out at the instant of its entry: that can only be an arrival, at microstep 0.
            let microstep = u32::from(time == entered);
            packet.due = previous.max(Moment { time, microstep });
            previous = packet.due;
            index = packet.next;
        }
        self.delay.last = previous;
    }

    /// When the packet in front of `index` comes out; of an empty pipe, nothing.
    fn due_before(&self, index: u32, pool: &Pool) -> Moment {
        let before = pool
            .list(self.head)
            .take_while(|&other| other != index)
            .last();
        before.map_or_else(Moment::default, |other| pool[other].due)
    }

    /// The counters, the sending time only as far as it lies before `now`.
    pub(crate) fn counters(&self, now: Time) -> PipeCounters {
        let ahead = self.server.busy_until().ns.saturating_sub(now.as_ns());
        PipeCounters {
            busy_ns: self.counters.busy_ns.saturating_sub(ahead),
            ..self.counters
        }
    }

    /// Packets and counted bytes that wait at `now`, without the packet in service.
    pub(crate) fn waiting(&self, now: Time, pool: &Pool) -> (u32, u64) {
        let sent_later = |&index: &u32| pool[index].departure.ceil() > now.as_ns();
        let inside = pool.list(self.queue.front()).filter(sent_later);
        let framing = self.params.framing;
        inside.skip(1).fold((0, 0), |(packets, bytes), index| {
            (
                packets + 1,
                bytes + u64::from(framing.counted(pool[index].ip_len)),
            )
        })
    }
}
