//! `longhaul traffic` on emulated hosts: what senders and sink say of the same flows.

use serde_json::Value;

use crate::lab::Lab;
use crate::outcome::number;

/// Hosts have a /tmp of their own; what starts a program on them is the binary itself.
const PAIR: &str = "
topology:
  nodes: { a: {}, b: {} }
  links:
    - { ends: [a, b], rate: 200 Mbit/s, delay: 2 ms }
programs:
  sink: { on: b, run: /proc/self/exe traffic sink, ready: tcp 5400, service: true }
  bulk:
    on: a
    run: /proc/self/exe traffic bulk b --bytes '3 MB' --name file --congestion reno --series w.csv --every '5 ms'
    after: sink
  web:
    on: a
    run: >-
      /proc/self/exe traffic requests b --flows 3 --request '100 B'
      --response '{ exponential: 20 kB }' --requests 4
    after: bulk
  packets: { on: a, run: /proc/self/exe traffic poisson b --rate '2 Mbit/s' --packet '700 B' --bytes '35 kB', after: web }
  # What is under way when the sink is told to end would not count there.
  drained: { on: a, run: sleep 0.3, after: packets }
";

fn flows(report: &Value) -> &[Value] {
    report["flows"].as_array().expect("flows")
}

#[test]
fn a_sink_gets_what_senders_sent() {
    let lab = Lab::new();
    let outcome = lab.succeed(PAIR);
    let (bulk, sink) = (outcome.report("bulk"), outcome.report("sink"));
    let [bulk] = flows(&bulk) else {
        panic!("one flow: {bulk}");
    };
    assert_eq!(number(&bulk["bytes"]), 3_000_000);
    assert_eq!(bulk["name"], "file");
    assert_eq!(bulk["congestion"], "reno");
    assert_eq!(bulk["failed"], false);
    // There and back, and no less time than the link takes for the payload.
    assert!(number(&bulk["rtt_ns"]["min"]) >= 4_000_000, "{bulk}");
    assert!(bulk["completion_s"].as_f64().unwrap() > 0.12, "{bulk}");
    assert!(bulk["goodput_bps"].as_f64().unwrap() < 200e6, "{bulk}");
    let got = flows(&sink)
        .iter()
        .find(|flow| flow["from"] == bulk["from"]);
    let got = got.unwrap_or_else(|| panic!("no such flow: {sink}"));
    assert_eq!(number(&got["bytes"]), 3_000_000);
    assert_eq!(
        (&got["to"], &got["failed"]),
        (&bulk["to"], &Value::Bool(false))
    );
    let web = outcome.report("web");
    assert_eq!(flows(&web).len(), 3);
    for flow in flows(&web) {
        assert_eq!(number(&flow["exchanges"]["count"]), 4, "{web}");
        let got = flows(&sink)
            .iter()
            .find(|other| other["from"] == flow["from"]);
        assert_eq!(number(&got.expect("its other end")["bytes"]), 400);
    }
    let packets = outcome.report("packets");
    let sent = &flows(&packets)[0];
    assert_eq!(
        (number(&sent["bytes"]), number(&sent["packets"])),
        (35_000, 50)
    );
    let got = flows(&sink).iter().find(|flow| flow["model"] == "udp");
    let got = got.unwrap_or_else(|| panic!("no datagrams: {sink}"));
    let (packets, bytes) = (number(&got["packets"]), number(&got["bytes"]));
    assert_eq!(bytes, 700 * packets, "{sink}");
    // All that was dropped may have been datagrams.
    let lost = outcome.dropped() + outcome.physical_drops();
    assert!(
        (50_u64.saturating_sub(lost)..=50).contains(&packets),
        "{sink}"
    );
    let series = std::fs::read_to_string(outcome.out().join("hosts/a/w.csv")).expect("the series");
    assert!(
        series.starts_with("t_s,cwnd,") && series.lines().count() > 10,
        "{series}"
    );
}
