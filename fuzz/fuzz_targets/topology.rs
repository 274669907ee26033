//! Hostile topology files in every format: an answer or an error, never a panic.
//!
//! The first byte chooses the format (or leaves it to be found out) and some options.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_plan::topology::import::{ImportOptions, PARAMS, read_bytes};

const FORMATS: [&str; 8] = [
    "gml",
    "graphml",
    "rocketfuel",
    "cch",
    "brite",
    "inet",
    "caida",
    "matrix",
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, file)) = data.split_first() else {
        return;
    };
    let mut options = ImportOptions::default();
    let mut set = |key: &str, value: &str| {
        assert!(PARAMS.iter().any(|param| param.name == key));
        options.set(key, value).expect("the option exists");
    };
    if let Some(format) = FORMATS.get(usize::from(choice & 0x0f)) {
        set("format", format);
    }
    if choice & 0x10 != 0 {
        set("component", "largest");
    }
    if choice & 0x20 != 0 {
        set("hosts_on", "stubs");
        set("hosts", "3 in all");
    }
    match read_bytes(file, "latencies", &options) {
        Ok(sketch) => {
            let ends = |link: &longhaul_plan::topology::SketchLink| link.ends;
            for [a, b] in sketch.links.iter().map(ends) {
                assert!(a != b && a.max(b) < sketch.nodes.len());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
