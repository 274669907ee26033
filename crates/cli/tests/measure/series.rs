//! The sums of bins are the counters of the summary, whatever bins there are.

use std::collections::HashMap;
use std::fs;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::{EXPERIMENT, Run, Scratch};

/// The columns of pipes that are counters of the summary, too.
const COUNTERS: [&str; 10] = [
    "packets",
    "bytes",
    "drops_queue",
    "drops_early",
    "drops_loss",
    "drops_down",
    "marked",
    "duplicated",
    "corrupted",
    "reordered",
];

/// Holds all bins of a run to its summary.
fn hold_sums(run: &Run) {
    hold_pipes(run);
    let packets = &run.summary["packets"];
    let count = |value: &Value| value.as_u64().unwrap();
    let dropped = packets["dropped"].as_object().unwrap().values();
    let dropped: u64 = dropped.map(count).sum();
    let sum = |series: &str, column: &str| -> u64 {
        let rows = run.rows(series);
        rows.iter().map(|row| row.whole(column)).sum()
    };
    for (of_flows, of_core, all) in [
        (Some("sent"), "entered", count(&packets["entered"])),
        (Some("received"), "delivered", count(&packets["delivered"])),
        (Some("dropped"), "dropped", dropped),
        (None, "created", count(&packets["created"])),
        (None, "hops", count(&packets["hops"])),
    ] {
        assert_eq!(sum("core", of_core), all, "{of_core}");
        if let Some(column) = of_flows {
            assert_eq!(sum("flows", column), all, "{column}");
        }
    }
    let core = run.rows("core");
    let last = core.last().expect("rows");
    assert_eq!(last.whole("inside"), count(&packets["inside"]));
    // Bins lie behind each other.
    let mut end = 0;
    for row in &core {
        assert!(row.whole("start_ns") >= end && row.whole("width_ns") > 0);
        end = row.whole("start_ns") + row.whole("width_ns");
    }
}

fn hold_pipes(run: &Run) {
    let mut sums: HashMap<String, HashMap<&str, u64>> = HashMap::new();
    for row in run.rows("pipes") {
        let sum = sums.entry(row.text("pipe").to_owned()).or_default();
        for column in COUNTERS.into_iter().chain(["busy_ns"]) {
            *sum.entry(column).or_default() += row.whole(column);
        }
        let width = row.whole("width_ns");
        assert!(row.whole("busy_ns") <= width, "busy for longer than it is");
        let (mean, most) = (row.real("queue_mean"), row.whole("queue_max"));
        assert!(mean <= most as f64 + 1e-9, "{mean} waited, {most} at most");
        assert!(row.whole("queue_end") <= most);
        assert!(row.real("delay_mean_ns") <= row.real("delay_max_ns") + 1e-9);
    }
    let end_ns = run.summary["simulated_s"].as_f64().unwrap() * 1e9;
    for (name, pipe) in run.pipes() {
        let sum = sums.remove(name).unwrap_or_default();
        let sum = |column| sum.get(column).copied().unwrap_or(0);
        for column in COUNTERS {
            assert_eq!(Some(sum(column)), pipe[column].as_u64(), "{name} {column}");
        }
        let busy = sum("busy_ns") as f64 / end_ns;
        let reported = pipe["utilisation"].as_f64().unwrap();
        assert!(
            (busy - reported).abs() < 1e-9,
            "{name}: {busy} and {reported}"
        );
    }
    assert!(sums.is_empty(), "rows of pipes that are none: {sums:?}");
}

#[test]
fn sums_of_bins_are_the_counters() {
    let scratch = Scratch::new("sums");
    for every in ["1 ms", "7 ms", "1 s", "1 h"] {
        let run = scratch.run(&format!("every: {every}, format: csv"), &[]);
        hold_sums(&run);
        if every == "7 ms" {
            let pipes = run.pipes();
            for (pipe, counter) in [
                ("g>h", "drops_early"),
                ("g>h", "drops_loss"),
                ("g>h", "drops_down"),
                ("h>b1", "drops_queue"),
                ("h>b1", "duplicated"),
            ] {
                let count = pipes[pipe][counter].as_u64().unwrap();
                assert!(count > 0, "the experiment has no {counter} in {pipe}");
            }
        }
    }
}

/// A pipe that sends a packet for many bins, and seconds in which nothing happens.
#[test]
fn bins_in_which_nothing_happens_are_passed_over_and_no_others() {
    let scratch = Scratch::new("sparse");
    let text = "\
name: sparse
clock: virtual
duration: 40 s
topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], rate: 100 kbit/s, delay: 5 ms }] }
traffic:
  now: { from: a, to: b, model: udp, bytes: 30 kB, rate: 10 Mbit/s, start: 1 s }
  never: { from: a, to: b, model: udp, bytes: 3 kB, rate: 10 Mbit/s, start: 60 s }
measure: { every: 3 ms, format: csv }
";
    let run = scratch.run_file(text, &[]);
    hold_sums(&run);
    let rows = run.rows("pipes");
    let busy: Vec<_> = rows
        .iter()
        .filter(|row| row.text("pipe") == "a>b" && row.whole("busy_ns") > 0)
        .collect();
    // 30 kB take 2.4 s and more, each bin 3 ms.
    assert!(busy.len() > 800, "{} bins", busy.len());
    for row in &busy[..busy.len() - 1] {
        assert_eq!(row.whole("width_ns"), 3_000_000);
        assert_eq!(row.whole("start_ns") % 3_000_000, 0);
    }
    for row in &busy[1..busy.len() - 1] {
        assert_eq!(row.whole("busy_ns"), 3_000_000, "the pipe is always busy");
    }
    let core = run.rows("core");
    assert!(core.len() < busy.len() + 20, "idle seconds have no rows");
}

/// What is written does not depend on how the network is split, nor on the machine's pace.
#[test]
fn cores_change_no_byte() {
    let scratch = Scratch::new("cores");
    let measure = "every: 7 ms, format: csv, disk: 1 MB, packets: [{ link: all }], \
                   capture: [g-h, { link: h-b, at: entry, filter: udp }]";
    let one = scratch.run(measure, &[]);
    let series = one.files("series");
    assert!(series.len() > 10, "{} files", series.len());
    let warnings = one.warnings().into_iter();
    let widened = warnings.filter(|warning| warning.contains("bins are"));
    assert!(widened.count() > 1, "{:?}", one.warnings());
    for cores in [2, 3] {
        let partition = scratch.partition(cores);
        let other = scratch.run(measure, &["--partition", &partition]);
        let pipes = other.summary["cores"].as_array().unwrap();
        assert_eq!(pipes.len(), cores);
        for folder in ["series", "captures"] {
            let (one, other) = (one.files(folder), other.files(folder));
            assert_eq!(one.len(), other.len());
            for (one, other) in one.iter().zip(&other) {
                assert!(one == other, "{folder}/{} differs", one.0.display());
            }
        }
        assert_eq!(one.summary["trace_hash"], other.summary["trace_hash"]);
    }
    let threads = scratch.run(measure, &["--threads", "3"]);
    assert!(threads.files("series") == series, "--threads differs");
}

#[test]
fn little_room_widens_bins_and_keeps_sums() {
    let scratch = Scratch::new("disk");
    let run = scratch.run("every: 1 ms, format: csv, disk: 1 MB", &[]);
    hold_sums(&run);
    let series = run.summary["series"].as_array().unwrap().iter();
    let bytes: u64 = series.map(|series| series["bytes"].as_u64().unwrap()).sum();
    assert!((500_000..1_000_000).contains(&bytes), "{bytes} bytes");
    // The warnings say from when on, and each is true.
    let mut width = 1_000_000;
    let mut steps = 0;
    let rows = run.rows("core");
    for warning in run.warnings() {
        let Some((from, rest)) = warning
            .strip_prefix("from ")
            .and_then(|rest| rest.split_once(" s of experiment time on, bins are "))
        else {
            continue;
        };
        let ms: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!(
            rest.starts_with(&format!("{ms} ms wide instead of 1 ms,")),
            "{rest}"
        );
        assert!(ms * 1_000_000 > width, "wider than before");
        let from_ns = (from.parse::<f64>().unwrap() * 1e9).round() as u64;
        let before = rows.iter().filter(|row| row.whole("start_ns") < from_ns);
        assert!(
            before
                .map(|row| row.whole("width_ns"))
                .all(|was| was <= width)
        );
        // Samples that are under way have the old width.
        let mut after = rows.iter().filter(|row| row.whole("start_ns") >= from_ns);
        if let Some(row) = after.nth(7) {
            assert!(row.whole("width_ns") > width, "{warning}");
            steps += 1;
        }
        width = ms * 1_000_000;
    }
    assert!(steps >= 2, "{:?}", run.warnings());
}

#[test]
fn packets_leave_room_for_bins() {
    let scratch = Scratch::new("room");
    let run = scratch.run(
        "every: 50 ms, format: csv, disk: 1 MB, packets: [{ link: all }]",
        &[],
    );
    hold_sums(&run);
    let followed = run.rows("packets").len();
    let missing = run.warnings().into_iter().find_map(|warning| {
        let rest = warning.strip_prefix("series/packets lacks ")?;
        rest.split_once(" packets:")?.0.parse::<usize>().ok()
    });
    let all = scratch.run("packets: [{ link: all }], format: csv", &[]);
    assert_eq!(missing, Some(all.rows("packets").len() - followed));
}

/// A series that cannot be written ends measuring, and not the run.
#[test]
fn a_series_that_cannot_be_written_ends_measuring_alone() {
    let scratch = Scratch::new("unwritable");
    let file = scratch.0.join("experiment.yaml");
    let text = format!("{EXPERIMENT}measure: {{ every: 7 ms, format: csv, capture: [g-h] }}\n");
    fs::write(&file, text).unwrap();
    let folder = scratch.0.join("run");
    // Files of a run are limited to 64 KiB, which stands for a disk that is full.
    let command = format!(
        "trap '' XFSZ; ulimit -f 64; exec {} run {} --json --quiet --out {}",
        env!("CARGO_BIN_EXE_longhaul"),
        file.display(),
        folder.display()
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &command])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let summary = fs::read_to_string(folder.join("summary.json")).expect(&said);
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let warnings = summary["warnings"].to_string();
    for part in [
        "series end at 12 s of experiment time: series/",
        "could not be written: ",
        "captures/g-h.pcapng (the capture of g-h) is incomplete, since it could not be written: ",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert_eq!(summary["error"], Value::Null);
    assert_eq!(summary["verdict"]["state"], "faithful");
    // What is there is whole.
    for entry in fs::read_dir(folder.join("series")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            for part in fs::read_dir(&path).unwrap() {
                let part = part.unwrap().path();
                assert_eq!(part.extension().unwrap(), "csv", "{}", part.display());
            }
        }
    }
    assert_eq!(
        scratch
            .longhaul(&[
                "compare",
                folder.to_str().unwrap(),
                folder.to_str().unwrap()
            ])
            .status
            .code(),
        Some(0)
    );
}

#[test]
fn only_what_is_asked_for_is_written() {
    let scratch = Scratch::new("asked");
    let run = scratch.run("of: flows, format: csv", &[]);
    assert!(run.parts("pipes").is_empty() && run.parts("core").is_empty());
    let rows = run.rows("flows");
    assert!(
        rows.iter()
            .all(|row| row.whole("width_ns") <= 1_000_000_000)
    );
    let first = &rows[0];
    assert_eq!(first.whole("start_ns"), 0);
    for column in ["from", "to", "protocol", "from_address", "to_address"] {
        assert!(!first.text(column).is_empty(), "{column}");
    }
    let run = scratch.run("links: [\"g>h\", a1-g], of: pipes, format: csv", &[]);
    let rows = run.rows("pipes");
    let mut names: Vec<&str> = rows.iter().map(|row| row.text("pipe")).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["a1>g", "g>a1", "g>h"]);
    let none = scratch.run("format: csv", &[]);
    assert_eq!(none.summary["series"], Value::Array(Vec::new()));
    // Measuring changes nothing.
    let measured = scratch.run("every: 3 ms, packets: [{ link: all }], capture: [all]", &[]);
    assert_eq!(none.summary["trace_hash"], measured.summary["trace_hash"]);
}

/// Both formats hold the same rows of the same run.
#[test]
fn parquet_and_csv_hold_the_same_rows() {
    let scratch = Scratch::new("formats");
    let measure = "every: 7 ms, connections: 100 ms, packets: [{ link: g-h, for: 1 s }]";
    let csv = scratch.run(&format!("{measure}, format: csv"), &[]);
    let parquet = scratch.run(&format!("{measure}, format: parquet"), &[]);
    for series in ["pipes", "flows", "core", "packets", "connections"] {
        let mut expected = csv.rows(series).into_iter();
        let mut count = 0;
        for part in parquet.parts(series) {
            let reader = SerializedFileReader::new(fs::File::open(part).unwrap()).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                let row = row.unwrap();
                let expected = expected.next().expect("no more rows than in CSV").0;
                assert_eq!(row.len(), expected.len(), "{series}");
                for (name, field) in row.get_column_iter() {
                    let text = match field {
                        Field::Null => String::new(),
                        Field::Long(value) => value.to_string(),
                        Field::Double(value) => value.to_string(),
                        Field::Str(value) => value.clone(),
                        other => panic!("{series}: {name} is {other:?}"),
                    };
                    assert_eq!(text, expected[name], "{series} {count}: {name}");
                }
                count += 1;
            }
        }
        assert!(expected.next().is_none() && count > 50, "{series}: {count}");
    }
}
