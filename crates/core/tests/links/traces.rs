//! Links that follow a recorded series.

use longhaul_core::Span;
use longhaul_core::params::PipeParams;
use longhaul_core::trace::{Capacity, Sample, Series, Trace};
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};

use super::line::{Line, Packet, Random, evenly};
use super::table::Table;
use super::{ERRORS, N};

const SECOND: u64 = 1_000_000_000;

/// A row for each second, starting over.
fn steps<T>(values: &[T], set: impl Fn(&T, &mut Sample)) -> Trace {
    let row = |(second, value): (u64, &T)| {
        let mut sample = Sample {
            at: Span::from_s(second),
            delay: None,
            rate: None,
            loss: None,
        };
        set(value, &mut sample);
        sample
    };
    Trace {
        series: Series::Samples {
            samples: (0..).zip(values).map(row).collect(),
            interpolate: false,
        },
        offset: Span::ZERO,
        period: Some(Span::from_s(values.len() as u64)),
    }
}

fn traced(trace: Trace) -> PipeParams {
    PipeParams {
        trace: Some(trace.into()),
        queue: QueueLimit::Packets(u32::MAX),
        ..PipeParams::default()
    }
}

/// Everything that a series can say.
pub(crate) fn trace() -> Table {
    let mut table = Table::new("trace");
    delay(&mut table);
    rate(&mut table);
    loss(&mut table);
    opportunities(&mut table);
    table
}

const DELAYS_MS: [u64; 4] = [10, 30, 20, 5];

fn delay_at(ns: u64) -> u64 {
    DELAYS_MS[(ns / SECOND % 4) as usize] * 1_000_000
}

fn delays() -> Trace {
    steps(&DELAYS_MS, |&ms, sample| {
        sample.delay = Some(Span::from_ms(ms))
    })
}

fn delay(table: &mut Table) {
    let mut off = [0, 0];
    for (overtake, off) in [false, true].into_iter().zip(&mut off) {
        let mut line = Line::new(PipeParams {
            overtake,
            ..traced(delays())
        });
        let gap = 100_000;
        let mut latest = 0;
        let due: Vec<u64> = (0..N as u64)
            .map(|k| {
                let due = k * gap + delay_at(k * gap);
                latest = due.max(latest);
                if overtake { due } else { latest }
            })
            .collect();
        line.send(evenly(N, gap, 40), |out| {
            let drawn = delay_at(out.entered);
            *off += u64::from(out.due != due[out.number] || out.path_delay != drawn);
        });
    }
    let asked = table.asked("delay of 10, 30, 20, 5 ms, a second each");
    let asked = asked.exact("packets with another delay, in order", 0, off[0]);
    asked.exact("packets with another delay, `overtake: true`", 0, off[1]);
}

/// All packets come at once, so the link is never idle: packet k is out when the rates add up to
/// the bits of all up to it.
fn rate(table: &mut Table) {
    const MBIT: [u64; 4] = [8, 3, 0, 20];
    const BYTES: u64 = 1000;
    const SOME: usize = 60_000;
    let trace = steps(&MBIT, |&mbit, sample| {
        let rate = Rate::from_bits_per_s(mbit * 1_000_000).map(Capacity::Limited);
        sample.rate = Some(rate.unwrap_or(Capacity::Outage));
    });
    let (mut ends, mut second, mut sent) = (Vec::new(), 0, 0);
    // Bits before and by the end of each second.
    while ends.len() < SOME {
        let bits = MBIT[second % 4] * 1_000_000;
        while (ends.len() as u64 + 1) * BYTES * 8 <= sent + bits {
            let within = (ends.len() as u64 + 1) * BYTES * 8 - sent;
            let ns = (u128::from(within) * u128::from(SECOND)).div_ceil(u128::from(bits.max(1)));
            ends.push(second as u64 * SECOND + ns as u64);
        }
        sent += bits;
        second += 1;
    }
    let mut off = 0;
    let mut line = Line::new(traced(trace));
    line.send(evenly(SOME, 0, 982), |out| {
        off += u64::from(out.due != ends[out.number])
    });
    let asked = table.asked("rate of 8, 3, 0, 20 Mbit/s, a second each");
    asked.exact("departures at another time", 0, off);
}

fn loss(table: &mut Table) {
    const PER_CENT: [u64; 3] = [0, 100, 30];
    let trace = steps(&PER_CENT, |&percent, sample| {
        sample.loss = Probability::from_ratio(percent, 100);
    });
    let mut out_of = [0; 3];
    let n = N / 10 * 9; // as many of each
    Line::new(traced(trace)).send(evenly(n, 100_000, 40), |out| {
        out_of[(out.entered / SECOND % 3) as usize] += 1;
    });
    let each = n as u64 / 3;
    let within = 100.0 * ERRORS * (0.3 * 0.7 / each as f64).sqrt();
    let asked = table.asked("loss of 0, 100, 30 %, a second each");
    let asked = asked.exact("packets lost at 0 %", 0, each - out_of[0]);
    let asked = asked.exact("packets that pass at 100 %", 0, out_of[1]);
    let measured = 100.0 * (1.0 - out_of[2] as f64 / each as f64);
    asked
        .unit("%", 4)
        .near("loss at 30 %", 30.0, measured, within);
}

/// All packets come at once and none is ever missing: packet k is out at the opportunity that
/// takes its last byte. The series ends with its last time, and starts over there.
fn opportunities(table: &mut Table) {
    const SOME: usize = 100_000;
    const EACH: u64 = 1500;
    let mut random = Random::new("opportunities");
    let mut now = 0;
    let mut list = || {
        now += random.below(4);
        now
    };
    // The first not at 0, where it would come before the packets.
    let times: Vec<u64> = std::iter::once(1)
        .chain((0..500).map(|_| 1 + list()))
        .collect();
    let round = times[500];
    for ip_len in [300, 1500, 2000] {
        let trace = Trace {
            series: Series::Opportunities {
                at: times.iter().map(|&ms| Span::from_ms(ms)).collect(),
                bytes: EACH as u32,
            },
            offset: Span::ZERO,
            period: Some(Span::from_ms(round)),
        };
        let params = PipeParams {
            framing: Framing::Ip,
            ..traced(trace)
        };
        let mut off = 0;
        Line::parallel(vec![params], 2000).send(evenly(SOME, 0, ip_len), |out| {
            let bytes = (out.number as u64 + 1) * u64::from(ip_len);
            let number = (bytes - 1) / EACH;
            let ms = number / 501 * round + times[(number % 501) as usize];
            off += u64::from(out.due != ms * 1_000_000);
        });
        let asked = table.asked(format!(
            "501 `mahimahi` opportunities, packets of {ip_len} bytes"
        ));
        asked.exact("departures at another time", 0, off);
    }
}

/// Two links whose delays were recorded together; the second file begins a quarter of a second
/// later, between two of the first one's rows, with the value that held then.
pub(crate) fn in_step() -> Table {
    let mut table = Table::new("in-step");
    let late = Trace {
        series: Series::Samples {
            samples: (0..=4)
                .map(|second| Sample {
                    at: Span::from_ms(if second == 0 { 0 } else { second * 1000 - 250 }),
                    delay: Some(Span::from_ms(DELAYS_MS[second as usize % 4])),
                    rate: None,
                    loss: None,
                })
                .collect(),
            interpolate: false,
        },
        offset: Span::from_ms(250),
        period: Some(Span::from_s(4)),
    };
    let mut line = Line::parallel(vec![traced(delays()), traced(late)], 1500);
    let both = |k: u64| {
        [0, 1].map(|link| Packet {
            link,
            ..Packet::new(k * 1_000_000, 40)
        })
    };
    let mut delays = [vec![0; N], vec![0; N]];
    line.send((0..N as u64).flat_map(both), |out| {
        delays[usize::from(out.link)][out.number / 2] = out.path_delay;
    });
    // Before its offset the second link has no delay.
    let [first, second] = &delays;
    let apart = first
        .iter()
        .zip(second)
        .skip(250)
        .filter(|(a, b)| a != b)
        .count();
    let asked = table.asked("two links, recorded together, 250 rounds of 4 s");
    asked.exact("packets with delays of different seconds", 0, apart as u64);
    table
}
