//! What is known of queues from theory.

use super::super::{Item, Queue};
use super::server::{Met, Server, exponential};
use super::{BYTE_NS, Discipline, item, queue};
use crate::params::{CoDel, FqCodel, Pie, Red};
use crate::rng::Stream;
use crate::time::Span;
use crate::units::{Probability, QueueLimit};

const MS: u64 = 1_000_000;
const LONG: QueueLimit = QueueLimit::Packets(1_000_000);

/// Arrivals at exponential gaps of `mean` ns, of `bytes` each; the share that is dropped and the
/// mean wait of the others.
fn poisson(queue: Queue, packets: u32, mean: f64, bytes: impl Fn(&mut Stream) -> u32) -> [f64; 2] {
    let mut stream = Stream::new(7, "arrivals");
    let mut server = Server::new(queue);
    let (mut time, mut lost, mut served, mut waited) = (0.0, 0u64, 0u64, 0u64);
    let mut on = |_: &Item, met| match met {
        Met::Served { wait, .. } => (served, waited) = (served + 1, waited + wait),
        Met::Dropped { .. } => lost += 1,
    };
    for index in 0..packets {
        time += exponential(&mut stream, mean);
        let bytes = bytes(&mut stream);
        server.arrive(item(index, bytes, time as u64), &mut on);
    }
    server.run_until(u64::MAX, &mut on);
    assert_eq!(served + lost, u64::from(packets));
    [
        lost as f64 / f64::from(packets),
        waited as f64 / served as f64,
    ]
}

fn assert_near(measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    println!("measured {measured}, expected {expected}, off by {error}");
    assert!(error.abs() < tolerance, "{measured} is not {expected}");
}

/// Pollaczek and Khinchine with constant service: ρ / (2μ (1 − ρ)).
#[test]
fn waiting_in_an_md1_queue() {
    let service = (1000 * BYTE_NS) as f64;
    for rho in [0.3, 0.6] {
        let queue = queue(LONG, Discipline::DropTail);
        let [lost, wait] = poisson(queue, 1_000_000, service / rho, |_| 1000);
        assert_eq!(lost, 0.0);
        assert_near(wait, rho * service / (2.0 * (1.0 - rho)), 0.01);
    }
}

/// Loss of M/M/1/K: (1 − ρ) ρ^K / (1 − ρ^(K + 1)), K with the packet in service.
#[test]
fn loss_of_an_mm1k_queue() {
    let mean_bytes = 10_000.0;
    for (rho, k) in [(0.8f64, 5u32), (1.25, 3)] {
        let queue = queue(QueueLimit::Packets(k - 1), Discipline::DropTail);
        let gap = mean_bytes * BYTE_NS as f64 / rho;
        let size = |stream: &mut Stream| exponential(stream, mean_bytes).round() as u32;
        let [lost, _] = poisson(queue, 1_000_000, gap, size);
        let power = rho.powi(k as i32);
        assert_near(lost, (1.0 - rho) * power / (1.0 - power * rho), 0.02);
    }
}

/// A packet of 1000 bytes (1 ms) every `gap` ns from t = 0 until `end`.
fn flood(queue: Queue, gap: u64, end: u64, mut on: impl FnMut(&Item, Met)) -> Server {
    let mut server = Server::new(queue);
    for index in 0..end / gap {
        server.arrive(item(index as u32, 1000, index * gap), &mut on);
    }
    server
}

/// Two packets come for each that is served; that of service start n ms has waited n/2 ms. So
/// the delay is above the target of 5 ms from 10 ms on, CoDel drops first an interval later, and
/// then after 100 / √k ms more each, at the next service start.
#[test]
fn codel_drops_by_its_law() {
    let mut drops = Vec::new();
    flood(
        queue(LONG, Discipline::CoDel(CoDel::default())),
        MS / 2,
        3000 * MS,
        |_, met| {
            if let Met::Dropped { at, early } = met {
                assert!(early);
                drops.push(at / MS);
            }
        },
    );
    let law = (1..).scan(110.0, |time: &mut f64, count: u32| {
        let now = *time;
        *time += 100.0 / f64::from(count).sqrt();
        Some(now.ceil() as u64)
    });
    let expected: Vec<u64> = law.take_while(|&ms| ms < 3000).collect();
    assert_eq!(drops, expected);
    // 110 + 100, 70.7, 57.7, 50, 44.7 ...
    assert_eq!(drops[..6], [110, 210, 281, 339, 389, 434]);
}

/// Where senders do not listen, PIE has to drop all that is too much, and its integral part
/// holds the delay at the target.
#[test]
fn pie_finds_its_fixed_point() {
    for load in [1.25f64, 2.0] {
        let gap = (MS as f64 / load) as u64;
        let (mut dropped, mut served, mut waited) = (0u32, 0u32, 0);
        let pie = Discipline::Pie(Pie::default());
        flood(queue(LONG, pie), gap, 400_000 * MS, |_, met| match met {
            Met::Served { at, wait } if at > 100_000 * MS => {
                (served, waited) = (served + 1, waited + wait);
            }
            Met::Dropped { at, early: true } if at > 100_000 * MS => dropped += 1,
            _ => {}
        });
        let share = f64::from(dropped) / f64::from(dropped + served);
        assert_near(share, 1.0 - 1.0 / load, 0.01);
        assert_near(waited as f64 / f64::from(served), 15e6, 0.05);
    }
}

/// At a queue of constant length the average is that length, and with p = 1/20 the gaps between
/// drops are uniform on 1 to 19 (Figure 2 counts the first packet after a drop as 1): 2p.
#[test]
fn red_spreads_its_drops() {
    let red = Red {
        min: 10,
        max: 30,
        probability: Probability::from_ratio(1, 10).unwrap(),
        weight_log2: 2,
        ecn: false,
    };
    let mut queue = queue(LONG, Discipline::Red(red));
    let mut gaps = [0u32; 20];
    let mut last = 0;
    for index in 0..200_000u32 {
        let mut dropped = false;
        let now = u64::from(index);
        let item = item(index, 1000, now);
        queue.enqueue(item.entered, item, super::busy(1), &mut |_| dropped = true);
        if dropped {
            if index > 1000 {
                gaps[(index - last) as usize] += 1; // beyond 19 there is no place
            }
            last = index;
        } else if queue.len() > 20 {
            queue.dequeue(item.entered, &mut |_| ());
        }
    }
    let drops: u32 = gaps.iter().sum();
    assert_near(f64::from(drops) / 199_000.0, 0.1, 0.02);
    assert_eq!(gaps[0], 0);
    for &count in &gaps[1..] {
        assert_near(f64::from(count), f64::from(drops) / 19.0, 0.15);
    }
}

/// Two flows, each with packets of its own size and gap; the waits and drops of each.
fn two_flows(queue: Queue, sizes: [u32; 2], gaps: [u64; 2], end: u64) -> [Vec<Met>; 2] {
    let mut server = Server::new(queue);
    let mut met = [Vec::new(), Vec::new()];
    let mut next = [0; 2];
    for index in 0.. {
        let flow = usize::from(next[1] < next[0]);
        if next[flow] >= end {
            return met;
        }
        let item = Item {
            flow: flow as u64,
            ..item(index, sizes[flow], next[flow])
        };
        next[flow] += gaps[flow];
        server.arrive(item, &mut |item, what| met[item.flow as usize].push(what));
    }
    unreachable!("times grow")
}

fn longest_wait(met: &[Met]) -> u64 {
    let waits = met.iter().map(|met| match met {
        Met::Served { wait, .. } => *wait,
        Met::Dropped { .. } => u64::MAX,
    });
    waits.max().unwrap()
}

/// FQ-CoDel without CoDel: nothing is ever above such a target.
fn fair_queueing() -> Discipline {
    let mut params = FqCodel::default();
    params.codel.target = Span::from_s(1_000_000);
    Discipline::FqCodel(params)
}

#[test]
fn a_sparse_flow_hardly_waits() {
    // 1.5 ms a packet every 1 ms against 0.1 ms every 10 ms.
    let run = |discipline| {
        two_flows(
            queue(LONG, discipline),
            [1500, 100],
            [MS, 10 * MS],
            2000 * MS,
        )
    };
    let [bulk, sparse] = run(fair_queueing());
    assert!(longest_wait(&bulk) > 500 * MS);
    // One packet in service at most; at t = 0 both flows are new, and the first one goes first.
    assert!(longest_wait(&sparse[1..]) <= 1500 * BYTE_NS);
    let [_, sparse] = run(Discipline::DropTail);
    assert!(longest_wait(&sparse) > 500 * MS);
}

#[test]
fn flows_share_by_bytes_whatever_their_packets() {
    // Both always have packets: 300 bytes every 0.2 ms, 1500 bytes every 1 ms.
    let sizes = [300, 1500];
    let mut server = Server::new(queue(LONG, fair_queueing()));
    let mut sent = [0i64; 2];
    for index in 0..20_000u32 {
        let flow = usize::from(index % 6 == 0);
        let item = Item {
            flow: flow as u64,
            ..item(index, sizes[flow], u64::from(index) * MS / 6)
        };
        server.arrive(item, &mut |item, _| {
            sent[item.flow as usize] += i64::from(item.bytes);
            // A quantum and a packet: one may be a round ahead, with a packet on credit.
            assert!((sent[0] - sent[1]).abs() <= 1514 + 1500, "{sent:?}");
        });
    }
    assert!(sent[0] > 1_000_000);
}

#[test]
fn the_fattest_flow_makes_room() {
    // The bulk flow alone overflows the queue; the sparse one would lose with drop-tail.
    let run = |discipline| {
        let limit = QueueLimit::Packets(50);
        let [bulk, sparse] = two_flows(
            queue(limit, discipline),
            [1500, 100],
            [MS, 7 * MS],
            1000 * MS,
        );
        let lost = |met: &[Met]| {
            let lost = met.iter().filter(|met| matches!(met, Met::Dropped { .. }));
            lost.count()
        };
        [lost(&bulk), lost(&sparse)]
    };
    let [bulk, sparse] = run(fair_queueing());
    assert!(bulk > 200 && sparse == 0, "{bulk} {sparse}");
    let [_, sparse] = run(Discipline::DropTail);
    assert!(sparse > 10, "{sparse}");
}
