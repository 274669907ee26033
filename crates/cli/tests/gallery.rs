//! Every experiment of the gallery runs at its smoke size.
//!
//! `experiments/NAME/smoke.set` holds one override `PATH=VALUE` a line, as `--set` takes them;
//! `#` begins a comment line.

// Tests wait for other processes, by the clock.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What an experiment may take at its smoke size: a few seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn experiments() -> Vec<PathBuf> {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let entries = fs::read_dir(&gallery).expect("the gallery");
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path().join("experiment.yaml"))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no experiment in {}", gallery.display());
    files
}

fn overrides(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("smoke.set")).unwrap_or_default();
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn every_experiment_runs_at_its_smoke_size() {
    let scratch = std::env::temp_dir().join(format!("longhaul-gallery-{}", std::process::id()));
    for file in experiments() {
        let folder = file.parent().expect("a folder");
        let name = folder.file_name().expect("a name").to_string_lossy();
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .arg("run")
            .arg(&file)
            .arg("--out")
            .arg(scratch.join(&*name));
        for change in overrides(folder) {
            command.args(["--set", &change]);
        }
        let begun = Instant::now();
        let output = command
            .stdin(Stdio::null())
            .output()
            .expect("starting longhaul");
        let code = output.status.code();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(code, Some(0 | 3)),
            "{name} ended with {code:?}:\n{said}"
        );
        assert!(
            begun.elapsed() < PATIENCE,
            "{name} took {:?}",
            begun.elapsed()
        );
        eprintln!(
            "{name}: exit {code:?} in {:.1} s",
            begun.elapsed().as_secs_f64()
        );
    }
    let _ = fs::remove_dir_all(&scratch);
}
