//! Many hosts, and several runs at once.

use crate::lab::Lab;
use crate::outcome::number;

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
    for log in ["first.out", "last.out"] {
        let log = outcome.log(log);
        assert_eq!(log.lines().count(), 3, "{log}");
        for line in log.lines() {
            let trip: f64 = line.parse().expect("seconds");
            assert!(trip >= 0.004, "{trip} s there and back");
        }
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
        // A run's packets are its own: what it has lost is what its probe missed.
        let (sent, received) = (number(&report["sent"]), number(&report["received"]));
        assert_eq!(sent, 50, "{report}");
        if outcome.physical_drops() == 0 {
            assert_eq!((received, outcome.dropped()), (50, 0), "{outcome}");
        }
        assert!(number(&report["rtt_ns"]["min"]) >= 2_000_000, "{report}");
    }
}
