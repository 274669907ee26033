//! What is written down as a run goes on, as a person writes it.

use longhaul_core::Span;
use longhaul_core::units::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;

use super::wrap::{At, Checked, Either, OneOrMany, Quantity};

/// Which series and captures the run records, besides one row a second.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "what is measured, like `{ every: 10 ms, capture: [x-y] }`"
)]
pub(crate) struct MeasureSpec {
    /// The width of a bin of the series in `of`, 1 ms to 1 h. Default: 1 s.
    pub(crate) every: Option<Quantity<Span>>,
    /// Which series have these bins: `pipes`, `flows`, `core`, or a list of them. Default: all three,
    /// if `every` or `links` is given.
    #[serde(default)]
    pub(crate) of: OneOrMany,
    /// The links and pipes that the series `pipes` covers, by name, pattern or label. Default: all.
    #[serde(default)]
    pub(crate) links: OneOrMany,
    /// The sampling interval of the state of TCP connections, 1 ms to 1 h. Default: never.
    pub(crate) connections: Option<Quantity<Span>>,
    /// The sampling interval of hosts' use of CPUs, 1 ms to 1 h. Default: never.
    pub(crate) hosts: Option<Quantity<Span>>,
    /// The format of series. Default: `parquet`.
    pub(crate) format: Option<FormatSpec>,
    /// The disk space that all series together may take; bins become wider to stay below it. Default:
    /// 2 GB.
    pub(crate) disk: Option<Quantity<Bytes>>,
    /// Links and pipes whose packets are captured to pcapng files: names, or maps with further fields.
    #[serde(default)]
    pub(crate) capture: Vec<Checked<Either<At<String>, At<CaptureSpec>>>>,
    /// Links and pipes whose packets are recorded one by one.
    #[serde(default)]
    pub(crate) packets: Vec<Checked<At<PacketsSpec>>>,
}

/// The format of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`parquet` or `csv`")]
pub(crate) enum FormatSpec {
    /// Compressed columns.
    Parquet,
    /// Text.
    Csv,
}

/// A capture.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a capture, like `{ link: x>y, filter: 'tcp port 80' }`"
)]
pub(crate) struct CaptureSpec {
    /// The links and pipes, by name, pattern or label.
    pub(crate) link: OneOrMany,
    /// Where in the pipe packets are captured: at its entry or its exit. Default: `exit`.
    #[serde(default)]
    pub(crate) at: PointSpec,
    /// Which packets, in the filter language of docs/captures.md. Default: all.
    pub(crate) filter: Option<At<String>>,
    /// Bytes to keep of each packet. Default: all.
    pub(crate) snaplen: Option<Quantity<Bytes>>,
    /// The largest size of the file; packets beyond it are only counted. Default: 1 GB.
    pub(crate) size: Option<Quantity<Bytes>>,
}

/// A point of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`entry` or `exit`")]
pub(crate) enum PointSpec {
    /// Packets that reach the pipe, whatever happens to them there.
    Entry,
    /// Packets that leave the pipe, and those that it drops.
    #[default]
    Exit,
}

/// Packets of pipes recorded one by one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "packets of a pipe, like `{ link: x>y, from: 1 s, for: 10 ms }`"
)]
pub(crate) struct PacketsSpec {
    /// The links and pipes, by name, pattern or label.
    pub(crate) link: OneOrMany,
    /// When recording begins. Default: 0 s.
    pub(crate) from: Option<Quantity<Span>>,
    /// How long recording lasts. Default: to the end.
    #[serde(rename = "for")]
    pub(crate) lasts: Option<Quantity<Span>>,
}
