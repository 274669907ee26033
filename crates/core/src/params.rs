//! What a pipe does to packets: everything about it that may change while a run goes on.
//!
//! Plain data without behaviour; the mechanisms live in `pipe/`, one small file each. What is
//! absent is off. A pipe with a constant rate, constant delay, independent loss and drop-tail
//! takes a fast path; anything more makes each start of service an event. The mathematics of
//! delay distributions is in `params/distribution.rs`, the constructors of loss models in
//! `params/loss.rs`, the ranges of all parameters in `params/validate.rs`.
//!
//! Left out: how a person writes these (`longhaul-plan` reads the experiment file).

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::element::ElementFactory;
use crate::time::Span;
use crate::trace::{Capacity, Series, Trace};
use crate::units::{Bytes, Framing, Probability, QueueLimit, Rate};

mod distribution;
mod least;
mod loss;
mod validate;

pub(crate) use distribution::Score;
pub use validate::ParamError;

/// What a pipe does to packets.
#[derive(Debug, Clone, PartialEq)]
pub struct PipeParams {
    /// Serialisation rate; `None` is unlimited.
    pub rate: Option<Rate>,
    /// Depth of a token bucket: the counted bytes that may pass at once. `None` spaces packets evenly.
    pub burst: Option<Bytes>,
    /// Which bytes count against the rate.
    pub framing: Framing,
    /// The bound of the queue.
    pub queue: QueueLimit,
    /// The queue discipline.
    pub discipline: Discipline,
    /// One-way propagation delay; the mean where `jitter` spreads it.
    pub delay: Span,
    /// The distribution of the delay; `None` is constant.
    pub jitter: Option<Arc<Jitter>>,
    /// Whether packets may overtake others when the delay falls during a run.
    pub overtake: bool,
    /// Packets lost at the end of serialisation.
    pub loss: LossModel,
    /// The probability that one bit is wrong; a packet with a wrong bit is lost. It counts the
    /// bits that the framing counts.
    pub bit_errors: Probability,
    /// The probability that a packet comes out twice.
    pub duplicate: Probability,
    /// The probability that one bit of a packet's payload is flipped.
    pub corrupt: Probability,
    /// Packets that are held back longer than the others.
    pub reorder: Option<Reorder>,
    /// A recorded series of rate, delay or loss.
    pub trace: Option<Arc<Trace>>,
    /// A user's own element, applied at the end of serialisation.
    pub element: Option<ElementFactory>,
}

impl Default for PipeParams {
    /// Unlimited, at once, without loss.
    fn default() -> Self {
        Self {
            rate: None,
            burst: None,
            framing: Framing::default(),
            queue: QueueLimit::default(),
            discipline: Discipline::default(),
            delay: Span::ZERO,
            jitter: None,
            overtake: false,
            loss: LossModel::default(),
            bit_errors: Probability::NEVER,
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            reorder: None,
            trace: None,
            element: None,
        }
    }
}

impl PipeParams {
    /// The highest rate that the pipe ever has, in bits per second; `None` where it is unlimited at any
    /// time, or where a trace names moments of sending, which may be far above their mean.
    pub fn highest_rate(&self) -> Option<u64> {
        let own = self.rate.map(|rate| rate.bits_per_s());
        match self.trace.as_ref().map(|trace| &trace.series) {
            None => own,
            Some(Series::Opportunities { .. }) => None,
            Some(Series::Samples { samples, .. }) => {
                let rates = samples.iter().map(|sample| match sample.rate {
                    Some(Capacity::Limited(rate)) => Some(rate.bits_per_s()),
                    Some(Capacity::Unlimited) => None,
                    // Nothing is sent during an outage, so it does not raise the maximum.
                    Some(Capacity::Outage) => Some(0),
                    None => own,
                });
                // One unlimited rate makes the whole unlimited.
                rates.collect::<Option<Vec<u64>>>()?.into_iter().max()
            }
        }
    }

    /// Whether departures can be computed at entry: a constant rate, constant delay, independent
    /// loss, drop-tail by packets or bytes, and nothing else.
    pub fn is_plain(&self) -> bool {
        let timed = matches!(self.queue, QueueLimit::Time(_));
        let plain_loss = matches!(self.loss, LossModel::Independent(_));
        let random = [self.bit_errors, self.duplicate, self.corrupt];
        plain_loss
            && !timed
            && !self.overtake
            && self.burst.is_none()
            && self.discipline == Discipline::DropTail
            && self.jitter.is_none()
            && self.reorder.is_none()
            && self.trace.is_none()
            && self.element.is_none()
            && random.iter().all(|probability| probability.is_never())
    }

    /// Whether packets wait only for a constant rate, in order of entry, so that the bytes in the queue
    /// determine the waiting time.
    pub fn sends_steadily(&self) -> bool {
        self.rate.is_some()
            && self.burst.is_none()
            && self.discipline == Discipline::DropTail
            && self.trace.is_none()
    }
}

/// How a delay is spread.
#[derive(Debug, Clone, PartialEq)]
pub struct Jitter {
    /// The distribution of the whole one-way delay; samples below zero count as zero.
    pub distribution: Distribution,
    /// The lag-1 correlation of the underlying normal variable, from 0 up to but not including 1.
    pub correlation: f64,
    /// Whether packets may overtake; otherwise none comes out before its predecessor.
    pub reorder: bool,
}

/// A distribution of delays; all figures in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Equally likely between two bounds.
    Uniform {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
    /// Normal, cut off at zero and at `2·mean` so that the mean holds.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation before the cut.
        deviation: f64,
    },
    /// Pareto type I, moved by `base`.
    Pareto {
        /// Added to every sample.
        base: f64,
        /// The least, before `base` is added.
        scale: f64,
        /// The tail's exponent, above 1: at and below it there is no mean.
        shape: f64,
    },
    /// Log-normal, moved by `base`.
    LogNormal {
        /// Added to every sample.
        base: f64,
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Gamma, moved by `base`.
    Gamma {
        /// Added to every sample.
        base: f64,
        /// Shape k, at least 0.01: the deviation is at most ten times the mean.
        shape: f64,
        /// Scale θ, above 0.
        scale: f64,
    },
    /// Quantiles of a measured distribution, ascending, at equal steps from 0 to 1; linear in
    /// between.
    Empirical {
        /// At least one.
        quantiles: Arc<[f64]>,
    },
}

/// Which packets are lost.
#[derive(Debug, Clone, PartialEq)]
pub enum LossModel {
    /// Each with one probability, whatever happened before.
    Independent(Probability),
    /// Exactly one, chosen at random, of each block of this many.
    OneIn(NonZeroU32),
    /// Gilbert–Elliott: a good and a bad state, each with a loss of its own; the state changes
    /// after each packet.
    GilbertElliott {
        /// From good to bad.
        to_bad: Probability,
        /// From bad to good.
        to_good: Probability,
        /// Loss in the good state.
        in_good: Probability,
        /// Loss in the bad state.
        in_bad: Probability,
    },
    /// By a list, over and over: `true` is lost.
    Pattern(Arc<[bool]>),
}

impl Default for LossModel {
    fn default() -> Self {
        Self::Independent(Probability::NEVER)
    }
}

/// Packets that are held back longer than the others, and so come out after packets behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reorder {
    /// Which ones.
    pub which: Which,
    /// How much longer.
    pub hold: Span,
}

/// A choice among packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Each with one probability.
    Random(Probability),
    /// Exactly one, chosen at random, of each block of this many.
    OneIn(NonZeroU32),
}

/// A queue discipline. Its bound is in [`PipeParams::queue`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Discipline {
    /// First in, first out; a packet that finds the queue full is dropped.
    #[default]
    DropTail,
    /// Random early detection.
    Red(Red),
    /// Controlled delay, RFC 8289.
    CoDel(CoDel),
    /// Proportional integral controller enhanced, RFC 8033.
    Pie(Pie),
    /// Flow queueing with CoDel, RFC 8290.
    FqCodel(FqCodel),
}

/// Parameters of RED (Floyd and Jacobson 1993, with the "gentle" slope above `max`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Red {
    /// Average queue below which nothing is dropped, in the unit of the queue's bound.
    pub min: u64,
    /// Average queue at which `probability` is reached.
    pub max: u64,
    /// The probability at `max`.
    pub probability: Probability,
    /// The weight of a new sample in the average, 2^-this.
    pub weight_log2: u8,
    /// Mark packets of ECN-capable transports instead of dropping them.
    pub ecn: bool,
}

/// Parameters of CoDel by the names and defaults of RFC 8289.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoDel {
    /// TARGET.
    pub target: Span,
    /// INTERVAL.
    pub interval: Span,
    /// Mark packets of ECN-capable transports instead of dropping them.
    pub ecn: bool,
}

impl Default for CoDel {
    fn default() -> Self {
        Self {
            target: Span::from_ms(5),
            interval: Span::from_ms(100),
            ecn: false,
        }
    }
}

/// Parameters of PIE by the names and defaults of RFC 8033.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pie {
    /// QDELAY_REF.
    pub target: Span,
    /// T_UPDATE.
    pub update: Span,
    /// MAX_BURST.
    pub max_burst: Span,
    /// Mark packets of ECN-capable transports while the probability is at most 10 %.
    pub ecn: bool,
}

impl Default for Pie {
    fn default() -> Self {
        Self {
            target: Span::from_ms(15),
            update: Span::from_ms(15),
            max_burst: Span::from_ms(150),
            ecn: false,
        }
    }
}

/// Parameters of FQ-CoDel by the names and defaults of RFC 8290.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FqCodel {
    /// CoDel of each flow queue.
    pub codel: CoDel,
    /// Flow queues.
    pub flows: NonZeroU32,
    /// Bytes that a flow queue may send in a round.
    pub quantum: u32,
}

impl Default for FqCodel {
    /// ECN is on, as RFC 8290 has it.
    fn default() -> Self {
        Self {
            codel: CoDel {
                ecn: true,
                ..CoDel::default()
            },
            flows: NonZeroU32::new(1024).expect("1024 is not zero"),
            quantum: 1514,
        }
    }
}
