//! Series recorded on a real link: how its delay, rate and loss changed over time.
//!
//! Plain data; `pipe/trace.rs` replays it. Times count from the start of the series, which is
//! t = 0 of the experiment plus `offset`. Traces of several links that were recorded together
//! stay in step, because all count from the same zero.
//!
//! Left out: how traces are read from files (`longhaul-plan`).

use crate::time::Span;
use crate::units::{Probability, Rate};

/// A recorded series.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What was recorded.
    pub series: Series,
    /// When in the experiment the series begins.
    pub offset: Span,
    /// The length after which it starts over, not zero. `None` keeps the last sample for ever;
    /// after the last opportunity nothing is ever delivered.
    pub period: Option<Span>,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Series {
    /// Delay, rate and loss at points in time.
    Samples {
        /// Ascending in time, the first at 0, at least one.
        samples: Vec<Sample>,
        /// Linear between samples (and, where the series starts over, from the last sample to
        /// the first); otherwise each holds until the next. Where one of two neighbours does
        /// not record a value, or is unlimited, the first holds until the second.
        interpolate: bool,
    },
    /// Opportunities to deliver, in the way of mahimahi: at each one up to `bytes` of the
    /// queue go out. What is not used is lost; a packet may need several.
    Opportunities {
        /// Ascending; several at one time are several opportunities; at least one. Those at
        /// the period itself belong to it, and are followed by those at 0 of the next round.
        at: Vec<Span>,
        /// The bytes of one, counted as the pipe's framing counts them.
        bytes: u32,
    },
}

/// A link at one point in time. What is `None` is as the pipe's parameters say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Since the start of the series.
    pub at: Span,
    /// One-way delay.
    pub delay: Option<Span>,
    /// Serialisation rate.
    pub rate: Option<Capacity>,
    /// Independent loss.
    pub loss: Option<Probability>,
}

/// What a link carries at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// Nothing: packets wait until there is a rate again.
    Outage,
    /// So much.
    Limited(Rate),
    /// Everything at once.
    Unlimited,
}
