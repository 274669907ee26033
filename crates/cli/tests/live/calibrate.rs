//! Calibration as a whole: that it comes to its end, that its figures add up, and that nothing of
//! it is left. What the figures are is the machine's affair.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, Run, signal};
use crate::outcome::Outcome;
use crate::traces::{Namespaces, Process};

/// Frames that two hosts send of themselves, such as multicast reports: the machine may lose them
/// too, and then counts them among the others.
const OWN_FRAMES: u64 = 16;

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is not a whole number"))
}

fn real(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value[name].as_array();
    list.unwrap_or_else(|| panic!("{name} is no list: {value:#}"))
}

/// Runs of UDP: the kernel's, the engine's and the machine's counts of the same packets.
fn assert_sums(step: &Value) {
    let [sent, entered, delivered, left, lost] =
        ["sent", "entered", "delivered", "left", "physical_drops"].map(|n| number(&step[n]));
    assert!(sent > 0, "{step:#}");
    assert_eq!(entered, delivered + left, "{step:#}");
    assert!(entered <= sent + OWN_FRAMES, "{step:#}");
    // A sender that is faster than its shaper loses packets in its own queue.
    if step["asked_packets_per_s"] == 5_000 {
        let found = entered + lost;
        assert!(
            found + OWN_FRAMES >= sent && found <= sent + OWN_FRAMES,
            "{step:#}"
        );
    }
    assert!((0.0..=1.0).contains(&real(&step["core_busy"])), "{step:#}");
    assert_quantiles(&step["lateness_ns"]);
}

fn assert_quantiles(quantiles: &Value) {
    let order = ["p50", "p90", "p99", "p999"].map(|name| number(&quantiles[name]));
    assert!(order.is_sorted(), "{quantiles}");
}

/// What the machine is, its noise, and what programs get end to end.
fn assert_whole(printed: &Value, markdown: &str) {
    let noise = &printed["noise"];
    assert_eq!(real(&noise["seconds"]), 2.0);
    let measured = list(noise, "cpus");
    let cpus = number(&printed["machine"]["cpus"]);
    assert_eq!(measured.len() as u64, cpus.min(2), "{noise:#}");
    for cpu in measured {
        let stalls = &cpu["stalls"];
        let [count, long, total, longest] =
            ["count", "long", "total_ns", "longest_ns"].map(|name| number(&stalls[name]));
        assert!(long <= count && longest <= total, "{stalls}");
        assert!(total >= count * number(&noise["threshold_ns"]), "{stalls}");
        assert!(total >= long * number(&noise["long_ns"]), "{stalls}");
    }
    let ways = list(printed, "end_to_end");
    let names: Vec<String> = ways.iter().map(|way| way["way"].to_string()).collect();
    let expected = [
        "\"plain_cable\"",
        "\"second_address\"",
        "{\"hops\":1}",
        "{\"hops\":12}",
    ];
    assert_eq!(names, expected);
    for way in ways {
        for carried in [&way["tcp"], &way["udp"]] {
            let [sent, arrived] = ["sent_bytes", "bytes"].map(|name| number(&carried[name]));
            assert!(arrived > 0 && arrived <= sent, "{way:#}");
            let rate = arrived as f64 * 8.0 / real(&carried["seconds"]);
            assert!(
                (rate / real(&carried["bits_per_s"]) - 1.0).abs() < 1e-6,
                "{way:#}"
            );
            assert_eq!(
                carried["state"].is_null(),
                way["way"].is_string(),
                "{way:#}"
            );
        }
        let tcp = &way["tcp"];
        assert_eq!(
            tcp["sent_bytes"], tcp["bytes"],
            "TCP loses nothing: {way:#}"
        );
    }
    let kernel = printed["machine"]["kernel"].as_str().expect("a name");
    for text in [
        "### hardware",
        "### system",
        "### bandwidth end to end",
        "| 12 hops | ",
        kernel,
    ] {
        assert!(markdown.contains(text), "{text}: {markdown}");
    }
}

#[test]
fn a_quick_calibration_measures_everything_and_leaves_its_file() {
    let lab = Lab::unprivileged();
    let file = lab.dir().join("calibration.json");
    let out = file.to_str().expect("a UTF-8 path");
    let tables = lab.dir().join("machine.md");
    let mut command = lab.longhaul(&["calibrate", "--quick", "--json", "--out", out]);
    let output = command
        .arg("--markdown")
        .arg(&tables)
        .env("TMPDIR", lab.dir())
        .output()
        .expect("starting longhaul");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("calibrating: ") && stderr.contains("written to "),
        "{stderr}"
    );
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kept = fs::read_to_string(&file).expect("the file");
    assert_eq!(printed, serde_json::from_str::<Value>(&kept).expect("JSON"));

    let markdown = fs::read_to_string(&tables).expect("the tables");
    assert_whole(&printed, &markdown);
    assert!(number(&printed["timer"]["wakeups"]) > 0);
    assert_quantiles(&printed["timer"]["late_ns"]);
    let costs = &printed["costs"];
    for ns in [&costs["hop_ns"], &costs["end_ns"]] {
        assert!((1.0..1e5).contains(&real(ns)), "{costs:#}");
    }
    if number(&printed["machine"]["cpus"]) > 1 {
        let between = &costs["between"];
        assert!(real(&between["crossing_ns"]) >= 1.0, "{costs:#}");
        assert!(
            (0.0..1e8).contains(&real(&between["window_ns"])),
            "{costs:#}"
        );
    }
    let steps = list(&printed, "lateness");
    steps.iter().for_each(assert_sums);
    for hops in [1, 12] {
        let own = |step: &&Value| step["hops"] == hops;
        assert!(steps.iter().filter(own).count() >= 1, "{hops} hops");
        let flood = list(&printed, "throughput").iter().filter(own);
        assert_eq!(flood.count(), 2, "small and full packets, {hops} hops");
    }
    list(&printed, "throughput").iter().for_each(assert_sums);
    for tcp in list(&printed, "tcp") {
        let rate = number(&tcp["bytes"]) as f64 * 8.0 / real(&tcp["seconds"]);
        assert!(
            rate > 0.0 && (rate / real(&tcp["bits_per_s"]) - 1.0).abs() < 1e-9,
            "{tcp:#}"
        );
    }
    assert_eq!(list(&printed, "hosts").len(), 2);
    assert!(number(&printed["memory"]["packet_bytes"]) > 1500);
    // Every kind of packet that was carried faithfully at any rate has a limit, and no other.
    let carried = [1, 12].map(|hops| {
        let own = |step: &&Value| step["hops"] == hops && step["state"] == "faithful";
        steps.iter().any(|step| own(&step))
    });
    let points = list(&printed["region"], "points");
    let kinds = [1, 12].map(|hops| points.iter().any(|point| point["hops"] == hops));
    assert_eq!(kinds, carried, "{printed:#}");
    let count = carried.iter().filter(|carried| **carried).count();
    assert_eq!(points.len(), count, "{points:#?}");
    for point in points {
        assert!(real(&point["packets_per_s"]) > 0.0, "{point:#}");
        // Without a model, where all limits were noise, there is nothing to compare with.
        if let Some(fitted) = point["fitted_packets_per_s"].as_f64() {
            let rate = real(&point["packets_per_s"]) * (1.0 + real(&point["residual"]));
            assert!((rate / fitted - 1.0).abs() < 1e-9, "{point:#}");
        }
    }
    let left = folders(&lab);
    assert!(left.is_empty(), "{left:?}");
}

/// The folders in which calibrations make their runs.
fn folders(lab: &Lab) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab.dir()).expect("the folder").flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("longhaul-calibrate-")
    });
    ours.map(|entry| entry.path()).collect()
}

/// Whether a plain cable is up, with a program at one of its ends.
fn over_a_cable(processes: &[Process]) -> bool {
    on_a_cable(processes).next().is_some()
}

/// The programs at the ends of a cable that is up.
fn on_a_cable(processes: &[Process]) -> impl Iterator<Item = &Process> {
    let holders = processes.iter().filter(|p| p.name == "longhaul-cable");
    let is_up = holders.count() == 2;
    // They are executed by the name /proc/self/exe.
    processes.iter().filter(move |p| is_up && p.name == "exe")
}

/// Whether a run is under way.
fn in_a_run(processes: &[Process]) -> bool {
    processes.iter().any(|p| p.name == "longhaul-host")
}

/// Starts a calibration and sends it a signal at some moment. Programs on a cable are stopped before,
/// since they would end by themselves within a second. No process, namespace or interface of
/// it may be left; what it came to, and the folder that it had.
fn end_by(
    name: &str,
    lab: &Lab,
    number: u32,
    is_moment: fn(&[Process]) -> bool,
) -> (Outcome, PathBuf) {
    /// Noise and timer come before either moment; the machine may be busy.
    const BEGINS_WITHIN: Duration = Duration::from_secs(60);
    const ENDS_WITHIN: Duration = Duration::from_secs(8);
    let mut command = lab.longhaul(&["calibrate", "--quick", "--out", "calibration.json"]);
    command.env("TMPDIR", lab.dir());
    let mut run = Run::spawn(lab, command, lab.dir().join("none"), number);
    let began = Instant::now();
    let namespaces = loop {
        let processes = run.processes();
        if is_moment(&processes) {
            on_a_cable(&processes).for_each(|program| signal(program.pid, "STOP"));
            break Namespaces::of(&processes);
        }
        assert!(
            !run.has_ended() && began.elapsed() < BEGINS_WITHIN,
            "{}",
            run.said()
        );
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(!namespaces.members().is_empty(), "it has namespaces");
    let folder = match &folders(lab)[..] {
        [only] => only.clone(),
        other => panic!("one folder, not {other:?}: {}", run.said()),
    };
    signal(run.pid(), name);
    let signalled = Instant::now();
    while !run.has_ended() {
        assert!(
            signalled.elapsed() < ENDS_WITHIN,
            "it hangs: {}",
            run.said()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    run.assert_gone(&namespaces, &format!("SIG{name}"));
    let outcome = run.wait();
    assert!(!lab.dir().join("calibration.json").exists(), "{outcome}");
    (outcome, folder)
}

#[test]
fn a_calibration_that_is_killed_or_interrupted_leaves_nothing() {
    let lab = Lab::unprivileged();
    let (outcome, killed) = end_by("KILL", &lab, 1, over_a_cable);
    assert_eq!(outcome.code, 128 + 9, "{outcome}");
    assert_eq!(
        folders(&lab),
        std::slice::from_ref(&killed),
        "nobody was left to remove it"
    );
    for (number, (name, signal), moment) in [
        (2, ("TERM", 15), over_a_cable as fn(&[Process]) -> bool),
        (3, ("INT", 2), in_a_run),
    ] {
        let (outcome, folder) = end_by(name, &lab, number, moment);
        assert_ne!(folder, killed, "the killed one's was removed");
        let left = folders(&lab);
        assert!(left.is_empty(), "{left:?} after {outcome}");
        assert_eq!(outcome.code, 1, "{outcome}");
        let said = format!("interrupted by signal {signal}");
        assert!(outcome.stderr.contains(&said), "{outcome}");
    }
}

#[test]
fn without_a_place_for_its_file_nothing_is_measured() {
    // Its environment is empty: no home, no state.
    let lab = Lab::new();
    let mut command = lab.longhaul(&["calibrate", "--quick"]);
    let output = command.env_clear().output().expect("starting longhaul");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        stderr.contains("--out") && !stderr.contains("calibrating"),
        "{stderr}"
    );
}
