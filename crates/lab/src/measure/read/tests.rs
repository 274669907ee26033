use std::fs;
use std::path::PathBuf;

use longhaul_plan::measure::Format;

use super::super::columns::{Declared, Kind, column};
use super::super::encode::{Cell, Table};
use super::{Columns, Pool, ReadOutcome, read};

struct Run(PathBuf);

impl Run {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("longhaul-read-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("series/some")).unwrap();
        Self(path)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NAMES: Declared = &[
    column("start_ns", Kind::Whole),
    column("pipe", Kind::Text),
    column("port", Kind::Whole),
    column("delay", Kind::MaybeReal),
];

fn part(from: u64) -> Table {
    let mut table = Table::new(NAMES);
    for at in from..from + 3 {
        let delay = (at % 2 == 0).then_some(at as f64 / 4.0);
        let pipe = Cell::Text(format!("p{}", at % 2).into());
        table.push([at.into(), pipe, (80 + at).into(), delay.into()]);
    }
    table
}

/// Rows as texts, and the outcome of reading.
fn rows(run: &Run, rows_max: u64) -> (Vec<String>, ReadOutcome) {
    let mut rows = Vec::new();
    let columns = Columns {
        numbers: &["start_ns", "delay", "none"],
        texts: &["pipe", "port", "no"],
    };
    let outcome = read(
        &run.0,
        "some",
        &columns,
        &mut Pool::default(),
        rows_max,
        |batch, pool| {
            for row in 0..batch.rows {
                let n = |column: usize| batch.numbers[column][row];
                let t = |column: usize| pool.text(batch.texts[column][row]);
                assert!(n(2).is_nan() && t(2).is_empty());
                rows.push(format!("{} {} {} {}", n(0), t(0), t(1), n(1)));
            }
            true
        },
    );
    (rows, outcome)
}

#[test]
fn parts_of_both_formats_are_read_alike_and_in_order() {
    let mut formats = vec![("csv", Format::Csv)];
    if cfg!(feature = "parquet") {
        formats.push(("parquet", Format::Parquet));
    }
    for (ending, format) in formats {
        let run = Run::new(ending);
        for (number, from) in [("0002", 3), ("10000", 6), ("0001", 0)] {
            let mut bytes = Vec::new();
            part(from).encode(format, &mut bytes).unwrap();
            fs::write(run.0.join(format!("series/some/{number}.{ending}")), bytes).unwrap();
        }
        fs::write(run.0.join("series/some/0003.partial"), "half").unwrap();
        let (all, outcome) = rows(&run, u64::MAX);
        assert_eq!(all.len(), 9, "{ending}");
        assert_eq!(all[0], "0 p0 80 0");
        assert_eq!(all[1], "1 p1 81 NaN");
        assert_eq!(all[8], "8 p0 88 2");
        assert!(!outcome.cut && outcome.notes.is_empty(), "{outcome:?}");
        let (some, outcome) = rows(&run, 4);
        assert_eq!((some.len(), outcome.rows, outcome.cut), (6, 6, true));
    }
}

#[test]
fn what_makes_no_sense_is_left_out_and_noted() {
    let run = Run::new("damaged");
    let text = "start_ns,pipe,port,delay\n1,a,2,3\nx,a,2,3\n4,b\n5,c,6,inf\n7,d,8,\n9,e,1";
    fs::write(run.0.join("series/some/0001.csv"), text).unwrap();
    fs::write(run.0.join("series/some/0002.csv"), "what,is,this\n1,2,3\n").unwrap();
    fs::write(
        run.0.join("series/some/0003.parquet"),
        "PAR1 no, it is not PAR1",
    )
    .unwrap();
    fs::write(run.0.join("series/some/0004.csv"), b"\xff\xfe\x00").unwrap();
    let (all, outcome) = rows(&run, u64::MAX);
    assert_eq!(all, ["1 a 2 3", "7 d 8 NaN"]);
    assert_eq!(outcome.notes.len(), 4, "{:?}", outcome.notes);
    assert!(
        outcome.notes[0].contains("0001.csv has 4 malformed lines"),
        "{:?}",
        outcome.notes
    );
}

#[test]
fn a_series_that_is_not_there_has_no_rows() {
    let run = Run::new("none");
    let (all, outcome) = rows(&run, 10);
    assert!(all.is_empty() && outcome.notes.is_empty() && !outcome.cut);
}
