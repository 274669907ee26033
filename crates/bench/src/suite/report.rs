//! What a suite measured, as it goes into the JSON file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use serde::Serialize;
use serde_json::Value;

use super::Setup;
use super::figures::{self, Health, Outcome, Row};
use super::lab::Lab;

/// Everything.
#[derive(Serialize)]
pub(crate) struct Report {
    version: &'static str,
    pub(crate) machine: Machine,
    /// Rounds of each group.
    pub(crate) runs: u16,
    /// A test of the suite: its figures mean little.
    pub(crate) quick: bool,
    /// Why there is no cable to compare with; `null` where there is.
    pub(crate) no_reference: Option<String>,
    pub(crate) scenarios: Vec<Scenario>,
}

/// Where it was measured.
#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    /// The CPUs of programs, in emulated and in pinned direct runs.
    pub(crate) program_cpus: Vec<usize>,
    /// Root's runs are in real time, and their hosts may receive on the programs' CPUs.
    pub(crate) is_root: bool,
    /// The machine's one-minute load before the suite began: it should be near zero.
    pub(crate) load_before: f64,
}

/// A setup and its figures.
#[derive(Serialize)]
pub(crate) struct Scenario {
    pub(crate) bench: &'static str,
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) reference: bool,
    pub(crate) rows: Vec<Row>,
    /// The emulator's verdict on each run that it made.
    pub(crate) health: Vec<Health>,
    /// Whether its broken runs are what it is about.
    pub(crate) overload: bool,
    /// Runs that failed.
    pub(crate) errors: Vec<String>,
    /// All that each run printed.
    pub(crate) raw: Vec<Value>,
}

impl Report {
    /// An empty one.
    pub(crate) fn new(lab: &Lab, runs: u16) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::here(lab),
            runs,
            quick: lab.quick,
            no_reference: lab.no_reference.clone(),
            scenarios: Vec::new(),
        }
    }

    /// Whether everything ran.
    pub(crate) fn complete(&self) -> bool {
        self.scenarios.iter().all(|one| one.errors.is_empty())
    }

    /// The JSON text.
    pub(crate) fn to_json(&self) -> io::Result<String> {
        serde_json::to_string_pretty(self).map_err(io::Error::other)
    }
}

impl Machine {
    fn here(lab: &Lab) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let processor = model.and_then(|line| line.split_once(':'));
        let load = read("/proc/loadavg");
        Self {
            processor: processor.map_or(String::new(), |(_, name)| name.trim().to_owned()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpus: lab.cpus.len() + 1,
            program_cpus: lab.cpus.clone(),
            is_root: fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0),
            load_before: load
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(f64::NAN),
        }
    }
}

impl Scenario {
    /// Whether no run counts, because all were broken.
    pub(crate) fn is_broken(&self) -> bool {
        let broken = |health: &Health| health.verdict == "broken";
        !self.overload && !self.health.is_empty() && self.health.iter().all(broken)
    }

    /// The verdicts and how often each was given, like `4 faithful, 1 degraded`.
    pub(crate) fn verdicts(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for health in &self.health {
            *counts.entry(&health.verdict).or_default() += 1;
        }
        let texts = counts
            .iter()
            .rev()
            .map(|(verdict, count)| format!("{count} {verdict}"));
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// The scenarios of a group; `outcomes` holds the rounds of each setup.
pub(crate) fn scenarios(
    bench: &'static str,
    group: &str,
    setups: &[Setup],
    outcomes: &[Vec<io::Result<Outcome>>],
) -> Vec<Scenario> {
    let done = |index: usize| outcomes[index].iter().map(|round| round.as_ref().ok());
    let counted: Vec<Vec<Option<&Outcome>>> = setups
        .iter()
        .enumerate()
        .map(|(index, setup)| {
            let rounds = done(index);
            rounds
                .map(|one| one.filter(|one| setup.counts(one)))
                .collect()
        })
        .collect();
    let scenario = |(index, setup): (usize, &Setup)| {
        let row = |figure: &figures::Figure| {
            let reference = figures::reference_of(figure)
                .map(|number| (setups[number].name.as_str(), counted[number].as_slice()));
            figures::measure(figure, &counted[index], reference)
        };
        let done = || done(index).flatten();
        Scenario {
            bench,
            group: group.to_owned(),
            name: setup.name.clone(),
            command: setup.command.clone(),
            reference: setup.reference,
            rows: setup.figures.iter().map(row).collect(),
            health: done().filter_map(|one| one.health.clone()).collect(),
            overload: setup.overload,
            errors: outcomes[index]
                .iter()
                .filter_map(|round| Some(round.as_ref().err()?.to_string()))
                .collect(),
            raw: done().map(|one| one.data.clone()).collect(),
        }
    };
    setups.iter().enumerate().map(scenario).collect()
}
