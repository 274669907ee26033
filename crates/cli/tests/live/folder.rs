//! The run folder: what may be in it before, what is in it after, and a disk that is full.

use std::fs;
use std::process::{Command, Stdio};

use crate::lab::{Lab, Run, have};

const SMALL: &str = "
topology: { nodes: { a: {}, b: {} }, links: [ { ends: [a, b] } ] }
programs:
  work: { on: a, run: sh -c 'echo mine > result; ls /tmp; id -u' }
";

#[test]
fn a_run_folder_below_tmp_is_seen_from_hosts_and_nothing_else_is() {
    let lab = Lab::new();
    let outcome = lab.succeed(SMALL);
    let result = fs::read_to_string(outcome.out().join("hosts/a/result"));
    assert_eq!(result.expect("the program's file"), "mine\n");
    if let Ok(below) = lab.dir().strip_prefix("/tmp") {
        let first = below.iter().next().unwrap().to_str().unwrap();
        let log = outcome.log("work.out");
        assert_eq!(log.lines().next(), Some(first), "a host's /tmp: {log}");
        assert_eq!(log.lines().count(), 2, "a host's /tmp holds more: {log}");
    }
    let expected = [
        "experiment.yaml",
        "hosts",
        "hosts.txt",
        "logs",
        "network.json",
        "report.html",
        "series",
        "summary.json",
    ];
    let mut found: Vec<_> = fs::read_dir(outcome.out())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn an_earlier_run_is_overwritten_only_by_force() {
    let lab = Lab::new();
    let file = lab.write("small.yaml", SMALL);
    let out = lab.dir().join("kept");
    lab.start_in(&file, &out, &[]).wait().succeeded();
    let trace = out.join("logs/of-an-earlier-run.out");
    fs::write(&trace, "x").unwrap();
    let refused = lab.start_in(&file, &out, &[]).wait();
    assert!(matches!(refused.code, 1 | 2), "{refused}");
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert!(trace.exists() && out.join("summary.json").exists());
    lab.start_in(&file, &out, &["--force"]).wait().succeeded();
    assert!(!trace.exists());
}

#[test]
fn a_folder_of_other_things_is_never_touched() {
    let lab = Lab::new();
    let file = lab.write("small.yaml", SMALL);
    let out = lab.dir().join("precious");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.txt"), "years of work").unwrap();
    let refused = lab.start_in(&file, &out, &["--force"]).wait();
    assert!(matches!(refused.code, 1 | 2), "{refused}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn a_full_disk_is_a_clear_error() {
    if !have("unshare") {
        return;
    }
    let lab = Lab::new();
    let file = lab.write(
        "flood.yaml",
        "
topology: { nodes: { a: {}, b: {} }, links: [ { ends: [a, b] } ] }
programs:
  flood: { on: a, run: 'yes' }
  other: { on: b, run: sleep 60 }
",
    );
    let small = lab.dir().join("small-disk");
    fs::create_dir(&small).unwrap();
    let script = "mount -t tmpfs -o size=256k small \"$1\" || exit 99
        \"$2\" run \"$3\" --out \"$1/run\" --json
        code=$?
        ls -A \"$1/run\" | sed 's/^/left: /' >&2
        exit $code";
    let longhaul = lab.longhaul(&[]).get_program().to_owned();
    let mut command = Command::new("unshare");
    command
        .args(["-Urm", "sh", "-c", script, "sh"])
        .arg(&small)
        .arg(longhaul)
        .arg(&file);
    command.stdin(Stdio::null());
    let run = Run::spawn(&lab, command, small.join("run"), 1000);
    let outcome = run.wait().failed();
    assert!(outcome.stderr.to_lowercase().contains("space"), "{outcome}");
    assert!(!outcome.stderr.contains("control.sock"), "{outcome}");
    assert!(!outcome.stderr.contains(".partial"), "{outcome}");
}
