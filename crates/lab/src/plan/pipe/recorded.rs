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

use super::{Context, only_one};
use crate::file::error::{Fault, Faults, shown};
use crate::file::link::TraceSpec;
use crate::file::wrap::{At, Either, NONE};

/// Name, kind, and whatever else decides what a trace is.
type TraceKey = (String, Kind, bool, bool, Span);

/// The formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Csv,
    Mahimahi,
}

/// The files read so far.
pub(crate) struct Recordings<'a> {
    folder: &'a Path,
    traces: RefCell<HashMap<TraceKey, Arc<Trace>>>,
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
        once(&self.tables, &name.value, name, faults, || {
            todo!("{}", self.folder.display())
        })
    }

    /// Which packets are lost, of a file of zeros and ones.
    pub(super) fn pattern(&self, name: &At<String>, faults: &mut Faults) -> Option<Arc<[bool]>> {
        once(&self.patterns, &name.value, name, faults, || todo!())
    }
}

/// Reads what has not been read before; a problem is put at the file's name.
fn once<K: std::hash::Hash + Eq + Clone, T: Clone>(
    known: &RefCell<HashMap<K, T>>,
    key: &K,
    name: &At<String>,
    faults: &mut Faults,
    read: impl FnOnce() -> Result<T, Fault>,
) -> Option<T> {
    if let Some(found) = known.borrow().get(key) {
        return Some(found.clone());
    }
    match read() {
        Ok(found) => {
            known.borrow_mut().insert(key.clone(), found.clone());
            Some(found)
        }
        Err(fault) => {
            faults.push(Fault { at: Some(name.at), ..fault });
            None
        }
    }
}

/// A trace, or none.
pub(super) fn trace(
    spec: &Either<At<String>, At<TraceSpec>>,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Option<Arc<Trace>>> {
    let recordings = &context.recordings;
    let At { at, value: spec } = match spec {
        Either::Short(word) if word.value == NONE => return Some(None),
        Either::Short(name) => {
            let key = (name.value.clone(), Kind::Csv, false, false, Span::ZERO);
            return read(recordings, key, name, faults).map(Some);
        }
        Either::Long(spec) => spec,
    };
    let offset = match &spec.offset {
        Some(offset) => offset.get(faults)?,
        None => Span::ZERO,
    };
    let files = vec![
        ("file", spec.file.as_ref().map(|name| (Kind::Csv, name))),
        ("mahimahi", spec.mahimahi.as_ref().map(|name| (Kind::Mahimahi, name))),
    ];
    let (kind, name) = only_one(*at, files, "file", faults)?;
    let interpolate = spec.interpolate.unwrap_or(false);
    if interpolate && kind == Kind::Mahimahi {
        let message = format!("`{}` holds moments, and nothing lies between them", shown(&name.value));
        faults.add(*at, message, "remove `interpolate`");
        return None;
    }
    let again = spec.again.unwrap_or(false);
    let key = (name.value.clone(), kind, again, interpolate, offset);
    read(recordings, key, name, faults).map(Some)
}

fn read(
    recordings: &Recordings<'_>,
    key: TraceKey,
    name: &At<String>,
    faults: &mut Faults,
) -> Option<Arc<Trace>> {
    let path = recordings.folder.join(&name.value);
    once(&recordings.traces, &key, name, faults, || todo!("{}", path.display()))
}
