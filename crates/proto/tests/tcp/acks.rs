//! When acknowledgements leave: exact counts and times.

use std::sync::Arc;

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Config, Endpoint, Flags, Segment};

use crate::sim::{Bottleneck, Sim, in_ms, ms, unlimited};
use longhaul_proto::tcp::Algorithm;

const FULL: u32 = 1448;

/// An endpoint that reads at once, the handshake done at t = 0 to 10 ms.
fn reader(config: Config) -> Endpoint {
    let config = Arc::new(config);
    let mut a = Endpoint::connect(Time::ZERO, config.clone(), 1);
    let mut b = Endpoint::listen(config, 1);
    b.set_auto_read(true);
    b.handle_segment(Time::ZERO, &a.poll_transmit(Time::ZERO).unwrap());
    a.handle_segment(ms(5), &b.poll_transmit(Time::ZERO).unwrap());
    b.handle_segment(ms(10), &a.poll_transmit(ms(5)).unwrap());
    assert_eq!(b.poll_transmit(ms(10)), None);
    b
}

fn data(index: u64) -> Segment {
    Segment {
        seq: 1 + index * u64::from(FULL),
        ack: 1,
        len: FULL,
        window: 1 << 20,
        flags: Flags::ACK,
        ..Segment::default()
    }
}

/// Acknowledgements that leave while `count` segments come, one each `gap` from 20 ms on: times
/// (ms) and numbers.
fn answers(b: &mut Endpoint, count: u64, gap: Span) -> Vec<(f64, u64)> {
    let mut seen = Vec::new();
    let mut at = ms(20);
    for index in 0..=count {
        while let Some(due) = b.poll_timeout().filter(|&due| due < at || index == count) {
            b.handle_timeout(due);
            seen.extend(b.poll_transmit(due).map(|ack| (in_ms(due), ack.ack)));
        }
        if index < count {
            b.handle_segment(at, &data(index));
            seen.extend(std::iter::from_fn(|| b.poll_transmit(at)).map(|ack| (in_ms(at), ack.ack)));
            at += gap;
        }
    }
    seen
}

/// RFC 1122 §4.2.3.2: each second full segment; the odd one after 40 ms.
#[test]
fn each_second_segment_is_acknowledged_and_the_odd_one_after_40_ms() {
    let mut b = reader(Config {
        quickack: 0,
        ..Config::default()
    });
    let seen = answers(&mut b, 101, Span::from_ms(1));
    assert_eq!(seen.len(), 51);
    for (i, &(at, ack)) in seen[..50].iter().enumerate() {
        assert_eq!(
            (at, ack),
            (
                21.0 + 2.0 * i as f64,
                1 + 2 * (i as u64 + 1) * u64::from(FULL)
            )
        );
    }
    assert_eq!(seen[50], (120.0 + 40.0, 1 + 101 * u64::from(FULL)));
}

/// Linux's `TCP_MAX_QUICKACKS`: sixteen at once, then each second one.
#[test]
fn the_first_sixteen_are_acknowledged_at_once() {
    let mut b = reader(Config::default());
    let seen = answers(&mut b, 100, Span::from_ms(1));
    assert_eq!(seen.len(), 16 + 84 / 2);
    assert!(
        seen[..16]
            .iter()
            .enumerate()
            .all(|(i, &(at, _))| at == 20.0 + i as f64)
    );
    assert_eq!(seen[16].0, 37.0);
}

#[test]
fn without_delay_each_segment_is_acknowledged() {
    let mut b = reader(Config {
        delack_min: Span::ZERO,
        quickack: 0,
        ..Config::default()
    });
    assert_eq!(answers(&mut b, 33, Span::from_ms(1)).len(), 33);
}

/// Segments 100 ms apart never meet: each is acknowledged after 40 ms, as the round trip is
/// shorter than that.
#[test]
fn lone_segments_are_acknowledged_after_40_ms() {
    let mut b = reader(Config {
        quickack: 0,
        ..Config::default()
    });
    let seen = answers(&mut b, 5, Span::from_ms(100));
    let times: Vec<f64> = seen.iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [60.0, 160.0, 260.0, 360.0, 460.0]);
}

#[test]
fn what_comes_out_of_order_is_acknowledged_at_once_most_recent_first() {
    let mut b = reader(Config {
        quickack: 0,
        timestamps: false,
        ..Config::default()
    });
    let mut reported = Vec::new();
    for index in [2, 4, 6, 3, 0, 2] {
        b.handle_segment(ms(20), &data(index));
        let ack = b.poll_transmit(ms(20));
        let blocks = ack.iter().flat_map(|ack| ack.sacks.blocks().to_vec());
        let number = |seq: u64| (seq - 1) / u64::from(FULL);
        reported.push(
            blocks
                .map(|r| (number(r.start), number(r.end)))
                .collect::<Vec<_>>(),
        );
    }
    let expected = [
        vec![(2, 3)],
        vec![(4, 5), (2, 3)],
        vec![(6, 7), (4, 5), (2, 3)],
        vec![(2, 5), (6, 7)],
        vec![(2, 5), (6, 7)],
        // A duplicate comes first (RFC 2883).
        vec![(2, 3), (2, 5), (6, 7)],
    ];
    assert_eq!(reported, expected);
}

/// Question and answer: acknowledgements ride on the answers.
#[test]
fn answers_carry_acknowledgements() {
    let mut sim = Sim::new(Bottleneck::default());
    let config = Config {
        quickack: 0,
        ..unlimited(Algorithm::Cubic)
    };
    sim.flow(&config, Span::from_ms(20), Time::ZERO);
    sim.run(ms(100));
    sim.log = Some(Vec::new());
    let (mut asked, mut heard) = (0, 0);
    sim.watch(ms(2000), Span::from_ms(1), |sim| {
        let f = &mut sim.flows[0];
        if f.a.info().received == asked * 300 {
            asked += 1;
            f.a.write(200);
        }
        if f.b.info().received == (heard + 1) * 200 {
            heard += 1;
            f.b.write(300);
        }
    });
    assert!(heard >= 80, "{heard}");
    let log = sim.log.take().unwrap();
    let bare = log
        .iter()
        .filter(|(_, _, segment)| segment.len == 0)
        .count();
    assert_eq!(bare, 0);
}
