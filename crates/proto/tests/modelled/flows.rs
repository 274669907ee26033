//! Flows from end to end: what arrives, and when.

use std::sync::Arc;

use longhaul_core::units::Rate;
use longhaul_core::{Span, Time};
use longhaul_proto::modelled::{Application, IpVersion, Outcome, Transport};
use longhaul_proto::tcp::Config;

use super::harness::{Net, dumbbell, flow, pipe, tcp};

fn fast() -> longhaul_core::topology::PipeParams {
    pipe(1000, Span::from_ms(1), 1 << 20)
}

#[test]
fn a_bulk_transfer_arrives_and_ends() {
    for ip in [IpVersion::V4, IpVersion::V6] {
        let topology = dumbbell(1, &fast(), &[pipe(10, Span::from_ms(5), 30_000)]);
        let bytes = 2_000_000;
        let bulk = Application::Bulk {
            bytes: Some(bytes.into()),
        };
        let transport = Transport::Tcp(Arc::new(Config::default()), ip);
        let spec = flow(&topology, "one", ["a000", "b000"], transport, bulk);
        let mut net = Net::new(topology, vec![spec], 1);
        net.run(Time::ZERO + Span::from_s(100));
        assert!(net.traffic.is_done());
        let result = net.traffic.flows().next().unwrap();
        assert_eq!(result.outcome, Outcome::Finished);
        assert_eq!(result.bytes, bytes);
        assert!(
            result.retransmissions > 0,
            "a queue of 20 packets overflows"
        );
        // 1448 of 1518 bytes are payload, and the queue holds a bandwidth-delay product.
        let goodput = result.goodput().unwrap();
        assert!((8e6..9.6e6).contains(&goodput), "{goodput}");
        let rtt = result.rtt.unwrap();
        assert!(
            rtt.least >= Span::from_ms(14) && rtt.least < Span::from_ms(17),
            "{rtt:?}"
        );
        assert!(rtt.least <= rtt.mean && rtt.mean <= rtt.most);
        assert_eq!(net.engine.inside(), 0);
        assert_eq!(net.traffic.strays().damaged, 0);
    }
}

#[test]
fn datagrams_go_at_their_rate_and_are_measured() {
    for ip in [IpVersion::V4, IpVersion::V6] {
        let topology = dumbbell(1, &fast(), &[fast()]);
        let rate = Rate::from_bits_per_s(8_000_000).unwrap();
        let transport = Transport::Udp { payload: 1000, ip };
        let constant = Application::Constant { rate, bytes: None };
        let mut spec = flow(&topology, "one", ["a000", "b000"], transport, constant);
        spec.start = Time::ZERO + Span::from_ms(500);
        spec.stop = Some(Time::ZERO + Span::from_ms(1500));
        let mut net = Net::new(topology, vec![spec], 1);
        net.run(Time::ZERO + Span::from_s(20));
        assert!(net.traffic.is_done());
        let result = net.traffic.flows().next().unwrap();
        let figures = result.datagrams.unwrap();
        assert_eq!((figures.sent, figures.received), (1000, 1000));
        assert_eq!(
            (figures.lost(), figures.reordered, figures.duplicates),
            (0, 0, 0)
        );
        assert_eq!(result.bytes, 1_000_000);
        // 1 ms each way to go, and 3 times the time of 18 + 20 (or 40) + 8 + 1000 bytes at
        // 1 Gbit/s: every one takes the same.
        let least = figures.least_delay.unwrap();
        assert_eq!(figures.most_delay, least);
        assert!((3_020_000..3_030_000).contains(&least.as_ns()), "{least:?}");
        assert_eq!(figures.jitter, 0.0);
    }
}

#[test]
fn sources_end_with_their_bytes() {
    let rate = Rate::from_bits_per_s(8_000_000).unwrap();
    let udp = Transport::Udp {
        payload: 1000,
        ip: IpVersion::V4,
    };
    let constant = |bytes| Application::Constant {
        rate,
        bytes: Some(bytes),
    };
    let run = |transport, application| {
        let topology = dumbbell(1, &fast(), &[fast()]);
        let spec = flow(&topology, "one", ["a000", "b000"], transport, application);
        let mut net = Net::new(topology, vec![spec], 1);
        net.run(Time::ZERO + Span::from_s(20));
        assert!(net.traffic.is_done());
        assert_eq!(net.engine.inside(), 0);
        net
    };
    // A millisecond for each full datagram, the last at 100 ms.
    let net = run(udp, constant(100_500));
    let result = net.traffic.flows().next().unwrap();
    let figures = result.datagrams.unwrap();
    assert_eq!((figures.sent, figures.received), (101, 101));
    assert_eq!(result.bytes, 100_500);
    let finish = result.finish.unwrap().as_ns();
    assert!((103_000_000..103_030_000).contains(&finish), "{finish}");
    // As long as its bytes take at the rate, but for the first and the last segment.
    let net = run(tcp(Config::default()), constant(1_000_500));
    let result = net.traffic.flows().next().unwrap();
    assert_eq!(
        (result.outcome, result.bytes),
        (Outcome::Finished, 1_000_500)
    );
    let finish = result.finish.unwrap().as_ns();
    assert!((990_000_000..1_050_000_000).contains(&finish), "{finish}");
}

#[test]
fn requests_are_answered_over_one_connection_and_over_many() {
    for new_connection in [false, true] {
        let topology = dumbbell(1, &fast(), &[fast()]);
        let dialogue = Application::Requests {
            requests: Some(10),
            request: 200.into(),
            response: 50_000.into(),
            think: Span::from_ms(100).into(),
            new_connection,
        };
        let transport = tcp(Config::default());
        let spec = flow(&topology, "one", ["a000", "b000"], transport, dialogue);
        let mut net = Net::new(topology, vec![spec], 1);
        net.run(Time::ZERO + Span::from_s(100));
        assert!(net.traffic.is_done());
        let result = net.traffic.flows().next().unwrap();
        assert_eq!(result.outcome, Outcome::Finished);
        assert_eq!(result.bytes, 10 * 50_200);
        let figures = result.requests.unwrap();
        assert_eq!((figures.begun, figures.completed), (10, 10));
        // A round trip of 6 ms to ask, one for the handshake, and some for 35 segments from a
        // window of 10.
        let least = figures.least.unwrap();
        assert!(least > Span::from_ms(6), "{least:?}");
        assert!(figures.most < Span::from_ms(32), "{:?}", figures.most);
        let finish = result.finish.unwrap();
        assert!(finish > Time::ZERO + Span::from_ms(900), "{finish:?}");
        assert!(finish < Time::ZERO + Span::from_ms(1300), "{finish:?}");
        assert_eq!(net.engine.inside(), 0);
    }
}
