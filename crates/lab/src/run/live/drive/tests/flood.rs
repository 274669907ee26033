//! Floods of any size, over paths of any delay, on machines of any speed: what is inside keeps its
//! time, and the loop still carries nearly what it can.

use std::time::Duration;

use longhaul_core::Span;
use longhaul_plan::plan::Plan;
use proptest::prelude::*;

use super::every;
use super::harness::Setup;
use super::machine::Machine;

const SECONDS: u64 = 2;

/// Two hosts with this delay between them, two fifths of it on the first link.
fn path(delay: Span) -> Plan {
    let us = delay.as_ns() / 1_000;
    let text = format!(
        "
topology:
  nodes: {{ a: {{}}, b: {{}}, g: {{ kind: router }} }}
  links:
    - {{ ends: [a, g], delay: {} us }}
    - {{ ends: [b, g], delay: {} us }}
",
        us * 2 / 5,
        us * 3 / 5
    );
    Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_flood_does_not_delay_what_is_inside(
        read_ns in 200u64..2_000,
        send_us in 15u64..60,
        delay_us in 500u64..60_000,
        // In tenths of what could be sent if reading cost nothing.
        load in 12u64..40,
    ) {
        let gap = Span::from_ns(send_us * 10_000 / load);
        let mut machine = Machine::new(every(SECONDS, gap));
        machine.read_cost = Duration::from_nanos(read_ns);
        machine.send_cost = Duration::from_micros(send_us);
        machine.ring = 16_384;
        let delay = Span::from_us(delay_us);
        let end = Span::from_s(SECONDS) + delay + Span::from_ms(500);
        let run = Setup { plan: path(delay), ..Setup::new(machine, end) }.run();
        let arrivals_per_s = 1e9 / gap.as_ns() as f64;
        let carries_per_s = (1.0 - arrivals_per_s * read_ns as f64 / 1e9) / (send_us as f64 / 1e6);
        let part = run.delivered as f64 / (carries_per_s * SECONDS as f64);
        prop_assert!(part > 0.75, "{part} of what it carries");
        // Before the loop knows what packets cost, it lets in a path's delay of them and as many as its patience
        // allows, of which the longest is 200 ms, and learns for some intervals.
        let first = arrivals_per_s * (delay.as_ns() as f64 / 1e9 + 0.25);
        let late = run.verdict.late_share * run.delivered as f64;
        prop_assert!(late < first, "{late} late, {first} at first");
        let second = &run.seconds[1].shares;
        let late = second.late as f64 / second.packets as f64;
        prop_assert!(late < 0.01, "{late} of the second second");
        let lateness = run.verdict.lateness_ns.expect("a live run");
        prop_assert!(lateness.p50 < 16 * (send_us * 1_000 + read_ns), "{lateness:?}");
    }
}
