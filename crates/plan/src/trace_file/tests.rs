//! What files mean, what is wrong with them, and that nothing in them does harm.

use std::io::{BufReader, Read};

use longhaul_core::trace::{Capacity, Sample, Series};
use longhaul_core::units::{Probability, Rate};
use proptest::prelude::*;

use super::*;

fn csv(text: &str, repeat: bool, interpolate: bool) -> Result<Trace, TraceFault> {
    let options = TraceOptions {
        repeat,
        interpolate,
        ..TraceOptions::default()
    };
    parse_trace(text.as_bytes(), TraceKind::Csv, &options)
}

fn mahimahi(text: &str) -> Result<Trace, TraceFault> {
    let options = TraceOptions {
        repeat: true,
        ..TraceOptions::default()
    };
    parse_trace(text.as_bytes(), TraceKind::Mahimahi, &options)
}

fn samples(trace: &Trace) -> &[Sample] {
    match &trace.series {
        Series::Samples { samples, .. } => samples,
        Series::Opportunities { .. } => panic!("samples"),
    }
}

fn limited(bits: u64) -> Option<Capacity> {
    Rate::from_bits_per_s(bits).map(Capacity::Limited)
}

/// The place and the words of a fault.
fn fault<T: fmt::Debug>(result: Result<T, TraceFault>) -> (u64, u64, String) {
    let fault = result.unwrap_err();
    assert!(!fault.hint.is_empty() && !fault.to_string().contains('\x1b'));
    (fault.line, fault.column, fault.message)
}

#[test]
fn columns_come_in_any_order_and_cells_may_be_empty() {
    let text = "\u{feff}# recorded on a train\r\n\
                loss, \"time_us\" ,rate_bps,delay_us\r\n\
                1 %,1000000,8000000,1000.5\r\n\
                ,1000010.25,unlimited,\r\n\
                \r\n\
                # a tunnel\r\n\
                0.5,1000100,0,2e3";
    let trace = csv(text, true, false).unwrap();
    let list = samples(&trace);
    let at: Vec<u64> = list.iter().map(|sample| sample.at.as_ns()).collect();
    assert_eq!(at, [0, 10_250, 100_000]);
    let us = |ns| Some(Span::from_ns(ns));
    let delays: Vec<_> = list.iter().map(|sample| sample.delay).collect();
    assert_eq!(delays, [us(1_000_500), us(1_000_500), us(2_000_000)]);
    let rates: Vec<_> = list.iter().map(|sample| sample.rate).collect();
    let unlimited = Some(Capacity::Unlimited);
    assert_eq!(
        rates,
        [limited(8_000_000), unlimited, Some(Capacity::Outage)]
    );
    let losses: Vec<_> = list.iter().map(|sample| sample.loss).collect();
    let (percent, half) = (
        Probability::from_ratio(1, 100),
        Probability::from_ratio(1, 2),
    );
    assert_eq!(losses, [percent, percent, half]);
    // The last step again: 100 µs − 10.25 µs.
    assert_eq!(trace.period, Some(Span::from_ns(189_750)));
    assert_eq!(csv(text, false, false).unwrap().period, None);
}

#[test]
fn lines_run_over_what_was_not_recorded() {
    let text = "time_us,delay_us,rate_bps,loss\n\
                0,,,\n\
                10,100,1000,unlike\n";
    assert_eq!(
        fault(csv(text, true, true)),
        (3, 13, "`unlike` is not a number".into())
    );
    let text = "time_us,delay_us,rate_bps,loss\n\
                0,,,\n\
                10,100,1000,0\n\
                20,,,\n\
                40,,0,\n\
                50,500,,40%\n\
                60,,unlimited,\n\
                70,,,\n\
                80,,5,\n";
    let trace = csv(text, true, true).unwrap();
    let list = samples(&trace);
    let us = |us| Some(Span::from_us(us));
    let delays: Vec<_> = list.iter().map(|sample| sample.delay).collect();
    assert_eq!(delays[..4], [None, us(100), us(200), us(400)]);
    assert_eq!(delays[4..], [us(500); 4], "the last one holds");
    // 1000 − 1000 · 10/30, rounded towards the 1000; what is unlimited has no line to it.
    let outage = Some(Capacity::Outage);
    let unlimited = Some(Capacity::Unlimited);
    let rates: Vec<_> = list.iter().map(|sample| sample.rate).collect();
    assert_eq!(rates[..4], [None, limited(1000), limited(667), outage]);
    assert_eq!(rates[4..], [outage, unlimited, unlimited, limited(5)]);
    let loss = list[2].loss.unwrap().as_f64();
    assert!(
        (loss - 0.1).abs() < 1e-15,
        "a quarter of the way to 40 %: {loss}"
    );
    // Without lines the same file holds its values.
    let held = csv(text, true, false).unwrap();
    assert_eq!(samples(&held)[3].delay, us(100));
    assert_eq!(samples(&held)[2].rate, limited(1000));
}

#[test]
fn one_row_holds_for_ever() {
    let trace = csv("time_us,delay_us\n5,1\n", true, true).unwrap();
    assert_eq!((samples(&trace).len(), trace.period), (1, None));
}

#[test]
fn the_documented_examples_are_read() {
    let docs = include_str!("../../../../docs/traces.md");
    let block = |heading: &str| {
        let (_, section) = docs.split_once(heading).unwrap();
        section.split("```").nth(1).unwrap().trim_start()
    };
    let trace = csv(block("\n## Columns\n"), true, true).unwrap();
    assert_eq!(samples(&trace).len(), 4);
    // The empty rate lies between 25.1 Mbit/s and the outage.
    assert_eq!(samples(&trace)[2].rate, limited(12_550_000));
    assert_eq!(trace.period, Some(Span::from_s(4)));
    let trace = mahimahi(block("\n## Delivery opportunities\n")).unwrap();
    assert_eq!(trace.period, Some(Span::from_ms(7)));
    let pattern = parse_pattern(block("\n## Patterns of loss\n").as_bytes()).unwrap();
    assert_eq!(pattern.iter().filter(|&&lost| lost).count(), 3);
}

#[test]
fn what_is_wrong_with_a_csv_is_named_with_its_place() {
    let long = format!("time_us,loss\n{}\n", "1".repeat(5000));
    let cases: &[(&str, u64, u64, &str)] = &[
        ("", 0, 0, "the file is empty"),
        ("# nothing\n\n", 0, 0, "the file is empty"),
        ("time_us,delay_us\n", 1, 0, "no rows"),
        ("1,2\n", 1, 1, "`1` is not a column"),
        (
            "time_us;delay_us\n",
            1,
            1,
            "`time_us;delay_us` is not a column",
        ),
        ("time_us, dealy_us\n", 1, 10, "`dealy_us` is not a column"),
        ("time_us,loss,loss\n", 1, 14, "a second column `loss`"),
        ("delay_us,loss\n", 1, 0, "no column `time_us`"),
        ("time_us\n", 1, 0, "no column besides the time"),
        (
            "time_us,loss\n0\n",
            2,
            0,
            "1 cells where the header names 2",
        ),
        (
            "time_us,loss\n0,0,5\n",
            2,
            0,
            "3 cells where the header names 2",
        ),
        ("time_us,loss\n,0\n", 2, 0, "no time"),
        (
            "time_us,loss\n5,0\n4,0\n",
            3,
            0,
            "is not later than in the row before",
        ),
        (
            "time_us,loss\n5,0\n5,0\n",
            3,
            0,
            "is not later than in the row before",
        ),
        ("time_us,loss\n-5,0\n", 2, 1, "`-5` is negative"),
        ("time_us,loss\n0,nan\n", 2, 3, "`nan` is not a number"),
        ("time_us,loss\n0, 1.5\n", 2, 4, "`1.5` is more than 100 %"),
        (
            "time_us,loss\n0,101 %\n",
            2,
            3,
            "`101 %` is more than 100 %",
        ),
        (
            "time_us,rate_bps\n0,0.2\n",
            2,
            3,
            "less than one bit per second",
        ),
        ("time_us,rate_bps\n0,1e20\n", 2, 3, "too large for a rate"),
        (
            "time_us,rate_bps\n0,5 Mbit/s\n",
            2,
            3,
            "`5 Mbit/s` is not a number",
        ),
        ("time_us,delay_us\n1e300,0\n", 2, 1, "too large for a time"),
        ("time_us,delay_us\n0,é,\n", 2, 3, "`é` is not a number"),
        ("time_us,delay_us\n0,é\0\n", 2, 4, "not text: byte 0x00"),
        ("time_us,delay_us\n0,\x1b[2J\n", 2, 3, "not text: byte 0x1b"),
        (&long, 2, 0, "longer than 4096 bytes"),
    ];
    for (text, line, column, words) in cases {
        let (at, place, message) = fault(csv(text, true, false));
        assert!(message.contains(words), "{text:?}: {message}");
        assert_eq!((at, place), (*line, *column), "{text:?}: {message}");
    }
    let hint = csv("time_us,dealy_us\n", true, false).unwrap_err().hint;
    assert_eq!(hint, "did you mean `delay_us`?");
}

#[test]
fn other_kinds_of_files_are_recognised() {
    let cases: [(&[u8], &str); 5] = [
        (&[0x1f, 0x8b, 8, 0], "gzip"),
        (&[0xff, 0xfe, b't', 0], "UTF-16"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (&[b'P', b'K', 3, 4, 0], "ZIP"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    ];
    for (bytes, name) in cases {
        let result = parse_trace(bytes, TraceKind::Csv, &TraceOptions::default());
        assert!(fault(result).2.contains(name), "{name}");
    }
}

#[test]
fn opportunities_are_read_as_mahimahi_reads_them() {
    let trace = mahimahi("0\n3\n3\r\n 7 \n\n\n").unwrap();
    let at = [0, 3, 3, 7].map(Span::from_ms).to_vec();
    let series = Series::Opportunities { at, bytes: 1518 };
    assert_eq!(
        (trace.series, trace.period),
        (series, Some(Span::from_ms(7)))
    );
    let options = TraceOptions {
        framing: Framing::Ip,
        offset: Span::from_s(2),
        ..TraceOptions::default()
    };
    let trace = parse_trace(&b"5\n"[..], TraceKind::Mahimahi, &options).unwrap();
    let at = vec![Span::from_ms(5)];
    assert_eq!(trace.series, Series::Opportunities { at, bytes: 1500 });
    assert_eq!((trace.offset, trace.period), (Span::from_s(2), None));

    let cases: &[(&str, u64, u64, &str)] = &[
        ("", 0, 0, "the file is empty"),
        ("\n\n", 0, 0, "the file is empty"),
        ("0\n0\n", 2, 0, "has no duration"),
        ("1\n\n\n2\n", 2, 0, "this line is empty"),
        ("5\n4\n", 2, 0, "backwards: 4 ms after 5 ms"),
        ("5\n  5.5\n", 2, 3, "`5.5` is not a time"),
        ("-5\n", 1, 1, "`-5` is not a time"),
        ("+5\n", 1, 1, "`+5` is not a time"),
        ("# a comment\n", 1, 1, "is not a time"),
        ("1000000000001\n", 1, 1, "is not a time"),
        ("99999999999999999999999999\n", 1, 1, "is not a time"),
    ];
    for (text, line, column, words) in cases {
        let (at, place, message) = fault(mahimahi(text));
        assert!(message.contains(words), "{text:?}: {message}");
        assert_eq!((at, place), (*line, *column), "{text:?}: {message}");
    }
    let most = fault(super::mahimahi::times(&b"1\n2\n3\n"[..], 2));
    assert_eq!(most, (3, 0, "the file has more than 2 lines".into()));
    let options = TraceOptions {
        interpolate: true,
        ..TraceOptions::default()
    };
    let result = parse_trace(&b"5\n"[..], TraceKind::Mahimahi, &options);
    assert!(fault(result).2.contains("cannot be interpolated"));
}

#[test]
fn patterns_are_characters() {
    let list = parse_pattern(&b"00 1\t0\r\n1\n"[..]).unwrap();
    assert_eq!(*list, [false, false, true, false, true]);
    let place = |text: &[u8]| fault(parse_pattern(text));
    assert_eq!(place(b"01\n0x1"), (2, 2, "`x` is neither 0 nor 1".into()));
    assert_eq!(
        place(b"0\x1b"),
        (1, 2, "byte 0x1b is neither 0 nor 1".into())
    );
    assert_eq!(place(b" \n").2, "the pattern is empty");
}

#[test]
fn tables_become_quantiles() {
    let few = parse_delays(&b"delay_us\n# at night\n3\n1.5\n\n2\n"[..]).unwrap();
    assert_eq!(*few, [1_500.0, 2_000.0, 3_000.0]);
    // 0, 1, … 8192 µs backwards: every second one; then 0 … 6144, one and a half apart.
    let text = |n: u64| {
        (0..=n)
            .rev()
            .map(|us| format!("{us}\n"))
            .collect::<String>()
    };
    for (n, step) in [(8192, 2_000.0), (6144, 1_500.0)] {
        let table = parse_delays(text(n).as_bytes()).unwrap();
        let exact: Vec<f64> = (0..=4096).map(|rank| f64::from(rank) * step).collect();
        assert_eq!(*table, exact);
    }
    let place = |text: &[u8]| fault(parse_delays(text));
    assert_eq!(place(b"1\n -1"), (2, 2, "`-1` is negative".into()));
    assert_eq!(
        place(b"1\ndelay_us"),
        (2, 1, "`delay_us` is not a number".into())
    );
    assert_eq!(place(b"1e30").2, "`1e30` is too large for a delay");
    assert_eq!(place(b"#\n").2, "the table is empty");
}

/// Rows without end, made as they are read.
struct Endless {
    row: Vec<u8>,
    sent: usize,
    next: u64,
    rows: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.sent == self.row.len() && self.next < self.rows {
            self.row = format!("{},{}\n", self.next, self.next % 100).into_bytes();
            (self.sent, self.next) = (0, self.next + 1);
        }
        let n = buffer.len().min(self.row.len() - self.sent);
        buffer[..n].copy_from_slice(&self.row[self.sent..self.sent + n]);
        self.sent += n;
        Ok(n)
    }
}

#[test]
fn long_files_are_read_to_the_end() {
    let input = Endless {
        row: b"time_us,delay_us\n".to_vec(),
        sent: 0,
        next: 0,
        rows: 300_000,
    };
    let options = TraceOptions::default();
    let trace = parse_trace(BufReader::new(input), TraceKind::Csv, &options).unwrap();
    let list = samples(&trace);
    assert_eq!(list.len(), 300_000);
    assert_eq!(list[299_999].at, Span::from_us(299_999));
    assert_eq!(list[299_999].delay, Some(Span::from_us(99)));
}

#[test]
fn only_files_are_opened_and_named() {
    let read = |path: &str| {
        read_trace(Path::new(path), TraceKind::Csv, &TraceOptions::default()).unwrap_err()
    };
    let missing = read("/nowhere/link.csv").to_string();
    assert!(
        missing.starts_with("/nowhere/link.csv: error: cannot read"),
        "{missing}"
    );
    assert!(missing.ends_with("hint: check the path"), "{missing}");
    assert!(read("/").message.contains("not a file"));
    assert!(read("/dev/zero").message.contains("not a file"));
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let wrong = read(here);
    assert!(
        wrong
            .to_string()
            .starts_with(&format!("{}:1:1: error: ", wrong.file))
    );
}

/// A recorded downlink: the reader's figures against those counted with other means.
#[test]
fn a_recorded_trace_is_read_whole() {
    let Ok(data) = std::env::var("LONGHAUL_DATA") else {
        println!("skipped: LONGHAUL_DATA names no folder with mahimahi/");
        return;
    };
    let path = Path::new(&data).join("mahimahi/ATT-LTE-driving-2016.down");
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: {} cannot be read", path.display());
        return;
    };
    let options = TraceOptions {
        repeat: true,
        framing: Framing::Ip,
        ..TraceOptions::default()
    };
    let trace = read_trace(&path, TraceKind::Mahimahi, &options).unwrap();
    let Series::Opportunities { at, bytes: each } = &trace.series else {
        panic!("opportunities")
    };
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(at.len(), lines);
    // Digit by digit from the end: the last line is the length.
    let last = bytes
        .iter()
        .rev()
        .skip(1)
        .take_while(|&&byte| byte != b'\n');
    let ms = last
        .enumerate()
        .map(|(place, &b)| u64::from(b - b'0') * 10u64.pow(place as u32));
    let ms: u64 = ms.sum();
    assert_eq!(trace.period, Some(Span::from_ms(ms)));
    let mean = (at.len() as u64 * u64::from(*each) * 8) as f64 / trace.period.unwrap().as_s();
    let exact = (lines * 1500 * 8 * 1000) as f64 / ms as f64;
    assert!(
        (mean / exact - 1.0).abs() < 1e-12,
        "{mean} for {exact} bit/s"
    );
}

/// What holds of every trace that was read.
fn is_sound(trace: &Trace) -> bool {
    let last = match &trace.series {
        Series::Samples { samples, .. } => {
            let ascending = samples.windows(2).all(|pair| pair[0].at < pair[1].at);
            let Some((first, last)) = samples.first().zip(samples.last()) else {
                return false;
            };
            if !ascending || first.at != Span::ZERO {
                return false;
            }
            last.at
        }
        Series::Opportunities { at, bytes } => {
            if at.is_empty() || !at.is_sorted() || *bytes == 0 {
                return false;
            }
            at[at.len() - 1]
        }
    };
    trace
        .period
        .is_none_or(|period| period > Span::ZERO && period >= last)
}

/// Texts that come close to traces.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let near =
        "(time_us|delay_us|rate_bps|loss|,){0,8}\n([-0-9.,e%#\"\n\r ]|nan|unlimited|é){0,60}";
    let rows = "time_us,delay_us,rate_bps,loss\n(1?[0-9]{1,3}(,[0-9.%]{0,3}){3}\n){0,6}";
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        near.prop_map(String::into_bytes),
        rows.prop_map(String::into_bytes),
        "([0-9]{1,3}\n){0,9}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_a_sound_value_or_a_fault(
        bytes in hostile(), (repeat, interpolate) in any::<(bool, bool)>(), step in 1..40usize,
    ) {
        let options = TraceOptions { repeat, interpolate, ..TraceOptions::default() };
        for kind in [TraceKind::Csv, TraceKind::Mahimahi] {
            let whole = parse_trace(bytes.as_slice(), kind, &options);
            match &whole {
                Ok(trace) => prop_assert!(is_sound(trace), "{trace:?}"),
                Err(fault) => prop_assert!(!fault.message.is_empty() && !fault.hint.is_empty()),
            }
            // However the bytes come in, they mean the same.
            let pieces = BufReader::with_capacity(step, bytes.as_slice());
            prop_assert_eq!(parse_trace(pieces, kind, &options), whole);
        }
        if let Ok(delays) = parse_delays(bytes.as_slice()) {
            prop_assert!(!delays.is_empty() && delays.is_sorted());
        }
        if let Ok(pattern) = parse_pattern(bytes.as_slice()) {
            prop_assert!(!pattern.is_empty() && pattern.len() <= bytes.len());
        }
    }
}
