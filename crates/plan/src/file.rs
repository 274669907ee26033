//! The experiment file: text to typed values, with the place of every problem.
//!
//! Three steps: YAML becomes a tree of texts with their positions ([`crate::text`]);
//! overrides change the tree ([`set`]); the tree becomes the types of [`spec`] ([`decode`]),
//! from which the JSON Schema is generated too. What the values mean together is checked by
//! [`crate::plan`].
//!
//! Hostile files are expected: size, depth, number of values and the growth by aliases are
//! bounded, and nothing recurses deeper than the depth bound.

pub(crate) mod decode;
pub(crate) mod generate;
pub(crate) mod link;
pub(crate) mod measure;
pub(crate) mod resources;
pub(crate) mod set;
pub(crate) mod spec;
pub(crate) mod traffic;
pub(crate) mod wrap;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use crate::text::error::{Errors, FileError, Place};
use crate::text::error::{Fault, Faults, Sources};
use crate::text::tree;
use spec::Experiment;

/// The largest experiment file in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

const EXAMPLE_HINT: &str = "an experiment file is YAML text, and `topology: { nodes: { a: {} } }` \
                            is the smallest one";

/// The JSON Schema of the experiment file, for editors.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Experiment).to_value();
    forbid_null(&mut schema);
    schema
}

/// A field is there or absent: only maps may be empty, as sections without entries.
fn forbid_null(schema: &mut serde_json::Value) {
    use serde_json::Value;
    match schema {
        Value::Object(fields) => {
            let map = fields
                .get("type")
                .is_some_and(|t| *t == serde_json::json!(["object", "null"]));
            if let Some(Value::Array(types)) = fields.get_mut("type").filter(|_| !map) {
                types.retain(|name| name != "null");
            }
            for key in ["anyOf", "enum"] {
                if let Some(Value::Array(options)) = fields.get_mut(key) {
                    options.retain(|o| !o.is_null() && *o != serde_json::json!({ "type": "null" }));
                }
            }
            fields.values_mut().for_each(forbid_null);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        _ => {}
    }
}

/// A file's types with the texts that its problems point into.
pub(crate) struct Loaded {
    pub(crate) spec: Experiment,
    pub(crate) sources: Sources,
    /// Notes about a generated or imported topology.
    pub(crate) notes: Vec<String>,
}

/// Reads the text of a file, within bounds.
pub(crate) fn read(path: &Path) -> Result<String, Errors> {
    let name = path.display().to_string();
    let whole = |message: String, hint: &str| Errors::from(FileError::whole(&name, message, hint));
    let failed = |e: std::io::Error| whole(format!("cannot read the file: {e}"), "check its path");
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(whole(
            "this is a directory".into(),
            "name the experiment file in it",
        ));
    }
    let mut bytes = Vec::new();
    if metadata.len() <= MAX_FILE_BYTES {
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    }
    if metadata.len().max(bytes.len() as u64) > MAX_FILE_BYTES {
        return Err(too_large(&name));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        FileError::unreadable(
            &name,
            end_of(valid),
            "this is not text in UTF-8",
            EXAMPLE_HINT,
        )
        .into()
    })
}

/// Line and column, from 1, of what follows `text`.
fn end_of(text: &[u8]) -> (u32, u32) {
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    let last = text
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
    (place(lines), place(last.len()))
}

fn too_large(name: &str) -> Errors {
    let message = format!(
        "the file is larger than {} MiB, the most that is read",
        MAX_FILE_BYTES >> 20
    );
    FileError::unreadable(
        name,
        (1, 1),
        message,
        "use groups (`count`) to describe large networks",
    )
    .into()
}

/// Reads the types from `text`, with `overrides` (path, value) applied first; `expand` puts the
/// nodes and links of a generated or imported topology into the tree, and returns notes about them.
pub(crate) fn load(
    text: &str,
    name: &str,
    overrides: &[(String, String)],
    expand: impl FnOnce(&mut tree::Node, &Path, &mut Faults) -> Vec<String>,
) -> Result<Loaded, Errors> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(name));
    }
    let whole = |message: &str, hint: &str| Err(FileError::whole(name, message, hint).into());
    if let Some((before, _)) = text.split_once('\0') {
        let message = "this is not text: it contains a NUL byte";
        let place = end_of(before.as_bytes());
        return Err(FileError::unreadable(name, place, message, EXAMPLE_HINT).into());
    }
    if overrides.len() >= usize::from(u16::MAX) {
        return whole("too many overrides", "write them into the file");
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sources = Sources {
        list: vec![(name.to_owned(), text.to_owned())],
    };
    let mut faults = Faults::default();
    let fail = |sources: &Sources, fault: Fault| {
        let mut faults = Faults::default();
        faults.push(fault);
        Err(sources.explain(faults))
    };
    let mut root = match tree::parse(text, 0) {
        Ok(root) => root,
        Err(fault) => return fail(&sources, fault),
    };
    if root.value == tree::Value::Empty {
        return Err(FileError::unreadable(name, (1, 1), "the file is empty", EXAMPLE_HINT).into());
    }
    let texts = overrides
        .iter()
        .map(|(path, value)| format!("{path}={value}"));
    let named = texts.map(|text| ("--set".to_owned(), text));
    sources.list.extend(named);
    // Overrides of a generator's parameters apply before it runs, those of the nodes and links that
    // it makes after.
    let change = |root: &mut tree::Node, faults: &mut Faults, early: bool| {
        for ((path, value), source) in overrides.iter().zip(1..) {
            if set::shapes_topology(path) == early
                && let Err(fault) = set::apply(root, path, value, source)
            {
                faults.push(fault);
            }
        }
    };
    change(&mut root, &mut faults, true);
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let notes = expand(&mut root, folder, &mut faults);
    change(&mut root, &mut faults, false);
    let spec = decode::decode(&root, &mut faults);
    drop(root);
    match spec.filter(|_| faults.is_empty()) {
        Some(spec) => Ok(Loaded {
            spec,
            sources,
            notes,
        }),
        None => Err(sources.explain(faults)),
    }
}
