//! What people see: the real binary in a pseudo-terminal, whose screen an independent terminal emulator keeps; and
//! what goes into pipes instead. Nothing here needs namespaces.

// Screens are waited for by the clock.
#![allow(clippy::disallowed_methods)]

mod pty;
mod report;
#[path = "../common/scratch.rs"]
#[allow(dead_code)]
mod scratch;
mod top;

use std::path::Path;

use scratch::{PATIENCE, SMALL, Scratch, UnderWay, kill, text, wait_for};

/// Where runs begin that are given no folder.
const FOLDER: &str = "longhaul-runs/small";

impl Scratch {
    /// Runs an experiment with a capture to its end, and gives what it has printed.
    fn run(&self) -> String {
        let experiment = format!("{SMALL}measure: {{ every: 1 s, capture: [g-h] }}\n");
        let file = self.write("experiment.yaml", &experiment);
        let output = self.longhaul(&["run", &file]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stdout)
    }

    /// Starts a run that goes on for long.
    fn begin(&self) -> UnderWay {
        self.start(FOLDER, &[])
    }
}

/// Nothing that a terminal would take for more than text.
fn assert_plain(text: &str, path: &Path) {
    let steers = |c: &char| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c);
    let found = text.chars().find(steers);
    assert_eq!(found, None, "{}: {text}", path.display());
}
