//! The state that all ends of one [`Traffic`](super::Traffic) share: the table of flows, the timers, the
//! outbox and the results. No end learns about another through it.

use std::fmt::Write as _;
use std::sync::Arc;

use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;

use super::draws::Draws;
use super::outbox::Outbox;
use super::parts::Parts;
use super::report::Outcome;
use super::side::EndId;
use super::table::FlowTable;
use super::timers::Timers;

/// See the module's first lines.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) table: Arc<FlowTable>,
    seed: u64,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,
    pub(super) parts: Parts,
    /// Buffer for a flow's name.
    name: String,
}

impl Context {
    pub(super) fn new(table: Arc<FlowTable>, seed: u64, holds: &impl Fn(NodeId) -> bool) -> Self {
        Self {
            seed,
            timers: Timers::default(),
            outbox: Outbox::default(),
            parts: Parts::new(&table, holds),
            name: String::new(),
            table,
        }
    }

    /// The draws of a flow, from the beginning on.
    pub(super) fn draws(&mut self, flow: u32) -> Draws {
        self.name.clear();
        // Nothing that is written to a string fails.
        let _ = write!(self.name, "{}", self.table.name(flow));
        Draws::new(self.seed, &self.name)
    }

    /// A flow is over for an end, unless it was before.
    pub(super) fn end(&mut self, end: EndId, outcome: Outcome, at: Time) {
        self.parts.end(&self.table, end, outcome, at);
    }
}
