//! Every experiment of the gallery runs at its smoke size, and draws its figure. Those in virtual
//! time run twice, on one thread and on three, and are the same.
//!
//! `experiments/NAME/smoke.set` holds one override `PATH=VALUE` a line, as `--set` takes them;
//! `#` begins a comment line. `figure.py` itself claims that the run's data are whole: every
//! packet accounted for, none before it was due, exact sums. CONTRIBUTING.md has the rest.
//!
//! Tables of documents that are the same on every machine are those of their runs
//! (`experiments/tables.py`): the ones that take seconds are made again at full size, of the others
//! the columns are compared here, and `make gallery` compares all.

// Tests wait for other processes, by the clock.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../../../tests/skip.rs"]
mod skip;
use skip::skip;

/// What an experiment may take at its smoke size: a few seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn gallery() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn experiments() -> Vec<PathBuf> {
    let gallery = gallery();
    let entries = fs::read_dir(&gallery).expect("the gallery");
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path().join("experiment.yaml"))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no experiment in {}", gallery.display());
    files
}

/// Whether an experiment needs no hosts.
fn is_virtual(file: &Path) -> bool {
    let text = fs::read_to_string(file).expect("the experiment");
    text.lines().any(|line| line == "clock: virtual")
}

fn overrides(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("smoke.set")).unwrap_or_default();
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The figure of the run in `run`, where the experiment has one: its script succeeds, and leaves
/// a drawing and its data.
fn draw(folder: &Path, run: &Path) {
    let script = folder.join("figure.py");
    if !script.exists() {
        return;
    }
    let mut command = python(&script);
    command.env("LONGHAUL", env!("CARGO_BIN_EXE_longhaul"));
    let drawn = command.arg(run).output().expect("python3");
    let said = String::from_utf8_lossy(&drawn.stderr);
    assert!(drawn.status.success(), "{}:\n{said}", script.display());
    let printed = String::from_utf8_lossy(&drawn.stdout);
    let figure = Path::new(printed.trim());
    assert_eq!(figure.parent(), Some(run.join("figures").as_path()));
    let svg = fs::read_to_string(figure).expect("the figure");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains("nan"), "{} has no numbers", figure.display());
    let data = fs::read_to_string(figure.with_extension("csv")).expect("its data");
    assert!(data.lines().count() > 1, "{} has no data", figure.display());
}

/// Compares the tables of documents with the run of experiment `name`, of whatever size.
fn compare_tables(name: &str, run: &Path, options: &[&str]) {
    let mut command = python(&gallery().join("tables.py"));
    command.arg(name).arg(run).args(options);
    let compared = command.output().expect("python3");
    let said = String::from_utf8_lossy(&compared.stderr);
    assert!(compared.status.success(), "{name}:\n{said}");
}

/// Where an experiment has a script that measures a plain cable too: its table has both.
fn compare_with_a_cable(folder: &Path, run: &Path) {
    let script = folder.join("instruments.py");
    if !script.exists() {
        return;
    }
    let output = python(&script).arg(run).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {output:?}", script.display());
    if said.contains("missing") {
        skip(said.trim());
        return;
    }
    let table = fs::read_to_string(run.join("figures/instruments.md")).expect("a table");
    let rows = |name: &str| table.lines().filter(|line| line.contains(name)).count();
    assert_eq!(rows("| plain cable | 0 |"), 1, "{table}");
    assert!(rows("| Longhaul | ") >= 2, "{table}");
}

/// Python with a script, leaving no compiled files behind.
fn python(script: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg("-B").arg(script);
    command
}

#[test]
fn scripts_pass_their_own_tests() {
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "unittest", "discover", "--start-directory"]);
    let tested = command.arg(gallery()).output().expect("python3");
    let said = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}

#[test]
fn a_reference_says_what_it_lacks() {
    let inquiry = ["-c", "import sys; print(sys.executable)"];
    let answer = Command::new("python3").args(inquiry).output();
    let answer = answer.expect("the gallery needs python3");
    let interpreter = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    for file in experiments() {
        let script = file.with_file_name("reference.py");
        if !script.exists() {
            continue;
        }
        let mut command = Command::new(&interpreter);
        command.arg("-B").arg(&script).arg("no-such-run");
        let output = command.env("PATH", "").output().expect("python3");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {output:?}", script.display());
        assert_eq!(said.lines().count(), 1, "{}: {said}", script.display());
        assert!(said.contains("missing"), "{}: {said}", script.display());
    }
}

/// Runs an experiment at its smoke size into `run`, and gives its exit code; none where this machine
/// does not have what its hosts ask for.
fn run_small(file: &Path, run: &Path, more: &[&Path]) -> Option<i32> {
    let folder = file.parent().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .arg("run")
        .arg(file)
        .arg("--out")
        .arg(run)
        .args(more);
    for change in overrides(folder) {
        command.args(["--set", &change]);
    }
    let begun = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("starting longhaul");
    let (code, took) = (output.status.code(), begun.elapsed());
    let said = String::from_utf8_lossy(&output.stderr);
    let name = file.display();
    if code == Some(2) && said.contains("lacks resources that hosts ask for") {
        skip(&format!(
            "{name}: {}",
            said.lines().nth(1).unwrap_or_default().trim()
        ));
        return None;
    }
    assert!(
        matches!(code, Some(0 | 3)),
        "{name} ended with {code:?}:\n{said}"
    );
    assert!(took < PATIENCE, "{name} took {took:?}");
    eprintln!("{name}: exit {code:?} in {:.1} s", took.as_secs_f64());
    code
}

/// Splits an experiment at its smoke size over three cores, at random, into `file`.
fn split_small(experiment: &Path, file: &Path) -> PathBuf {
    let folder = experiment.parent().expect("a folder");
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("partition").arg(experiment);
    command
        .args(["--cores", "3", "--method", "random", "--save"])
        .arg(file);
    for change in overrides(folder) {
        command.args(["--set", &change]);
    }
    let output = command.output().expect("starting longhaul");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{said}", experiment.display());
    file.to_owned()
}

/// The time series of a run, byte by byte.
fn series(run: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(run.join("series")).expect("series");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("a file").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        (name, fs::read(&path).expect("its bytes"))
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

/// Flows that have finished: an end is part of what a figure is checked by.
fn finished(summary: &Value) -> u64 {
    let groups = summary["flow_groups"]
        .as_array()
        .expect("entries of traffic");
    let finished = groups.iter().map(|group| group["finished"].as_u64());
    finished.map(|count| count.expect("a count")).sum()
}

/// A folder for the runs of a test.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longhaul-gallery-{}-{name}", std::process::id()))
}

/// Live runs have the machine to themselves.
static MACHINE: Mutex<()> = Mutex::new(());

#[test]
fn every_live_experiment_runs_at_its_smoke_size() {
    let _alone = MACHINE.lock();
    let scratch = scratch("live");
    for file in experiments().iter().filter(|file| !is_virtual(file)) {
        let folder = file.parent().expect("a folder");
        let run = scratch.join(folder.file_name().expect("a name"));
        if run_small(file, &run, &[]).is_some() {
            draw(folder, &run);
            compare_with_a_cable(folder, &run);
        }
    }
    let _ = fs::remove_dir_all(&scratch);
}

#[test]
fn every_virtual_experiment_is_the_same_again() {
    let _alone = MACHINE.lock();
    let scratch = scratch("virtual");
    for file in experiments().iter().filter(|file| is_virtual(file)) {
        let folder = file.parent().expect("a folder");
        let name = folder.file_name().expect("a name").to_string_lossy();
        let partition = split_small(file, &scratch.join(format!("{name}.json")));
        let threads = [Path::new("--partition"), &partition];
        let results = [("first", &[][..]), ("again", &threads)].map(|(which, more)| {
            let run = scratch.join(format!("{name}-{which}"));
            let code = run_small(file, &run, more);
            assert_eq!(code, Some(0), "{name} is not faithful");
            let summary = fs::read(run.join("summary.json")).expect("a summary");
            let summary: Value = serde_json::from_slice(&summary).expect("JSON");
            assert!(
                finished(&summary) > 0,
                "{name}: no flow has come to its end"
            );
            let cores = summary["cores"].as_array().expect("cores").len();
            assert_eq!(cores, if more.is_empty() { 1 } else { 3 });
            let hash = summary["trace_hash"].as_str().expect("a hash").to_owned();
            let parts = ["packets", "flows", "flow_groups", "pipes", "events"];
            let parts = parts.map(|part| summary[part].clone());
            (hash, parts, series(&run))
        });
        assert!(results[0].2.len() > 1, "{name} has series");
        let [first, again] = results;
        assert_eq!(first, again, "{name}");
        let first = scratch.join(format!("{name}-first"));
        draw(folder, &first);
        compare_tables(&name, &first, &["--shape"]);
    }
    let _ = fs::remove_dir_all(&scratch);
}

/// Virtual experiments whose full size takes a debug build a few seconds.
const QUICK: [&str; 1] = ["tcp-models"];

#[test]
fn quick_tables_are_those_of_their_runs() {
    let _alone = MACHINE.lock();
    let scratch = scratch("tables");
    for name in QUICK {
        let folder = gallery().join(name);
        let run = scratch.join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.arg("run").arg(folder.join("experiment.yaml"));
        command.args(["--quiet", "--out"]).arg(&run);
        let begun = Instant::now();
        let output = command.output().expect("starting longhaul");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{said}");
        eprintln!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        draw(&folder, &run);
        compare_tables(name, &run, &[]);
    }
    let _ = fs::remove_dir_all(&scratch);
}
