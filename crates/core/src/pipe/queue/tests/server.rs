//! A sender of 8 Mbit/s behind a queue: arrivals and ends of service in order of time.

use super::super::{Dropped, Enqueued, Item, Queue};
use super::{BYTE_NS, busy, idle};
use crate::rng::Stream;
use crate::time::Time;

/// What a packet met; times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// Its service started after a wait.
    Served {
        at: u64,
        wait: u64,
    },
    Dropped {
        at: u64,
        early: bool,
    },
}

pub(super) struct Server {
    pub(super) queue: Queue,
    free_at: Option<u64>,
}

impl Server {
    pub(super) const fn new(queue: Queue) -> Self {
        Self {
            queue,
            free_at: None,
        }
    }

    /// A packet comes, after all service that ends until then.
    pub(super) fn arrive(&mut self, item: Item, on: &mut impl FnMut(&Item, Met)) {
        let at = item.entered.as_ns();
        self.run_until(at, on);
        let drain = self.free_at.map_or(idle(), |free_at| busy(free_at - at));
        let queue = &mut self.queue;
        let put = queue.enqueue(item.entered, item, drain, &mut report(at, on));
        if put != Enqueued::Dropped && self.free_at.is_none() {
            self.serve(at, on);
        }
    }

    /// All service that ends by `until`.
    pub(super) fn run_until(&mut self, until: u64, on: &mut impl FnMut(&Item, Met)) {
        while let Some(free_at) = self.free_at.filter(|&free_at| free_at <= until) {
            self.serve(free_at, on);
        }
    }

    fn serve(&mut self, at: u64, on: &mut impl FnMut(&Item, Met)) {
        let next = self.queue.dequeue(Time::from_ns(at), &mut report(at, on));
        self.free_at = next.map(|(item, _)| {
            let wait = at - item.entered.as_ns();
            on(&item, Met::Served { at, wait });
            at + u64::from(item.bytes) * BYTE_NS
        });
    }
}

fn report(at: u64, on: &mut impl FnMut(&Item, Met)) -> impl FnMut(Dropped) {
    move |dropped| {
        let early = dropped.early;
        on(&dropped.item, Met::Dropped { at, early });
    }
}

/// Exponential with this mean.
pub(super) fn exponential(stream: &mut Stream, mean: f64) -> f64 {
    let uniform = ((stream.draw() >> 11) + 1) as f64 / 9_007_199_254_740_992.0;
    -mean * libm::log(uniform)
}
