//! One end of a TCP connection: its endpoint, and what its application does.
//!
//! An end has only what its own host has: the segments received, and what its flow draws
//! ([`Draws`]). It shares nothing with the other end. After each input its output is collected:
//! events go to the application, segments to the outbox, the next deadline to the timers.
//!
//! The opener of a transfer has finished when its last byte and its FIN are acknowledged, the
//! acceptor when it has them all; that of a dialogue with the last response. An end that is reset or
//! gives up has failed, unless all was over for it before. An acceptor whose connection was never
//! established has not: it listens again (RFC 9293 §3.10.7.4), and its opener reports the outcome.
//!
//! **Silence.** An end that waits for a response has nothing to send, and so no TCP timer. It gives
//! up when it has received nothing for as long as the other end may go on trying
//! ([`Config::longest_silence`](crate::tcp::Config::longest_silence), 34 minutes). That timer is set
//! only where a connection has outlived its last retransmission time-out, and for a minute at a time,
//! so that connections which are over leave little behind. An acceptor waits without end, as a server without keep-alives does.
//!
//! What applications do is in `application.rs`. TIME-WAIT takes no end: see `time_wait.rs`. Towards a
//! program, whose kernel is not one of ours, it is kept.

mod application;

use std::sync::Arc;

use longhaul_core::time::{Span, Time};

pub(super) use application::Ask;
use application::{Answer, Work};

use super::context::Context;
use super::draws::Draws;
use super::kind::Kind;
use super::outbox::Ends;
use super::parts::Totals;
use super::report::{Outcome, RttFigures, WindowPoint};
use super::side::{EndId, Side};
use super::spec::Transport;
use super::table::FlowTable;
use super::timers::{Owner, Timer};
use super::wire::{Count, Envelope, Template};
use crate::ip::PROTOCOL_TCP;
use crate::tcp::{Endpoint, Event, Flags, RoundTrips, State};

/// How far the timer of silence goes at a time; a place in the heap may outlive its end by that.
const SILENCE_STEP: Span = Span::from_s(60);

/// What an end's port is for once the end is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// The end closed in order: the port is free.
    Free,
    /// The end was reset or has given up: the port answers with resets.
    Refuses,
    /// Its connection never came to be: the port waits for another one.
    Listens,
}

/// See the module's first lines.
#[derive(Debug)]
pub(super) struct End {
    endpoint: Endpoint,
    count: Count,
    template: Template,
    ends: Ends,
    id: EndId,
    slot: u32,
    /// Where each timer has its earliest place.
    armed: [Time; 3],
    stop: Time,
    kind: Arc<Kind>,
    work: Work,
    /// Round trips of the flow's earlier connections.
    earlier: RoundTrips,
    /// Whether the connection may begin.
    is_open: bool,
    /// What becomes of the connection from now on is nothing to its flow.
    is_settled: bool,
    was_connected: bool,
    afterwards: Afterwards,
    /// What the next connection of the flow has to do, once that may begin.
    pub(super) successor: Option<Box<Ask>>,
}

impl End {
    /// An end in a slot, which goes on with `ask` where it is an opener that succeeds another;
    /// `None` where the flow has no connections.
    pub(super) fn new(
        table: &FlowTable,
        (id, slot): (EndId, u32),
        draws: Draws,
        ask: Option<Ask>,
        now: Time,
    ) -> Option<Box<Self>> {
        let (flow, side) = (id.flow(), id.side());
        let kind = Arc::clone(table.kind(flow));
        let Transport::Tcp(config, _) = &kind.transport else {
            return None;
        };
        let opening = draws.opening(&kind, id.connection(), side);
        let [own, remote] = table.sockets(id);
        let mut endpoint = match side {
            Side::Opener => Endpoint::connect(now, config.clone(), opening.seed),
            Side::Acceptor => Endpoint::listen(config.clone(), opening.seed),
        };
        let earlier = ask.as_ref().map_or_else(RoundTrips::default, Ask::trips);
        let work = match (side, ask) {
            (Side::Opener, Some(ask)) => Work::Ask(ask),
            (Side::Opener, None) => {
                Work::open(&kind, table.flow(flow).bytes, now, draws, opening.rest)
            }
            (Side::Acceptor, _) if kind.is_dialogue() => {
                Work::Answer(Answer::new(id.connection(), draws))
            }
            (Side::Acceptor, _) => Work::Sink,
        };
        endpoint.set_auto_read(!kind.is_dialogue());
        Some(Box::new(Self {
            endpoint,
            count: Count {
                ours: opening.number,
                ..Count::default()
            },
            template: Template::new(PROTOCOL_TCP, own, remote),
            ends: Ends {
                host: own.node,
                to: remote.node,
            },
            id,
            slot,
            armed: [Time::MAX; 3],
            stop: kind.stop.unwrap_or(Time::MAX),
            kind,
            work,
            earlier,
            is_open: side == Side::Acceptor,
            is_settled: false,
            was_connected: false,
            afterwards: Afterwards::Free,
            successor: None,
        }))
    }

    /// Reads a little of each part that a segment will need; see
    /// [`Traffic::prefetch`](super::Traffic::prefetch).
    pub(super) fn prefetch(&self) -> u64 {
        let (nxt, awaited) = self.endpoint.next_numbers();
        let (cwnd, _) = self.endpoint.window();
        let timer = self.endpoint.poll_timeout().map_or(0, Time::as_ns);
        nxt ^ awaited ^ timer ^ u64::from(cwnd) ^ u64::from(self.count.theirs ^ self.ends.to.0)
    }

    /// A segment has arrived.
    #[inline]
    pub(super) fn handle(
        &mut self,
        context: &mut Context,
        now: Time,
        envelope: &Envelope,
        headers: &[u8],
    ) {
        if !self.is_open {
            return;
        }
        if let Work::Ask(ask) = &mut self.work {
            ask.heard(now);
        }
        let next = self.endpoint.next_numbers();
        let ticks = now.as_ns() / 1_000_000 + 1;
        if let Some(segment) = envelope.segment(headers, &mut self.count, next, ticks) {
            self.endpoint.handle_segment(now, &segment);
            self.serve(context, now);
        }
    }

    /// A router reports that a segment with the number `seq` was not delivered.
    pub(super) fn handle_error(&mut self, context: &mut Context, seq: u32, now: Time) {
        if self.endpoint.state() == State::SynSent && seq == self.count.ours {
            self.fail(context, Outcome::Unreachable, now);
            self.endpoint.abort();
        }
    }

    /// A timer's place has come.
    pub(super) fn handle_timer(&mut self, context: &mut Context, timer: Timer, at: Time) {
        if self.armed[timer as usize] != at {
            return; // it has been moved earlier
        }
        self.armed[timer as usize] = Time::MAX;
        match timer {
            Timer::Application => self.act(context, at),
            Timer::Silence => self.watch_silence(context, at),
            Timer::Endpoint => {
                match self.endpoint.poll_timeout() {
                    Some(due) if due <= at => {
                        self.endpoint.handle_timeout(at);
                        self.serve(context, at);
                    }
                    Some(due) => self.arm(context, timer, due),
                    None => {}
                }
                if self.endpoint.poll_timeout().is_none() {
                    self.watch_silence(context, at);
                }
            }
        }
    }

    /// Gives up if a response is awaited and nothing has arrived for too long; else sets the timer again.
    fn watch_silence(&mut self, context: &mut Context, now: Time) {
        let Work::Ask(ask) = &self.work else { return };
        let Some(since) = ask.waits_since() else {
            return;
        };
        let until = since + self.longest_silence();
        if until > now {
            let next_check = until.min(now + SILENCE_STEP);
            return self.arm(context, Timer::Silence, next_check);
        }
        self.fail(context, Outcome::TimedOut, now);
        self.endpoint.abort();
        self.serve(context, now);
    }

    fn longest_silence(&self) -> Span {
        match &self.kind.transport {
            Transport::Tcp(config, _) => config.longest_silence(),
            Transport::Udp { .. } => Span::ZERO, // it has no end of this type
        }
    }

    #[inline]
    fn arm(&mut self, context: &mut Context, timer: Timer, at: Time) {
        let owner = Owner::new(self.id, self.slot, timer);
        let armed = &mut self.armed[timer as usize];
        context.timers.set(owner, armed, at);
    }

    /// Does what the end has to do.
    fn serve(&mut self, context: &mut Context, now: Time) {
        loop {
            while let Some(event) = self.endpoint.poll_event() {
                self.take_event(context, event, now);
            }
            while let Some(segment) = self.endpoint.poll_transmit(now) {
                if let Some(syn) = segment.syn {
                    self.count.our_shift = syn.window_scale;
                }
                let (template, count) = (&self.template, &self.count);
                let write = |out: &mut Vec<u8>| template.write_tcp(&segment, count, out);
                context.outbox.push(self.ends, now, write);
            }
            match self.endpoint.poll_timeout() {
                Some(due) if due <= now => {
                    self.endpoint.handle_timeout(now);
                    continue;
                }
                // TIME-WAIT's, which is gone before.
                Some(_) if self.is_over() => {}
                Some(due) => self.arm(context, Timer::Endpoint, due),
                None => {}
            }
            if !self.endpoint.has_event() {
                break;
            }
        }
        if self.id.side() == Side::Opener {
            if self.kind.series {
                self.note_window(context, now);
            }
            self.check_finish(context, now);
        }
    }

    fn note_window(&self, context: &mut Context, at: Time) {
        let (cwnd, ssthresh) = self.endpoint.window();
        let series = context.parts.series.entry(self.id.flow()).or_default();
        let is_same = |last: &WindowPoint| (last.cwnd, last.ssthresh) == (cwnd, ssthresh);
        if !series.last().is_some_and(is_same) {
            series.push(WindowPoint { at, cwnd, ssthresh });
        }
    }

    /// A transfer is over for its opener when the other end has acknowledged its end.
    fn check_finish(&self, context: &mut Context, now: Time) {
        if matches!(self.work, Work::Done) && !self.is_settled {
            let state = self.endpoint.state();
            if matches!(state, State::FinWait2 | State::TimeWait | State::Closed) {
                context.end(self.id, Outcome::Finished, now);
            }
        }
    }

    fn take_event(&mut self, context: &mut Context, event: Event, now: Time) {
        match event {
            Event::Readable => self.read(context, now),
            Event::Writable => self.write(),
            Event::PeerClosed => self.take_close(context, now),
            Event::Reset => self.fail(context, Outcome::Reset, now),
            Event::TimedOut => self.fail(context, Outcome::TimedOut, now),
            Event::Connected => self.was_connected = true,
            Event::Closed => {}
        }
    }

    /// The other end has sent its last byte.
    fn take_close(&mut self, context: &mut Context, now: Time) {
        match (self.id.side(), &self.work) {
            (Side::Acceptor, _) => {
                if !self.kind.is_dialogue() {
                    context.end(self.id, Outcome::Finished, now);
                }
                self.is_settled = true;
            }
            // No response can come any more.
            (Side::Opener, Work::Ask(_)) => self.fail(context, Outcome::Reset, now),
            // A program that has closed its sending side may still receive.
            (Side::Opener, Work::Bulk { .. } | Work::Source { .. }) => return,
            (Side::Opener, _) => {}
        }
        self.endpoint.close();
    }

    fn fail(&mut self, context: &mut Context, outcome: Outcome, now: Time) {
        self.work = Work::Done;
        if self.is_settled {
            return;
        }
        self.afterwards = match (self.id.side(), self.was_connected) {
            (Side::Acceptor, false) => Afterwards::Listens,
            _ => {
                context.end(self.id, outcome, now);
                Afterwards::Refuses
            }
        };
    }

    /// Whether nothing more can happen. What may still come late needs no end.
    pub(super) fn is_over(&self) -> bool {
        match self.endpoint.state() {
            State::Closed => true,
            State::TimeWait => self.kind.program.is_none(),
            _ => false,
        }
    }

    /// What its port is for once it is over.
    pub(super) fn afterwards(&self) -> Afterwards {
        self.afterwards
    }

    /// What it has done so far.
    pub(super) fn totals(&self) -> Totals {
        let info = self.endpoint.info();
        let bytes = match (self.id.side(), self.kind.program) {
            (Side::Acceptor, _) => info.received,
            // What a program has received is what it has acknowledged; what it sends on its own is
            // not part of a transfer.
            (Side::Opener, Some(_)) if self.kind.is_dialogue() => info.received + info.acknowledged,
            (Side::Opener, Some(_)) => info.acknowledged,
            (Side::Opener, None) => info.received,
        };
        let has_trips = self.id.side() == Side::Opener && !self.is_settled;
        let trips = || RttFigures::pack(self.earlier.with(self.endpoint.round_trips()));
        Totals {
            bytes,
            retransmissions: info.retransmitted,
            trips: has_trips.then(trips),
            datagrams: None,
        }
    }

    /// Its endpoint.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether a segment with these flags requests a connection.
    pub(super) fn opens(flags: u8) -> bool {
        let flags = Flags(flags);
        flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST)
    }
}
