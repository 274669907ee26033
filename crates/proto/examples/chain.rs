//! The speed of modelled TCP in packet-hops per second, on one thread.
//!
//! `cargo run --release -p longhaul-proto --example chain [FLOWS HOPS SECONDS]`: CUBIC flows, each
//! between two hosts of its own, share a row of gigabit links of 1 ms each (10 ms one way with
//! the default of 12 hops) whose queues hold a bandwidth-delay product. The network goes on in
//! steps a little shorter than the delay of the hosts' own links.

// The tests use all of it.
#[allow(dead_code)]
#[path = "../tests/modelled/harness.rs"]
mod harness;

use std::time::Instant;

use harness::{Net, dumbbell, flow, pipe, tcp};
use longhaul_core::{Span, Time};
use longhaul_proto::modelled::Application;
use longhaul_proto::tcp::Config;

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"))
        .collect();
    let number = |place: usize, default| arguments.get(place).copied().unwrap_or(default);
    let (flows, hops, seconds) = (number(0, 16), number(1, 12).max(3), number(2, 20));
    // 20 ms there and back at 1 Gbit/s.
    let queue = 2_500_000;
    let access = pipe(1000, Span::from_us(500), queue);
    let links = vec![pipe(1000, Span::from_us(900), queue); hops as usize - 2];
    let topology = dumbbell(flows as usize, &access, &links);
    let config = Config {
        wmem: 16 << 20,
        rmem: 16 << 20,
        ..Config::default()
    };
    let transport = tcp(config);
    let specs = (0..flows).map(|number| {
        let (from, to) = (format!("a{number:03}"), format!("b{number:03}"));
        let bulk = Application::Bulk { bytes: None };
        let mut spec = flow(&topology, &from, [&from, &to], transport.clone(), bulk);
        spec.start = Time::ZERO + Span::from_ms(37 * number);
        spec
    });
    let specs = specs.collect();
    let mut net = Net::new(topology, specs, 1);
    net.width = Span::from_us(499);
    for round in 1..=5 {
        let before = net.engine.counters().hops;
        #[allow(clippy::disallowed_methods)] // measuring is what this program is for
        let started = Instant::now();
        net.run(Time::ZERO + Span::from_s(round * seconds / 5));
        let took = started.elapsed().as_secs_f64();
        let hops = net.engine.counters().hops - before;
        let rate = hops as f64 / took / 1e6;
        println!("round {round}: {rate:.1} M packet-hops/s, {hops} hops in {took:.2} s");
    }
    let bytes: u64 = net.traffic.flows().map(|flow| flow.bytes).sum();
    let goodput = bytes as f64 * 8.0 / seconds as f64 / 1e6;
    let resent: u64 = net.traffic.flows().map(|flow| flow.retransmissions).sum();
    println!("{goodput:.0} Mbit/s of payload, {resent} segments sent again");
    println!("{:?}", net.engine.counters());
}
