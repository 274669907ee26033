//! The fields of links: one row each, and all that this crate knows about a field is in its row.
//!
//! A link of the file, its way `back`, the `set` and `ramp` of an event and the command `set` take
//! the same fields. `link_fields!` is the table, and hands its rows to two other macros:
//!
//! - `spec!` (`file/link.rs`) makes the types that the file is decoded to, with the JSON Schema;
//! - `members!` (`fields/members.rs`) makes the [`Patch`] that changes a pipe's parameters, and
//!   [`FIELDS`], by which descriptions, ramps and the table of docs/format.md go through all rows.
//!
//! A row reads
//!
//! ```text
//! /// What it means: for the JSON Schema, the reference and the documentation of `Patch`.
//! name: AsWritten => AsANumber, default "what is meant where nothing is written" {
//!     … a `Row`: what may be written, and functions that read, put and show …
//! }
//! ```
//!
//! and everything in the table may change while a run goes on.
//!
//! Left out: what a field does to packets (`longhaul-core`); what a link is as a whole and stays
//! (its ends, `mtu`, `bundle`, `balance`: `LinkSpec`); what fields mean together
//! ([`PipeParams::validate`], `plan/events.rs`); what a pipe can hold of packets
//! (`plan/queues.rs`).

mod members;
mod row;

use longhaul_core::params::PipeParams;

use crate::described;
use crate::plan::pipe;
use crate::schedule::Line;
use members::members;
pub use row::Field;
pub(crate) use row::{Ramped, Reading, Row};
use types::*;

/// The types that rows name, for the macros that receive the table.
pub(crate) mod types {
    pub(crate) use std::sync::Arc;

    pub(crate) use longhaul_core::Span;
    pub(crate) use longhaul_core::element::ElementFactory;
    pub(crate) use longhaul_core::params::{Discipline, Jitter, LossModel, Reorder};
    pub(crate) use longhaul_core::trace::Trace;
    pub(crate) use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit, Rate};

    pub(crate) use crate::file::link::{DelaySpec, LossSpec, QueueSpec, ReorderSpec, TraceSpec};
    pub(crate) use crate::file::wrap::{
        At, BitErrors, BurstOrNone, Either, Quantity, QueueWord, RateOrUnlimited,
    };
}

/// Calls the macro `$then` with `$with` and two groups of rows: the fields of a direction of a
/// link, and those of the link as a whole, which `back` does not take.
macro_rules! link_fields {
    ($then:ident $($with:tt)*) => { $then! { $($with)* {
        /// Serialisation rate.
        rate: Quantity<RateOrUnlimited> => Option<Rate>, default "unlimited" {
            form: "rate or `unlimited`",
            read: |rate, by| Some(rate.get(by.faults)?.0),
            put: |rate, params| params.rate = rate,
            show: |params| described::or(params.rate, "unlimited"),
            ramp: Some(Ramped {
                takes: "a rate",
                refuses: |to| to.is_none().then_some("rate: unlimited"),
                lacks: |params| params.rate.is_none().then_some("rate"),
                between: |line, from, to| line.rate(from.rate, *to),
            }),
        }

        /// Propagation delay, one way.
        delay: Either<Quantity<Span>, At<DelaySpec>> => (Span, Option<Arc<Jitter>>),
        default "0 s" {
            form: "time or [delay](#delay)",
            read: |delay, by| pipe::delay::read(delay, by.context, by.faults),
            put: |delay, params| (params.delay, params.jitter) = delay,
            show: described::delay,
            ramp: Some(Ramped {
                takes: "a delay",
                refuses: |(_, jitter)| jitter.is_some().then_some("a distribution of delays"),
                lacks: |params| params.jitter.is_some().then_some("constant delay"),
                between: |line, from, (to, jitter)| (line.span(from.delay, *to), jitter.clone()),
            }),
        }

        /// Random loss of packets; a lost packet has used the link's rate.
        loss: Either<Quantity<Probability>, At<LossSpec>> => LossModel, default "0 %" {
            form: "probability or [loss](#loss)",
            read: |loss, by| pipe::loss::read(loss, by.context, by.faults),
            put: |loss, params| params.loss = loss,
            show: |params| params.loss.to_string(),
            ramp: Some(Ramped {
                takes: "a loss",
                refuses: |to| (!is_constant(to)).then_some("a model of loss"),
                lacks: |params| (!is_constant(&params.loss)).then_some("independent loss"),
                between: |line, from, to| line.loss(&from.loss, to),
            }),
        }

        /// The largest backlog, in packets, bytes or time, and the queue discipline; the packet in
        /// service does not count.
        queue: Either<Quantity<QueueWord>, At<QueueSpec>> => (QueueLimit, Discipline),
        default "1000 packets" {
            form: "queue or [discipline](#queues)",
            read: |queue, by| pipe::queue::read(queue, by.faults),
            put: |queue, params| (params.queue, params.discipline) = queue,
            show: |params| described::queue(params.queue, &params.discipline),
            ramp: None,
        }

        /// Bytes that may pass at once: the depth of a token bucket that fills at the rate. Without
        /// it, packets are evenly spaced.
        burst: Quantity<BurstOrNone> => Option<Bytes>, default "none" {
            form: "size or `none`",
            read: |burst, by| Some(burst.get(by.faults)?.0),
            put: |burst, params| params.burst = burst,
            show: |params| described::or(params.burst, "none"),
            ramp: None,
        }

        /// The bit error rate: a packet with a wrong bit is lost, so longer packets are lost more
        /// often.
        bit_errors: Quantity<BitErrors> => Probability, default "0" {
            form: "number such as `1e-9`, or probability",
            read: |errors, by| Some(errors.get(by.faults)?.0),
            put: |errors, params| params.bit_errors = errors,
            show: |params| described::errors(params.bit_errors),
            ramp: Some(Ramped::from_any("`bit_errors`", |line, from, to| {
                line.probability(from.bit_errors, *to)
            })),
        }

        /// The probability that a packet is duplicated.
        duplicate: Quantity<Probability> => Probability, default "0 %" {
            form: "probability",
            read: |duplicate, by| duplicate.get(by.faults),
            put: |duplicate, params| params.duplicate = duplicate,
            show: |params| params.duplicate.to_string(),
            ramp: Some(Ramped::from_any("`duplicate`", |line, from, to| {
                line.probability(from.duplicate, *to)
            })),
        }

        /// The probability that a bit of a packet's payload is flipped.
        corrupt: Quantity<Probability> => Probability, default "0 %" {
            form: "probability",
            read: |corrupt, by| corrupt.get(by.faults),
            put: |corrupt, params| params.corrupt = corrupt,
            show: |params| params.corrupt.to_string(),
            ramp: Some(Ramped::from_any("`corrupt`", |line, from, to| {
                line.probability(from.corrupt, *to)
            })),
        }

        /// Packets that are held back, so that later packets overtake them.
        reorder: Either<At<String>, At<ReorderSpec>> => Option<Reorder>, default "none" {
            form: "[reorder](#reorder) or `none`",
            read: |reorder, by| pipe::held(reorder, by.faults),
            put: |reorder, params| params.reorder = reorder,
            show: described::reorder,
            ramp: None,
        }

        /// Whether packets may overtake others when the delay falls during a run.
        overtake: bool => bool, default "false" {
            form: "`true` or `false`",
            read: |overtake, _| Some(*overtake),
            put: |overtake, params| params.overtake = overtake,
            show: |params| params.overtake.to_string(),
            ramp: None,
        }

        /// A recorded series that the link follows.
        trace: Either<At<String>, At<TraceSpec>> => Option<Arc<Trace>>, default "none" {
            form: "[trace](traces.md), file name or `none`",
            read: |trace, by| pipe::recorded::trace(trace, by.framing, by.context, by.faults),
            put: |trace, params| params.trace = trace,
            show: described::trace,
            ramp: None,
        }

        /// An element: your own code in the path of packets, by the name that the program which
        /// embeds Longhaul gives it.
        element: At<String> => Option<ElementFactory>, default "none" {
            form: "[name](elements.md) or `none`",
            read: |name, by| pipe::element(name, by.context.elements, by.faults),
            put: |element, params| params.element = element,
            show: |params| {
                described::or(params.element.as_ref().map(|element| &element.name), "none")
            },
            ramp: None,
        }
    } {
        /// Which bytes of a packet count against the rate.
        framing: Quantity<Framing> => Framing, default "the experiment's" {
            form: "[framing](#units)",
            read: |framing, by| framing.get(by.faults),
            put: |framing, params| params.framing = framing,
            show: |params| params.framing.to_string(),
            ramp: None,
        }
    } } };
}
pub(crate) use link_fields;

link_fields!(members);

/// Whether a loss is one number.
fn is_constant(loss: &LossModel) -> bool {
    matches!(loss, LossModel::Independent(_))
}
