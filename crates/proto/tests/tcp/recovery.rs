//! Repair: exact times of time-outs and probes, losses of one window, needless reductions.

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config, Event, Phase, Segment};

use crate::sim::{Bottleneck, Impairment, Sim, in_ms, ms, s, unlimited};

const RTT: Span = Span::from_ms(100);

/// A flow of `segments` full ones with a first window of 40; the `lost` ones (by number, from 0)
/// are lost the first time.
fn flow(config: &Config, segments: u64, lost: Vec<u64>) -> Sim {
    let mut sim = Sim::new(Bottleneck::default());
    let mut lost = lost;
    sim.rule = Box::new(move |_, from_a, segment, _| {
        let number = (segment.seq.wrapping_sub(1)) / 1448;
        let hit = lost
            .iter()
            .position(|&l| from_a && segment.len > 0 && l == number);
        hit.map_or(Impairment::Pass, |at| {
            lost.swap_remove(at);
            Impairment::Drop
        })
    });
    let flow = sim.flow(config, RTT, Time::ZERO);
    flow.a.write(segments * 1448);
    sim.log = Some(Vec::new());
    sim
}

fn wide() -> Config {
    Config {
        initcwnd: 40,
        delack_min: Span::ZERO,
        ..unlimited(Algorithm::Reno)
    }
}

/// RFC 6298 §2 and §5 with Linux's bounds: SRTT 100 ms and an allowance of 200 ms give 300 ms;
/// then it doubles up to 120 s, and after 15 retransmissions the other side is given up.
#[test]
fn time_outs_double_exactly() {
    let mut sim = flow(
        &Config {
            tlp: false,
            ..wide()
        },
        1,
        Vec::new(),
    );
    sim.rule = Box::new(|_, from_a, segment, _| {
        if from_a && segment.len > 0 {
            Impairment::Drop
        } else {
            Impairment::Pass
        }
    });
    sim.run(s(4000));
    let log = sim.log.take().unwrap();
    let data = log
        .iter()
        .filter(|(_, from_a, segment)| *from_a && segment.len > 0);
    let times: Vec<f64> = data.map(|(at, _, _)| in_ms(*at) - 100.0).collect();
    let mut expected = vec![0.0];
    for retry in 0..15 {
        let wait = (300.0 * 2_f64.powi(retry)).min(120_000.0);
        expected.push(expected[expected.len() - 1] + wait);
    }
    assert_eq!(times, expected);
    let a = &mut sim.flows[0].a;
    assert_eq!(a.info().timeouts, 15);
    let events: Vec<Event> = std::iter::from_fn(|| a.poll_event()).collect();
    assert_eq!(events, [Event::Connected, Event::TimedOut, Event::Closed]);
}

/// RFC 6298 §5.7: the first sample after time-outs ends the back-off; timestamps make one of a
/// segment that was sent again.
#[test]
fn a_sample_ends_the_doubling() {
    let mut sim = flow(
        &Config {
            tlp: false,
            ..wide()
        },
        1,
        Vec::new(),
    );
    let mut tries = 0;
    sim.rule = Box::new(move |_, from_a, segment, _| {
        tries += u32::from(from_a && segment.len > 0);
        if from_a && segment.len > 0 && tries <= 3 {
            Impairment::Drop
        } else {
            Impairment::Pass
        }
    });
    sim.run(ms(1500));
    let doubled = sim.flows[0].a.info().rto;
    assert!(doubled >= Span::from_ms(2 * 300), "{doubled}");
    sim.run(s(10));
    let info = sim.flows[0].a.info();
    assert_eq!(info.timeouts, 3);
    assert!(info.rto < Span::from_ms(400), "{}", info.rto);
}

/// After a time-out the window is one segment, and doubles.
#[test]
fn a_time_out_starts_slowly() {
    let config = Config {
        tlp: false,
        ..wide()
    };
    let mut sim = flow(&config, 40, (0..40).collect());
    let mut windows = Vec::new();
    sim.watch(ms(1000), Span::from_ms(50), |sim| {
        windows.push(sim.flows[0].a.info().cwnd)
    });
    let sent: Vec<u32> = {
        let log = sim.log.take().unwrap();
        let at = |t: u64| {
            log.iter()
                .filter(|(at, a, seg)| *a && seg.len > 0 && *at == ms(t))
                .count() as u32
        };
        [400, 500, 600, 700].map(at).to_vec()
    };
    assert_eq!(sent, [1, 2, 4, 8], "{windows:?}");
    assert_eq!(sim.flows[0].a.info().ssthresh, 20);
}

/// Selective acknowledgements repair all losses of a window in the round trip after they are
/// known, each by one retransmission, by time and by counting.
#[test]
fn any_number_of_losses_is_repaired_in_one_round_trip() {
    for rack in [true, false] {
        for losses in [1, 2, 5, 10, 19] {
            let lost: Vec<u64> = (0..losses).map(|i| 2 * i).collect();
            let mut sim = flow(&Config { rack, ..wide() }, 40, lost);
            // The flight leaves at 100 ms, its echo is back at 200 ms.
            sim.run(ms(301));
            let info = sim.flows[0].a.info();
            assert_eq!(info.acknowledged, 40 * 1448, "{losses} losses, {rack}");
            assert_eq!((info.retransmitted, info.timeouts), (losses, 0));
            sim.flows[0].a.write(1448);
            sim.run(ms(600));
            let info = sim.flows[0].a.info();
            assert_eq!((info.phase, info.ssthresh), (Phase::Open, 20));
        }
    }
}

/// RFC 6582: without them a round trip for each.
#[test]
fn newreno_repairs_one_loss_each_round_trip() {
    for losses in [1, 2, 5] {
        let lost: Vec<u64> = (0..losses).map(|i| 3 * i + 1).collect();
        let mut sim = flow(
            &Config {
                sack: false,
                ..wide()
            },
            40,
            lost,
        );
        sim.run(ms(200 + 100 * losses - 1));
        assert!(sim.flows[0].a.info().acknowledged < 40 * 1448);
        sim.run(ms(200 + 100 * losses + 1));
        let info = sim.flows[0].a.info();
        assert_eq!(info.acknowledged, 40 * 1448, "{losses} losses");
        assert_eq!((info.retransmitted, info.timeouts), (losses, 0));
    }
}

/// PRR (RFC 6937): in recovery about one segment leaves for two delivered, and the window ends
/// at the threshold.
#[test]
fn recovery_halves_in_proportion() {
    let mut sim = flow(&wide(), 1000, vec![0]);
    sim.run(ms(201));
    let log = sim.log.clone().unwrap();
    let left = log
        .iter()
        .filter(|(at, a, seg)| *a && seg.len > 0 && *at >= ms(200))
        .count();
    // 39 selective acknowledgements: limited transmit for the first ones, then one for two.
    assert!((20..=23).contains(&left), "{left}");
    assert_eq!(sim.flows[0].a.info().phase, Phase::Recovery);
    sim.run(ms(301));
    let info = sim.flows[0].a.info();
    assert_eq!((info.phase, info.ssthresh), (Phase::Open, 20));
    assert!((20..=21).contains(&info.cwnd), "{}", info.cwnd);
}

/// RFC 8985 §7: the last two segments are lost; two round trips and 2 ms after the last news the
/// last one is sent again, and its selective acknowledgement reports the other.
#[test]
fn a_tail_loss_is_probed_for() {
    let mut sim = flow(&wide(), 10, vec![8, 9]);
    sim.run(s(2));
    let log = sim.log.take().unwrap();
    let data = log
        .iter()
        .filter(|(_, a, seg)| *a && seg.len > 0 && seg.seq > 1 + 7 * 1448);
    let times: Vec<(f64, u64)> = data
        .map(|(at, _, seg)| (in_ms(*at), seg.seq / 1448))
        .collect();
    assert_eq!(times, [(100.0, 8), (100.0, 9), (402.0, 9), (502.0, 8)]);
    assert_eq!(sim.flows[0].a.info().timeouts, 0);
}

/// A probe that repairs a single loss reduces the window as the loss would have done.
#[test]
fn a_probe_that_repairs_reduces() {
    let mut sim = flow(
        &Config {
            timestamps: false,
            ..wide()
        },
        10,
        vec![9],
    );
    sim.run(s(2));
    let info = sim.flows[0].a.info();
    assert_eq!((info.timeouts, info.retransmitted), (0, 1));
    assert!(info.ssthresh < 40, "{}", info.ssthresh);
}

/// A segment that was only late: the reduction is undone by a duplicate's report, and the window
/// for reordering opens.
#[test]
fn a_needless_reduction_is_undone() {
    for timestamps in [true, false] {
        let mut sim = flow(
            &Config {
                timestamps,
                ..wide()
            },
            400,
            Vec::new(),
        );
        let mut done = false;
        sim.rule = Box::new(move |_, from_a, segment, _| {
            let hit = from_a && segment.len > 0 && segment.seq > 20 * 1448 && !done;
            done |= hit;
            if hit {
                Impairment::Delay(Span::from_ms(20))
            } else {
                Impairment::Pass
            }
        });
        sim.run(ms(1000));
        let info = sim.flows[0].a.info();
        assert_eq!(
            (info.retransmitted, info.timeouts, info.undone),
            (1, 0, 1),
            "{timestamps}"
        );
        assert!(info.ssthresh >= 40, "{}", info.ssthresh);
        assert_eq!(info.acknowledged, 400 * 1448);
    }
}

/// A retransmission that is lost too is found by time, without a time-out.
#[test]
fn a_lost_retransmission_is_sent_again() {
    let mut sim = flow(&wide(), 1000, vec![5, 5]);
    sim.run(s(5));
    let info = sim.flows[0].a.info();
    assert_eq!(info.acknowledged, 1000 * 1448);
    assert_eq!((info.retransmitted, info.timeouts), (2, 0));
}

/// A delayed acknowledgement in front of a hole acknowledges a segment together with the first one behind the
/// hole. That is not reordering, so the loss is known once three segments behind it have arrived, whether or
/// not an acknowledgement was being delayed.
#[test]
fn a_delayed_acknowledgement_in_front_of_a_hole_shows_no_reordering() {
    for lost in 100..104 {
        let config = Config {
            delack_min: Span::from_ms(40),
            ..wide()
        };
        let mut sim = flow(&config, 1 << 20, vec![lost]);
        sim.bottleneck = Bottleneck::new(10_000_000, 1000);
        sim.run(s(3));
        let log = sim.log.take().unwrap();
        let sacked = log
            .iter()
            .find(|(_, a, segment)| !a && !segment.sacks.blocks().is_empty());
        let first = |segment: &Segment| segment.len > 0 && segment.seq == lost * 1448 + 1;
        let sent = log.iter().filter(|(_, a, segment)| *a && first(segment));
        let sent: Vec<Time> = sent.map(|(at, ..)| *at).collect();
        let known = sacked.expect("a loss").0 + Span::from_ms(50);
        let after = sent[1].since(known);
        println!("{lost}: sent again {after} after the first selective acknowledgement");
        assert!(after <= Span::from_ms(3), "{after}");
        assert_eq!(sim.flows[0].a.info().retransmitted, 1);
    }
}
