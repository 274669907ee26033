//! What each congestion control is known for.

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config, Phase};

use crate::sim::{Bottleneck, Impairment, Sim, ms, s, unlimited};

/// A full segment's packet, in bits.
const PACKET: f64 = 1500.0 * 8.0;

/// One BBR flow over 20 Mbit/s, RTT 40 ms, sampled each ms from `from`: (time, window, pacing).
fn bbr(from: u64, to: u64) -> (Sim, Vec<(Time, u32, f64, u32)>) {
    let mut sim = Sim::new(Bottleneck::new(20_000_000, 500));
    let flow = sim.flow(&unlimited(Algorithm::Bbr), Span::from_ms(40), Time::ZERO);
    flow.a.write(1 << 40);
    sim.run(s(from));
    let mut seen = Vec::new();
    sim.watch(s(to), Span::from_ms(1), |sim| {
        let info = sim.flows[0].a.info();
        seen.push((sim.now, info.cwnd, info.pacing.unwrap(), info.in_flight));
    });
    (sim, seen)
}

#[test]
fn bbr_probes_the_round_trip_each_ten_seconds_with_four_segments() {
    let (sim, seen) = bbr(5, 60);
    let low: Vec<bool> = seen.iter().map(|&(_, cwnd, _, _)| cwnd <= 4).collect();
    let starts: Vec<f64> = (1..low.len())
        .filter(|&i| low[i] && !low[i - 1])
        .map(|i| seen[i].0.as_s())
        .collect();
    assert!((5..=6).contains(&starts.len()), "{starts:?}");
    for gap in starts.windows(2).map(|pair| pair[1] - pair[0]) {
        // 10 s, 200 ms, and the round trips in which the window empties and refills.
        assert!((10.0..10.5).contains(&gap), "{starts:?}");
    }
    let inside = low.iter().filter(|&&low| low).count() as f64 / starts.len() as f64;
    assert!((200.0..=330.0).contains(&inside), "{inside} ms");
    assert!(seen.iter().all(|&(_, cwnd, _, _)| cwnd >= 4));
    assert_eq!(sim.flows[0].a.info().timeouts, 0);
}

/// An application slower than the path keeps its rate: what four segments a round trip deliver is
/// not taken for the bandwidth, also when nothing else was measured for long.
#[test]
fn bbr_forgets_what_it_measured_with_four_segments() {
    const BYTES_PER_MS: u64 = 15_000_000 / 8 / 1000;
    let mut sim = Sim::new(Bottleneck::new(20_000_000, 500));
    sim.flow(&unlimited(Algorithm::Bbr), Span::from_ms(100), Time::ZERO);
    let (mut written, mut most) = (0, 0);
    sim.watch(s(60), Span::from_ms(1), |sim| {
        written += sim.flows[0].a.write(BYTES_PER_MS);
        sim.pump(0);
        if sim.now > s(5) {
            most = most.max(written - sim.flows[0].a.info().acknowledged);
        }
    });
    // 200 ms and three round trips at almost nothing.
    let behind = most as f64 / BYTES_PER_MS as f64;
    println!("at most {behind:.0} ms behind");
    assert!((200.0..700.0).contains(&behind), "{behind} ms");
}

/// A send buffer of little more than the path holds is no limit of the application: BBR finds the
/// bandwidth with it, and leaves its start.
#[test]
fn bbr_leaves_its_start_with_a_full_send_buffer() {
    let mut sim = Sim::new(Bottleneck::new(20_000_000, 500));
    let config = Config {
        wmem: 450_000,
        ..unlimited(Algorithm::Bbr)
    };
    sim.flow(&config, Span::from_ms(100), Time::ZERO);
    let mut fastest = 0.0_f64;
    sim.watch(s(9), Span::from_ms(1), |sim| {
        sim.flows[0].a.write(1 << 40);
        sim.pump(0);
        if sim.now > s(5) {
            fastest = fastest.max(sim.flows[0].a.info().pacing.unwrap());
        }
    });
    let gain = fastest / (20e6 / PACKET);
    println!("at most {gain:.2} times the bandwidth");
    assert!((1.0..1.3).contains(&gain), "{gain}");
}

#[test]
fn bbr_finds_the_bandwidth_and_cycles_through_eight_phases() {
    let (mut sim, seen) = bbr(5, 9);
    let bandwidth = 20e6 / PACKET;
    // The pacing rate of a phase of gain 1 is 99 % of the estimate.
    let plain = seen
        .iter()
        .map(|&(_, _, rate, _)| rate)
        .filter(|rate| (rate / bandwidth - 0.99).abs() < 0.05);
    let plain: Vec<f64> = plain.collect();
    let estimate = plain.iter().sum::<f64>() / plain.len() as f64 / 0.99;
    println!("estimate {:.4} of the bandwidth", estimate / bandwidth);
    assert!((estimate / bandwidth - 1.0).abs() < 0.02);
    // Phases as runs of one gain, in units of a round trip.
    let gain = |rate: f64| (rate / 0.99 / estimate * 4.0).round() / 4.0;
    let mut phases: Vec<(f64, u32)> = Vec::new();
    for &(_, _, rate, _) in &seen {
        match phases.last_mut() {
            Some((last, count)) if *last == gain(rate) => *count += 1,
            _ => phases.push((gain(rate), 1)),
        }
    }
    println!("{phases:?}");
    let phases = &phases[1..phases.len() - 1];
    let at = phases.iter().position(|&(gain, _)| gain == 1.25).unwrap();
    for cycle in phases[at..].chunks_exact(3) {
        let gains: Vec<f64> = cycle.iter().map(|&(gain, _)| gain).collect();
        assert_eq!(gains, [1.25, 0.75, 1.0]);
        // Six phases of a round trip each (a little more: a phase ends with an acknowledgement).
        assert!((240..=270).contains(&cycle[2].1), "{phases:?}");
        assert!(
            cycle[1].1 <= 50 && (40..=100).contains(&cycle[0].1),
            "{phases:?}"
        );
    }
    assert!(phases.len() >= 24, "{phases:?}");
    // No standing queue, and the link is used.
    let before = sim.flows[0].b.info().received;
    let (mut queue, mut samples) = (0, 0);
    sim.watch(s(10), Span::from_ms(5), |sim| {
        queue += sim.bottleneck.queue(sim.now);
        samples += 1;
    });
    let goodput = (sim.flows[0].b.info().received - before) as f64 * 8.0 * 1500.0 / 1448.0;
    println!(
        "BBR: {:.3} of the link, queue {:.1}",
        goodput / 20e6,
        queue as f64 / samples as f64
    );
    assert!(goodput / 20e6 > 0.95);
    assert!(queue as f64 / samples as f64 <= 20.0);
}

/// A probe goes on until its target is in flight, and so loses what the target has beyond what pipe and queue
/// hold, if that is reached before the first loss is known. By hand from `tcp_bbr.c` for 100 Mbit/s, 20 ms and 41
/// packets that may wait: the bandwidth-delay product is 166.7 segments, of which `bbr_bdp` makes 209 with a gain of
/// 5/4. At that rate `bbr_tso_segs_goal` is 10; `bbr_quantization_budget` adds three times that, rounds to
/// an even number and adds 2: 242. `bbr_packets_in_net_at_edt` counts the next 10: the phase ends with 232 in
/// flight. Pipe, server and queue hold 166.7 + 1 + 41. Linux loses as many (docs/tcp-model.md).
#[test]
fn a_bbr_probe_loses_what_its_target_has_beyond_pipe_and_queue() {
    let mut sim = Sim::new(Bottleneck::new(100_000_000, 42));
    let flow = sim.flow(&unlimited(Algorithm::Bbr), Span::from_ms(20), Time::ZERO);
    flow.a.write(1 << 40);
    sim.run(s(2));
    let mut before = sim.bottleneck.drops;
    let mut probes: Vec<(Time, u64)> = Vec::new();
    sim.watch(s(9), Span::from_ms(5), |sim| {
        let drops = std::mem::replace(&mut before, sim.bottleneck.drops);
        let drops = sim.bottleneck.drops - drops;
        match probes.last_mut() {
            Some((at, probe)) if sim.now.since(*at) < Span::from_ms(60) => *probe += drops,
            _ if drops > 0 => probes.push((sim.now, drops)),
            _ => {}
        }
    });
    println!("{probes:?}");
    // A cycle is eight round trips and the time that the queue takes longer to fill.
    assert!((35..=43).contains(&probes.len()), "{}", probes.len());
    let expected = 232.0 - (166.7 + 42.0);
    // The first and the last may be cut.
    for &(_, drops) in &probes[1..probes.len() - 1] {
        assert!(
            (drops as f64 - expected).abs() <= 3.0,
            "{drops} of {expected}"
        );
    }
}

/// BBR's first rate is its window over the round trip times 2.885, and it doubles each round.
#[test]
fn bbr_starts_by_doubling() {
    let mut sim = Sim::new(Bottleneck::default());
    let flow = sim.flow(&unlimited(Algorithm::Bbr), Span::from_ms(100), Time::ZERO);
    flow.a.write(1 << 40);
    sim.run(ms(150));
    let rate = sim.flows[0].a.info().pacing.unwrap();
    assert!((rate / (10.0 * 2.885 / 0.1) - 1.0).abs() < 0.01, "{rate}");
    let mut last = 0;
    for round in 3..8 {
        sim.run(ms(100 * round + 99));
        let delivered = sim.flows[0].a.info().delivered;
        if last > 60 {
            let growth = delivered as f64 / last as f64;
            assert!((1.7..3.2).contains(&growth), "{growth}");
        }
        last = delivered;
    }
}

/// RFC 8257 and the SIGCOMM 2010 paper: the queue stays near K, the link is full.
#[test]
fn dctcp_keeps_the_queue_near_the_threshold() {
    let k = 20;
    let mut bottleneck = Bottleneck::new(100_000_000, 500);
    bottleneck.mark = Some(k);
    let mut sim = Sim::new(bottleneck);
    for i in 0..2 {
        let flow = sim.flow(&unlimited(Algorithm::Dctcp), Span::from_ms(1), ms(i * 10));
        flow.a.write(1 << 40);
    }
    sim.run(s(1));
    let before: u64 = sim.flows.iter().map(|f| f.b.info().received).sum();
    let mut queues = Vec::new();
    sim.watch(s(3), Span::from_us(500), |sim| {
        queues.push(sim.bottleneck.queue(sim.now))
    });
    let received = sim.flows.iter().map(|f| f.b.info().received).sum::<u64>() - before;
    let used = received as f64 * 8.0 * 1500.0 / 1448.0 / 2.0 / 100e6;
    let mean = queues.iter().sum::<usize>() as f64 / queues.len() as f64;
    let most = *queues.iter().max().unwrap();
    println!("DCTCP: queue mean {mean:.1}, most {most}, K {k}, {used:.3} used");
    assert!((0.5 * k as f64..=1.5 * k as f64).contains(&mean));
    assert!(most <= 2 * k, "{most}");
    assert!(used > 0.98);
    assert_eq!(sim.bottleneck.drops, 0);
}

/// Brakmo et al.: between α = 2 and β = 4 segments of the flow wait.
#[test]
fn vegas_holds_two_to_four_segments() {
    let mut sim = Sim::new(Bottleneck::new(10_000_000, 500));
    let config = Config {
        delack_min: Span::ZERO,
        ..unlimited(Algorithm::Vegas)
    };
    let flow = sim.flow(&config, Span::from_ms(50), Time::ZERO);
    flow.a.write(1 << 40);
    sim.run(s(20));
    let base = 0.05 + PACKET / 10e6;
    let before = sim.flows[0].b.info().received;
    let mut waiting = Vec::new();
    sim.watch(s(40), Span::from_ms(10), |sim| {
        let info = sim.flows[0].a.info();
        waiting.push(f64::from(info.cwnd) - 10e6 / PACKET * base);
    });
    let mean = waiting.iter().sum::<f64>() / waiting.len() as f64;
    let used =
        (sim.flows[0].b.info().received - before) as f64 * 8.0 * 1500.0 / 1448.0 / 20.0 / 10e6;
    println!("Vegas: {mean:.2} wait, {used:.3} used");
    assert!((1.5..=4.5).contains(&mean));
    assert!(used > 0.99);
    assert_eq!(sim.bottleneck.drops, 0);
}

/// Xu, Harfoush and Rhee: after a loss the window falls to 0.8, rises by no more than 16 a round
/// trip and slower the nearer it comes to the last maximum.
#[test]
fn bic_searches_for_the_last_maximum() {
    // At a rate, so that acknowledgements are apart and the window grows by a packet between two samples.
    let mut sim = Sim::new(Bottleneck::new(100_000_000, 1000));
    let mut count = 0u64;
    sim.rule = Box::new(move |_, from_a, segment, _| {
        let data = from_a && segment.len > 0;
        count += u64::from(data);
        if data && count == 5000 {
            Impairment::Drop
        } else {
            Impairment::Pass
        }
    });
    let config = Config {
        init_ssthresh: 400,
        ..unlimited(Algorithm::Bic)
    };
    let flow = sim.flow(&config, Span::from_ms(100), Time::ZERO);
    flow.a.write(1 << 40);
    let mut windows = Vec::new();
    sim.watch(s(8), Span::from_ms(1), |sim| {
        let info = sim.flows[0].a.info();
        windows.push((info.phase, info.cwnd, info.ssthresh));
    });
    let lost = windows.iter().position(|w| w.0 == Phase::Recovery).unwrap();
    let peak = windows[lost - 1].1;
    // Once in a round trip, from the end of the repair on.
    let after: Vec<u32> = windows[lost + 150..]
        .iter()
        .step_by(100)
        .map(|w| w.1)
        .collect();
    println!("{peak} {after:?}");
    assert!((f64::from(windows[lost].2) / f64::from(peak) - 0.8).abs() < 0.005);
    let steps: Vec<u32> = after.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|&step| step <= 17), "{steps:?}");
    let near = after.iter().position(|&w| w + 8 >= peak).unwrap();
    assert!(steps[0] >= 12 && steps[near] <= 3, "{steps:?}");
    assert!(after[after.len() - 1] > peak, "it probes beyond");
}

/// Ha and Rhee: slow start ends before the queue overflows, and without HyStart only then. By the
/// train of acknowledgements it ends when half a bandwidth-delay product of 84 packets has come in
/// one round, which starts with a half to a whole one; by the delay, where delayed
/// acknowledgements break the train, a round after the one that started with the product: at two
/// to four of them.
#[test]
fn hystart_leaves_slow_start_before_losses() {
    let run = |hystart, delack_ms, limit| {
        let mut sim = Sim::new(Bottleneck::new(10_000_000, limit));
        let delack_min = Span::from_ms(delack_ms);
        let config = Config {
            hystart,
            delack_min,
            ..unlimited(Algorithm::Cubic)
        };
        let flow = sim.flow(&config, Span::from_ms(100), Time::ZERO);
        flow.a.write(1 << 40);
        sim.run(ms(1500));
        (sim.flows[0].a.info().ssthresh, sim.bottleneck.drops)
    };
    for (what, delack_ms, limit, range) in
        [("train", 0, 84, 84..=128), ("delay", 40, 300, 168..=360)]
    {
        let (with, without) = (run(true, delack_ms, limit), run(false, delack_ms, limit));
        println!("{what}: with {with:?}, without {without:?}");
        assert_eq!(with.1, 0, "{what}");
        assert!(range.contains(&with.0), "{what} {with:?}");
        assert!(without.1 > 20, "{what}");
    }
}

/// RFC 2861: each time-out without sending halves the window, down to the first one.
#[test]
fn an_idle_connection_starts_anew() {
    for (idle_ms, expected) in [(200, 160), (450, 80), (1100, 20), (2000, 10)] {
        let mut sim = Sim::new(Bottleneck::default());
        let flow = sim.flow(&unlimited(Algorithm::Reno), Span::from_ms(100), Time::ZERO);
        // 10 + 20 + 40 + 80 segments: the window is 160 when all are acknowledged, at 500 ms.
        flow.a.write(150 * 1448);
        sim.run(ms(505));
        let before = sim.flows[0].a.info();
        assert_eq!((before.cwnd, before.acknowledged), (160, 150 * 1448));
        // The time-out is 300 ms; the last segments left at 400 ms.
        assert!((300..=310).contains(&(before.rto.as_ns() / 1_000_000)));
        sim.run(ms(400 + idle_ms));
        sim.flows[0].a.write(1448);
        sim.run(ms(401 + idle_ms));
        assert_eq!(sim.flows[0].a.info().cwnd, expected, "{idle_ms}");
    }
}

/// A window that the application does not use does not grow (`tcp_is_cwnd_limited`).
#[test]
fn an_unused_window_does_not_grow() {
    let mut sim = Sim::new(Bottleneck::default());
    sim.flow(&unlimited(Algorithm::Cubic), Span::from_ms(20), Time::ZERO);
    sim.watch(s(5), Span::from_ms(20), |sim| {
        sim.flows[0].a.write(2 * 1448);
    });
    let info = sim.flows[0].a.info();
    assert_eq!(info.cwnd, 10);
    assert!(info.delivered > 480, "{}", info.delivered);
}
