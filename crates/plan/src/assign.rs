//! Values by name, from the command line or the control socket, read as the experiment file's.
//!
//! `delay='{ normal: { mean: 5 ms, deviation: 1 ms } }'` goes the way that the same text goes in
//! the `set` of an event: the same types, the same checks, the same messages.

use std::path::Path;

use longhaul_core::units::Framing;

use crate::elements::Elements;
use crate::file::decode::decode;
use crate::file::link::ChangeSpec;
use crate::file::set::parse_value;
use crate::file::wrap::At;
use crate::patch::Patch;
use crate::plan;
use crate::text::error::{Errors, Faults, Pos, Sources};
use crate::text::tree::{Key, Node, Value};

/// The most values in one call: more than there are fields.
const VALUES_MAX: usize = 100;

/// The patch that `values` (field, value) make for pipes with this framing. Files that they name
/// are read from `folder`, elements come from `elements`.
pub fn patch(
    values: &[(String, String)],
    framing: Framing,
    folder: &Path,
    elements: &Elements,
) -> Result<Patch, Errors> {
    let values = &values[..values.len().min(VALUES_MAX)];
    let mut faults = Faults::default();
    let texts = values.iter().map(|(key, value)| format!("{key}={value}"));
    let mut sources = Sources {
        list: texts.map(|text| ("set".to_owned(), text)).collect(),
    };
    if values.is_empty() {
        // A problem without a position is reported against the first source, so one must exist.
        sources.list.push(("set".to_owned(), String::new()));
    }
    let mut entries = Vec::new();
    for ((name, value), source) in values.iter().zip(0..) {
        let width = name.chars().count() as u32;
        let at = Pos {
            source,
            line: 1,
            column: 1,
            width,
        };
        match parse_value(value, width + 1, source) {
            Ok(node) => entries.push((
                Key {
                    at,
                    text: name.clone(),
                },
                node,
            )),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(sources.explain(faults));
    }
    let root = Node {
        at: Pos::default(),
        value: Value::Map(entries),
    };
    let spec: Option<At<ChangeSpec>> = decode(&root, &mut faults);
    let patch = spec.and_then(|spec| plan::change(&spec, framing, folder, elements, &mut faults));
    match patch.filter(|_| faults.is_empty()) {
        Some(patch) => Ok(patch),
        None => Err(sources.explain(faults)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(values: &[(&str, &str)]) -> String {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let values: Vec<(String, String)> = values.iter().map(owned).collect();
        let framing = Framing::default();
        let patch = patch(&values, framing, Path::new("."), &Elements::new());
        patch.unwrap_err().to_string()
    }

    /// Callers of the control socket send what they like.
    #[test]
    fn wrong_values_are_refused_in_words() {
        assert!(errors(&[]).contains("nothing changes"), "{}", errors(&[]));
        for (name, value) in [
            ("delay", ""),
            ("delay", "null"),
            ("delay", "*a"),
            ("", "5 ms"),
            ("mtu", "1400"),
            ("loss", "\u{0}"),
        ] {
            assert!(errors(&[(name, value)]).contains("error"), "{name}={value}");
        }
        let deep = "[".repeat(20_000);
        assert!(errors(&[("delay", &deep)]).contains("error"));
    }
}
