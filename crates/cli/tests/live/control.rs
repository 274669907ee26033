//! Changing and joining a run that is under way: `set`, `exec`, `list`.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::lab::{Lab, Run};
use crate::outcome::{ROUND_TRIP_LATE_NS, number};

const PAIR: &str = "
name: pair
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 1 ms, rate: 1 Gbit/s } ]
programs:
  echo: { on: b, run: $BENCH echo --port 7, ready: log ready, service: true }
  hold:
    on: a
    run: sh -c 'echo up; until [ -e done ]; do sleep 0.02; done'
    after: echo
";

/// A run of two hosts that lasts until [`end`].
fn begin(lab: &Lab) -> Run<'_> {
    let mut run = lab.start(PAIR);
    run.wait_for("hold.out", "up");
    run
}

fn end(run: Run<'_>) {
    std::fs::write(run.out().join("hosts/a/done"), "").expect("ending the run");
    run.wait().succeeded();
}

/// Runs a command on host `a` of `run` and returns its code and output.
fn exec(lab: &Lab, run: &Run<'_>, command: &[&str]) -> (i32, String) {
    let folder = run.out().to_str().unwrap();
    let head = ["exec", "--run", folder, "a", "--"];
    let (code, stdout, stderr) = lab.ask(&[&head, command].concat());
    assert_eq!(stderr, "", "exec of {command:?}");
    (code, stdout)
}

/// `longhaul set`: its exit code and everything it says.
fn set(lab: &Lab, run: &Run<'_>, arguments: &[&str]) -> (i32, String) {
    let folder = run.out().to_str().unwrap();
    let (code, stdout, stderr) = lab.ask(&[&["set", "--run", folder], arguments].concat());
    (code, stdout + &stderr)
}

/// Ten round trips: how many were answered, and the quickest in nanoseconds.
fn round_trips(lab: &Lab, run: &Run<'_>) -> (u64, Option<u64>) {
    let bench = lab.dir().join("bench");
    let arguments = "rtt --to b:7 --count 10 --interval 1000 --timeout 0.3";
    let mut command = vec![bench.to_str().unwrap()];
    command.extend(arguments.split(' '));
    let (code, stdout) = exec(lab, run, &command);
    assert_eq!(code, 0, "{stdout}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("a report");
    (
        number(&report["received"]),
        report["rtt_ns"]["min"].as_u64(),
    )
}

/// The quickest of several round trips takes the delay of the links, and wake-ups.
fn assert_trip(quickest: Option<u64>, delay_ns: u64) {
    let quickest = quickest.expect("an answer");
    let possible = delay_ns..delay_ns + ROUND_TRIP_LATE_NS;
    assert!(possible.contains(&quickest), "{quickest} ns of {delay_ns}");
}

#[test]
fn a_link_is_changed_while_it_carries_traffic() {
    let lab = Lab::new();
    let run = begin(&lab);
    let (_, before) = round_trips(&lab, &run);
    assert_trip(before, 2_000_000);

    let (code, said) = set(&lab, &run, &["a-b", "delay=50 ms"]);
    assert!(
        code == 0 && said.contains("a>b") && said.contains("b>a"),
        "{code}: {said}"
    );
    let (_, slow) = round_trips(&lab, &run);
    assert_trip(slow, 100_000_000);

    // One direction only: 1 Mbit/s takes 0.88 ms for the 64 bytes of payload and 46 around them.
    assert_eq!(set(&lab, &run, &["a-b", "delay=1 ms"]).0, 0);
    assert_eq!(set(&lab, &run, &["a>b", "rate=1 Mbit/s"]).0, 0);
    let (_, narrow) = round_trips(&lab, &run);
    assert_trip(narrow, 2_880_000);

    assert_eq!(set(&lab, &run, &["b>a", "loss=100 %"]).0, 0);
    assert_eq!(round_trips(&lab, &run).0, 0);
    assert_eq!(set(&lab, &run, &["b>a", "loss=0 %", "rate=unlimited"]).0, 0);
    assert!(round_trips(&lab, &run).0 >= 9, "answers come again");
    end(run);
}

/// Links, pipes, routers and a host of a run under way, by sets.
#[test]
fn sets_name_links_routers_and_a_host_of_a_run() {
    let lab = Lab::new();
    let labelled = "
name: sets
topology:
  nodes: { a: { labels: { role: client } }, b: { count: 2 }, r: { kind: router } }
  links: [ { ends: [a, r] }, { ends: [b, r], labels: { kind: far }, delay: 1 ms } ]
programs:
  hold:
    on: a
    run: sh -c 'echo up; until [ -e done ]; do sleep 0.02; done'
";
    let mut run = lab.start(labelled);
    run.wait_for("hold.out", "up");
    for (arguments, changed) in [
        (["b?-r", "delay=2 ms"], "b0>r, b1>r, r>b0, r>b1 changed"),
        (["r>*", "loss=1 %"], "r>a, r>b0, r>b1 changed"),
        (["kind=far", "delay=3 ms"], "b0>r, b1>r, r>b0, r>b1 changed"),
        (
            ["all", "delay=4 ms"],
            "a>r, b0>r, b1>r, r>a, r>b0, r>b1 changed",
        ),
        (["kind=far", "down"], "b0>r, b1>r, r>b0, r>b1 down"),
        (["kind=f*", "up"], "b0>r, b1>r, r>b0, r>b1 up"),
        (["?", "down"], "a>r, b0>r, b1>r, r>a, r>b0, r>b1 down"),
        (["r", "up"], "a>r, b0>r, b1>r, r>a, r>b0, r>b1 up"),
    ] {
        let (code, said) = set(&lab, &run, &arguments);
        assert!(
            code == 0 && said.starts_with(changed),
            "{arguments:?}: {code}: {said}"
        );
    }
    let folder = run.out().to_str().unwrap().to_owned();
    let (code, state, _) = lab.ask(&["get", "--run", &folder, "b*", "--json"]);
    let state: serde_json::Value = serde_json::from_str(&state).expect("pipes");
    let delays: Vec<u64> = state["pipes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| number(&p["delay_ns"]))
        .collect();
    assert_eq!((code, delays), (0, vec![4_000_000; 4]));
    let (code, said) = set(&lab, &run, &["x*", "delay=1 ms"]);
    assert!(
        code == 2
            && said
                .contains("no link has a name that matches `x*`; the 3 links are a-r, b0-r, b1-r"),
        "{said}"
    );
    let host = |name: &str| lab.ask(&["exec", "--run", &folder, name, "--", "hostname"]);
    assert_eq!(host("role=client"), (0, "a\n".to_owned(), String::new()));
    let (code, _, said) = host("b*");
    assert!(
        code == 2 && said.contains("`b*` stands for 2 hosts, but exactly one host is needed"),
        "{said}"
    );
    end(run);
}

#[test]
fn wrong_changes_are_refused_and_change_nothing() {
    let lab = Lab::new();
    let run = begin(&lab);
    let table: [(&[&str], &str); 6] = [
        (&["a-b", "colour=red"], "colour"),
        (&["a-b", "delay=5"], "5 ms"),
        (&["a-b", "delay=50 ms", "loss=200 %"], "loss"),
        (&["a-c", "delay=5 ms"], "a-c"),
        (&["a-b", "delay"], "delay"),
        (&["a-b"], "KEY=VALUE"),
    ];
    for (arguments, part) in table {
        let (code, said) = set(&lab, &run, arguments);
        assert!(
            code == 2 && said.contains(part),
            "set {arguments:?}: {code}: {said}"
        );
    }
    let (_, fast) = round_trips(&lab, &run);
    // Nothing has changed.
    assert_trip(fast, 2_000_000);
    end(run);
}

#[test]
fn a_program_joins_a_run_as_if_it_were_local() {
    let lab = Lab::new();
    let run = begin(&lab);
    let folder = run.out().to_str().unwrap().to_owned();
    assert_eq!(exec(&lab, &run, &["hostname"]), (0, "a\n".to_owned()));
    assert_eq!(exec(&lab, &run, &["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(exec(&lab, &run, &["sh", "-c", "kill -9 $$"]).0, 137);
    let wrong: [(&[&str], i32, &str); 4] = [
        (&["--run", &folder, "z", "--", "true"], 2, "`z`"),
        (
            &["--run", &folder, "a", "--", "no-such-program"],
            2,
            "no-such-program",
        ),
        (
            &["--run", "no-such-run", "a", "--", "true"],
            2,
            "no-such-run",
        ),
        (&["--run", &folder, "a"], 2, "CMD"),
    ];
    for (arguments, expected, part) in wrong {
        let (code, _, stderr) = lab.ask(&[&["exec"], arguments].concat());
        assert!(
            code == expected && stderr.contains(part),
            "{arguments:?}: {code}: {stderr}"
        );
    }

    let mut filter = lab.longhaul(&["exec", "--run", &folder, "a", "--", "tr", "a-z", "A-Z"]);
    let mut filter = filter
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starting longhaul");
    filter
        .stdin
        .take()
        .unwrap()
        .write_all(b"over the long haul\n")
        .unwrap();
    let output = filter.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"OVER THE LONG HAUL\n");
    assert!(output.status.success());
    end(run);
}

#[test]
fn a_joined_program_ends_with_its_caller_and_with_the_run() {
    let lab = Lab::new();
    let run = begin(&lab);
    let folder = run.out().to_str().unwrap().to_owned();
    let join = |count: usize| {
        let mut joined = lab.longhaul(&[
            "exec",
            "--run",
            &folder,
            "b",
            "--",
            "tail",
            "-f",
            "/dev/null",
        ]);
        let joined = joined
            .stderr(Stdio::null())
            .spawn()
            .expect("starting longhaul");
        wait_for_tails(&run, count);
        joined
    };
    let (mut killed, mut left) = (join(1), join(2));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for_tails(&run, 1);
    end(run);
    assert!(!left.wait().unwrap().success(), "its program was ended");
}

fn wait_for_tails(run: &Run<'_>, count: usize) {
    let begun = Instant::now();
    let running = || {
        run.processes()
            .iter()
            .filter(|process| process.name == "tail")
            .count()
    };
    while running() != count {
        assert!(
            begun.elapsed().as_secs() < 5,
            "{} instead of {count}",
            running()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn runs_under_way_are_listed() {
    let lab = Lab::new();
    let run = begin(&lab);
    let folder = run.out().to_str().unwrap().to_owned();
    let (code, table, _) = lab.ask(&["list"]);
    assert!(
        code == 0 && table.contains("pair") && table.contains(&folder),
        "{table}"
    );
    let (code, json, _) = lab.ask(&["list", "--json"]);
    let runs: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let ours = runs
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run["run"] == folder.as_str());
    let ours = ours.unwrap_or_else(|| panic!("our run is missing: {json}"));
    assert_eq!((code, &ours["experiment"]), (0, &"pair".into()));
    assert_eq!(ours["hosts"], serde_json::json!(["a", "b"]));

    // Its folder is taken as long as it runs.
    let file = lab.write("again.yaml", PAIR);
    let (code, _, said) = lab.ask(&["run", file.to_str().unwrap(), "--out", &folder, "--force"]);
    assert!(
        matches!(code, 1 | 2) && said.contains("under way"),
        "{code}: {said}"
    );
    end(run);
}
