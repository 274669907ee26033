//! Super-packets: hosts that hand over many segments at once, and take them so.

use std::path::Path;

use serde_json::Value;

use crate::lab::{Lab, is_root};
use crate::outcome::{Outcome, number};

/// The payload of a full segment of TCP with timestamps over IPv6, which has fewer than IPv4.
const SEGMENT: u64 = 1500 - 40 - 32;

/// One transfer over each family, from a to b behind a router.
fn transfers(bytes: u64, link: &str) -> String {
    format!(
        "
offload: true
topology:
  nodes: {{ a: {{}}, r: {{ kind: router }}, b: {{}} }}
  links:
    - {{ ends: [a, r] }}
    - {{ ends: [r, b], delay: 1 ms{link} }}
programs:
  serve: {{ on: b, run: python3 $DIR/offload.py serve 7 2, ready: tcp 7 }}
  send4: {{ on: a, run: python3 $DIR/offload.py send 10.0.0.2 7 {bytes}, after: serve }}
  send6: {{ on: a, run: 'python3 $DIR/offload.py send fd6c:6f6e:6768::2 7 {bytes}', after: send4 }}
"
    )
}

/// What was sent is what arrived, in both families.
fn assert_intact(outcome: &Outcome, bytes: u64) -> [Value; 3] {
    let [sent4, sent6, got] = ["send4", "send6", "serve"].map(|name| outcome.report(name));
    assert_eq!(number(&got["bytes"]), 2 * bytes);
    assert_eq!(got["digests"][0], sent4["digest"]);
    assert_eq!(got["digests"][1], sent6["digest"]);
    for report in [&sent4, &sent6, &got] {
        assert_eq!(number(&report["tcp"]["InCsumErrors"]), 0, "{report}");
        assert_eq!(number(&report["tcp"]["InErrs"]), 0, "{report}");
    }
    [sent4, sent6, got]
}

/// Without it no kernel can keep super-packets in order, and none are handed over.
fn has_super_packets() -> bool {
    Path::new("/proc/sys/net/core/rps_default_mask").exists()
}

#[test]
fn super_packets_are_counted_by_their_segments_and_arrive_in_order() {
    const BYTES: u64 = 60_000_000;
    let lab = Lab::new();
    let outcome = lab.succeed(&transfers(BYTES, ""));
    let [sent4, sent6, got] = assert_intact(&outcome, BYTES);
    let segments = 2 * BYTES.div_ceil(SEGMENT + 20);
    let packets = &outcome.summary["packets"];
    assert!(number(&packets["entered"]) >= segments, "{packets}");
    assert_eq!(outcome.dropped(), 0, "{packets}");
    for pipe in ["a>r", "r>b"] {
        let pipes = outcome.summary["pipes"].as_array().expect("pipes");
        let counts = pipes.iter().find(|counts| counts["name"] == pipe);
        let counts = counts.expect("a pipe of the file");
        assert!(number(&counts["packets"]) >= segments, "{counts}");
        assert!(
            number(&counts["bytes"]) >= 2 * BYTES + segments * 52,
            "{counts}"
        );
    }
    // What nobody lost nobody sends again, and nothing overtakes.
    if outcome.physical_drops() == 0 {
        assert_eq!(number(&got["tcp"]["TCPOFOQueue"]), 0, "{got}");
        assert_eq!(number(&sent6["tcp"]["RetransSegs"]), 0, "{sent6}");
    }
    if has_super_packets() {
        let frames = number(&sent4["frames"]) + number(&sent6["frames"]);
        assert!(
            frames < segments / 4,
            "{frames} frames for {segments} segments"
        );
        assert!(number(&got["frames"]) < segments / 2, "{got}");
    }
}

/// A shaper with a rate of its own lets super-packets pass, and loses none however short the queue is.
#[test]
fn super_packets_pass_a_shaper() {
    const BYTES: u64 = 20_000_000;
    let lab = Lab::new();
    let text = transfers(BYTES, "").replace(
        "ends: [a, r]",
        "ends: [a, r], rate: 400 Mbit/s, queue: 10 packets",
    );
    let outcome = lab.succeed(&text);
    let [sent4, sent6, got] = assert_intact(&outcome, BYTES);
    let segments = 2 * BYTES.div_ceil(SEGMENT + 20);
    if outcome.physical_drops() == 0 {
        assert_eq!(outcome.dropped(), 0, "{}", outcome.summary["packets"]);
        assert_eq!(number(&got["tcp"]["TCPOFOQueue"]), 0, "{got}");
    }
    if has_super_packets() {
        let frames = number(&sent4["frames"]) + number(&sent6["frames"]);
        assert!(
            frames < segments / 4,
            "{frames} frames for {segments} segments"
        );
    }
    // The rate is the link's: so many bytes take so long at least.
    let pipes = outcome.summary["pipes"].as_array().expect("pipes");
    let nic = pipes.iter().find(|counts| counts["name"] == "a>r");
    let sent = number(&nic.expect("a pipe of the file")["bytes"]);
    let seconds = outcome.summary["simulated_s"].as_f64().expect("a time");
    assert!(
        (sent * 8) as f64 <= 400e6 * seconds,
        "{sent} bytes, {seconds} s"
    );
}

/// Whether hosts a and b, which have much traffic, and c, which has none, receive on certain CPUs.
fn steered(outcome: &Outcome) -> [bool; 3] {
    ["a-cpus", "b-cpus", "c-cpus"].map(|program| outcome.report(program)["steered"] == true)
}

/// Only root may lead what hosts receive to other CPUs, and only where the core has its own.
#[test]
fn hosts_with_much_traffic_receive_on_the_programs_cpus() {
    let text = "
topology:
  nodes: { a: {}, b: {}, c: {}, r: { kind: router } }
  links:
    - { ends: [a, r] }
    - { ends: [b, r] }
    - { ends: [c, r] }
programs:
  serve: { on: b, run: python3 $DIR/offload.py serve 7 1, ready: tcp 7 }
  send: { on: a, run: python3 $DIR/offload.py send 10.0.0.2 7 200000000, after: serve }
  a-cpus: { on: a, run: python3 $DIR/offload.py steered 5, after: serve }
  b-cpus: { on: b, run: python3 $DIR/offload.py steered 5, after: serve }
  c-cpus: { on: c, run: python3 $DIR/offload.py steered 2, after: serve }
";
    let lab = Lab::unprivileged();
    assert_eq!(steered(&lab.succeed(text)), [false; 3]);
    // One lab at a time.
    drop(lab);
    let lab = Lab::new();
    let outcome = lab.succeed(text);
    let apart = outcome.summary["machine"]["program_cpus"] != serde_json::json!([]);
    let can = is_root() && has_super_packets() && apart;
    assert_eq!(steered(&outcome), [can, can, false]);
}

#[test]
fn single_segments_of_super_packets_are_lost() {
    const BYTES: u64 = 8_000_000;
    let lab = Lab::unprivileged();
    let outcome = lab.succeed(&transfers(BYTES, ", loss: 1 %"));
    assert_intact(&outcome, BYTES);
    // At least half of what is expected of so many draws.
    let lost = outcome.dropped_by("loss");
    assert!(lost >= 2 * BYTES / (SEGMENT + 20) / 200, "{lost} were lost");
    assert_eq!(outcome.dropped(), lost);
}

/// A network card with receive offload would join them, and nobody could say any more what they were.
#[test]
fn small_segments_stay_apart() {
    const BYTES: u64 = 400_000;
    const MSS: u64 = 200;
    let lab = Lab::new();
    let text = transfers(BYTES, "")
        .replace(&BYTES.to_string(), &format!("{BYTES} {MSS}"))
        .replace("offload: true", "offload: false");
    let outcome = lab.succeed(&text);
    let [sent4, sent6, _] = assert_intact(&outcome, BYTES);
    let entered = number(&outcome.summary["packets"]["entered"]);
    assert!(entered >= 2 * BYTES / MSS, "{entered}");
    if outcome.physical_drops() == 0 {
        assert_eq!(number(&sent4["tcp"]["RetransSegs"]), 0, "{sent4}");
        assert_eq!(number(&sent6["tcp"]["RetransSegs"]), 0, "{sent6}");
    }
}

/// The link becomes the bottleneck, is slowed down below what waits, and is fast again.
#[test]
fn a_host_stops_when_a_link_is_its_card() {
    const BYTES: u64 = 8_000_000;
    let lab = Lab::new();
    let events = "events:
  - { at: 300 ms, link: a-r, set: { rate: 500 Mbit/s } }
  - { at: 400 ms, link: a-r, set: { rate: 20 Mbit/s } }
  - { at: 1 s, link: a-r, set: { rate: 9 Gbit/s } }
";
    let text = transfers(BYTES, ", rate: 100 Mbit/s") + events;
    let outcome = lab.succeed(&text);
    assert_intact(&outcome, BYTES);
    // The slow link behind makes it last longer than the events.
    assert_eq!(outcome.summary["events"].as_array().map(Vec::len), Some(3));
}

/// What waits in a shaper that becomes a link's is let out, and later changes are made in place.
#[test]
fn a_shaper_loses_nothing_when_its_link_changes() {
    const SENT: u64 = 8000;
    let lab = Lab::new();
    let outcome = lab.succeed(&format!(
        "
offload: true
topology:
  nodes: {{ a: {{}}, b: {{}} }}
  links: [ {{ ends: [a, b], rate: 9 Gbit/s, delay: 1 ms }} ]
programs:
  count: {{ on: b, run: python3 $DIR/offload.py count 9, ready: log ready }}
  pace: {{ on: a, run: python3 $DIR/offload.py pace 10.0.0.2 9 {SENT}, after: count }}
events:
  - {{ at: 800 ms, link: a-b, set: {{ rate: 20 Mbit/s }} }}
  - {{ at: 1200 ms, link: a-b, set: {{ rate: 19 Mbit/s }} }}
  - {{ at: 1600 ms, link: a-b, set: {{ rate: 18 Mbit/s }} }}
  - {{ at: 2 s, link: a-b, set: {{ rate: 17 Mbit/s }} }}
  - {{ at: 2400 ms, link: a-b, set: {{ rate: 9 Gbit/s }} }}
  - {{ at: 2800 ms, link: a-b, set: {{ rate: 20 Mbit/s }} }}
"
    ));
    assert_eq!(outcome.summary["events"].as_array().map(Vec::len), Some(6));
    let received = number(&outcome.report("count")["datagrams"]);
    outcome.assert_arrived(SENT, received);
    assert_eq!(outcome.dropped(), 0);
}

#[test]
fn datagrams_of_one_call_arrive_one_by_one() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
offload: true
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], delay: 1 ms } ]
programs:
  hear: { on: b, run: python3 $DIR/offload.py hear 9 150, ready: log ready }
  send4: { on: a, run: python3 $DIR/offload.py burst 10.0.0.2 9, after: hear }
  send6: { on: a, run: 'python3 $DIR/offload.py burst fd6c:6f6e:6768::2 9', after: send4 }
",
    );
    let [sent4, sent6, got] = ["send4", "send6", "hear"].map(|name| outcome.report(name));
    for field in ["sizes", "digests"] {
        let list = |report: &Value| report[field].as_array().expect("a list").clone();
        let sent = [list(&sent4), list(&sent6)].concat();
        if outcome.physical_drops() == 0 {
            assert_eq!(list(&got), sent);
        }
    }
    assert!(number(&outcome.summary["packets"]["entered"]) >= 150 - outcome.physical_drops());
    if has_super_packets() {
        assert!(number(&sent4["frames"]) < 25, "{sent4}");
        assert!(number(&sent6["frames"]) < 25, "{sent6}");
    }
}
