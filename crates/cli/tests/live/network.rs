//! What the emulated network does to packets: delay, loss, routers, MTUs.

use crate::lab::{Lab, have};
use crate::outcome::{median, number};

/// How much later than the set delay the median datagram of the median train may come. It is 2 to 3 us
/// where the core has a CPU of its own, also with both CPUs busy at nice 10; timers of whole
/// milliseconds make it half a millisecond.
const LATE_MAX_NS: u64 = 300_000;
/// Trains of each family.
const TRAINS: u64 = 5;
/// Datagrams of a train.
const TRAIN: u64 = 80;

/// Numbered datagrams over one pipe, in trains that alternate between IPv4 and IPv6. 613 a second meet
/// every phase of a millisecond, so that no timer's grid can hide behind the sender's.
pub(crate) fn one_pipe(delay: &str) -> String {
    let mut text = format!(
        "
topology:
  nodes: {{ a: {{}}, b: {{}} }}
  links: [ {{ ends: [a, b], delay: {delay} }} ]
programs:
"
    );
    for n in 0..2 * TRAINS {
        let port = 10 + n;
        let (bind, to) = match n % 2 {
            0 => ("0.0.0.0", "10.0.0.2"),
            _ => ("'::'", "'[fd6c:6f6e:6768::2]'"),
        };
        let after = match n {
            0 => format!("recv{n}"),
            _ => format!("[recv{n}, send{}]", n - 1),
        };
        text += &format!(
            "
  recv{n}:
    on: b
    run: >-
      $BENCH udp-recv --port {port} --bind {bind} --idle 1 --deadline 25 --expect {TRAIN}
    ready: log ready
  send{n}:
    on: a
    run: >-
      $BENCH udp-send --to {to}:{port} --size 200 --rate 613 --count {TRAIN}
    after: {after}
"
        );
    }
    text
}

/// Both families over one pipe: complete, never early, and late by no more than a loop's wake-up.
pub(crate) fn check_one_pipe(lab: &Lab, delay: &str, delay_ns: u64) {
    let outcome = lab.succeed(&one_pipe(delay));
    let reports = |who: &str| -> Vec<serde_json::Value> {
        let names = (0..2 * TRAINS).map(|n| format!("{who}{n}"));
        names.map(|name| outcome.report(&name)).collect()
    };
    let (sent, got) = (reports("send"), reports("recv"));
    let sum = |reports: &[serde_json::Value], field: &str| -> u64 {
        reports.iter().map(|report| number(&report[field])).sum()
    };
    assert_eq!(sum(&sent, "sent"), 2 * TRAINS * TRAIN);
    outcome.assert_arrived(2 * TRAINS * TRAIN, sum(&got, "received"));
    assert_eq!(
        sum(&got, "reordered") + sum(&got, "duplicates"),
        0,
        "{got:?}"
    );
    for (family, first) in [("IPv4", 0), ("IPv6", 1)] {
        let trains = got.iter().skip(first).step_by(2);
        let delays: Vec<_> = trains.map(|report| &report["delay_ns"]).collect();
        for delay in &delays {
            assert!(number(&delay["min"]) >= delay_ns, "early: {delay}");
        }
        let middles = delays.iter().map(|delay| number(&delay["p50"]));
        let late = median(middles) - delay_ns;
        eprintln!("{delay}, {family}: {} us late", late / 1000);
        assert!(
            late <= LATE_MAX_NS,
            "{family} over {delay}: {late} ns late: {delays:?}"
        );
    }
}

#[test]
fn the_kernel_says_of_each_packet_when_it_left() {
    let lab = Lab::new();
    for delay in ["0 ms", "1 ms"] {
        let outcome = lab.succeed(&one_pipe(delay));
        let verdict = &outcome.summary["verdict"];
        let p50 = |figure: &str| number(&verdict[figure]["p50"]);
        // On its cable after it was due, and before the receiving stack had it.
        let (cable, call) = (p50("lateness_ns"), p50("after_call_ns"));
        assert!((1..call).contains(&cable), "{delay}: {cable} {call}");
        // Each packet's stamp lies before the end of its call, so the last one's does.
        let worst = |figure: &str| number(&verdict[figure]["max"]);
        let (cable, call) = (worst("lateness_ns"), worst("after_call_ns"));
        assert!(cable <= call, "{delay}: {cable} {call}");
    }
}

#[test]
fn a_delay_is_kept_in_both_families() {
    let lab = Lab::new();
    for (delay, delay_ns) in [
        ("100 us", 100_000),
        ("1 ms", 1_000_000),
        ("10 ms", 10_000_000),
    ] {
        check_one_pipe(&lab, delay, delay_ns);
    }
}

#[test]
fn random_loss_is_counted_exactly_and_follows_the_seed() {
    let lab = Lab::new();
    let lossy = "
seed: 7
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 1 ms, loss: 10 %, back: { loss: 0 % } } ]
programs:
  recv: { on: b, run: $BENCH udp-recv --port 9 --idle 1 --deadline 20, ready: log ready }
  send: { on: a, run: $BENCH udp-send --to 10.0.0.2:9 --size 100 --rate 5000 --count 2000, after: recv }
";
    let [first, again] = [0, 1].map(|_| {
        let outcome = lab.succeed(lossy);
        assert_eq!(number(&outcome.report("send")["sent"]), 2000);
        outcome.assert_arrived(2000, number(&outcome.report("recv")["received"]));
        (outcome.dropped_by("loss"), outcome.physical_drops())
    });
    assert!(
        (100..=300).contains(&first.0),
        "{} of 2000 lost at 10 %",
        first.0
    );
    if first.1 + again.1 == 0 {
        assert_eq!(first.0, again.0, "the same seed loses the same packets");
    }
}

/// Two hosts with three routers between them.
const ROUTERS: &str = "
topology:
  nodes: { a: {}, b: {}, r1: { kind: router }, r2: { kind: router }, r3: { kind: router } }
  links:
    - { ends: [a, r1], delay: 1 ms }
    - { ends: [r1, r2], delay: 2 ms }
    - { ends: [r2, r3], delay: 3 ms }
    - { ends: [r3, b], delay: 1 ms }
programs:
";

#[test]
fn every_router_of_a_path_shows_itself() {
    let lab = Lab::new();
    let mut text = ROUTERS.to_owned()
        + "  v4: { on: a, run: python3 $DIR/trace.py b 4 }\n  v6: { on: a, run: python3 $DIR/trace.py b 6 }\n";
    // One at a time, with one probe at a time: the last host is a kernel, whose answers are few.
    let tools = [
        ("traceroute", "traceroute -n -q 1 -N 1 -w 2 10.0.0.2"),
        ("tracepath", "tracepath -n -m 8 10.0.0.2"),
    ];
    let tools: Vec<_> = tools.into_iter().filter(|(name, _)| have(name)).collect();
    let mut after = "v4";
    for (name, run) in &tools {
        text += &format!("  {name}: {{ on: a, run: {run}, after: {after} }}\n");
        after = name;
    }
    let outcome = lab.succeed(&text);
    let path4 = ["10.128.0.1", "10.128.0.2", "10.128.0.3", "10.0.0.2"];
    let prefix = "fd6c:6f6e:6768:";
    let path6 = ["1::1", "1::2", "1::3", ":2"].map(|end| format!("{prefix}{end}"));
    let lines = |log: &str| {
        outcome
            .log(log)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines("v4.out"), path4);
    assert_eq!(lines("v6.out"), path6);
    for (name, _) in tools {
        let log = outcome.log(&format!("{name}.out"));
        let mut rest = log.as_str();
        if let Some((_, after)) = rest.split_once('\n').filter(|_| name == "traceroute") {
            rest = after; // its first line names the target
        }
        for address in path4 {
            let at = rest.find(address);
            rest = &rest[at.unwrap_or_else(|| panic!("{name} misses {address}:\n{log}"))..];
        }
    }
}

#[test]
fn routers_answer_pings_and_return_what_goes_nowhere() {
    let lab = Lab::new();
    let prefix = "fd6c:6f6e:6768:";
    let mut text = ROUTERS.to_owned();
    let pings = [
        ("near4", "10.128.0.1".to_owned(), 0.002),
        ("far4", "10.128.0.3".to_owned(), 0.012),
        ("end4", "10.0.0.2".to_owned(), 0.014),
        ("far6", format!("{prefix}1::3"), 0.012),
        ("end6", format!("{prefix}:2"), 0.014),
    ];
    for (name, address, _) in &pings {
        text += &format!("  {name}: {{ on: a, run: 'python3 $DIR/ping.py {address} 3' }}\n");
    }
    let knocks = [
        ("nowhere4", "10.99.99.99".to_owned(), "UNREACH"),
        ("nowhere6", format!("{prefix}:99"), "UNREACH"),
        ("closed4", "10.0.0.2".to_owned(), "ECONNREFUSED"),
        ("closed6", format!("{prefix}:2"), "ECONNREFUSED"),
    ];
    for (name, address, _) in &knocks {
        text += &format!("  {name}: {{ on: a, run: 'python3 $DIR/network.py {address}' }}\n");
    }
    if have("ping") {
        text += "  ping: { on: a, run: ping -n -c 3 -i 0.05 -W 2 10.128.0.2 }\n";
    }
    let outcome = lab.succeed(&text);
    for (name, _, round_trip) in pings {
        let log = outcome.log(&format!("{name}.out"));
        let trips: Vec<f64> = log.lines().map(|s| s.parse().expect("seconds")).collect();
        assert_eq!(trips.len(), 3, "{name}: {trips:?}");
        let quickest = trips.into_iter().fold(f64::INFINITY, f64::min);
        // Python's own wake-ups are on the way too.
        assert!(
            (round_trip..round_trip + 0.003).contains(&quickest),
            "{name}: {quickest} s"
        );
    }
    for (name, _, error) in knocks {
        let log = outcome.log(&format!("{name}.out"));
        assert_eq!(
            log.split_whitespace()
                .filter(|word| word.contains(error))
                .count(),
            2,
            "{log}"
        );
    }
    assert!(outcome.dropped_by("no_route") >= 4, "{outcome}");
}

#[test]
fn a_narrow_link_is_found_by_path_mtu_discovery() {
    let lab = Lab::new();
    let narrow = "
topology:
  nodes: { a: {}, b: {}, r1: { kind: router }, r2: { kind: router } }
  links:
    - { ends: [a, r1] }
    - { ends: [r1, r2], delay: 1 ms, mtu: 1400 }
    - { ends: [r2, b] }
programs:
  echo:  { on: b, run: python3 $DIR/pmtu.py, ready: log ready, service: true }
  probe: { on: a, run: python3 $DIR/pmtu.py b 1400, after: echo }
  recv:  { on: b, run: $BENCH tcp-recv --port 20 --connections 2, ready: tcp 20 }
  send4: { on: a, run: $BENCH tcp-send --to 10.0.0.2:20 --bytes 2000000, after: recv }
  send6: { on: a, run: '$BENCH tcp-send --to [fd6c:6f6e:6768::2]:20 --bytes 2000000', after: send4 }
";
    let outcome = lab.succeed(narrow);
    let received = outcome.report("recv");
    assert_eq!(number(&received["bytes"]), 4_000_000, "{received}");
    assert!(
        outcome.dropped_by("too_big") > 0,
        "nothing was ever too big: {outcome}"
    );
    assert_eq!(
        outcome.dropped(),
        outcome.dropped_by("too_big"),
        "{outcome}"
    );
    let probe = outcome.log("probe.out");
    if outcome.physical_drops() == 0 {
        assert!(
            probe.contains("AF_INET attempts 1\n"),
            "IPv4 routers fragment at once: {probe}"
        );
    }
}

#[test]
fn a_long_datagram_crosses_long_links_whole_and_no_short_one() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {}, c: {}, r: { kind: router } }
  links:
    - { ends: [a, r], delay: 1 ms, mtu: 9000 }
    - { ends: [r, b], delay: 1 ms, mtu: 9000 }
    - { ends: [r, c], delay: 1 ms, mtu: 1500 }
programs:
  long:  { on: b, run: python3 $DIR/jumbo.py serve, ready: log ready, service: true }
  short: { on: c, run: python3 $DIR/jumbo.py serve, ready: log ready, service: true }
  probe: { on: a, run: python3 $DIR/jumbo.py probe b c, after: [long, short] }
",
    );
    let report = outcome.report("probe");
    let prefix = "fd6c:6f6e:6768:";
    for (family, router) in [
        ("4", "10.128.0.1".to_owned()),
        ("6", format!("{prefix}1::1")),
    ] {
        let found = &report[family];
        assert_eq!(found["echoed"], serde_json::json!([8000, 8900]), "{report}");
        // The router of the short link says so, and what fits.
        assert_eq!(found["refused_by"], router, "{report}");
        assert_eq!(number(&found["mtu"]), 1500, "{report}");
    }
    assert_eq!(number(&report["fragments"]), 0, "{report}");
    assert_eq!(outcome.dropped_by("too_big"), 2, "{outcome}");
    if outcome.physical_drops() == 0 {
        assert_eq!(outcome.dropped(), 2, "{outcome}");
    }
}
