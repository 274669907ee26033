//! Events of the file: what they are lowered to.

use longhaul_core::units::Rate;
use longhaul_core::{Span, Time};
use longhaul_plan::plan::Plan;
use longhaul_plan::schedule::{Action, Event};

const NETWORK: &str = "
duration: 60 s
topology:
  nodes: { a: { count: 2 }, b: {}, r: { kind: router }, s: { kind: router } }
  links:
    - { ends: [a, r], rate: 1 Gbit/s, delay: 1 ms }
    - { ends: [r, s], rate: 1 Gbit/s, delay: 5 ms }
    - { ends: [r, s], name: backup, delay: 50 ms }
    - { ends: [s, b] }
programs: { p: { on: a0, run: x } }
";

fn plan(events: &str) -> Plan {
    let text = format!("{NETWORK}{events}");
    Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"))
}

fn names(plan: &Plan, event: &Event) -> String {
    let pipes = event.action.pipes().iter();
    let names = pipes.map(|pipe| plan.topology.pipe(*pipe).name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn events_name_links_pipes_groups_and_routers() {
    let plan = plan(
        "events:
  - { at: 5 s, link: r-s, set: { delay: 50 ms, loss: { one_in: 100 } } }
  - { at: 6 s, link: s>r, down: 2 s }
  - { at: 7 s, link: [backup, a1-r], up: true }
  - { at: 8 s, router: s, down: true, keep_queue: true }
  - { at: 9 s, link: a-r, set: { rate: 10 Mbit/s } }
  - { at: 10 s, link: r-s, ramp: { rate: 10 Mbit/s }, over: 5 s, every: 20 s, times: 3 }
routing: { convergence: 300 ms }
",
    );
    let events = &plan.schedule.events;
    let pipes: Vec<String> = events.iter().map(|event| names(&plan, event)).collect();
    assert_eq!(
        pipes,
        [
            "r>s s>r",
            "s>r",
            "a1>r backup:r>s backup:s>r r>a1",
            "b>s backup:r>s backup:s>r r>s s>b s>r",
            "a0>r a1>r r>a0 r>a1",
            "r>s s>r",
        ]
    );
    let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "r-s: delay 50 ms, loss one in 100",
            "s>r: down for 2 s",
            "backup, a1-r: up",
            "s: down",
            "a-r: rate 10 Mbit/s",
            "r-s: rate 10 Mbit/s over 5 s",
        ]
    );
    let down = |event: &Event| match event.action {
        Action::Down {
            lasts, keep_queue, ..
        } => (lasts, keep_queue),
        _ => panic!("{event:?}"),
    };
    assert_eq!(down(&events[1]), (Some(Span::from_s(2)), false));
    assert_eq!(down(&events[3]), (None, true));
    let Action::Ramp { ramp, .. } = &events[5].action else {
        panic!()
    };
    assert_eq!(ramp.to.rate, Some(Rate::from_bits_per_s(10_000_000)));
    assert_eq!((ramp.over, ramp.step), (Span::from_s(5), Span::from_ms(10)));
    assert_eq!(
        (events[5].at, events[5].every, events[5].times),
        (
            Time::from_ns(10_000_000_000),
            Some(Span::from_s(20)),
            Some(3)
        )
    );
    assert_eq!(plan.schedule.convergence, Span::from_ms(300));
    assert_eq!(plan.warnings, Vec::<String>::new());
}

#[test]
fn convergence_takes_a_second_unless_the_file_says_otherwise() {
    assert_eq!(plan("").schedule.convergence, Span::from_s(1));
}

#[test]
fn an_event_after_the_end_is_a_warning() {
    let plan =
        plan("events: [{ at: 60 s, link: r-s, down: 1 s }, { at: 59 s, link: r-s, up: true }]");
    assert!(
        matches!(&plan.warnings[..], [one] if one.contains("60 s never happens")),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn a_ramp_may_begin_with_what_an_event_has_set() {
    plan(
        "events:
  - { at: 5 s, link: backup, set: { rate: 1 Gbit/s } }
  - { at: 6 s, link: backup, ramp: { rate: 10 Mbit/s }, over: 1 s }
",
    );
}

#[test]
fn the_order_of_links_changes_no_event() {
    let events = "events: [{ at: 1 s, link: [backup, r-s, backup], down: 1 s }]\n";
    let one = plan(events);
    assert_eq!(
        names(&one, &one.schedule.events[0]),
        "backup:r>s backup:s>r r>s s>r",
        "each pipe once, by number"
    );
}

#[test]
fn a_burst_may_follow_a_rate_that_an_event_sets() {
    plan(
        "events:
  - { at: 5 s, link: backup, set: { rate: 1 Gbit/s } }
  - { at: 6 s, link: backup, set: { burst: 16 kB } }
",
    );
}

/// 4 s at 1 Gbit/s are a million full packets under way, which a link of 1 ms does not need.
#[test]
fn the_packet_pool_has_room_for_what_events_change() {
    // Super-packets need a larger pool from the start.
    let slots = |events: &str| plan(&format!("offload: false\n{events}")).packet_slots();
    let before = slots("");
    let far = slots("events: [{ at: 1 s, link: a-r, set: { rate: 1 Gbit/s, delay: 4 s } }]");
    let ramp =
        slots("events: [{ at: 1 s, link: a-r, ramp: { delay: 4 s, loss: 1 % }, over: 1 s }]");
    let most = (1 << 30) / plan("").slot_bytes();
    assert!(before < most / 2, "{before}");
    assert!(far == most && ramp > before, "{far}, {ramp}, not {most}");
}
