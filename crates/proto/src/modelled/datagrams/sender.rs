//! The sender of datagrams. It gets no feedback except errors, for which it stays a while after its
//! last datagram.

use longhaul_core::time::Time;

use super::{Departures, LINGER};
use crate::ip::PROTOCOL_UDP;
use crate::modelled::context::Context;
use crate::modelled::draws::Draws;
use crate::modelled::outbox::Ends;
use crate::modelled::parts::Totals;
use crate::modelled::report::{DatagramFigures, Outcome};
use crate::modelled::side::{EndId, Side};
use crate::modelled::table::FlowTable;
use crate::modelled::timers::{Owner, Timer};
use crate::modelled::wire::Template;

/// See the module's first lines.
#[derive(Debug)]
pub(in crate::modelled) struct Sender {
    id: EndId,
    slot: u32,
    template: Template,
    ends: Ends,
    departures: Departures,
    armed: Time,
    /// Whether what is sent counts as received, by a program.
    is_received: bool,
    errors: u64,
    is_over: bool,
}

impl Sender {
    /// A sender in a slot; `None` where the flow does not send by the clock.
    pub(in crate::modelled) fn new(
        table: &FlowTable,
        (id, slot): (EndId, u32),
        draws: &Draws,
        now: Time,
    ) -> Option<Self> {
        let [own, remote] = table.sockets(id);
        Some(Self {
            id,
            slot,
            template: Template::new(PROTOCOL_UDP, own, remote),
            ends: Ends {
                host: own.node,
                to: remote.node,
            },
            departures: Departures::new(table, id.flow(), draws, now)?,
            armed: Time::MAX,
            is_received: table.kind(id.flow()).receives() == Side::Opener,
            errors: 0,
            is_over: false,
        })
    }

    /// Sends what is due, and waits for the next.
    pub(in crate::modelled) fn act(&mut self, context: &mut Context, now: Time) {
        while let Some(at) = self.departures.next().filter(|&at| at <= now) {
            let number = self.departures.count();
            let (template, len) = (&self.template, self.departures.len(number));
            let write = |out: &mut Vec<u8>| template.write_udp([number, at.as_ns()], len, out);
            context.outbox.push(self.ends, at, write);
            self.departures.advance();
        }
        let last = self.departures.last();
        let next = self.departures.next().unwrap_or_else(|| {
            context.end(self.id, Outcome::Finished, last);
            last + LINGER
        });
        self.is_over = next <= now;
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

    /// A router has reported a datagram.
    pub(in crate::modelled) fn handle_error(&mut self) {
        self.errors += 1;
    }

    /// Whether nothing more can happen.
    pub(in crate::modelled) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What it has done so far.
    pub(in crate::modelled) fn totals(&self) -> Totals {
        let sent = self.departures.count();
        Totals {
            bytes: if self.is_received {
                self.departures.payload_below(sent)
            } else {
                0
            },
            datagrams: Some(DatagramFigures {
                sent,
                errors: self.errors,
                ..DatagramFigures::default()
            }),
            ..Totals::default()
        }
    }
}
