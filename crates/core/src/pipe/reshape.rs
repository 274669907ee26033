//! A plain pipe becomes shaped, and plain again.
//!
//! Theory: a shaped pipe ([`super::shaped`]) decides at each start of service, a plain pipe at entry. So
//! packets that have not departed are handed over as if they had not been served, and those that have
//! departed as they are: no packet's time or event depends on the form. A pipe becomes plain again only with
//! nothing inside.
//!
//! Left out: what a shaped pipe does.

use super::delay::{Delay, Moment};
use super::queue::DropTail;
use super::rate::Server;
use super::sender::{Sender, Served};
use super::shaped::{Handover, Shaped};
use super::{Context, Pipe, SHAPED};
use crate::pending::{self, Key};
use crate::pool::{LOST, NIL, Pool};
use crate::time::Time;

impl Pipe {
    /// The shaped form of this pipe, with nothing inside.
    pub(super) fn make_shaped(
        &self,
        sender: Sender,
        name: &str,
        last: Moment,
        now: Time,
    ) -> Box<Shaped> {
        let handover = Handover {
            sender,
            loss: self.loss.clone(),
            last,
            counters: self.counters(now),
        };
        let cold = &self.cold;
        Box::new(Shaped::new(&cold.params, handover, now, cold.seed, name))
    }

    /// Makes a plain pipe shaped at `now`, without affecting its packets while its parameters stay.
    pub(super) fn shape(&mut self, name: &str, now: Time, context: &mut Context<'_>) {
        if self.shaped.is_some() {
            return;
        }
        self.queue.find(self.inside(), now.as_ns(), context.pool);
        self.unlose(context.pool);
        let first = self.queue.front();
        let in_service =
            (first != NIL).then(|| self.departure_of(first, self.overhead(), context.pool));
        let sender = Sender::even(&self.server, self.cold.params.rate, in_service);
        let last = self.due_before(first, context.pool);
        let mut shaped = self.make_shaped(sender, name, last, now);
        let mut index = std::mem::replace(&mut self.head, NIL);
        let mut has_departed = true;
        while index != NIL {
            let next = context.pool[index].next;
            has_departed &= index != first;
            if !has_departed {
                self.hand_over(index, index == first, now, &mut shaped, context.pool);
            } else if context.pool[index].is(LOST) {
                let sent = context.pool[index].sent();
                shaped.lose(index, sent, context);
            } else {
                shaped.flight.push(index, context.pool);
            }
            index = next;
        }
        self.inside = 0;
        shaped.gauge = self.gauge.take();
        if let Some(gauge) = &mut shaped.gauge {
            gauge.run_before(now.as_ns() + 1);
            gauge.shape();
        }
        self.shaped = Some(shaped);
        self.traits |= SHAPED;
    }

    /// Hands a packet that has not departed to the shaped form, as if it had not been served.
    fn hand_over(
        &self,
        index: u32,
        is_in_service: bool,
        now: Time,
        shaped: &mut Shaped,
        pool: &mut Pool,
    ) {
        let entered = pool[index].entered.min(now);
        let packet = &mut pool[index];
        packet.path_delay = packet.path_delay.saturating_sub(self.delay.span);
        packet.set_due(Moment {
            time: entered,
            microstep: 0,
        });
        let (sent, sent_in) = (packet.sent(), packet.sent_in());
        let served = is_in_service.then(|| Served {
            departure: sent,
            busy: (now.as_ns().min(sent_in), sent_in),
        });
        shaped.adopt(&self.cold.params, index, served, pool);
    }

    /// Makes the pipe plain again if its parameters allow it and nothing is inside.
    pub(super) fn unshape(&mut self, now: Time) {
        let params = &self.cold.params;
        let may = params.is_plain() && !self.cold.always_shaped;
        let Some(mut shaped) = self.shaped.take_if(|shaped| may && shaped.is_idle(now)) else {
            return;
        };
        self.server = Server::new(params.rate);
        self.server.restart(now.as_ns(), 0);
        self.traits &= !SHAPED;
        self.limit = params.queue;
        self.queue = DropTail::new();
        self.delay = Delay::new(params.delay);
        self.loss = shaped.wire.loss.clone();
        self.gauge = shaped.gauge.take();
        let counters = shaped.counters(now);
        self.packets = counters.packets;
        self.bytes = counters.bytes;
        self.drops_queue = counters.drops_queue;
        self.drops_loss = counters.drops_loss;
        self.busy_ns = counters.busy_ns;
        self.cold.counters = Some(Box::new(counters));
    }

    /// Takes the link down at `now`, or up again. See [`shaped`].
    pub(crate) fn set_up(
        &mut self,
        (up, keep_queue): (bool, bool),
        name: &str,
        now: Time,
        context: &mut Context<'_>,
    ) {
        if !up {
            self.shape(name, now, context);
        }
        if let Some(shaped) = &mut self.shaped {
            shaped.set_up(&self.cold.params, up, keep_queue, now, context);
            self.unshape(now);
        }
    }

    /// Whether the link is up.
    pub(crate) fn is_up(&self) -> bool {
        self.shaped.as_ref().is_none_or(|shaped| shaped.is_up())
    }

    /// Enqueues a packet in a shaped pipe at `entry`.
    pub(crate) fn enter_shaped(&mut self, index: u32, entry: Moment, context: &mut Context<'_>) {
        if let Some(shaped) = &mut self.shaped {
            shaped.enter(&self.cold.params, index, entry, context);
        }
    }

    /// Handles the event of `key` in a shaped pipe; returns the packet that comes out, if one does.
    pub(crate) fn step_shaped(&mut self, key: Key, context: &mut Context<'_>) -> Option<u32> {
        let shaped = self.shaped.as_mut()?;
        let params = &self.cold.params;
        if pending::is_out(key) {
            return shaped.pop(params, context.pool);
        }
        shaped.alarmed();
        shaped.run_to(params, pending::moment(key).time, context);
        None
    }

    /// The keys of a shaped pipe that are not in the pending set yet: its next departure and the head of its
    /// flight. The caller puts them in.
    pub(crate) fn announce(&mut self, pool: &Pool) -> [Option<Key>; 2] {
        let Some(shaped) = &mut self.shaped else {
            return [None, None];
        };
        let departure = shaped.announce();
        let head = shaped.flight.announce(pool);
        [
            departure.map(|time| pending::departure_key(time, self.rank)),
            head.map(|due| pending::key(due, self.rank)),
        ]
    }

    /// Notes that the pending set has dropped this pipe.
    pub(crate) fn forget(&mut self) {
        if let Some(shaped) = &mut self.shaped {
            shaped.forget();
        }
    }
}
