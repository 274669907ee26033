//! What every mechanism of a link does, measured through the engine, beside what it should do.
//!
//! Purpose: the tables of docs/links.md and the tests of the mechanisms in one: each table is a
//! list of figures with theory, measurement and the difference that theory allows. The test
//! program checks them and that the documentation shows them; the example `links` prints them.
//!
//! Method: a host sends a million packets over one link to another, in virtual time, from a fixed
//! seed; what comes out is compared with a model that shares no code with the mechanism.
//! Statistical bounds are four standard errors of the figure, from the number of packets: one
//! figure in 16,000 would miss them by chance, and with a fixed seed it always or never does.
//! Where queues make packets depend on one another, the bounds are promises instead: mean waits
//! within 1 %, losses of full queues within 2 % of the formula.
//!
//! Left out: everything with a clock, programs or a kernel (`longhaul-bench suite`).

pub(crate) mod aqm;
pub(crate) mod buckets;
pub(crate) mod changes;
pub(crate) mod delays;
pub(crate) mod line;
pub(crate) mod losses;
pub(crate) mod queues;
pub(crate) mod rates;
pub(crate) mod table;
pub(crate) mod theory;
pub(crate) mod traces;

use table::Table;

/// Packets of a measurement.
pub(crate) const N: usize = 1_000_000;

/// Standard errors that a figure may be off.
pub(crate) const ERRORS: f64 = 4.0;

/// All tables.
pub(crate) const TABLES: [fn() -> Table; 12] = [
    delays::delay,
    delays::correlation,
    losses::loss,
    changes::changes,
    rates::rate,
    buckets::burst,
    queues::drop_tail,
    queues::waiting,
    aqm::codel,
    aqm::others,
    traces::trace,
    traces::in_step,
];
