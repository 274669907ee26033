//! Changes of a plain pipe while packets are inside.
//!
//! All packets that the pipe has not sent are recomputed in their order: which are lost, and when each
//! departs and comes out. The rest of the packet in service is carried over exactly. Its departure, to the
//! remainder of a nanosecond, is not stored; it is found from the sender's by walking back over the packets
//! behind it. That keeps a packet's descriptor within one cache line, and changes are rare.
//!
//! Left out: changes of a shaped pipe ([`super::shaped`]).

use std::sync::Arc;

use super::delay::Moment;
use super::rate::{Exact, Server};
use super::{Context, LOSES, Pipe, overhead};
use crate::pool::{LOST, NIL, Pool};
use crate::time::Time;
use crate::topology::PipeParams;

impl Pipe {
    /// Changes the pipe, which is called `name`, at `now`. Rate and framing hold at once, pro rata
    /// for the packet in service; delay and loss hold for packets that depart from now on, the queue
    /// for packets that enter from now on. Of a shaped pipe, see [`super::shaped`].
    pub(crate) fn set(
        &mut self,
        params: PipeParams,
        name: &str,
        now: Time,
        context: &mut Context<'_>,
    ) {
        if !params.is_plain() {
            self.shape(name, now, context);
        }
        let old = std::mem::replace(&mut self.cold.params, Arc::new(params));
        let new = &self.cold.params;
        self.overhead = overhead(new.framing) as u8;
        let loses = if new.loss.is_never() { 0 } else { LOSES };
        self.traits = self.traits & !LOSES | loses;
        if let Some(shaped) = &mut self.shaped {
            return shaped.set(&old, new, now, context);
        }
        let pool = &mut *context.pool;
        self.limit = new.queue;
        self.queue.find(self.inside(), now.as_ns(), pool);
        let loses_anew = old.loss != new.loss;
        let old_overhead = overhead(old.framing);
        let serves_anew = (old.rate, old.framing, old.delay) != (new.rate, new.framing, new.delay);
        if loses_anew {
            self.lose_anew(pool);
        }
        if serves_anew {
            self.serve_anew(old_overhead, now, context);
        }
    }

    /// Draws the losses again, by the new parameters, of all packets from the queue's front on.
    fn lose_anew(&mut self, pool: &mut Pool) {
        self.unlose(pool);
        self.loss.set(&self.cold.params.loss);
        let mut index = self.queue.front();
        while index != NIL {
            pool[index].put(LOST, self.loss.hits());
            index = pool[index].next;
        }
    }

    /// Takes back the draws of loss for all packets from the queue's front on.
    pub(super) fn unlose(&mut self, pool: &mut Pool) {
        let mut draws = 0;
        let mut index = self.queue.front();
        while index != NIL {
            draws += 1;
            pool[index].put(LOST, false);
            index = pool[index].next;
        }
        self.loss.take_back(draws);
    }

    /// Recomputes, by the new parameters, when the packets come out that have not departed at `now`.
    fn serve_anew(&mut self, old_overhead: u32, now: Time, context: &mut Context<'_>) {
        let pool = &mut *context.pool;
        let now_ns = now.as_ns();
        let first = self.queue.front();
        let first_departure = self.departure_of(first, old_overhead, pool);
        let params = &self.cold.params;
        let old_delay = std::mem::replace(&mut self.delay.span, params.delay);
        let old_server = std::mem::replace(&mut self.server, Server::new(params.rate));
        let mut previous = self.due_before(first, pool);
        self.server
            .restart(old_server.busy_until().ns.min(now_ns), 0);
        let mut old_free = now_ns;
        if let Some(gauge) = &mut self.gauge {
            gauge.run_before(now_ns + 1);
        }
        let mut waiting = 0;
        let mut index = first;
        while index != NIL {
            // Only arrivals handed over ahead of time enter after `now`.
            let entered = pool[index].entered;
            let entry = entered.as_ns().max(now_ns);
            let packet = &mut pool[index];
            let in_service = index == first && entry == now_ns;
            let (start, departure) = if in_service {
                let work = old_server.work_left(first_departure, now_ns);
                (Exact::at(now_ns), self.server.restart(now_ns, work))
            } else {
                let bytes = self.counted(packet.ip_len());
                let served = self.server.serve(entry, bytes);
                if let Some(gauge) = &mut self.gauge {
                    gauge.move_start(waiting, served.0.ceil());
                    waiting += 1;
                }
                served
            };
            let old_time = packet.sent_in() - old_free.max(entry);
            let busy = self.busy_ns + (departure.ns - start.ns);
            self.busy_ns = busy.saturating_sub(old_time);
            old_free = packet.sent_in();
            packet.set_departure(departure);
            let others = packet.path_delay.saturating_sub(old_delay);
            packet.path_delay = others + self.delay.span;
            let time = Time::from_ns(departure.ceil()) + self.delay.span;
            // Out at the instant of its entry: that can only be an arrival, at microstep 0.
            let microstep = u16::from(time == entered);
            previous = previous.max(Moment { time, microstep });
            packet.set_due(previous);
            let next = packet.next;
            if !in_service {
                let start = Time::from_ns(start.ceil());
                context.record.served(context.id, index, start, pool);
            }
            index = next;
        }
        if let Some(gauge) = &mut self.gauge {
            gauge.run_before(now_ns + 1);
        }
        self.delay.last = previous;
        // Also the packet in front of the first that is served anew knew when that one was due.
        let mut index = self.head;
        while index != NIL {
            pool[index].forget_behind();
            index = pool[index].next;
        }
    }

    /// When packet `first`, which is inside a plain pipe with such an overhead, departs: from
    /// when the last one does, packet by packet to the front. That is exact as long as they are
    /// sent without a gap, and none is behind one where callers keep to the order of changes and
    /// arrivals; before a gap, it is the end of the nanosecond.
    pub(super) fn departure_of(&self, first: u32, overhead: u32, pool: &Pool) -> Exact {
        let inside: Vec<u32> = pool.list(first).collect();
        let mut departure = self.server.busy_until();
        for pair in inside.windows(2).rev() {
            let (packet, behind) = (&pool[pair[0]], &pool[pair[1]]);
            let bytes = behind.ip_len() + overhead;
            departure = self.server.start_of(departure, bytes);
            if (departure.ns, departure.ceil()) != (packet.sent_in(), packet.sent().as_ns()) {
                departure = Exact::at(packet.sent().as_ns());
            }
        }
        departure
    }

    /// When the packet in front of `index` comes out; of an empty pipe, nothing.
    pub(super) fn due_before(&self, index: u32, pool: &Pool) -> Moment {
        let before = pool
            .list(self.head)
            .take_while(|&other| other != index)
            .last();
        before.map_or_else(Moment::default, |other| pool[other].due())
    }
}
