//! A virtual run on a machine of the test's own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use longhaul_partition::Partition;

use super::*;
use crate::calibrate::MachineCosts;
use crate::control::{Order, Reply, Request};
use crate::summary::{self, CoreFacts};

/// A machine whose clocks move when they are read.
#[derive(Debug, Default)]
pub(super) struct TestMachine {
    memory: Option<u64>,
    refuses: bool,
    /// How far each reading moves its clock.
    step: Duration,
    now: Arc<AtomicU64>,
    /// Readings of the CPU time, of which each moves it by a millisecond.
    cpu_reads: Arc<AtomicU32>,
    /// After how many queries it reports an interruption.
    interrupted_at: Option<u32>,
    asked: u32,
    /// What other processes ask each time.
    requests: Vec<Request>,
    /// What they were answered last.
    replies: Vec<Reply>,
    /// Whether it has no sockets.
    is_deaf: bool,
}

/// One with this much memory.
pub(super) fn with_memory(memory: Option<u64>) -> TestMachine {
    TestMachine {
        memory,
        ..TestMachine::default()
    }
}

const MS: Duration = Duration::from_millis(1);

impl Machine for TestMachine {
    fn memory(&self) -> Option<u64> {
        self.memory
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.refuses {
            Err(io::Error::other("not here"))
        } else {
            Ok(())
        }
    }

    fn clock(&self) -> Clock {
        let (now, step) = (Arc::clone(&self.now), self.step.as_nanos() as u64);
        let read = move || now.fetch_add(step, Ordering::Relaxed) + step;
        Arc::new(move || Duration::from_nanos(read()))
    }

    fn cpu_clock(&self) -> Clock {
        let reads = Arc::clone(&self.cpu_reads);
        Arc::new(move || MS * (reads.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn listen(&mut self, socket: &Path) -> io::Result<()> {
        assert!(socket.ends_with("control.sock"));
        if self.is_deaf {
            Err(io::Error::other("no sockets here"))
        } else {
            Ok(())
        }
    }

    fn serve(&mut self, answer: &mut dyn FnMut(&Request) -> Reply) {
        let requests = self.requests.iter();
        self.replies = requests.map(answer).collect();
    }

    fn interrupted(&mut self) -> Option<i32> {
        self.asked += 1;
        (Some(self.asked) == self.interrupted_at).then_some(15)
    }

    fn cpus(&self) -> usize {
        3
    }

    fn costs(&self) -> MachineCosts {
        MachineCosts::BuiltIn("a test's")
    }

    fn facts(&self) -> summary::Machine {
        summary::machine(CoreFacts::default(), Vec::new(), 3)
    }
}

/// An observer that keeps what is reported to it.
#[derive(Debug, Default)]
struct Observed {
    notes: Vec<String>,
    /// Experiment time over real time, and the experiment time, each time.
    speeds: Vec<(f64, f64)>,
}

impl Observer for Observed {
    fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Note(note) => self.notes.push(note.clone()),
            Progress::Simulating { speed, time, .. } => self.speeds.push((*speed, time.as_s())),
            _ => {}
        }
    }
}

const EXPERIMENT: &str = "
clock: virtual
duration: 20 s
topology:
  nodes: { a: {}, b: {}, g: { kind: router } }
  links: [{ ends: [a, g], rate: 10 Mbit/s, delay: 1 ms }, { ends: [g, b], delay: 5 ms }]
traffic: { x: { from: a, to: b }, y: { from: b, to: a, model: udp, rate: 1 Mbit/s } }
";

/// A folder of its own, gone at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn simulate(name: &str, machine: &mut TestMachine) -> (Result<Summary, RunError>, Observed) {
    simulate_on(name, machine, &Cores::default())
}

fn simulate_on(
    name: &str,
    machine: &mut TestMachine,
    cores: &Cores,
) -> (Result<Summary, RunError>, Observed) {
    let name = format!("longhaul-simulation-{}-{name}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let plan = Plan::from_text(EXPERIMENT, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    let folder = RunFolder::create(&scratch.0, EXPERIMENT, false).expect("a folder of its own");
    let mut observed = Observed::default();
    let summary = run(
        &plan,
        &folder,
        &mut observed,
        machine,
        (cores, RunStart::now()),
    );
    (summary, observed)
}

#[test]
fn figures_of_its_cost_are_the_machines() {
    let mut machine = TestMachine::default();
    let (summary, observed) = simulate("cost", &mut machine);
    let summary = summary.expect("nothing goes wrong");
    // Two readings for each piece of work, a millisecond apart.
    let cpu = f64::from(machine.cpu_reads.load(Ordering::Relaxed) / 2) / 1e3;
    assert!(cpu >= 0.02, "{cpu} s: less than a piece for each second");
    assert_eq!(summary.hops_per_s, summary.packets.hops as f64 / cpu);
    assert_eq!(summary.cores[0].busy, cpu / 20.0);
    assert_eq!(summary.machine.cpus, 3);
    assert_eq!((summary.error, summary.simulated_s), (None, 20.0));
    // The clock never advances, so no progress is reported and no query is made.
    assert!(observed.speeds.is_empty() && machine.asked == 0);
}

#[test]
fn what_is_simulated_depends_on_no_machine() {
    let still = simulate("still", &mut TestMachine::default()).0;
    let mut hurried = TestMachine {
        step: PROGRESS,
        ..TestMachine::default()
    };
    let (fast, observed) = simulate("fast", &mut hurried);
    let [still, fast] = [still, fast].map(|summary| summary.expect("nothing goes wrong"));
    assert_eq!(still.trace_hash, fast.trace_hash);
    assert_eq!(still.packets.delivered, fast.packets.delivered);
    assert_eq!(observed.speeds.len(), hurried.asked as usize);
    // Between two reports, the clock takes as many steps as it is read.
    let mut last = 0.0;
    for &(speed, time) in &observed.speeds {
        let passed = time - std::mem::replace(&mut last, time);
        let steps = passed / speed / PROGRESS.as_secs_f64();
        let is_whole = (steps - steps.round()).abs() < 1e-6 && steps > 0.5;
        assert!(is_whole || passed == 0.0, "{passed} s at {speed}");
    }
    assert!(last > 19.0, "reported until {last} s");
}

/// Everything of a summary that does not depend on how the run was computed.
fn results(summary: &Summary) -> Vec<String> {
    vec![
        format!("{:?}", summary.trace_hash),
        format!("{:?}", summary.packets),
        format!("{:?}", summary.flows),
        format!("{:?}", summary.pipes),
        format!("{} s", summary.simulated_s),
    ]
}

#[test]
fn cores_change_how_long_it_takes_and_nothing_else() {
    let one = simulate("one", &mut TestMachine::default()).0;
    let one = one.expect("nothing goes wrong");
    let given = Cores::Given(Partition {
        cores: 3,
        owner: vec![0, 1, 2],
    });
    let (three, _) = simulate_on("three", &mut TestMachine::default(), &given);
    let three = three.expect("nothing goes wrong");
    assert_eq!(results(&one), results(&three));
    assert_eq!((one.efficiency, three.cores.len()), (None, 3));
    assert!(three.efficiency.is_some_and(|efficiency| efficiency < 0.6));
    assert!(three.cores.iter().all(|core| core.cross_core > 0));
    let partition = three.partition.expect("of several cores");
    assert_eq!(
        (partition.method.as_str(), partition.cut_pipes),
        ("saved", 4)
    );
    assert_eq!(partition.lookahead_ns, Some(1_000_000));
    assert_eq!(partition.costs, "threads");
    assert_eq!(Some(partition.measured.efficiency), three.efficiency);
    assert!(one.partition.is_none());
    let edge = three.packets.entered + three.packets.created;
    assert_eq!(partition.edge_packets, edge);
    // TCP takes what there is, which the prediction knows: each packet crosses twice.
    let expected = partition.predicted.efficiency;
    assert!(
        (expected - partition.measured.efficiency).abs() < 0.02,
        "{expected}"
    );
    // Every packet crosses the router in the middle, on either side of which it crosses a cut.
    let crossed: u64 = three.cores.iter().map(|core| core.cross_core).sum();
    assert!(crossed >= 2 * three.packets.delivered);
}

#[test]
fn more_threads_than_pay_are_not_taken_and_the_user_is_warned() {
    let (summary, observed) = simulate_on("many", &mut TestMachine::default(), &Cores::UpTo(500));
    let summary = summary.expect("nothing goes wrong");
    assert!(summary.cores.len() <= 3);
    assert_eq!(
        observed.notes[0],
        "this machine has 3 CPUs: the run uses 3 threads, not 500"
    );
    assert!(
        observed
            .notes
            .iter()
            .all(|note| summary.warnings.contains(note))
    );
}

#[test]
fn other_processes_may_ask_for_progress_and_change_nothing() {
    let set = Request::Set {
        link: "a-g".to_owned(),
        values: Default::default(),
    };
    let top = Request::Top {
        limit: 1,
        by: Order::Backlog,
    };
    let requests = vec![Request::Status {}, top, set];
    let mut machine = TestMachine {
        step: PROGRESS / 8,
        requests,
        ..TestMachine::default()
    };
    let given = Cores::Given(Partition {
        cores: 2,
        owner: vec![0, 1, 1],
    });
    let (summary, _) = simulate_on("asked", &mut machine, &given);
    let summary = summary.expect("nothing goes wrong");
    let unasked = simulate("unasked", &mut TestMachine::default()).0;
    assert_eq!(
        summary.trace_hash,
        unasked.expect("nothing goes wrong").trace_hash
    );
    let [Reply::Status(status), Reply::Top(top), Reply::Error(error)] = &machine.replies[..] else {
        panic!("{:?}", machine.replies);
    };
    assert_eq!(
        (status.verdict.as_str(), status.hosts.len()),
        ("faithful", 2)
    );
    assert!(error.contains("virtual"), "{error}");
    assert!(top.second.is_none() && top.time_s > 10.0, "{top:?}");
    let now = top.simulation.as_ref().expect("of a virtual run");
    let partition = now.partition.as_ref().expect("of several cores");
    let whole = summary.partition.expect("of several cores");
    assert_eq!(partition.predicted, whole.predicted);
    assert!(partition.edge_packets > whole.edge_packets / 2);
    assert!(partition.crossing_packets <= whole.crossing_packets);
    assert_eq!((now.cores.len(), now.flows), (2, 2));
    assert_eq!(top.pipes.len(), 1);
    assert!(top.pipes[0].backlog_bytes.is_some() && top.pipes[0].rate_bps.is_some());
}

#[test]
fn a_machine_without_sockets_runs_it_all_the_same() {
    let mut deaf = TestMachine {
        is_deaf: true,
        ..TestMachine::default()
    };
    let (summary, observed) = simulate("deaf", &mut deaf);
    assert!(summary.is_ok());
    assert!(
        observed.notes[0].contains("no sockets here"),
        "{:?}",
        observed.notes
    );
}

#[test]
fn an_interrupt_ends_the_run_and_is_reported() {
    let mut machine = TestMachine {
        step: PROGRESS,
        interrupted_at: Some(7),
        ..TestMachine::default()
    };
    let (summary, observed) = simulate("interrupted", &mut machine);
    let summary = summary.expect("what there is");
    assert_eq!(summary.error.as_deref(), Some("interrupted by signal 15"));
    assert_eq!(observed.notes, ["interrupted: stopping"]);
    assert_eq!(machine.asked, 7);
    assert!(summary.simulated_s < 20.0, "{} s", summary.simulated_s);
}

#[test]
fn a_machine_that_cannot_keep_signals_is_an_error() {
    let mut machine = TestMachine {
        refuses: true,
        ..TestMachine::default()
    };
    let error = simulate("refused", &mut machine).0.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "blocking signals: not here");
}
