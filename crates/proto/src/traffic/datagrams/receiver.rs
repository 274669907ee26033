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
use crate::traffic::timers::Owner;
use crate::traffic::world::World;

/// See the module's first lines.
#[derive(Debug)]
pub(in crate::traffic) struct Receiver {
    id: EndId,
    slot: u32,
    departures: Departures,
    armed: Time,
    /// Whether the flow ends by itself.
    is_bounded: bool,
    seen: Seen,
    figures: DatagramFigures,
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
        Some(Self {
            id,
            slot,
            departures: Departures::new(table, id.flow(), draws, now)?,
            armed: Time::MAX,
            is_bounded: table.kind(id.flow()).is_bounded(),
            seen: Seen::default(),
            figures: DatagramFigures::default(),
            received: 0,
            last_delay: None,
            last_at: now,
            is_over: false,
        })
    }

    /// Lets those leave that have left by `now`.
    fn follow(&mut self, now: Time) {
        while self.departures.next().is_some_and(|at| at <= now) {
            self.departures.advance();
        }
    }

    /// Looks whether all is over, and when to look again.
    pub(in crate::traffic) fn act(&mut self, world: &mut World, now: Time) {
        if !self.is_bounded {
            return;
        }
        self.follow(now);
        self.check_end(world, now);
        if !self.is_over {
            let departures = &self.departures;
            let next = departures.next().unwrap_or(departures.last()) + LINGER;
            let owner = Owner {
                end: self.id,
                slot: self.slot,
            };
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

    /// A datagram has arrived.
    pub(in crate::traffic) fn handle(
        &mut self,
        world: &mut World,
        now: Time,
        [number, sent]: [u64; 2],
    ) {
        self.follow(now);
        if number >= self.departures.count() {
            return; // none of ours
        }
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
        self.received += self.departures.payload(number);
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
        let departures = &self.departures;
        if self.is_over || departures.next().is_some() {
            return;
        }
        let all_here = self.figures.received >= departures.count();
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
