//! Explicit congestion notification: negotiation, echo, reaction.

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config, Ecn, EcnMode, Flags};

use crate::sim::{Bottleneck, Impairment, Sim, ms, s, unlimited};

/// RFC 3168 §6.1: the echo lasts from the mark to the confirmation, and the window falls once.
#[test]
fn a_mark_is_echoed_until_confirmed_and_reduces_once() {
    let mut sim = Sim::new(Bottleneck::default());
    let config = Config {
        ecn: EcnMode::On,
        initcwnd: 40,
        init_ssthresh: 40,
        ..unlimited(Algorithm::Reno)
    };
    let mut count = 0;
    sim.rule = Box::new(move |_, from_a, segment, _| {
        count += u64::from(from_a && segment.len > 0);
        if from_a && segment.len > 0 && (count == 100 || count == 101) {
            Impairment::Mark
        } else {
            Impairment::Pass
        }
    });
    sim.log = Some(Vec::new());
    let flow = sim.flow(&config, Span::from_ms(100), Time::ZERO);
    flow.a.write(1 << 40);
    sim.run(ms(800));
    let before = sim.flows[0].a.info();
    // The window has grown from 40 by one or two when the mark is known.
    assert!((20..=21).contains(&before.ssthresh), "{}", before.ssthresh);
    assert_eq!(before.retransmitted, 0);
    let log = sim.log.take().unwrap();
    let confirmed = log
        .iter()
        .filter(|(_, from_a, seg)| *from_a && seg.flags.has(Flags::CWR) && seg.len > 0);
    assert_eq!(confirmed.count(), 1);
    let echoes: Vec<Time> = log
        .iter()
        .filter(|(_, from_a, seg)| {
            !from_a && seg.flags.has(Flags::ECE) && !seg.flags.has(Flags::SYN)
        })
        .map(|(at, _, _)| *at)
        .collect();
    let lasted = echoes.last().unwrap().since(echoes[0]);
    // One round trip: the echo to the sender and the confirmation back.
    assert!(
        (90..=110).contains(&(lasted.as_ns() / 1_000_000)),
        "{lasted}"
    );
    assert!(
        log.iter()
            .filter(|(_, a, seg)| *a && seg.len > 0)
            .all(|(_, _, seg)| seg.ecn == Ecn::Ect0)
    );
    assert!(
        log.iter()
            .filter(|(_, a, _)| !a)
            .all(|(_, _, seg)| seg.ecn == Ecn::NotEct)
    );
}

#[test]
fn ecn_needs_both() {
    for (a, b, expected) in [
        (EcnMode::On, EcnMode::Passive, Ecn::Ect0),
        (EcnMode::On, EcnMode::Off, Ecn::NotEct),
        (EcnMode::Passive, EcnMode::On, Ecn::NotEct),
    ] {
        let mut sim = Sim::new(Bottleneck::default());
        let config = |ecn| Config {
            ecn,
            ..Config::default()
        };
        sim.flow(&config(a), Span::from_ms(10), Time::ZERO);
        sim.flows[0].b = longhaul_proto::tcp::Endpoint::listen(std::sync::Arc::new(config(b)), 1);
        sim.log = Some(Vec::new());
        sim.flows[0].a.write(1000);
        sim.run(ms(50));
        let log = sim.log.take().unwrap();
        let data = log.iter().find(|(_, _, segment)| segment.len > 0).unwrap();
        assert_eq!(data.2.ecn, expected, "{a:?} {b:?}");
    }
}

/// RFC 8257 §3.2: the echo is exact also where acknowledgements are delayed, whatever the
/// pattern of marks.
#[test]
fn dctcp_counts_each_mark() {
    for (period, marked) in [(3, 1), (7, 4), (20, 10)] {
        let mut sim = Sim::new(Bottleneck::default());
        let mut count = 0;
        sim.rule = Box::new(move |_, from_a, segment, _| {
            let data = from_a && segment.len > 0;
            count += u64::from(data);
            if data && count % period < marked {
                Impairment::Mark
            } else {
                Impairment::Pass
            }
        });
        let config = Config {
            quickack: 0,
            ..unlimited(Algorithm::Dctcp)
        };
        let flow = sim.flow(&config, Span::from_ms(10), Time::ZERO);
        let segments = 4200;
        flow.a.write(segments * 1448);
        sim.run(s(60));
        let info = sim.flows[0].a.info();
        assert_eq!(info.delivered, segments);
        assert_eq!(
            info.delivered_ce,
            segments * marked / period,
            "{marked} of {period}"
        );
        // Two changes in a period each cost an acknowledgement at most (and the SYN-ACK).
        let most = segments / 2 + 2 * segments / period + 2;
        assert!(sim.flows[0].answers <= most, "{}", sim.flows[0].answers);
    }
}
