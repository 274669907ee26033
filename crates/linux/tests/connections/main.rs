//! Live: two hosts of a sandbox, 20 ms apart, and what their kernels say of a transfer between them.
//!
//! The sandbox is forked, which only a process with one thread may do, so that this test has a `main`
//! of its own. It is also the programs that run on the hosts, and measures what a dump costs:
//!
//! ```text
//! cargo test --release -p longhaul-linux --test connections -- cost HOSTS CONNECTIONS
//! ```

// Tests wait for other processes, by the clock.
#![allow(clippy::disallowed_methods)]

mod cost;
mod hosts;
mod programs;
#[path = "../../../../tests/skip.rs"]
mod skip;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hosts::{Hosts, ONE_WAY, address};
use longhaul_linux::connections::{Connection, Connections, State};
use longhaul_linux::sandbox::{SandboxError, tcp_buckets};
use skip::skip;

const BYTES: u64 = 2_000_000;
const PORTS: [u16; 2] = [7001, 7002];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["program", ref program @ ..] => programs::run(program),
        ["cost", hosts, connections] => {
            cost::measure(hosts.parse().unwrap(), connections.parse().unwrap());
        }
        _ => test(),
    }
}

fn test() {
    let hosts = match Hosts::start(2, tcp_buckets(2)) {
        Err(SandboxError::Forbidden { .. }) => {
            return skip("this machine allows no namespaces: see `longhaul doctor`");
        }
        hosts => hosts.unwrap(),
    };
    let mut hosts = hosts.carry_packets();
    a_transfer_is_seen_as_it_is(&mut hosts);
    hosts_use_what_their_tasks_use(&mut hosts);
    hosts_have_tables_of_their_own(&mut hosts);
    hosts.sandbox.shutdown().unwrap();
    println!("test connections ... ok");
}

/// All connections, asked for and awaited.
fn connections(hosts: &mut Hosts) -> Connections {
    assert!(hosts.sandbox.request_connections().unwrap());
    let again = hosts.sandbox.request_connections().unwrap();
    assert!(!again, "one dump at a time");
    // Other requests are served meanwhile.
    assert!(!hosts.sandbox.listening(0, 1).unwrap());
    hosts.await_connections()
}

fn find(
    connections: &Connections,
    host: usize,
    matches: impl Fn(&Connection) -> bool,
) -> Connection {
    let of_host = connections.hosts.iter().find(|of| of.host == host);
    let of_host = of_host.unwrap_or_else(|| panic!("nothing of host {host}: {connections:?}"));
    let healthy = (of_host.more, of_host.unread, of_host.error.as_deref()) == (0, 0, None);
    assert!(healthy && !of_host.interrupted, "{of_host:?}");
    let found: Vec<_> = of_host.list.iter().filter(|c| matches(c)).collect();
    assert_eq!(found.len(), 1, "{of_host:?}");
    found[0].clone()
}

fn a_transfer_is_seen_as_it_is(hosts: &mut Hosts) {
    assert_eq!(connections(hosts).hosts, [], "no program, no connection");
    for port in PORTS {
        hosts.program(1, &["sink", &port.to_string()]);
        hosts.until(|hosts| hosts.sandbox.listening(1, port).unwrap());
    }
    let targets = [false, true].map(|v6| address(1, v6));
    for (target, port) in targets.iter().zip(PORTS) {
        let to = SocketAddr::new(*target, port).to_string();
        hosts.program(0, &["source", &to, &BYTES.to_string()]);
    }
    for (target, port) in targets.into_iter().zip(PORTS) {
        let to = SocketAddr::new(target, port);
        let deadline = Instant::now() + Duration::from_secs(20);
        let (first, all) = loop {
            let all = connections(hosts);
            let is_there = |c: &Connection| c.remote == to;
            let known = all
                .hosts
                .iter()
                .any(|h| h.host == 0 && h.list.iter().any(is_there));
            // The kernel counts the SYN as a byte.
            let acked = known.then(|| find(&all, 0, is_there).info.bytes_acked.unwrap());
            if acked.is_some_and(|acked| acked >= BYTES) {
                break (find(&all, 0, is_there), all);
            }
            assert!(Instant::now() < deadline, "{all:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        check_sender(&first);
        let receiver = find(&all, 1, |c| c.local == to);
        assert_eq!(receiver.remote, first.local);
        assert_eq!(receiver.info.bytes_received, Some(BYTES));
        assert_ne!(receiver.id, first.id);
        let again = find(&connections(hosts), 0, |c| c.remote == to);
        assert_eq!(again, first, "nothing has happened to it since");
        compare_with_ss(hosts, &first);
    }
}

fn check_sender(sender: &Connection) {
    let info = &sender.info;
    assert_eq!(sender.state, State::Established);
    assert_eq!(sender.congestion, "cubic");
    assert!((1000..=1460).contains(&info.mss), "{info:?}");
    assert!((10..100_000).contains(&info.cwnd), "{info:?}");
    assert!(info.bytes_acked <= Some(BYTES + 1), "{info:?}");
    assert_eq!((info.unacked, info.lost, info.in_flight), (0, 0, 0));
    // The network's delay is a hard lower bound; the upper one leaves room for a busy machine.
    let there_and_back = 2 * ONE_WAY.as_micros() as u32;
    let plausible = there_and_back..10 * there_and_back;
    assert!(plausible.contains(&info.min_rtt_us.unwrap()), "{info:?}");
    assert!(plausible.contains(&info.rtt_us), "{info:?}");
    assert!(info.rtt_var_us < there_and_back * 5, "{info:?}");
    let paced = info.pacing_rate.unwrap();
    // `tcp_update_pacing_rate`: 1.2 or 2 windows a round trip.
    let window = f64::from(info.cwnd * info.mss) * 1e6 / f64::from(info.rtt_us);
    assert!((1.0..2.6).contains(&(paced as f64 / window)), "{info:?}");
    assert!(info.delivery_rate.is_some(), "{info:?}");
}

fn compare_with_ss(hosts: &mut Hosts, sender: &Connection) {
    let Some(text) = hosts.output(0, &["ss", "-tinH"]) else {
        return skip("ss is missing: install iproute2");
    };
    let (local, remote) = (sender.local.to_string(), sender.remote.to_string());
    // The sockets of a line, and its figures on the next.
    let mut lines = text.lines().skip_while(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        !(words.contains(&local.as_str()) && words.contains(&remote.as_str()))
    });
    let figures = lines
        .nth(1)
        .unwrap_or_else(|| panic!("{local} > {remote} is not in {text}"));
    let words: Vec<&str> = figures.split_whitespace().collect();
    let value = |name: &str| {
        let value = words.iter().find_map(|word| word.strip_prefix(name));
        value
            .unwrap_or_else(|| panic!("no {name} in {figures}"))
            .to_owned()
    };
    let info = sender.info;
    assert_eq!(value("cwnd:"), info.cwnd.to_string());
    assert_eq!(value("mss:"), info.mss.to_string());
    assert_eq!(value("bytes_acked:"), info.bytes_acked.unwrap().to_string());
    let ms = |us: u32| f64::from(us) / 1000.0;
    let rtt = value("rtt:");
    let (rtt, var) = rtt.split_once('/').expect("rtt:mean/deviation");
    assert_eq!(rtt.parse(), Ok(ms(info.rtt_us)));
    assert_eq!(var.parse(), Ok(ms(info.rtt_var_us)));
    assert_eq!(value("minrtt:").parse(), Ok(ms(info.min_rtt_us.unwrap())));
    assert!(words.contains(&sender.congestion.as_str()), "{figures}");
    let ssthresh = words.iter().find_map(|word| word.strip_prefix("ssthresh:"));
    assert_eq!(ssthresh.map(|text| text.parse().unwrap()), info.ssthresh);
}

fn hosts_use_what_their_tasks_use(hosts: &mut Hosts) {
    // The two sources; what has ended is still there for a moment.
    hosts.until(|hosts| hosts.sandbox.usage().unwrap().hosts[0].processes == 2);
    let before = hosts.sandbox.usage().unwrap();
    let [a, b] = before.hosts[..] else {
        panic!("{before:?}")
    };
    assert_eq!((a.processes, a.tasks), (2, 2));
    assert!(a.resident_bytes > 100_000, "{a:?}");
    let began = Instant::now();
    hosts.program(0, &["spin"]);
    // However busy the machine is, it gets a CPU some time.
    let mut after = before.clone();
    hosts.until(|hosts| {
        after = hosts.sandbox.usage().unwrap();
        after.hosts[0].cpu_ns - a.cpu_ns > 50_000_000
    });
    assert!(Duration::from_nanos(after.hosts[0].cpu_ns - a.cpu_ns) <= 4 * began.elapsed());
    assert_eq!(after.hosts[0].processes, a.processes + 1);
    assert!(after.hosts[0].run_wait_ns >= a.run_wait_ns);
    assert!(
        after.hosts[1].cpu_ns - b.cpu_ns < 50_000_000,
        "it is not the other's"
    );
    assert!(after.cost > Duration::ZERO && after.cost < Duration::from_secs(1));
    // The verdict's way says the same.
    let counters = hosts.sandbox.counters().unwrap();
    assert_eq!(counters[0].processes, after.hosts[0].processes);
    assert!(counters[0].run_wait_ns >= after.hosts[0].run_wait_ns);
}

fn hosts_have_tables_of_their_own(hosts: &mut Hosts) {
    let machine = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_ehash_entries");
    let Ok(machine) = machine else {
        return skip("this kernel gives no host a TCP table of its own: Linux 6.1 does");
    };
    let mut read = |name: &str| -> i64 {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let text = hosts.output(0, &["cat", &path]).expect("cat is everywhere");
        text.trim()
            .parse()
            .unwrap_or_else(|_| panic!("{name}: {text}"))
    };
    assert_eq!(read("tcp_ehash_entries"), i64::from(tcp_buckets(2)));
    // Negative where the table is another namespace's.
    let machine: i64 = machine.trim().parse().unwrap();
    assert_eq!(read("tcp_max_tw_buckets"), machine.abs() / 2);
    assert_eq!(read("tcp_max_syn_backlog"), (machine.abs() / 128).max(128));
}
