//! The other side's window: closed, probed, opened, never passed.

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config, Event};

use crate::sim::{Bottleneck, Sim, in_ms, ms, s, unlimited};

/// A reader that does not read, with a buffer of 20 000 bytes and a round trip of 100 ms.
fn stuck() -> Sim {
    let mut sim = Sim::new(Bottleneck::default());
    let config = Config {
        rmem: 20_000,
        ..unlimited(Algorithm::Reno)
    };
    let flow = sim.flow(&config, Span::from_ms(100), Time::ZERO);
    flow.b.set_auto_read(false);
    flow.a.write(100_000);
    sim.log = Some(Vec::new());
    sim
}

/// The first probe comes a time-out (100 + 200 ms) after the window was found closed; the waits
/// double up to 120 s (RFC 9293 §3.8.6.1).
#[test]
fn a_closed_window_is_probed_ever_more_rarely_and_for_ever() {
    let mut sim = stuck();
    sim.run(s(4000));
    let flow = &sim.flows[0];
    let held = flow.b.readable();
    assert!((20_000 - 1448..=20_000).contains(&held), "{held}");
    let log = sim.log.take().unwrap();
    let last_data = log
        .iter()
        .filter(|(_, from_a, seg)| *from_a && seg.len > 0)
        .map(|(at, _, _)| *at)
        .max();
    let probes: Vec<f64> = log
        .iter()
        .filter(|(at, from_a, seg)| {
            *from_a && seg.len == 0 && Some(*at) > last_data && seg.seq == held
        })
        .map(|(at, _, _)| in_ms(*at))
        .collect();
    assert!(probes.len() > 20, "{probes:?}");
    let gaps: Vec<f64> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (i, gap) in gaps.iter().enumerate() {
        let expected = (gaps[0] * 2_f64.powi(i as i32)).min(120_000.0);
        assert_eq!(*gap, expected, "{gaps:?}");
    }
    assert!((600.0..650.0).contains(&gaps[0]), "{gaps:?}");
}

#[test]
fn reading_opens_the_window_when_it_is_worth_it() {
    let mut sim = stuck();
    sim.run(s(2));
    let flow = &mut sim.flows[0];
    let answers = flow.answers;
    let held = flow.b.readable();
    assert_eq!(flow.b.read(100), 100);
    sim.run(s(2) + Span::from_ms(1));
    assert_eq!(sim.flows[0].answers, answers, "a silly window");
    assert_eq!(sim.flows[0].b.read(u64::MAX), held - 100);
    sim.run(s(2) + Span::from_ms(120));
    assert!(sim.flows[0].b.readable() > 10_000, "no probe is needed");
    sim.watch(s(4), Span::from_ms(10), |sim| {
        sim.flows[0].b.read(u64::MAX);
    });
    assert_eq!(sim.flows[0].b.info().received, 100_000);
}

/// What a reader of 1 MB/s takes sets the pace of the sender.
#[test]
fn a_slow_reader_sets_the_pace() {
    let mut sim = Sim::new(Bottleneck::default());
    let config = Config {
        rmem: 64_000,
        ..unlimited(Algorithm::Cubic)
    };
    let flow = sim.flow(&config, Span::from_ms(10), Time::ZERO);
    flow.b.set_auto_read(false);
    flow.a.write(1 << 40);
    sim.run(ms(500));
    let before = sim.flows[0].b.info().received;
    let mut read = 0;
    sim.watch(ms(10_500), Span::from_ms(1), |sim| {
        read += sim.flows[0].b.read(1000)
    });
    let received = sim.flows[0].b.info().received - before;
    assert_eq!(read, 10_000 * 1000);
    assert!(received.abs_diff(read) <= 64_000, "{received}");
}

/// Without room nothing more is accepted, and news come when a third is free.
#[test]
fn a_full_send_buffer_refuses_and_announces_room() {
    let mut sim = Sim::new(Bottleneck::default());
    let config = Config {
        wmem: 30_000,
        ..unlimited(Algorithm::Cubic)
    };
    let flow = sim.flow(&config, Span::from_ms(10), Time::ZERO);
    assert_eq!(flow.a.write(50_000), 30_000);
    assert_eq!(flow.a.write(1), 0);
    sim.run(ms(35));
    let a = &mut sim.flows[0].a;
    let events: Vec<Event> = std::iter::from_fn(|| a.poll_event()).collect();
    assert_eq!(events, [Event::Connected, Event::Writable]);
    assert!(a.write(u64::MAX) >= 10_000);
    assert_eq!(a.buffered(), 30_000);
}
