//! The engine against the reference model, on random networks with random traffic.
//!
//! Every delivery is compared: which packet, where, when to the nanosecond, in which order; and
//! every drop by cause. Pipes are plain, or have the general form with nothing in it that a plain
//! pipe could not do, from the start or from some point on.

mod common;

use common::cases::{Action, Case, Manner, Outcome, TICK, build, case, params, run_engine, target};
use common::reference::Reference;
use longhaul_core::engine::Windows;
use longhaul_core::observe::Counters;
use longhaul_core::topology::PipeParams;
use longhaul_core::{NodeId, PipeId};
use proptest::prelude::*;

fn run_reference(case: &Case) -> Outcome {
    let topology = build(case);
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let pipe = |pipe: &usize| PipeId((pipe % topology.pipes().len()) as u32);
    let mut reference = Reference::new(topology.clone(), case.seed);
    let mut time = 0;
    for (ticks, action) in &case.actions {
        time += ticks * TICK;
        match action {
            Action::Set {
                pipe: n, params, ..
            } => {
                reference.advance_before(time);
                reference.set(pipe(n), PipeParams::clone(params), time);
            }
            Action::Up {
                pipe: n,
                up,
                keep_queue,
            } => {
                reference.advance_before(time);
                reference.set_up(pipe(n), *up, *keep_queue, time);
            }
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let host = hosts[from % hosts.len()];
                let to = target(&topology, *to);
                for _ in 0..*burst {
                    reference.arrive(host, time, to, u32::from(*ip_len), *ttl);
                }
            }
        }
    }
    reference.advance_before(time + TICK);
    for n in 0..topology.pipes().len() {
        reference.set_up(pipe(&n), true, true, time + TICK);
    }
    reference.advance_before(u64::MAX);
    assert_eq!(reference.inside(), 0);
    Outcome {
        deliveries: reference.deliveries,
        drops: reference.drops,
        pipes: Vec::new(),
        counters: Counters::default(),
        hash: 0,
        queues: Vec::new(),
        services: Default::default(),
    }
}

const EAGER: Manner = Manner {
    step: 0,
    eager: true,
    always_shaped: false,
    windows: Windows::Paying,
    lively: false,
    elsewhere: false,
    balance: None,
    reroutes: false,
    watched: false,
    measured: false,
};

fn always_shaped(manner: Manner) -> Manner {
    Manner {
        always_shaped: true,
        ..manner
    }
}

proptest! {
    #[test]
    fn the_engine_equals_the_reference(case in case(false, params())) {
        let reference = run_reference(&case);
        for manner in [Manner::default(), always_shaped(Manner::default())] {
            let engine = run_engine(&case, manner);
            prop_assert_eq!(&engine.deliveries, &reference.deliveries);
            prop_assert_eq!(engine.drops, reference.drops);
        }
    }

    #[test]
    fn the_engine_equals_the_reference_under_changes(case in case(true, params())) {
        let reference = run_reference(&case);
        for manner in [EAGER, always_shaped(EAGER)] {
            let engine = run_engine(&case, manner);
            prop_assert_eq!(&engine.deliveries, &reference.deliveries);
            prop_assert_eq!(engine.drops, reference.drops);
        }
    }

    #[test]
    fn shaped_pipes_count_what_plain_ones_count(case in case(true, params())) {
        let (plain, shaped) = (run_engine(&case, EAGER), run_engine(&case, always_shaped(EAGER)));
        prop_assert_eq!(plain.pipes, shaped.pipes);
    }

    #[test]
    fn steps_of_any_size_give_the_same(case in case(true, params()), step in 1u64..5000) {
        for base in [Manner::default(), always_shaped(Manner::default())] {
            let one = run_engine(&case, base);
            for (step, eager) in [(step, false), (0, true), (step, true), (TICK, true)] {
                let other = run_engine(&case, Manner { step, eager, ..base });
                prop_assert_eq!(&one.deliveries, &other.deliveries);
                prop_assert_eq!(one.drops, other.drops);
            }
        }
    }
}
