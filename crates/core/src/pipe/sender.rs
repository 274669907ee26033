//! The sender of a pipe: decides when packets leave the queue, by even gaps, a token bucket or a trace.
//!
//! One packet is in service at a time. Its start and departure are computed exactly when service starts,
//! remainders of a nanosecond included. A change of the sender carries the rest of the packet in service
//! over to the new one; a bucket sends a packet in no time, so the rest is the whole packet. A trace that
//! records a rate takes precedence over `rate` and `burst`.
//!
//! Left out: which packet is next ([`super::queue`]).

use std::sync::Arc;

use super::rate::{Exact, Server};
use super::shaper::Bucket;
use super::trace::{Replay, WORK_OF_BYTE};
use crate::params::PipeParams;
use crate::time::Time;
use crate::trace::{Capacity, Series, Trace};
use crate::units::Rate;

/// Sends packets, one at a time.
#[derive(Debug)]
pub(crate) struct Sender {
    kind: Kind,
    rate: Option<Rate>,
    /// The departure of the packet accepted last.
    exact: Exact,
}

#[derive(Debug)]
enum Kind {
    Even(Server),
    Bucket(Bucket),
    Trace(Box<Replay>),
}

/// When a packet is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// When its last bit is out; [`Time::MAX`] is never.
    pub(crate) departure: Time,
    /// The interval that counts as sending time, in ns.
    pub(crate) busy: (u64, u64),
}

impl Sender {
    pub(crate) fn new(params: &PipeParams) -> Self {
        let trace = params.trace.as_ref();
        let replay = trace.map(|trace| Replay::new(Arc::clone(trace), params.rate));
        let kind = match (replay.filter(Replay::paces), params.burst) {
            (Some(replay), _) => Kind::Trace(Box::new(replay)),
            (None, Some(depth)) => Kind::Bucket(Bucket::new(params.rate, depth)),
            (None, None) => Kind::Even(Server::new(params.rate)),
        };
        Self {
            kind,
            rate: params.rate,
            exact: Exact::default(),
        }
    }

    /// Even gaps, continuing with the packet that a plain pipe has in service.
    pub(crate) fn even(server: &Server, rate: Option<Rate>, in_service: Option<Exact>) -> Self {
        let mut server = server.clone();
        if let Some(departure) = in_service {
            server.rewind(departure);
        }
        Self {
            exact: server.busy_until(),
            kind: Kind::Even(server),
            rate,
        }
    }

    /// Serves the next packet, of `bytes`, which entered the pipe at `entered`.
    pub(crate) fn serve(&mut self, entered: Time, bytes: u32) -> Served {
        match &mut self.kind {
            Kind::Even(server) => {
                let (start, departure) = server.serve(entered.as_ns(), bytes);
                self.exact = departure;
                evenly(start.ns, departure)
            }
            Kind::Bucket(bucket) => serve_from(bucket, entered, u128::from(bytes) * WORK_OF_BYTE),
            Kind::Trace(replay) => {
                let (start, departure) = replay.serve(entered, bytes);
                Served {
                    departure,
                    busy: (start.as_ns(), departure.as_ns()),
                }
            }
        }
    }

    /// What is left to send at `now` of the packet in service, in bits · 10⁹.
    fn work_left(&mut self, now: Time) -> u128 {
        match &mut self.kind {
            Kind::Even(server) => server.work_left(self.exact, now.as_ns()),
            Kind::Bucket(bucket) => bucket.work_left(),
            Kind::Trace(replay) => replay.work_left(now),
        }
    }

    /// Starts over at `now` with `work` bits · 10⁹ in service.
    fn restart(&mut self, now: Time, work: u128) -> Served {
        match &mut self.kind {
            Kind::Even(server) => {
                self.exact = server.restart(now.as_ns(), work);
                evenly(now.as_ns(), self.exact)
            }
            Kind::Bucket(bucket) => serve_from(bucket, now, work),
            Kind::Trace(replay) => {
                let departure = replay.restart(now, self.rate, work);
                Served {
                    departure,
                    busy: (now.as_ns(), departure.as_ns()),
                }
            }
        }
    }

    /// Drops the packet in service, if there is one; the next starts no earlier than `now`.
    pub(crate) fn stop(&mut self, in_service: bool, now: Time) {
        match &mut self.kind {
            Kind::Bucket(bucket) if in_service => bucket.take_back(now.as_ns()),
            Kind::Bucket(_) => {}
            _ => {
                self.restart(now, 0);
            }
        }
    }

    /// Changes the parameters from `old` to `new` at `now`; returns the new departure of the packet in
    /// service, if there is one.
    pub(crate) fn set(
        &mut self,
        old: &PipeParams,
        new: &PipeParams,
        in_service: bool,
        now: Time,
    ) -> Option<Served> {
        let same_trace = same_trace(old.trace.as_ref(), new.trace.as_ref());
        if same_trace && (old.rate, old.burst) == (new.rate, new.burst) {
            return None;
        }
        let work = in_service.then(|| self.work_left(now));
        self.rate = new.rate;
        match (&mut self.kind, new.burst) {
            (Kind::Bucket(bucket), Some(depth)) if same_trace => {
                if in_service {
                    bucket.take_back(now.as_ns());
                }
                bucket.set(new.rate, depth, now.as_ns());
            }
            (Kind::Trace(_), _) if same_trace => {
                let served = self.restart(now, work.unwrap_or(0));
                return in_service.then_some(served);
            }
            (Kind::Even(server), _) => {
                let free = server.busy_until().ns.min(now.as_ns());
                *self = Self::new(new);
                if let Kind::Even(server) = &mut self.kind {
                    server.restart(free, 0);
                }
            }
            _ => *self = Self::new(new),
        }
        work.map(|work| self.restart(now, work))
    }

    /// The rate at `now`, for disciplines that estimate delays; for a trace of opportunities, its mean.
    pub(crate) fn rate(&mut self, now: Time) -> Option<Rate> {
        let Kind::Trace(replay) = &mut self.kind else {
            return self.rate;
        };
        match replay.rate_at(now) {
            Some(Capacity::Limited(rate)) => Some(rate),
            Some(Capacity::Unlimited) => None,
            // Nothing is sent: the lowest rate that there is.
            Some(Capacity::Outage) => Rate::from_bits_per_s(1),
            None => mean_of(replay.trace()).or(self.rate),
        }
    }
}

fn evenly(start: u64, departure: Exact) -> Served {
    Served {
        departure: Time::from_ns(departure.ceil()),
        busy: (start, departure.ns),
    }
}

fn serve_from(bucket: &mut Bucket, entered: Time, work: u128) -> Served {
    let gone = bucket.serve(entered.as_ns(), work);
    Served {
        departure: Time::from_ns(gone),
        busy: (gone, gone.saturating_add(bucket.mean_ns(work))),
    }
}

fn same_trace(a: Option<&Arc<Trace>>, b: Option<&Arc<Trace>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The mean rate of opportunities that start over.
fn mean_of(trace: &Trace) -> Option<Rate> {
    let Series::Opportunities { at, bytes } = &trace.series else {
        return None;
    };
    let period = u128::from(trace.period?.as_ns().max(1));
    let bits = at.len() as u128 * u128::from(*bytes) * WORK_OF_BYTE;
    Rate::from_bits_per_s(u64::try_from(bits / period).unwrap_or(u64::MAX).max(1))
}
