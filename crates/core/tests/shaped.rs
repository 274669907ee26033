//! Pipes with everything that a plain one does not do: what does not depend on how the engine is
//! driven. Tables that can be checked by hand are in `shaped_tables.rs`.

mod common;

use common::cases::{Action, Case, Manner, TICK, build, case, params, run_engine, target};
use common::mechanisms::all;
use common::{Delivery, Plain, assert_balanced, drain, frame};
use longhaul_core::params::PipeParams;
use longhaul_core::units::QueueLimit;
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Time};
use proptest::prelude::*;

proptest! {
    /// Sums are checked after every step of these runs, and slots at their end.
    #[test]
    fn steps_of_any_size_give_the_same(case in case(true, all()), step in 1u64..5000) {
        let one = run_engine(&case, Manner::default());
        for (step, eager) in [(step, false), (0, true), (step, true)] {
            let other = run_engine(&case, Manner { step, eager, ..Manner::default() });
            prop_assert_eq!(&one.deliveries, &other.deliveries);
            prop_assert_eq!(one.drops, other.drops);
            prop_assert_eq!(&one.pipes, &other.pipes);
        }
    }

    #[test]
    fn a_link_elsewhere_changes_nothing(case in case(true, all())) {
        let elsewhere = Manner { elsewhere: true, ..Manner::default() };
        let (one, other) = (run_engine(&case, Manner::default()), run_engine(&case, elsewhere));
        prop_assert_eq!(one.deliveries, other.deliveries);
        prop_assert_eq!(one.drops, other.drops);
    }
}

/// Runs a case in which arrivals are read late, by so many tenths of a microsecond in turn; the
/// stamps of a host are in order. What comes out is in order of time and never in the past.
fn run_late(case: &Case, always_shaped: bool, late: &[u64]) -> Vec<Delivery> {
    let topology = build(case);
    let config = EngineConfig {
        seed: case.seed,
        slots: 4096,
        always_shaped,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology.clone(), config, Box::new(Plain));
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let pipe = |number: usize| PipeId((number % topology.pipes().len()) as u32);
    let mut late = late.iter().cycle();
    let mut stamps = vec![0; hosts.len()];
    let (mut time, mut latest) = (0, 0);
    let mut deliveries: Vec<Delivery> = Vec::new();
    let mut take = |engine: &mut Engine, to: u64| {
        let before = engine.now().as_ns();
        engine.advance(Time::from_ns(to));
        assert_balanced(engine);
        for row in drain(engine) {
            assert!(row.2 >= latest.max(before) && row.2 <= to, "{row:?}");
            latest = row.2;
            deliveries.push(row);
        }
    };
    for (ticks, action) in &case.actions {
        time += ticks * TICK;
        take(&mut engine, time);
        match action {
            Action::Set {
                pipe: n, params, ..
            } => {
                engine.set(pipe(*n), PipeParams::clone(params));
            }
            Action::Up {
                pipe: n,
                up,
                keep_queue,
            } => engine.set_up(pipe(*n), *up, *keep_queue),
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let number = from % hosts.len();
                let source = topology.node(hosts[number]).ipv4;
                let nobody = [192, 0, 2, 1].into();
                let to = target(&topology, *to).map_or(nobody, |to| topology.node(to).ipv4);
                let frame = frame(source, to, *ip_len, *ttl, false);
                for by in late.by_ref().take(*burst) {
                    let stamp = time.saturating_sub(by * 100).max(stamps[number]);
                    stamps[number] = stamp;
                    let stamp = Time::from_ns(stamp);
                    engine.arrive(hosts[number], stamp, &frame).unwrap();
                }
            }
        }
    }
    for n in 0..topology.pipes().len() {
        engine.set_up(pipe(n), true, true);
    }
    take(&mut engine, u64::MAX);
    assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
    deliveries
}

fn late() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 2 => 0u64..80], 1..30)
}

/// Queues that are never full: whether a late packet finds room depends on the departures that
/// have been done, and those a plain pipe takes back.
fn roomy() -> impl Strategy<Value = PipeParams> {
    params().prop_map(|params| PipeParams {
        queue: QueueLimit::default(),
        ..params
    })
}

proptest! {
    #[test]
    fn late_packets_come_out_in_order(case in case(true, all()), late in late()) {
        run_late(&case, false, &late);
    }

    /// Staleness too: each packet has its own, not the first of a burst alone.
    #[test]
    fn late_packets_are_served_as_in_plain_pipes(case in case(false, roomy()), late in late()) {
        prop_assert_eq!(run_late(&case, false, &late), run_late(&case, true, &late));
    }
}
