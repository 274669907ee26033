//! Many hosts, and several runs at once.

use crate::lab::Lab;

#[test]
fn two_hundred_hosts_come_up_talk_and_go() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { h: { count: 200 }, r: { kind: router } }
  links: [ { ends: [h, r], delay: 1 ms } ]
programs:
  first: { on: h0, run: python3 $DIR/ping.py 10.0.0.200 3 }
  last: { on: h199, run: 'python3 $DIR/ping.py fd6c:6f6e:6768::1 3' }
",
    );
    for line in (outcome.log("first.out") + &outcome.log("last.out")).lines() {
        assert!(
            line.parse::<f64>().expect("seconds") >= 0.004,
            "{line} s there and back"
        );
    }
    let hosts = std::fs::read_to_string(outcome.out().join("hosts.txt")).unwrap();
    assert_eq!(hosts.lines().count(), 200);
}

#[test]
fn the_same_experiment_runs_twice_at_once() {
    let lab = Lab::new();
    let file = lab.write(
        "twice.yaml",
        "
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 1 ms } ]
programs:
  echo: { on: b, run: $BENCH echo --port 7, ready: log ready, service: true }
  ask: { on: a, run: $BENCH rtt --to b:7 --count 50 --interval 10000, after: echo }
",
    );
    let mut runs = ["one", "two"].map(|name| lab.start_in(&file, &lab.dir().join(name), &[]));
    for run in &mut runs {
        run.wait_for("echo.err", "ready");
    }
    assert!(
        runs.iter_mut().all(|run| !run.has_ended()),
        "they should overlap"
    );
    for run in runs {
        let outcome = run.wait().succeeded();
        let report = outcome.report("ask");
        assert!(report.to_string().contains("50"), "{report}");
    }
}
