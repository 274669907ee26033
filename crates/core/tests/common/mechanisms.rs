//! Parameters of pipes with every mechanism that there is.

use std::num::NonZeroU32;
use std::sync::Arc;

use longhaul_core::element::{Action as Passage, Element, ElementFactory};
use longhaul_core::params::{
    CoDel, Discipline, Distribution, FqCodel, Jitter, LossModel, Pie, PipeParams, Red, Reorder,
    Which,
};
use longhaul_core::rng::Stream;
use longhaul_core::trace::{Capacity, Sample, Series, Trace};
use longhaul_core::units::{Bytes, Probability, QueueLimit, Rate};
use longhaul_core::{Span, Time};
use proptest::prelude::*;

use super::cases::params;

pub(crate) fn per_cent(n: u64) -> Probability {
    Probability::from_ratio(n, 100).unwrap()
}

/// Holds or drops some, and writes into all.
#[derive(Debug, Default)]
struct Moody(u8);

impl Element for Moody {
    fn pass(&mut self, now: Time, packet: &mut [u8], random: &mut Stream) -> Passage {
        self.0 = self.0.wrapping_add(1);
        if let [_, .., byte] = &mut packet[20..]
            && is_third(now)
        {
            *byte = self.0;
        }
        match random.draw() % 16 {
            0 => Passage::Drop,
            1 => Passage::Hold(Span::from_ns(700)),
            _ => Passage::Pass,
        }
    }
}

/// Something that depends on the time.
pub(crate) const fn is_third(now: Time) -> bool {
    now.as_ns().is_multiple_of(3)
}

pub(crate) fn moody() -> ElementFactory {
    ElementFactory {
        name: "moody".into(),
        make: Arc::new(|| Box::new(Moody::default())),
    }
}

pub(crate) fn discipline() -> impl Strategy<Value = Discipline> {
    let codel = |ecn| CoDel {
        target: Span::from_ns(500),
        interval: Span::from_us(5),
        ecn,
    };
    prop_oneof![
        2 => Just(Discipline::DropTail),
        1 => any::<bool>().prop_map(|ecn| Discipline::Red(Red {
            min: 1,
            max: 4,
            probability: per_cent(20),
            weight_log2: 1,
            ecn,
        })),
        1 => any::<bool>().prop_map(move |ecn| Discipline::CoDel(codel(ecn))),
        1 => any::<bool>().prop_map(|ecn| Discipline::Pie(Pie {
            target: Span::from_us(1),
            update: Span::from_us(2),
            max_burst: Span::from_us(3),
            ecn,
        })),
        1 => any::<bool>().prop_map(move |ecn| Discipline::FqCodel(FqCodel {
            codel: codel(ecn),
            flows: NonZeroU32::new(4).unwrap(),
            quantum: 700,
        })),
    ]
}

pub(crate) fn jitter() -> impl Strategy<Value = Jitter> {
    let distribution = prop_oneof![
        (0f64..5000.0).prop_map(|low| Distribution::Uniform {
            low,
            high: low + 3000.0
        }),
        (0f64..5000.0).prop_map(|mean| Distribution::Normal {
            mean,
            deviation: 1000.0
        }),
        Just(Distribution::Gamma {
            base: 0.0,
            shape: 2.0,
            scale: 800.0
        }),
    ];
    (distribution, 0..2u8, any::<bool>()).prop_map(|(distribution, half, reorder)| Jitter {
        distribution,
        correlation: f64::from(half) / 2.0,
        reorder,
    })
}

pub(crate) fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::OneIn(NonZeroU32::new(5).unwrap())),
        Just(LossModel::Pattern([false, true, false].as_slice().into())),
        Just(LossModel::GilbertElliott {
            to_bad: per_cent(10),
            to_good: per_cent(40),
            in_good: Probability::NEVER,
            in_bad: Probability::ALWAYS,
        }),
    ]
}

pub(crate) fn trace() -> impl Strategy<Value = Trace> {
    let sample = |at: u64, delay: u64, mbit: u64| Sample {
        at: Span::from_ns(at),
        delay: delay.checked_sub(500).map(Span::from_ns),
        rate: (!mbit.is_multiple_of(3)).then(|| match mbit {
            4 => Capacity::Unlimited,
            5 => Capacity::Outage,
            _ => Capacity::Limited(Rate::from_bits_per_s(mbit * 1_000_000_000).unwrap()),
        }),
        loss: delay.is_multiple_of(4).then(|| per_cent(10)),
    };
    let samples = prop::collection::vec((0u64..3000, 1u64..20), 1..6);
    let samples = (samples, any::<bool>()).prop_map(move |(rows, interpolate)| Series::Samples {
        samples: (0..)
            .zip(rows)
            .map(|(n, (delay, mbit))| sample(n * 2000, delay, mbit))
            .collect(),
        interpolate,
    });
    let times = prop::collection::vec(0u64..8000, 1..8);
    let opportunities = times.prop_map(|mut at| {
        at.sort_unstable();
        Series::Opportunities {
            at: at.into_iter().map(Span::from_ns).collect(),
            bytes: 1500,
        }
    });
    // The series starts over, so that no outage lasts for ever where there is a rate at all.
    prop_oneof![samples, opportunities].prop_map(|series| Trace {
        series,
        offset: Span::from_ns(900),
        period: Some(Span::from_ns(13_000)),
    })
}

/// Parameters of pipes with any mechanism.
pub(crate) fn all() -> impl Strategy<Value = PipeParams> {
    let some = prop::option::weighted(0.3, 0u64..4000);
    let chances = prop::collection::vec(prop_oneof![2 => Just(0u64), 1 => 0u64..8], 4);
    let options = (
        prop::option::weighted(0.3, jitter()),
        prop::option::weighted(0.3, loss()),
        prop::option::weighted(0.3, trace()),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    );
    (params(), some, discipline(), chances, options).prop_map(
        |(plain, burst, discipline, chances, options)| {
            let (jitter, loss, trace, overtake, element, timed) = options;
            let only_outages = trace.as_ref().is_some_and(never_sends);
            PipeParams {
                burst: burst.map(Bytes),
                discipline,
                jitter: jitter.map(Arc::new),
                overtake,
                loss: loss.unwrap_or(plain.loss),
                bit_errors: Probability::from_ratio(chances[0], 1_000_000).unwrap(),
                duplicate: per_cent(chances[1]),
                corrupt: per_cent(chances[2]),
                reorder: (chances[3] > 0).then(|| Reorder {
                    which: Which::Random(per_cent(chances[3] * 3)),
                    hold: Span::from_ns(chances[3] * 1000),
                }),
                trace: trace.filter(|_| !only_outages).map(Arc::new),
                element: element.then(moody),
                queue: if timed {
                    QueueLimit::Time(Span::from_us(2))
                } else {
                    plain.queue
                },
                ..plain
            }
        },
    )
}

/// Whether a trace records rates and all of them are none.
pub(crate) fn never_sends(trace: &Trace) -> bool {
    match &trace.series {
        Series::Opportunities { .. } => false,
        Series::Samples { samples, .. } => samples
            .iter()
            .all(|sample| sample.rate == Some(Capacity::Outage)),
    }
}
