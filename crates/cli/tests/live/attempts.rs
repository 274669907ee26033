//! `run --attempts`: what is repeated, what is not, and what is left of it.

use std::fs;

use serde_json::Value;

use crate::lab::{Lab, Run};
use crate::outcome::number;

/// A flow of 500 datagrams over a link of 2 ms.
const FLOW: &str = "
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 2 ms } ]
programs:
  recv: { on: b, run: $BENCH udp-recv --port 5000 --idle 0.3 --expect 500, ready: log ready }
  send: { on: a, run: '$BENCH udp-send --to b:5000 --size 100 --rate 500 --count 500', after: recv }
";

/// The outcome: the exit code, the summary in the run folder, and the folders of attempts there.
struct Finished {
    code: i32,
    summary: Value,
    attempts: Vec<String>,
}

/// Runs an experiment on a machine that stalls as the fault says.
fn run(lab: &Lab, text: &str, fault: &str, more: &[&str]) -> Finished {
    let file = lab.write("attempts.yaml", text);
    let out = lab.dir().join("attempts");
    let [file, folder] = [&file, &out].map(|path| path.to_str().unwrap());
    let mut command = lab.longhaul(&["run", file, "--out", folder, "--json"]);
    command.args(more).env("LONGHAUL_FAULT", fault);
    let run = Run::spawn(lab, command, out.clone(), 0);
    let (code, stdout) = run.wait_for_code();
    let text = fs::read_to_string(out.join("summary.json")).expect("a summary");
    let summary = serde_json::from_str(&text).expect("JSON");
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), summary);
    let names = fs::read_dir(&out).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut attempts: Vec<_> = names.filter(|name| name.starts_with("attempt-")).collect();
    attempts.sort();
    for attempt in &attempts {
        for file in ["summary.json", "report.html", "series/seconds.csv"] {
            assert!(out.join(attempt).join(file).exists(), "{attempt}/{file}");
        }
    }
    Finished {
        code,
        summary,
        attempts,
    }
}

#[test]
fn a_run_that_stalled_is_repeated_until_it_is_good_enough() {
    let lab = Lab::new();
    let stalls = "stall:5ms/100ms";
    let finished = run(&lab, FLOW, stalls, &["--attempts", "3"]);
    assert_eq!(finished.code, 3, "{:#}", finished.summary["verdict"]);
    assert_eq!(finished.attempts, ["attempt-1", "attempt-2", "attempt-3"]);
    let attempts = finished.summary["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3);
    for attempt in attempts {
        assert_ne!(attempt["state"], "faithful", "{attempt}");
        assert!(number(&attempt["stalls"]["count"]) > 5, "{attempt}");
    }
    // The best one's summary is the run's.
    let shares = attempts
        .iter()
        .map(|it| (it["state"].clone(), &it["late_share"]));
    let best = shares.map(|(state, share)| (state != "degraded", share.as_f64().unwrap()));
    let best = best.min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap();
    assert_eq!(finished.summary["verdict"]["late_share"], best.1);
    assert!(finished.summary["verdict"]["by_cause"]["stall"].as_u64() > Some(0));

    // The folder is a run's: refused without --force, overwritten with it.
    let finished = run(
        &lab,
        FLOW,
        "",
        &["--attempts", "5", "--accept", "degraded", "--force"],
    );
    // Only what was worse than accepted is repeated.
    let attempts = finished.summary["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), finished.attempts.len());
    let (last, earlier) = attempts.split_last().unwrap();
    let is_broken = |attempt: &Value| attempt["state"] == "broken";
    assert!(earlier.iter().all(is_broken), "{attempts:?}");
    assert_eq!(
        finished.code,
        if is_broken(last) { 3 } else { 0 },
        "{attempts:?}"
    );
}

#[test]
fn a_run_that_fails_is_not_repeated() {
    let lab = Lab::new();
    let failing = "
topology: { nodes: { a: {} } }
programs: { work: { on: a, run: sh -c 'sleep 0.3; exit 7' } }
";
    let finished = run(&lab, failing, "stall:5ms/100ms", &["--attempts", "3"]);
    assert_eq!((finished.code, finished.attempts.len()), (1, 1));
}
