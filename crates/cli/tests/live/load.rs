//! More than the machine or a link can carry, and frames that nobody should send.

use std::time::Duration;

use crate::lab::Lab;
use crate::outcome::number;

/// The largest part of its memory that `longhaul run` has had, in KiB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Three hosts that send as fast as they can through `routers` unlimited routers in a row.
fn flood_through(routers: usize) -> String {
    let row = (1..routers).map(|n| format!("    - {{ ends: [r{}, r{n}] }}\n", n - 1));
    format!(
        "
topology:
  nodes: {{ s: {{ count: 3 }}, r: {{ kind: router, count: {routers} }}, t: {{}} }}
  links:
    - {{ ends: [s, r0] }}
    - {{ ends: [r{}, t] }}
{}programs:
  recv: {{ on: t, run: $BENCH udp-recv --port 9 --idle 1 --deadline 25, ready: log ready }}
  flood: {{ on: s, run: $BENCH flood --to t:9 --threads 2 --size 64 --seconds 2, after: recv }}
",
        routers - 1,
        row.collect::<String>()
    )
}

#[test]
fn overload_is_shed_counted_and_called_by_its_name() {
    /// Ring (32 MiB), packet pool (full queues of the long way: 195 MiB) and the program itself.
    const MEMORY_MAX_KIB: u64 = 300 << 10;
    /// Frames of the hosts' kernels that may have been lost too.
    const OTHER_FRAMES_MAX: u64 = 64;
    let lab = Lab::new();
    // A short way overloads the hosts, a long one the core.
    for routers in [1, 60] {
        let mut peak = 0;
        let outcome = lab
            .start(&flood_through(routers))
            .wait_watching(|pid| peak = peak_memory(pid).unwrap_or(0).max(peak))
            .succeeded();
        assert!(peak > 0 && peak < MEMORY_MAX_KIB, "{peak} KiB");
        let flood = |n: u32| number(&outcome.report(&format!("flood@s{n}"))["sent"]);
        let sent: u64 = (0..3).map(flood).sum();
        let got = outcome.report("recv");
        assert!(number(&got["received"]) > 0, "{got}");
        // What the receiving program's own socket lost was delivered by us.
        let arrived = number(&got["received"]) + number(&got["kernel_drops"]);
        let counted = arrived + outcome.dropped() + outcome.physical_drops();
        eprintln!(
            "{routers} routers: {sent} sent, {} lost by the machine, exit {}, {peak} KiB",
            outcome.physical_drops(),
            outcome.code
        );
        assert!(arrived <= sent, "{got}");
        assert!(
            (sent..=sent + OTHER_FRAMES_MAX).contains(&counted),
            "{sent} sent, {counted} accounted for: {outcome}"
        );
        if outcome.physical_drops() > 0 {
            assert_eq!(outcome.code, 3, "{outcome}");
        }
    }
}

#[test]
fn a_slow_first_link_holds_its_sender_back() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], rate: 100 Mbit/s, delay: 1 ms } ]
programs:
  recv: { on: b, run: $BENCH udp-recv --port 9 --idle 1 --deadline 20, ready: log ready }
  send: { on: a, run: $BENCH udp-send --to 10.0.0.2:9 --size 1400 --rate max --seconds 2, after: recv }
",
    );
    let (sent, got) = (outcome.report("send"), outcome.report("recv"));
    let socket = number(&got["kernel_drops"]);
    outcome.assert_arrived(number(&sent["sent"]), number(&got["received"]) + socket);
    assert_eq!(outcome.physical_drops(), 0, "{outcome}");
    // 1400 bytes of payload are 1446 on the link.
    let link = 100e6 / (8.0 * 1446.0);
    let rate = sent["pps"].as_f64().unwrap();
    assert!(
        (0.95 * link..1.05 * link).contains(&rate),
        "{rate} datagrams/s on a link of {link}"
    );
    let arrived = got["pps"].as_f64().unwrap();
    assert!(
        (0.97 * link..1.03 * link).contains(&arrived),
        "{arrived} datagrams/s arrived over a link of {link}"
    );
}

/// A queue of the host's own that gives way to one in the network must hand over what waits in it.
#[test]
fn a_shaper_of_another_kind_loses_nothing() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b], rate: 10 Mbit/s, delay: 1 ms } ]
programs:
  recv: { on: b, run: $BENCH udp-recv --port 9 --idle 2 --deadline 20, ready: log ready }
  send: { on: a, run: $BENCH udp-send --to 10.0.0.2:9 --size 1400 --rate 1800 --seconds 3, after: recv }
events:
  - { at: 1500 ms, link: a-b, set: { rate: unlimited } }
  - { at: 2 s, link: a-b, set: { rate: 10 Mbit/s } }
  - { at: 2500 ms, link: a-b, set: { queue: codel } }
",
    );
    let (sent, got) = (outcome.report("send"), outcome.report("recv"));
    let socket = number(&got["kernel_drops"]);
    outcome.assert_arrived(number(&sent["sent"]), number(&got["received"]) + socket);
}

#[test]
fn nonsense_from_one_host_does_not_touch_the_others() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { a: {}, b: {}, evil: {}, r: { kind: router } }
  links: [ { ends: [a, r], delay: 1 ms }, { ends: [b, r], delay: 1 ms }, { ends: [evil, r] } ]
programs:
  recv: { on: b, run: $BENCH udp-recv --port 9 --idle 2 --deadline 20 --expect 1500, ready: log ready }
  send: { on: a, run: $BENCH udp-send --to b:9 --size 500 --rate 1000 --count 1500, after: recv }
  nonsense: { on: evil, as: root, run: $BENCH frames --interface eth0 --count 6000 --rate 5000 --seed 11, after: recv }
",
    );
    let refused = &outcome.summary["packets"]["refused"];
    for kind in ["malformed", "not_ip", "multicast"] {
        assert!(number(&refused[kind]) > 0, "no {kind}: {refused}");
    }
    let received = number(&outcome.report("recv")["received"]);
    assert!(
        received + outcome.physical_drops() >= 1500,
        "{received} received: {outcome}"
    );
    assert_eq!(number(&outcome.report("recv")["malformed"]), 0);
    assert!(outcome.summary["error"].is_null());
    assert!(Duration::from_secs_f64(outcome.summary["wall_s"].as_f64().unwrap()).as_secs() < 20);
}

#[test]
fn the_cores_cpu_time_is_a_part_of_all() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology: { nodes: { a: {} } }
programs: { nap: { on: a, run: sleep 1 } }
",
    );
    let of = |pointer: &str| outcome.summary.pointer(pointer).and_then(|v| v.as_f64());
    let core_s = of("/cores/0/busy").unwrap() * of("/simulated_s").unwrap();
    let all_s = of("/cpu_s").unwrap();
    assert!(core_s > 0.0 && all_s > core_s, "{core_s} s of {all_s} s");
    // A loop with nothing to do sleeps.
    assert!(core_s < 0.2, "{core_s} s");
}
