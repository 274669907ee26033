//! Modelled traffic: hosts and flows without programs, clock, input or output.
//!
//! Purpose: modelled hosts and the ends of their flows in one state machine. [`Traffic::handle_packet`]
//! takes what comes out of the network at a modelled host, [`Traffic::handle_timeout`] lets time
//! pass, [`Traffic::poll_transmit`] gives what the hosts send, [`Traffic::poll_timeout`] when to
//! come back. TCP endpoints are those of [`crate::tcp`]; packets have real headers
//! ([`longhaul_core::engine::Modelled`]).
//!
//! **Ends.** Each end of a flow has only its own host's state, and learns of the other end only through
//! the network. So the hosts of a run may be spread over several `Traffic`s in any way, with the same results.
//! They share a [`FlowTable`] that never changes ([`Traffic::holding`]); [`results`] joins what they
//! report.
//!
//! **Order.** What happens at one time at a host happens in this order: packets in the order in
//! which they are handed over, flows that begin, timers; flows and timers in the order of flow, side
//! and connection. A packet first lets everything happen that is due before it, and everything that
//! leaves is stamped with the time of its cause. So the driver may advance the network in steps of
//! any width within which no packet can be an answer to another one, and the results are those of
//! single steps.
//!
//! **Cost.** A flow that is not under way takes 64 bytes, its result included. Ends are allocated when
//! they start and freed when they are done. A packet finds its end by one lookup in a hash table; moving a
//! timer later costs a comparison.
//!
//! `docs/traffic-model.md` describes what applications do. Left out: payload, reassembly, DNS.

mod connections;
mod context;
mod datagrams;
mod directory;
mod draws;
mod end;
mod kind;
mod outbox;
mod parts;
mod report;
mod side;
mod slots;
mod source;
mod spec;
mod strays;
mod table;
#[cfg(test)]
mod tests;
mod time_wait;
mod timers;
mod wire;

use std::sync::Arc;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;

pub use connections::Connection;
pub use outbox::Transmit;
pub use report::{
    DatagramFigures, FlowResult, Outcome, Part, RequestFigures, RttFigures, Strays, WindowPoint,
};
pub use side::Side;
pub use source::Source;
pub use spec::{
    Amount, Application, Error, FIRST_PORT, FlowSpec, Host, IpVersion, MIN_PAYLOAD, Name, Peer,
    Transport,
};
pub use table::FlowTable;

use crate::router::RouterReplies;
use context::Context;
use datagrams::{Receiver, Sender};
use end::{Afterwards, Ask, End};
use slots::{Active, Key, Slots};
use timers::Owner;
use wire::Envelope;

/// How many packets to give to [`Traffic::prefetch`] at once.
pub const PREFETCH_BATCH: usize = 32;

/// Modelled hosts of a run, and the ends of its flows there.
#[derive(Debug)]
pub struct Traffic {
    context: Context,
    /// Flows with an end here, by their starts.
    order: Vec<u32>,
    /// How many of them have begun.
    begun: usize,
    slots: Slots,
    replies: RouterReplies,
    strays: Strays,
}

impl Traffic {
    /// The traffic of `flows` among `hosts`, all of them held here, drawing from `seed`.
    ///
    /// # Errors
    /// Where a flow cannot be; see [`Error`].
    pub fn new(
        hosts: Vec<Host>,
        flows: impl IntoIterator<Item = FlowSpec>,
        seed: u64,
    ) -> Result<Self, Error> {
        let table = Arc::new(FlowTable::new(hosts, flows)?);
        Ok(Self::holding(table, seed, |_| true))
    }

    /// The ends of a table's flows at those hosts that `holds` names; packets come for no others.
    /// Each host of a table is to be held once in a run, with the same seed.
    pub fn holding(table: Arc<FlowTable>, seed: u64, holds: impl Fn(NodeId) -> bool) -> Self {
        let context = Context::new(table, seed, &holds);
        let (table, parts) = (&context.table, &context.parts);
        let is_here = |&flow: &u32| Side::BOTH.into_iter().any(|side| parts.holds(flow, side));
        let mut order: Vec<u32> = (0..table.len() as u32).filter(is_here).collect();
        order.sort_by_key(|&flow| (table.flow(flow).start, table.node(flow, Side::Opener), flow));
        order.shrink_to_fit();
        Self {
            context,
            order,
            begun: 0,
            slots: Slots::default(),
            replies: RouterReplies::new(),
            strays: Strays::default(),
        }
    }

    /// A packet of `ip_len` bytes has come out at `host` at `now`; `headers` are the first bytes
    /// of its frame, and the rest are zeros or do not matter. First everything happens that is
    /// due before `now`.
    pub fn handle_packet(&mut self, now: Time, host: NodeId, headers: &[u8], ip_len: u32) {
        if let Some(before) = now.as_ns().checked_sub(1) {
            self.handle_timeout(Time::from_ns(before));
        }
        let Some(envelope) = Envelope::read(headers, ip_len) else {
            return self.answer(now, host, headers, ip_len);
        };
        if !envelope.is_sound(headers) {
            self.strays.damaged += 1;
            return;
        }
        let Some(slot) = self.slots.find(&key_of(host, &envelope)) else {
            return self.refuse(now, host, headers, ip_len, &envelope);
        };
        let is_over = match self.slots.get_mut(slot) {
            Active::Tcp(end) => {
                end.handle(&mut self.context, now, &envelope, headers);
                end.is_over() || end.successor.is_some()
            }
            Active::Receiver(receiver) => {
                let numbers = envelope.numbers(headers);
                let is_ours =
                    numbers.is_some_and(|numbers| receiver.handle(&mut self.context, now, numbers));
                self.strays.unknown += u64::from(!is_ours);
                receiver.is_over()
            }
            Active::Sender(_) => {
                self.strays.unknown += 1; // nobody answers datagrams
                false
            }
            Active::Free => false,
            Active::Listening if End::opens(envelope.flags(headers)) => {
                self.accept(slot, now, &envelope, headers);
                false
            }
            // Of a connection that this end does not have (RFC 9293 §3.10.7.1 and 2).
            Active::Listening | Active::Failed => {
                return self.answer(now, host, headers, ip_len);
            }
        };
        if is_over {
            self.clean(slot, now);
        }
    }

    /// Prefetches the endpoints of the next packets, each given by its host, headers and IP length. Changes
    /// nothing. With many flows under way, each step to an endpoint (key, slot, end) is a cache miss; done
    /// for many packets together the misses overlap, and the packets then find everything in the cache.
    pub fn prefetch<'a>(&self, coming: impl Iterator<Item = (NodeId, &'a [u8], u32)>) {
        let mut slots = [None; PREFETCH_BATCH];
        for (slot, (host, headers, ip_len)) in slots.iter_mut().zip(coming) {
            let key = Envelope::read(headers, ip_len).map(|envelope| key_of(host, &envelope));
            *slot = key.and_then(|key| self.slots.find(&key));
        }
        let ends = slots.map(|slot| match self.slots.get(slot?) {
            Active::Tcp(end) => Some(&**end),
            _ => None,
        });
        let ends = ends.into_iter().flatten();
        std::hint::black_box(ends.fold(0, |seen, end| seen ^ end.prefetch()));
    }

    /// Handles everything that is due at or before `now`, each at its own time.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(next) = self.poll_timeout()
            && next <= now
        {
            if let Some(flow) = self.next_start().filter(|&(at, _)| at == next) {
                self.begun += 1;
                self.start(flow.1, next);
            } else if let Some((at, owner)) = self.context.timers.pop(now) {
                self.ring(owner, at);
            }
        }
    }

    /// When [`Traffic::handle_timeout`] is to be called next. It may turn out that nothing is
    /// due then.
    pub fn poll_timeout(&self) -> Option<Time> {
        let start = self.next_start().map(|(at, _)| at);
        let timer = self.context.timers.next();
        match (start, timer) {
            (Some(start), Some(timer)) => Some(start.min(timer)),
            (start, timer) => start.or(timer),
        }
    }

    /// The next packet that leaves.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.context.outbox.pop()
    }

    /// Whether a packet that has come out at a host which also has a kernel is for a modelled
    /// endpoint: TCP and UDP to ports from [`FIRST_PORT`] on, and ICMP errors about what comes from
    /// there.
    pub fn owns(&self, host: NodeId, headers: &[u8]) -> bool {
        let ip_len = headers.len().saturating_sub(ETHERNET_LEN) as u32;
        let port = match Envelope::read(headers, ip_len) {
            Some(envelope) => Some(envelope.port),
            None => strays::quoted_port(headers),
        };
        self.context.table.host(host).is_some() && port.is_some_and(|port| port >= FIRST_PORT)
    }

    /// Bounded flows that are not over yet, of those whose deciding end is held here. Each flow has one such end, so the traffic of a run is done when the sum over all its
    /// shares is 0.
    pub fn awaited(&self) -> usize {
        self.context.parts.awaited
    }

    /// Whether all flows that end by themselves are over, where all ends are held here.
    pub fn is_done(&self) -> bool {
        self.awaited() == 0
    }

    /// How many flows are over, and how many there are, of those whose deciding end is held here.
    /// Both may be added up over the shares of a run.
    pub fn progress(&self) -> (usize, usize) {
        let parts = &self.context.parts;
        (parts.decided - parts.unfinished, parts.decided)
    }

    /// Counters of packets that no end expected; they may be added up over the shares of a run.
    pub const fn strays(&self) -> Strays {
        self.strays
    }

    /// What the ends held here have done so far, by flow and side.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let under_way = self.under_way();
        let flows = 0..self.context.table.len() as u32;
        let ends = flows.flat_map(|flow| Side::BOTH.map(|side| (flow, side)));
        ends.filter_map(move |end| self.part(end, &under_way))
    }

    /// What flows have done so far, in the order in which they were given, where all their ends are
    /// held here.
    pub fn flows(&self) -> impl Iterator<Item = FlowResult<'_>> {
        results([self])
    }

    /// The slots of the ends under way, by flow and side.
    fn under_way(&self) -> Vec<((u32, Side), u32)> {
        let ends = self.slots.under_way();
        let mut slots: Vec<_> = ends
            .map(|(end, slot)| ((end.flow(), end.side()), slot))
            .collect();
        slots.sort_unstable();
        slots
    }

    fn part(&self, end: (u32, Side), under_way: &[((u32, Side), u32)]) -> Option<Part<'_>> {
        let Context { table, parts, .. } = &self.context;
        if end.1 == Side::Acceptor && table.kind(end.0).program.is_some() {
            return None;
        }
        let first = under_way.partition_point(|(other, _)| *other < end);
        let slots = under_way[first..]
            .iter()
            .take_while(|(other, _)| *other == end);
        let totals = slots.filter_map(|&(_, slot)| self.slots.get(slot).totals());
        let sum = totals.reduce(|mut sum, one| {
            sum.add(one);
            sum
        });
        parts.part(table, end, sum)
    }
}

/// What the flows of a run have done so far, in the order in which they were given: of all that hold
/// parts of its traffic, and share one table.
pub fn results<'a>(
    shares: impl IntoIterator<Item = &'a Traffic>,
) -> impl Iterator<Item = FlowResult<'a>> {
    let shares: Vec<&Traffic> = shares.into_iter().collect();
    let under_way: Vec<_> = shares.iter().map(|share| share.under_way()).collect();
    let table = shares.first().map(|share| &share.context.table);
    let flows = 0..table.map_or(0, |table| table.len()) as u32;
    flows.filter_map(move |flow| {
        let part = |side| {
            let mut shares = shares.iter().copied().zip(&under_way);
            shares.find_map(|(share, under_way)| share.part((flow, side), under_way))
        };
        let (opener, acceptor) = (part(Side::Opener)?, part(Side::Acceptor));
        let table = table?;
        let is_whole = acceptor.is_some() || table.kind(flow).program.is_some();
        debug_assert!(is_whole, "results of a run without one of its shares");
        is_whole.then(|| FlowResult::join(table, opener, acceptor))
    })
}

fn key_of(host: NodeId, envelope: &Envelope) -> Key {
    Key::new(
        host,
        envelope.source,
        envelope.port,
        envelope.source_port,
        envelope.is_tcp,
    )
}

/// Ends begin and end.
impl Traffic {
    fn next_start(&self) -> Option<(Time, u32)> {
        let flow = *self.order.get(self.begun)?;
        Some((self.context.table.flow(flow).start, flow))
    }

    /// A flow begins, at the ends that are held here.
    fn start(&mut self, flow: u32, now: Time) {
        let kind = self.context.table.kind(flow);
        let (is_tcp, is_program) = (kind.is_tcp(), kind.program.is_some());
        for side in Side::BOTH {
            let is_modelled = side == Side::Opener || !is_program;
            if !is_modelled || !self.context.parts.holds(flow, side) {
                continue;
            }
            self.context.parts.begin(flow, side, now);
            match (is_tcp, side) {
                (true, Side::Opener) => self.connect(flow, 0, None, now),
                (true, Side::Acceptor) => {
                    self.take_slot(flow, side, 0);
                }
                (false, Side::Opener) => self.send(flow, now),
                (false, Side::Acceptor) => self.receive(flow, now),
            }
        }
    }

    /// A slot for an end of a connection. Where its port's turn has come again, what is left of its
    /// last user ends, which is an earlier connection of the same flow.
    fn take_slot(&mut self, flow: u32, side: Side, connection: u32) -> (u32, side::EndId) {
        let end = self.context.table.end(flow, side, connection);
        let key = self.context.table.key(end);
        if let Some(last) = self.slots.find(&key) {
            debug_assert_eq!(
                self.slots.end(last).flow(),
                flow,
                "two flows of one pair of ports"
            );
            self.release(last);
        }
        (self.slots.add(key, end), end)
    }

    /// A flow, or the next connection of one, begins.
    fn connect(&mut self, flow: u32, connection: u32, ask: Option<Ask>, now: Time) {
        let (slot, id) = self.take_slot(flow, Side::Opener, connection);
        let draws = self.context.draws(flow);
        if let Some(mut end) = End::new(&self.context.table, (id, slot), draws, ask, now) {
            end.act(&mut self.context, now);
            *self.slots.get_mut(slot) = Active::Tcp(end);
        }
        self.clean(slot, now);
    }

    /// Accepts a connection, and listens for the flow's next one behind it.
    fn accept(&mut self, slot: u32, now: Time, envelope: &Envelope, headers: &[u8]) {
        let id = self.slots.end(slot);
        let (flow, connection) = (id.flow(), id.connection());
        let draws = self.context.draws(flow);
        if let Some(mut end) = End::new(&self.context.table, (id, slot), draws, None, now) {
            end.handle(&mut self.context, now, envelope, headers);
            *self.slots.get_mut(slot) = Active::Tcp(end);
        }
        if self.context.table.kind(flow).has_another(connection) {
            self.take_slot(flow, Side::Acceptor, connection + 1);
        }
    }

    fn send(&mut self, flow: u32, now: Time) {
        let (slot, id) = self.take_slot(flow, Side::Opener, 0);
        let draws = self.context.draws(flow);
        if let Some(mut sender) = Sender::new(&self.context.table, (id, slot), &draws, now) {
            sender.act(&mut self.context, now);
            *self.slots.get_mut(slot) = Active::Sender(Box::new(sender));
        }
        self.clean(slot, now);
    }

    fn receive(&mut self, flow: u32, now: Time) {
        let (slot, id) = self.take_slot(flow, Side::Acceptor, 0);
        let draws = self.context.draws(flow);
        if let Some(mut receiver) = Receiver::new(&self.context.table, (id, slot), &draws, now) {
            receiver.act(&mut self.context, now);
            *self.slots.get_mut(slot) = Active::Receiver(Box::new(receiver));
        }
        self.clean(slot, now);
    }

    fn ring(&mut self, owner: Owner, at: Time) {
        let slot = owner.slot();
        if self.slots.end(slot) != owner.end {
            return; // the end is gone
        }
        match self.slots.get_mut(slot) {
            Active::Tcp(end) => end.handle_timer(&mut self.context, owner.timer(), at),
            Active::Sender(sender) => sender.handle_timer(&mut self.context, at),
            Active::Receiver(receiver) => receiver.handle_timer(&mut self.context, at),
            Active::Listening | Active::Failed | Active::Free => return,
        }
        self.clean(slot, at);
    }

    /// Ends an end that is over, and lets a successor begin.
    fn clean(&mut self, slot: u32, now: Time) {
        let (is_over, afterwards, successor) = match self.slots.get_mut(slot) {
            Active::Tcp(end) => (end.is_over(), end.afterwards(), end.successor.take()),
            Active::Sender(sender) => (sender.is_over(), Afterwards::Free, None),
            Active::Receiver(receiver) => (receiver.is_over(), Afterwards::Free, None),
            Active::Listening | Active::Failed | Active::Free => return,
        };
        let id = self.slots.end(slot);
        if is_over {
            match afterwards {
                Afterwards::Free => self.release(slot),
                Afterwards::Refuses => self.leave_port(slot, Active::Failed),
                Afterwards::Listens => self.leave_port(slot, Active::Listening),
            }
        }
        if let Some(ask) = successor {
            self.connect(id.flow(), id.connection() + 1, Some(*ask), now);
        }
    }

    /// Frees an end but keeps its port in the slot.
    fn leave_port(&mut self, slot: u32, port: Active) {
        self.record(slot);
        *self.slots.get_mut(slot) = port;
    }

    /// Adds what an end has done to its flow's results.
    fn record(&mut self, slot: u32) {
        if let Some(totals) = self.slots.get(slot).totals() {
            let Context { table, parts, .. } = &mut self.context;
            parts.take(table, self.slots.end(slot), totals);
        }
    }

    fn release(&mut self, slot: u32) {
        self.record(slot);
        let key = self.context.table.key(self.slots.end(slot));
        self.slots.remove(&key, slot);
    }
}
