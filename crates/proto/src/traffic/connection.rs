//! A TCP connection: its modelled ends, and what their applications do.
//!
//! Both ends share what the application knows (how long a request is), but each acts only on what
//! its own endpoint tells it. After everything that happens to an end, it is served: events go to
//! the application, segments to the outbox, the next time to the timers.
//!
//! What applications do is in `application.rs`.
//!
//! A connection is over when both ends are closed, or wait (TIME-WAIT) for what can no longer
//! come, since the other end is gone.

mod application;

use std::net::IpAddr;
use std::sync::Arc;

use longhaul_core::rng::Stream;
use longhaul_core::time::Time;

use application::Work;
pub(super) use application::{Requests, Successor};

use super::outbox::Way;
use super::report::{Outcome, RttFigures, WindowPoint};
use super::spec::{Application, Host, IpVersion};
use super::timers::Owner;
use super::wire::{Count, Envelope, Socket, Template};
use super::world::{Kind, World};
use crate::ip::PROTOCOL_TCP;
use crate::tcp::{Config, Endpoint, Event, Flags, RoundTrips, State};

/// The opener, and the other side.
const CLIENT: usize = 0;
const SERVER: usize = 1;
/// The timer of the application, behind those of the two ends.
const APPLICATION: usize = 2;

/// One modelled end.
#[derive(Debug)]
pub(super) struct End {
    endpoint: Endpoint,
    template: Template,
    count: Count,
    way: Way,
}

impl End {
    /// Reads a little of each part that a segment will need; see
    /// [`Traffic::look_ahead`](super::Traffic::look_ahead).
    pub(super) fn look(&self) -> u64 {
        let (nxt, awaited) = self.endpoint.next_numbers();
        let (cwnd, _) = self.endpoint.window();
        let timer = self.endpoint.poll_timeout().map_or(0, Time::as_ns);
        nxt ^ awaited ^ timer ^ u64::from(cwnd) ^ u64::from(self.count.theirs ^ self.way.to.0)
    }
}

/// See the module's first lines.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) flow: u32,
    ends: Vec<End>,
    work: Work,
    stream: Stream,
    kind: Arc<Kind>,
    stop: Time,
    slot: u32,
    generation: u32,
    /// Where each timer has its earliest place.
    armed: [Time; 3],
    /// Round trips of the flow's earlier connections.
    earlier: RoundTrips,
    is_open: bool,
    /// Another connection speaks for the flow now.
    is_succeeded: bool,
    pub(super) successor: Option<Successor>,
}

/// What a connection is made of.
pub(super) struct Plan {
    pub(super) flow: u32,
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) hosts: [Host; 2],
    pub(super) ports: [u16; 2],
    pub(super) kind: Arc<Kind>,
    pub(super) config: Arc<Config>,
    pub(super) ip: IpVersion,
    pub(super) bytes: u64,
    pub(super) stream: Stream,
    pub(super) successor: Option<Requests>,
}

impl Connection {
    /// A connection that has not been opened.
    pub(super) fn new(plan: Plan, now: Time) -> Self {
        let Plan {
            kind, mut stream, ..
        } = plan;
        let sockets = [0, 1].map(|side| {
            let host = plan.hosts[side];
            Socket {
                node: host.node,
                address: match plan.ip {
                    IpVersion::V4 => IpAddr::V4(host.ipv4),
                    IpVersion::V6 => IpAddr::V6(host.ipv6),
                },
                port: plan.ports[side],
            }
        });
        let numbers = [stream.draw() as u32, stream.draw() as u32];
        let end = |side: usize, endpoint| End {
            endpoint,
            template: Template::new(PROTOCOL_TCP, sockets[side], sockets[1 - side]),
            count: Count {
                ours: numbers[side],
                ..Count::default()
            },
            way: Way {
                host: sockets[side].node,
                to: sockets[1 - side].node,
            },
        };
        let seeds = [stream.draw(), stream.draw()];
        let client = Endpoint::connect(now, plan.config.clone(), seeds[CLIENT]);
        let mut ends = vec![end(CLIENT, client)];
        if kind.program.is_none() {
            ends.push(end(
                SERVER,
                Endpoint::listen(plan.config.clone(), seeds[SERVER]),
            ));
        }
        let earlier = plan
            .successor
            .as_ref()
            .map_or_else(RoundTrips::default, |s| s.trips);
        let work = match plan.successor {
            Some(requests) => Work::Requests(requests),
            None => Work::new(&kind, plan.bytes, now, &mut stream),
        };
        if !matches!(work, Work::Requests(_)) {
            ends.iter_mut()
                .for_each(|end| end.endpoint.set_auto_read(true));
        }
        Self {
            flow: plan.flow,
            ends,
            work,
            stream,
            stop: kind.stop.unwrap_or(Time::MAX),
            kind,
            slot: plan.slot,
            generation: plan.generation,
            armed: [Time::MAX; 3],
            earlier,
            is_open: false,
            is_succeeded: false,
            successor: None,
        }
    }

    /// The connection may begin: at once, or where its first request has its time, then.
    pub(super) fn begin(&mut self, world: &mut World, now: Time) {
        self.act(world, now);
    }

    /// Its modelled ends.
    pub(super) fn ends(&self) -> &[End] {
        &self.ends
    }

    /// A segment has arrived.
    #[inline]
    pub(super) fn handle(
        &mut self,
        world: &mut World,
        side: usize,
        now: Time,
        envelope: &Envelope,
        headers: &[u8],
    ) {
        let Some(end) = self.ends.get_mut(side) else {
            return;
        };
        if side == CLIENT && !self.is_open {
            return;
        }
        let next = end.endpoint.next_numbers();
        let ticks = now.as_ns() / 1_000_000 + 1;
        if let Some(segment) = envelope.segment(headers, &mut end.count, next, ticks) {
            end.endpoint.handle_segment(now, &segment);
            self.serve(world, side, now);
        }
    }

    /// A router says that a segment with the number `seq` has not arrived.
    pub(super) fn handle_error(&mut self, world: &mut World, side: usize, seq: u32, now: Time) {
        let Some(end) = self.ends.get(side) else {
            return;
        };
        if end.endpoint.state() == State::SynSent && seq == end.count.ours {
            self.fail(world, Outcome::Unreachable, now);
        }
    }

    /// A timer's place has come.
    pub(super) fn handle_timer(&mut self, world: &mut World, which: usize, at: Time) {
        if self.armed.get(which) != Some(&at) {
            return; // it has been moved earlier
        }
        self.armed[which] = Time::MAX;
        if which == APPLICATION {
            return self.act(world, at);
        }
        let Some(end) = self.ends.get_mut(which) else {
            return;
        };
        match end.endpoint.poll_timeout() {
            Some(due) if due <= at => {
                end.endpoint.handle_timeout(at);
                self.serve(world, which, at);
            }
            Some(due) => self.arm(world, which, due),
            None => {}
        }
    }

    #[inline]
    fn arm(&mut self, world: &mut World, which: usize, at: Time) {
        let owner = Owner {
            slot: self.slot,
            which: which as u8,
            generation: self.generation,
        };
        world.timers.set(owner, &mut self.armed[which], at);
    }

    /// Does what an end has to do.
    fn serve(&mut self, world: &mut World, side: usize, now: Time) {
        loop {
            while let Some(event) = self.ends[side].endpoint.poll_event() {
                self.take_event(world, side, event, now);
            }
            let end = &mut self.ends[side];
            while let Some(segment) = end.endpoint.poll_transmit(now) {
                if let Some(syn) = segment.syn {
                    end.count.our_shift = syn.window_scale;
                }
                let (template, count) = (&end.template, &end.count);
                let write = |out: &mut Vec<u8>| template.write_tcp(&segment, count, out);
                world.outbox.push(end.way, now, write);
            }
            match end.endpoint.poll_timeout() {
                Some(due) if due <= now => {
                    end.endpoint.handle_timeout(now);
                    continue;
                }
                Some(due) => self.arm(world, side, due),
                None => {}
            }
            if !self.ends[side].endpoint.has_event() {
                break;
            }
        }
        if side == CLIENT && self.kind.series {
            self.note_window(world, now);
        }
        self.check_finish(world, now);
    }

    fn note_window(&self, world: &mut World, at: Time) {
        let (cwnd, ssthresh) = self.ends[CLIENT].endpoint.window();
        let series = world.series.entry(self.flow).or_default();
        let is_same = |last: &WindowPoint| (last.cwnd, last.ssthresh) == (cwnd, ssthresh);
        if !series.last().is_some_and(is_same) {
            series.push(WindowPoint { at, cwnd, ssthresh });
        }
    }

    /// Where the other side is a program, the flow ends with the last acknowledgement.
    fn check_finish(&mut self, world: &mut World, now: Time) {
        let is_alone = self.ends.len() == 1 && matches!(self.work, Work::Done);
        if is_alone && !self.is_succeeded {
            let state = self.ends[CLIENT].endpoint.state();
            if matches!(state, State::FinWait2 | State::TimeWait | State::Closed) {
                world.end(self.flow, Outcome::Finished, now);
            }
        }
    }

    fn take_event(&mut self, world: &mut World, side: usize, event: Event, now: Time) {
        match event {
            Event::Readable => self.read(world, side, now),
            Event::Writable => self.write(side),
            Event::PeerClosed => {
                self.ends[side].endpoint.close();
                if side == SERVER && !matches!(self.work, Work::Requests(_)) && !self.is_succeeded {
                    world.end(self.flow, Outcome::Finished, now);
                }
            }
            Event::Reset => self.fail(world, Outcome::Reset, now),
            Event::TimedOut => self.fail(world, Outcome::TimedOut, now),
            Event::Connected | Event::Closed => {}
        }
    }

    fn fail(&mut self, world: &mut World, outcome: Outcome, now: Time) {
        if !self.is_succeeded {
            world.end(self.flow, outcome, now);
        }
        self.work = Work::Done;
        self.ends.iter_mut().for_each(|end| end.endpoint.abort());
    }

    /// Whether nothing more can happen.
    pub(super) fn is_over(&self) -> bool {
        let gone = |end: &End| {
            let state = end.endpoint.state();
            state == State::Closed || state == State::TimeWait && self.ends.len() == 2
        };
        self.ends.iter().all(gone)
    }

    /// Bytes received in order, segments sent again.
    pub(super) fn totals(&self) -> (u64, u64) {
        let infos = self.ends.iter().map(|end| end.endpoint.info());
        let resent = infos.clone().map(|info| info.retransmitted).sum();
        let is_dialogue = matches!(self.kind.application, Application::Requests { .. });
        let bytes = match self.ends.len() {
            // What a program got is what it has acknowledged; what it says of its own accord is no
            // part of a transfer.
            1 if is_dialogue => infos.map(|info| info.received + info.acknowledged).sum(),
            1 => infos.map(|info| info.acknowledged).sum(),
            _ => infos.map(|info| info.received).sum(),
        };
        (bytes, resent)
    }

    /// The opener's round trips, unless a later connection tells of them.
    pub(super) fn trips(&self) -> Option<[u32; 3]> {
        let trips = self.earlier.with(self.ends[CLIENT].endpoint.round_trips());
        (!self.is_succeeded).then(|| RttFigures::pack(trips))
    }

    /// Whether a segment opens a connection that nobody has begun.
    pub(super) fn opens(flags: u8) -> bool {
        Flags(flags).has(Flags::SYN)
    }
}
