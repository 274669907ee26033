//! The disciplines against slow models of their texts, step by step, and against known results.

mod changes;
mod known;
mod limits;
mod models;
mod reference;
mod server;

use super::{Discipline, Drain, Item, Queue};
use crate::params::PipeParams;
use crate::rng::Stream;
use crate::time::{Span, Time};
use crate::units::{QueueLimit, Rate};

/// 8 Mbit/s: a byte takes 1000 ns, exactly.
const BYTE_NS: u64 = 1000;

fn rate() -> Option<Rate> {
    Rate::from_bits_per_s(8_000_000_000 / BYTE_NS)
}

fn params(queue: QueueLimit, discipline: Discipline) -> PipeParams {
    PipeParams {
        rate: rate(),
        queue,
        discipline,
        ..PipeParams::default()
    }
}

fn queue(limit: QueueLimit, discipline: Discipline) -> Queue {
    Queue::new(&params(limit, discipline), Stream::new(1, "queue"))
}

/// A packet that comes at `ns`.
fn item(index: u32, bytes: u32, ns: u64) -> Item {
    Item {
        index,
        bytes,
        flow: 0,
        ecn_capable: false,
        entered: Time::from_ns(ns),
    }
}

/// A sender of 8 Mbit/s with something in service.
fn busy(rest_ns: u64) -> Drain {
    Drain {
        rate: rate(),
        rest: Some(Span::from_ns(rest_ns)),
    }
}

/// A sender of 8 Mbit/s with nothing in service.
fn idle() -> Drain {
    Drain {
        rate: rate(),
        rest: None,
    }
}
