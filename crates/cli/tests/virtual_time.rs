//! Virtual runs and their comparison, through the binary: nothing here needs namespaces.

// The interrupted run is waited for by the clock.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

const EXPERIMENT: &str = "\
name: small
clock: virtual
duration: 30 s
topology:
  nodes: { a: { count: 3 }, b: { count: 3 }, g: { kind: router }, h: { kind: router } }
  links:
    - { ends: [a, g], rate: 100 Mbit/s, delay: 1 ms }
    - { ends: [g, h], rate: 10 Mbit/s, delay: 10 ms, queue: 30 packets }
    - { ends: [h, b], rate: 100 Mbit/s, delay: 1 ms }
traffic:
  bulk: { from: a, to: b, bytes: 500 kB, series: true }
  cross: { from: a0, to: b1, model: udp, rate: 500 kbit/s, gaps: poisson }
events:
  - { at: 1 s, link: g-h, set: { rate: 5 Mbit/s } }
";

/// A folder of its own for each test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("longhaul-virtual-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn out(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Runs `text`, and gives the summary.
    fn run(&self, text: &str, name: &str, more: &[&str]) -> Value {
        let file = self.write("experiment.yaml", text);
        let mut args = vec!["run", &file, "--json", "--quiet", "--out"];
        let out = self.out(name);
        args.push(&out);
        args.extend(more);
        let output = longhaul(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn longhaul(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What the machine and the place of a run say, taken away.
fn timeless(mut summary: Value) -> Value {
    for field in ["wall_s", "cpu_s", "setup_s", "hops_per_s", "machine", "run"] {
        summary[field] = Value::Null;
    }
    summary["cores"][0]["busy"] = Value::Null;
    summary
}

#[test]
fn the_same_file_gives_the_same_run() {
    let scratch = Scratch::new("same");
    let first = scratch.run(EXPERIMENT, "first", &[]);
    let again = scratch.run(EXPERIMENT, "again", &[]);
    assert_eq!(timeless(first.clone()), timeless(again));
    let series = |run: &str, file: &str| {
        let path = Path::new(&scratch.out(run)).join(file);
        std::fs::read_to_string(path).unwrap()
    };
    for file in [
        "flows.csv",
        "series/flows.csv",
        "series/pipes.csv",
        "series/seconds.csv",
    ] {
        assert_eq!(series("first", file), series("again", file), "{file}");
    }
    assert_eq!(first["clock"], "virtual");
    assert_eq!(first["verdict"]["state"], "faithful");
    assert_eq!(first["verdict"]["lateness_ns"], Value::Null);
    let hash = first["trace_hash"].as_str().unwrap();
    assert!(
        hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()),
        "{hash}"
    );
    let packets = &first["packets"];
    let count = |value: &Value| value.as_u64().unwrap();
    let dropped = packets["dropped"].as_object().unwrap().values().map(count);
    let out = count(&packets["delivered"]) + dropped.sum::<u64>() + count(&packets["inside"]);
    assert_eq!(count(&packets["entered"]) + count(&packets["created"]), out);
    assert_eq!(first["flows"].as_array().unwrap().len(), 4);
    assert_eq!(first["flow_groups"][0]["finished"], 3);
    assert_eq!(first["events"][0]["at_s"], 1.0);
}

#[test]
fn the_order_of_entries_changes_nothing() {
    let scratch = Scratch::new("order");
    let entry = |name: &str| {
        let mut lines = EXPERIMENT.lines();
        lines
            .find(|line| line.trim_start().starts_with(name))
            .unwrap()
    };
    let (bulk, cross) = (entry("bulk:"), entry("cross:"));
    let turned = EXPERIMENT.replace(&format!("{bulk}\n{cross}"), &format!("{cross}\n{bulk}"));
    let turned = turned.replace(
        "a: { count: 3 }, b: { count: 3 }",
        "b: { count: 3 }, a: { count: 3 }",
    );
    assert_ne!(turned, EXPERIMENT);
    let first = timeless(scratch.run(EXPERIMENT, "first", &[]));
    assert_eq!(first, timeless(scratch.run(&turned, "turned", &[])));
}

#[test]
fn compare_tells_runs_apart() {
    let scratch = Scratch::new("compare");
    scratch.run(EXPERIMENT, "first", &[]);
    scratch.run(EXPERIMENT, "again", &[]);
    scratch.run(EXPERIMENT, "other", &["--set", "links.g-h.delay=30 ms"]);
    let [first, again, other] = ["first", "again", "other"].map(|name| scratch.out(name));
    let same = longhaul(&["compare", &first, &again]);
    let text = String::from_utf8(same.stdout.clone()).unwrap();
    assert_eq!(same.status.code(), Some(0), "{text}");
    assert!(
        text.contains("the runs agree") && text.contains("the same"),
        "{text}"
    );
    let differ = longhaul(&["compare", &first, &other, "--json"]);
    assert_eq!(differ.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&differ.stdout).unwrap();
    assert_eq!(found["agree"], false);
    assert_eq!(found["same_trace"], false);
    assert!(found["worst"][1].as_f64().unwrap() > 0.01, "{found}");
    assert_eq!(
        longhaul(&["compare", &first, &other, "--tolerance", "1000 %"])
            .status
            .code(),
        Some(0)
    );
    for wrong in [["compare", &first, "/nowhere"], ["compare", "/dev", &first]] {
        let output = longhaul(&wrong);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("summary.json"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn check_shows_what_a_virtual_run_would_take() {
    let scratch = Scratch::new("check");
    let file = scratch.write("experiment.yaml", EXPERIMENT);
    let output = longhaul(&["check", &file]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    for part in [
        "virtual time",
        "4 modelled flows",
        "3 pairs",
        "packets of 192 bytes",
        "for each that is under way",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = longhaul(&["check", &file, "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["clock"].as_str(), json["flows"].as_u64()),
        (Some("virtual"), Some(4))
    );
    assert_eq!(json["traffic"][1]["bounded"], false);
}

/// A run without end that has begun.
struct UnderWay {
    child: std::process::Child,
    out: String,
}

impl UnderWay {
    fn start(scratch: &Scratch, more: &[&str]) -> Self {
        let text = EXPERIMENT
            .replace("30 s", "800000 h")
            .replace("bytes: 500 kB, ", "");
        let file = scratch.write("experiment.yaml", &text);
        let out = scratch.out("run");
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["run", &file, "--json", "--quiet", "--out", &out]);
        let child = command
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun when its folder has a series.
        let begun = Path::new(&out).join("series/pipes.csv");
        let patience = std::time::Instant::now();
        while !begun.exists() && patience.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        Self { child, out }
    }

    fn end(self, signal: &str) -> Output {
        let kill = format!("kill -{signal} {}", self.child.id());
        let killed = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(killed.success());
        self.child.wait_with_output().unwrap()
    }
}

#[test]
fn a_run_under_way_tells_the_load_of_its_cores() {
    let scratch = Scratch::new("top");
    let file = scratch.write("experiment.yaml", EXPERIMENT);
    let saved = scratch.out("saved.json");
    let args = [
        "partition",
        &file,
        "--cores",
        "2",
        "--method",
        "metis",
        "--save",
        &saved,
    ];
    assert_eq!(longhaul(&args).status.code(), Some(0));
    let run = UnderWay::start(&scratch, &["--partition", &saved]);
    let top = longhaul(&["top", "--run", &run.out, "--once", "--json", "--pipes", "2"]);
    assert_eq!(top.status.code(), Some(0), "{}", stderr(&top));
    let top: Value = serde_json::from_slice(&top.stdout).unwrap();
    let now = &top["simulation"];
    assert_eq!(now["cores"].as_array().unwrap().len(), 2);
    let load = |of: &str| now["partition"][of]["efficiency"].as_f64().unwrap();
    assert!((load("measured") - load("predicted")).abs() < 0.2, "{now}");
    assert!(now["partition"]["crossing_packets"].as_u64().unwrap() > 1000);
    assert_eq!(top["pipes"].as_array().unwrap().len(), 2);
    let page = longhaul(&["top", "--run", &run.out, "--once"]);
    let page = String::from_utf8(page.stdout).unwrap();
    for part in ["crossed between cores", "(predicted ", "CROSSING", "g>h"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let hosts = longhaul(&["hosts", "--run", &run.out, "--json"]);
    let hosts: Value = serde_json::from_slice(&hosts.stdout).unwrap();
    let host = &hosts["hosts"][0];
    assert!(
        host["ipv4"] == "10.0.0.1" && host["load"].is_null(),
        "{host}"
    );
    let set = longhaul(&["set", "--run", &run.out, "g-h", "delay=1 ms"]);
    assert!(stderr(&set).contains("virtual time"), "{}", stderr(&set));
    let socket = Path::new(&run.out).join("control.sock");
    let out = run.out.clone();
    run.end("KILL");
    assert!(!socket.exists(), "nothing is left of a run that was killed");
    assert_eq!(longhaul(&["top", "--run", &out]).status.code(), Some(2));
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let scratch = Scratch::new("interrupted");
    let run = UnderWay::start(&scratch, &[]);
    let out = run.out.clone();
    let output = run.end("INT");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        summary["error"].as_str().unwrap().contains("interrupted"),
        "{}",
        summary["error"]
    );
    assert!(summary["packets"]["delivered"].as_u64().unwrap() > 1000);
    assert!(Path::new(&out).join("report.html").exists());
}
