//! The receiver of datagrams: it counts each number once, and measures how long they took.
//!
//! Reordered is what comes after one that was sent later (RFC 4737); jitter is that of RFC 3550
//! §6.4.1.

use longhaul_core::time::{Span, Time};

use super::duplicates::{Arrival, Duplicates};
use super::{Departures, LINGER};
use crate::modelled::context::Context;
use crate::modelled::draws::Draws;
use crate::modelled::parts::Totals;
use crate::modelled::report::{DatagramFigures, Outcome};
use crate::modelled::side::EndId;
use crate::modelled::table::FlowTable;
use crate::modelled::timers::{Owner, Timer};

/// See the module's first lines.
#[derive(Debug)]
pub(in crate::modelled) struct Receiver {
    id: EndId,
    slot: u32,
    /// Of a flow that ends by itself.
    departures: Option<Box<Departures>>,
    /// Payload of a datagram, but for the last one.
    payload: u32,
    armed: Time,
    seen: Duplicates,
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
    pub(in crate::modelled) fn new(
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
            seen: Duplicates::default(),
            figures: DatagramFigures::default(),
            uncertain: 0,
            received: 0,
            last_delay: None,
            last_at: now,
            is_over: false,
        })
    }

    /// Checks whether the flow is over, and when to check again.
    pub(in crate::modelled) fn act(&mut self, context: &mut Context, now: Time) {
        let Some(departures) = &mut self.departures else {
            return;
        };
        departures.follow(now);
        let next = departures.next().unwrap_or(departures.last()) + LINGER;
        self.check_end(context, now);
        if !self.is_over {
            let owner = Owner::new(self.id, self.slot, Timer::Application);
            context.timers.set(owner, &mut self.armed, next);
        }
    }

    /// A timer's place has come.
    pub(in crate::modelled) fn handle_timer(&mut self, context: &mut Context, at: Time) {
        if self.armed == at {
            self.armed = Time::MAX;
            self.act(context, at);
        }
    }

    /// A datagram has arrived; returns whether it is one of the flow.
    pub(in crate::modelled) fn handle(
        &mut self,
        context: &mut Context,
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
        self.check_end(context, now);
        true
    }

    fn check_end(&mut self, context: &mut Context, now: Time) {
        let Some(departures) = &self.departures else {
            return;
        };
        if self.is_over || departures.next().is_some() {
            return;
        }
        let all_here = self.figures.received - self.uncertain >= departures.count();
        if all_here || now >= departures.last() + LINGER {
            self.is_over = true;
            context.end(self.id, Outcome::Finished, self.last_at);
        }
    }

    /// Whether nothing more can happen.
    pub(in crate::modelled) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What it has done so far.
    pub(in crate::modelled) fn totals(&self) -> Totals {
        Totals {
            bytes: self.received,
            datagrams: Some(self.figures.clone()),
            ..Totals::default()
        }
    }
}
