//! What is not a flow's own: refused specifications, packets for nobody, damage.

use longhaul_core::engine::Modelled;
use longhaul_core::topology::PipeParams;
use longhaul_core::units::{Probability, Rate};
use longhaul_core::{Span, Time};
use longhaul_proto::modelled::{
    Application, Error, FIRST_PORT, FlowSpec, IpVersion, Name, Outcome, Peer, Traffic, Transport,
};
use longhaul_proto::tcp::Config;

use super::harness::{Net, dumbbell, flow, hosts, node, pipe, tcp};

fn link() -> PipeParams {
    pipe(100, Span::from_ms(1), 1 << 20)
}

fn bulk(bytes: u64) -> Application {
    Application::Bulk {
        bytes: Some(bytes.into()),
    }
}

#[test]
fn a_flow_that_cannot_be_is_refused_with_a_reason() {
    let topology = dumbbell(1, &link(), &[link()]);
    let sound = flow(
        &topology,
        "one",
        ["a000", "b000"],
        tcp(Config::default()),
        bulk(1),
    );
    let refused = |spec: FlowSpec| Traffic::new(hosts(&topology), vec![spec], 1).unwrap_err();
    let own = FlowSpec {
        to: Peer::Model(sound.from),
        ..sound.clone()
    };
    assert_eq!(refused(own), Error::ToItself("one".into()));
    let router = FlowSpec {
        to: Peer::Model(node(&topology, "r00")),
        ..sound.clone()
    };
    assert!(matches!(refused(router), Error::UnknownHost { .. }));
    let program = FlowSpec {
        to: Peer::Program(sound.to.node(), FIRST_PORT),
        ..sound.clone()
    };
    assert!(matches!(refused(program), Error::ProgramPort { .. }));
    let udp = FlowSpec {
        transport: Transport::Udp {
            payload: 100,
            ip: IpVersion::V4,
        },
        ..sound.clone()
    };
    assert_eq!(refused(udp), Error::NeedsTcp("one".into()));
    let many = (0..4537).map(|number| FlowSpec {
        name: Name {
            group: "g".into(),
            number: Some(number),
        },
        to: Peer::Program(sound.to.node(), 80),
        ..sound.clone()
    });
    let error = Traffic::new(hosts(&topology), many.collect::<Vec<_>>(), 1).unwrap_err();
    assert_eq!(
        error,
        Error::TooManyFlows {
            flow: "g/4536".into(),
            most: 4536
        }
    );
}

#[test]
fn a_segment_to_a_port_where_nobody_listens_is_reset() {
    // The flow goes to a program, but nothing except models is there.
    let topology = dumbbell(1, &link(), &[link()]);
    let mut spec = flow(
        &topology,
        "one",
        ["a000", "b000"],
        tcp(Config::default()),
        bulk(1000),
    );
    spec.to = Peer::Program(spec.to.node(), 80);
    let mut net = Net::new(topology, vec![spec], 1);
    net.run(Time::ZERO + Span::from_s(10));
    let result = net.traffic.flows().next().unwrap();
    assert_eq!(result.outcome, Outcome::Reset);
    // A SYN and its answer take a round trip of 3 links of 1 ms each way.
    let took = result.finish.unwrap().since(Time::ZERO);
    assert!(
        took > Span::from_ms(6) && took < Span::from_us(6100),
        "{took}"
    );
    assert_eq!(net.traffic.strays().answered, 1);
    assert!(net.traffic.is_done());
}

#[test]
fn damage_anywhere_is_found_and_repaired() {
    let mut bad = link();
    bad.corrupt = Probability::from_ratio(1, 50).unwrap();
    let topology = dumbbell(1, &link(), &[bad]);
    let spec = flow(
        &topology,
        "one",
        ["a000", "b000"],
        tcp(Config::default()),
        bulk(3_000_000),
    );
    let mut net = Net::new(topology, vec![spec], 1);
    net.run(Time::ZERO + Span::from_s(1000));
    let result = net.traffic.flows().next().unwrap();
    assert_eq!(
        (result.outcome, result.bytes),
        (Outcome::Finished, 3_000_000)
    );
    assert!(
        net.traffic.strays().damaged >= 20,
        "{:?}",
        net.traffic.strays()
    );
    assert_eq!(net.engine.counters().dropped.total(), 0);
}

/// A modelled datagram that does not fit a link is reported, and one that may be split is.
#[test]
fn routers_report_and_split_modelled_packets() {
    let topology = dumbbell(1, &link(), &[link()]);
    let [from, to] = ["a000", "b000"].map(|name| node(&topology, name));
    let transport = Transport::Udp {
        payload: 4000,
        ip: IpVersion::V4,
    };
    let constant = Application::Constant {
        rate: Rate::from_bits_per_s(32_000).unwrap(),
        bytes: None,
    };
    let mut spec = flow(&topology, "one", ["a000", "b000"], transport, constant);
    spec.stop = Some(Time::from_ns(1));
    let mut net = Net::new(topology, vec![spec], 1);
    net.traffic.handle_timeout(Time::ZERO);
    let packet = net.traffic.poll_transmit().unwrap();
    assert_eq!(
        (packet.ip_len, packet.headers.len()),
        (4028, 14 + 20 + 8 + 16)
    );
    let mut headers = packet.headers.to_vec();
    let send = |net: &mut Net, headers: &[u8], s: u64| {
        let at = Time::ZERO + Span::from_s(s);
        let modelled = Modelled {
            to,
            headers,
            ip_len: 4028,
        };
        net.engine.arrive_modelled(from, at, &modelled).unwrap();
        net.engine.advance(at + Span::from_s(1));
    };
    // It may not be split: the link's far end says so at once, and quotes it.
    send(&mut net, &headers, 0);
    let report = net.engine.poll_egress().unwrap();
    assert_eq!((report.host, report.len), (from, 14 + 576));
    let stored = net.engine.frame(&report);
    assert_eq!((stored[34], stored[35]), (3, 4));
    assert_eq!(
        &stored[14 + 28 + 20..14 + 28 + 24],
        &headers[34..38],
        "the ports"
    );
    assert_eq!(net.engine.zeros(&report) as usize, 590 - stored.len());
    net.engine.release(report);
    // It may: three fragments, of which the first has the header and all have their zeros.
    headers[14 + 6] = 0;
    let checksum = u16::from_be_bytes([headers[24], headers[25]]);
    let (sum, carry) = checksum.overflowing_add(0x4000);
    headers[24..26].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    send(&mut net, &headers, 1);
    let mut lens = Vec::new();
    while let Some(egress) = net.engine.poll_egress() {
        assert_eq!(egress.host, to);
        lens.push((egress.len, net.engine.zeros(&egress)));
        net.engine.release(egress);
    }
    assert_eq!(lens.len(), 3);
    assert_eq!(lens.iter().map(|(len, _)| len - 34).sum::<u32>(), 4008);
    assert!(
        lens.iter().all(|(len, zeros)| len - zeros <= 58),
        "{lens:?}"
    );
    let counters = net.engine.counters();
    assert_eq!(
        (counters.entered, counters.created, counters.delivered),
        (2, 3, 4)
    );
}
