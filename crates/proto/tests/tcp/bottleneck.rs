//! Flows that share a bottleneck: use of the link, fairness, dependence on the round trip.

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config};

use crate::sim::{Bottleneck, Sim, ms, s, unlimited};

/// Bytes that each flow received between `from` and `to` (s).
fn received(sim: &mut Sim, from: u64, to: u64) -> Vec<f64> {
    let sample = |sim: &Sim| {
        sim.flows
            .iter()
            .map(|f| f.b.info().received)
            .collect::<Vec<_>>()
    };
    sim.run(s(from));
    let before = sample(sim);
    sim.run(s(to));
    sample(sim)
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64)
        .collect()
}

/// Part of a link of 10 Mbit/s that one flow of 100 ms uses with a queue of `limit` packets.
fn used(congestion: Algorithm, limit: usize, pacing: bool) -> f64 {
    let mut sim = Sim::new(Bottleneck::new(10_000_000, limit));
    // Even sends, so that no burst overflows a tiny queue.
    let config = Config {
        pacing,
        ..unlimited(congestion)
    };
    sim.flow(&config, Span::from_ms(100), Time::ZERO)
        .a
        .write(1 << 40);
    let bytes = received(&mut sim, 60, 360)[0];
    bytes * 8.0 * 1500.0 / 1448.0 / 300.0 / 10e6
}

/// Without a queue the window swings between β and 1 of the bandwidth-delay product: Reno's mean
/// is (1 + 0.5)/2; CUBIC's, a cubic that ends flat, 0.7 + 0.3·3/4.
#[test]
fn without_a_queue_the_window_swings_below_the_link() {
    for (congestion, expected) in [(Algorithm::Reno, 0.75), (Algorithm::Cubic, 0.925)] {
        let used = used(congestion, 4, true);
        println!("{congestion:?}: {used:.3} used, expected {expected}");
        assert!((used - expected).abs() < 0.05, "{congestion:?} {used}");
    }
}

/// With a queue of a bandwidth-delay product (83 packets) the link never idles.
#[test]
fn with_a_queue_the_link_is_full() {
    for (name, congestion) in Algorithm::ALL {
        if congestion == Algorithm::Dctcp {
            continue;
        }
        let used = used(congestion, 90, false);
        println!("{name}: {used:.4} used");
        assert!(
            used > 0.99 || congestion == Algorithm::Bbr && used > 0.95,
            "{name} {used}"
        );
    }
}

/// Jain's index over equal flows.
#[test]
fn equal_flows_share_alike() {
    for (name, congestion) in Algorithm::ALL {
        if matches!(congestion, Algorithm::Vegas | Algorithm::Dctcp) {
            continue;
        }
        let mut sim = Sim::new(Bottleneck::new(20_000_000, 80));
        for i in 0..4 {
            sim.flow(&unlimited(congestion), Span::from_ms(40), ms(i * 137))
                .a
                .write(1 << 40);
        }
        let bytes = received(&mut sim, 30, 330);
        let sum: f64 = bytes.iter().sum();
        let squares: f64 = bytes.iter().map(|b| b * b).sum();
        let jain = sum * sum / (4.0 * squares);
        println!("{name}: Jain {jain:.3}");
        assert!(jain >= 0.95, "{name} {jain} {bytes:?}");
    }
}

/// Exponent of throughput in 1/RTT, of two flows of 40 and 160 ms (with queueing) that lose
/// together: 2 for Reno (Lakshman and Madhow, ToN 5, 1997), 1 for CUBIC (its window grows with
/// time alone).
///
/// Over one drop-tail queue without any randomness, which flow loses depends on how round trips and the
/// service time of a packet fit together (phase effects: Floyd and Jacobson, Computer Communication Review
/// 21(2), 1991). So the median over several rates counts.
#[test]
fn the_round_trip_counts_squared_for_reno_and_linearly_for_cubic() {
    let exponent = |congestion, rate: u64, to| {
        let mut sim = Sim::new(Bottleneck::new(rate, (rate / 12_000 / 50) as usize));
        for (i, rtt) in [40, 160].into_iter().enumerate() {
            sim.flow(
                &unlimited(congestion),
                Span::from_ms(rtt),
                ms(i as u64 * 313),
            )
            .a
            .write(1 << 40);
        }
        let bytes = received(&mut sim, 60, to);
        // Half the queue stands on average.
        let rtts: Vec<f64> = [40.0, 160.0].iter().map(|rtt| rtt + 10.0).collect();
        (bytes[0] / bytes[1]).ln() / (rtts[1] / rtts[0]).ln()
    };
    let median = |congestion, rate: u64, to| {
        let rates = [950, 965, 980, 995, 1010].map(|permille| rate / 1000 * permille);
        let mut exponents = rates.map(|rate| exponent(congestion, rate, to));
        exponents.sort_by(f64::total_cmp);
        println!("{congestion:?}: {exponents:.2?}");
        exponents[2]
    };
    let reno = median(Algorithm::Reno, 20_000_000, 460);
    let cubic = median(Algorithm::Cubic, 100_000_000, 260);
    assert!((1.4..=2.3).contains(&reno), "{reno}");
    assert!((0.5..=1.4).contains(&cubic), "{cubic}");
}
