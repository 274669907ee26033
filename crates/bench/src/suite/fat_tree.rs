//! A data centre in virtual time against ns-3: a fat tree, on one thread and on two.
//!
//! Each of 128 hosts sends to one other without end. Both sides get the same list of receivers, and
//! both send packets the first of equal paths, so that flows meet at the same links. Both simulate
//! the same time and start everything at 0. Queues, buffers and the least retransmission timeout are
//! alike, and bytes are counted alike but for 2 of a packet. What is left is how flows share the links
//! to and from the one core switch.
//!
//! Wall time is that of the event loop: packet-hops over speed. On one thread `longhaul` reports speed
//! by the loop's CPU time, on several by its wall time.
//!
//! Left out: how much of the traffic each flow has; `goodput` is that of all.

use longhaul_core::rng::Stream;

use super::figures::{Against, Figure, Target, at};
use super::lab::Lab;
use super::ns3::Ns3;
use super::virtual_time::{self, goodput, speed};
use super::{Group, Setup};

/// Ports of a switch.
const K: u32 = 8;
const HOSTS: usize = (K * K * K / 4) as usize;
/// Simulated time. ns-3 takes half a minute for it.
const MS: u32 = 20;
const QUICK_MS: u32 = 1;

/// ns-3, one thread and two.
pub(super) fn group(lab: &Lab) -> Group {
    let ms = if lab.quick { QUICK_MS } else { MS };
    let targets = targets();
    Group::new(
        format!(
            "a permutation of {HOSTS} TCP CUBIC flows in a fat tree, k = {K}, 10 Gbit/s, 3 µs, {ms} ms"
        ),
        [
            reference(ms, &targets),
            own(ms, &targets, 1),
            own(ms, &targets, 2),
        ],
    )
}

/// By host: the one that it sends to, another one. Each is sent to once (Sattolo's shuffle, which
/// makes one cycle of all).
fn targets() -> Vec<usize> {
    let mut draws = Stream::new(1, "fat tree");
    let mut targets: Vec<usize> = (0..HOSTS).collect();
    for last in (1..HOSTS).rev() {
        targets.swap(last, (draws.draw() % last as u64) as usize);
    }
    targets
}

fn packet_hops() -> Figure {
    Figure::new("packet-hops", "M", at("/hops").times(1e-6))
}

fn wall() -> Figure {
    Figure::new("wall time without set-up", "s", at("/wall_s"))
}

fn reference(ms: u32, targets: &[usize]) -> Setup {
    let arguments = vec![
        format!("--k={K}"),
        format!("--seconds={}", f64::from(ms) / 1e3),
        format!("--to={}", list(targets, "")),
    ];
    let figures = vec![speed(), wall(), packet_hops(), goodput()];
    Ns3::find("ns3_fat_tree").setup(arguments, figures)
}

fn own(ms: u32, targets: &[usize], threads: u32) -> Setup {
    let experiment = experiment(ms, targets);
    let speed = speed().against(0, Against::Ratio);
    let speed = match threads {
        1 => speed,
        _ => speed
            .target(Target::RatioAtLeast(80.0))
            .headline("virtual time, a fat tree, 2 threads", "ns-3, one thread"),
    };
    let near = Target::RatioNearOne(0.05);
    let name = match threads {
        1 => "one thread".to_owned(),
        more => format!("{more} threads"),
    };
    let figures = vec![
        speed,
        wall(),
        packet_hops().against(0, Against::Ratio).target(near),
        goodput().against(0, Against::Ratio).target(near),
    ];
    virtual_time::own(name, figures, experiment, threads)
}

/// The experiment file.
fn experiment(ms: u32, targets: &[usize]) -> String {
    let all: Vec<usize> = (0..HOSTS).collect();
    format!(
        "clock: virtual\nduration: {ms} ms\nframing: ip\ntopology:\n  generate: {{ kind: fat_tree, k: {K}, rate: \
         10 Gbit/s, delay: 3 us, access_delay: 3 us, queue: 1000 packets }}\ntraffic:\n  flows:\n    \
         from: [{}]\n    to: [{}]\n    congestion: cubic\n    tcp: {{ rmem: 4 MiB, wmem: 4 MiB, \
         rto_min: 200 ms }}\n",
        list(&all, "h"),
        list(targets, "h"),
    )
}

/// Numbers of hosts with commas between them.
fn list(hosts: &[usize], before: &str) -> String {
    let names: Vec<String> = hosts.iter().map(|n| format!("{before}{n}")).collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_sent_to_once_and_by_another() {
        let targets = targets();
        let mut sorted = targets.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..HOSTS));
        assert!(targets.iter().enumerate().all(|(from, &to)| from != to));
        let to = list(&targets, "h");
        assert!(experiment(20, &targets).contains(&format!("    to: [{to}]\n")));
    }
}
