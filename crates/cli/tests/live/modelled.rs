//! Modelled traffic on the real clock: beside programs, and towards a kernel's TCP.

use serde_json::Value;

use crate::lab::Lab;
use crate::outcome::number;

/// The flow of a name in a summary.
fn flow<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let flows = summary["flows"].as_array().expect("flows");
    let found = flows.iter().find(|flow| flow["name"] == name);
    found.unwrap_or_else(|| panic!("no flow {name}: {flows:?}"))
}

#[test]
fn a_modelled_sender_and_a_kernel_understand_each_other() {
    const BYTES: u64 = 3_000_000;
    let lab = Lab::new();
    let outcome = lab.succeed(&format!(
        "
duration: 25 s
topology:
  nodes: {{ a: {{}}, r: {{ kind: router }}, b: {{}} }}
  links:
    - {{ ends: [a, r], rate: 100 Mbit/s, delay: 2 ms }}
    - {{ ends: [r, b], rate: 20 Mbit/s, delay: 5 ms, queue: 30 packets }}
programs:
  serve: {{ on: b, run: python3 $DIR/offload.py serve 7 2, ready: tcp 7 }}
traffic:
  four: {{ from: a, to: 'b:7', bytes: {BYTES} B, start: 3 s }}
  six:  {{ from: a, to: 'b:7', bytes: {BYTES} B, start: 8 s, ip: 6, congestion: reno }}
"
    ));
    let got = outcome.report("serve");
    assert_eq!(number(&got["bytes"]), 2 * BYTES, "{got}");
    assert_eq!(number(&got["tcp"]["InCsumErrors"]), 0, "{got}");
    assert_eq!(number(&got["tcp"]["InErrs"]), 0, "{got}");
    // Zeros in both, so they are the same.
    assert_eq!(got["digests"][0], got["digests"][1]);
    for name in ["four", "six"] {
        let flow = flow(&outcome.summary, name);
        assert_eq!(number(&flow["bytes"]), BYTES, "{flow}");
        assert_eq!(flow["failed"], false, "{flow}");
        // No faster than the link: 3 MB at 20 Mbit/s.
        let took = flow["completion_s"].as_f64().expect("an end");
        assert!((1.2..6.0).contains(&took), "{flow}");
        assert!(number(&flow["rtt_ns"]["min"]) >= 14_000_000, "{flow}");
    }
}

#[test]
fn modelled_cross_traffic_shares_the_queue_with_programs() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, c: {}, r: { kind: router }, b: {} }
  links:
    - { ends: [a, r], delay: 1 ms }
    - { ends: [c, r], delay: 1 ms }
    - { ends: [r, b], rate: 10 Mbit/s, delay: 1 ms, queue: 50 packets }
programs:
  serve: { on: b, run: python3 $DIR/offload.py serve 7 1, ready: tcp 7 }
  send:  { on: a, run: python3 $DIR/offload.py send 10.0.0.2 7 3000000, after: serve }
traffic:
  cross: { from: c, to: b, model: udp, rate: 5 Mbit/s, packet: 1000 B }
",
    );
    assert_eq!(number(&outcome.report("serve")["bytes"]), 3_000_000);
    let cross = flow(&outcome.summary, "cross");
    let datagrams = &cross["datagrams"];
    assert!(number(&datagrams["sent"]) > 500, "{cross}");
    assert!(number(&datagrams["received"]) > 200, "{cross}");
    assert_eq!(cross["finish_s"], Value::Null);
    // Both went through, and the program had what the other one left.
    let send = &outcome.summary["programs"];
    let send = send.as_array().expect("programs").iter();
    let send = send.clone().find(|program| program["name"] == "send");
    let send = send.expect("the sender");
    let took = send["finish_s"].as_f64().unwrap() - send["start_s"].as_f64().unwrap();
    assert!(took > 3.0, "{took}");
}

#[test]
fn both_clocks_give_modelled_flows_the_same_times() {
    let lab = Lab::new();
    let text = "
duration: 20 s
topology:
  nodes: { a: { count: 3 }, b: { count: 3 }, g: { kind: router }, h: { kind: router } }
  links:
    - { ends: [a, g], rate: 100 Mbit/s, delay: 2 ms }
    - { ends: [g, h], rate: 20 Mbit/s, delay: 8 ms, queue: 60 packets }
    - { ends: [h, b], rate: 100 Mbit/s, delay: 2 ms }
traffic:
  bulk:  { from: a, to: b, bytes: 1 MB, start: { uniform: [0 s, 500 ms] } }
  ask:   { from: a0, to: b1, request: 300 B, response: { exponential: 20 kB }, think: 20 ms, requests: 20, ip: 6 }
  cross: { from: a2, to: b0, model: udp, rate: 2 Mbit/s, gaps: poisson, stop: 2 s }
";
    let file = lab.write("both.yaml", text);
    let [real, virtual_] = ["real", "virtual"].map(|clock| {
        let out = lab.dir().join(clock);
        let run = lab.start_in(&file, &out, &["--clock", clock]);
        run.wait().succeeded();
        out.to_str().expect("a UTF-8 path").to_owned()
    });
    let (exit, said, errors) = lab.ask(&["compare", &real, &virtual_]);
    assert_eq!(exit, 0, "{said}{errors}");
    assert!(said.contains("the runs agree"), "{said}");
}
