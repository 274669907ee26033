//! What is written down as a run goes on, as a person writes it.

use longhaul_core::Span;
use longhaul_core::units::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;

use super::wrap::{At, Checked, Either, OneOrMany, Quantity};

/// What is written down as the run goes on, besides one row a second.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "what is measured, like `{ every: 10 ms, capture: [x-y] }`"
)]
pub(crate) struct MeasureSpec {
    /// The width of a bin of the series in `of`, 1 ms to 1 h. Default: 1 s.
    pub(crate) every: Option<Quantity<Span>>,
    /// Which series are written: `pipes`, `flows`, `core`, or a list of them. Default: all three,
    /// where `every` or `links` is there.
    #[serde(default)]
    pub(crate) of: OneOrMany,
    /// The links and pipes that `pipes` is about, by name, pattern or label. Default: all.
    #[serde(default)]
    pub(crate) links: OneOrMany,
    /// The interval at which the state of TCP connections is written down, 1 ms to 1 h. Default: never.
    pub(crate) connections: Option<Quantity<Span>>,
    /// The interval at which hosts' use of CPUs is written down, 1 ms to 1 h. Default: never.
    pub(crate) hosts: Option<Quantity<Span>>,
    /// The format of series. Default: `parquet`.
    pub(crate) format: Option<FormatSpec>,
    /// What all series together may take on disk; bins become wider before they take more. Default: 2 GB.
    pub(crate) disk: Option<Quantity<Bytes>>,
    /// Pipes whose packets are written to pcapng files, by name or with more said.
    #[serde(default)]
    pub(crate) capture: Vec<Checked<Either<At<String>, At<CaptureSpec>>>>,
    /// Pipes whose single packets are followed for a while.
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
    /// Where in the pipe: what comes to it, or what comes out of it. Default: `exit`.
    #[serde(default)]
    pub(crate) at: PointSpec,
    /// Which packets, in the language of docs/captures.md. Default: all.
    pub(crate) filter: Option<At<String>>,
    /// How many bytes of each packet. Default: all.
    pub(crate) snaplen: Option<Quantity<Bytes>>,
    /// The largest file; packets beyond are counted only. Default: 1 GB.
    pub(crate) size: Option<Quantity<Bytes>>,
}

/// A point of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`entry` or `exit`")]
pub(crate) enum PointSpec {
    /// What reaches the pipe, whatever becomes of it there.
    Entry,
    /// What comes out of it, and what it drops.
    #[default]
    Exit,
}

/// Single packets of pipes for a while.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "packets of a pipe, like `{ link: x>y, from: 1 s, for: 10 ms }`"
)]
pub(crate) struct PacketsSpec {
    /// The links and pipes, by name, pattern or label.
    pub(crate) link: OneOrMany,
    /// From when on. Default: 0 s.
    pub(crate) from: Option<Quantity<Span>>,
    /// For how long. Default: to the end.
    #[serde(rename = "for")]
    pub(crate) lasts: Option<Quantity<Span>>,
}
