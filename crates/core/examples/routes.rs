//! What routes cost in a large network: time and memory of its tables, and of the network.
//!
//! `cargo run --release -p longhaul-core --example routes [ROUTERS HOSTS TABLES]`: routers on a
//! ring, each with two more links to random others, hosts spread over them by one link each, and
//! tables to so many of the routers. The default has 10,000 routers, 1,000,000 hosts, 1000 tables.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use longhaul_core::rng::Stream;
use longhaul_core::route::Routes;
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::{NodeId, Span, Topology};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u32| {
        arguments
            .get(place)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (routers, hosts, tables) = (number(0, 10_000), number(1, 1_000_000), number(2, 1000));
    let mut random = Stream::new(1, "network");
    let mut pick = |n: u32| (random.draw() % u64::from(n)) as u32;
    let router = |n: u32| format!("r{n:06}");
    let node = |name: String, kind, n: u32| Node {
        name,
        kind,
        ipv4: Ipv4Addr::from(0x0a00_0001 + n),
        ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(n)),
    };
    let delay = |us: u32| PipeParams {
        delay: Span::from_us(u64::from(us)),
        ..PipeParams::default()
    };
    let mut nodes: Vec<Node> = Vec::new();
    let mut links = Vec::new();
    for n in 0..routers {
        nodes.push(node(router(n), NodeKind::Router, n));
        links.push(Link::new(
            &router(n),
            &router((n + 1) % routers),
            delay(100 + pick(10_000)),
        ));
        for way in 0..2 {
            let (other, length) = (pick(routers), delay(100 + pick(10_000)));
            if other != n {
                let name = |x: &str, y: &str| format!("{x}>{y}:{n}.{way}");
                let (x, y) = (router(n), router(other));
                links.push(Link {
                    name: format!("extra{n}.{way}"),
                    pipe_names: [name(&x, &y), name(&y, &x)],
                    ..Link::new(&x, &y, length)
                });
            }
        }
    }
    for n in 0..hosts {
        let host = node(format!("h{n:07}"), NodeKind::Host, routers + n);
        links.push(Link::new(&host.name, &router(pick(routers)), delay(10)));
        nodes.push(host);
    }
    report("parts");
    let topology = Topology::new(nodes, links).expect("a network");
    report("topology");
    let mut routes = Routes::new(&topology);
    report("routes without tables");
    let first = topology.nodes().len() as u32 - routers; // routers come after hosts by name
    #[allow(clippy::disallowed_methods)] // measuring is what this program is for
    let started = Instant::now();
    for n in 0..tables.min(routers) {
        routes.prepare(
            &topology,
            NodeId(first + n * (routers / tables.min(routers))),
        );
    }
    let each = started.elapsed() / tables.min(routers);
    let bytes = routes.table_bytes() / tables.min(routers) as usize;
    report("tables");
    println!("a table: {each:?}, {bytes} bytes");
}

/// Prints the memory of this process so far.
fn report(what: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or("?").trim().to_owned()
    };
    println!(
        "{what}: {} in use, {} at most",
        line("VmRSS:"),
        line("VmHWM:")
    );
}
