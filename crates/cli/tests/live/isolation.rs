//! Hosts that do not see one another, and names that all of them know.

use crate::lab::Lab;

/// Copies of one program that take the same names of everything.
const COPIES: &str = "
topology:
  nodes: { h: { count: 3 }, r: { kind: router } }
  links: [ { ends: [h, r], delay: 1 ms } ]
programs:
  same: { on: h, run: python3 $DIR/isolated.py }
";

pub(crate) fn check_isolation(lab: &Lab) {
    let outcome = lab.succeed(COPIES);
    for host in ["h0", "h1", "h2"] {
        let log = outcome.log(&format!("same@{host}.out"));
        assert_eq!(log, "up\ndone\n", "{outcome}");
        assert!(
            outcome
                .out()
                .join("hosts")
                .join(host)
                .join("data/state")
                .is_file()
        );
    }
}

#[test]
fn copies_of_a_program_do_not_meet_except_by_name() {
    check_isolation(&Lab::new());
}

#[test]
fn programs_see_their_run_in_the_environment() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
name: surroundings
seed: 5
topology:
  nodes: { a: {}, b: {} }
  links: [ { ends: [a, b] } ]
programs:
  env: { on: [a, b], run: env, env: { COLOUR: blue, LONGHAUL_SEED: mine } }
  cwd: { on: b, run: pwd }
  who: { on: a, run: id -u }
  root: { on: a, run: id -u, as: root }
",
    );
    let run = outcome.out().canonicalize().unwrap().display().to_string();
    let dir = lab.dir().display().to_string();
    let expected = [
        "LONGHAUL_EXPERIMENT=surroundings".to_owned(),
        "LONGHAUL_HOST=b".to_owned(),
        "LONGHAUL_HOSTS=a b".to_owned(),
        "LONGHAUL_PROGRAM=env@b".to_owned(),
        "LONGHAUL_SEED=mine".to_owned(),
        "COLOUR=blue".to_owned(),
        format!("LONGHAUL_DIR={dir}"),
        format!("LONGHAUL_RUN={run}"),
        format!("LONGHAUL_HOSTFILE={run}/hosts.txt"),
    ];
    let log = outcome.log("env@b.out");
    for variable in expected {
        assert!(
            log.lines().any(|line| line == variable),
            "{variable} is missing in:\n{log}"
        );
    }
    assert_eq!(outcome.log("cwd.out").trim(), format!("{run}/hosts/b"));
    assert_eq!(outcome.log("root.out").trim(), "0");
    let own = std::process::Command::new("id")
        .arg("-u")
        .output()
        .expect("id")
        .stdout;
    assert_eq!(outcome.log("who.out").as_bytes(), own);
    let hosts = std::fs::read_to_string(outcome.out().join("hosts.txt")).unwrap();
    assert_eq!(
        hosts,
        "a 10.0.0.1 fd6c:6f6e:6768::1\nb 10.0.0.2 fd6c:6f6e:6768::2\n"
    );
}

#[test]
fn programs_leave_the_cores_cpu_to_it() {
    let lab = Lab::new();
    // The hosts themselves are set up on all CPUs.
    let outcome = lab.succeed(
        "
topology:
  nodes: { h: { count: 2 } }
  links: [ { ends: [h0, h1] } ]
programs:
  cpus: { on: h, run: [python3, -c, 'import os; print(sorted(os.sched_getaffinity(0)))'] }
",
    );
    let machine = &outcome.summary["machine"];
    if machine["core_cpu"].is_null() {
        return;
    }
    for host in ["h0", "h1"] {
        let cpus = outcome.report(&format!("cpus@{host}"));
        assert_eq!(cpus, machine["program_cpus"], "{machine}");
    }
}
