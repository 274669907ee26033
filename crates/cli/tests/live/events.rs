//! Events of the file, and links that change by hand, as programs see them.

use serde_json::Value;

use crate::lab::{Lab, have};
use crate::outcome::{Outcome, ROUND_TRIP_LATE_NS, number};

/// The round trips of a probe, in nanoseconds.
fn rtt(outcome: &Outcome, program: &str, field: &str) -> u64 {
    let report: Value = outcome.report(program);
    number(&report["rtt_ns"][field])
}

/// Two ways from a to b: a short one, and a detour that is taken while the short one is down.
const TWO_WAYS: &str = "
topology:
  nodes: { a: {}, b: {}, r: { kind: router }, s: { kind: router }, t: { kind: router } }
  links:
    - { ends: [a, r], delay: 100 us }
    - { ends: [r, s], delay: 1 ms }
    - { ends: [r, t], delay: 20 ms }
    - { ends: [t, s], delay: 20 ms }
    - { ends: [s, b], delay: 100 us }
events:
  - { at: 1500 ms, EVENT }
routing: { convergence: 500 ms }
programs:
  echo: { on: b, run: $BENCH echo --port 7, ready: log ready, service: true }
  probe: { on: a, run: $BENCH rtt --to b:7 --count 400 --interval 10000 --timeout 0.3, after: echo }
";

/// A failure of 1.5 s: half a second of silence, then a second of detour, then as before.
fn check_failure(event: &str, text: &str) {
    let lab = Lab::new();
    let outcome = lab.succeed(&TWO_WAYS.replace("EVENT", event));
    let report = outcome.report("probe");
    let (sent, received) = (number(&report["sent"]), number(&report["received"]));
    let lost = sent - received;
    let down = outcome.dropped_by("link_down");
    // Nothing is lost but what meets the failure: on its way there, or entering it.
    assert!(down > 0, "{report}");
    if outcome.physical_drops() == 0 {
        assert_eq!(lost, down, "{report}");
    }
    assert!(received > sent / 4, "answers come again: {report}");
    // By the short way, which most probes take, 2.4 ms; by the detour 80.4 ms.
    let short = 2_400_000..2_400_000 + ROUND_TRIP_LATE_NS;
    for quantile in ["min", "p50"] {
        let trip = rtt(&outcome, "probe", quantile);
        assert!(short.contains(&trip), "{quantile}: {trip} ns");
    }
    let most = rtt(&outcome, "probe", "max");
    assert!(most >= 80_400_000, "{most} ns");
    let events = &outcome.summary["events"];
    assert_eq!(events[0]["event"], text, "{events}");
    assert_eq!(events[0]["at_s"], 1.5);
    let pipes = outcome.summary["pipes"].as_array().expect("pipes");
    let on = |name: &str| {
        let pipe = pipes.iter().find(|pipe| pipe["name"] == name);
        number(&pipe.expect("the pipe")["packets"])
    };
    assert!(on("r>t") > 0 && on("r>s") > 0, "both ways were taken");
}

#[test]
fn a_link_that_fails_is_gone_around_after_convergence() {
    check_failure("link: r-s, down: 1500 ms", "r-s: down for 1500 ms");
}

#[test]
fn a_ramp_is_seen_by_those_on_the_way() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 1 ms } ]
events:
  - { at: 300 ms, link: a>b, ramp: { delay: 101 ms }, over: 3 s }
  - { at: 3500 ms, link: b>a, set: { loss: 100 % } }
  - { at: 3800 ms, link: b>a, set: { loss: 0 % } }
programs:
  echo: { on: b, run: $BENCH echo --port 7, ready: log ready, service: true }
  probe: { on: a, run: $BENCH rtt --to b:7 --count 140 --interval 10000 --timeout 0.5, after: echo }
",
    );
    let least = rtt(&outcome, "probe", "min");
    let most = rtt(&outcome, "probe", "max");
    let first = 2_000_000..2_000_000 + ROUND_TRIP_LATE_NS;
    assert!(first.contains(&least), "{least} ns");
    assert!(most >= 102_000_000, "{most} ns");
    // One at a time and every 10 ms at most, about a hundred of the 140 meet the ramp.
    let middle = rtt(&outcome, "probe", "p50");
    assert!((3_000_000..100_000_000).contains(&middle), "{middle} ns");
    assert!(outcome.dropped_by("loss") > 0, "three round trips of loss");
    let events: Vec<&str> = outcome.summary["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert_eq!(
        events,
        [
            "a>b: delay 101 ms over 3 s",
            "b>a: loss 100 %",
            "b>a: loss 0 %"
        ]
    );
}

/// A router fails with all its links, and whoever is behind it waits until it is back.
#[test]
fn a_router_that_fails_loses_what_meets_it_and_comes_back() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {}, r: { kind: router }, s: { kind: router } }
  links:
    - { ends: [a, r], delay: 1 ms }
    - { ends: [r, s], delay: 5 ms }
    - { ends: [s, b], delay: 1 ms }
routing: { convergence: 10 s }
events:
  - { at: 1500 ms, router: s, down: 600 ms }
programs:
  recv: { on: b, run: $BENCH udp-recv --port 9 --idle 1.5 --deadline 25, ready: log ready }
  wait: { on: a, run: sleep 0.2, after: recv }
  send: { on: a, run: $BENCH udp-send --to 10.0.0.2:9 --size 200 --rate 500 --seconds 3, after: wait }
",
    );
    let (sent, got) = (outcome.report("send"), outcome.report("recv"));
    let (sent, received) = (number(&sent["sent"]), number(&got["received"]));
    outcome.assert_arrived(sent, received);
    let down = outcome.dropped_by("link_down");
    assert_eq!(outcome.dropped(), down, "{outcome}");
    // 500 a second for 0.6 s, and what was on the two links or on its way to them; a sender that was
    // late sends faster afterwards.
    assert!((270..=340).contains(&down), "{down} of {sent}");
    // The first links go on working: what is lost is lost at the router's links.
    let pipes = outcome.summary["pipes"].as_array().expect("pipes");
    let packets = |name: &str| {
        let pipe = pipes.iter().find(|pipe| pipe["name"] == name);
        number(&pipe.expect("the pipe")["packets"])
    };
    assert!(packets("a>r") >= sent, "{outcome}");
    // It has come back: the last numbers have arrived, so all gaps are seen.
    assert_eq!(number(&got["lost"]), sent - received, "{got}");
    assert!(got["seconds"].as_f64().expect("a time") > 2.5, "{got}");
    let events = outcome.summary["events"].as_array().expect("events");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["event"], "s: down for 600 ms");
}

/// A host's shaper follows its link, also when an event changes it.
#[test]
fn shapers_follow_the_events_of_their_links() {
    let lab = Lab::new();
    // 100 datagrams of 1042 bytes with headers and check sequence take 83 ms at 10 Mbit/s. Were the shaper
    // left at 1 Mbit/s, it would hold them back for 834 ms.
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], rate: 1 Mbit/s } ]
events:
  - { at: 100 ms, link: a-b, set: { rate: 10 Mbit/s } }
programs:
  recv: { on: b, run: $BENCH udp-recv --port 9 --idle 1 --deadline 20 --expect 100, ready: log ready }
  wait: { on: a, run: sleep 0.5, after: recv }
  send: { on: a, run: $BENCH udp-send --to 10.0.0.2:9 --size 1000 --rate 100000 --count 100, after: wait }
",
    );
    outcome.assert_arrived(100, number(&outcome.report("recv")["received"]));
    let pipes = outcome.summary["pipes"].as_array().expect("pipes");
    let pipe = pipes
        .iter()
        .find(|pipe| pipe["name"] == "a>b")
        .expect("the pipe");
    assert_eq!(pipe["drops_queue"], 0);
}

#[test]
fn programs_do_what_the_command_does() {
    if !have("python3") {
        return;
    }
    let lab = Lab::new();
    let mut run = lab.start(
        "
name: pair
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 1 ms, rate: 1 Gbit/s } ]
programs:
  hold:
    on: a
    run: sh -c 'echo up; until [ -e done ]; do sleep 0.02; done'
",
    );
    run.wait_for("hold.out", "up");
    let socket = run.out().join("control.sock");
    let output = std::process::Command::new("python3")
        .arg(lab.dir().join("control.py"))
        .arg(&socket)
        .output()
        .expect("starting python3");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("well"), "{said}");

    let folder = run.out().to_str().unwrap().to_owned();
    let ask = |arguments: &[&str]| {
        let (code, stdout, stderr) =
            lab.ask(&[&arguments[..1], &["--run", &folder], &arguments[1..]].concat());
        (code, stdout + &stderr)
    };
    let (code, said) = ask(&[
        "set",
        "a-b",
        "delay={ normal: { mean: 5 ms, deviation: 1 ms } }",
        "loss={ one_in: 100 }",
    ]);
    assert!(code == 0 && said.contains("a>b, b>a changed at"), "{said}");
    let (code, said) = ask(&["get", "a>b"]);
    assert!(
        code == 0
            && said.contains("normal, mean 5 ms, deviation 1 ms")
            && said.contains("one in 100"),
        "{said}"
    );
    let top = || {
        let (code, said) = ask(&["top", "--once", "--json"]);
        assert_eq!(code, 0, "{said}");
        serde_json::from_str::<Value>(&said).expect("JSON")
    };
    // Answers as long as the run lives, so a second is over at some time.
    let top = std::iter::repeat_with(top).find(|top| !top["second"].is_null());
    let top = top.expect("an endless iterator");
    let second = &top["second"];
    let share = |name: &str| second[name].as_f64().expect("a share");
    assert!(
        (share("headroom") - (1.0 - share("core_load")).max(0.0)).abs() < 1e-9,
        "{top}"
    );
    assert!(
        share("core_load") > 0.0 && second["physical_drops"]["ring"] == 0,
        "{top}"
    );
    assert!(
        second["lateness_ns"]["p99"].is_u64() && top["pipes"].is_array(),
        "{top}"
    );
    let (code, said) = ask(&["top", "--once"]);
    assert!(
        code == 0 && said.contains("headroom") && said.contains("packets/s"),
        "{said}"
    );
    let (code, said) = ask(&["set", "a-b", "down"]);
    assert!(code == 0 && said.contains("a>b, b>a down at"), "{said}");
    let (code, said) = ask(&["get", "a-b", "--json"]);
    let json: Value = serde_json::from_str(&said).expect("JSON");
    assert!(code == 0 && json["pipes"][1]["up"] == false, "{said}");
    let (code, said) = ask(&["set", "a-b", "up"]);
    assert!(code == 0 && said.contains("a>b, b>a up at"), "{said}");
    for (wrong, part) in [
        (&["set", "a", "down"][..], "is a host"),
        (&["set", "a-c", "up"], "a-c"),
        (&["set", "a-b", "down", "delay=5 ms"], "alone"),
        (
            &[
                "set",
                "a-b",
                "delay={ normal: { mean: 0 s, deviation: 1 ms } }",
            ],
            "mean",
        ),
    ] {
        let (code, said) = ask(wrong);
        assert!(
            code == 2 && said.contains(part),
            "{wrong:?}: {code}: {said}"
        );
    }
    std::fs::write(run.out().join("hosts/a/done"), "").expect("ending the run");
    run.wait().succeeded();
}
