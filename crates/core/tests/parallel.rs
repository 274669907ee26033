//! Engines over shares of a network give what one engine over all of it gives, in every detail.

mod common;

use common::Delivery;
use common::cases::{Case, Manner, TICK, case, params, run_engine};
use common::mechanisms::all;
use common::split::run_split;
use longhaul_core::Span;
use longhaul_core::engine::Windows;
use longhaul_core::params::PipeParams;
use longhaul_core::topology::Balance;
use proptest::prelude::*;

/// Plain pipes most of which take long enough to be cut.
fn mostly_long() -> impl Strategy<Value = PipeParams> {
    let delay = prop_oneof![
        8 => (1u64..80).prop_map(|ticks| Span::from_ns(ticks * TICK)),
        1 => Just(Span::ZERO),
    ];
    (params(), delay).prop_map(|(plain, delay)| PipeParams { delay, ..plain })
}

/// Pipes with any mechanism, whose delays allow them to be cut more often than not.
fn any_mechanism() -> impl Strategy<Value = PipeParams> {
    let delay = prop_oneof![
        8 => (1u64..40).prop_map(|ticks| Span::from_ns(ticks * TICK)),
        1 => Just(Span::ZERO),
    ];
    (all(), delay).prop_map(|(params, delay)| PipeParams { delay, ..params })
}

/// Deliveries by host, without the numbers of arrivals, which each engine counts for itself.
fn by_host(deliveries: &[Delivery]) -> Vec<(u32, u64, u64, u64, u32)> {
    let mut all: Vec<_> = deliveries
        .iter()
        .map(|&(_, host, due, delay, shift, len)| (host, due, delay, shift, len))
        .collect();
    all.sort_by_key(|&(host, due, ..)| (host, due)); // stable
    all
}

fn check(case: &Case, manner: Manner, pick: u64) -> Result<u64, TestCaseError> {
    let one = run_engine(case, manner);
    let mut crossed = 0;
    for cores in [1, 2, 3, 4, 8] {
        let (many, over) = run_split(case, manner, cores, pick);
        prop_assert_eq!(by_host(&one.deliveries), by_host(&many.deliveries));
        prop_assert_eq!(one.drops, many.drops);
        prop_assert_eq!(&one.pipes, &many.pipes);
        prop_assert_eq!(one.counters, many.counters);
        prop_assert_eq!(one.hash, many.hash);
        crossed += over;
    }
    Ok(crossed)
}

fn manners() -> impl Strategy<Value = Manner> {
    let windows = prop_oneof![
        Just(Windows::Paying),
        Just(Windows::Never),
        Just(Windows::Near),
        Just(Windows::Far)
    ];
    let balance = prop_oneof![
        Just(None),
        Just(Some(Balance::Flow)),
        Just(Some(Balance::RoundRobin))
    ];
    let flags = any::<[bool; 3]>();
    (windows, balance, flags).prop_map(|(windows, balance, [lively, shaped, reroutes])| Manner {
        eager: true,
        windows,
        balance,
        lively,
        always_shaped: shaped,
        reroutes,
        ..Manner::default()
    })
}

proptest! {
    #[test]
    fn shares_equal_the_whole(
        case in case(false, mostly_long()),
        manner in manners(),
        pick in any::<u64>(),
    ) {
        check(&case, manner, pick)?;
    }

    #[test]
    fn shares_equal_the_whole_under_changes(
        case in case(true, mostly_long()),
        manner in manners(),
        pick in any::<u64>(),
    ) {
        check(&case, manner, pick)?;
    }

    #[test]
    fn shares_equal_the_whole_with_every_mechanism(
        case in case(true, any_mechanism()),
        manner in manners(),
        pick in any::<u64>(),
    ) {
        check(&case, manner, pick)?;
    }

    /// A bound that never holds would make horizons too wide, so it is held to all that is drawn.
    #[test]
    fn nothing_comes_out_sooner_than_the_least_delay(
        case in case(false, any_mechanism()),
        seed in any::<u64>(),
    ) {
        let params = &case.params[0].0;
        common::fastest(params, seed, |fastest| {
            assert!(fastest >= params.least_delay(), "{fastest:?} {params:?}");
        });
    }
}

/// The cases above are of use only if packets do cross cuts.
#[test]
fn packets_cross_cuts() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let crossed = std::cell::Cell::new(0);
    let cases = (case(true, any_mechanism()), manners(), any::<u64>());
    let result = runner.run(&cases, |(case, manner, pick)| {
        crossed.set(crossed.get() + check(&case, manner, pick)?);
        Ok(())
    });
    result.unwrap();
    assert!(crossed.get() > 1000, "{} packets crossed", crossed.get());
}
