//! Readers of recorded series: traces of links, patterns of loss, tables of delays, flows.
//!
//! Purpose: turn text files into the plain data that `longhaul-core` replays. docs/traces.md
//! describes the formats for users. Files are read as streams, line by line into one buffer,
//! with bounds on the length of a line and the number of rows, so that a file takes no more
//! memory than its values; whatever is in it, the answer is a value or a [`TraceFault`] that
//! names the place and the remedy.
//!
//! Left out: which link follows which file (the experiment file says so), and paths: they are
//! opened as they are given.

mod csv;
mod flows;
mod lines;
mod lists;
mod mahimahi;
mod number;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use longhaul_core::time::Span;
use longhaul_core::trace::Trace;
use longhaul_core::units::Framing;

use crate::text::error::shown;
pub use flows::FlowRow;

/// The formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceKind {
    /// Columns of time, delay, rate and loss.
    Csv,
    /// Delivery opportunities of mahimahi.
    Mahimahi,
}

/// How a trace is to be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceOptions {
    /// Whether it starts over at its end.
    pub repeat: bool,
    /// Whether values lie on lines between samples. Opportunities refuse it.
    pub interpolate: bool,
    /// When in the experiment it begins.
    pub offset: Span,
    /// The pipe's framing, which says how many counted bytes mahimahi's 1500 bytes of IP are.
    pub framing: Framing,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFault {
    /// The file as it was named; empty where text was given.
    pub file: String,
    /// From 1; 0 for the file as a whole.
    pub line: u64,
    /// In characters, from 1; 0 for the line as a whole.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl TraceFault {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            file: String::new(),
            line: 0,
            column: 0,
            message: message.into(),
            hint: hint.into(),
        }
    }

    fn in_line(mut self, line: u64) -> Self {
        self.line = line;
        self
    }

    fn in_column(mut self, column: u64) -> Self {
        self.column = column;
        self
    }
}

impl std::error::Error for TraceFault {}

impl fmt::Display for TraceFault {
    /// `link.csv:3:7: error: …` and the hint on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        for number in [self.line, self.column] {
            if number > 0 {
                write!(f, "{number}:")?;
            }
        }
        write!(f, " error: {}\nhint: {}", self.message, self.hint)
    }
}

/// Reads the trace of a link from the file at `path`.
pub fn read_trace(
    path: &Path,
    kind: TraceKind,
    options: &TraceOptions,
) -> Result<Trace, TraceFault> {
    in_file(path, |input| parse_trace(input, kind, options))
}

/// Reads a pattern of loss: characters `0` (passes) and `1` (is lost), white space ignored.
pub fn read_pattern(path: &Path) -> Result<Arc<[bool]>, TraceFault> {
    in_file(path, parse_pattern)
}

/// Reads measured delays, one in microseconds per line in any order, and gives their quantiles
/// in nanoseconds at equal steps from 0 to 1: at most 4097.
pub fn read_delays(path: &Path) -> Result<Arc<[f64]>, TraceFault> {
    in_file(path, parse_delays)
}

/// Reads recorded flows, and gives what `take` makes of each, in order of start; at most `most`.
pub fn read_flows<T>(
    path: &Path,
    most: u64,
    take: impl FnMut(FlowRow<'_>) -> Result<T, (String, String)>,
) -> Result<Vec<T>, TraceFault> {
    in_file(path, |input| flows::parse(input, most, take))
}

/// [`read_trace`] from any input.
pub fn parse_trace(
    input: impl BufRead,
    kind: TraceKind,
    options: &TraceOptions,
) -> Result<Trace, TraceFault> {
    match kind {
        TraceKind::Csv => csv::parse(input, options),
        TraceKind::Mahimahi => mahimahi::parse(input, options),
    }
}

/// [`read_pattern`] from any input.
pub fn parse_pattern(input: impl BufRead) -> Result<Arc<[bool]>, TraceFault> {
    lists::pattern(input)
}

/// [`read_delays`] from any input.
pub fn parse_delays(input: impl BufRead) -> Result<Arc<[f64]>, TraceFault> {
    lists::delays(input)
}

/// Opens a file, which must be a regular one, and names it in what is wrong with it.
fn in_file<T>(
    path: &Path,
    parse: impl FnOnce(BufReader<File>) -> Result<T, TraceFault>,
) -> Result<T, TraceFault> {
    let open = || {
        // A pipe would wait for its writer.
        let kind = path.metadata().map_err(unreadable)?;
        if !kind.is_file() {
            return Err(TraceFault::new(
                "this is not a file",
                "name a regular file that holds the recorded values",
            ));
        }
        let file = File::open(path).map_err(unreadable)?;
        parse(BufReader::with_capacity(1 << 18, file))
    };
    open().map_err(|fault| TraceFault {
        file: shown(&path.to_string_lossy()),
        ..fault
    })
}

fn unreadable(error: std::io::Error) -> TraceFault {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "check the path",
        std::io::ErrorKind::PermissionDenied => "check who may read the file",
        _ => "copy the file to a disk that can be read",
    };
    TraceFault::new(format!("cannot read this file: {error}"), hint)
}
