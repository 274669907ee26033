//! Samples, and how the tests look at what comes of them.

use std::path::{Path, PathBuf};

use longhaul_core::Span;
use longhaul_core::units::Rate;
use longhaul_plan::file::FileError;
use longhaul_plan::topology::import::{self, ImportOptions};
use longhaul_plan::topology::{Kind, Sketch};

pub(crate) const SAMPLES: [&str; 9] = [
    "zoo.gml",
    "zoo.graphml",
    "shadow.gml",
    "latencies.intra",
    "weights.intra",
    "map.cch",
    "small.brite",
    "small.inet",
    "as-rel.txt",
];

pub(crate) fn sample(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join("import/samples").join(name)
}

pub(crate) fn options(set: &[(&str, &str)]) -> ImportOptions {
    let mut options = ImportOptions::default();
    for (key, value) in set {
        options.set(key, value).unwrap();
    }
    options
}

pub(crate) fn read(name: &str, set: &[(&str, &str)]) -> Sketch {
    import::read(&sample(name), &options(set)).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn parse(text: impl AsRef<[u8]>, set: &[(&str, &str)]) -> Result<Sketch, FileError> {
    import::read_bytes(text.as_ref(), "f", &options(set))
}

pub(crate) fn wrong(text: impl AsRef<[u8]>) -> FileError {
    parse(text, &[]).expect_err("this is wrong")
}

pub(crate) fn names(sketch: &Sketch, kind: Kind) -> Vec<&str> {
    let nodes = sketch.nodes.iter().filter(|node| node.kind == kind);
    nodes.map(|node| &*node.name).collect()
}

pub(crate) fn us(span: Span) -> f64 {
    span.as_ns() as f64 / 1e3
}

pub(crate) fn mbit(rate: Option<Rate>) -> Option<f64> {
    rate.map(|rate| rate.bits_per_s() as f64 / 1e6)
}

/// The links of the routers: ends, delay there and back in microseconds, rate in Mbit/s.
pub(crate) fn trunks(sketch: &Sketch) -> Vec<(String, f64, f64, Option<f64>)> {
    let is_trunk = |ends: [usize; 2]| {
        ends.iter()
            .all(|end| sketch.nodes[*end].kind == Kind::Router)
    };
    let links = sketch.links.iter().filter(|link| is_trunk(link.ends));
    links
        .map(|link| {
            let [a, b] = link.ends.map(|end| &sketch.nodes[end].name);
            let back = link.back.unwrap_or(link.forward);
            let delays = (us(link.forward.delay), us(back.delay));
            (
                format!("{a} {b}"),
                delays.0,
                delays.1,
                mbit(link.forward.rate),
            )
        })
        .collect()
}

#[track_caller]
pub(crate) fn has_note(sketch: &Sketch, parts: &[&str]) {
    let found = sketch
        .notes
        .iter()
        .any(|note| parts.iter().all(|part| note.contains(part)));
    assert!(found, "{parts:?} not in {:#?}", sketch.notes);
}
