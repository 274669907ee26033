//! A flow of datagrams: a source that sends by the clock, and a sink that measures.
//!
//! Each datagram begins with its number and the time of its sending. The sink counts each number
//! once: it remembers which of the last 1024 have come; what is older counts as reordered, and a
//! copy of it as received. Reordered is what comes after one that was sent later (RFC 4737);
//! jitter is that of RFC 3550 §6.4.1.
//!
//! A flow is over when it has stopped and all has arrived, or nothing is awaited any longer. Where
//! its bytes are counted, its last datagram may be smaller than the others.

use std::net::IpAddr;
use std::sync::Arc;

use longhaul_core::rng::Stream;
use longhaul_core::time::{Span, Time};

use super::outbox::Way;
use super::report::{DatagramFigures, Outcome};
use super::source::Source;
use super::spec::{Host, IpVersion, LEAST_PAYLOAD};
use super::timers::Owner;
use super::wire::{Socket, Template};
use super::world::{Kind, World};
use crate::ip::PROTOCOL_UDP;

/// How long after the last datagram was sent the sink waits for those that are missing.
const LINGER: Span = Span::from_s(10);

const WORDS: usize = 16;
const REMEMBERED: u64 = 64 * WORDS as u64;

/// Which of the last numbers have come.
#[derive(Debug, Default)]
struct Seen {
    /// The number behind the highest one that has come.
    next: u64,
    /// A bit for each number, at its remainder.
    bits: [u64; WORDS],
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    New,
    Late,
    Again,
}

impl Seen {
    fn take(&mut self, number: u64) -> Arrival {
        let bit = |number: u64| {
            let place = (number % REMEMBERED) as usize;
            (place / 64, 1 << (place % 64))
        };
        let (word, mask) = bit(number);
        if number >= self.next {
            if number - self.next >= REMEMBERED {
                self.bits = [0; WORDS];
            } else {
                for skipped in self.next..number {
                    let (word, mask) = bit(skipped);
                    self.bits[word] &= !mask;
                }
            }
            self.bits[word] |= mask;
            self.next = number.saturating_add(1);
            return Arrival::New;
        }
        if self.next - number > REMEMBERED {
            return Arrival::Late;
        }
        let was_seen = self.bits[word] & mask != 0;
        self.bits[word] |= mask;
        if was_seen {
            Arrival::Again
        } else {
            Arrival::Late
        }
    }
}

/// See the module's first lines.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) flow: u32,
    template: Template,
    way: Way,
    source: Source,
    stream: Stream,
    stop: Time,
    payload: u32,
    /// Payload that it sends in all.
    bytes: u64,
    slot: u32,
    generation: u32,
    armed: Time,
    /// When the sink waits no longer; the end of time while sending.
    until: Time,
    /// Whether the sink is a model.
    is_measured: bool,
    seen: Seen,
    pub(super) figures: DatagramFigures,
    /// Payload received.
    received: u64,
    last_delay: Option<Span>,
    last_at: Time,
    is_over: bool,
}

impl Datagrams {
    /// A flow between two sockets, of `bytes` where its application counts them; `None` where it
    /// does not send by the clock.
    pub(super) fn new(
        (flow, slot, generation): (u32, u32, u32),
        hosts: [Host; 2],
        ports: [u16; 2],
        (kind, ip): (&Arc<Kind>, IpVersion),
        bytes: u64,
        mut stream: Stream,
        now: Time,
    ) -> Option<Self> {
        let sockets = [0, 1].map(|side| Socket {
            node: hosts[side].node,
            address: match ip {
                IpVersion::V4 => IpAddr::V4(hosts[side].ipv4),
                IpVersion::V6 => IpAddr::V6(hosts[side].ipv6),
            },
            port: ports[side],
        });
        let payload = kind.segment;
        let source = Source::new(&kind.application, payload, now, &mut stream)?;
        Some(Self {
            flow,
            template: Template::new(PROTOCOL_UDP, sockets[0], sockets[1]),
            way: Way {
                host: hosts[0].node,
                to: hosts[1].node,
            },
            source,
            stream,
            stop: kind.stop.unwrap_or(Time::MAX),
            payload,
            bytes: match kind.application.is_bounded() {
                true => bytes,
                false => u64::MAX,
            },
            slot,
            generation,
            armed: Time::MAX,
            until: Time::MAX,
            is_measured: kind.program.is_none(),
            seen: Seen::default(),
            figures: DatagramFigures::default(),
            received: 0,
            last_delay: None,
            last_at: now,
            is_over: false,
        })
    }

    /// Payload of the datagrams below `number`.
    fn payload_below(&self, number: u64) -> u64 {
        number
            .saturating_mul(u64::from(self.payload))
            .min(self.bytes)
    }

    /// Payload of a datagram, which has room for its number and time.
    fn payload_of(&self, number: u64) -> u32 {
        let counted = self.payload_below(number + 1) - self.payload_below(number);
        u32::try_from(counted).map_or(self.payload, |counted| counted.max(LEAST_PAYLOAD))
    }

    /// Whether another datagram will be sent.
    fn is_sending(&self) -> bool {
        self.source.next() < self.stop && self.payload_below(self.figures.sent) < self.bytes
    }

    /// Sends what is due, and waits for the next.
    pub(super) fn act(&mut self, world: &mut World, now: Time) {
        while self.source.next() <= now && self.is_sending() {
            let numbers = [self.figures.sent, now.as_ns()];
            let (template, payload) = (&self.template, self.payload_of(self.figures.sent));
            let write = |out: &mut Vec<u8>| template.write_udp(numbers, payload, out);
            world.outbox.push(self.way, now, write);
            self.figures.sent += 1;
            self.source.advance(&mut self.stream);
            if !self.is_measured {
                self.last_at = now;
            }
        }
        let next = if self.is_sending() {
            self.source.next()
        } else {
            if self.until == Time::MAX {
                self.until = now + LINGER;
            }
            self.until
        };
        self.check_end(world, now);
        if next < Time::MAX && !self.is_over {
            let owner = Owner {
                slot: self.slot,
                which: 0,
                generation: self.generation,
            };
            world.timers.set(owner, &mut self.armed, next);
        }
    }

    /// A timer's place has come.
    pub(super) fn handle_timer(&mut self, world: &mut World, at: Time) {
        if self.armed == at {
            self.armed = Time::MAX;
            self.act(world, at);
        }
    }

    /// A datagram has arrived.
    pub(super) fn handle(&mut self, world: &mut World, now: Time, [number, sent]: [u64; 2]) {
        if number >= self.figures.sent {
            return; // none of ours
        }
        let payload = self.payload_below(number + 1) - self.payload_below(number);
        let figures = &mut self.figures;
        match self.seen.take(number) {
            Arrival::Again => {
                figures.duplicates += 1;
                return;
            }
            Arrival::Late => figures.reordered += 1,
            Arrival::New => {}
        }
        figures.received += 1;
        self.received += payload;
        let delay = now.since(Time::from_ns(sent));
        figures.least_delay = Some(figures.least_delay.map_or(delay, |least| least.min(delay)));
        figures.most_delay = figures.most_delay.max(delay);
        figures.total_delay += u128::from(delay.as_ns());
        if let Some(last) = self.last_delay.replace(delay) {
            let difference = delay.as_ns().abs_diff(last.as_ns()) as f64;
            figures.jitter += (difference - figures.jitter) / 16.0;
        }
        self.last_at = now;
        self.check_end(world, now);
    }

    fn check_end(&mut self, world: &mut World, now: Time) {
        let all_here = !self.is_measured || self.figures.received >= self.figures.sent;
        if self.until < Time::MAX && (all_here || now >= self.until) && !self.is_over {
            self.is_over = true;
            world.end(self.flow, Outcome::Finished, self.last_at);
        }
    }

    /// Whether nothing more can happen.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Payload bytes received, or sent to a program.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_measured {
            true => self.received,
            false => self.payload_below(self.figures.sent),
        }
    }
}
