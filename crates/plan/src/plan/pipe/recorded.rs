//! Files that links name: traces, tables of delays, patterns of loss.
//!
//! Names are relative to the folder of the experiment file. A file that several links name is
//! read once, and its links share it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::trace::Trace;
use longhaul_core::units::Framing;

use super::{Context, only_one};
use crate::file::link::TraceSpec;
use crate::file::wrap::{At, Either, NONE};
use crate::text::error::{Faults, shown};
use crate::trace_file::{self, TraceFault, TraceKind, TraceOptions};

/// A trace, and what it was read from and how.
type ReadTrace = (String, TraceKind, TraceOptions, Arc<Trace>);

/// The files read so far. A trace with other options is an entry of its own.
pub(crate) struct Recordings<'a> {
    folder: &'a Path,
    traces: RefCell<Vec<ReadTrace>>,
    tables: RefCell<HashMap<String, Arc<[f64]>>>,
    patterns: RefCell<HashMap<String, Arc<[bool]>>>,
}

impl<'a> Recordings<'a> {
    pub(crate) fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            traces: RefCell::default(),
            tables: RefCell::default(),
            patterns: RefCell::default(),
        }
    }

    /// The quantiles of a file of measured delays, in nanoseconds.
    pub(super) fn table(&self, name: &At<String>, faults: &mut Faults) -> Option<Arc<[f64]>> {
        self.once(&self.tables, name, faults, trace_file::read_delays)
    }

    /// Which packets are lost, of a file of zeros and ones.
    pub(super) fn pattern(&self, name: &At<String>, faults: &mut Faults) -> Option<Arc<[bool]>> {
        self.once(&self.patterns, name, faults, trace_file::read_pattern)
    }

    /// Reads what has not been read before.
    fn once<T: Clone>(
        &self,
        known: &RefCell<HashMap<String, T>>,
        name: &At<String>,
        faults: &mut Faults,
        read: impl FnOnce(&Path) -> Result<T, TraceFault>,
    ) -> Option<T> {
        if let Some(found) = known.borrow().get(&name.value) {
            return Some(found.clone());
        }
        let found = read(&self.folder.join(&name.value));
        let found = found.map_err(|fault| refuse(name, &fault, faults)).ok()?;
        known.borrow_mut().insert(name.value.clone(), found.clone());
        Some(found)
    }

    fn trace(
        &self,
        name: &At<String>,
        kind: TraceKind,
        options: TraceOptions,
        faults: &mut Faults,
    ) -> Option<Arc<Trace>> {
        let same = |(n, k, o, _): &&ReadTrace| (n, *k, *o) == (&name.value, kind, options);
        if let Some((.., trace)) = self.traces.borrow().iter().find(same) {
            return Some(Arc::clone(trace));
        }
        let path = self.folder.join(&name.value);
        let trace = trace_file::read_trace(&path, kind, &options);
        let trace = Arc::new(trace.map_err(|fault| refuse(name, &fault, faults)).ok()?);
        let entry = (name.value.clone(), kind, options, Arc::clone(&trace));
        self.traces.borrow_mut().push(entry);
        Some(trace)
    }
}

/// Puts a problem of a file at the place of its name, with its own place in the message.
pub(crate) fn refuse(name: &At<String>, fault: &TraceFault, faults: &mut Faults) {
    let place = match (fault.line, fault.column) {
        (0, _) => String::new(),
        (line, 0) => format!(":{line}"),
        (line, column) => format!(":{line}:{column}"),
    };
    let message = format!("{}{place}: {}", shown(&name.value), fault.message);
    faults.add(name.at, message, fault.hint.clone());
}

/// A trace, or none.
pub(crate) fn trace(
    spec: &Either<At<String>, At<TraceSpec>>,
    framing: Framing,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Option<Arc<Trace>>> {
    let recordings = &context.recordings;
    let plain = TraceOptions {
        framing,
        ..TraceOptions::default()
    };
    let At { at, value: spec } = match spec {
        Either::Short(word) if word.value == NONE => return Some(None),
        Either::Short(name) => {
            let trace = recordings.trace(name, TraceKind::Csv, plain, faults);
            return trace.map(Some);
        }
        Either::Long(spec) => spec.as_ref(),
    };
    let offset = match &spec.offset {
        Some(offset) => offset.get(faults)?,
        None => Span::ZERO,
    };
    let csv = spec.file.as_ref().map(|name| (TraceKind::Csv, name));
    let mahimahi = spec
        .mahimahi
        .as_ref()
        .map(|name| (TraceKind::Mahimahi, name));
    let files = vec![("file", csv), ("mahimahi", mahimahi)];
    let (kind, name) = only_one(*at, files, "file", faults)?;
    let options = TraceOptions {
        repeat: spec.again.unwrap_or(false),
        interpolate: spec.interpolate.unwrap_or(false),
        offset,
        ..plain
    };
    recordings.trace(name, kind, options, faults).map(Some)
}
