//! The cost of a dump and of reading all tasks, with tables of hosts' own and with the machine's.

use std::time::{Duration, Instant};

use longhaul_linux::sandbox::tcp_buckets;

use crate::hosts::{Hosts, read_until};

const ROUNDS: usize = 21;

/// Each host has `connections` connections to itself, both ends of which are seen.
pub(super) fn measure(hosts: usize, connections: usize) {
    for (name, buckets) in [("own", tcp_buckets(hosts)), ("machine's", 0)] {
        let began = Instant::now();
        let mut all = Hosts::start(hosts, buckets).unwrap();
        let up = began.elapsed();
        for host in 0..hosts {
            let mut pipe = all.program(host, &["many", &connections.to_string()]);
            read_until(&mut pipe, |text| text.contains("ready"));
        }
        let (mut costs, mut took, mut usage, mut seen) = (vec![], vec![], vec![], 0);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            all.sandbox.request_connections().unwrap();
            let dump = all.await_connections();
            took.push(began.elapsed());
            costs.push(dump.cost);
            usage.push(all.sandbox.usage().unwrap().cost);
            seen = dump.hosts.iter().map(|host| host.list.len()).sum();
        }
        println!(
            "{hosts} hosts, {seen} ends, {name} table ({buckets}), up in {up:.2?}: dump CPU {}, \
             elapsed {}; tasks CPU {}",
            figures(costs),
            figures(took),
            figures(usage)
        );
        let began = Instant::now();
        all.sandbox.shutdown().unwrap();
        println!("    down in {:.2?}", began.elapsed());
    }
}

fn figures(mut durations: Vec<Duration>) -> String {
    durations.sort_unstable();
    let (least, most) = (durations[0], durations[durations.len() - 1]);
    let median = durations[durations.len() / 2];
    format!("{median:.1?} ({least:.1?} to {most:.1?})")
}
