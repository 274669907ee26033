//! Series on pages: columns, windows, bounds, damage.

use std::fs;

use proptest::prelude::*;
use serde_json::Value;

use super::super::document::Grid;
use super::super::rollup::{Number, Rollup};
use super::super::specs::PIPES;
use super::super::{Extent, PAGE_MAX, html};
use super::sample::*;
use crate::measure::read::{Batch, Pool};

#[test]
fn a_page_that_is_too_long_is_made_again_with_less() {
    let folder = Folder::new("long");
    let rows: String = (0..60_000_u64)
        .map(|n| {
            let bytes = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            format!(
                "{},1000000,p{},1,{bytes},0,0,0,{bytes},0.{bytes},{bytes},1,{bytes}.5,{bytes}\n",
                n / 60 * 1_000_000,
                n % 60
            )
        })
        .collect();
    fs::create_dir(folder.0.join("series/pipes")).unwrap();
    folder.write("series/pipes/0001.csv", BINS.to_owned() + &rows);
    let summary = summary().to_json();
    let page = |bytes| {
        let extent = Extent {
            bytes,
            ..Extent::whole()
        };
        let html = html(&folder.0, Some(&summary), &extent);
        let columns = document(&html)["runs"][0]["series"]["pipes"]["grid"]["columns"].as_u64();
        (html.len(), columns.unwrap())
    };
    let (whole, columns) = page(PAGE_MAX);
    let (less, fewer) = page(whole - 100_000);
    assert!(
        less <= whole - 100_000 && fewer < columns,
        "{less} of {whole}, {fewer} of {columns}"
    );
}

#[test]
fn damaged_series_cost_no_page() {
    let cases: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("head", b"what,is,this\n1,2,3\n"),
        ("binary", b"\xff\xfe\x00"),
        ("endless", &[b'7'; 100_000]),
        (
            "short",
            b"second,pipe,bytes\n0,a>b\n\n-1,a>b,1\n1,a>b,inf\n",
        ),
        (
            "far",
            b"second,pipe,bytes\n18446744073709551615,a>b,18446744073709551615\n2,a>b,9\n",
        ),
    ];
    for (name, text) in cases {
        let folder = Folder::new(name);
        folder.write("series/pipes.csv", text);
        let (_, run) = page_of(&summary(), &folder);
        let notes = notes(&run);
        assert!(
            notes.contains("series/seconds.csv is missing"),
            "{name}: {notes}"
        );
        let noted = notes.contains("pipes.csv cannot be read") || notes.contains("malformed lines");
        assert_eq!(noted, name != "far", "{name}: {notes}");
        assert!(
            notes.contains("network.json cannot be read"),
            "{name}: {notes}"
        );
    }
}

/// Bins of 1 ms, of which 100 become a column: a packet is dropped in two of them.
#[test]
fn columns_have_least_mean_and_most_and_drops_have_rows() {
    let folder = Folder::new("windows");
    fs::create_dir(folder.0.join("series/pipes")).unwrap();
    let row = |n: u64| {
        let dropped = u64::from(n == 40_000 || n == 90_000);
        let bytes = 125 * (n % 4);
        format!(
            "{},1000000,a>b,1,{bytes},{dropped},0,0,500000,2,{},1,7,9\n",
            n * 1_000_000,
            3 + n % 2
        )
    };
    let rows: String = (0..120_000).map(row).collect();
    folder.write("series/pipes/0001.csv", BINS.to_owned() + &rows);
    folder.write("series/seconds.csv", SECONDS);
    folder.write("series/pipes.csv", SECOND_PIPES);
    let mut summary = summary();
    summary.simulated_s = 120.0;
    let (_, run) = page_of(&summary, &folder);
    let pipes = &run["series"]["pipes"];
    assert_eq!(
        pipes["grid"],
        serde_json::json!({ "width_ns": 100_000_000, "columns": 1200, "end_ns": 120_000_000_000_u64 })
    );
    assert_eq!(pipes["row_ns"], serde_json::json!([1_000_000, 1_000_000]));
    let lines = &pipes["shown"][0]["lines"];
    let at = |line: &str, part: &str| lines[line][part][7].clone();
    assert_eq!(
        [at("rate", "min"), at("rate", "mean"), at("rate", "max")],
        [0, 1_500_000, 3_000_000].map(Value::from)
    );
    assert_eq!(
        [
            at("queue", "mean"),
            at("queue_max", "mean"),
            at("busy", "mean")
        ]
        .map(|v| v.as_f64()),
        [Some(2.0), Some(4.0), Some(0.5)]
    );
    let drops = lines["drops_queue"]["mean"].as_array().unwrap();
    assert_eq!(
        (
            drops[400].as_u64(),
            drops[900].as_u64(),
            drops[401].as_u64()
        ),
        (Some(1), Some(1), Some(0))
    );
    let windows = pipes["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 2, "{windows:?}");
    for (window, drop) in windows.iter().zip([40_000_u64, 90_000]) {
        assert_eq!(window["why"], "drops");
        let starts: Vec<u64> = window["rows"]["start_ns"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        assert_eq!(starts.len(), 300, "the column and those beside it");
        let place = starts
            .iter()
            .position(|start| *start == drop * 1_000_000)
            .unwrap();
        assert_eq!(window["rows"]["drops_queue"][place], 1);
        assert_eq!(
            window["rows"]["rate"][1],
            8 * 125 * 1000 * ((drop - 100 + 1) % 4)
        );
    }
    let named = Extent::whole().with_windows(vec![(5_000_000_000, 5_010_000_000)]);
    let run = &document(&html(&folder.0, Some(&summary.to_json()), &named))["runs"][0];
    let asked = &run["series"]["pipes"]["windows"][0];
    assert_eq!(
        (
            &asked["why"],
            asked["rows"]["start_ns"].as_array().map(Vec::len)
        ),
        (&Value::from("asked"), Some(100))
    );
}

#[test]
fn what_is_not_read_at_the_end_of_a_run_is_reported() {
    let folder = Folder::new("end");
    fs::create_dir(folder.0.join("series/pipes")).unwrap();
    for part in 0..3 {
        let rows: String = (0..100)
            .map(|n| {
                format!(
                    "{},1000000,a>b,1,1,0,0,0,1,0,0,1,7,9\n",
                    (part * 100 + n) * 1_000_000
                )
            })
            .collect();
        folder.write(
            &format!("series/pipes/000{part}.csv"),
            BINS.to_owned() + &rows,
        );
    }
    let extent = Extent {
        rows: 150,
        ..Extent::whole()
    };
    let run = &document(&html(&folder.0, Some(&summary().to_json()), &extent))["runs"][0];
    assert_eq!(run["series"]["pipes"]["until_ns"], 199_000_000);
    assert!(
        notes(run).contains("series/pipes is shown up to 0.199 s"),
        "{}",
        notes(run)
    );
}

#[test]
fn grids_have_round_widths_and_reach_to_the_end() {
    let grid = |end_ns, columns, least_ns| {
        let grid = Grid::new(end_ns, columns, least_ns);
        (grid.width_ns, grid.columns)
    };
    assert_eq!(grid(10_000_000_000, 1000, 1_000_000), (10_000_000, 1000));
    assert_eq!(grid(10_000_000_001, 1000, 1_000_000), (20_000_000, 501));
    assert_eq!(grid(3_020_000_000, 1000, 1_000_000_000), (1_000_000_000, 4));
    assert_eq!(
        grid(7_000, 1000, 7),
        (7, 1000),
        "bins that fit stay as they are"
    );
    assert_eq!(grid(0, 1000, 0), (1, 1));
    assert_eq!(
        Grid::new(3_020_000_000, 9, 1_000_000_000).span_ns(3),
        20_000_000.0
    );
}

#[test]
fn numbers_are_short() {
    let text = |value| serde_json::to_string(&Number(value)).unwrap();
    assert_eq!(text(0.0), "0");
    assert_eq!(text(1_234_567.0), "1234600");
    assert_eq!(text(0.123_456_7), "0.12346");
    assert_eq!(text(-2.0), "-2");
    assert_eq!(text(3e-12), "3e-12");
    assert_eq!(text(f64::NAN), "null");
    assert_eq!(text(f64::MIN_POSITIVE / 4.0).parse::<f64>().unwrap(), 0.0);
}

proptest! {
    /// Whatever widths rows and columns have, sums stay exact and means lie between least and most.
    #[test]
    fn sums_of_columns_are_those_of_rows(
        rows in proptest::collection::vec((1_u64..5_000, 0_u64..1_000, 0_u64..9), 1..60),
        columns in 1_u32..40,
    ) {
        let end: u64 = rows.iter().map(|(width, _, _)| width).sum();
        let grid = Grid::new(end, columns, 0);
        let mut rollup = Rollup::new(&PIPES, grid);
        let names = PIPES.numbers();
        let place = |name| names.iter().position(|column| *column == name).unwrap();
        let mut batch = Batch { rows: 1, numbers: vec![vec![0.0]; names.len()], texts: vec![vec![0]] };
        let mut start = 0;
        for &(width, bytes, drops) in &rows {
            for (column, value) in [("start_ns", start), ("width_ns", width), ("bytes", bytes), ("drops_queue", drops), ("queue_mean", bytes)] {
                batch.numbers[place(column)][0] = value as f64;
            }
            rollup.add(&batch);
            start += width;
        }
        let mut pool = Pool::default();
        pool.number("a>b");
        let tracks = rollup.finish(&pool);
        prop_assert_eq!(&tracks.shown[0].key, &["a>b"]);
        let line = |name| tracks.shown[0].lines.get(name);
        let dropped: f64 = line("drops_queue").map_or(0.0, |line| line.mean.iter().map(|n| n.0).sum());
        let expected: u64 = rows.iter().map(|(_, _, drops)| drops).sum();
        prop_assert!((dropped - expected as f64).abs() < 1e-6);
        let places = tracks.shown[0].columns.clone().unwrap_or_else(|| (0..grid.columns).collect());
        let bits: f64 = line("rate").map_or(0.0, |line| {
            line.mean.iter().zip(&places).map(|(n, column)| n.0 * grid.span_ns(*column) / 1e9).sum()
        });
        let expected: u64 = rows.iter().map(|(_, bytes, _)| 8 * bytes).sum();
        prop_assert!((bits - expected as f64).abs() < 1e-6 * (1.0 + expected as f64), "{} {}", bits, expected);
        for name in ["rate", "queue"] {
            if let Some(line) = line(name) {
                for ((least, mean), most) in line.min.iter().zip(&line.mean).zip(&line.max) {
                    prop_assert!(least.0 <= mean.0 + 1e-9 && mean.0 <= most.0 + 1e-9);
                }
            }
        }
    }
}
