//! Pages as a whole: what is in them, and what never is.

mod sample;
mod series;

use std::fs;

use serde_json::Value;

use super::document::VERSION;
use super::text::escape;
use super::{Extent, html, specs};
use crate::fidelity::State;
use crate::flows::{FlowSummary, GroupSummary};
use crate::network::NetworkFile;
use crate::summary::*;
use sample::*;
pub(crate) use sample::{Folder, flow, group, summary};

const HOSTILE: &str = "</title><script>alert('1')</script>\"&\u{202e}\0<!--";

#[test]
fn a_plain_run_makes_a_whole_page() {
    let folder = Folder::new("plain");
    let rows = "0,500,0,5000,90000,150000,180000,0,7,0.500,1000\n\
                1,600,1,6000,80000,150000,199000,0,9,0.600,1000\n\
                2,100,0,0,0,0,0,0,20,0.050,1000\n";
    folder.write("series/seconds.csv", format!("{SECONDS}{rows}"));
    folder.write(
        "series/pipes.csv",
        format!("{SECOND_PIPES}0,a>b,9,9000,0,0,1\n1,a>b,5,5000,0,0,1\n"),
    );
    folder.write("logs/client.out", "hello\n");
    let (html, run) = page_of(&summary(), &folder);
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    let outside = outside(&html);
    assert!(
        outside.contains("<title>two: faithful</title>"),
        "{outside}"
    );
    assert!(outside.contains("delay percentiles of c &gt; s are off by at most 200 us"));
    assert!(outside.contains("default-src 'none'; script-src 'sha256-"));
    assert!(
        !outside.contains("<script") && !outside.contains("http:") && !outside.contains("src="),
        "{outside}"
    );
    assert_eq!(run["ending"], "whole");
    assert_eq!(run["summary"]["packets"]["delivered"], 1_234_200);
    assert_eq!(run["pipes"][0]["name"], "a>b");
    assert_eq!(run["pipes"][0]["counts"]["drops_queue"], 2);
    assert_eq!(run["programs"][0]["out"]["lines"][0], "hello");
    assert_eq!(run["programs"][0]["err"]["file"], Value::Null);
    let lateness = &run["series"]["seconds"]["shown"][0]["lines"]["lateness_max"]["mean"];
    assert_eq!(*lateness, serde_json::json!([180_000, 199_000, 0]));
    // 72,000 bits in the first second, 40,000 in the next.
    let rate = &run["series"]["pipe_seconds"]["shown"][0]["lines"]["rate"]["mean"];
    assert_eq!(*rate, serde_json::json!([72_000, 40_000]));
    assert!(
        run["summary"].get("pipes").is_none(),
        "pipes are in a list of their own"
    );
}

#[test]
fn several_cores_show_what_was_expected_and_what_came() {
    let mut summary = summary();
    let load = |efficiency, load_max, load_mean| Load {
        efficiency,
        load_max,
        load_mean,
    };
    summary.partition = Some(PartitionSummary {
        method: "best".to_owned(),
        costs: "threads".to_owned(),
        cut_pipes: 12,
        lookahead_ns: Some(3_000),
        predicted: load(0.875, 1.25, 1.125),
        measured: load(0.751, 2.5, 0.5),
        edge_packets: 1_234_567,
        crossing_packets: 76_543,
    });
    let (_, run) = page_of(&summary, &Folder::new("cores"));
    assert_eq!(run["summary"]["partition"]["measured"]["efficiency"], 0.751);
    assert_eq!(run["summary"]["partition"]["crossing_packets"], 76_543);
}

#[test]
fn hostile_texts_stay_texts() {
    let mut summary = summary();
    let hostile = || HOSTILE.to_owned();
    summary.experiment = hostile();
    summary.machine.processor = hostile();
    summary.verdict.state = State::Broken;
    summary.verdict.holds = Some(hostile());
    summary.verdict.reasons = vec![hostile(); 21];
    summary.error = Some(hostile());
    summary.warnings = vec![hostile()];
    summary.pipes = vec![pipe(HOSTILE, 9000)];
    summary.programs = vec![ProgramSummary {
        failure: Some(hostile()),
        ..program(HOSTILE)
    }];
    summary.flows = vec![FlowSummary {
        name: hostile(),
        goodput_bps: f64::INFINITY,
        ..flow(1)
    }];
    summary.flow_groups = vec![GroupSummary {
        name: hostile(),
        jain: Some(f64::NAN),
        ..group()
    }];
    let folder = Folder::new("hostile");
    folder.write("series/seconds.csv", SECONDS);
    folder.write(
        "series/pipes.csv",
        format!("{SECOND_PIPES}0,{HOSTILE},9,9000,0,0,1\n"),
    );
    let (html, run) = page_of(&summary, &folder);
    assert!(!html.contains("<script>alert"));
    let outside = outside(&html);
    assert!(
        !outside.contains("<script") && !outside.contains("<!--"),
        "{outside}"
    );
    assert!(!outside.contains('\u{202e}') && !outside.contains('\0'));
    assert_eq!(outside.matches("</title>").count(), 1);
    assert_eq!(run["name"], HOSTILE);
    assert_eq!(run["series"]["pipe_seconds"]["shown"][0]["key"][0], HOSTILE);
}

#[test]
fn a_million_flows_make_a_page_of_bounded_size() {
    let mut summary = summary();
    summary.clock = "virtual".into();
    summary.verdict.lateness_ns = None;
    summary.verdict.holds = None;
    summary.flows = (0..10_000).map(flow).collect();
    summary.flows_seen = 1_000_000;
    summary.flow_groups = (0..5_000).map(|_| group()).collect();
    let (html, run) = page_of(&summary, &Folder::new("million"));
    assert!(html.len() < 800_000, "{}", html.len());
    assert_eq!(run["summary"]["flows"].as_array().map(Vec::len), Some(2000));
    assert_eq!(
        run["summary"]["flow_groups"].as_array().map(Vec::len),
        Some(2000)
    );
    assert_eq!(run["summary"]["flows_seen"], 1_000_000);
}

#[test]
fn huge_runs_make_bounded_pages() {
    let mut summary = summary();
    let long = "x".repeat(60);
    summary.pipes = (0..30_000)
        .map(|n| pipe(&format!("{long}{n}>{long}"), n * 1000))
        .collect();
    summary.pipes_seen = 30_000;
    summary.programs = (0..10_000)
        .map(|n| program(&format!("{long}@{long}{n}")))
        .collect();
    summary.programs[9_000].failure = Some("it exited with code 3".to_owned());
    summary.programs[9_000].name = "the-failed-one".to_owned();
    summary.warnings = (0..10_000)
        .map(|n| format!("warning {n} {long}{long}"))
        .collect();
    summary.verdict.reasons = vec!["y".repeat(100_000)];
    summary.simulated_s = 100_000.5;
    let folder = Folder::new("huge");
    let seconds: String = (0..100_000)
        .map(|n| format!("{n},9,0,1,2,3,4,0,1,0.5,1\n"))
        .collect();
    folder.write("series/seconds.csv", SECONDS.to_owned() + &seconds);
    let bytes: String = (0..100_000)
        .map(|n| format!("{n},{long}{}>{long},1,{n},0,0,1\n", n % 30_000))
        .collect();
    folder.write("series/pipes.csv", SECOND_PIPES.to_owned() + &bytes);
    let (html, run) = page_of(&summary, &folder);
    assert!(html.len() < 8_000_000, "{} bytes", html.len());
    assert_eq!(
        run["pipes"].as_array().map(Vec::len),
        Some(specs::PIPES_MAX)
    );
    assert_eq!(run["pipes_seen"], 30_000);
    let notes = notes(&run);
    assert!(notes.contains("20000 of 30000 pipes are shown"), "{notes}");
    assert!(
        notes.contains("2000 of 10000 programs are shown"),
        "{notes}"
    );
    assert_eq!(run["programs"][0]["name"], "the-failed-one");
    assert!(run["series"]["seconds"]["grid"]["columns"].as_u64() <= Some(1_200));
    let reason = run["summary"]["verdict"]["reasons"][0].as_str().unwrap();
    assert!(reason.ends_with('…') && reason.chars().count() == 2001);
}

#[test]
fn a_run_that_was_cut_off_shows_what_there_is() {
    let folder = Folder::new("cut");
    let plan = longhaul_plan::plan::Plan::from_text(
        "topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], rate: 1 Mbit/s }] }\n\
         programs: { work: { on: a, run: sleep 9 } }",
        "test",
    );
    folder.write(
        "network.json",
        NetworkFile::of(&plan.unwrap_or_else(|e| panic!("{e}"))).to_json(),
    );
    folder.write(
        "series/seconds.csv",
        format!("{SECONDS}0,5,0,1,1,1,1,0,0,0.5,1\n1,5,0,1,1,1,1,0,0,0.5,1\n2,5,0,1"),
    );
    folder.write("logs/work.err", "so far\n");
    let html = html(&folder.0, None, &Extent::whole());
    assert!(outside(&html).contains(": cut off</title>"));
    let run = &document(&html)["runs"][0];
    assert_eq!(
        (&run["ending"], &run["summary"]),
        (&Value::from("cut_off"), &Value::Null)
    );
    assert_eq!(run["end_s"], 2.0, "the last row that is whole");
    assert_eq!(run["programs"][0]["err"]["lines"][0], "so far");
    assert_eq!(run["programs"][0]["ended"], Value::Null);
    assert_eq!(run["pipes"][0]["params"]["rate_bps"], 1_000_000);
    let notes = notes(run);
    assert!(
        notes.contains("the run was cut off") && notes.contains("a malformed line"),
        "{notes}"
    );
    folder.write("summary.json", "{\"experiment\": 7");
    let notes =
        sample::notes(&document(&super::html(&folder.0, None, &Extent::whole()))["runs"][0]);
    assert!(notes.contains("summary.json cannot be read"), "{notes}");
    // Neither a pipe nor a device is read, which may have no end.
    for name in ["summary.json", "network.json"] {
        fs::remove_file(folder.0.join(name)).unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.0.join(name)).unwrap();
    }
    let notes =
        sample::notes(&document(&super::html(&folder.0, None, &Extent::whole()))["runs"][0]);
    assert_eq!(
        notes.matches("it is not a regular file").count(),
        2,
        "{notes}"
    );
}

#[test]
fn a_run_of_another_version_says_so() {
    let folder = Folder::new("version");
    folder.write("network.json", "{\"version\": 99, \"pipes_seen\": 1}");
    let text = summary().to_json().replacen(
        "\"version\": \"0.1.0\"",
        "\"version\": \"9.9.9\", \"novel\": [1]",
        1,
    );
    let html = html(&folder.0, Some(&text), &Extent::whole());
    let notes = notes(&document(&html)["runs"][0]);
    assert!(notes.contains("Longhaul 9.9.9 made this run"), "{notes}");
    assert!(notes.contains("network.json has version 99"), "{notes}");
}

#[test]
fn odd_figures_make_a_page_too() {
    for total in [0.0, -1.0, 1e-9, 1.0, 3.02, 1e300, f64::NAN, f64::INFINITY] {
        let folder = Folder::new("odd");
        folder.write(
            "series/seconds.csv",
            format!("{SECONDS}3,1,0,0,0,0,0,0,0,0.1,0\n"),
        );
        folder.write(
            "series/pipes.csv",
            format!("{SECOND_PIPES}0,a>b,9,9000,0,0,1\n"),
        );
        let mut summary = summary();
        summary.simulated_s = total;
        summary.verdict.tolerance_ns = u64::MAX;
        summary.verdict.lateness_ns = None;
        let (_, run) = page_of(&summary, &folder);
        assert!(
            run["end_s"]
                .as_f64()
                .is_some_and(|end| (0.0..=1e9).contains(&end)),
            "{total}"
        );
    }
}

#[test]
fn texts_are_cut() {
    assert_eq!(escape("a<b").as_str(), "a&lt;b");
    let cut = escape(&"é".repeat(100_000));
    assert!(cut.ends_with('…') && cut.chars().count() == 1001);
}

/// Every name in a document is in `ui/src/data.ts`, and the versions agree.
#[test]
fn the_page_knows_every_name_of_the_document() {
    let folder = Folder::new("names");
    fs::create_dir(folder.0.join("series/pipes")).unwrap();
    fs::create_dir(folder.0.join("series/packets")).unwrap();
    folder.write(
        "series/pipes/0001.csv",
        format!(
            "{BINS}0,1000000,a>b,1,1,1,0,0,1,0,0,1,7,9\n1000000,1000000,a>b,1,9,1,0,0,1,0,0,1,7,9\n"
        ),
    );
    folder.write("series/packets/0001.csv", "pipe,arrival_ns,service_ns,departure_ns,bytes,fate,from,to,protocol,from_port,to_port\na>b,1,2,3,4,out,a,b,tcp,5,6\n");
    folder.write(
        "series/seconds.csv",
        format!("{SECONDS}0,5,0,1,1,1,1,0,0,0.5,1\n"),
    );
    let plan = longhaul_plan::plan::Plan::from_text(
        "topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b] }] }",
        "test",
    );
    folder.write(
        "network.json",
        NetworkFile::of(&plan.unwrap_or_else(|e| panic!("{e}"))).to_json(),
    );
    let extent = Extent {
        numbers: 10,
        ..Extent::whole()
    };
    let document = document(&html(&folder.0, Some(&summary().to_json()), &extent));
    let types = include_str!("../../../../ui/src/data.ts");
    let mut names = std::collections::BTreeSet::new();
    collect_names(&document, &mut names);
    assert!(names.contains("arrival_ns") && names.contains("row_ns") && names.contains("rate_bps"));
    for name in names {
        let known = [
            format!("  {name}: "),
            format!("  {name}?: "),
            format!(" {name}: "),
            format!("\"{name}\""),
        ];
        assert!(
            known.iter().any(|known| types.contains(known)),
            "ui/src/data.ts does not have {name}"
        );
    }
    assert!(
        include_str!("../../../../ui/src/main.ts").contains(&format!("const VERSION = {VERSION};"))
    );
}

/// The names of objects; those of figures and of what the summary has are anybody's.
fn collect_names(value: &Value, names: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| collect_names(value, names)),
        Value::Object(map) => {
            for (name, value) in map {
                names.insert(name.clone());
                if !["summary", "ended", "lines", "rows"].contains(&name.as_str()) {
                    collect_names(value, names);
                }
            }
        }
        _ => {}
    }
}
