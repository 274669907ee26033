//! Topologies from files that others published: [`read`] makes a [`Sketch`] of them.
//!
//! Each format has a reader of its own that knows only its format; what the readers find
//! ([`graph`]) becomes a sketch in one place ([`assemble`]): every node of the file is a router
//! with hosts at it, delays come from the file or from distances, and whatever was assumed,
//! changed or left out is a note. A matrix is made of hosts alone ([`matrix`]).
//!
//! Files are hostile until read: their size, the numbers of nodes and edges, and all tables are
//! bounded, nothing recurses, and time is linear in their size.
//!
//! Left out: compressed files; formats that hold no network (drawings, traces).

mod assemble;
mod brite;
mod caida;
mod geo;
mod gml;
mod graph;
mod graphml;
mod inet;
mod matrix;
mod options;
mod rocketfuel;
mod text;
mod zoo;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub(crate) use options::schema;
pub use options::{
    Component, Count, Format, Hosts, HostsOn, ImportOptions, ImportParam, PARAMS, Speed, Times,
};
use text::{Flaw, Piece};

use super::Sketch;
use crate::text::error::FileError;
use crate::text::error::{Faults, shown};
use crate::text::tree::{Node, Value};

/// The largest file in bytes that is imported.
pub const MAX_IMPORT_BYTES: u64 = 64 << 20;

const FORMATS: &str = "GML, GraphML, Rocketfuel, BRITE, Inet, CAIDA's relationships of autonomous \
                       systems and matrices of times can be imported; `format` says which it is";

/// Reads a file.
///
/// # Errors
/// The file cannot be read, is not of a format that can be imported, or describes no network that
/// can be run; the error has the place and what to do.
pub fn read(path: &Path, options: &ImportOptions) -> Result<Sketch, FileError> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| {
        FileError::whole(
            &name,
            format!("cannot read the file: {error}"),
            "check its path",
        )
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        let hint = "name the file in it that holds the topology";
        return Err(FileError::whole(&name, "this is a directory", hint));
    }
    let mut bytes = Vec::new();
    file.take(MAX_IMPORT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    read_bytes(&bytes, &name, options)
}

/// The topology of `import: { file: …, … }`, with the file sought in `folder`. What is wrong goes
/// to `faults`, and then there is no answer.
pub(crate) fn from_tree(node: &Node, folder: &Path, faults: &mut Faults) -> Option<Sketch> {
    let hint = "write it like `{ file: Abilene.gml, rate: 1 Gbit/s }`";
    let Value::Map(entries) = &node.value else {
        faults.add(node.at, "this should be a map of parameters", hint);
        return None;
    };
    let mut options = ImportOptions::default();
    let (mut file, mut whole) = (None, true);
    for (key, value) in entries {
        let set = match &value.value {
            Value::Text { text, .. } if key.text == "file" => {
                file = Some((value.at, text));
                Ok(())
            }
            Value::Text { text, .. } => options.set(&key.text, text),
            _ => Err((
                format!("`{}` takes one value", shown(&key.text)),
                hint.to_owned(),
            )),
        };
        if let Err((message, hint)) = set {
            let unknown = PARAMS.iter().all(|param| param.name != key.text);
            faults.add(if unknown { key.at } else { value.at }, message, hint);
            whole = false;
        }
    }
    let Some((at, file)) = file else {
        faults.add(node.at, "`file` is missing", hint);
        return None;
    };
    if !whole {
        return None;
    }
    match read(&folder.join(file), &options) {
        Ok(sketch) => Some(sketch),
        Err(error) => {
            let place = match &error.place {
                Some(place) => format!("{}:{}:{}", error.file, place.line, place.column),
                None => error.file,
            };
            let message = format!("{place}: {}", error.message);
            faults.add(at, message, error.hint.unwrap_or_default());
            None
        }
    }
}

/// Reads the content of a file; `name` appears in errors and helps to detect the format.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8], name: &str, options: &ImportOptions) -> Result<Sketch, FileError> {
    let whole = |message: String, hint: &str| FileError::whole(name, message, hint);
    if bytes.len() as u64 > MAX_IMPORT_BYTES {
        let limit = MAX_IMPORT_BYTES >> 20;
        let message = format!("the file is larger than {limit} MiB, the most that is read");
        return Err(whole(message, "import a part of the network"));
    }
    let packed: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gunzip"),
        (b"BZh", "bunzip2"),
        (b"\xfd7zXZ", "unxz"),
        (b"PK\x03\x04", "unzip"),
    ];
    if let Some((_, tool)) = packed.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(whole(
            "the file is compressed".into(),
            &format!("unpack it with {tool}"),
        ));
    }
    let (text, latin) = decode(bytes);
    if let Some(at) = text.find('\0') {
        let flaw = Flaw::at(at, "this is not text: it contains a NUL byte", FORMATS);
        return Err(flaw.explain(name, &text));
    }
    let mut sketch = read_text(&text, name, options).map_err(|flaw| flaw.explain(name, &text))?;
    if latin {
        let note = "the file is not UTF-8: taken as ISO 8859-1".to_owned();
        sketch.notes.insert(0, note);
    }
    Ok(sketch)
}

/// The text of a file, and whether it was not UTF-8 but the older ISO 8859-1.
fn decode(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), false),
        Err(_) => (bytes.iter().copied().map(char::from).collect(), true),
    }
}

fn read_text(text: &str, name: &str, options: &ImportOptions) -> Result<Sketch, Flaw> {
    if text.trim().is_empty() {
        return Err(Flaw::whole("the file is empty", FORMATS));
    }
    let format = options
        .format
        .or_else(|| by_content(text))
        .or_else(|| by_name(name));
    let format = format.ok_or_else(|| {
        let at = text::lines(text).next().map_or(0, |line| line.at);
        Flaw::at(at, "the format of this file is unknown", FORMATS)
    })?;
    let graph = match format {
        Format::Gml => gml::read(text)?,
        Format::GraphMl => graphml::read(text)?,
        Format::RocketfuelLinks => rocketfuel::read_links(text, name, options)?,
        Format::RocketfuelMap => rocketfuel::read_map(text)?,
        Format::Brite => brite::read(text, options)?,
        Format::Inet => inet::read(text, options)?,
        Format::Caida => caida::read(text)?,
        Format::Matrix => return matrix::read(text, options),
    };
    let mut sketch = assemble::assemble(graph, options)?;
    if sketch.title.is_empty() {
        let stem = Path::new(name)
            .file_stem()
            .map(|stem| stem.to_string_lossy());
        sketch.title = shown(&stem.unwrap_or_default());
    }
    Ok(sketch)
}

/// The format that a text looks like.
fn by_content(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('<') {
        return Some(Format::GraphMl);
    }
    if start.starts_with("Topology:") {
        return Some(Format::Brite);
    }
    let mut lines = text::lines(text);
    let first = lines.next()?;
    let fields: Vec<&str> = first.fields().take(4).map(|field| field.text).collect();
    let number = |text: &&str| text.parse::<f64>().is_ok();
    let second = lines.next().map_or(0, |line| line.fields().take(4).count());
    if fields.first().is_some_and(|word| is_gml_key(word)) {
        let rest = &start[..text::floor(start, 1 << 16)];
        let list = |word: &str| {
            rest.match_indices(word)
                .any(|(at, _)| rest[at + word.len()..].trim_start().starts_with('['))
        };
        if list("graph") {
            return Some(Format::Gml);
        }
    }
    if first
        .text
        .split('|')
        .take(3)
        .filter(|part| number(&part.trim()))
        .count()
        == 3
    {
        return Some(Format::Caida);
    }
    match &fields[..] {
        [uid, place, ..] if number(uid) && place.starts_with('@') => Some(Format::RocketfuelMap),
        [a, b] if number(a) && number(b) && second == 3 => Some(Format::Inet),
        [_, _, weight] if number(weight) && !fields[..2].iter().all(number) => {
            Some(Format::RocketfuelLinks)
        }
        _ if is_row(first) => Some(Format::Matrix),
        _ => None,
    }
}

fn is_gml_key(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether a line is a row of at least two numbers, the first one's own time being 0 or missing.
fn is_row(line: Piece<'_>) -> bool {
    let mut fields = line.split(matrix::separates);
    let known = |field: Piece<'_>| field.text.parse::<f64>().is_ok() || field.text == "-";
    let first = fields.next().is_some_and(known);
    let second = fields.next().is_some_and(known);
    first
        && second
        && fields
            .take(30)
            .all(|f| known(f) || f.text.eq_ignore_ascii_case("na"))
}

/// The format that a file's name implies.
fn by_name(name: &str) -> Option<Format> {
    let name = name.to_ascii_lowercase();
    let endings = [
        (".gml", Format::Gml),
        (".graphml", Format::GraphMl),
        (".xml", Format::GraphMl),
        (".brite", Format::Brite),
        (".cch", Format::RocketfuelMap),
        (".intra", Format::RocketfuelLinks),
        (".inet", Format::Inet),
    ];
    let ending = endings.iter().find(|(ending, _)| name.ends_with(ending));
    let relations = || name.contains("as-rel").then_some(Format::Caida);
    ending.map(|(_, format)| *format).or_else(relations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tree;

    fn import(entry: &str) -> Result<Sketch, Vec<String>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/samples");
        let node = tree::parse(entry, 0).unwrap();
        let mut faults = Faults::default();
        let sketch = from_tree(&node, &folder, &mut faults);
        assert_eq!(sketch.is_some(), faults.is_empty());
        let sources = crate::text::error::Sources {
            list: vec![("x.yaml".to_owned(), entry.to_owned())],
        };
        sketch.ok_or_else(|| {
            let errors = sources.explain(faults);
            errors.list().iter().map(ToString::to_string).collect()
        })
    }

    #[test]
    fn an_entry_of_a_file_is_read_like_a_command_line() {
        let sketch = import("{ file: zoo.gml, rate: 1 Gbit/s, hosts: 2 }").unwrap();
        let mut options = ImportOptions::default();
        options.set("rate", "1 Gbit/s").unwrap();
        options.set("hosts", "2 per node").unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/samples");
        assert_eq!(Ok(sketch), read(&folder.join("zoo.gml"), &options));
    }

    #[test]
    fn an_entry_that_is_wrong_is_reported_with_its_place() {
        let cases = [
            ("{ rate: 1 Gbit/s }", "x.yaml:1:1", "`file` is missing"),
            (
                "{ file: zoo.gml, rat: 1 }",
                "x.yaml:1:18",
                "did you mean `rate`?",
            ),
            ("{ file: zoo.gml, rate: 1 }", "x.yaml:1:24", "no unit"),
            (
                "{ file: zoo.gml, hosts: [1] }",
                "x.yaml:1:25",
                "takes one value",
            ),
            ("{ file: none.gml }", "x.yaml:1:9", "none.gml: cannot read"),
            (
                "{ file: zoo.gml, format: inet }",
                "x.yaml:1:9",
                "zoo.gml:2:1: ",
            ),
            ("zoo.gml", "x.yaml:1:1", "a map of parameters"),
        ];
        for (entry, place, part) in cases {
            let errors = import(entry).unwrap_err();
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(
                errors[0].starts_with(place) && errors[0].contains(part),
                "{}",
                errors[0]
            );
        }
    }
}
