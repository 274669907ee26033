//! Whatever the network does: all bytes arrive once and in order, within the window, in time;
//! whatever arrives: no panic, and time goes on.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_core::rng::Stream;
use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{
    Algorithm, Config, Ecn, EcnMode, Endpoint, Flags, Range, Segment, State, SynOptions, Timestamps,
};
use proptest::prelude::*;

use crate::sim::{Bottleneck, Impairment, Sim, ms, s};

fn config() -> impl Strategy<Value = Config> {
    let switches = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let sizes = (
        0usize..6,
        1u32..20,
        3_000u64..200_000,
        3_000u64..200_000,
        any::<bool>(),
    );
    (switches, sizes).prop_map(
        |((sack, rack, tlp, timestamps, ecn), (which, initcwnd, rmem, wmem, nodelay))| Config {
            congestion: Algorithm::ALL[which].1,
            ecn: if ecn { EcnMode::On } else { EcnMode::Off },
            sack,
            rack,
            tlp,
            timestamps,
            initcwnd,
            rmem,
            wmem,
            nodelay,
            retries2: 60,
            syn_retries: 60,
            synack_retries: 60,
            rto_max: Span::from_s(2),
            ..Config::default()
        },
    )
}

/// A network that for its first `decisions` loses, doubles, marks and delays, then is sound; and
/// that holds the sender to the window that the other side has advertised.
fn hostile(sim: &mut Sim, seed: u64, decisions: u64, percent: u64) -> Rc<Cell<u64>> {
    let mut stream = Stream::new(seed, "network");
    let mut left = decisions;
    let edge = Rc::new(Cell::new(0u64));
    let advertised = edge.clone();
    sim.rule = Box::new(move |_, from_a, segment, _| {
        if from_a && segment.len > 0 {
            assert!(
                segment.seq + u64::from(segment.len) <= advertised.get(),
                "beyond the window"
            );
        } else if !from_a {
            advertised.set(advertised.get().max(segment.ack + segment.window));
        }
        left = left.saturating_sub(1);
        let draw = stream.draw();
        if left == 0 || draw % 100 >= percent {
            return Impairment::Pass;
        }
        match draw / 100 % 5 {
            0 | 1 => Impairment::Drop,
            2 => Impairment::Duplicate,
            3 if segment.ecn != Ecn::NotEct => Impairment::Mark,
            _ => Impairment::Delay(Span::from_us(draw / 500 % 80_000)),
        }
    });
    edge
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn all_bytes_arrive_once_and_in_order(
        config in config(),
        seed in any::<u64>(),
        percent in 0u64..45,
        bytes in 1u64..400_000,
        rtt_ms in 1u64..200,
        limited in any::<bool>(),
    ) {
        let bottleneck = if limited { Bottleneck::new(10_000_000, 8) } else { Bottleneck::default() };
        let mut sim = Sim::new(bottleneck);
        hostile(&mut sim, seed, 2000, percent);
        sim.flow(&config, Span::from_ms(rtt_ms), Time::ZERO);
        sim.flows[0].b.set_auto_read(false);
        let (mut written, mut read, mut backwards) = (0, 0, false);
        let mut last = Time::ZERO;
        let mut step = 0u64;
        while sim.now < s(1000) {
            let next = sim.now + Span::from_ms(7);
            sim.run(next);
            backwards |= sim.now < last;
            last = sim.now;
            step += 1;
            let flow = &mut sim.flows[0];
            written += flow.a.write((bytes - written).min(step * 977 % 9000));
            if written == bytes {
                flow.a.close();
            }
            read += flow.b.read(step * 1999 % 20_000);
            prop_assert!(flow.b.readable() <= config.rmem + (1 << 14));
            if flow.b.state() == State::CloseWait {
                flow.b.close();
            }
            if flow.a.state() == State::Closed && flow.b.state() == State::Closed {
                break;
            }
        }
        read += sim.flows[0].b.read(u64::MAX);
        prop_assert_eq!(read, bytes);
        prop_assert_eq!(sim.flows[0].b.info().received, bytes);
        prop_assert_eq!(sim.flows[0].a.info().acknowledged, bytes);
        prop_assert!(!backwards);
        prop_assert_eq!((sim.flows[0].a.state(), sim.flows[0].b.state()), (State::Closed, State::Closed));
    }
}

/// A number that often lies near what the endpoint knows, and sometimes anywhere.
fn number(stream: &mut Stream) -> u64 {
    let draw = stream.draw();
    match draw % 8 {
        0 => draw,
        1 => u64::MAX - draw % 3,
        2 => 0,
        3 | 4 => 1 + draw / 8 % 4 * 1448,
        _ => draw / 8 % 60_000,
    }
}

fn any_segment(stream: &mut Stream) -> Segment {
    let draw = stream.draw();
    let mut segment = Segment {
        seq: number(stream),
        ack: number(stream),
        len: if draw & 1 == 0 {
            0
        } else {
            number(stream) as u32
        },
        window: number(stream),
        flags: match draw >> 1 & 7 {
            0 => Flags((draw >> 8) as u8),
            1 => Flags::SYN,
            2 => Flags::SYN.with(Flags::ACK),
            3 => Flags::ACK.with(Flags::FIN),
            4 => Flags::ACK.with(Flags::ECE),
            _ => Flags::ACK,
        },
        ecn: if draw & 1 << 20 == 0 {
            Ecn::Ce
        } else {
            Ecn::Ect0
        },
        ..Segment::default()
    };
    if draw & 1 << 21 == 0 {
        segment.timestamps = Some(Timestamps {
            value: number(stream),
            echo: number(stream),
        });
    }
    if draw & 1 << 22 == 0 {
        segment.syn = Some(SynOptions {
            mss: number(stream) as u32,
            window_scale: Some(draw as u8),
            sack_permitted: draw & 1 << 23 == 0,
        });
    }
    for _ in 0..draw >> 24 & 3 {
        segment.sacks.push(Range {
            start: number(stream),
            end: number(stream),
        });
    }
    segment
}

/// Segments of any content at any time, amid a real exchange or none.
#[test]
fn no_segment_makes_an_endpoint_panic() {
    for seed in 0..3000 {
        let mut stream = Stream::new(seed, "segments");
        let config = Arc::new(Config {
            congestion: Algorithm::ALL[seed as usize % 6].1,
            sack: seed % 5 != 0,
            rack: seed % 7 != 0,
            ecn: EcnMode::On,
            ..Config::default()
        });
        let mut a = Endpoint::connect(Time::ZERO, config.clone(), seed);
        let mut b = Endpoint::listen(config, seed);
        if seed % 2 == 0 {
            for _ in 0..3 {
                while let Some(segment) = a.poll_transmit(ms(1)) {
                    b.handle_segment(ms(1), &segment);
                }
                while let Some(segment) = b.poll_transmit(ms(1)) {
                    a.handle_segment(ms(1), &segment);
                }
            }
        }
        a.write(40_000);
        b.write(10_000);
        let mut now = ms(1);
        for _ in 0..200 {
            for end in [&mut a, &mut b] {
                end.handle_segment(now, &any_segment(&mut stream));
                let mut left = 0;
                while end.poll_transmit(now).is_some() {
                    left += 1;
                    assert!(left < 1000, "seed {seed}: sends without end");
                }
                let mut calls = 0;
                while end.poll_timeout().is_some_and(|at| at <= now) {
                    end.handle_timeout(now);
                    while end.poll_transmit(now).is_some() {}
                    calls += 1;
                    assert!(calls < 10, "seed {seed}: time does not advance");
                }
                end.read(number(&mut stream));
            }
            now += Span::from_us(stream.draw() % 200_000);
        }
    }
}
