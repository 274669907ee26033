//! ICMP errors about flows' packets: datagrams count them, connections that are not open yet are
//! given up, those that are open go on.

use std::sync::Arc;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::router::{PuntReason, Responder};
use longhaul_core::units::Rate;
use longhaul_core::{PipeId, Span, Time, Topology};
use longhaul_proto::RouterReplies;
use longhaul_proto::modelled::{
    Application, FIRST_PORT, FlowSpec, IpVersion, Outcome, Traffic, Transport,
};
use longhaul_proto::tcp::Config;

use super::harness::{Net, dumbbell, flow, hosts, node, pipe};

const BOTH: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

fn network() -> Topology {
    let link = pipe(100, Span::from_ms(1), 1 << 20);
    dumbbell(1, &link, std::slice::from_ref(&link))
}

fn datagrams(topology: &Topology, ip: IpVersion, payload: u32) -> FlowSpec {
    let transport = Transport::Udp { payload, ip };
    let rate = Rate::from_bits_per_s(u64::from(payload) * 8).unwrap();
    let constant = Application::Constant { rate, bytes: None };
    let mut spec = flow(topology, "one", ["a000", "b000"], transport, constant);
    spec.stop = Some(Time::ZERO + Span::from_ms(4500));
    spec
}

fn transfer(topology: &Topology, ip: IpVersion, bytes: u64) -> FlowSpec {
    let transport = Transport::Tcp(Arc::new(Config::default()), ip);
    let bytes = Some(bytes.into());
    flow(
        topology,
        "one",
        ["a000", "b000"],
        transport,
        Application::Bulk { bytes },
    )
}

/// Both directions of the link between the routers.
fn middle(topology: &Topology) -> Vec<PipeId> {
    topology.find_pipes("r00-r01")
}

#[test]
fn datagrams_that_fit_no_link_are_reported_to_their_flow() {
    for ip in BOTH {
        let topology = network();
        let spec = datagrams(&topology, ip, 4000);
        let mut net = Net::new(topology, vec![spec], 1);
        net.run(Time::ZERO + Span::from_s(20));
        let result = net.traffic.flows().next().unwrap();
        let figures = result.datagrams.unwrap();
        // One a second from 0 s on, each of which the first router sends back.
        assert_eq!((figures.sent, figures.received, figures.errors), (5, 0, 5));
        let strays = net.traffic.strays();
        assert_eq!((strays.errors, strays.unknown), (5, 0), "{ip:?}");
    }
}

#[test]
fn a_connection_that_finds_no_way_is_given_up_at_once() {
    for ip in BOTH {
        let topology = network();
        let spec = transfer(&topology, ip, 1000);
        let mut net = Net::new(topology, vec![spec], 1);
        for pipe in middle(&network()) {
            net.engine.set_up(pipe, false, false);
        }
        net.engine.reroute();
        net.run(Time::ZERO + Span::from_s(200));
        let result = net.traffic.flows().next().unwrap();
        assert_eq!(result.outcome, Outcome::Unreachable);
        // To the first router and back, 1 ms each way.
        let took = result.finish.unwrap().since(Time::ZERO);
        assert!(
            (Span::from_ms(2)..Span::from_us(2100)).contains(&took),
            "{took}"
        );
        assert!(net.traffic.is_done());
        assert_eq!(net.traffic.strays().errors, 1);
    }
}

#[test]
fn an_open_connection_outlives_soft_errors() {
    for ip in BOTH {
        let topology = network();
        let pipes = middle(&topology);
        let spec = transfer(&topology, ip, 3_000_000);
        let mut net = Net::new(topology, vec![spec], 1);
        for (ms, up) in [(100, false), (1100, true)] {
            net.run(Time::ZERO + Span::from_ms(ms));
            for &pipe in &pipes {
                net.engine.set_up(pipe, up, false);
            }
            net.engine.reroute();
        }
        net.run(Time::ZERO + Span::from_s(100));
        let result = net.traffic.flows().next().unwrap();
        assert_eq!(
            (result.outcome, result.bytes),
            (Outcome::Finished, 3_000_000)
        );
        assert!(result.finish.unwrap() > Time::ZERO + Span::from_ms(1100));
        assert!(
            net.traffic.strays().errors > 0,
            "{:?}",
            net.traffic.strays()
        );
    }
}

/// What a router writes because of `frame`, sent on to its sender.
fn report(topology: &Topology, frame: &[u8]) -> Vec<u8> {
    let router = topology.node(node(topology, "r00"));
    let mut reply = vec![0; 2048];
    let written = RouterReplies::new().respond(router, PuntReason::NoRoute, frame, &mut reply);
    reply.truncate(written.expect("an error"));
    reply
}

#[test]
fn only_the_report_of_its_own_syn_ends_a_connection() {
    let topology = network();
    let [sender, other] = ["a000", "b000"].map(|name| node(&topology, name));
    for ip in BOTH {
        let port = ETHERNET_LEN + if ip == IpVersion::V4 { 20 } else { 40 };
        let spec = transfer(&topology, ip, 1000);
        let mut traffic = Traffic::new(hosts(&topology), [spec], 1).unwrap();
        traffic.handle_timeout(Time::ZERO);
        let packet = traffic.poll_transmit().unwrap();
        let syn = packet.headers.to_vec();
        let mut send = |host, frame: &[u8]| {
            let now = Time::ZERO + Span::from_ms(1);
            traffic.handle_packet(now, host, frame, (frame.len() - ETHERNET_LEN) as u32);
            let strays = traffic.strays();
            let outcome = traffic.flows().next().unwrap().outcome;
            (outcome, strays.errors, strays.unknown)
        };
        // Of another port, and at another host: nobody's.
        let mut wrong = syn.clone();
        wrong[port + 1] ^= 1;
        assert_eq!(
            send(sender, &report(&topology, &wrong)),
            (Outcome::Running, 0, 1)
        );
        assert_eq!(
            send(other, &report(&topology, &syn)),
            (Outcome::Running, 0, 2)
        );
        // With a number that was never sent: somebody has guessed.
        let mut wrong = syn.clone();
        wrong[port + 7] ^= 1;
        assert_eq!(
            send(sender, &report(&topology, &wrong)),
            (Outcome::Running, 1, 2)
        );
        // Damaged on its way.
        let mut damaged = report(&topology, &syn);
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert_eq!(send(sender, &damaged), (Outcome::Running, 1, 3));
        assert_eq!(
            send(sender, &report(&topology, &syn)),
            (Outcome::Unreachable, 2, 3)
        );
    }
}

/// Where a host has a kernel too, errors go to whom they are about.
#[test]
fn errors_about_modelled_ports_are_kept_from_the_kernel() {
    let topology = network();
    for ip in BOTH {
        let port = ETHERNET_LEN + if ip == IpVersion::V4 { 20 } else { 40 };
        let spec = transfer(&topology, ip, 1000);
        let mut traffic = Traffic::new(hosts(&topology), [spec], 1).unwrap();
        traffic.handle_timeout(Time::ZERO);
        let mut syn = traffic.poll_transmit().unwrap().headers.to_vec();
        let host = node(&topology, "a000");
        let ours = report(&topology, &syn);
        assert!(traffic.owns(host, &ours));
        for len in 0..ours.len() {
            traffic.owns(host, &ours[..len]); // cut anywhere, it is read without harm
        }
        syn[port..port + 2].copy_from_slice(&(FIRST_PORT - 1).to_be_bytes());
        assert!(!traffic.owns(host, &report(&topology, &syn)));
    }
}
