//! The page in a real browser, which `ui/tests/run.mjs` drives, and the commands that make pages.

use std::fs;
use std::path::Path;
use std::process::Command;

#[path = "common/scratch.rs"]
#[allow(dead_code)]
mod scratch;
#[path = "../../../tests/skip.rs"]
mod skip;

use scratch::{Scratch, text};

const EXPERIMENT: &str = "\
name: pair
clock: virtual
duration: 2 s
topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], rate: 10 Mbit/s, delay: 1 ms, loss: 1 % }] }
traffic: { bulk: { from: a, to: b, bytes: 500 kB } }
measure: { every: 1 ms }
";

impl Scratch {
    /// Runs the experiment into a folder, changed by `set`.
    fn run(&self, out: &str, set: &str) {
        let file = self.write("pair.yaml", EXPERIMENT);
        let output = self.longhaul(&["run", &file, "--out", out, "-q", "--set", set]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn pages_hold_in_a_browser() {
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui");
    let node = Command::new("node").arg("--version").output();
    if !node.is_ok_and(|node| node.status.success()) {
        return skip::skip("install nodejs (20.19 or later)");
    }
    if !ui.join("node_modules/playwright-core").is_dir() {
        return skip::skip("run `npm ci` in ui/");
    }
    let output = Command::new("node")
        .arg(ui.join("tests/run.mjs"))
        .env("LONGHAUL", env!("CARGO_BIN_EXE_longhaul"))
        .current_dir(&ui)
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(77) => skip::skip(said.trim().trim_start_matches("skipped: ")),
        _ => panic!("{said}"),
    }
}

#[test]
fn a_page_is_made_of_a_run_without_a_summary() {
    let scratch = Scratch::new("cut");
    scratch.run("whole", "seed=1");
    fs::remove_file(scratch.0.join("whole/summary.json")).unwrap();
    let output = scratch.longhaul(&[
        "report",
        "whole",
        "--html",
        "page.html",
        "--window",
        "0.5 s..0.6 s",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "page.html\n");
    let page = fs::read_to_string(scratch.0.join("page.html")).unwrap();
    assert!(page.contains("<title>pair: cut off</title>"));
    for (window, why) in [
        ("2 s", "write it like"),
        ("2 s..1 s", "ends before it begins"),
        ("x..y", "write it like"),
    ] {
        let output =
            scratch.longhaul(&["report", "whole", "--html", "page.html", "--window", window]);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(why),
            "{said}"
        );
    }
    let output = scratch.longhaul(&["report", "whole", "--window", "1 s..2 s"]);
    assert_eq!(output.status.code(), Some(2));
    let output = scratch.longhaul(&["report", "nowhere", "--html", "page.html"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = scratch.longhaul(&["report", "whole", "--html", "no/such/folder.html"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn several_runs_are_held_to_the_noise_of_repeats() {
    let scratch = Scratch::new("several");
    for seed in ["1", "2", "3"] {
        scratch.run(&format!("a{seed}"), &format!("seed={seed}"));
        scratch.run(&format!("b{seed}"), &format!("seed={seed}"));
    }
    scratch.run("slow", "links.a-b.rate=5 Mbit/s");
    // The same runs twice over: nothing differs by more than what repeats do.
    let output = scratch.longhaul(&["compare", "a1", "a2", "a3", "b1", "b2", "b3"]);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("repeats of one experiment"),
        "{said}"
    );
    let output = scratch.longhaul(&[
        "compare", "a1", "a2", "a3", "slow", "--html", "all.html", "--json",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = found["figures"].as_array().unwrap();
    let completion = figures
        .iter()
        .find(|figure| figure["name"] == "bulk" && figure["what"] == "completion")
        .unwrap();
    assert_eq!(
        completion["beyond_noise"],
        serde_json::json!([null, true]),
        "{completion}"
    );
    let page = fs::read_to_string(scratch.0.join("all.html")).unwrap();
    assert!(page.contains("compared</title>"));
    // Two different ones, of which nobody knows the noise.
    let output = scratch.longhaul(&["compare", "a1", "slow", "slow", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["groups"][1]["name"], "pair (links.a-b.rate=5 Mbit/s)");
    let many: Vec<&str> = ["compare"].into_iter().chain(["a1"; 17]).collect();
    let output = scratch.longhaul(&many);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("too many"));
}
