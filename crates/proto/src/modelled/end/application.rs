//! What the applications on the ends of a connection do: bulk transfers, segments by the clock,
//! requests and their responses.
//!
//! An application acts when its own time comes ([`End::act`]) and when its end can be read or
//! written. An opener closes behind its last byte, an acceptor when it has heard of that; a
//! dialogue that makes a connection for each request leaves the next one as `successor`.
//!
//! Both sides of a dialogue count the same exchanges, each by itself.

use longhaul_core::rng::Stream;
use longhaul_core::time::Time;

use super::End;
use crate::modelled::context::Context;
use crate::modelled::draws::Draws;
use crate::modelled::kind::Kind;
use crate::modelled::report::Outcome;
use crate::modelled::source::Source;
use crate::modelled::spec::{Amount, Application};
use crate::modelled::timers::Timer;
use crate::tcp::RoundTrips;

/// What the application has still to do.
#[derive(Debug)]
pub(super) enum Work {
    /// This many bytes are still to be written.
    Bulk {
        left: u64,
    },
    /// Full segments by the clock, `left` bytes of them in all, of which `backlog` wait for room.
    Source {
        source: Source,
        stream: Stream,
        left: u64,
        backlog: u64,
    },
    Ask(Ask),
    Answer(Answer),
    /// What arrives is counted.
    Sink,
    /// Nothing.
    Done,
}

impl Work {
    /// What an opener has to do from its flow's start on; `bytes` is the flow's size where that is
    /// fixed, and `stream` what its first connection leaves.
    pub(super) fn open(
        kind: &Kind,
        bytes: u64,
        now: Time,
        draws: Draws,
        mut stream: Stream,
    ) -> Self {
        match &kind.application {
            Application::Bulk { bytes: amount } => Self::Bulk {
                left: match amount {
                    None => u64::MAX,
                    Some(Amount::Fixed(_)) => bytes,
                    Some(drawn) => drawn.draw(&mut stream),
                },
            },
            Application::Requests { requests, .. } => Self::Ask(Ask {
                draws,
                left: requests.unwrap_or(u64::MAX),
                number: 0,
                next_at: now,
                to_write: 0,
                awaited: 0,
                asked_at: now,
                heard_at: now,
                trips: RoundTrips::default(),
            }),
            application => match Source::new(application, kind.segment, now, &mut stream) {
                Some(source) => Self::Source {
                    source,
                    stream,
                    left: if application.is_bounded() {
                        bytes
                    } else {
                        u64::MAX
                    },
                    backlog: 0,
                },
                None => Self::Done,
            },
        }
    }
}

/// The opener's side of a dialogue.
#[derive(Debug, Clone)]
pub(in crate::modelled) struct Ask {
    draws: Draws,
    /// How many requests are still to begin.
    left: u64,
    /// How many have begun.
    number: u64,
    /// When the next one begins; the end of time while one is under way.
    next_at: Time,
    /// Bytes of the request that are still to be written.
    to_write: u64,
    /// Bytes of the response that are still to be read.
    awaited: u64,
    /// When the request under way began.
    asked_at: Time,
    /// When the other end was heard last, or the request began.
    heard_at: Time,
    /// Round trips of earlier connections.
    trips: RoundTrips,
}

impl Ask {
    pub(super) fn trips(&self) -> RoundTrips {
        self.trips
    }

    fn is_under_way(&self) -> bool {
        self.next_at == Time::MAX
    }

    /// A segment of the other end has come.
    pub(super) fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Since when there has been no word of a response that is awaited.
    pub(super) fn waits_since(&self) -> Option<Time> {
        (self.awaited > 0).then_some(self.heard_at)
    }
}

/// The acceptor's side of a dialogue.
#[derive(Debug)]
pub(super) struct Answer {
    draws: Draws,
    /// How many requests have begun to arrive.
    number: u64,
    /// Bytes of the request that are still to be read.
    unread: u64,
    /// Bytes of the response behind it.
    response: u64,
    /// Bytes of responses that are still to be written.
    to_write: u64,
}

impl Answer {
    /// The answers of a connection that begins with this request.
    pub(super) fn new(number: u32, draws: Draws) -> Self {
        Self {
            draws,
            number: number.into(),
            unread: 0,
            response: 0,
            to_write: 0,
        }
    }

    /// Takes `bytes` of requests that have been read.
    fn take(&mut self, kind: &Kind, mut bytes: u64) {
        while bytes > 0 {
            if self.unread == 0 {
                let exchange = self.draws.exchange(kind, self.number);
                self.number = self.number.saturating_add(1);
                (self.unread, self.response) = (exchange.request, exchange.response);
            }
            let taken = bytes.min(self.unread);
            self.unread -= taken;
            bytes -= taken;
            if self.unread == 0 {
                self.to_write = self.to_write.saturating_add(self.response);
            }
        }
    }
}

impl End {
    /// The application's time has come, or may have.
    pub(in crate::modelled) fn act(&mut self, context: &mut Context, now: Time) {
        self.is_open |= match &self.work {
            Work::Ask(ask) => ask.next_at <= now,
            _ => true,
        };
        let is_stopped = now >= self.stop;
        match &mut self.work {
            Work::Bulk { left } if is_stopped => *left = 0,
            Work::Source {
                source,
                stream,
                left,
                backlog,
            } => {
                while *left > 0 && source.next() <= now && source.next() < self.stop {
                    let segment = u64::from(self.kind.segment).min(*left);
                    *left -= segment;
                    *backlog += segment;
                    source.advance(stream);
                }
            }
            Work::Ask(ask) if ask.next_at <= now || is_stopped => self.ask(context, now),
            _ => {}
        }
        if self.is_open {
            self.write();
            self.serve(context, now);
        }
        let next = match &self.work {
            Work::Source { left: 0, .. } => Time::MAX,
            Work::Source { source, .. } => source.next().min(self.stop),
            Work::Ask(ask) if ask.is_under_way() => Time::MAX, // it looks at the stop when it is done
            Work::Ask(ask) => ask.next_at.min(self.stop),
            Work::Bulk { .. } => self.stop,
            Work::Answer(_) | Work::Sink | Work::Done => Time::MAX,
        };
        if next > now {
            self.arm(context, Timer::Application, next);
        }
    }

    /// Writes what there is to write, and closes behind the last byte.
    pub(super) fn write(&mut self) {
        let endpoint = &mut self.endpoint;
        let is_last = match &mut self.work {
            Work::Bulk { left } => {
                let written = endpoint.write(*left);
                if *left != u64::MAX {
                    *left -= written;
                }
                *left == 0
            }
            Work::Source {
                source,
                left,
                backlog,
                ..
            } => {
                *backlog -= endpoint.write(*backlog);
                *backlog == 0 && (*left == 0 || source.next() >= self.stop)
            }
            Work::Ask(Ask { to_write, .. }) | Work::Answer(Answer { to_write, .. }) => {
                *to_write -= endpoint.write(*to_write);
                false
            }
            Work::Sink | Work::Done => false,
        };
        if is_last {
            endpoint.close();
            self.work = Work::Done;
        }
    }

    /// Begins a request, or ends the dialogue where there is none left.
    fn ask(&mut self, context: &mut Context, now: Time) {
        let Work::Ask(ask) = &mut self.work else {
            return;
        };
        if now >= self.stop {
            ask.left = 0;
        }
        if ask.is_under_way() {
            return;
        }
        ask.next_at = Time::MAX;
        if ask.left == 0 {
            return self.finish(context, now);
        }
        if ask.left != u64::MAX {
            ask.left -= 1;
        }
        let exchange = ask.draws.exchange(&self.kind, ask.number);
        ask.number += 1;
        ask.to_write = exchange.request;
        ask.awaited = exchange.response;
        (ask.asked_at, ask.heard_at) = (now, now);
        let requests = &mut context.parts.requests;
        requests.entry(self.id.flow()).or_default().begun += 1;
    }

    fn finish(&mut self, context: &mut Context, now: Time) {
        context.end(self.id, Outcome::Finished, now);
        self.work = Work::Done;
        self.endpoint.close();
        if !self.is_open {
            // It was never opened, so the other side gets no segment.
            self.endpoint.abort();
        }
    }

    pub(super) fn read(&mut self, context: &mut Context, now: Time) {
        let bytes = self.endpoint.read(u64::MAX);
        match &mut self.work {
            Work::Answer(answer) => {
                answer.take(&self.kind, bytes);
                self.write();
            }
            Work::Ask(ask) => {
                let was_awaited = ask.awaited > 0;
                ask.awaited = ask.awaited.saturating_sub(bytes);
                if was_awaited && ask.awaited == 0 {
                    self.complete(context, now);
                }
            }
            _ => {}
        }
    }

    /// A response has arrived: think, then send the next request.
    fn complete(&mut self, context: &mut Context, now: Time) {
        let Work::Ask(ask) = &mut self.work else {
            return;
        };
        let figures = context.parts.requests.entry(self.id.flow()).or_default();
        figures.take(now.since(ask.asked_at));
        if ask.left == 0 || now >= self.stop {
            return self.finish(context, now);
        }
        ask.next_at = now + ask.draws.think(&self.kind, ask.number - 1);
        if !self.kind.has_connection_each() {
            let next_at = ask.next_at;
            if next_at <= now {
                self.ask(context, now);
                return self.write();
            }
            return self.arm(context, Timer::Application, next_at.min(self.stop));
        }
        let trips = self.earlier.with(self.endpoint.round_trips());
        self.successor = Some(Box::new(Ask {
            trips,
            ..ask.clone()
        }));
        self.is_settled = true;
        self.work = Work::Done;
        self.endpoint.close();
    }
}
