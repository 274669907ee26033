//! Tests that pass because they lack something: said in one form, and counted.
//!
//! Included by the tests that may skip. `make test` names a file in `LONGHAUL_SKIPS`, where each
//! skip becomes a line, and prints how many there are: a pass that held nothing is not taken for
//! one that did.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that the running test, or a part of it, is left out, and what to do about it.
pub(crate) fn skip(remedy: &str) {
    // The harness calls a test's thread after the test.
    let thread = std::thread::current();
    let line = format!("skipped: {}: {remedy}\n", thread.name().unwrap_or("?"));
    eprint!("{line}");
    let Some(path) = std::env::var_os("LONGHAUL_SKIPS") else {
        return;
    };
    // One write to a file opened for appending: lines of several processes do not mix.
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
