//! Replay against slow models that share nothing with it: the rate summed up nanosecond by
//! nanosecond, opportunities handed out one by one, values found by reading the whole trace.

mod models;
#[path = "../../../../../tests/skip.rs"]
mod skip;

use proptest::prelude::*;

use super::*;
use crate::trace::Sample;
use models::{budget, handed_out, summed};
use skip::skip;

const NEVER: Time = Time::MAX;

fn ns(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn rate(bits_per_s: u64) -> Option<Capacity> {
    Some(Rate::from_bits_per_s(bits_per_s).map_or(Capacity::Outage, Capacity::Limited))
}

/// A sample that records a rate alone.
fn sample(at: u64, rate: Option<Capacity>) -> Sample {
    Sample {
        at: Span::from_ns(at),
        delay: None,
        rate,
        loss: None,
    }
}

fn samples(list: Vec<Sample>, interpolate: bool, period: Option<u64>, offset: u64) -> Trace {
    Trace {
        series: Series::Samples {
            samples: list,
            interpolate,
        },
        offset: Span::from_ns(offset),
        period: period.map(Span::from_ns),
    }
}

fn opportunities(at: &[u64], bytes: u32, period: Option<u64>, offset: u64) -> Trace {
    Trace {
        series: Series::Opportunities {
            at: at.iter().map(|&ns| Span::from_ns(ns)).collect(),
            bytes,
        },
        offset: Span::from_ns(offset),
        period: period.map(Span::from_ns),
    }
}

fn replay(trace: &Trace, fallback: Option<Rate>) -> Replay {
    Replay::new(Arc::new(trace.clone()), fallback)
}

/// Departures of packets of (entry, bytes) in nanoseconds.
fn departures(trace: &Trace, fallback: Option<Rate>, packets: &[(u64, u32)]) -> Vec<u64> {
    let mut replay = replay(trace, fallback);
    let serve = |&(entered, bytes): &(u64, u32)| replay.serve(ns(entered), bytes).1.as_ns();
    packets.iter().map(serve).collect()
}

/// The same trace with so many rounds written out, and nothing after them but the last value.
fn unrolled(trace: &Trace, rounds: u64) -> Trace {
    let period = trace.period.expect("a looped trace").as_ns();
    let moved = |round: u64, at: Span| Span::from_ns(round * period + at.as_ns());
    let series = match &trace.series {
        Series::Samples {
            samples,
            interpolate,
        } => Series::Samples {
            samples: (0..rounds)
                .flat_map(|round| {
                    samples.iter().map(move |sample| Sample {
                        at: moved(round, sample.at),
                        ..*sample
                    })
                })
                .collect(),
            interpolate: *interpolate,
        },
        Series::Opportunities { at, bytes } => Series::Opportunities {
            at: (0..rounds)
                .flat_map(|round| at.iter().map(move |&at| moved(round, at)))
                .collect(),
            bytes: *bytes,
        },
    };
    Trace {
        series,
        offset: trace.offset,
        period: None,
    }
}

// ---- exact cases ----

#[test]
fn a_packet_meets_every_rate_on_its_way() {
    // 1000 B = 8000 bit: 1000 ns at 1 bit/ns, then 3 bit/ns: 7000/3 = 2333 1/3 ns more.
    let list = vec![
        sample(0, rate(1_000_000_000)),
        sample(1000, rate(3_000_000_000)),
    ];
    let trace = samples(list, false, None, 0);
    assert_eq!(departures(&trace, None, &[(0, 1000)]), [3334]);
    // The remainders of three such packets behind it are carried: 7000 + 24000 bit at 3 bit/ns
    // are 10333 1/3 ns.
    let four = [(0, 1000), (0, 1000), (0, 1000), (0, 1000)];
    assert_eq!(departures(&trace, None, &four)[3], 1000 + 10_334);
}

#[test]
fn gaps_are_even_to_the_byte_as_those_of_a_constant_rate() {
    let list = vec![
        sample(0, rate(7_000_000_000)),
        sample(500, rate(7_000_000_000)),
    ];
    let trace = samples(list, true, Some(900), 0);
    let packets = [(0, 1000); 7];
    let ends = departures(&trace, None, &packets);
    assert_eq!(ends, [1143, 2286, 3429, 4572, 5715, 6858, 8000]);
}

#[test]
fn outages_hold_packets_and_the_unlimited_lets_all_go() {
    let list = vec![
        sample(0, Some(Capacity::Outage)),
        sample(5_000, rate(8_000_000_000)),
        sample(6_000, Some(Capacity::Outage)),
        sample(9_000, Some(Capacity::Unlimited)),
    ];
    let trace = samples(list, false, None, 100);
    // Up to 5100 nothing; 1 byte/ns up to 6100; at 9100 the rest at once, then no time at all.
    let packets = [(200, 600), (200, 600), (300, 1500), (9_500, 1500)];
    assert_eq!(
        departures(&trace, None, &packets),
        [5_700, 9_100, 9_100, 9_500]
    );
}

#[test]
fn an_outage_for_ever_never_delivers() {
    let list = vec![
        sample(0, rate(1_000_000_000)),
        sample(10, Some(Capacity::Outage)),
    ];
    for period in [None, Some(20)] {
        let all_out = vec![sample(0, Some(Capacity::Outage)); 1];
        let trace = samples(all_out, false, period, 0);
        assert_eq!(replay(&trace, None).serve(ns(3), 1).1, NEVER);
    }
    let trace = samples(list.clone(), false, None, 0);
    let mut stuck = replay(&trace, None);
    // 8 bit fit into the 10 ns, 16 do not; what is behind waits for ever, too.
    assert_eq!(stuck.serve(ns(0), 1).1, ns(8));
    assert_eq!(stuck.serve(ns(0), 1).1, NEVER);
    assert_eq!(stuck.work_left(ns(9)), 7_000_000_000);
    assert_eq!(stuck.work_left(ns(1_000)), 6_000_000_000);
    assert_eq!(stuck.serve(ns(50), 1), (NEVER, NEVER));
    // Looped it goes on: 2 bit before 10, 6 bit from 20 on.
    let trace = samples(list, false, Some(20), 0);
    assert_eq!(departures(&trace, None, &[(0, 1), (0, 1)]), [8, 26]);
}

#[test]
fn a_packet_over_trillions_of_rounds_is_out_at_once() {
    // 10⁻⁹ bit in the first of every two nanoseconds: the k-th of 12000 · 10⁹ at 2 (k − 1) + 1.
    let list = vec![sample(0, rate(1)), sample(1, Some(Capacity::Outage))];
    let trace = samples(list, false, Some(2), 7);
    let end = 7 + 2 * (12_000_000_000_000 - 1) + 1;
    let mut replay = replay(&trace, Rate::from_bits_per_s(1));
    assert_eq!(replay.serve(ns(7), 1500).1, ns(end));
    // Half of the time, half of the work.
    assert_eq!(
        replay.work_left(ns(7 + 12_000_000_000_000)),
        6_000_000_000_000
    );
    assert_eq!(replay.serve(ns(end), 1500).1, ns(end + 24_000_000_000_000));
    assert_eq!(replay.serve(ns(u64::MAX - 1), 1500).1, NEVER);
}

#[test]
fn a_line_is_integrated() {
    // From 0 to 2 bit/ns in 8000 ns, and down again: n² / 8000 bit after n ns.
    let list = vec![
        sample(0, rate(0)),
        sample(8_000, rate(2_000_000_000)),
        sample(16_000, rate(0)),
    ];
    let trace = samples(list, true, None, 0);
    // 250 B = 2000 bit after 4000 ns; another 6000 bit at 8000; 2000 bit more of the 8000 that
    // come on the way down: 8000 − (8000 − m)²/8000 = 2000 at m = 8000 − √48·10⁶ = 1071.8.
    let packets = [(0, 250), (0, 750), (0, 250)];
    assert_eq!(departures(&trace, None, &packets), [4_000, 8_000, 9_072]);
    let mut replay = replay(&trace, None);
    assert_eq!(replay.rate_at(ns(4_000)), rate(1_000_000_000));
    assert_eq!(replay.rate_at(ns(16_000)), Some(Capacity::Outage));
    // The last 8 bit come as slowly as the rate falls: 16000 − √(64 · 10³) = 15747.02 at which
    // 8 bit are missing.
    let all = departures(&trace, None, &[(0, 1999), (0, 1), (0, 1)]);
    assert_eq!(all, [15_748, 16_000, u64::MAX]);
}

#[test]
fn before_the_series_and_where_it_is_silent_the_pipe_s_own_rate_holds() {
    let list = vec![sample(0, None), sample(1_000, rate(1_000_000_000))];
    let trace = samples(list, true, None, 500);
    let own = Rate::from_bits_per_s(8_000_000_000);
    // 1 byte/ns until 1500, 1 bit/ns after.
    assert_eq!(
        departures(&trace, own, &[(0, 1400), (0, 110)]),
        [1_400, 1_580]
    );
    assert_eq!(
        departures(&trace, None, &[(0, 1400), (1_499, 1), (1_500, 1)]),
        [0, 1_499, 1_508]
    );
    let mut replay = replay(&trace, own);
    assert_eq!(
        (replay.rate_at(ns(1_499)), replay.delay_at(ns(9))),
        (None, None)
    );
    assert!(replay.paces());
}

#[test]
fn values_hold_or_lie_on_the_line() {
    let at = |at, delay, loss| Sample {
        at: Span::from_ns(at),
        delay: Some(Span::from_ns(delay)),
        rate: None,
        loss: Some(loss),
    };
    let list = vec![
        at(0, 1_000, Probability::NEVER),
        at(100, 2_000, Probability::ALWAYS),
        at(200, 0, Probability::NEVER),
    ];
    let mut steps = replay(&samples(list.clone(), false, Some(300), 10), None);
    assert_eq!(steps.trace().period, Some(Span::from_ns(300)));
    let mut lines = replay(&samples(list, true, Some(300), 10), None);
    assert!(!steps.paces());
    let cases = [
        (9, None, None),
        (10, Some(1_000), Some(1_000)),
        (60, Some(1_000), Some(1_500)),
        (110, Some(2_000), Some(2_000)),
        (209, Some(2_000), Some(20)),
        (260, Some(0), Some(500)), // on the way to the first of the next round
        (10 + 300 * 1_000_000_000 + 50, Some(1_000), Some(1_500)),
    ];
    for (t, held, on_line) in cases {
        assert_eq!(steps.delay_at(ns(t)).map(Span::as_ns), held, "at {t}");
        assert_eq!(lines.delay_at(ns(t)).map(Span::as_ns), on_line, "at {t}");
    }
    let half = Probability::from_ratio(1, 2).unwrap();
    let off = lines.loss_at(ns(60)).unwrap().as_f64() - half.as_f64();
    assert!(off.abs() < 1e-15);
    assert_eq!(steps.loss_at(ns(60)), Some(Probability::NEVER));
    assert_eq!(lines.loss_at(ns(110)), Some(Probability::ALWAYS));
}

#[test]
fn opportunities_pass_what_waits_and_are_lost_on_nobody() {
    // Two at 10, one at 20, and 30 is both the last of a round and the zero of the next.
    let trace = opportunities(&[0, 10, 10, 20, 30], 1500, Some(30), 0);
    let mut replay = replay(&trace, None);
    let mut out = |entered, bytes| replay.serve(ns(entered), bytes).1.as_ns();
    assert_eq!(out(5, 1000), 10);
    assert_eq!(out(6, 500), 10, "the rest of the first");
    assert_eq!(out(6, 1501), 20, "the second, and one byte of the next");
    assert_eq!(
        out(20, 1499),
        30,
        "entered with an opportunity, too late for it"
    );
    assert_eq!(out(21, 1), 30, "its last byte");
    assert_eq!(out(22, 1500), 30, "the zero of the next round");
    assert_eq!(out(1_000_000_000_000_030, 1), 1_000_000_000_000_030 + 10);
    assert_eq!(out(1_000_000_000_000_031, 15_000), 1_000_000_000_000_100);
    assert_eq!(out(u64::MAX - 2, 1), u64::MAX);
}

#[test]
fn after_the_last_opportunity_there_is_none() {
    let trace = opportunities(&[1, 2], 1500, None, 100);
    let mut replay = replay(&trace, Rate::from_bits_per_s(1));
    assert_eq!(replay.serve(ns(0), 3000).1, ns(102));
    assert_eq!(replay.serve(ns(0), 1).1, NEVER);
    assert_eq!(replay.serve(ns(500), 1), (NEVER, NEVER));
}

#[test]
fn a_restart_keeps_what_was_sent_through_opportunities() {
    let trace = opportunities(&[10, 20, 30, 40], 1000, Some(40), 0);
    let mut replay = replay(&trace, None);
    assert_eq!(replay.serve(ns(0), 2500).1, ns(30));
    let left = |replay: &mut Replay, t| replay.work_left(ns(t)) / WORK_OF_BYTE;
    assert_eq!(
        left(&mut replay, 10),
        2500,
        "what happens at 10 comes after"
    );
    assert_eq!(left(&mut replay, 11), 1500);
    assert_eq!(left(&mut replay, 30), 500);
    assert_eq!(left(&mut replay, 31), 0);
    let work = replay.work_left(ns(15));
    assert_eq!(replay.restart(ns(15), None, work), ns(30));
    assert_eq!(replay.serve(ns(12), 500).1, ns(30));
}

// ---- properties ----

/// Packets in the order of entry.
fn packets(span: u64, bytes: u32) -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((0..span, 1..bytes), 1..30).prop_map(|mut list| {
        list.sort_by_key(|packet| packet.0);
        list
    })
}

/// Up to 60 bit/ns, with outages, silence and freedom.
fn capacity() -> impl Strategy<Value = Option<Capacity>> {
    prop_oneof![
        8 => (1..60_000_000_000u64).prop_map(rate),
        2 => Just(Some(Capacity::Outage)),
        1 => Just(Some(Capacity::Unlimited)),
        1 => Just(None),
    ]
}

/// Stretches of lengths that divide 720, so that lines have a common denominator.
fn stretches(interpolate: bool) -> impl Strategy<Value = Trace> {
    let length = prop::sample::select(vec![1u64, 2, 5, 9, 16, 36, 80, 240]);
    let list = prop::collection::vec((length, capacity()), 1..8);
    (list, 0..50u64, any::<bool>()).prop_map(move |(list, offset, looped)| {
        let mut at = 0;
        let mut series = Vec::new();
        for (length, capacity) in list {
            series.push(sample(at, capacity));
            at += length;
        }
        samples(series, interpolate, looped.then_some(at), offset)
    })
}

/// Without loops, for the models: looped ones are written out for longer than tests look, the
/// lines between rounds included.
fn flat(trace: &Trace) -> Trace {
    match trace.period {
        Some(period) => unrolled(trace, SHOWN / period.as_ns() + 2),
        None => trace.clone(),
    }
}

/// Up to here the models run.
const SHOWN: u64 = 3_000;
const SCALE: u128 = 2 * 720;

fn own_rate() -> impl Strategy<Value = Option<Rate>> {
    prop_oneof![
        Just(None),
        (1..40_000_000_000u64).prop_map(Rate::from_bits_per_s)
    ]
}

/// Those of `ends` that the models see.
fn seen(ends: &[u64]) -> Vec<u64> {
    let cut = |&end: &u64| if end > SHOWN { u64::MAX } else { end };
    ends.iter().map(cut).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn steps_are_summed_exactly(
        trace in stretches(false), own in own_rate(), packets in packets(900, 400),
    ) {
        let exact = summed(&flat(&trace), own, &packets, (SHOWN, 1));
        prop_assert_eq!(seen(&departures(&trace, own, &packets)), exact);
    }

    /// On lines a departure may be up to 10⁻⁹ bit a stretch late, which shows where the exact
    /// end lies on a whole nanosecond, or where the rate is next to nothing.
    #[test]
    fn lines_are_summed_exactly(
        trace in stretches(true), own in own_rate(), packets in packets(900, 400),
    ) {
        let exact = summed(&flat(&trace), own, &packets, (SHOWN, SCALE));
        let ends = departures(&trace, own, &packets);
        for (&end, &exact) in ends.iter().zip(&exact) {
            let late = end.min(SHOWN).checked_sub(exact.min(SHOWN));
            let slow = |t| budget(&flat(&trace), own, t, SCALE).is_some_and(|b| b < 2 * SCALE);
            let excused = (exact..end.min(SHOWN)).skip(1).all(slow);
            prop_assert!(late.is_some() && excused, "{end} for {exact}: {ends:?}");
        }
    }

    #[test]
    fn rounds_are_as_if_written_out(
        trace in stretches(false), own in own_rate(), packets in packets(100_000, 2_000),
    ) {
        prop_assume!(trace.period.is_some());
        let rounds = 400_000 / trace.period.unwrap().as_ns() + 1;
        let plain = departures(&unrolled(&trace, rounds), own, &packets);
        let looped = departures(&trace, own, &packets);
        for (looped, plain) in looped.into_iter().zip(plain) {
            prop_assert_eq!(looped.min(400_000), plain.min(400_000));
        }
    }

    /// Starting over with what is left changes nothing: no work appears or is lost.
    #[test]
    fn work_is_conserved(
        trace in stretches(false), own in own_rate(), bytes in 1..5_000u32,
        (entered, cuts) in (0..300u64, prop::collection::vec(0..2_000u64, 1..5)),
    ) {
        let mut replay = replay(&trace, own);
        let (start, end) = replay.serve(ns(entered), bytes);
        let mut cuts: Vec<u64> = cuts.iter().map(|cut| start.as_ns() + cut).collect();
        cuts.sort_unstable();
        let mut before = u128::from(bytes) * WORK_OF_BYTE;
        for cut in cuts.into_iter().filter(|&cut| cut < end.as_ns()) {
            let left = replay.work_left(ns(cut));
            prop_assert!(0 < left && left <= before);
            let again = replay.restart(ns(cut), own, left);
            prop_assert_eq!(again, end);
            before = left;
        }
        if end < NEVER {
            prop_assert_eq!(replay.work_left(end), 0);
        }
    }

    #[test]
    fn lookups_do_not_depend_on_those_before(
        trace in stretches(true), times in prop::collection::vec(0..5_000u64, 1..40),
    ) {
        let mut used = replay(&trace, None);
        for t in times {
            prop_assert_eq!(used.rate_at(ns(t)), replay(&trace, None).rate_at(ns(t)), "at {}", t);
        }
    }

    #[test]
    fn opportunities_are_as_if_handed_out_one_by_one(
        mut at in prop::collection::vec(0..200u64, 1..20), each in 1..100u32,
        more in 1..50u64, offset in 0..50u64, packets in packets(3_000, 700),
    ) {
        at.sort_unstable();
        let period = at[at.len() - 1] + more - 1;
        prop_assume!(period > 0);
        let trace = opportunities(&at, each, Some(period), offset);
        // Long enough for all packets, of which a period may take no more than a byte.
        let bytes: u64 = packets.iter().map(|packet| u64::from(packet.1)).sum();
        let plain = unrolled(&trace, 2_000_000 / period + bytes / u64::from(each));
        let exact = handed_out(&plain, &packets);
        prop_assert!(exact.iter().all(|&end| end < u64::MAX));
        prop_assert_eq!(&departures(&trace, None, &packets), &exact);
        prop_assert_eq!(departures(&plain, None, &packets), exact);
    }

    /// No trace, however wrong, makes a packet leave before it came or before its predecessor.
    #[test]
    fn order_holds_whatever_the_trace(
        list in prop::collection::vec((any::<u64>(), any::<Option<u64>>()), 0..6),
        (small, interpolate) in any::<(bool, bool)>(),
        (period, offset) in (any::<Option<u64>>(), any::<u64>()),
        packets in prop::collection::vec((any::<u64>(), any::<u32>()), 1..20),
        times in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let cut = |ns: u64| if small { ns % 50 } else { ns };
        let list: Vec<(u64, Option<u64>)> =
            list.into_iter().map(|(at, rate)| (cut(at), rate)).collect();
        let at: Vec<u64> = list.iter().map(|sample| sample.0).collect();
        let list = list.into_iter().map(|(at, bits)| sample(at, bits.and_then(rate))).collect();
        let (period, offset) = (period.map(cut), cut(offset));
        let traces = [
            samples(list, interpolate, period, offset),
            opportunities(&at, packets[0].1, period, offset),
        ];
        for trace in traces {
            let mut replay = replay(&trace, Rate::from_bits_per_s(offset));
            let mut last = Time::ZERO;
            for &(entered, bytes) in &packets {
                let (start, end) = replay.serve(ns(entered), bytes);
                prop_assert!(start >= ns(entered) && start >= last && end >= start);
                prop_assert_eq!(end, replay.free());
                last = end;
            }
            for &t in &times {
                replay.delay_at(ns(t));
                replay.rate_at(ns(t));
                let work = replay.work_left(ns(t));
                prop_assert!(replay.restart(ns(t), None, work) >= ns(t));
            }
        }
    }
}

/// The whole of a recorded downlink, twice round, kept busy: what leaves is what the file says.
#[test]
fn a_recorded_link_delivers_what_was_recorded() {
    let Ok(data) = std::env::var("LONGHAUL_DATA") else {
        skip("set LONGHAUL_DATA to the folder of mahimahi/");
        return;
    };
    let path = std::path::Path::new(&data).join("mahimahi/ATT-LTE-driving-2016.down");
    let Ok(text) = std::fs::read_to_string(&path) else {
        skip(&format!("{} cannot be read", path.display()));
        return;
    };
    let at: Vec<u64> = text
        .lines()
        .map(|line| line.parse::<u64>().unwrap() * 1_000_000)
        .collect();
    let period = at[at.len() - 1];
    let mut replay = replay(&opportunities(&at, 1500, Some(period), 0), None);
    // Those at 0 come too early for what enters at 0.
    let first = at.iter().filter(|&&at| at > 0).copied();
    let second = at.iter().map(|at| at + period);
    for (index, at) in first.chain(second).enumerate() {
        assert_eq!(replay.serve(ns(0), 1500).1, ns(at), "packet {index}");
    }
}
