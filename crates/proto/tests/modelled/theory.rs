//! Known answers that do not come from the model.

use longhaul_core::params::Distribution;
use longhaul_core::topology::PipeParams;
use longhaul_core::units::{QueueLimit, Rate};
use longhaul_core::{Span, Time};
use longhaul_proto::modelled::{Amount, Application, IpVersion, Transport};
use longhaul_proto::tcp::{Algorithm, Config};

use super::harness::{Net, dumbbell, flow, pipe, tcp};

const BULK: Application = Application::Bulk { bytes: None };

/// Payload bits per second of each flow from `from` to `to` seconds.
fn goodputs(net: &mut Net, from: u64, to: u64) -> Vec<f64> {
    let mut bytes_at = |s: u64| -> Vec<u64> {
        net.run(Time::ZERO + Span::from_s(s));
        net.traffic.flows().map(|flow| flow.bytes).collect()
    };
    let (before, after) = (bytes_at(from), bytes_at(to));
    let bits = |(before, after): (u64, u64)| (after - before) as f64 * 8.0 / (to - from) as f64;
    before.into_iter().zip(after).map(bits).collect()
}

/// Jain, Chiu and Hawe, DEC-TR-301 (1984).
fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn equal_flows_share_a_link_alike() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        let access = pipe(1000, Span::from_ms(1), 1 << 20);
        let topology = dumbbell(8, &access, &[pipe(50, Span::from_ms(8), 125_000)]);
        let config = Config {
            congestion,
            ..Config::default()
        };
        let specs = (0..8).map(|number| {
            let (from, to) = (format!("a{number:03}"), format!("b{number:03}"));
            let mut spec = flow(&topology, &from, [&from, &to], tcp(config.clone()), BULK);
            spec.start = Time::ZERO + Span::from_ms(113 * number);
            spec
        });
        let specs = specs.collect();
        let mut net = Net::new(topology, specs, 1);
        let shares = goodputs(&mut net, 20, 120);
        let jain = fairness(&shares);
        assert!(jain >= 0.95, "{congestion:?}: {jain}, {shares:?}");
        // 1448 of the 1518 bytes of a frame are payload.
        let sum: f64 = shares.iter().sum::<f64>() / (50e6 * 1448.0 / 1518.0);
        assert!((0.9..=1.0).contains(&sum), "{congestion:?}: {sum}");
    }
}

/// Without a queue the window falls to β of the pipe and rises to all of it: Reno's mean is
/// (1 + 1/2)/2; CUBIC's, after RFC 9438 §5.1, is 1 - (1-β)/4 = 92.5 %.
#[test]
fn without_a_queue_a_flow_uses_what_its_algorithm_says() {
    for (congestion, expected) in [(Algorithm::Reno, 0.75), (Algorithm::Cubic, 0.925)] {
        let access = pipe(1000, Span::from_us(1), 1 << 20);
        let topology = dumbbell(1, &access, &[pipe(20, Span::from_ms(50), 3_100)]);
        let config = Config {
            congestion,
            hystart: false,
            // So that a burst of one acknowledgement does not overflow the queue.
            delack_min: Span::ZERO,
            delack_max: Span::ZERO,
            ..Config::default()
        };
        let spec = flow(&topology, "one", ["a000", "b000"], tcp(config), BULK);
        let mut net = Net::new(topology, vec![spec], 1);
        let share = goodputs(&mut net, 100, 700)[0] / (20e6 * 1448.0 / 1518.0);
        assert!((share - expected).abs() < 0.05, "{congestion:?}: {share}");
    }
}

/// Pollaczek and Khinchin: M/D/1 waits ρ/(2(1-ρ)) of its service time in the mean.
#[test]
fn poisson_datagrams_wait_as_in_m_d_1() {
    let free = PipeParams {
        delay: Span::from_us(10),
        queue: QueueLimit::Packets(10_000),
        ..PipeParams::default()
    };
    for load in [0.5, 0.8] {
        // Datagrams are frames of 1250 bytes, which take 1 ms.
        let topology = dumbbell(1, &free, &[pipe(10, Span::ZERO, 1 << 24)]);
        let transport = Transport::Udp {
            payload: 1250 - 18 - 28,
            ip: IpVersion::V4,
        };
        let rate = (10e6 * load * 1204.0 / 1250.0) as u64;
        let rate = Rate::from_bits_per_s(rate).unwrap();
        let poisson = Application::Poisson { rate, bytes: None };
        let mut spec = flow(&topology, "one", ["a000", "b000"], transport, poisson);
        spec.stop = Some(Time::ZERO + Span::from_s(1000));
        let mut net = Net::new(topology, vec![spec], 7);
        net.run(Time::ZERO + Span::from_s(1100));
        let result = net.traffic.flows().next().unwrap();
        let figures = result.datagrams.unwrap();
        // The number of packets in 1000 s: within 4 deviations.
        let expected = 1e6 * load;
        assert!((figures.sent as f64 - expected).abs() < 4.0 * expected.sqrt());
        assert_eq!(figures.lost(), 0);
        let least = figures.least_delay.unwrap();
        assert_eq!(least, Span::from_us(1020), "no wait");
        let wait = figures.mean_delay().unwrap().saturating_sub(least).as_s() * 1e3;
        let theory = load / (2.0 * (1.0 - load));
        assert!(
            (wait / theory - 1.0).abs() < 0.05,
            "{load}: {wait} ms, not {theory}"
        );
    }
}

#[test]
fn sources_that_pause_send_their_share() {
    let free = PipeParams {
        delay: Span::from_us(10),
        ..PipeParams::default()
    };
    let topology = dumbbell(1, &free, std::slice::from_ref(&free));
    let transport = Transport::Udp {
        payload: 1000,
        ip: IpVersion::V6,
    };
    let (base, mean) = (Span::ZERO, Span::from_ms(300));
    let pauses = Application::OnOff {
        rate: Rate::from_bits_per_s(8_000_000).unwrap(),
        bytes: None,
        on: Amount::Exponential(100e6),
        off: Amount::Drawn(Distribution::pareto(base, mean, mean).unwrap()),
    };
    let mut spec = flow(&topology, "one", ["a000", "b000"], transport, pauses);
    spec.stop = Some(Time::ZERO + Span::from_s(4000));
    let mut net = Net::new(topology, vec![spec], 3);
    net.run(Time::ZERO + Span::from_s(4100));
    let sent = net.traffic.flows().next().unwrap().datagrams.unwrap().sent;
    // 1000 packets a second while on, a quarter of the time, half a packet more for each begun
    // gap; 10 000 cycles with deviations of 100 and 300 ms vary by about 1.5 %.
    let share = sent as f64 / 1_000_000.0;
    assert!((share - 1.0).abs() < 0.06, "{share}");
}
