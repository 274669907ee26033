//! Tunnels inside hosts that hand over super-packets: what is in them is not the core's to split.

use crate::lab::{Lab, have};
use crate::outcome::{Outcome, number};
use crate::skip::skip;

const BYTES: u64 = 5_000_000;

/// A transfer through VXLAN between a and b, whose outer addresses these are.
fn vxlan(lab: &Lab, a: &str, b: &str) -> Option<Outcome> {
    if !have("ip") {
        return None;
    }
    let tunnel = |own: &str, other: &str, inner: u8| {
        format!(
            "ip link add vx0 type vxlan id 5 dstport 4789 local {own} remote {other} dev eth0 && \
             ip address add 192.168.9.{inner}/24 dev vx0 && ip link set vx0 up"
        )
    };
    let (first, second) = (tunnel(a, b, 1), tunnel(b, a, 2));
    let outcome = lab.run(&format!(
        "
offload: true
topology:
  nodes: {{ a: {{}}, b: {{}} }}
  links: [ {{ ends: [a, b], delay: 1 ms }} ]
programs:
  tunnel: {{ on: b, as: root, run: \"sh -c '{second}'\" }}
  serve: {{ on: b, run: python3 $DIR/offload.py serve 7 1, ready: tcp 7, after: tunnel }}
  other: {{ on: a, as: root, run: \"sh -c '{first}'\", after: serve }}
  send: {{ on: a, run: python3 $DIR/offload.py send 192.168.9.2 7 {BYTES}, after: other }}
"
    ));
    let log = outcome.log("tunnel.err");
    if log.contains("Unknown device type") || log.contains("not supported") {
        skip("load the kernel module vxlan");
        return None;
    }
    Some(outcome.succeeded())
}

fn assert_whole(outcome: &Outcome) {
    let [sent, got] = ["send", "serve"].map(|name| outcome.report(name));
    assert_eq!(number(&got["bytes"]), BYTES);
    assert_eq!(got["digests"][0], sent["digest"]);
    for report in [&sent, &got] {
        assert_eq!(number(&report["tcp"]["InCsumErrors"]), 0, "{report}");
        assert_eq!(number(&report["tcp"]["InErrs"]), 0, "{report}");
    }
    let packets = &outcome.summary["packets"];
    assert_eq!(number(&packets["refused"]["malformed"]), 0, "{packets}");
    assert!(number(&packets["entered"]) >= BYTES / 1450, "{packets}");
    if outcome.physical_drops() == 0 {
        assert_eq!(number(&sent["tcp"]["RetransSegs"]), 0, "{sent}");
    }
}

#[test]
fn what_is_in_a_tunnel_over_ipv4_arrives_whole() {
    let lab = Lab::new();
    if let Some(outcome) = vxlan(&lab, "10.0.0.1", "10.0.0.2") {
        assert_whole(&outcome);
    }
}

#[test]
fn what_is_in_a_tunnel_over_ipv6_arrives_whole() {
    let lab = Lab::new();
    if let Some(outcome) = vxlan(&lab, "fd6c:6f6e:6768::1", "fd6c:6f6e:6768::2") {
        assert_whole(&outcome);
    }
}
