//! Virtual runs and their comparison, through the binary: nothing here needs namespaces.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[path = "common/scratch.rs"]
mod scratch;
use scratch::{SMALL, Scratch, UnderWay, kill, text, wait_for};

impl Scratch {
    /// Runs an experiment, and gives the summary.
    fn run(&self, experiment: &str, name: &str, more: &[&str]) -> Value {
        let file = self.write("experiment.yaml", experiment);
        let out = self.path(name);
        let args = ["run", &file, "--json", "--quiet", "--out", &out];
        let output = self.longhaul(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
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
    let first = scratch.run(SMALL, "first", &[]);
    let again = scratch.run(SMALL, "again", &[]);
    assert_eq!(timeless(first.clone()), timeless(again));
    let series = |run: &str, file: &str| {
        let path = Path::new(&scratch.path(run)).join(file);
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
        let mut lines = SMALL.lines();
        lines
            .find(|line| line.trim_start().starts_with(name))
            .unwrap()
    };
    let (bulk, cross) = (entry("bulk:"), entry("cross:"));
    let turned = SMALL.replace(&format!("{bulk}\n{cross}"), &format!("{cross}\n{bulk}"));
    let turned = turned.replace(
        "a: { count: 3 }, b: { count: 3 }",
        "b: { count: 3 }, a: { count: 3 }",
    );
    assert_ne!(turned, SMALL);
    let first = timeless(scratch.run(SMALL, "first", &[]));
    assert_eq!(first, timeless(scratch.run(&turned, "turned", &[])));
}

#[test]
fn compare_finds_differences_of_runs() {
    let scratch = Scratch::new("compare");
    scratch.run(SMALL, "first", &[]);
    scratch.run(SMALL, "again", &[]);
    scratch.run(SMALL, "other", &["--set", "links.g-h.delay=30 ms"]);
    let [first, again, other] = ["first", "again", "other"].map(|name| scratch.path(name));
    let same = scratch.longhaul(&["compare", &first, &again]);
    let text = text(&same.stdout);
    assert_eq!(same.status.code(), Some(0), "{text}");
    assert!(
        text.contains("the runs agree")
            && text
                .lines()
                .any(|line| line.contains("trace hash") && line.ends_with("same")),
        "{text}"
    );
    let differ = scratch.longhaul(&["compare", &first, &other, "--json"]);
    assert_eq!(differ.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&differ.stdout).unwrap();
    assert_eq!(found["agree"], false);
    assert_eq!(found["same_trace"], false);
    assert!(found["worst"][1].as_f64().unwrap() > 0.01, "{found}");
    assert_eq!(
        scratch
            .longhaul(&["compare", &first, &other, "--tolerance", "1000 %"])
            .status
            .code(),
        Some(0)
    );
    for wrong in [["compare", &first, "/nowhere"], ["compare", "/dev", &first]] {
        let output = scratch.longhaul(&wrong);
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
    let file = scratch.write("experiment.yaml", SMALL);
    let output = scratch.longhaul(&["check", &file]);
    let text = text(&output.stdout);
    for part in [
        "virtual time",
        "4 modelled flows",
        "3 pairs",
        "packets of 192 bytes",
        "for each active flow",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = scratch.longhaul(&["check", &file, "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["clock"].as_str(), json["flows"].as_u64()),
        (Some("virtual"), Some(4))
    );
    assert_eq!(json["traffic"][1]["bounded"], false);
}

#[test]
fn a_run_under_way_reports_the_load_of_its_cores() {
    let scratch = Scratch::new("top");
    let file = scratch.write("experiment.yaml", SMALL);
    let saved = scratch.path("saved.json");
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
    assert_eq!(scratch.longhaul(&args).status.code(), Some(0));
    let run = scratch.start("run", &["--partition", &saved]);
    let out = scratch.path("run");
    let top = scratch.longhaul(&["top", "--run", &out, "--once", "--json", "--pipes", "2"]);
    assert_eq!(top.status.code(), Some(0), "{}", stderr(&top));
    let top: Value = serde_json::from_slice(&top.stdout).unwrap();
    let now = &top["simulation"];
    assert_eq!(now["cores"].as_array().unwrap().len(), 2);
    let load = |of: &str| now["partition"][of]["efficiency"].as_f64().unwrap();
    assert!((load("measured") - load("predicted")).abs() < 0.2, "{now}");
    assert!(now["partition"]["crossing_packets"].as_u64().unwrap() > 1000);
    assert_eq!(top["pipes"].as_array().unwrap().len(), 2);
    let page = scratch.longhaul(&["top", "--run", &out, "--once"]);
    let page = text(&page.stdout);
    for part in [
        "between cores; efficiency",
        "(predicted ",
        "CROSSING",
        "g>h",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let hosts = scratch.longhaul(&["hosts", "--run", &out, "--json"]);
    let hosts: Value = serde_json::from_slice(&hosts.stdout).unwrap();
    let host = &hosts["hosts"][0];
    assert!(
        host["ipv4"] == "10.0.0.1" && host["load"].is_null(),
        "{host}"
    );
    let set = scratch.longhaul(&["set", "--run", &out, "g-h", "delay=1 ms"]);
    assert!(stderr(&set).contains("virtual time"), "{}", stderr(&set));
    let socket = Path::new(&out).join("control.sock");
    run.end("KILL");
    assert!(!socket.exists(), "nothing is left of a run that was killed");
    assert_eq!(
        scratch.longhaul(&["top", "--run", &out]).status.code(),
        Some(2)
    );
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let scratch = Scratch::new("interrupted");
    let run = scratch.start("run", &[]);
    let out = scratch.path("run");
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

/// A terminal that closes sends SIGHUP; nohup(1) ignores it.
#[test]
fn a_closed_terminal_ends_a_run_but_not_under_nohup() {
    for (starter, ended_by) in [("env", 1), ("nohup", 15)] {
        let scratch = Scratch::new(starter);
        let text = SMALL
            .replace("30 s", "800000 h")
            .replace("bytes: 500 kB, ", "");
        let file = scratch.write("endless.yaml", &text);
        let run = Command::new(starter)
            .arg(env!("CARGO_BIN_EXE_longhaul"))
            .args(["run", &file, "--quiet", "--out", "run"])
            .current_dir(&scratch.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (pid, run) = (run.id(), UnderWay::of(run));
        let out = scratch.path("run");
        wait_for("the run to answer", || {
            let top = scratch.longhaul(&["top", "--run", &out, "--once", "--json"]);
            top.status.success().then_some(())
        });
        if ended_by == 1 {
            run.end("HUP");
        } else {
            kill("HUP", pid);
            run.end("TERM");
        }
        let summary = std::fs::read(scratch.0.join("run/summary.json")).unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        let error = summary["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("signal {ended_by}")),
            "{starter}: {error}"
        );
    }
}
