//! The trace hash: what changes it, and what does not.

mod common;

use common::cases::{Case, Manner, TICK, case, params, run_engine};
use common::{Plain, drain, frame, host, topology};
use longhaul_core::engine::Windows;
use longhaul_core::params::{CoDel, Discipline, LossModel, PipeParams};
use longhaul_core::units::{Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, Span, Time};
use proptest::prelude::*;

fn hash(case: &Case, manner: Manner) -> u64 {
    run_engine(case, manner).hash
}

proptest! {
    #[test]
    fn it_does_not_depend_on_how_the_engine_is_driven(
        case in case(true, params()),
        step in 1u64..5000,
    ) {
        let steps = [(0, false), (0, true), (step, true), (TICK, false)];
        for lively in [false, true] {
            let base = Manner { lively, ..Manner::default() };
            let one = hash(&case, base);
            for (step, eager) in steps {
                for windows in [Windows::Paying, Windows::Near, Windows::Far, Windows::Never] {
                    prop_assert_eq!(one, hash(&case, Manner { step, eager, windows, ..base }));
                }
            }
            prop_assert_eq!(one, hash(&case, Manner { watched: true, ..base }));
            let elsewhere = Manner { elsewhere: true, ..base };
            prop_assert!(lively || one == hash(&case, elsewhere));
        }
    }

    #[test]
    fn plain_and_shaped_pipes_have_the_same(case in case(true, params())) {
        let eager = Manner { eager: true, ..Manner::default() };
        let shaped = Manner { always_shaped: true, ..eager };
        prop_assert_eq!(hash(&case, eager), hash(&case, shaped));
    }
}

/// Two hosts of unequal speed send to each other and to a third through two routers; `odd` is
/// the length of one packet.
fn scenario(pipe: &PipeParams, seed: u64, odd: u16) -> Engine {
    let access = PipeParams {
        delay: Span::from_us(120),
        ..PipeParams::default()
    };
    let links = [
        ("h0", "r0", access.clone()),
        ("h1", "r0", access.clone()),
        ("r0", "r1", pipe.clone()),
        ("r1", "h2", access),
    ];
    let config = EngineConfig {
        seed,
        slots: 4096,
        trace_hash: true,
        ..EngineConfig::default()
    };
    let topology = topology(&["h0", "h1", "h2", "r0", "r1"], &links);
    let mut engine = Engine::new(topology, config, Box::new(Plain));
    for n in 0..500u64 {
        let (from, to) = [("h0", "h2"), ("h1", "h2"), ("h0", "h1"), ("h2", "h0")][n as usize % 4];
        let address = |name| engine.topology().node(host(&engine, name)).ipv4;
        let len = if n == 321 {
            odd
        } else {
            1500 - (n % 7) as u16 * 100
        };
        let ttl = if n % 50 == 0 { 1 } else { 64 };
        let frame = frame(address(from), address(to), len, ttl, n % 2 == 0);
        let at = Time::from_ns(n * 5000);
        engine.advance_before(at);
        engine.arrive(host(&engine, from), at, &frame).unwrap();
    }
    engine.advance(Time::MAX);
    drain(&mut engine);
    engine
}

fn plain() -> PipeParams {
    PipeParams {
        rate: Rate::from_bits_per_s(1_000_000_000),
        delay: Span::from_ms(1),
        queue: QueueLimit::Packets(20),
        loss: LossModel::Independent(Probability::from_ratio(1, 20).unwrap()),
        ..PipeParams::default()
    }
}

fn codel() -> PipeParams {
    PipeParams {
        rate: Rate::from_bits_per_s(500_000_000),
        discipline: Discipline::CoDel(CoDel {
            target: Span::from_us(50),
            interval: Span::from_us(500),
            ecn: true,
        }),
        duplicate: Probability::from_ratio(1, 50).unwrap(),
        corrupt: Probability::from_ratio(1, 50).unwrap(),
        ..plain()
    }
}

/// Committed values, the same for every build profile and machine: a change here means that runs
/// of before and after cannot be compared by their hash.
#[test]
fn hashes_never_change() {
    let hashes = [
        scenario(&plain(), 1, 700).trace_hash(),
        scenario(&codel(), 2, 700).trace_hash(),
    ];
    assert_eq!(
        hashes,
        [1_379_005_674_051_752_461, 6_145_858_350_896_353_129]
    );
}

#[test]
fn one_different_packet_makes_a_difference() {
    let one = scenario(&plain(), 1, 700);
    assert_eq!(one.trace_hash(), scenario(&plain(), 1, 700).trace_hash());
    assert_ne!(one.trace_hash(), scenario(&plain(), 1, 701).trace_hash());
    assert_ne!(one.trace_hash(), scenario(&plain(), 2, 700).trace_hash());
}

#[test]
fn it_is_zero_unless_it_is_wanted() {
    let links = [("h0", "h1", PipeParams::default())];
    let topology = topology(&["h0", "h1"], &links);
    let mut engine = Engine::new(topology, EngineConfig::default(), Box::new(Plain));
    common::send(&mut engine, "h0", "h1", 0, 100);
    engine.advance(Time::MAX);
    assert_eq!(drain(&mut engine).len(), 1);
    assert_eq!(engine.trace_hash(), 0);
}

/// Hosts' arrivals may be handed over in any order among hosts.
#[test]
fn the_order_of_hosts_at_ingress_does_not_matter() {
    let run = |order: [&str; 2]| {
        let pipe = plain();
        let links = [
            ("h0", "r0", pipe.clone()),
            ("h1", "r0", pipe.clone()),
            ("r0", "h2", pipe),
        ];
        let config = EngineConfig {
            trace_hash: true,
            ..EngineConfig::default()
        };
        let topology = topology(&["h0", "h1", "h2", "r0"], &links);
        let mut engine = Engine::new(topology, config, Box::new(Plain));
        for from in order {
            for n in 0..100 {
                common::send(&mut engine, from, "h2", n * 1000, 1000);
            }
        }
        engine.advance(Time::MAX);
        drain(&mut engine);
        engine.trace_hash()
    };
    assert_eq!(run(["h0", "h1"]), run(["h1", "h0"]));
}
