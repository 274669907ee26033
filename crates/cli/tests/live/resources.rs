//! Hosts that are kept to a share of the machine: that they have no more, see what they have, and
//! that none of it outlives the run.
//!
//! A busy machine takes from a host what it should have, and never gives it more: shares of a CPU and
//! rates of disks are held to their upper bound here, and to the lower one by the gallery's figures.

use std::fs;

use serde_json::Value;

use crate::cleanup::{Victim, kill_at_random_of};
use crate::lab::{Lab, is_root};
use crate::outcome::number;
use crate::skip::skip;

/// A host with these resources and another one, both with these programs.
fn hosts(resources: &str, programs: &str) -> String {
    format!(
        "
topology:
  nodes: {{ a: {{ {resources} }}, b: {{}} }}
  links: [ {{ ends: [a, b], delay: 1 ms }} ]
programs:
{programs}"
    )
}

/// A lab, where this machine keeps hosts to such resources by control groups.
fn lab_with(resources: &str) -> Option<Lab> {
    let lab = Lab::new();
    let file = lab.write(
        "asked.yaml",
        &hosts(resources, "  p: { on: a, run: 'true' }\n"),
    );
    let (code, json, said) = lab.ask(&["check", file.to_str().unwrap(), "--json"]);
    let checked: Value = serde_json::from_str(&json).unwrap_or_default();
    let means = ["cpu", "memory"].map(|what| checked["resources"][what].to_string());
    if !is_root() || code != 0 || means.iter().any(|means| !means.contains("cgroup")) {
        skip(&format!(
            "run as root where control groups can be made: {said}"
        ));
        return None;
    }
    Some(lab)
}

/// What the summary says of the host `a`.
fn host_resources(summary: &Value) -> &Value {
    let host = &summary["resources"]["hosts"][0];
    assert_eq!(host["name"], "a", "{}", summary["resources"]);
    host
}

#[test]
fn a_host_has_no_more_of_a_cpu_than_it_asked_for_and_sees_it() {
    let Some(lab) = lab_with("cpu: 30 %") else {
        return;
    };
    let outcome = lab.succeed(&hosts(
        "cpu: 30 %",
        "  spin: { on: a, run: python3 $DIR/hungry.py cpu 2 }
  cpus: { on: a, run: nproc, after: spin }
  free: { on: b, run: python3 $DIR/hungry.py cpu 0.3, after: spin }
  groups: { on: a, run: cat /proc/self/cgroup, after: spin }
  seen: { on: a, after: spin, run: \"sh -c 'cd /sys/fs/cgroup; cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us 2>&- || cat cpu.max; echo 1 >cpu/cpu.cfs_quota_us; true'\" }
",
    ));
    let spin = outcome.report("spin");
    let share = spin["share"].as_f64().expect("a share");
    eprintln!("share {share}, {} s at rest", spin["longest"]);
    // Without the quota it is 1, and on a busy machine less than 0.3.
    assert!(share < 0.30 * 1.04, "{share}");
    let free = outcome.report("free")["share"].as_f64().expect("a share");
    assert!(free > share, "{free} of a CPU without limits, {share} with");
    assert_eq!(outcome.log("cpus.out"), "1\n");
    let seen = outcome.log("seen.out");
    let numbers: Vec<&str> = seen.split_whitespace().collect();
    assert_eq!(numbers, ["3000", "10000"], "{seen}");
    assert!(
        outcome.log("seen.err").contains("Read-only"),
        "{}",
        outcome.log("seen.err")
    );
    let groups = outcome.log("groups.out");
    let own = groups.lines().filter(|line| line.ends_with(":/"));
    assert!(own.count() > 0 && !groups.contains("longhaul"), "{groups}");
    let cpu = &host_resources(&outcome.summary)["cpu"];
    assert_eq!(
        (cpu["quota"].as_f64(), number(&cpu["period_us"])),
        (Some(0.3), 10_000)
    );
    assert!(cpu["throttled_s"].as_f64() > Some(0.5), "{cpu}");
    assert_eq!(
        outcome.summary["verdict"]["starved_hosts"],
        serde_json::json!([])
    );
}

#[test]
fn a_program_without_memory_is_ended_and_named() {
    const LIMIT: u64 = 64 << 20;
    let Some(lab) = lab_with("memory: 64 MiB") else {
        return;
    };
    let outcome = lab.run(&hosts(
        "memory: 64 MiB",
        "  eats: { on: a, run: python3 $DIR/hungry.py memory 200 }
  other: { on: b, run: python3 $DIR/hungry.py memory 80 }
",
    ));
    let outcome = outcome.failed();
    let failure = outcome.program("eats")["failure"].to_string();
    assert!(
        failure.contains("a had used up its 64 MiB of memory"),
        "{failure}"
    );
    assert!(
        outcome.stderr.contains(failure.trim_matches('"')),
        "{}",
        outcome.stderr
    );
    assert!(outcome.program("other")["failure"].is_null(), "{outcome}");
    let host = host_resources(&outcome.summary);
    assert_eq!(number(&host["oom_kills"]), 1);
    let peak = number(&host["memory_peak_bytes"]);
    assert!(peak <= LIMIT && peak > LIMIT - (1 << 20), "{peak}");
    let had: u64 = outcome
        .log("eats.out")
        .lines()
        .last()
        .unwrap()
        .parse()
        .unwrap();
    eprintln!("it had {had} MiB of 64, the group {peak} bytes");
    assert!((32..64).contains(&had), "{had} MiB");
    let warnings = outcome.summary["warnings"].to_string();
    assert!(warnings.contains("1 process on a was killed"), "{warnings}");
}

#[test]
fn a_disk_reads_no_faster_than_it_may() {
    let Some(lab) = lab_with("cpu: 50 %, memory: 64 MiB, disk: { read: 4 MB/s }") else {
        return;
    };
    let outcome = lab.succeed(&hosts(
        "disk: { read: 4 MB/s }",
        "  reads: { on: a, run: python3 $DIR/hungry.py read $DIR/data 8 }\n",
    ));
    let reads = outcome.report("reads");
    let took = reads["seconds"].as_f64().expect("seconds");
    let at_least = f64::from(8 << 20) / 4e6;
    eprintln!("{took} s, and no less than {at_least} s");
    // The kernel counts in slices of up to 100 ms, and gives one in advance.
    assert!(took > at_least - 0.2, "{reads}");
    assert_eq!(
        number(&host_resources(&outcome.summary)["disk_read_bps"]),
        4_000_000
    );
    assert!(outcome.summary["resources"]["device"].is_string());
}

#[test]
fn what_the_machine_does_not_have_is_refused_before_anything_starts() {
    let Some(lab) = lab_with("cpu: 50 %, memory: 64 MiB") else {
        return;
    };
    let program = "  p: { on: a, run: sleep 0.2 }\n";
    let cases = [
        ("cpu: 4000 CPUs", "4000 CPUs, and this machine has", None),
        (
            "cpu: { speed: 900 ref }",
            "CPUs of 900 ref, and this machine's have",
            None,
        ),
        (
            "memory: 900 TiB",
            "921600.0 GiB of memory, and this machine has",
            None,
        ),
        (
            "count: 200, cpu: 90 %",
            "together ask for 180.00 CPUs",
            Some("ask for 180.00 CPUs"),
        ),
    ];
    for (resources, expected, degraded) in cases {
        let text = hosts(resources, program).replace("on: a,", "on: b,");
        let text = text.replace(
            "[a, b]",
            if degraded.is_some() {
                "[b, r]"
            } else {
                "[a, b]"
            },
        );
        let text = match degraded {
            Some(_) => text
                .replace("b: {} }", "b: {}, r: { kind: router } }")
                .replace("links: [", "links: [ { ends: [a, r] },"),
            None => text,
        };
        let file = lab.write("refused.yaml", &text);
        let file = file.to_str().unwrap();
        let out = lab.dir().join("refused");
        for command in [
            vec!["check", file],
            vec!["run", file, "--out", out.to_str().unwrap()],
        ] {
            let (code, _, said) = lab.ask(&command);
            assert_eq!(code, 2, "{command:?}: {said}");
            assert!(said.contains(expected), "{said}");
            assert_eq!(
                said.contains("--oversubscribe"),
                degraded.is_some(),
                "{said}"
            );
        }
        assert!(!out.exists(), "{resources}");
        if let Some(reason) = degraded {
            let forced = lab
                .start_in(file.as_ref(), &out, &["--oversubscribe"])
                .wait();
            assert_eq!(forced.code, 3, "{forced}");
            let verdict = &forced.summary["verdict"];
            assert_eq!(verdict["state_without_noise"], "degraded", "{verdict}");
            assert!(verdict["reasons"].to_string().contains(reason), "{verdict}");
            assert!(forced.summary["resources"]["excess"][0].is_string());
        }
    }
}

#[test]
fn a_disk_that_is_none_is_refused_by_its_name() {
    let Some(lab) = lab_with("cpu: 50 %, memory: 64 MiB, disk: { read: 4 MB/s }") else {
        return;
    };
    let memory = std::path::Path::new("/dev/shm");
    let text = hosts("disk: { read: 4 MB/s }", "  p: { on: a, run: 'true' }\n");
    let file = lab.write("disk.yaml", &text);
    let out = memory.join(format!("longhaul-live-{}", std::process::id()));
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let (code, _, said) = lab.ask(&["run", file, "--out", out]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("is on tmpfs, which has no disk"), "{said}");
    assert!(!fs::exists(out).unwrap());
}

/// What an ordinary user's runs do without control groups.
#[test]
fn an_ordinary_users_hosts_have_no_more_than_they_asked_for_either() {
    let lab = Lab::unprivileged();
    let outcome = lab.run(&hosts(
        "cpu: 30 %, memory: 64 MiB",
        "  spin: { on: a, run: python3 $DIR/hungry.py cpu 2 }
  asks: { on: a, after: spin, run: \"sh -c 'python3 $DIR/hungry.py ask 100; test $? = 1'\" }
  eats: { on: a, after: asks, run: \"sh -c 'python3 $DIR/hungry.py memory 20 3 & sleep 1; exec python3 $DIR/hungry.py memory 50 3'\" }
",
    ));
    let outcome = outcome.failed();
    let spin = outcome.report("spin");
    let share = spin["share"].as_f64().expect("a share");
    eprintln!("share {share}, {} s at rest", spin["longest"]);
    assert!(share < 0.30 * 1.15, "{share}");
    assert!(spin["longest"].as_f64() > Some(0.004), "{spin}");
    // One program that asks for too much is refused, and no one is ended for it.
    assert!(outcome.program("asks")["failure"].is_null(), "{outcome}");
    assert!(
        outcome.log("asks.err").contains("MemoryError"),
        "{}",
        outcome.log("asks.err")
    );
    let host = host_resources(&outcome.summary);
    assert_eq!(outcome.summary["resources"]["cpu"], "duty-cycle");
    assert_eq!(outcome.summary["resources"]["memory"], "watchdog");
    assert_eq!(number(&host["oom_kills"]), 1, "{outcome}");
    // Both together are too much, and the larger one is ended.
    let failure = outcome.program("eats")["failure"].to_string();
    assert!(
        failure.contains("a had used up its 64 MiB of memory"),
        "{failure}"
    );
    let warnings = outcome.summary["warnings"].to_string();
    assert!(warnings.contains("1 process on a was killed"), "{warnings}");
    // Where there are groups to be had, systemd was asked for them, and nobody is on this user's bus.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(
        warnings.contains("without control groups, less exactly")
            && warnings.contains("no session bus"),
        mounts.contains(" - cgroup2 "),
        "{warnings}"
    );
    let file = lab.write(
        "disk.yaml",
        &hosts("disk: { read: 4 MB/s }", "  p: { on: a, run: 'true' }\n"),
    );
    let (code, _, said) = lab.ask(&["check", file.to_str().unwrap()]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("a: `disk`: ") && said.contains("run as root"),
        "{said}"
    );
}

#[test]
fn killing_what_keeps_an_ordinary_users_hosts_is_reported_and_leaves_nothing() {
    let lab = Lab::unprivileged();
    let victims = [
        Victim::Warden,
        Victim::Cli,
        Victim::Sandbox,
        Victim::Program,
    ];
    kill_at_random_of(&lab, &victims, 12, "cpu: 20 %, memory: 200 MiB");
}

#[test]
fn killing_any_process_leaves_no_groups() {
    let Some(lab) = lab_with("cpu: 50 %, memory: 64 MiB") else {
        return;
    };
    let victims = [Victim::Cli, Victim::Sandbox, Victim::Host, Victim::Reaper];
    kill_at_random_of(&lab, &victims, 16, "cpu: 20 %, memory: 200 MiB");
}
