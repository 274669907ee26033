//! The receiver of datagrams: it counts each number once, and measures how long they took.
//!
//! Reordered is what comes after one that was sent later (RFC 4737); jitter is that of RFC 3550
//! §6.4.1.

use longhaul_core::time::{Span, Time};

use super::seen::{Arrival, Seen};
use super::{Departures, LINGER};
use crate::traffic::draws::Draws;
use crate::traffic::parts::Totals;
use crate::traffic::report::{DatagramFigures, Outcome};
use crate::traffic::side::EndId;
use crate::traffic::table::FlowTable;
use crate::traffic::timers::{Owner, Timer};
use crate::traffic::world::World;

/// See the module's first lines.
#[derive(Debug)]
pub(in crate::traffic) struct Receiver {
    id: EndId,
    slot: u32,
    /// Of a flow that ends by itself.
    departures: Option<Box<Departures>>,
    /// Payload of a datagram, but for the last one.
    payload: u32,
    armed: Time,
    seen: Seen,
    figures: DatagramFigures,
    /// Of those received, how many came too late to distinguish them from duplicates.
    uncertain: u64,
    /// Payload received.
    received: u64,
    last_delay: Option<Span>,
    last_at: Time,
    is_over: bool,
}

impl Receiver {
    /// A receiver in a slot; `None` where the flow does not send by the clock.
    pub(in crate::traffic) fn new(
        table: &FlowTable,
        (id, slot): (EndId, u32),
        draws: &Draws,
        now: Time,
    ) -> Option<Self> {
        let departures = Departures::new(table, id.flow(), draws, now)?;
        let kind = table.kind(id.flow());
        Some(Self {
            id,
            slot,
            departures: kind.is_bounded().then(|| Box::new(departures)),
            payload: kind.segment,
            armed: Time::MAX,
            seen: Seen::default(),
            figures: DatagramFigures::default(),
            uncertain: 0,
            received: 0,
            last_delay: None,
            last_at: now,
            is_over: false,
        })
    }

    /// Checks whether the flow is over, and when to check again.
    pub(in crate::traffic) fn act(&mut self, world: &mut World, now: Time) {
        let Some(departures) = &mut self.departures else {
            return;
        };
        departures.follow(now);
        let next = departures.next().unwrap_or(departures.last()) + LINGER;
        self.check_end(world, now);
        if !self.is_over {
            let owner = Owner::new(self.id, self.slot, Timer::Application);
            world.timers.set(owner, &mut self.armed, next);
        }
    }

    /// A timer's place has come.
    pub(in crate::traffic) fn handle_timer(&mut self, world: &mut World, at: Time) {
        if self.armed == at {
            self.armed = Time::MAX;
            self.act(world, at);
        }
    }

    /// A datagram has arrived; returns whether it is one of the flow.
    pub(in crate::traffic) fn handle(
        &mut self,
        world: &mut World,
        now: Time,
        [number, sent]: [u64; 2],
    ) -> bool {
        let mut payload = self.payload.into();
        if let Some(departures) = &mut self.departures {
            departures.follow(now);
            if number >= departures.count() {
                return false;
            }
            payload = departures.payload(number);
        }
        let figures = &mut self.figures;
        match self.seen.take(number) {
            Arrival::Again => {
                figures.duplicates += 1;
                return true;
            }
            Arrival::Late => figures.reordered += 1,
            Arrival::Forgotten => {
                figures.reordered += 1;
                self.uncertain += 1;
            }
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
        true
    }

    fn check_end(&mut self, world: &mut World, now: Time) {
        let Some(departures) = &self.departures else {
            return;
        };
        if self.is_over || departures.next().is_some() {
            return;
        }
        let all_here = self.figures.received - self.uncertain >= departures.count();
        if all_here || now >= departures.last() + LINGER {
            self.is_over = true;
            world.end(self.id, Outcome::Finished, self.last_at);
        }
    }

    /// Whether nothing more can happen.
    pub(in crate::traffic) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What it has done so far.
    pub(in crate::traffic) fn totals(&self) -> Totals {
        Totals {
            bytes: self.received,
            datagrams: Some(self.figures.clone()),
            ..Totals::default()
        }
    }
}
