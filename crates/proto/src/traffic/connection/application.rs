//! What the applications on the ends of a connection do: bulk transfers, segments by the clock,
//! requests and their responses.
//!
//! An application acts when its own time comes ([`Connection::act`]) and when an end can be read
//! or written. It closes behind its last byte; a dialogue that makes a connection for each request
//! leaves the next one as its [`Successor`].

use longhaul_core::rng::Stream;
use longhaul_core::time::{Span, Time};

use super::{APPLICATION, CLIENT, Connection, SERVER};
use crate::tcp::RoundTrips;
use crate::traffic::report::Outcome;
use crate::traffic::source::Source;
use crate::traffic::spec::{Amount, Application};
use crate::traffic::world::{Kind, World};

/// What the application has still to do.
#[derive(Debug)]
pub(super) enum Work {
    /// So many bytes are still to be written.
    Bulk {
        left: u64,
    },
    /// Full segments by the clock, `left` bytes of them in all, of which `backlog` wait for room.
    Source {
        source: Source,
        left: u64,
        backlog: u64,
    },
    Requests(Requests),
    /// Nothing.
    Done,
}

impl Work {
    /// What a flow has to do from its start on; `bytes` is its size where that is fixed.
    pub(super) fn new(kind: &Kind, bytes: u64, now: Time, stream: &mut Stream) -> Self {
        match &kind.application {
            Application::Bulk { bytes: amount } => Self::Bulk {
                left: match amount {
                    None => u64::MAX,
                    Some(Amount::Fixed(_)) => bytes,
                    Some(drawn) => drawn.draw(stream),
                },
            },
            Application::Requests { requests, .. } => Self::Requests(Requests {
                left: requests.unwrap_or(u64::MAX),
                next_at: now,
                ..Requests::default()
            }),
            application => match Source::new(application, kind.segment, now, stream) {
                Some(source) => Self::Source {
                    source,
                    left: match application.is_bounded() {
                        true => bytes,
                        false => u64::MAX,
                    },
                    backlog: 0,
                },
                None => Self::Done,
            },
        }
    }
}

/// A dialogue.
#[derive(Debug, Clone, Default)]
pub(in crate::traffic) struct Requests {
    /// How many more are to begin, this one not counted.
    left: u64,
    /// Bytes still to be written by the opener.
    to_ask: u64,
    /// Bytes that the other side still has to read.
    unread: u64,
    /// Bytes of the response, and those still to be written.
    response: u64,
    to_answer: u64,
    /// Bytes that the opener still has to read.
    awaited: u64,
    /// When the request under way began.
    asked_at: Time,
    /// When the next one begins; the end of time while one is under way.
    next_at: Time,
    /// Connections so far.
    connections: u32,
    /// Round trips of earlier connections.
    pub(super) trips: RoundTrips,
}

/// A connection that follows another one of its flow.
#[derive(Debug)]
pub(in crate::traffic) struct Successor {
    pub(in crate::traffic) requests: Requests,
    pub(in crate::traffic) stream: Stream,
}

impl Connection {
    /// The application's time has come, or may have.
    pub(super) fn act(&mut self, world: &mut World, now: Time) {
        self.is_open |= match &self.work {
            Work::Requests(requests) => requests.next_at <= now,
            _ => true,
        };
        let is_stopped = now >= self.stop;
        match &mut self.work {
            Work::Bulk { left } if is_stopped => *left = 0,
            Work::Source {
                source,
                left,
                backlog,
            } => {
                while *left > 0 && source.next() <= now && source.next() < self.stop {
                    let segment = u64::from(self.kind.segment).min(*left);
                    *left -= segment;
                    *backlog += segment;
                    source.advance(&mut self.stream);
                }
            }
            Work::Requests(requests) if requests.next_at <= now || is_stopped => {
                self.ask(world, now);
            }
            _ => {}
        }
        if self.is_open {
            self.write(CLIENT);
            self.serve(world, CLIENT, now);
        }
        let next = match &self.work {
            Work::Source { left: 0, .. } => Time::MAX,
            Work::Source { source, .. } => source.next().min(self.stop),
            Work::Requests(requests) => requests.next_at.min(self.stop),
            Work::Bulk { .. } => self.stop,
            Work::Done => Time::MAX,
        };
        if next > now && next < Time::MAX {
            self.arm(world, APPLICATION, next);
        }
    }

    /// Writes what there is to write, and closes behind the last byte.
    pub(super) fn write(&mut self, side: usize) {
        let endpoint = &mut self.ends[side].endpoint;
        let is_last = match &mut self.work {
            Work::Bulk { left } if side == CLIENT => {
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
            } if side == CLIENT => {
                *backlog -= endpoint.write(*backlog);
                *backlog == 0 && (*left == 0 || source.next() >= self.stop)
            }
            Work::Requests(requests) => {
                let left = match side {
                    CLIENT => &mut requests.to_ask,
                    _ => &mut requests.to_answer,
                };
                *left -= endpoint.write(*left);
                false
            }
            _ => false,
        };
        if is_last {
            endpoint.close();
            self.work = Work::Done;
        }
    }

    /// Begins a request, or ends the dialogue where there is none left.
    fn ask(&mut self, world: &mut World, now: Time) {
        let Work::Requests(requests) = &mut self.work else {
            return;
        };
        if now >= self.stop {
            requests.left = 0;
        }
        if requests.next_at == Time::MAX {
            return; // one is under way
        }
        requests.next_at = Time::MAX;
        if requests.left == 0 {
            return self.finish(world, now);
        }
        let Application::Requests {
            request, response, ..
        } = &self.kind.application
        else {
            return;
        };
        if requests.left != u64::MAX {
            requests.left -= 1;
        }
        requests.to_ask = request.draw(&mut self.stream).max(1);
        requests.unread = requests.to_ask;
        requests.response = response.draw(&mut self.stream).max(1);
        requests.awaited = requests.response;
        requests.asked_at = now;
        world.requests.entry(self.flow).or_default().begun += 1;
    }

    fn finish(&mut self, world: &mut World, now: Time) {
        world.end(self.flow, Outcome::Finished, now);
        self.work = Work::Done;
        self.ends[CLIENT].endpoint.close();
        if !self.is_open {
            // It was never opened: nobody is to hear of it.
            self.ends.iter_mut().for_each(|end| end.endpoint.abort());
        }
    }

    pub(super) fn read(&mut self, world: &mut World, side: usize, now: Time) {
        let bytes = self.ends[side].endpoint.read(u64::MAX);
        let Work::Requests(requests) = &mut self.work else {
            return;
        };
        if side == SERVER {
            requests.unread = requests.unread.saturating_sub(bytes);
            if requests.unread == 0 && bytes > 0 {
                requests.to_answer += std::mem::take(&mut requests.response);
                self.write(SERVER);
            }
            return;
        }
        let was_awaited = requests.awaited > 0;
        requests.awaited = requests.awaited.saturating_sub(bytes);
        if was_awaited && requests.awaited == 0 {
            self.complete(world, now);
        }
    }

    /// A response has arrived: think, then ask again.
    fn complete(&mut self, world: &mut World, now: Time) {
        let Work::Requests(requests) = &mut self.work else {
            return;
        };
        let figures = world.requests.entry(self.flow).or_default();
        figures.take(now.since(requests.asked_at));
        let Application::Requests {
            think,
            new_connection,
            ..
        } = &self.kind.application
        else {
            return;
        };
        if requests.left == 0 {
            return self.finish(world, now);
        }
        requests.next_at = now + Span::from_ns(think.draw(&mut self.stream));
        let next_at = requests.next_at;
        if !new_connection {
            if next_at <= now {
                self.ask(world, now);
                return self.write(CLIENT);
            }
            return self.arm(world, APPLICATION, next_at.min(self.stop));
        }
        let trips = self.ends[CLIENT].endpoint.round_trips();
        self.successor = Some(Successor {
            requests: Requests {
                left: requests.left,
                next_at,
                connections: requests.connections + 1,
                trips: self.earlier.with(trips),
                ..Requests::default()
            },
            stream: self.stream.clone(),
        });
        self.is_succeeded = true;
        self.work = Work::Done;
        self.ends[CLIENT].endpoint.close();
    }
}

impl Requests {
    /// How many connections the flow has had before.
    pub(in crate::traffic) fn connections(&self) -> u32 {
        self.connections
    }
}
