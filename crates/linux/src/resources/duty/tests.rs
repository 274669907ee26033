//! Live: shells that spin in PID namespaces, and what they get.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::resources::census::StatFile;
use crate::resources::testing::{TestHost, below, state, until};

const SPIN: &str = "while :; do :; done";

/// One spins at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a controller for this long; returns what it says that each host has used.
fn serve(shares: &[Share], cpus: usize, span: Duration) -> Vec<u64> {
    let mut controller = Controller::new(shares, cpus).unwrap();
    let began = Instant::now();
    while began.elapsed() < span {
        let next_ns = controller.turn();
        thread::sleep(Duration::from_nanos(next_ns.saturating_sub(monotonic_ns())));
    }
    let used = (0..shares.len()).map(|host| controller.used_ns(host));
    used.collect()
}

/// CPU time of processes and of their children that have ended.
fn used_ns(pids: &[i32]) -> u64 {
    let children = |pid| StatFile::open(pid).map_or(0, |(_, stat)| stat.children_ns);
    let of = |&pid: &i32| cpu_ns(pid).unwrap_or(0) + children(pid);
    pids.iter().map(of).sum()
}

/// The median of five attempts of a second, as a part of what was asked for.
fn median_share(host: &TestHost, processes: usize, cpus: f64) -> f64 {
    let pids = host.processes(processes);
    let share = Share {
        init: host.init,
        cpus,
    };
    let attempt = |_| {
        let (began, before) = (Instant::now(), used_ns(&pids));
        serve(&[share], 2, Duration::from_secs(1));
        (used_ns(&pids) - before) as f64 / began.elapsed().as_nanos() as f64 / cpus
    };
    let mut attempts: Vec<f64> = (0..5).map(attempt).collect();
    attempts.sort_by(f64::total_cmp);
    eprintln!("{cpus} CPUs for {processes} processes: {attempts:?}");
    attempts[2]
}

#[test]
fn a_spinner_gets_its_share() {
    let _alone = alone();
    let Some(host) = TestHost::start(&format!("({SPIN}) & wait")) else {
        return;
    };
    let share = median_share(&host, 1, 0.25);
    assert!((0.85..1.15).contains(&share), "{share}");
}

#[test]
fn four_processes_share_what_their_host_gets() {
    let _alone = alone();
    let script = format!("for i in 1 2 3 4; do ({SPIN}) & done; wait");
    let Some(host) = TestHost::start(&script) else {
        return;
    };
    let share = median_share(&host, 4, 0.5);
    assert!((0.85..1.15).contains(&share), "{share}");
}

#[test]
fn children_too_short_to_be_seen_are_charged() {
    let _alone = alone();
    let script = "(while :; do /bin/true; done) & wait";
    let Some(host) = TestHost::start(script) else {
        return;
    };
    let is_there = || !below(host.init).is_empty();
    assert!(until(Duration::from_secs(10), is_there));
    let pids = [below(host.init)[0]];
    let share = Share {
        init: host.init,
        cpus: 0.2,
    };
    let (began, before) = (Instant::now(), used_ns(&pids));
    let said = serve(&[share], 2, Duration::from_secs(3))[0];
    let used = used_ns(&pids) - before;
    let got = used as f64 / began.elapsed().as_nanos() as f64 / share.cpus;
    assert!((0.7..1.2).contains(&got), "{got}");
    let error = said as f64 / used as f64;
    assert!((0.9..1.1).contains(&error), "{said} of {used}");
}

#[test]
fn who_sleeps_and_who_was_stopped_is_left_alone() {
    let _alone = alone();
    let script = format!("(kill -STOP $(sh -c 'echo $PPID'); {SPIN}) & sleep 60 & ({SPIN}) & wait");
    let Some(host) = TestHost::start(&script) else {
        return;
    };
    let stopped = |pid: &&i32| state(**pid) == Some('T');
    let has_stopped = || below(host.init).iter().any(|pid| stopped(&pid));
    assert!(until(Duration::from_secs(10), has_stopped));
    let pids = host.processes(3);
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let sleeper = *pids.iter().find(|&&pid| name(pid) == "sleep\n").unwrap();
    let theirs = *pids.iter().find(stopped).unwrap();
    let spinner = *pids
        .iter()
        .find(|&&pid| pid != theirs && pid != sleeper)
        .unwrap();
    // Once it has begun to sleep.
    let sleeps = || {
        let before = used_ns(&[sleeper]);
        thread::sleep(Duration::from_millis(200));
        state(sleeper) == Some('S') && used_ns(&[sleeper]) == before
    };
    assert!(until(Duration::from_secs(10), sleeps));
    let share = Share {
        init: host.init,
        cpus: 0.2,
    };
    let mut controller = Controller::new(&[share], 2).unwrap();
    let mut held = 0;
    let asleep = used_ns(&[sleeper]);
    // On a busy machine the spinner may not have had its share for many turns, and need not stop.
    for turn in 0..3_000 {
        if turn >= 300 && held > 50 {
            break;
        }
        let next_ns = controller.turn();
        held += i32::from(state(spinner) == Some('T'));
        assert_eq!(
            state(theirs),
            Some('T'),
            "only who has stopped it continues it"
        );
        assert_ne!(state(sleeper), Some('T'));
        thread::sleep(Duration::from_nanos(next_ns.saturating_sub(monotonic_ns())));
    }
    assert!(held > 50, "{held}");
    assert_eq!(used_ns(&[sleeper]), asleep, "nobody has woken it");
    drop(controller);
    assert!(until(Duration::from_secs(5), || state(spinner) == Some('R')));
    assert_eq!(state(theirs), Some('T'));
}

#[test]
fn a_shell_with_job_control_does_not_find_its_job_stopped() {
    let _alone = alone();
    // A job that is found stopped ends the wait with 128 + SIGSTOP.
    let spin = "n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done";
    let script = format!(
        "bash -c 'set -m; sh -c \"{}\"; echo ended with $?'",
        spin.replace('$', "\\$")
    );
    if Command::new("bash")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return crate::resources::testing::skipped("bash is missing: install it");
    }
    let Some(host) = TestHost::start(&format!("{script}; exit")) else {
        return;
    };
    let share = Share {
        init: host.init,
        cpus: 0.2,
    };
    serve(&[share], 2, Duration::from_millis(1500));
    assert_eq!(host.output(), "ended with 0\n");
}

/// Not a test of its own: the controller of the next one, which is killed.
#[test]
fn controller_process() {
    let Ok(init) = std::env::var("LONGHAUL_TEST_INIT") else {
        return;
    };
    let share = Share {
        init: init.parse().unwrap(),
        cpus: 0.05,
    };
    serve(&[share], 2, Duration::from_secs(60));
}

#[test]
fn a_killed_controller_leaves_nobody_stopped_for_ever() {
    let _alone = alone();
    let Some(host) = TestHost::start(&format!("({SPIN}) & wait")) else {
        return;
    };
    let spinner = host.processes(1)[0];
    let stopped = || state(spinner) == Some('T');
    // Killed while it holds the host, unless it continues it in that very moment.
    let attempt = || {
        let mut controller = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resources::duty::tests::controller_process"])
            .env("LONGHAUL_TEST_INIT", host.init.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let held = until(Duration::from_secs(20), stopped);
        controller.kill().unwrap();
        controller.wait().unwrap();
        held && stopped()
    };
    let stop = || assert!((0..10).any(|_| attempt()));
    stop();
    release(&[host.init]).unwrap();
    let before = used_ns(&[spinner]);
    let runs = || used_ns(&[spinner]) > before + 1_000_000;
    assert!(until(Duration::from_secs(10), runs));
    // And without anybody to release it, it goes with its namespace.
    stop();
    drop(host);
    assert!(until(Duration::from_secs(10), || state(spinner).is_none()));
}

#[test]
fn who_cannot_use_more_than_its_share_is_never_stopped() {
    let _alone = alone();
    let Some(host) = TestHost::start(&format!("({SPIN}) & wait")) else {
        return;
    };
    let spinner = host.processes(1)[0];
    let share = Share {
        init: host.init,
        cpus: 1.0,
    };
    let mut controller = Controller::new(&[share], 2).unwrap();
    let began = Instant::now();
    let mut stopped = 0;
    while began.elapsed() < Duration::from_secs(1) {
        let next_ns = controller.turn();
        stopped += i32::from(state(spinner) == Some('T'));
        thread::sleep(Duration::from_nanos(next_ns.saturating_sub(monotonic_ns())));
    }
    assert_eq!(stopped, 0);
}
