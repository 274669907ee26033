//! What a run records as it goes on, lowered to numbers.

use longhaul_capture::{Filter, FilterError};
use longhaul_core::{PipeId, Span, Time, Topology};

use crate::text::error::near_miss;

/// What is measured; by default, nothing beyond the rows of each second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The series with bins, and their width.
    pub bins: Option<Bins>,
    /// The interval of the state of TCP connections.
    pub connections: Option<Span>,
    /// The interval of hosts' use of CPUs.
    pub hosts: Option<Span>,
    /// The format of series.
    pub format: Format,
    /// What all series together may take on disk, in bytes.
    pub disk_bytes: u64,
    /// Captures, in the order of the file.
    pub captures: Vec<Capture>,
    /// Pipes whose packets are followed one by one.
    pub timelines: Vec<Timeline>,
}

impl Measure {
    /// Whether anything is recorded that grows with the run.
    pub const fn writes(&self) -> bool {
        self.bins.is_some()
            || self.connections.is_some()
            || self.hosts.is_some()
            || !self.captures.is_empty()
            || !self.timelines.is_empty()
    }
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            bins: None,
            connections: None,
            hosts: None,
            format: Format::Parquet,
            disk_bytes: DISK_BYTES,
            captures: Vec::new(),
            timelines: Vec::new(),
        }
    }
}

/// The disk space of all series where the file does not say.
pub(crate) const DISK_BYTES: u64 = 2_000_000_000;
/// The disk space of a capture by default.
pub const CAPTURE_BYTES: u64 = 1_000_000_000;
/// The bytes of a packet that a capture keeps by default: all.
pub const SNAPLEN: u32 = 262_144;

/// Series with bins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    /// Their width.
    pub every: Span,
    /// The pipes, by number; none where pipes are not asked for.
    pub pipes: Vec<PipeId>,
    /// Whether flows have a series.
    pub flows: bool,
    /// Whether the core has one.
    pub core: bool,
}

/// The format of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Compressed columns.
    Parquet,
    /// Text.
    Csv,
}

/// A point of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// What reaches the pipe.
    Entry,
    /// What comes out of it, and what it drops.
    Exit,
}

/// A capture of one or several pipes into one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// What it is called: as the file names the links.
    pub name: String,
    /// The pipes, by number.
    pub pipes: Vec<PipeId>,
    /// Where in them.
    pub point: Point,
    /// Which packets; all without.
    pub filter: Option<ChosenBy>,
    /// How many bytes of each packet.
    pub snaplen: u32,
    /// The largest file, in bytes.
    pub size: u64,
}

/// A filter, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenBy {
    /// As the file has it.
    pub text: String,
    /// What it means.
    pub parsed: Filter,
}

impl ChosenBy {
    /// Reads a filter; names of nodes stand for their addresses.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str, topology: &Topology) -> Result<Self, FilterError> {
        let resolve = |name: &str| match topology.find(name) {
            Some(node) => {
                let node = topology.node(node);
                Ok(vec![node.ipv4.into(), node.ipv6.into()])
            }
            None => {
                let names = topology.nodes().iter().map(|node| &*node.name);
                Err(match near_miss(name, names) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "write a node of the experiment, or an address".to_owned(),
                })
            }
        };
        let parsed = Filter::parse(text, &resolve)?;
        Ok(Self {
            text: text.to_owned(),
            parsed,
        })
    }
}

/// Pipes whose packets are followed one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// The pipes, by number.
    pub pipes: Vec<PipeId>,
    /// From when on.
    pub from: Time,
    /// Up to when.
    pub until: Time,
}
