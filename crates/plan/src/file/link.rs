//! The fields of links: what a direction of a link does to packets, as a person writes it.
//!
//! A link, its way `back`, the `set` of an event and the command `set` take the same fields: those
//! of the table in [`crate::fields`], beside those here. Several fields are a text where
//! a text says enough (`5 ms`) and a map where it does not (`{ normal: { … } }`): [`Either`].

use longhaul_core::Span;
use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wrap::{At, Either, LabelsSpec, Mtu, Named, OneOrMany, Outage, Quantity, Scalar};
use crate::fields::types::*;
use crate::fields::{Wishes, link_fields};

/// One end of a link.
pub(crate) type EndSpec = Either<At<String>, OneOrMany>;

/// Defines a type that has the fields of a direction beside its own; `default` says what is meant
/// where one is absent: what its row says, or something else.
macro_rules! spec {
    (
        $(#[$meta:meta])*
        $name:ident { $($own:tt)* } default: $by:tt, of_link: $of_link:tt
        { $(
            $(#[doc = $meaning:literal])+
            $field:ident: $written:ty => $value:ty, default $default:literal $row:tt
        )* }
        { $(
            $(#[doc = $_meaning:literal])+
            $whole:ident: $_written:ty => $_value:ty, default $_default:literal $_row:tt
        )* }
    ) => {
        $(#[$meta])*
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($own)*
            $(
                $(#[doc = $meaning])+
                #[doc = spec!(@default $by $default)]
                pub(crate) $field: Option<$written>,
            )*
        }

        impl $name {
            /// What is said of the direction.
            pub(crate) fn wishes(&self) -> Wishes<'_> {
                Wishes {
                    $($field: self.$field.as_ref(),)*
                    $($whole: spec!(@of_link $of_link self $whole),)*
                }
            }
        }
    };
    (@default row $default:literal) => { concat!("Default: ", $default, ".") };
    (@default $stated:literal $default:literal) => { concat!("Default: ", $stated, ".") };
    (@of_link here $self:ident $field:ident) => { $self.$field.as_ref() };
    (@of_link nowhere $self:ident $field:ident) => { None };
}

link_fields! { spec
    /// A duplex link.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(expecting = "a link, like `{ ends: [a, b], rate: 1 Gbit/s, delay: 5 ms }`")]
    LinkSpec {
        /// What it joins: two nodes, groups, patterns (`web*`), labels (`tier=edge`), `all`
        /// hosts, or lists of these.
        #[schemars(length(equal = 2))]
        pub(crate) ends: At<Vec<EndSpec>>,
        /// Replaces the name `x-y`. Links of a group get NAME0, NAME1 and so on.
        pub(crate) name: Option<At<String>>,
        /// Properties by which sets select it, like `{ kind: backbone }`: `kind=backbone`
        /// stands for all links that have it.
        #[schemars(with = "Option<Named<Scalar>>")]
        pub(crate) labels: Option<Box<LabelsSpec>>,
        /// The largest IP packet it carries, in bytes, 1280 to 9216. Default: the experiment's.
        pub(crate) mtu: Option<Quantity<Mtu>>,
        /// Which bytes of a packet count against its rate. Default: the experiment's.
        pub(crate) framing: Option<Quantity<Framing>>,
        /// Makes this many parallel links: `x-y`, `x-y#2` and so on. Default: 1.
        pub(crate) bundle: Option<At<u32>>,
        /// Which of several equal-cost paths a packet takes. Default: `first`; of a bundle,
        /// `flow`.
        pub(crate) balance: Option<BalanceSpec>,
        /// What differs in the direction from the second end to the first.
        pub(crate) back: Option<Box<Back>>,
    }
    default: row, of_link: here
}

link_fields! { spec
    /// The direction from a link's second end to its first. Absent fields are as forward.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(expecting = "what differs on the way back, like `{ rate: 100 Mbit/s }`")]
    Back {}
    default: "as forward", of_link: nowhere
}

link_fields! { spec
    /// What changes about a link during the run. Absent fields stay as they are.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(expecting = "what changes, like `{ delay: 50 ms }`")]
    ChangeSpec {
        /// Which bytes of a packet count against its rate.
        pub(crate) framing: Option<Quantity<Framing>>,
    }
    default: "as it is", of_link: here
}

/// Which of several equal-cost paths a packet takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    rename_all = "snake_case",
    expecting = "`first`, `flow` or `round_robin`"
)]
pub(crate) enum BalanceSpec {
    /// All packets take the first by name.
    First,
    /// Each flow (addresses, protocol, ports) takes one path, chosen by a hash.
    Flow,
    /// Each new flow takes the next path in turn, and stays on it.
    RoundRobin,
}

/// A distribution of delays: exactly one of uniform, normal, pareto, log_normal, gamma and table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a time or a distribution, like `5 ms` or `{ normal: { mean: 5 ms, deviation: 1 ms } }`"
)]
pub(crate) struct DelaySpec {
    /// Uniform between two times.
    #[schemars(length(equal = 2))]
    pub(crate) uniform: Option<At<Vec<Quantity<Span>>>>,
    /// Normal, truncated at zero and at twice the mean.
    pub(crate) normal: Option<At<Spread>>,
    /// Pareto: rare but long delays.
    pub(crate) pareto: Option<At<Spread>>,
    /// Log-normal.
    pub(crate) log_normal: Option<At<Spread>>,
    /// Gamma.
    pub(crate) gamma: Option<At<Spread>>,
    /// A file of measured delays, relative to the experiment file.
    pub(crate) table: Option<At<String>>,
    /// Added to every delay of `pareto`, `log_normal` and `gamma`. Default: 0 s.
    pub(crate) base: Option<Quantity<Span>>,
    /// Correlation of successive delays. Default: 0 %.
    pub(crate) correlation: Option<Quantity<Probability>>,
    /// Whether packets may overtake one another. Default: false.
    pub(crate) reorder: Option<bool>,
}

/// A distribution by its mean and its standard deviation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a mean and a deviation, like `{ mean: 5 ms, deviation: 1 ms }`"
)]
pub(crate) struct Spread {
    /// The mean.
    pub(crate) mean: Quantity<Span>,
    /// The standard deviation.
    pub(crate) deviation: Quantity<Span>,
}

/// A model of loss: one of `one_in`, `rate` with `burst`, `gilbert_elliott` and `pattern`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a probability or a model of loss, like `1 %` or `{ one_in: 100 }`"
)]
pub(crate) struct LossSpec {
    /// Exactly one packet, chosen at random, of each this many.
    pub(crate) one_in: Option<At<u32>>,
    /// The share of packets that are lost, in bursts of mean length `burst`.
    pub(crate) rate: Option<Quantity<Probability>>,
    /// The mean number of consecutive lost packets.
    #[schemars(with = "Option<f64>")]
    pub(crate) burst: Option<At<String>>,
    /// The Gilbert–Elliott model: a good and a bad state, each with its own loss.
    pub(crate) gilbert_elliott: Option<At<GilbertElliottSpec>>,
    /// A file of the characters 0 and 1, repeated, where 1 is a lost packet; relative to the
    /// experiment file.
    pub(crate) pattern: Option<At<String>>,
}

/// Two states, each with its own loss.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "the Gilbert–Elliott model, like `{ to_bad: 1 %, to_good: 20 % }`"
)]
pub(crate) struct GilbertElliottSpec {
    /// Probability of changing from good to bad after a packet.
    pub(crate) to_bad: Quantity<Probability>,
    /// Probability of changing from bad to good after a packet.
    pub(crate) to_good: Quantity<Probability>,
    /// Loss in the good state. Default: 0 %.
    pub(crate) in_good: Option<Quantity<Probability>>,
    /// Loss in the bad state. Default: 100 %.
    pub(crate) in_bad: Option<Quantity<Probability>>,
}

/// Packets that are held back, so that later packets overtake them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "which packets are held back for how long, like `{ probability: 1 %, delay: 2 ms }`"
)]
pub(crate) struct ReorderSpec {
    /// Each packet with this probability.
    pub(crate) probability: Option<Quantity<Probability>>,
    /// Exactly one packet, chosen at random, of each this many.
    pub(crate) one_in: Option<At<u32>>,
    /// How long they are held back.
    pub(crate) delay: Quantity<Span>,
}

/// A queue discipline.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    rename_all = "snake_case",
    expecting = "a length or a discipline, like `250 packets`, `codel` or `{ codel: { target: 5 ms } }`"
)]
pub(crate) enum QueueSpec {
    /// First in, first out; packets that find no room are dropped.
    DropTail(DropTailSpec),
    /// Random early detection.
    Red(RedSpec),
    /// Controlled delay, RFC 8289.
    Codel(CodelSpec),
    /// Proportional integral controller enhanced, RFC 8033.
    Pie(PieSpec),
    /// Flow queueing with CoDel, RFC 8290.
    FqCodel(FqCodelSpec),
}

/// First in, first out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "drop-tail, like `{ limit: 250 packets }`"
)]
pub(crate) struct DropTailSpec {
    /// The largest backlog. Default: 1000 packets.
    pub(crate) limit: Option<Quantity<QueueLimit>>,
}

/// Random early detection.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "RED, like `{ limit: 64 KiB, min: 10 KiB, max: 30 KiB }`"
)]
pub(crate) struct RedSpec {
    /// The largest backlog. Default: 1000 packets.
    pub(crate) limit: Option<Quantity<QueueLimit>>,
    /// The average backlog below which nothing is dropped. Default: a twelfth of the limit.
    pub(crate) min: Option<Quantity<QueueLimit>>,
    /// The average backlog at which `probability` is reached. Default: a quarter of the limit.
    pub(crate) max: Option<Quantity<QueueLimit>>,
    /// The drop probability at `max`. Default: 10 %.
    pub(crate) probability: Option<Quantity<Probability>>,
    /// The weight of a new sample in the average is 2^-weight. Default: 9.
    pub(crate) weight: Option<At<u32>>,
    /// Whether to mark packets of ECN-capable transports instead of dropping them. Default: false.
    pub(crate) ecn: Option<bool>,
}

/// Controlled delay.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "CoDel, like `{ target: 5 ms, interval: 100 ms }`"
)]
pub(crate) struct CodelSpec {
    /// The largest backlog. Default: 1000 packets.
    pub(crate) limit: Option<Quantity<QueueLimit>>,
    /// The standing queueing delay that is accepted. Default: 5 ms.
    pub(crate) target: Option<Quantity<Span>>,
    /// How long `target` may be exceeded. Default: 100 ms.
    pub(crate) interval: Option<Quantity<Span>>,
    /// Whether to mark packets of ECN-capable transports instead of dropping them. Default: false.
    pub(crate) ecn: Option<bool>,
}

/// Proportional integral controller enhanced.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "PIE, like `{ target: 15 ms }`")]
pub(crate) struct PieSpec {
    /// The largest backlog. Default: 1000 packets.
    pub(crate) limit: Option<Quantity<QueueLimit>>,
    /// The queueing delay that the controller aims at. Default: 15 ms.
    pub(crate) target: Option<Quantity<Span>>,
    /// How often the drop probability is updated. Default: 15 ms.
    pub(crate) update: Option<Quantity<Span>>,
    /// The length of bursts that pass without drops. Default: 150 ms.
    pub(crate) max_burst: Option<Quantity<Span>>,
    /// Whether to mark packets of ECN-capable transports instead of dropping them. Default: false.
    pub(crate) ecn: Option<bool>,
}

/// Flow queueing with CoDel.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "FQ-CoDel, like `{ flows: 1024, target: 5 ms }`"
)]
pub(crate) struct FqCodelSpec {
    /// The largest backlog of all flow queues together. Default: 10240 packets.
    pub(crate) limit: Option<Quantity<QueueLimit>>,
    /// The number of flow queues. Default: 1024.
    pub(crate) flows: Option<At<u32>>,
    /// Bytes that a flow queue may send in a round. Default: 1514 B.
    pub(crate) quantum: Option<Quantity<Bytes>>,
    /// The standing queueing delay that is accepted. Default: 5 ms.
    pub(crate) target: Option<Quantity<Span>>,
    /// How long `target` may be exceeded. Default: 100 ms.
    pub(crate) interval: Option<Quantity<Span>>,
    /// Whether to mark packets of ECN-capable transports instead of dropping them. Default: true.
    pub(crate) ecn: Option<bool>,
}

/// A recorded series.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a trace, like `{ file: link.csv, loop: true }`"
)]
pub(crate) struct TraceSpec {
    /// A CSV file of times, delays, rates and losses, relative to the experiment file.
    pub(crate) file: Option<At<String>>,
    /// A file of delivery opportunities as mahimahi writes them, relative to the experiment
    /// file.
    pub(crate) mahimahi: Option<At<String>>,
    /// Whether it starts again at its end instead of keeping its last value. Default: false.
    #[serde(rename = "loop")]
    pub(crate) again: Option<bool>,
    /// Whether values between samples are interpolated linearly. Default: false.
    pub(crate) interpolate: Option<bool>,
    /// The experiment time at which it begins. Default: 0 s.
    pub(crate) offset: Option<Quantity<Span>>,
}

/// Something that happens during the run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "an event, like `{ at: 5 s, link: a-b, set: { delay: 50 ms } }`"
)]
pub(crate) struct EventSpec {
    /// When, in experiment time.
    pub(crate) at: Quantity<Span>,
    /// The link `x-y` (both directions), the pipe `x>y` (one), the name of an entry that stands
    /// for several links, or a list of them.
    #[serde(default)]
    pub(crate) link: OneOrMany,
    /// The router or routers that fail or come back, with all their links.
    #[serde(default)]
    pub(crate) router: OneOrMany,
    /// Fields of the link that change at once.
    pub(crate) set: Option<At<ChangeSpec>>,
    /// Fields of the link that change linearly from their values at that time.
    pub(crate) ramp: Option<At<ChangeSpec>>,
    /// How long the ramp takes.
    pub(crate) over: Option<Quantity<Span>>,
    /// How often the ramp changes the value. Default: 10 ms.
    pub(crate) step: Option<Quantity<Span>>,
    /// It fails for this time, or until it is brought up (`true`).
    pub(crate) down: Option<Quantity<Outage>>,
    /// It is brought up (`true`).
    pub(crate) up: Option<At<bool>>,
    /// Whether packets in the queue and in service survive the failure. Default: false.
    pub(crate) keep_queue: Option<At<bool>>,
    /// The period of repetition, from one beginning to the next.
    pub(crate) every: Option<Quantity<Span>>,
    /// The number of occurrences. Default: until the end of the run.
    pub(crate) times: Option<At<u64>>,
}

/// How routers react to failures.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "routing settings, like `{ convergence: 1 s }`"
)]
pub(crate) struct RoutingSpec {
    /// The time from a failure or repair until routes follow it. Default: 1 s.
    pub(crate) convergence: Option<Quantity<Span>>,
}
