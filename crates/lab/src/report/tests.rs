use std::fs;
use std::path::{Path, PathBuf};

use longhaul_core::observe::PipeCounters;

use super::html;
use super::series::{COLUMNS, Grid, Series};
use super::text::{count, escape, link, ranges, si};
use crate::fidelity::{ByCause, PhysicalDrops, Quantiles, Stalls, State, Verdict, WorstPair};
use crate::flows::{FlowSummary, GroupSummary};
use crate::summary::*;

const HOSTILE: &str = "</title><script>alert('1')</script>\"&\u{202e}\0<!--";
const SECONDS: &str = "second,packets,late,lateness_p50_ns,lateness_p99_ns,lateness_p999_ns,\
                       lateness_max_ns,physical_drops,inside,core_busy,core_wait_ns\n";
const PIPES: &str = "second,pipe,packets,bytes,drops_queue,drops_loss,busy_ns\n";

/// A run folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("longhaul-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("series")).expect("a folder for the test");
        fs::create_dir_all(path.join("logs")).expect("a folder for the test");
        Self(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).expect("a file for the test");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn nowhere() -> &'static Path {
    Path::new("/nonexistent")
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

/// Checks that tags close in order, attributes are quoted, and `<` and `&` are markup.
fn check_markup(html: &str) {
    let html = html
        .strip_prefix("<!doctype html>\n")
        .expect("a document type");
    let mut open: Vec<&str> = Vec::new();
    let mut pieces = html.split('<');
    assert_eq!(pieces.next(), Some(""), "text before the first tag");
    for piece in pieces {
        let (tag, text) = piece
            .split_once('>')
            .unwrap_or_else(|| panic!("no end: <{piece}"));
        if open.last() != Some(&"style") {
            assert!(!text.contains('>'), "a bare >: {text}");
            for entity in text.split('&').skip(1) {
                let name = entity.split_once(';').map(|(name, _)| name);
                assert!(name.is_some_and(|n| n.len() < 6), "a bare &: {entity}");
            }
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes: <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') {
            let name = tag.split(' ').next().unwrap_or_default();
            assert!(
                name.bytes().all(|b| b.is_ascii_alphanumeric()),
                "no tag: <{tag}>"
            );
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn several_cores_show_what_was_expected_and_what_came() {
    let folder = Folder::new("cores");
    let mut summary = summary();
    let html = html(&summary, &folder.0);
    assert!(!html.contains("predicted"), "one core");
    summary.cores = vec![summary.cores[0].clone(), summary.cores[0].clone()];
    let load = |efficiency, load_max, load_mean| Load {
        efficiency,
        load_max,
        load_mean,
    };
    summary.partition = Some(PartitionSummary {
        method: "b<est".to_owned(),
        costs: "threads".to_owned(),
        cut_pipes: 12,
        lookahead_ns: Some(3_000),
        predicted: load(0.875, 1.25, 1.125),
        measured: load(0.751, 2.5, 0.5),
        edge_packets: 1_234_567,
        crossing_packets: 76_543,
    });
    let html = super::html(&summary, &folder.0);
    check_markup(&html);
    for part in [
        "<td>efficiency</td><td class=\"n\">87.5 %</td><td class=\"n\">75.1 %</td>",
        "<td>busy, maximum</td><td class=\"n\">125.0 %</td><td class=\"n\">250.0 %</td>",
        "<td>busy, mean</td><td class=\"n\">112.5 %</td><td class=\"n\">50.0 %</td>",
        "1,234,567 edge packets",
        "76,543 that crossed",
        "b&lt;est, 12 pipes cut, look-ahead 3 us",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
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
        format!("{PIPES}0,a>b,9,9000,0,0,1\n1,a>b,5,5000,0,0,1\n"),
    );
    folder.write("logs/client.out", "hello\n");
    let html = html(&summary(), &folder.0);
    check_markup(&html);
    let sum = "<b>1,234,560</b> entered</span> + <span><b>5</b> created</span> = \
               <span><b>1,234,200</b> delivered</span> + <span><b>345</b> dropped</span> + \
               <span><b>20</b> inside</span>";
    assert!(html.contains(sum));
    assert!(html.contains("Delay percentiles of c &gt; s are off by at most 200 us."));
    assert!(html.contains("The machine stood still 1 time, for 5.3"));
    assert!(html.contains("The hypervisor took 10"));
    assert!(html.contains("href=\"logs/client.out\"") && !html.contains("client.err"));
    assert_eq!(html.matches("<svg").count(), 4);
    assert!(!html.contains("<script") && !html.contains("http://") && !html.contains("https://"));
}

#[test]
fn hostile_texts_stay_texts() {
    let mut summary = summary();
    let hostile = || HOSTILE.to_owned();
    summary.experiment = hostile();
    summary.machine.processor = hostile();
    summary.verdict.state = State::Broken;
    summary.verdict.holds = Some(hostile());
    if let Some(worst) = &mut summary.verdict.worst_pair {
        (worst.from, worst.to) = (Some(hostile()), hostile());
    }
    summary.verdict.reasons = vec![hostile(); 21];
    summary.error = Some(hostile());
    summary.warnings = vec![hostile()];
    summary.pipes = vec![pipe(HOSTILE, 9000)];
    summary.programs = vec![ProgramSummary {
        failure: Some(hostile()),
        ..program(HOSTILE)
    }];
    let flow = FlowSummary {
        name: hostile(),
        from: hostile(),
        to: hostile(),
        start_s: f64::NAN,
        finish_s: Some(f64::NEG_INFINITY),
        completion_s: Some(f64::NAN),
        goodput_bps: f64::INFINITY,
        ..flow(1)
    };
    summary.flow_groups = vec![GroupSummary {
        name: hostile(),
        goodput_bps: f64::NAN,
        jain: Some(f64::INFINITY),
        ..group()
    }];
    summary.flows_seen = 1;
    summary.flows = vec![flow];
    let folder = Folder::new("hostile");
    folder.write("series/seconds.csv", SECONDS);
    folder.write(
        "series/pipes.csv",
        format!("{PIPES}0,{HOSTILE},9,9000,0,0,1\n"),
    );
    let html = html(&summary, &folder.0);
    check_markup(&html);
    assert!(!html.contains("<script") && !html.contains("<!--"));
    assert!(!html.contains('\u{202e}') && !html.contains('\0'));
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
    let html = html(&summary, nowhere());
    check_markup(&html);
    assert!(html.len() < 400_000, "{}", html.len());
    for text in [
        "The first 200 of 1,000,000 flows",
        "0.875",
        "nothing could be late",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("Lateness"));
}

#[test]
fn a_sum_that_does_not_close_is_shown() {
    let mut summary = summary();
    summary.packets.delivered -= 7;
    summary.packets.entered = u64::MAX;
    let html = html(&summary, nowhere());
    check_markup(&html);
    assert!(html.contains("≠") && html.contains("The sum does not close"));
}

#[test]
fn huge_runs_make_bounded_pages() {
    let mut summary = summary();
    let long = "x".repeat(60);
    summary.pipes = (0..10_000)
        .map(|n| pipe(&format!("{long}{n}>{long}"), n * 1000))
        .collect();
    summary.programs = (0..10_000)
        .map(|n| program(&format!("{long}@{long}{n}")))
        .collect();
    summary.programs[9_000].failure = Some("it exited with code 3".to_owned());
    summary.programs[9_000].name = "the-failed-one".to_owned();
    summary.warnings = (0..10_000)
        .map(|n| format!("warning {n} {long}{long}"))
        .collect();
    summary.machine.program_cpus = (0..1024).collect();
    summary.simulated_s = 100_000.5;
    let folder = Folder::new("huge");
    let seconds: String = (0..100_000)
        .map(|n| format!("{n},9,0,1,2,3,4,0,1,0.5,1\n"))
        .collect();
    folder.write("series/seconds.csv", SECONDS.to_owned() + &seconds);
    let bytes: String = (9_990..10_000)
        .map(|n| format!("{n},{long}{n}>{long},1,1000,0,0,1\n"))
        .collect();
    folder.write("series/pipes.csv", PIPES.to_owned() + &bytes);
    let html = html(&summary, &folder.0);
    check_markup(&html);
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
    assert!(html.contains("200 of 10,000 pipes") && html.contains("500 of 10,000 programs"));
    assert!(html.contains("the-failed-one") && html.contains("dropped 29,400 packets"));
    assert!(html.contains("and 9,900 more"));
}

#[test]
fn damaged_series_cost_no_report() {
    let cases: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("head", b"what,is,this\n1,2,3\n"),
        ("binary", b"\xff\xfe\x00"),
        ("endless", &[b'7'; 100_000]),
        (
            "short",
            b"second,pipe,bytes\n0,a>b\n\n-1,a>b,1\n1,a>b,99999999999999999999999\n",
        ),
        (
            "far",
            b"second,pipe,bytes\n18446744073709551615,a>b,18446744073709551615\n2,a>b,9\n",
        ),
    ];
    for (name, text) in cases {
        let folder = Folder::new(name);
        folder.write("series/pipes.csv", text);
        fs::create_dir(folder.0.join("series/seconds.csv")).expect("a folder in a file's place");
        let html = html(&summary(), &folder.0);
        check_markup(&html);
        assert!(
            html.contains("seconds.csv cannot be read: it is no file"),
            "{name}"
        );
        let noted = html.contains("pipes.csv cannot be read") || html.contains("charts leave out");
        assert_eq!(noted, name != "far", "{name}");
    }
}

#[test]
fn odd_figures_make_a_page_too() {
    for total in [0.0, -1.0, 1e-9, 1.0, 3.02, 1e300, f64::NAN, f64::INFINITY] {
        let folder = Folder::new("odd");
        folder.write(
            "series/seconds.csv",
            format!("{SECONDS}3,1,0,0,0,0,0,0,0,0.1,0\n"),
        );
        folder.write("series/pipes.csv", format!("{PIPES}0,a>b,9,9000,0,0,1\n"));
        let mut summary = summary();
        summary.simulated_s = total;
        summary.verdict.tolerance_ns = u64::MAX;
        summary.verdict.lateness_ns = None;
        summary.verdict.holds = None;
        let html = html(&summary, &folder.0);
        check_markup(&html);
        assert!(!html.contains("NaN") && !html.contains("inf\""), "{total}");
    }
}

#[test]
fn a_short_rest_joins_the_column_before() {
    let three = Grid::new(3.02);
    assert_eq!((three.columns, three.span(2)), (3, (2.0, 3.02)));
    let four = Grid::new(3.5);
    assert_eq!((four.columns, four.span(3)), (4, (3.0, 3.5)));
    let long = Grid::new(86_400.0);
    assert!(long.columns as u64 <= COLUMNS && long.width == 360);
}

#[test]
fn columns_hold_sums_and_worst_seconds() {
    let folder = Folder::new("columns");
    let row = |n: u64| format!("{n},10,1,{n},{n},{n},{n},2,{n},0.500,5\n");
    let rows: String = (0..480).map(row).collect();
    folder.write("series/seconds.csv", SECONDS.to_owned() + &rows);
    let mut summary = summary();
    summary.simulated_s = 480.0;
    let series = Series::read(&folder.0, &summary);
    let column = series.seconds[1].expect("reported");
    assert_eq!(
        (series.grid.width, column.packets, column.late, column.max),
        (2, 20, 2, 3)
    );
    assert_eq!(
        (column.physical_drops, column.inside, column.wait_ns),
        (4, 3, 10)
    );
    assert!((series.grid.rate(1, column.busy_s) - 0.5).abs() < 1e-9);
}

#[test]
fn figures_read_well() {
    assert_eq!(count(0u64), "0");
    assert_eq!(count(1_234_567u64), "1,234,567");
    let si = |value| si(value, "bit/s");
    assert_eq!(si(0.0), "0 bit/s");
    assert_eq!(si(999.7), "1 kbit/s");
    assert_eq!(si(1_500_000_000.0), "1.5 Gbit/s");
    assert_eq!(si(400_000.0), "400 kbit/s");
    assert_eq!(ranges(&[3, 0, 1, 2, 6]), "0-3, 6");
}

#[test]
fn links_stay_in_the_run_folder() {
    assert_eq!(
        link("logs/client@a0.out").as_deref(),
        Some("logs/client%40a0.out")
    );
    assert_eq!(
        link("javascript:alert(1)").as_deref(),
        Some("javascript%3Aalert%281%29")
    );
    for path in ["", "/etc/passwd", "../x", "logs/../../x", "//host/x"] {
        assert_eq!(link(path), None, "{path}");
    }
}

#[test]
fn texts_are_cut() {
    assert_eq!(escape("a<b").as_str(), "a&lt;b");
    let cut = escape(&"é".repeat(100_000));
    assert!(cut.ends_with('…') && cut.chars().count() == 1001);
}
