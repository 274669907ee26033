//! The life of programs: how they start, wait, fail, and are ended.

use std::time::Instant;

use serde_json::Value;

use crate::lab::{Lab, have};
use crate::outcome::number;

/// Two hosts and the given programs.
fn with_programs(programs: &str) -> String {
    format!(
        "topology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [ {{ ends: [a, b] }} ] }}\nprograms:\n{programs}"
    )
}

#[test]
fn each_failure_is_named_and_the_rest_goes_on() {
    let lab = Lab::new();
    // name, its fields, exit code, part of what is said of its failure
    let table: [(&str, &str, Value, Option<&str>); 11] = [
        ("fine", "run: 'true'", 0.into(), None),
        ("code", "run: sh -c 'exit 7'", 7.into(), Some("code 7")),
        (
            "killed",
            "run: sh -c 'kill -9 $$'",
            137.into(),
            Some("signal 9"),
        ),
        (
            "missing",
            "run: no-such-program",
            Value::Null,
            Some("no-such-program"),
        ),
        (
            "nowhere",
            "run: 'true', cwd: no/such/folder",
            Value::Null,
            Some("no/such/folder"),
        ),
        (
            "text",
            "run: $DIR/ping.py",
            Value::Null,
            Some("not executable"),
        ),
        (
            "hopeless",
            "run: 'true', after: code",
            Value::Null,
            Some("`code`"),
        ),
        (
            "hopeless2",
            "run: 'true', after: hopeless",
            Value::Null,
            Some("`hopeless`"),
        ),
        (
            "slow",
            "run: sleep 30, timeout: 300 ms",
            143.into(),
            Some("`timeout`"),
        ),
        (
            "mute",
            "run: sh -c 'exec >&- 2>&-; sleep 0.1'",
            0.into(),
            None,
        ),
        (
            "writer",
            "run: sh -c 'echo out; echo err >&2'",
            0.into(),
            None,
        ),
    ];
    let lines = table
        .iter()
        .map(|(name, fields, ..)| format!("  {name}: {{ on: a, {fields} }}\n"));
    let outcome = lab.run(&with_programs(&lines.collect::<String>())).failed();
    for (name, _, exit, failure) in table {
        let program = outcome.program(name);
        assert_eq!(program["exit"], exit, "{name}: {outcome}");
        match (failure, program["failure"].as_str()) {
            (None, None) => {}
            (Some(part), Some(said)) if said.contains(part) => {
                assert!(
                    outcome.stderr.contains(name),
                    "{name} is not named: {}",
                    outcome.stderr
                );
            }
            (_, said) => panic!("{name} failed with {said:?}"),
        }
    }
    assert_eq!(
        (outcome.log("writer.out"), outcome.log("writer.err")),
        ("out\n".into(), "err\n".into())
    );
    assert!(outcome.summary["error"].is_null(), "{outcome}");
}

#[test]
fn programs_wait_for_what_they_are_after() {
    let lab = Lab::new();
    let outcome = lab.succeed(&with_programs(
        "
  first: { on: a, run: sh -c 'sleep 0.3; echo done' }
  second: { on: b, run: 'true', after: first }
  server: { on: b, run: 'python3 -m http.server 80', ready: tcp 80, service: true, after: second }
  client: { on: a, run: 'python3 -c \"import urllib.request as u; print(u.urlopen(\\\"http://b/\\\").status)\"', after: server }
  speaker: { on: a, run: sh -c 'sleep 0.2; echo now I am up; exec sleep 60', ready: log I am (up|there), service: true }
  listener: { on: b, run: 'true', after: speaker }
  timer: { on: a, run: sleep 60, ready: 400 ms, service: true }
  timed: { on: a, run: 'true', after: timer }
  all: { on: b, run: 'true', after: [second, listener, timed] }
",
    ));
    let time = |program: &str, field: &str| outcome.program(program)[field].as_f64().unwrap();
    let started = |program: &str| time(program, "start_s");
    assert!(started("second") >= time("first", "finish_s"));
    assert!(time("first", "finish_s") >= 0.3);
    assert_eq!(outcome.log("client.out").trim(), "200");
    assert!(started("listener") >= started("speaker") + 0.2);
    assert!(started("timed") >= started("timer") + 0.4);
    assert!(started("all") >= started("timed").max(started("listener")));
    for service in ["server", "speaker", "timer"] {
        assert_eq!(outcome.program(service)["failure"], Value::Null);
        assert_eq!(outcome.program(service)["service"], true);
    }
}

#[test]
fn services_are_asked_to_end_and_then_made_to() {
    let lab = Lab::new();
    let begun = Instant::now();
    let outcome = lab.succeed(&with_programs(
        "
  polite: { on: a, run: 'sh -c \"trap \\\"echo bye; exit 0\\\" TERM; echo up; while true; do sleep 0.05; done\"', ready: log up, service: true }
  stubborn: { on: b, run: python3 $DIR/stubborn.py, ready: log ready, service: true }
  work: { on: a, run: 'true', after: [polite, stubborn] }
",
    ));
    assert!(
        begun.elapsed().as_secs() < 10,
        "the end took {:?}",
        begun.elapsed()
    );
    assert_eq!(outcome.log("polite.out"), "up\nbye\n");
    assert_eq!(number(&outcome.program("polite")["exit"]), 0);
    assert_eq!(number(&outcome.program("stubborn")["exit"]), 128 + 9);
}

#[test]
fn a_program_still_running_at_the_end_is_a_failure() {
    let lab = Lab::new();
    let text = with_programs("  endless: { on: a, run: sleep 60 }\n") + "duration: 600 ms\n";
    let outcome = lab.run(&text).failed();
    let endless = outcome.program("endless");
    assert_eq!(endless["ended_by_run"], true);
    assert!(outcome.stderr.contains("endless"), "{}", outcome.stderr);
    let simulated = outcome.summary["simulated_s"].as_f64().unwrap();
    assert!((0.6..5.0).contains(&simulated), "{simulated} s");
}

#[test]
fn a_daemon_is_reported_and_ended_with_the_run() {
    if !have("setsid") {
        return;
    }
    let lab = Lab::new();
    // The daemon clears its environment: only its namespaces give it away.
    let outcome = lab.succeed(&with_programs(
        "
  daemon: { on: a, run: sh -c '(setsid env -i sleep 300 >/dev/null 2>&1 &) ; exit 0' }
  after: { on: b, run: sleep 0.3, after: daemon }
",
    ));
    let warnings = outcome.summary["warnings"].as_array().unwrap();
    let is_warned = |w: &Value| {
        w.as_str()
            .is_some_and(|w| w.contains(" on a ") && w.contains("outlived"))
    };
    assert!(warnings.iter().any(is_warned), "{outcome}");
}

#[test]
fn a_flood_of_output_is_bounded() {
    let lab = Lab::new();
    const LOG_MAX: u64 = 256 << 20;
    let outcome = lab.succeed(&with_programs(
        "
  flood: { on: a, run: sh -c 'timeout 1 yes 0123456789012345678901234567890123456789; exit 0' }
  other: { on: b, run: sh -c 'sleep 0.5; echo fine' }
",
    ));
    let kept = std::fs::metadata(outcome.out().join("logs/flood.out"))
        .unwrap()
        .len();
    let discarded = number(&outcome.program("flood")["log_discarded_bytes"]);
    assert!(kept > 0 && kept <= LOG_MAX, "{kept} bytes kept");
    assert!(
        discarded == 0 || kept == LOG_MAX,
        "{kept} kept, {discarded} discarded"
    );
    assert_eq!(outcome.log("other.out"), "fine\n");
}
