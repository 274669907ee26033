//! Look-ahead windows give the results of one event at a time, in every detail.

mod common;

use common::cases::{Case, Manner, TICK, case, params, run_engine};
use longhaul_core::Span;
use longhaul_core::engine::Windows;
use longhaul_core::params::{Distribution, Jitter, PipeParams};
use proptest::prelude::*;
use std::sync::Arc;

/// Plain pipes most of which are long enough for windows of many packets; some are short, some
/// take no time, some are shaped.
fn mostly_long() -> impl Strategy<Value = PipeParams> {
    let delay = prop_oneof![
        6 => (40u64..80).prop_map(|ticks| Span::from_ns(ticks * TICK)),
        2 => (16_000u64..40_000).prop_map(Span::from_ns),
        1 => Just(Span::ZERO),
    ];
    let jitter = prop::bool::weighted(0.03);
    (params(), delay, jitter).prop_map(|(plain, delay, jitter)| PipeParams {
        delay,
        jitter: jitter.then(|| {
            Arc::new(Jitter {
                distribution: Distribution::Uniform {
                    low: 100.0,
                    high: 30_000.0,
                },
                correlation: 0.0,
                reorder: true,
            })
        }),
        ..plain
    })
}

/// Only such as windows are for.
fn long() -> impl Strategy<Value = PipeParams> {
    (params(), 40u64..80).prop_map(|(plain, ticks)| PipeParams {
        delay: Span::from_ns(ticks * TICK),
        ..plain
    })
}

/// Runs a case by windows wherever they are valid, with memory near or far, by those that pay, and
/// by the heap alone.
fn check(case: &Case, base: Manner) -> Result<(), TestCaseError> {
    let by = |windows| run_engine(case, Manner { windows, ..base });
    let heap = by(Windows::Never);
    for windows in [Windows::Near, Windows::Far, Windows::Paying] {
        let other = by(windows);
        prop_assert_eq!(&heap.deliveries, &other.deliveries);
        prop_assert_eq!(heap.drops, other.drops);
        prop_assert_eq!(&heap.pipes, &other.pipes);
        prop_assert_eq!(heap.counters, other.counters);
        prop_assert_eq!(heap.hash, other.hash);
    }
    Ok(())
}

fn manners(step: u64) -> impl Iterator<Item = Manner> {
    let steps = [(0, false), (0, true), (step, false), (step, true)];
    steps.into_iter().flat_map(|(step, eager)| {
        [false, true].map(|lively| Manner {
            step,
            eager,
            lively,
            watched: lively != eager,
            ..Manner::default()
        })
    })
}

proptest! {
    #[test]
    fn windows_equal_the_heap(case in case(false, long()), step in 100u64..50_000) {
        for manner in manners(step) {
            check(&case, manner)?;
        }
    }

    #[test]
    fn windows_equal_the_heap_under_changes(
        case in case(true, mostly_long()),
        step in 100u64..50_000,
    ) {
        for manner in manners(step) {
            check(&case, manner)?;
        }
    }
}
