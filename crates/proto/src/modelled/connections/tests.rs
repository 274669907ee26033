use std::sync::Arc;

use longhaul_core::time::{Span, Time};

use super::*;
use crate::modelled::tests::{WAY, host, run_until, spec};
use crate::modelled::{Application, FlowSpec, IpVersion, Transport};
use crate::tcp::{Config, Phase, State};

/// MTU 1500 less headers and timestamps.
const MSS: u32 = 1448;

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn transfer(number: u32, congestion: Algorithm, ip: IpVersion, bytes: u64) -> FlowSpec {
    let config = Config {
        mss: 1460,
        congestion,
        rmem: 1 << 24,
        wmem: 1 << 24,
        ..Config::default()
    };
    let bytes = Some(bytes.into());
    let application = Application::Bulk { bytes };
    spec(
        number,
        Transport::Tcp(Arc::new(config), ip),
        application,
        Time::ZERO,
    )
}

fn seen(traffic: &Traffic) -> Vec<Connection> {
    let mut all = Vec::new();
    traffic.connections(&mut |connection| all.push(connection.clone()));
    all
}

fn one(now_us: u64, bytes: u64) -> Vec<Connection> {
    let flow = transfer(0, Algorithm::Cubic, IpVersion::V4, bytes);
    seen(&run_until(vec![flow], at(now_us)).1)
}

/// Over a wire that only delays, all is known: one round trip takes 1 ms, in which slow start doubles
/// the window of 10 segments.
#[test]
fn figures_are_those_of_slow_start() {
    assert_eq!(WAY, Span::from_us(500));
    assert_eq!(one(400, 1 << 30), [], "only a SYN is on its way");
    // The SYN-ACK has arrived; its acknowledgement has not.
    let [opener] = &one(1200, 1 << 30)[..] else {
        panic!("one end knows of the connection")
    };
    assert_eq!((opener.side, opener.host), (Side::Opener, NodeId(0)));
    assert_eq!((opener.flow, opener.number), (0, 0));
    assert_eq!(opener.name.to_string(), "f/0");
    assert_eq!(opener.congestion, Algorithm::Cubic);
    assert_eq!(opener.local.ip(), host(0).ipv4);
    assert_eq!(opener.remote.ip(), host(1).ipv4);
    let info = opener.info;
    assert_eq!((info.state, info.phase), (State::Established, Phase::Open));
    assert_eq!((info.cwnd, info.ssthresh, info.mss), (10, u32::MAX, MSS));
    assert_eq!((info.unacked, info.lost, info.in_flight), (10, 0, 10));
    assert_eq!((info.acknowledged, info.received), (0, 0));
    // RFC 6298 §2.2.
    assert_eq!((info.srtt, info.rtt_var), (WAY + WAY, WAY));
    assert_eq!(info.min_rtt, Some(WAY + WAY));

    let [opener, acceptor] = &one(2200, 1 << 30)[..] else {
        panic!("both ends do now")
    };
    let info = opener.info;
    assert_eq!((info.cwnd, info.unacked, info.in_flight), (20, 20, 20));
    assert_eq!(info.acknowledged, 10 * u64::from(MSS));
    assert_eq!((info.srtt, info.retransmitted), (WAY + WAY, 0));
    assert!(info.rtt_var < WAY, "{info:?}");
    assert_eq!((acceptor.side, acceptor.host), (Side::Acceptor, NodeId(1)));
    assert_eq!(acceptor.local, opener.remote);
    assert_eq!(acceptor.remote, opener.local);
    assert_eq!(acceptor.info.received, 10 * u64::from(MSS));
    assert_eq!(acceptor.info.unacked, 0);
}

/// Nine segments and a FIN: in FIN-WAIT-1 until they are acknowledged, and nothing after that, though
/// ends may be in TIME-WAIT.
#[test]
fn a_connection_that_is_being_closed_is_seen_and_one_that_is_closed_is_not() {
    let bytes = 9 * u64::from(MSS);
    let states = |now_us| -> Vec<State> {
        let all = one(now_us, bytes);
        all.iter().map(|connection| connection.info.state).collect()
    };
    assert_eq!(states(1200), [State::FinWait1]);
    assert_eq!(states(1600), [State::FinWait1, State::LastAck]);
    assert_eq!(states(4000), []);
}

/// Whoever holds which ends, and in whatever order flows begin.
#[test]
fn the_order_is_that_of_hosts_and_flows() {
    let all = [Algorithm::Bbr, Algorithm::Reno, Algorithm::Vegas].into_iter();
    let flows = all.zip(0..).map(|(congestion, number)| {
        let mut flow = transfer(number, congestion, IpVersion::V6, 1 << 30);
        flow.start = at(300 - 100 * u64::from(number));
        flow
    });
    let all = seen(&run_until(flows.collect(), at(10_000)).1);
    let keys = all.iter().map(|c| (c.host.0, c.flow, c.congestion.name()));
    let expected = [
        (0, 0, "bbr"),
        (0, 1, "reno"),
        (0, 2, "vegas"),
        (1, 0, "bbr"),
        (1, 1, "reno"),
        (1, 2, "vegas"),
    ];
    assert!(keys.eq(expected), "{all:?}");
    assert!(all.iter().all(|connection| connection.local.is_ipv6()));
    assert!(all[0].info.pacing.is_some(), "BBR paces");
    assert_eq!(all[1].info.pacing, None);
}
