//! What only the inside shows: that flows which are over leave nothing behind.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use longhaul_core::time::Span;

use super::*;
use crate::tcp::Config;

/// One way between the two hosts.
pub(super) const WAY: Span = Span::from_us(500);

pub(super) fn host(number: u32) -> Host {
    Host {
        node: NodeId(number),
        ipv4: Ipv4Addr::from_bits(0x0a00_0001 + number),
        ipv6: Ipv6Addr::from_bits((0xfd00 << 112) + u128::from(number) + 1),
    }
}

pub(super) fn spec(
    number: u32,
    transport: Transport,
    application: Application,
    start: Time,
) -> FlowSpec {
    FlowSpec {
        name: Name {
            group: "f".into(),
            number: Some(number),
        },
        from: NodeId(0),
        to: Peer::Model(NodeId(1)),
        transport,
        application,
        start,
        stop: None,
        series: false,
    }
}

fn tcp() -> Transport {
    Transport::Tcp(Arc::new(Config::default()), IpVersion::V4)
}

/// The most slots, keys and timers that there were at once.
fn run(flows: Vec<FlowSpec>) -> ([usize; 3], Traffic) {
    run_until(flows, Time::MAX)
}

/// The same at a time.
pub(super) fn run_until(flows: Vec<FlowSpec>, until: Time) -> ([usize; 3], Traffic) {
    let mut traffic = Traffic::new(vec![host(0), host(1)], flows, 1).unwrap();
    let mut coming: BTreeMap<(Time, u64), (NodeId, Vec<u8>, u32)> = BTreeMap::new();
    let (mut number, mut most) = (0, [0; 3]);
    loop {
        let packet = coming.keys().next().map(|(at, _)| *at);
        let Some(next) = packet.into_iter().chain(traffic.poll_timeout()).min() else {
            return (most, traffic);
        };
        if next > until {
            return (most, traffic);
        }
        while let Some(entry) = coming.first_entry().filter(|entry| entry.key().0 == next) {
            let (to, headers, ip_len) = entry.remove();
            traffic.handle_packet(next, to, &headers, ip_len);
        }
        traffic.handle_timeout(next);
        while let Some(packet) = traffic.poll_transmit() {
            let (key, to) = ((packet.at + WAY, number), packet.to);
            coming.insert(key, (to, packet.headers.to_vec(), packet.ip_len));
            number += 1;
        }
        let now = [
            traffic.slots.len(),
            traffic.slots.keys(),
            traffic.context.timers.len(),
        ];
        most = [0, 1, 2].map(|n| now[n].max(most[n]));
    }
}

fn check(flows: Vec<FlowSpec>, [slots, keys, timers]: [usize; 3]) {
    let count = flows.len();
    let (most, traffic) = run(flows);
    let finished = traffic
        .flows()
        .filter(|flow| flow.outcome == Outcome::Finished);
    assert_eq!(finished.count(), count);
    assert_eq!((traffic.awaited(), traffic.progress()), (0, (count, count)));
    assert_eq!((traffic.slots.keys(), traffic.context.timers.len()), (0, 0));
    assert!(
        most[0] <= slots && most[1] <= keys && most[2] <= timers,
        "{most:?}"
    );
}

/// More flows each way between two hosts than a host has ports: no two ends have one key, and all
/// finish.
#[test]
fn flows_of_both_directions_have_ports_of_their_own() {
    let bulk = Application::Bulk {
        bytes: Some(10.into()),
    };
    let flow = |number: u32| {
        let mut flow = spec(number, tcp(), bulk.clone(), Time::ZERO);
        if number.is_multiple_of(3) {
            (flow.from, flow.to) = (NodeId(1), Peer::Model(NodeId(0)));
        }
        flow
    };
    let flows: Vec<_> = (0..10_000).map(flow).collect();
    let table = FlowTable::new(vec![host(0), host(1)], flows.clone()).unwrap();
    let ends = (0..10_000).flat_map(|flow| Side::BOTH.map(|side| table.end(flow, side, 0)));
    let keys: std::collections::HashSet<Key> = ends.map(|end| table.key(end)).collect();
    assert_eq!(keys.len(), 20_000);
    check(flows, [20_000, 20_000, 60_000]);
}

/// Flows to a program's port share ports with nobody else, in whatever order they are listed.
#[test]
fn flows_to_programs_have_ports_of_their_own() {
    let bulk = Application::Bulk {
        bytes: Some(10.into()),
    };
    let modelled = |number| spec(number, tcp(), bulk.clone(), Time::ZERO);
    let to_port = |number, port| FlowSpec {
        to: Peer::Program(NodeId(1), port),
        ..spec(number, tcp(), bulk.clone(), Time::ZERO)
    };
    let ports = 4536; // 61000 to 65535
    let flows = (0..5000).map(modelled);
    let flows = flows.chain((0..ports).map(|number| to_port(number, 80)));
    let flows: Vec<_> = flows.chain([to_port(0, 443)]).collect();
    let all = flows.len() as u32;
    let table = FlowTable::new(vec![host(0), host(1)], flows.clone()).unwrap();
    let keys = (0..all).map(|flow| table.key(table.end(flow, Side::Opener, 0)));
    assert_eq!(
        keys.collect::<std::collections::HashSet<Key>>().len(),
        flows.len()
    );
    let one_more = flows.into_iter().chain([to_port(0, 80)]);
    let refused = FlowTable::new(vec![host(0), host(1)], one_more);
    assert!(matches!(
        refused,
        Err(Error::TooManyFlows { most: 4536, .. })
    ));
}

#[test]
fn short_connections_in_turn_leave_nothing_behind() {
    let bulk = Application::Bulk {
        bytes: Some(3000.into()),
    };
    // Each takes four round trips of 1 ms; a timer's place stays for the 200 ms of a time-out.
    let start = |number: u32| Time::ZERO + Span::from_ms(u64::from(number));
    let flow = |number| spec(number, tcp(), bulk.clone(), start(number));
    let flows: Vec<_> = (0..100_000).map(flow).collect();
    check(flows, [16, 16, 5000]);
}

#[test]
fn requests_with_connections_of_their_own_leave_nothing_behind() {
    let dialogue = Application::Requests {
        requests: Some(100_000),
        request: 100.into(),
        response: 3000.into(),
        think: Span::from_us(1).into(),
        new_connection: true,
    };
    check(vec![spec(0, tcp(), dialogue, Time::ZERO)], [8, 8, 5000]);
}

/// A stop that is far away is no reason to remember each request.
#[test]
fn requests_with_a_stop_leave_nothing_behind() {
    for (new_connection, most) in [(true, [8, 8, 5000]), (false, [2, 2, 10])] {
        let dialogue = Application::Requests {
            requests: Some(20_000),
            request: 100.into(),
            response: 3000.into(),
            think: Span::from_us(1).into(),
            new_connection,
        };
        let mut flow = spec(0, tcp(), dialogue, Time::ZERO);
        flow.stop = Some(Time::ZERO + Span::from_s(1_000_000));
        check(vec![flow], most);
    }
}

/// Each response takes 11 s, longer than a retransmission time-out, so silence is watched; a minute at
/// a time, in which there are five of them.
#[test]
fn long_responses_leave_little_behind() {
    let dialogue = Application::Requests {
        requests: Some(1000),
        request: 100.into(),
        response: 430_000.into(),
        think: Span::from_us(1).into(),
        new_connection: true,
    };
    let slow = Config {
        initcwnd: 1,
        cwnd_clamp: 1,
        ..Config::default()
    };
    let slow = Transport::Tcp(Arc::new(slow), IpVersion::V4);
    check(vec![spec(0, slow, dialogue, Time::ZERO)], [8, 8, 30]);
}

#[test]
fn datagrams_in_turn_leave_nothing_behind() {
    let transport = Transport::Udp {
        payload: 500,
        ip: IpVersion::V6,
    };
    let constant = Application::Constant {
        rate: longhaul_core::units::Rate::from_bits_per_s(4_000_000).unwrap(),
        bytes: Some(1000),
    };
    // Two datagrams, 1 ms apart; then each sender waits 10 s for errors.
    let start = |number: u32| Time::ZERO + Span::from_ms(10 * u64::from(number));
    let flow = |number| spec(number, transport.clone(), constant.clone(), start(number));
    check((0..10_000).map(flow).collect(), [1010, 1010, 2020]);
}
