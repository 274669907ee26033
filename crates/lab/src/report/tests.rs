use std::fs;
use std::io::Read;
use std::path::PathBuf;

use base64::Engine;
use longhaul_core::observe::PipeCounters;
use proptest::prelude::*;
use serde_json::Value;

use super::document::{Grid, VERSION};
use super::rollup::{Number, Rollup};
use super::specs::{self, PIPES};
use super::text::escape;
use super::{Extent, PAGE_MAX, html};
use crate::fidelity::{ByCause, PhysicalDrops, Quantiles, Stalls, State, Verdict, WorstPair};
use crate::flows::{FlowSummary, GroupSummary};
use crate::measure::read::{Batch, Pool};
use crate::network::NetworkFile;
use crate::summary::*;

const HOSTILE: &str = "</title><script>alert('1')</script>\"&\u{202e}\0<!--";
const SECONDS: &str = "second,packets,late,lateness_p50_ns,lateness_p99_ns,lateness_p999_ns,\
                       lateness_max_ns,physical_drops,inside,core_busy,core_wait_ns\n";
const SECOND_PIPES: &str = "second,pipe,packets,bytes,drops_queue,drops_loss,busy_ns\n";
const BINS: &str = "start_ns,width_ns,pipe,packets,bytes,drops_queue,drops_loss,drops_down,busy_ns,\
                    queue_mean,queue_max,served,delay_mean_ns,delay_max_ns\n";

/// A run folder that goes away with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("longhaul-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("series")).expect("a folder for the test");
        fs::create_dir_all(path.join("logs")).expect("a folder for the test");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).expect("a file for the test");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program(name: &str) -> ProgramSummary {
    ProgramSummary {
        name: name.to_owned(),
        host: "a".to_owned(),
        exit: Some(0),
        log: format!("logs/{name}"),
        start_s: Some(0.5),
        finish_s: Some(2.0),
        service: false,
        ended_by_run: false,
        cpu_s: 0.25,
        log_discarded_bytes: 0,
        failure: None,
    }
}

fn pipe(name: &str, bytes: u64) -> PipeSummary {
    PipeSummary {
        name: name.to_owned(),
        counts: PipeCounts::from(&PipeCounters {
            packets: bytes / 1000,
            bytes,
            drops_queue: 2,
            drops_loss: 1,
            ..PipeCounters::default()
        }),
        utilisation: Some(0.25),
        framing: "ethernet".to_owned(),
    }
}

fn packets() -> Packets {
    let none = Refusals {
        malformed: 0,
        not_ip: 0,
        multicast: 0,
        multicast_data: 0,
        too_long: 0,
    };
    let dropped = Drops {
        queue: 300,
        loss: 40,
        link_down: 0,
        hop_limit: 5,
        no_route: 0,
        too_big: 0,
        misdelivered: 0,
        absorbed: 0,
    };
    Packets {
        entered: 1_234_560,
        created: 5,
        delivered: 1_234_200,
        inside: 20,
        hops: 2_500_000,
        dropped,
        refused: none,
        replies_suppressed: 1,
    }
}

pub(crate) fn summary() -> Summary {
    let quantiles = Quantiles {
        p50: 5000,
        p90: 9000,
        p99: 90_000,
        p999: 150_000,
        max: 199_000,
    };
    let verdict = Verdict {
        state: State::Faithful,
        state_without_noise: State::Faithful,
        holds: Some("delay percentiles of c > s are off by at most 200 us".into()),
        reasons: Vec::new(),
        tolerance_ns: 200_000,
        late_share: 0.0002,
        lost_share: 0.0,
        percentile_shift: 0.004,
        rate_share: 1.0,
        worst_pair: Some(WorstPair {
            from: Some("c".into()),
            to: "s".into(),
            packets: 1000,
            late: 4,
            late_share: 0.004,
            lost_share: 0.0,
            episodes: 1,
            allowance_ns: 200_000,
        }),
        episodes: 1,
        by_cause: ByCause::default(),
        stalls: Stalls {
            count: 1,
            total_ns: 5_300_000,
            longest_ns: 5_300_000,
        },
        seconds: 3,
        late_seconds: 0,
        lateness_ns: Some(quantiles),
        after_call_ns: Some(quantiles),
        staleness_ns: None,
        physical_drops: 0,
        physical_drops_by_place: PhysicalDrops::default(),
        clock_steps: 0,
        starved_hosts: Vec::new(),
        stolen_ns: Some(10_000_000),
        tcp: None,
    };
    let machine = Machine {
        cpus: 4,
        kernel: "6.18".to_owned(),
        processor: "A processor".to_owned(),
        memory_bytes: 8_000_000_000,
        virtual_machine: false,
        hyper_threads: Some(true),
        frequency_governor: None,
        clock_source: "tsc".to_owned(),
        load_before: 0.25,
        core_cpu: Some(3),
        core_scheduling: "short-slice".to_owned(),
        program_cpus: vec![0, 1, 2],
    };
    Summary {
        experiment: "two".to_owned(),
        clock: "real".to_owned(),
        seed: 1,
        version: "0.1.0".to_owned(),
        run: "/runs/two".to_owned(),
        machine,
        verdict,
        packets: packets(),
        trace_hash: None,
        simulated_s: 2.5,
        wall_s: 2.75,
        cpu_s: 0.5,
        setup_s: 0.125,
        teardown_s: 0.25,
        hops_per_s: 1.5e6,
        error: None,
        warnings: Vec::new(),
        programs: vec![program("client")],
        flows: Vec::new(),
        flows_seen: 0,
        flow_groups: Vec::new(),
        events: Vec::new(),
        events_seen: 0,
        pipes: vec![pipe("a>b", 3_000_000), pipe("b>a", 9_000)],
        pipes_seen: 2,
        cores: vec![CoreSummary {
            pipes: 2,
            packets: 1_234_565,
            cross_core: 0,
            busy: 0.5,
        }],
        efficiency: None,
        partition: None,
        series: Vec::new(),
        captures: Vec::new(),
        attempts: Vec::new(),
        resources: None,
    }
}

/// The document in a page.
fn document(html: &str) -> Value {
    let data = html.split_once("id=\"data\">").expect("a place for data").1;
    let data = data.split_once("</script>").expect("an end of data").0;
    let alphabet = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
    assert!(
        data.chars().all(alphabet),
        "data is base64 and nothing else"
    );
    let packed = base64::engine::general_purpose::STANDARD
        .decode(data)
        .unwrap();
    let mut json = Vec::new();
    flate2::read::ZlibDecoder::new(&*packed)
        .read_to_end(&mut json)
        .unwrap();
    let document: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["format"], "longhaul-report");
    assert_eq!(document["version"], VERSION);
    document
}

/// The page of a summary in a folder, and its run.
fn page_of(summary: &Summary, folder: &Folder) -> (String, Value) {
    let html = html(&folder.0, Some(&summary.to_json()), &Extent::whole());
    let run = document(&html)["runs"][0].clone();
    (html, run)
}

fn notes(run: &Value) -> String {
    let notes = run["notes"].as_array().unwrap();
    notes
        .iter()
        .map(|note| format!("{}\n", note.as_str().unwrap()))
        .collect()
}

/// What stands in the page outside of its data, script, style and licences.
fn outside(html: &str) -> String {
    let mut rest = html.to_owned();
    let elements = [
        ("<style>", "</style>"),
        ("<template id=\"licences\">", "</template>"),
        (
            "<script type=\"application/json\" id=\"data\">",
            "</script>",
        ),
        ("<script>", "</script>"),
    ];
    for (from, to) in elements {
        let (before, after) = rest.split_once(from).unwrap_or_else(|| panic!("{from}"));
        let (_, after) = after.split_once(to).unwrap_or_else(|| panic!("{to}"));
        rest = format!("{before}{after}");
    }
    rest
}

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
        "they stand elsewhere"
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

fn flow(number: u64) -> FlowSummary {
    FlowSummary {
        name: format!("bulk#{number}"),
        from: "a".into(),
        to: "b".into(),
        model: "tcp".into(),
        bytes: 1_000_000,
        start_s: 0.5,
        finish_s: Some(1.5),
        completion_s: Some(1.0),
        goodput_bps: 8e6,
        retransmissions: 3,
        rtt_ns: None,
        failed: false,
        requests: None,
        datagrams: None,
    }
}

fn group() -> GroupSummary {
    GroupSummary {
        name: "bulk".into(),
        flows: 1_000_000,
        finished: 999_999,
        failed: 1,
        bytes: 10_000_000_000,
        retransmissions: 7,
        completion_s: crate::flows::Percentiles::of(&mut [0.25, 0.5]),
        goodput_bps: 8e6,
        jain: Some(0.875),
    }
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
        let noted =
            notes.contains("pipes.csv cannot be read") || notes.contains("that make no sense");
        assert_eq!(noted, name != "far", "{name}: {notes}");
        assert!(
            notes.contains("network.json cannot be read"),
            "{name}: {notes}"
        );
    }
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
        notes.contains("the run was cut off") && notes.contains("a line that makes no sense"),
        "{notes}"
    );
    folder.write("summary.json", "{\"experiment\": 7");
    let notes =
        super::tests::notes(&document(&super::html(&folder.0, None, &Extent::whole()))["runs"][0]);
    assert!(notes.contains("summary.json cannot be read"), "{notes}");
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
    assert!(notes.contains("network.json is of version 99"), "{notes}");
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
fn what_is_not_read_at_the_end_of_a_run_is_told() {
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

#[test]
fn texts_are_cut() {
    assert_eq!(escape("a<b").as_str(), "a&lt;b");
    let cut = escape(&"é".repeat(100_000));
    assert!(cut.ends_with('…') && cut.chars().count() == 1001);
}

/// Every name in a document stands in `ui/src/data.ts`, and the versions agree.
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
