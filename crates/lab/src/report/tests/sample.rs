//! A run to make pages of, and pages read back.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use base64::Engine;
use longhaul_core::observe::PipeCounters;
use serde_json::Value;

use super::super::document::VERSION;
use super::super::{Extent, html};
use crate::fidelity::{ByCause, PhysicalDrops, Quantiles, Stalls, State, Verdict, WorstPair};
use crate::flows::{FlowSummary, GroupSummary};
use crate::summary::*;

pub(crate) const SECONDS: &str = "second,packets,late,lateness_p50_ns,lateness_p99_ns,lateness_p999_ns,\
                       lateness_max_ns,physical_drops,inside,core_busy,core_wait_ns\n";
pub(crate) const SECOND_PIPES: &str = "second,pipe,packets,bytes,drops_queue,drops_loss,busy_ns\n";
pub(crate) const BINS: &str = "start_ns,width_ns,pipe,packets,bytes,drops_queue,drops_loss,drops_down,busy_ns,\
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

pub(crate) fn program(name: &str) -> ProgramSummary {
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

pub(crate) fn pipe(name: &str, bytes: u64) -> PipeSummary {
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

pub(crate) fn packets() -> Packets {
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
            long: 1,
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
        alone: None,
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
pub(crate) fn document(html: &str) -> Value {
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
pub(crate) fn page_of(summary: &Summary, folder: &Folder) -> (String, Value) {
    let html = html(&folder.0, Some(&summary.to_json()), &Extent::whole());
    let run = document(&html)["runs"][0].clone();
    (html, run)
}

pub(crate) fn notes(run: &Value) -> String {
    let notes = run["notes"].as_array().unwrap();
    notes
        .iter()
        .map(|note| format!("{}\n", note.as_str().unwrap()))
        .collect()
}

/// What is in the page outside of its data, script, style and licences.
pub(crate) fn outside(html: &str) -> String {
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

pub(crate) fn flow(number: u64) -> FlowSummary {
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

pub(crate) fn group() -> GroupSummary {
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
