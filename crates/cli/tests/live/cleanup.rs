//! Nothing is left behind, however a run ends.
//!
//! Every other test holds this for runs that succeed or fail: [`crate::lab::Run::wait`] looks
//! for remains. Here runs are interrupted, and single processes of them are killed, at random
//! moments of set-up and of running.

use std::time::{Duration, Instant};

use crate::lab::{Dice, Lab, Run, seed, signal};
use crate::outcome::Outcome;
use crate::traces::{Namespaces, Process};

/// Traffic, a process tree, a daemon, and a program without environment.
const BUSY: &str = "
topology:
  nodes: { h: { count: 4 }, r: { kind: router } }
  links: [ { ends: [h, r], delay: 1 ms, rate: 100 Mbit/s } ]
programs:
  echo: { on: h0, run: $BENCH echo --port 7, ready: log ready, service: true }
  rtt:  { on: h1, run: $BENCH rtt --to h0:7 --count 1000000, after: echo }
  tree: { on: h2, run: sh -c '(setsid sleep 60 &); echo up; sleep 60' }
  bare: { on: h3, run: env -i sleep 60 }
";

/// How long `longhaul run` may take to notice and to end.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// Whom to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Cli,
    Sandbox,
    Service,
    Host,
    Program,
    /// Of runs whose hosts have control groups.
    Reaper,
    /// Of runs whose hosts have resources without control groups.
    Warden,
}

const VICTIMS: [Victim; 5] = [
    Victim::Cli,
    Victim::Sandbox,
    Victim::Service,
    Victim::Host,
    Victim::Program,
];

impl Victim {
    /// How long the run would last: long after the kill, except that the death of a program, or of
    /// the reaper, ends no run.
    const fn duration(self) -> &'static str {
        match self {
            Self::Program | Self::Reaper => "duration: 1 s\n",
            _ => "duration: 20 s\n",
        }
    }

    fn is(self, process: &Process, run: &Run<'_>) -> bool {
        match self {
            Self::Cli => process.pid == run.pid(),
            // Programs that it is about to start have its name for a moment.
            Self::Sandbox => process.name == "longhaul-box" && process.parent == run.pid(),
            Self::Service => process.name == "longhaul-answer",
            Self::Host => process.name == "longhaul-host",
            Self::Reaper => process.name == "longhaul-reaper",
            Self::Warden => process.name == "longhaul-warden",
            Self::Program => !process.name.starts_with("longhaul"),
        }
    }
}

/// When to do it: so long after the start of the process, or of the programs.
#[derive(Debug, Clone, Copy)]
enum Moment {
    SetUp(Duration),
    Running(Duration),
}

impl Moment {
    fn random(dice: &mut Dice, setting_up: bool) -> Self {
        if setting_up {
            Self::SetUp(Duration::from_micros(dice.below(60_000)))
        } else {
            Self::Running(Duration::from_micros(dice.below(500_000)))
        }
    }

    fn wait(self, run: &mut Run<'_>) {
        let wait = match self {
            Self::SetUp(wait) => wait,
            Self::Running(wait) => {
                run.wait_for("tree.out", "up");
                wait
            }
        };
        std::thread::sleep(wait);
    }
}

/// Kills one process of a run that has begun, and sees what becomes of the others.
fn kill_one(mut run: Run<'_>, victim: Victim, moment: Moment, dice: &mut Dice) {
    moment.wait(&mut run);
    let begun = Instant::now();
    let (process, namespaces) = loop {
        let processes = run.processes();
        let candidates: Vec<_> = processes.iter().filter(|p| victim.is(p, &run)).collect();
        if !candidates.is_empty() {
            let chosen = candidates[dice.below(candidates.len() as u64) as usize].clone();
            break (chosen, Namespaces::of(&processes));
        }
        assert!(
            !run.has_ended(),
            "the run ended before {victim:?} was killed: {}",
            run.said()
        );
        assert!(
            begun.elapsed() < ENDS_WITHIN,
            "no {victim:?} to be found: {processes:?}"
        );
    };
    signal(process.pid, "KILL");
    let after = format!("kill -9 of {process} ({victim:?}, {moment:?})");
    let killed = Instant::now();
    while !run.has_ended() {
        assert!(
            killed.elapsed() < ENDS_WITHIN,
            "longhaul hangs after {after}: {}",
            run.said()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    run.assert_gone(&namespaces, &after);
    let outcome = run.wait();
    match victim {
        Victim::Cli => assert_eq!(outcome.code, 128 + 9),
        Victim::Sandbox | Victim::Service | Victim::Host | Victim::Warden => {
            assert_says_why(&outcome.failed(), &after)
        }
        Victim::Program | Victim::Reaper => {
            let outcome = outcome.failed();
            assert!(
                !outcome.summary.is_null(),
                "no report after {after}: {outcome}"
            );
        }
    }
}

fn assert_says_why(outcome: &Outcome, after: &str) {
    let said = outcome.stderr.to_lowercase();
    let clear = ["died", "killed", "sandbox"]
        .iter()
        .any(|word| said.contains(word));
    assert!(clear, "after {after} it only says: {outcome}");
}

/// Kills processes of `count` runs; used for other users too.
pub(crate) fn kill_at_random(lab: &Lab, count: usize) {
    kill_at_random_of(lab, &VICTIMS, count, "");
}

/// Kills one of `victims` in each of `count` runs whose hosts have these resources.
pub(crate) fn kill_at_random_of(lab: &Lab, victims: &[Victim], count: usize, resources: &str) {
    let mut dice = Dice(seed());
    let busy = BUSY.replace("count: 4", &format!("count: 4, {resources}"));
    for number in 0..count {
        let victim = victims[number % victims.len()];
        let setting_up = (number / victims.len()).is_multiple_of(2);
        let moment = Moment::random(&mut dice, setting_up);
        kill_one(
            lab.start(&(busy.clone() + victim.duration())),
            victim,
            moment,
            &mut dice,
        );
    }
}

#[test]
fn killing_any_process_at_any_time_leaves_nothing() {
    kill_at_random(&Lab::new(), 60);
}

#[test]
fn an_interrupted_run_reports_and_leaves_nothing() {
    let lab = Lab::new();
    let mut dice = Dice(seed());
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let mut run = lab.start(BUSY);
        Moment::random(&mut dice, false).wait(&mut run);
        signal(run.pid(), name);
        let outcome = run.wait().failed();
        let error = outcome.summary["error"]
            .as_str()
            .expect("an error in the summary");
        assert!(error.contains(&number.to_string()), "{error}");
        assert!(outcome.stderr.contains("interrupted"), "{}", outcome.stderr);
    }
}

#[test]
fn an_interrupted_set_up_leaves_nothing() {
    let lab = Lab::new();
    let mut dice = Dice(seed());
    for number in 0..12 {
        let mut run = lab.start(BUSY);
        Moment::random(&mut dice, true).wait(&mut run);
        signal(run.pid(), ["INT", "TERM"][number % 2]);
        let outcome = run.wait();
        // The earliest signals find a process that knows nothing of them yet.
        assert!(matches!(outcome.code, 1 | 130 | 143), "{outcome}");
    }
}
