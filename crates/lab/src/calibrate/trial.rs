//! One short live run of a calibration: an experiment text, its run, and what came of it.
//!
//! Trials are runs like any other, by the same plan, sandbox, loop and verdict. Their programs
//! are this very binary in a hidden mode, named by `/proc/self/exe`: what is executed on a host
//! is a child of this process, so that the link leads to it wherever it lies.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::{cpu, locked_folder};
use serde::de::DeserializeOwned;

use super::CalibrateError;
use super::interrupt::Interrupt;
use crate::run::{self, Observer, Progress, RunOptions};
use crate::summary::Summary;
use longhaul_plan::plan::Plan;

/// What the folders of calibrations are called, before the number of their process and the time.
const PREFIX: &str = "longhaul-calibrate-";
/// This program, on a host.
pub(super) const SELF: &str = "/proc/self/exe";
/// The hidden command of the command line that runs [`super::load`].
const COMMAND: &str = "load";
/// Delay of a whole path: long enough for an arrival to enter at its stamp although it is read
/// late, short enough to be over at once.
const PATH_DELAY_NS: u64 = 1_000_000;
/// The rate of each link: more than any machine carries, so that pipes do all their work and
/// never hold anything up.
const RATE: &str = "40 Gbit/s";
/// A run that has not ended so long after its programs should have is cut off.
const GRACE_S: f64 = 10.0;

/// Where trials are made: a folder that goes when this does.
pub(super) struct Bench<'a> {
    dir: PathBuf,
    /// Tells other calibrations that the folder is in use.
    _lock: File,
    cpus: Vec<usize>,
    interrupt: &'a Interrupt,
}

impl<'a> Bench<'a> {
    /// Makes the folder, and removes those of calibrations that were killed.
    pub(super) fn new(interrupt: &'a Interrupt) -> Result<Self, CalibrateError> {
        Self::within(&std::env::temp_dir(), interrupt)
    }

    fn within(place: &Path, interrupt: &'a Interrupt) -> Result<Self, CalibrateError> {
        locked_folder::sweep(place, PREFIX, |folder| {
            let _ = fs::remove_dir_all(folder);
        });
        let dir = place.join(locked_folder::name(PREFIX));
        let lock = locked_folder::make(&dir).map_err(|error| CalibrateError::Io {
            what: "making a folder for the runs (TMPDIR says where)".to_owned(),
            error,
        })?;
        Ok(Self {
            dir,
            _lock: lock,
            cpus: cpu::allowed().unwrap_or_default(),
            interrupt,
        })
    }

    /// Where signals arrive that ask for the end.
    pub(super) fn interrupt(&self) -> &'a Interrupt {
        self.interrupt
    }

    /// The CPUs that runs leave to programs.
    pub(super) fn program_cpus(&self) -> Vec<usize> {
        super::end_to_end::for_programs(&self.cpus)
    }

    /// How many CPUs there are to measure on.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Runs an experiment; an unfaithful one is as good as any.
    pub(super) fn run(&self, text: &str) -> Result<Trial, CalibrateError> {
        self.interrupt.check()?;
        let plan = Plan::from_text(text, "calibrate.yaml")
            .map_err(|errors| CalibrateError::Failed(errors.to_string()))?;
        let folder = self.dir.join("run");
        let options = RunOptions {
            out: folder.clone(),
            force: true,
            oversubscribe: false,
            experiment_text: text.to_owned(),
            experiment_dir: self.dir.clone(),
            cores: crate::run::Cores::default(),
        };
        let mut watch = Watch {
            before: available_bytes(),
            used: None,
        };
        let begun_ns = monotonic_ns();
        let outcome = run::run(&plan, &options, &mut watch);
        let wall_s = (monotonic_ns() - begun_ns) as f64 / 1e9;
        // A run leaves its caller on the programs' CPUs; the next one is to choose again.
        if !self.cpus.is_empty() {
            let _ = cpu::pin(&self.cpus);
        }
        let summary = outcome?;
        if summary.failed() {
            return Err(CalibrateError::Failed(failures(&summary)));
        }
        Ok(Trial {
            summary,
            folder,
            wall_s,
            used_bytes: watch.used,
        })
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// What came of a trial.
pub(super) struct Trial {
    pub(super) summary: Summary,
    folder: PathBuf,
    /// From before its set-up until nothing of it was left.
    pub(super) wall_s: f64,
    /// Memory that the machine had less of when all hosts were up; `None` where it is unknown.
    pub(super) used_bytes: Option<u64>,
}

impl Trial {
    /// The result that a program printed as its last line.
    pub(super) fn last_line<T: DeserializeOwned>(
        &self,
        program: &str,
    ) -> Result<T, CalibrateError> {
        self.printed(program, |text| {
            // A sink's first line says that it is ready.
            serde_json::from_str(text.lines().last().unwrap_or_default())
        })
    }

    /// The result that a program printed, of several lines.
    pub(super) fn output<T: DeserializeOwned>(&self, program: &str) -> Result<T, CalibrateError> {
        self.printed(program, |text| serde_json::from_str(text))
    }

    fn printed<T>(
        &self,
        program: &str,
        read: impl FnOnce(&str) -> serde_json::Result<T>,
    ) -> Result<T, CalibrateError> {
        let path = self.folder.join("logs").join(format!("{program}.out"));
        let text = fs::read_to_string(&path).map_err(|error| error.to_string());
        let read = |text: String| read(&text).map_err(|error| error.to_string());
        text.and_then(read).map_err(|error| {
            CalibrateError::Failed(format!("what {program} printed is not a result: {error}"))
        })
    }
}

fn failures(summary: &Summary) -> String {
    let program = |program: &crate::summary::ProgramSummary| {
        let failure = program.failure.as_ref()?;
        Some(format!("{} on {}: {failure}", program.name, program.host))
    };
    let programs = summary.programs.iter().filter_map(program);
    let all: Vec<String> = summary.error.clone().into_iter().chain(programs).collect();
    all.join("; ")
}

/// Looks at the machine's memory when all hosts are up.
struct Watch {
    before: Option<u64>,
    used: Option<u64>,
}

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) {
        if let Progress::Started = progress {
            let now = available_bytes();
            self.used = self
                .before
                .zip(now)
                .map(|(before, now)| before.saturating_sub(now));
        }
    }
}

/// Memory that programs can still have.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// A chain with the programs of [`super::load`]: a sink on `b` and a sender on `a`; the sink is a
/// service where it does not end by itself.
pub(super) fn chain(
    path: (u32, u32),
    (sink, service): (&[&str], bool),
    send: &[&str],
    seconds: f64,
) -> String {
    let programs = format!(
        "  sink: {{ on: b, run: {}, ready: log ^ready, service: {service} }}\n  \
         send: {{ on: a, run: {}, after: sink }}\n",
        argv(&[&[COMMAND], sink].concat()),
        argv(&[&[COMMAND], send].concat()),
    );
    path_with(path, &programs, seconds)
}

/// The same with the programs of `longhaul traffic`; the sink ends by itself.
pub(super) fn traffic(path: (u32, u32), sink: &[&str], send: &[&str], seconds: f64) -> String {
    let programs = format!(
        "  sink: {{ on: b, run: {}, ready: tcp {} }}\n  send: {{ on: a, run: {}, after: sink }}\n",
        argv(sink),
        crate::sockets::PORT,
        argv(send),
    );
    path_with(path, &programs, seconds)
}

/// A chain of `hops` links from host `a` to host `b`, with these programs.
fn path_with((hops, mtu): (u32, u32), programs: &str, seconds: f64) -> String {
    let node = |number: u32| match number {
        0 => "a".to_owned(),
        n if n == hops => "b".to_owned(),
        n => format!("r{n}"),
    };
    let routers: String = (1..hops)
        .map(|n| format!("    {}: {{ kind: router }}\n", node(n)))
        .collect();
    let delay = PATH_DELAY_NS / u64::from(hops.max(1));
    let links: String = (0..hops)
        .map(|n| {
            let (from, to) = (node(n), node(n + 1));
            format!("    - {{ ends: [{from}, {to}], delay: {delay} ns, rate: {RATE} }}\n")
        })
        .collect();
    format!(
        "name: calibrate\nduration: {} s\nmtu: {mtu}\ntopology:\n  nodes:\n    a: {{}}\n    \
         b: {{}}\n{routers}  links:\n{links}programs:\n{programs}",
        seconds + GRACE_S,
    )
}

/// A star of `count` hosts that do nothing for `seconds`.
pub(super) fn star(count: u32, seconds: f64) -> String {
    format!(
        "name: calibrate\nduration: {} s\ntopology:\n  nodes:\n    h: {{ count: {count} }}\n    \
         hub: {{ kind: router }}\n  links:\n    - {{ ends: [h, hub], delay: 1 ms }}\n\
         programs:\n  idle: {{ on: h0, run: {} }}\n",
        seconds + GRACE_S,
        argv(&[COMMAND, "idle", "--seconds", &seconds.to_string()]),
    )
}

/// This program's command line as a list in YAML, of which JSON is a part.
fn argv(words: &[&str]) -> String {
    let all: Vec<&str> = [SELF].iter().chain(words).copied().collect();
    serde_json::to_string(&all).expect("texts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_calibration_and_those_of_dead_ones_with_the_next() {
        let place = locked_folder::name("longhaul-bench-test-");
        let place = std::env::temp_dir().join(place);
        let [dead, other] = ["longhaul-calibrate-17", "longhaul-runs"].map(|name| place.join(name));
        for folder in [&dead, &other] {
            fs::create_dir_all(folder.join("run/logs")).unwrap();
        }
        let interrupt = Interrupt::catch().unwrap();
        let one = Bench::within(&place, &interrupt).unwrap();
        assert!(!dead.exists() && other.exists());
        fs::write(one.dir.join("file"), "text").unwrap();
        let two = Bench::within(&place, &interrupt).unwrap();
        assert!(one.dir.join("file").exists() && two.dir.exists());
        drop((one, two));
        let left = fs::read_dir(&place).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.path()).collect();
        assert_eq!(left, [other]);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn trials_are_sound_experiments() {
        for hops in [1, 4, 12] {
            let text = chain((hops, 9000), (&["udp-sink"], true), &["udp-send"], 0.3);
            let plan = Plan::from_text(&text, "c.yaml").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.topology.pipes().len(), 2 * hops as usize);
            assert_eq!(plan.warnings, [""; 0]);
            assert_eq!(plan.programs[1].argv, [SELF, COMMAND, "udp-sink"]);
        }
        let text = traffic(
            (12, 1500),
            &["traffic", "sink"],
            &["traffic", "bulk", "b"],
            0.3,
        );
        let plan = Plan::from_text(&text, "t.yaml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.warnings, [""; 0]);
        assert_eq!(plan.programs[1].argv, [SELF, "traffic", "sink"]);
        let plan = Plan::from_text(&star(20, 0.1), "s.yaml").unwrap();
        assert_eq!(plan.hosts.len(), 20);
    }
}
