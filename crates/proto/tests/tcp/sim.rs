//! A small deterministic network: flows with delays of their own over one bottleneck.
//!
//! Data cross the bottleneck (a rate and a drop-tail queue, or none) and then a delay;
//! acknowledgements only have a delay. A rule decides on each segment that carries numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Config, Ecn, Endpoint, Segment};

/// What becomes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Impairment {
    Pass,
    Drop,
    Mark,
    Duplicate,
    Delay(Span),
}

/// Decides on a segment: flow, whether it travels from the opener, the segment, now.
pub(crate) type Rule = Box<dyn FnMut(usize, bool, &Segment, Time) -> Impairment>;

/// The bottleneck; without a rate it takes no time.
#[derive(Default)]
pub(crate) struct Bottleneck {
    pub bits_per_s: Option<u64>,
    /// Packets that may wait or be served.
    pub limit: usize,
    /// Capable packets are marked where so many are waiting.
    pub mark: Option<usize>,
    pub departures: VecDeque<Time>,
    pub drops: u64,
    free_at: Time,
}

impl Bottleneck {
    pub(crate) fn new(bits_per_s: u64, limit: usize) -> Self {
        Self {
            bits_per_s: Some(bits_per_s),
            limit,
            ..Self::default()
        }
    }

    pub(crate) fn queue(&mut self, now: Time) -> usize {
        while self.departures.front().is_some_and(|&at| at <= now) {
            self.departures.pop_front();
        }
        self.departures.len()
    }

    fn pass(&mut self, now: Time, segment: &mut Segment) -> Option<Time> {
        let Some(rate) = self.bits_per_s else {
            return Some(now);
        };
        let queue = self.queue(now);
        if queue >= self.limit {
            self.drops += 1;
            return None;
        }
        if self.mark.is_some_and(|k| queue >= k) && segment.ecn != Ecn::NotEct {
            segment.ecn = Ecn::Ce;
        }
        let bits = u64::from(packet_len(segment)) * 8;
        let start = self.free_at.max(now);
        self.free_at = start + Span::from_ns(bits * 1_000_000_000 / rate);
        self.departures.push_back(self.free_at);
        Some(self.free_at)
    }
}

/// Length of the IP packet.
pub(crate) fn packet_len(segment: &Segment) -> u32 {
    20 + segment.header_len() + segment.len
}

pub(crate) struct Flow {
    /// Opens, and sends data.
    pub a: Endpoint,
    /// Answers.
    pub b: Endpoint,
    pub there: Span,
    pub back: Span,
    pub start: Time,
    /// Segments with numbers that `a` handed to the network.
    pub sent: u64,
    /// Segments that `b` handed to the network.
    pub answers: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Time,
    order: u64,
    flow: usize,
    from_a: bool,
    slot: usize,
}

pub(crate) struct Sim {
    pub now: Time,
    pub flows: Vec<Flow>,
    pub bottleneck: Bottleneck,
    pub rule: Rule,
    /// Keeps what leaves, with its time and whether `a` sent it.
    pub log: Option<Vec<(Time, bool, Segment)>>,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    slots: Vec<Segment>,
    free: Vec<usize>,
    order: u64,
}

impl Sim {
    pub(crate) fn new(bottleneck: Bottleneck) -> Self {
        Self {
            now: Time::ZERO,
            flows: Vec::new(),
            bottleneck,
            rule: Box::new(|_, _, _, _| Impairment::Pass),
            log: None,
            arrivals: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            order: 0,
        }
    }

    /// Adds a flow that opens at `start`, with half of `rtt` each way; `b` reads at once.
    pub(crate) fn flow(&mut self, config: &Config, rtt: Span, start: Time) -> &mut Flow {
        let config = Arc::new(config.clone());
        let seed = self.flows.len() as u64 + 1;
        let mut b = Endpoint::listen(config.clone(), seed);
        b.set_auto_read(true);
        let mut a = Endpoint::connect(start, config, seed);
        a.set_auto_read(true);
        let there = Span::from_ns(rtt.as_ns() / 2);
        let back = rtt.saturating_sub(there);
        self.flows.push(Flow {
            a,
            b,
            there,
            back,
            start,
            sent: 0,
            answers: 0,
        });
        self.flows.last_mut().unwrap()
    }

    fn hand_over(&mut self, flow: usize, from_a: bool, mut segment: Segment) {
        let f = &mut self.flows[flow];
        if from_a {
            f.sent += u64::from(segment.span() > 0);
        } else {
            f.answers += 1;
        }
        if let Some(log) = &mut self.log {
            log.push((self.now, from_a, segment));
        }
        let mut late = Span::ZERO;
        let mut copies = 1;
        match (self.rule)(flow, from_a, &segment, self.now) {
            Impairment::Pass => {}
            Impairment::Drop => return,
            Impairment::Mark => segment.ecn = Ecn::Ce,
            Impairment::Duplicate => copies = 2,
            Impairment::Delay(span) => late = span,
        }
        for _ in 0..copies {
            let out = if from_a {
                self.bottleneck.pass(self.now, &mut segment)
            } else {
                Some(self.now)
            };
            let Some(out) = out else {
                continue;
            };
            let f = &self.flows[flow];
            let delay = if from_a { f.there } else { f.back };
            self.schedule(out + delay + late, flow, from_a, segment);
        }
    }

    fn schedule(&mut self, at: Time, flow: usize, from_a: bool, segment: Segment) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(segment);
            self.slots.len() - 1
        });
        self.slots[slot] = segment;
        self.order += 1;
        let order = self.order;
        self.arrivals.push(Reverse(Arrival {
            at,
            order,
            flow,
            from_a,
            slot,
        }));
    }

    /// Takes out of both ends of `flow` what they want to send.
    pub(crate) fn pump(&mut self, flow: usize) {
        if self.flows[flow].start > self.now {
            return;
        }
        for from_a in [true, false] {
            let mut burst = 0;
            loop {
                let f = &mut self.flows[flow];
                let end = if from_a { &mut f.a } else { &mut f.b };
                let Some(segment) = end.poll_transmit(self.now) else {
                    break;
                };
                burst += 1;
                assert!(burst < 10_000_000, "an endpoint sends without end");
                self.hand_over(flow, from_a, segment);
            }
        }
    }

    fn next_timeout(&self) -> Option<(Time, usize)> {
        let due = |(i, f): (usize, &Flow)| {
            let own = [f.a.poll_timeout(), f.b.poll_timeout()];
            let own = own.into_iter().flatten().min();
            let open = (f.start > self.now).then_some(f.start);
            if f.start > self.now { open } else { own }.map(|at| (at, i))
        };
        self.flows.iter().enumerate().filter_map(due).min()
    }

    /// One step, if it lies before `until`; false otherwise.
    pub(crate) fn step(&mut self, until: Time) -> bool {
        let arrival = self.arrivals.peek().map(|Reverse(a)| a.at);
        let timeout = self.next_timeout();
        let flow = match (arrival, timeout) {
            (Some(at), timeout) if timeout.is_none_or(|(t, _)| at <= t) => {
                if at >= until {
                    return false;
                }
                self.now = self.now.max(at);
                self.arrive()
            }
            (_, Some((at, flow))) => {
                if at >= until {
                    return false;
                }
                self.now = self.now.max(at);
                let f = &mut self.flows[flow];
                f.a.handle_timeout(self.now);
                f.b.handle_timeout(self.now);
                flow
            }
            _ => return false,
        };
        self.pump(flow);
        true
    }

    fn arrive(&mut self) -> usize {
        let Reverse(arrival) = self.arrivals.pop().unwrap();
        let segment = self.slots[arrival.slot];
        self.free.push(arrival.slot);
        let f = &mut self.flows[arrival.flow];
        let end = if arrival.from_a { &mut f.b } else { &mut f.a };
        end.handle_segment(self.now, &segment);
        arrival.flow
    }

    /// Runs to `until`.
    pub(crate) fn run(&mut self, until: Time) {
        (0..self.flows.len()).for_each(|flow| self.pump(flow));
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Runs to `until` and calls `sample` every `every`.
    pub(crate) fn watch(&mut self, until: Time, every: Span, mut sample: impl FnMut(&mut Self)) {
        while self.now < until {
            let next = (self.now + every).min(until);
            self.run(next);
            sample(self);
        }
    }
}

/// A configuration without limits of buffers.
pub(crate) fn unlimited(congestion: longhaul_proto::tcp::Algorithm) -> Config {
    Config {
        congestion,
        wmem: 1 << 60,
        rmem: 1 << 30,
        ..Config::default()
    }
}

pub(crate) fn ms(ms: u64) -> Time {
    Time::from_ns(ms * 1_000_000)
}

pub(crate) fn s(s: u64) -> Time {
    ms(s * 1000)
}

/// The time of `at` in ms, for comparisons.
pub(crate) fn in_ms(at: Time) -> f64 {
    at.as_ns() as f64 / 1e6
}
