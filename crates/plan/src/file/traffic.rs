//! The section `traffic`: modelled flows between hosts, as a person writes them.
//!
//! A time or size that varies is a text where a text says enough (`10 kB`) and a map where it
//! does not (`{ exponential: 10 kB }`), as in the fields of links.

use longhaul_core::Span;
use longhaul_core::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wrap::{At, Either, OneOrMany, Quantity};

/// A quantity, or a distribution of it.
pub(crate) type Varying<T> = Either<Quantity<T>, At<DrawSpec<T>>>;

/// Modelled flows: endpoints that live in the engine and share its links with everything else.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "modelled traffic, like `{ from: a, to: b, bytes: 100 MB }`"
)]
pub(crate) struct TrafficSpec {
    /// Who opens the flows, and sends or asks: a host, a group, `all`, a pattern (`web*`), a label
    /// (`tier=edge`), or a list of these.
    pub(crate) from: OneOrMany,
    /// The other end, named the same way; `HOST:PORT` is the port of a program.
    pub(crate) to: OneOrMany,
    /// Who sends to whom. Default: `pairwise`.
    pub(crate) pattern: Option<At<PatternSpec>>,
    /// The transport. Default: `tcp`.
    pub(crate) model: Option<At<ModelSpec>>,
    /// The IP version, 4 or 6. Default: 4.
    pub(crate) ip: Option<At<u32>>,
    /// The number of flows of each pair of hosts: all at once, or one after another with `every`.
    /// Default: 1.
    pub(crate) flows: Option<At<u64>>,
    /// The time from the start of a flow to the start of the next one of its pair.
    pub(crate) every: Option<Varying<Span>>,
    /// When flows start. Default: 0 s.
    pub(crate) start: Option<Varying<Span>>,
    /// When flows end at the latest. Default: with the run.
    pub(crate) stop: Option<Quantity<Span>>,
    /// The payload of each flow; not for requests. Default: no end.
    pub(crate) bytes: Option<Varying<Bytes>>,
    /// Congestion control of TCP: `reno`, `bic`, `cubic`, `bbr`, `vegas` or `dctcp`. Default: the
    /// host's.
    pub(crate) congestion: Option<At<String>>,
    /// Further settings of TCP, by Linux's names.
    pub(crate) tcp: Option<At<FlowTcp>>,
    /// TCP: the size of requests. Makes each flow a series of requests and responses.
    pub(crate) request: Option<Varying<Bytes>>,
    /// TCP: the size of responses.
    pub(crate) response: Option<Varying<Bytes>>,
    /// How long the client waits before its next request. Default: 0 s.
    pub(crate) think: Option<Varying<Span>>,
    /// How many requests each flow makes. Default: no end.
    pub(crate) requests: Option<At<u64>>,
    /// Whether all requests share a connection, or each has its own. Default: `keep`.
    pub(crate) connection: Option<At<ConnectionSpec>>,
    /// Payload per second, instead of as fast as TCP can send. UDP needs it.
    pub(crate) rate: Option<Quantity<Rate>>,
    /// UDP: the payload of a datagram. Default: what the MTU has room for.
    pub(crate) packet: Option<Quantity<Bytes>>,
    /// The intervals between packets at `rate`. Default: `even`.
    pub(crate) gaps: Option<At<GapsSpec>>,
    /// How long it sends at `rate` before each silence.
    pub(crate) on: Option<Varying<Span>>,
    /// How long each silence lasts.
    pub(crate) off: Option<Varying<Span>>,
    /// A CSV file of flows, instead of `from`, `to`, `start` and `bytes`; relative to the
    /// experiment file.
    pub(crate) replay: Option<At<String>>,
    /// Whether each flow's congestion window and slow start threshold are recorded over time.
    /// Default: false.
    pub(crate) series: bool,
}

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    expecting = "`pairwise`, `all-to-all`, `permutation`, `incast` or `{ random: 4 }`"
)]
pub(crate) enum PatternSpec {
    /// The first with the first, the second with the second, and so on; one host with each of many.
    Pairwise,
    /// Each with every other.
    AllToAll,
    /// Each with one other, chosen at random so that each is chosen once.
    Permutation,
    /// Many with one, all at once.
    Incast,
    /// Each with this many others, chosen at random.
    Random(u32),
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`tcp` or `udp`")]
pub(crate) enum ModelSpec {
    /// TCP as Linux speaks it.
    Tcp,
    /// Datagrams.
    Udp,
}

/// The intervals between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`even` or `poisson`")]
pub(crate) enum GapsSpec {
    /// Equal intervals.
    Even,
    /// Random, independent intervals: a Poisson process.
    Poisson,
}

/// What happens to a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`keep` or `new`")]
pub(crate) enum ConnectionSpec {
    /// The next request uses it as well.
    Keep,
    /// The next request opens a new one.
    New,
}

/// A distribution: exactly one of uniform, exponential, normal, log_normal and pareto.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    bound = "",
    expecting = "a quantity or a distribution, like `{ exponential: 10 ms }` or `{ pareto: { mean: 50 kB, shape: 1.2 } }`"
)]
#[schemars(inline, rename = "Distribution", bound = "Quantity<T>: JsonSchema")]
pub(crate) struct DrawSpec<T> {
    /// Uniform between two bounds.
    #[schemars(length(equal = 2))]
    pub(crate) uniform: Option<At<Vec<Quantity<T>>>>,
    /// Exponential with this mean.
    pub(crate) exponential: Option<Quantity<T>>,
    /// Normal, truncated at zero and at twice the mean.
    pub(crate) normal: Option<At<SpreadSpec<T>>>,
    /// Log-normal.
    pub(crate) log_normal: Option<At<SpreadSpec<T>>>,
    /// Pareto: heavy-tailed.
    pub(crate) pareto: Option<At<TailSpec<T>>>,
}

/// A distribution by its mean and its standard deviation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    bound = "",
    expecting = "a mean and a deviation, like `{ mean: 50 kB, deviation: 20 kB }`"
)]
#[schemars(inline, rename = "MeanAndDeviation", bound = "Quantity<T>: JsonSchema")]
pub(crate) struct SpreadSpec<T> {
    /// The mean.
    pub(crate) mean: Quantity<T>,
    /// The standard deviation.
    pub(crate) deviation: Quantity<T>,
}

/// A Pareto distribution by its mean and its shape.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    bound = "",
    expecting = "a mean and the tail's exponent, like `{ mean: 50 kB, shape: 1.2 }`"
)]
#[schemars(inline, rename = "MeanAndShape", bound = "Quantity<T>: JsonSchema")]
pub(crate) struct TailSpec<T> {
    /// The mean.
    pub(crate) mean: Quantity<T>,
    /// The shape, which is the exponent of the tail; above 1.
    #[schemars(with = "f64")]
    pub(crate) shape: At<String>,
}

/// The TCP of both ends of modelled flows, by Linux's names.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "settings of TCP, like `{ initcwnd: 10, wmem: 4 MiB }`"
)]
pub(crate) struct FlowTcp {
    /// Largest payload of a segment without options. Default: what the MTU has room for.
    pub(crate) mss: Option<Quantity<Bytes>>,
    /// Receive buffer. Default: the receiver's.
    pub(crate) rmem: Option<Quantity<Bytes>>,
    /// Send buffer. Default: the sender's.
    pub(crate) wmem: Option<Quantity<Bytes>>,
    /// Explicit congestion notification. Default: the host's.
    pub(crate) ecn: Option<bool>,
    /// Initial congestion window, in segments. Default: 10.
    pub(crate) initcwnd: Option<At<u32>>,
    /// Largest congestion window, in segments. Default: none.
    pub(crate) cwnd_clamp: Option<At<u32>>,
    /// Initial slow start threshold, in segments. Default: none.
    pub(crate) ssthresh: Option<At<u32>>,
    /// Minimum of the retransmission timer's allowance for variation. Default: 200 ms.
    pub(crate) rto_min: Option<Quantity<Span>>,
    /// Longest retransmission timer. Default: 120 s.
    pub(crate) rto_max: Option<Quantity<Span>>,
    /// Retransmission timer before there is a measurement. Default: 1 s.
    pub(crate) rto_initial: Option<Quantity<Span>>,
    /// Retransmissions of a SYN before giving up, at most 255. Default: 6.
    pub(crate) syn_retries: Option<At<u32>>,
    /// Retransmissions of data before giving up, at most 255. Default: 15.
    pub(crate) retries2: Option<At<u32>>,
    /// Shortest delay of an acknowledgement. Default: 40 ms.
    pub(crate) delack_min: Option<Quantity<Span>>,
    /// Longest delay of an acknowledgement. Default: 200 ms.
    pub(crate) delack_max: Option<Quantity<Span>>,
    /// Segments acknowledged at once at the start of a flow, at most 255. Default: 16.
    pub(crate) quickack: Option<At<u32>>,
    /// Selective acknowledgements. Default: true.
    pub(crate) sack: Option<bool>,
    /// Timestamps. Default: true.
    pub(crate) timestamps: Option<bool>,
    /// Window scaling. Default: true.
    pub(crate) window_scaling: Option<bool>,
    /// Loss detection by time (RACK) instead of by duplicate acknowledgements. Default: true.
    pub(crate) rack: Option<bool>,
    /// Tail loss probes. Default: true.
    pub(crate) tlp: Option<bool>,
    /// Whether small segments are sent without waiting for acknowledgements. Default: false.
    pub(crate) nodelay: Option<bool>,
    /// Whether an idle connection goes back to slow start. Default: true.
    pub(crate) slow_start_after_idle: Option<bool>,
    /// Whether segments are paced over the round trip. Default: as the congestion control asks.
    pub(crate) pacing: Option<bool>,
    /// Whether CUBIC leaves slow start before losses (HyStart). Default: true.
    pub(crate) hystart: Option<bool>,
}
