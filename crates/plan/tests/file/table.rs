//! Every form of every value of a link's fields, and what it comes to.

use std::num::NonZeroU32;
use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::params::{
    CoDel, Discipline, Distribution, FqCodel, Jitter, LossModel, Pie, PipeParams, Red, Reorder,
    Which,
};
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};

/// Every field with a value, and what it comes to.
pub(crate) fn table() -> Vec<(&'static str, &'static str, PipeParams)> {
    let plain = PipeParams::default;
    let percent = |text: &str| text.parse::<Probability>().unwrap();
    let ms = Span::from_ms;
    let spread = |distribution: Result<Distribution, _>, correlation, reorder| {
        let distribution: Distribution = distribution.unwrap();
        PipeParams {
            delay: Span::from_ns(distribution.mean().round() as u64),
            jitter: Some(Arc::new(Jitter {
                distribution,
                correlation,
                reorder,
            })),
            ..PipeParams::default()
        }
    };
    let loss = |loss| PipeParams {
        loss,
        ..PipeParams::default()
    };
    let queue = |queue, discipline| PipeParams {
        queue,
        discipline,
        ..PipeParams::default()
    };
    let one_in = |n| NonZeroU32::new(n).unwrap();
    vec![
        (
            "rate",
            "8 kbit/s",
            PipeParams {
                rate: Rate::from_bits_per_s(8000),
                ..plain()
            },
        ),
        (
            "rate",
            "100 Gbit/s",
            PipeParams {
                rate: Rate::from_bits_per_s(100_000_000_000),
                ..plain()
            },
        ),
        ("rate", "unlimited", plain()),
        (
            "framing",
            "wire",
            PipeParams {
                framing: Framing::Wire,
                ..plain()
            },
        ),
        (
            "delay",
            "5 ms",
            PipeParams {
                delay: ms(5),
                ..plain()
            },
        ),
        (
            "delay",
            "{ uniform: [4 ms, 6 ms] }",
            spread(Distribution::uniform(ms(4), ms(6)), 0.0, false),
        ),
        (
            "delay",
            "{ normal: { mean: 5 ms, deviation: 1 ms }, correlation: 25 %, reorder: true }",
            spread(Distribution::normal(ms(5), ms(1)), 0.25, true),
        ),
        (
            "delay",
            "{ pareto: { mean: 5 ms, deviation: 1 ms }, base: 3 ms }",
            spread(Distribution::pareto(ms(3), ms(5), ms(1)), 0.0, false),
        ),
        (
            "delay",
            "{ log_normal: { mean: 5 ms, deviation: 1 ms } }",
            spread(Distribution::log_normal(ms(0), ms(5), ms(1)), 0.0, false),
        ),
        (
            "delay",
            "{ gamma: { mean: 5 ms, deviation: 1 ms } }",
            spread(Distribution::gamma(ms(0), ms(5), ms(1)), 0.0, false),
        ),
        (
            "overtake",
            "true",
            PipeParams {
                overtake: true,
                ..plain()
            },
        ),
        ("loss", "1 %", loss(LossModel::Independent(percent("1 %")))),
        (
            "loss",
            "{ one_in: 100 }",
            loss(LossModel::OneIn(one_in(100))),
        ),
        (
            "loss",
            "{ rate: 0.1 %, burst: 5 }",
            loss(LossModel::from_rate_and_burst(percent("0.1 %"), 5.0).unwrap()),
        ),
        (
            "loss",
            "{ rate: 0.1 % }",
            loss(LossModel::Independent(percent("0.1 %"))),
        ),
        (
            "loss",
            "{ gilbert_elliott: { to_bad: 1 %, to_good: 20 %, in_good: 2 % } }",
            loss(LossModel::GilbertElliott {
                to_bad: percent("1 %"),
                to_good: percent("20 %"),
                in_good: percent("2 %"),
                in_bad: Probability::ALWAYS,
            }),
        ),
        (
            "bit_errors",
            "1e-9",
            PipeParams {
                bit_errors: Probability::from_ratio(1, 1_000_000_000).unwrap(),
                ..plain()
            },
        ),
        (
            "bit_errors",
            "2.5E-3",
            PipeParams {
                bit_errors: percent("0.25 %"),
                ..plain()
            },
        ),
        (
            "bit_errors",
            "0.5",
            PipeParams {
                bit_errors: percent("50 %"),
                ..plain()
            },
        ),
        (
            "bit_errors",
            "0.001 %",
            PipeParams {
                bit_errors: Probability::from_ratio(1, 100_000).unwrap(),
                ..plain()
            },
        ),
        ("bit_errors", "0", plain()),
        (
            "duplicate",
            "1 %",
            PipeParams {
                duplicate: percent("1 %"),
                ..plain()
            },
        ),
        (
            "corrupt",
            "0.1 %",
            PipeParams {
                corrupt: percent("0.1 %"),
                ..plain()
            },
        ),
        (
            "reorder",
            "{ probability: 1 %, delay: 2 ms }",
            PipeParams {
                reorder: Some(Reorder {
                    which: Which::Random(percent("1 %")),
                    hold: ms(2),
                }),
                ..plain()
            },
        ),
        (
            "reorder",
            "{ one_in: 100, delay: 2 ms }",
            PipeParams {
                reorder: Some(Reorder {
                    which: Which::OneIn(one_in(100)),
                    hold: ms(2),
                }),
                ..plain()
            },
        ),
        ("reorder", "none", plain()),
        (
            "queue",
            "250 packets",
            queue(QueueLimit::Packets(250), Discipline::DropTail),
        ),
        (
            "queue",
            "64 KiB",
            queue(QueueLimit::Bytes(65_536), Discipline::DropTail),
        ),
        (
            "queue",
            "20 ms",
            queue(QueueLimit::Time(ms(20)), Discipline::DropTail),
        ),
        ("queue", "drop_tail", plain()),
        (
            "queue",
            "{ drop_tail: { limit: 7 packets } }",
            queue(QueueLimit::Packets(7), Discipline::DropTail),
        ),
        (
            "queue",
            "red",
            queue(
                QueueLimit::default(),
                Discipline::Red(Red::for_limit(QueueLimit::default())),
            ),
        ),
        (
            "queue",
            "{ red: { limit: 64 KiB, min: 10 KiB, max: 30 KiB, probability: 2 %, weight: 8, ecn: true } }",
            queue(
                QueueLimit::Bytes(65_536),
                Discipline::Red(Red {
                    min: 10_240,
                    max: 30_720,
                    probability: percent("2 %"),
                    weight_log2: 8,
                    ecn: true,
                }),
            ),
        ),
        (
            "queue",
            "codel",
            queue(QueueLimit::default(), Discipline::CoDel(CoDel::default())),
        ),
        (
            "queue",
            "{ codel: { limit: 100 packets, target: 2 ms, interval: 40 ms, ecn: true } }",
            queue(
                QueueLimit::Packets(100),
                Discipline::CoDel(CoDel {
                    target: ms(2),
                    interval: ms(40),
                    ecn: true,
                }),
            ),
        ),
        (
            "queue",
            "{ codel: }",
            queue(QueueLimit::default(), Discipline::CoDel(CoDel::default())),
        ),
        (
            "queue",
            "{ pie: { target: 20 ms, update: 10 ms, max_burst: 0 s } }",
            queue(
                QueueLimit::default(),
                Discipline::Pie(Pie {
                    target: ms(20),
                    update: ms(10),
                    max_burst: ms(0),
                    ecn: false,
                }),
            ),
        ),
        (
            "queue",
            "fq_codel",
            queue(
                QueueLimit::Packets(10_240),
                Discipline::FqCodel(FqCodel::default()),
            ),
        ),
        (
            "queue",
            "{ fq_codel: { flows: 16, quantum: 300 B, ecn: false, target: 1 ms, limit: 10 ms } }",
            queue(
                QueueLimit::Time(ms(10)),
                Discipline::FqCodel(FqCodel {
                    flows: one_in(16),
                    quantum: 300,
                    codel: CoDel {
                        target: ms(1),
                        ..CoDel::default()
                    },
                }),
            ),
        ),
        ("burst", "none", plain()),
        ("trace", "none", plain()),
        ("element", "none", plain()),
    ]
}
