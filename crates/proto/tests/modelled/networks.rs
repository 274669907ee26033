//! Networks that do more to modelled packets than carry them: queues that mark, lan segments, hosts
//! that ask for an echo.

use std::net::Ipv4Addr;

use longhaul_core::packet::{ETHERNET_LEN, IPV4_LEN, fold, sum16};
use longhaul_core::params::{CoDel, Discipline, Red};
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::units::{Probability, QueueLimit};
use longhaul_core::{PipeId, Span, Time, Topology};
use longhaul_proto::modelled::{Application, Outcome, Traffic};
use longhaul_proto::tcp::{Algorithm, Config, EcnMode};

use super::harness::{Net, dumbbell, flow, hosts, node, pipe, tcp};

fn bulk(bytes: Option<u64>) -> Application {
    let bytes = bytes.map(Into::into);
    Application::Bulk { bytes }
}

fn pipe_of(topology: &Topology, name: &str) -> PipeId {
    let pipes = topology.pipes().iter().zip(0..);
    let mut found = pipes.filter(|(pipe, _)| pipe.name == name);
    PipeId(found.next().expect("a pipe of the network").1)
}

fn with_ecn(congestion: Algorithm) -> Config {
    Config {
        congestion,
        ecn: EcnMode::On,
        rmem: 1 << 24,
        wmem: 1 << 24,
        ..Config::default()
    }
}

/// A bottleneck of 100 Mbit/s, a round trip of 1 ms, and two flows without end over it.
fn marking(congestion: Algorithm, discipline: Discipline) -> (Net, PipeId) {
    let bottleneck = PipeParams {
        queue: QueueLimit::Packets(500),
        discipline,
        ..pipe(100, Span::from_us(100), 0)
    };
    let topology = dumbbell(2, &pipe(1000, Span::from_us(200), 1 << 20), &[bottleneck]);
    let queue = pipe_of(&topology, "r00>r01");
    let flows = ["a", "b"]
        .into_iter()
        .zip([["a000", "b000"], ["a001", "b001"]]);
    let flows = flows.map(|(name, ends)| {
        let transport = tcp(with_ecn(congestion));
        flow(&topology, name, ends, transport, bulk(None))
    });
    let flows = flows.collect();
    (Net::new(topology, flows, 1), queue)
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// RFC 8257 over a queue of the engine that marks from K on, more and more up to all at 3 K (RED
/// without memory, which drops what comes above that): the queue stays near K and nothing is lost,
/// as with the queue of the TCP model's tests.
#[test]
fn dctcp_holds_a_queue_of_the_engine_at_its_threshold() {
    let k = 20;
    let step = Red {
        min: k,
        max: 3 * k,
        probability: Probability::from_ratio(1, 1).unwrap(),
        weight_log2: 0,
        ecn: true,
    };
    let (mut net, queue) = marking(Algorithm::Dctcp, Discipline::Red(step));
    net.run(at(1000));
    let before = net.engine.pipe_counters(queue);
    let mut waiting = Vec::new();
    for half_ms in 2000..6000 {
        net.run(Time::ZERO + Span::from_us(500 * half_ms));
        waiting.push(net.engine.waiting(queue).0);
    }
    let after = net.engine.pipe_counters(queue);
    let mean = f64::from(waiting.iter().sum::<u32>()) / waiting.len() as f64;
    let most = *waiting.iter().max().unwrap();
    let used = (after.busy_ns - before.busy_ns) as f64 / 2e9;
    println!("queue mean {mean:.1}, most {most}, K {k}, {used:.3} used");
    assert!((0.5 * k as f64..=1.5 * k as f64).contains(&mean), "{mean}");
    assert!(u64::from(most) <= 2 * k, "{most}");
    assert!(used > 0.98, "{used}");
    assert!(after.marked > before.marked);
    assert_eq!(after.drops_queue, 0);
    let resent = net.traffic.flows().map(|flow| flow.retransmissions);
    assert_eq!(resent.sum::<u64>(), 0);
}

/// CUBIC slows down at the marks of a queue with CoDel, which need drop nothing then; without ECN
/// the same queue drops.
#[test]
fn marks_slow_cubic_down_without_a_loss() {
    for (ecn, mode) in [(true, EcnMode::On), (false, EcnMode::Off)] {
        let codel = CoDel {
            ecn,
            ..CoDel::default()
        };
        let bottleneck = PipeParams {
            discipline: Discipline::CoDel(codel),
            ..pipe(10, Span::from_ms(10), 1 << 20)
        };
        let topology = dumbbell(1, &pipe(1000, Span::from_ms(1), 1 << 20), &[bottleneck]);
        let queue = pipe_of(&topology, "r00>r01");
        let config = Config {
            ecn: mode,
            ..Config::default()
        };
        let spec = flow(
            &topology,
            "one",
            ["a000", "b000"],
            tcp(config),
            bulk(Some(5_000_000)),
        );
        let mut net = Net::new(topology, vec![spec], 1);
        net.run(at(60_000));
        let counters = net.engine.pipe_counters(queue);
        let result = net.traffic.flows().next().unwrap();
        assert_eq!(result.outcome, Outcome::Finished);
        assert_eq!(counters.marked > 0, ecn, "{counters:?}");
        assert_eq!(counters.drops_queue > 0, !ecn, "{counters:?}");
        assert_eq!(result.retransmissions > 0, !ecn);
        let goodput = result.goodput().unwrap();
        assert!((7e6..9.6e6).contains(&goodput), "{goodput}");
    }
}

/// Hosts on one segment: what they send to each other crosses two links, in both IP versions.
#[test]
fn flows_cross_a_lan_segment() {
    let names = ["a", "b", "c", "s"];
    let node_of = |(name, n): (&&str, u32)| Node {
        name: (*name).to_owned(),
        kind: if *name == "s" {
            NodeKind::Lan
        } else {
            NodeKind::Host
        },
        ipv4: Ipv4Addr::from_bits(0x0a00_0001 + n),
        ipv6: ((0xfd00 << 112) + u128::from(n) + 1).into(),
    };
    let nodes = names.iter().zip(0..).map(node_of).collect();
    let link = |name: &&str| Link::new(name, "s", pipe(100, Span::from_us(50), 1 << 20));
    let topology = Topology::new(nodes, names[..3].iter().map(link).collect()).unwrap();
    let bytes = 1_000_000;
    let pairs = [["a", "b"], ["b", "c"], ["c", "a"]];
    let flows = pairs.map(|ends| {
        let name = ends.concat();
        flow(
            &topology,
            &name,
            ends,
            tcp(Config::default()),
            bulk(Some(bytes)),
        )
    });
    let mut net = Net::new(topology, flows.to_vec(), 1);
    net.run(at(10_000));
    for result in net.traffic.flows() {
        assert_eq!(result.outcome, Outcome::Finished);
        assert_eq!(result.bytes, bytes);
        // Two links of 50 us and 100 Mbit/s, there and back: a SYN and its answer, 78 bytes each.
        let rtt = result.rtt.unwrap();
        assert!(rtt.least >= Span::from_us(200 + 4 * 6), "{rtt:?}");
    }
    let counters = net.engine.counters();
    assert_eq!(counters.entered, counters.delivered);
    assert_eq!(counters.hops, 2 * counters.delivered);
    assert_eq!(net.traffic.strays().unknown, 0);
}

/// The echo request of one host to another: its frame's first bytes, all that is not zero.
fn echo_request(from: &Node, to: &Node, len: usize) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET_LEN + IPV4_LEN + 8 + len];
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip = &mut frame[ETHERNET_LEN..];
    let total = ip.len() as u16;
    (ip[0], ip[8], ip[9]) = (0x45, 64, 1);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[12..16].copy_from_slice(&from.ipv4.octets());
    ip[16..20].copy_from_slice(&to.ipv4.octets());
    let sum = !sum16(&ip[..IPV4_LEN]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let message = &mut ip[IPV4_LEN..];
    (message[0], message[5], message[7]) = (8, 77, 1);
    message[8..].fill(0x5a);
    let sum = !fold(u64::from(sum16(message)));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A host without a kernel answers a ping itself; one that has a kernel leaves it to that.
#[test]
fn a_modelled_host_answers_a_ping() {
    let topology = dumbbell(
        2,
        &pipe(100, Span::from_ms(1), 1 << 20),
        &[pipe(100, Span::from_ms(1), 1 << 20)],
    );
    let [asker, asked] = ["a001", "b000"].map(|name| node(&topology, name));
    let mut traffic = Traffic::new(hosts(&topology), [], 1).unwrap();
    let request = echo_request(topology.node(asker), topology.node(asked), 56);
    let now = at(7);
    assert!(!traffic.owns(asked, &request), "its kernel's");
    traffic.handle_packet(now, asked, &request, (request.len() - ETHERNET_LEN) as u32);
    let reply = traffic.poll_transmit().expect("an answer");
    assert_eq!((reply.host, reply.to, reply.at), (asked, asker, now));
    assert_eq!(reply.ip_len as usize, request.len() - ETHERNET_LEN);
    let (ip, asked_ip) = (&reply.headers[ETHERNET_LEN..], &request[ETHERNET_LEN..]);
    assert_eq!(ip[12..16], asked_ip[16..20]);
    assert_eq!(ip[16..20], asked_ip[12..16]);
    assert_eq!(
        (ip[IPV4_LEN], &ip[IPV4_LEN + 4..]),
        (0, &asked_ip[IPV4_LEN + 4..])
    );
    assert_eq!(sum16(&ip[IPV4_LEN..]), 0xffff);
    assert_eq!(
        (traffic.strays().unknown, traffic.strays().answered),
        (1, 1)
    );
}
