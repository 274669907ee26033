//! Links that are the bottleneck: their rate, their queue and a recorded trace, as receivers see
//! them.
//!
//! A rate is judged by the time from the first to the last datagram of a train that waits in the
//! link, a queue by how many of a burst survive, both as medians over several attempts: the
//! emulator's error does not add up along a train, and a preempted sender spoils one attempt.

use std::fs;

use serde_json::Value;

use crate::lab::Lab;
use crate::outcome::{Outcome, median, number};

/// Payload of a datagram, and what its frame counts for: UDP, IPv4, Ethernet and check sequence.
const PAYLOAD: u64 = 1000;
const FRAME_BITS: u64 = (PAYLOAD + 8 + 20 + 14 + 4) * 8;
/// Attempts, one after the other in one run.
const ATTEMPTS: u64 = 5;

/// Two hosts behind a router, and `ATTEMPTS` times `count` datagrams at once from a to b.
fn bursts(links: &str, count: u64) -> String {
    let mut text = format!(
        "
topology:
  nodes: {{ a: {{}}, b: {{}}, r: {{ kind: router }} }}
  links:
{links}
programs:
"
    );
    for n in 0..ATTEMPTS {
        let after = match n {
            0 => format!("recv{n}"),
            _ => format!("[recv{n}, drained{}]", n - 1),
        };
        text += &format!(
            "
  recv{n}:
    on: b
    run: $BENCH udp-recv --port {port} --idle 0.5 --deadline 25
    ready: log ready
  send{n}:
    on: a
    run: >-
      $BENCH udp-send --to 10.0.0.2:{port} --size {PAYLOAD} --rate max --batch {count} --count {count}
    after: {after}
  drained{n}: {{ on: a, run: sleep 0.4, after: send{n} }}
",
            port = 10 + n
        );
    }
    text
}

/// The receivers' reports; every datagram of every attempt is accounted for.
fn received(outcome: &Outcome, count: u64) -> Vec<Value> {
    let reports = |who: &str| {
        (0..ATTEMPTS)
            .map(|n| outcome.report(&format!("{who}{n}")))
            .collect()
    };
    let (sent, got): (Vec<Value>, Vec<Value>) = (reports("send"), reports("recv"));
    let sum = |reports: &[Value], field: &str| -> u64 {
        reports.iter().map(|report| number(&report[field])).sum()
    };
    assert_eq!(sum(&sent, "sent"), ATTEMPTS * count, "{sent:?}");
    assert_eq!(sum(&got, "kernel_drops"), 0, "{got:?}");
    outcome.assert_arrived(ATTEMPTS * count, sum(&got, "received"));
    got
}

#[test]
fn a_train_takes_the_time_that_the_rate_says() {
    let lab = Lab::new();
    let middle = |rate: &str| {
        format!("    - {{ ends: [a, r] }}\n    - {{ ends: [r, b], rate: {rate}, delay: 1 ms }}")
    };
    let link = |rate: &str| {
        format!("    - {{ ends: [a, r], rate: {rate}, delay: 1 ms }}\n    - {{ ends: [r, b] }}")
    };
    for (links, bits_per_s, count) in [
        (middle("10 Mbit/s"), 10_000_000, 60),
        (middle("80 Mbit/s"), 80_000_000, 400),
        (link("10 Mbit/s"), 10_000_000, 60),
    ] {
        let outcome = lab.succeed(&bursts(&links, count));
        let reports = received(&outcome, count);
        let bits = ((count - 1) * FRAME_BITS) as f64;
        let rates = reports
            .iter()
            .map(|got| bits / got["seconds"].as_f64().expect("a time"));
        let share = median(rates) / f64::from(bits_per_s);
        eprintln!("{links}: {share:.4} of the rate");
        assert!(
            (0.97..1.03).contains(&share),
            "{share} of the rate of\n{links}"
        );
    }
}

#[test]
fn a_burst_leaves_what_the_queue_holds_and_one_in_service() {
    const BURST: u64 = 60;
    let lab = Lab::new();
    // At 1 Mbit/s a frame takes 8.4 ms, far longer than the burst takes to come.
    for (queue, survivors) in [
        ("20 packets", 21),
        // 19 frames of 1046 bytes.
        ("20 kB", 20),
        // The twelfth waits 92 ms, the next one would wait 100 ms.
        ("96 ms", 12),
    ] {
        let links = format!(
            "    - {{ ends: [a, r] }}\n    - {{ ends: [r, b], rate: 1 Mbit/s, queue: {queue} }}"
        );
        let outcome = lab.succeed(&bursts(&links, BURST));
        let counts = received(&outcome, BURST);
        let counts: Vec<u64> = counts.iter().map(|got| number(&got["received"])).collect();
        assert_eq!(median(counts.clone()), survivors, "{queue}: {counts:?}");
        let lost = BURST * ATTEMPTS - counts.iter().sum::<u64>();
        if outcome.physical_drops() == 0 {
            assert_eq!(outcome.dropped_by("queue"), lost, "{outcome}");
        }
    }
}

/// A link that sends 1 and 4 Mbit/s for half a second each, with a queue that is never empty.
const STEPS: &str = "
topology:
  nodes: { a: {}, b: {}, r: { kind: router } }
  links:
    - { ends: [a, r] }
    - { ends: [r, b], delay: 1 ms, queue: 100 packets, trace: { file: steps.csv, loop: true } }
programs:
  recv: { on: b, run: python3 $DIR/arrivals.py 9, ready: log ready }
  send: { on: a, run: $BENCH udp-send --to 10.0.0.2:9 --size 1000 --rate 600 --seconds 3, after: recv }
";

#[test]
fn receivers_see_the_steps_of_a_trace() {
    /// Arrivals are counted over so long, and so many in each.
    const BIN_S: f64 = 0.05;
    const SLOW: f64 = 1e6 * BIN_S / FRAME_BITS as f64;
    const FAST: f64 = 4.0 * SLOW;
    let lab = Lab::new();
    fs::write(
        lab.dir().join("steps.csv"),
        "time_us, rate_bps\n0, 1000000\n500000, 4000000\n",
    )
    .expect("writing the trace");
    let outcome = lab.succeed(STEPS);
    let report = outcome.report("recv");
    let times = report["arrivals_s"].as_array().expect("arrivals").iter();
    let times: Vec<f64> = times.map(|time| time.as_f64().expect("a time")).collect();
    outcome.assert_arrived(number(&outcome.report("send")["sent"]), times.len() as u64);

    // Two whole periods of the trace: the same bytes, wherever they begin.
    let begin = times[0] + 0.3;
    let within = times
        .iter()
        .filter(|time| (begin..begin + 2.0).contains(*time));
    let mut bins = [0_u32; 40];
    within.for_each(|time| bins[((time - begin) / BIN_S) as usize % 40] += 1);
    let (all, expected) = (f64::from(bins.iter().sum::<u32>()), 20.0 * (SLOW + FAST));
    assert!(
        (0.97..1.03).contains(&(all / expected)),
        "{all} of {expected}: {bins:?}"
    );

    let is_fast = |count: u32| f64::from(count) > (SLOW + FAST) / 2.0;
    for (fast, expected) in [(false, SLOW), (true, FAST)] {
        let own = bins.iter().filter(|&&count| is_fast(count) == fast);
        let middle = f64::from(median(own.copied()));
        assert!(
            (middle - expected).abs() <= 1.0,
            "{middle} of {expected}: {bins:?}"
        );
    }
    // Half of the time each, in four or five stretches.
    let fast = bins.iter().filter(|&&count| is_fast(count)).count();
    assert!((18..=22).contains(&fast), "{fast} fast of 40: {bins:?}");
    let steps = bins
        .windows(2)
        .filter(|pair| is_fast(pair[0]) != is_fast(pair[1]));
    assert!((3..=5).contains(&steps.count()), "{bins:?}");
}
