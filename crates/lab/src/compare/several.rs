//! Several runs side by side, and which differences are more than the noise of repeats.
//!
//! Runs of the same experiment file, seeds apart, are repeats of each other: a **group**. Figures of the
//! groups are held to those of the first. Repeats of a group differ by chance; that of all groups together is
//! taken as normal with one variance for all (the pooled variance, with as many degrees of freedom as there
//! are repeats). Then a difference of two means is noise, with a confidence of 95 %, up to
//! `t · s · √(1/n + 1/m)`, where `t` is Student's for two sides. Beyond it, the groups differ in the figure:
//! of twenty figures that are the same, one is expected to be called different.
//!
//! Without any repeats nothing is known of noise, and nothing is claimed. Of a single group of repeats the
//! noise is that of two single runs.
//!
//! Left out: distributions that are not normal, and flows, pipes and programs beyond the [`LIST_MAX`] largest
//! or first.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Figures, read};
use crate::saved::{self, SavedError};

/// Runs that are compared at most.
pub const RUNS_MAX: usize = 16;
/// Flows, pipes and programs that are compared, each.
const LIST_MAX: usize = 500;
/// Student's t for a probability of 0.975, by degrees of freedom from 1 (NIST/SEMATECH e-Handbook of
/// Statistical Methods, §1.3.6.7.2); beyond the last the normal distribution's.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const NORMAL: f64 = 1.960;
/// What a run folder's file says of how it was changed.
const SET: &str = "# run with --set ";
/// Bytes of a run folder's experiment file that are read at most; it has lines that the original has not.
const EXPERIMENT_MAX: u64 = 2 * longhaul_plan::file::MAX_FILE_BYTES;
/// The names of sections, in their order.
const SECTIONS: [&str; 5] = ["Run", "Programs", "Traffic", "Flows", "Pipes"];

/// Several runs, and their figures.
#[derive(Debug, Clone, Serialize)]
pub struct Several {
    /// The folders of the runs, in the order in which they were named.
    #[serde(skip)]
    pub folders: Vec<PathBuf>,
    /// Which are repeats of each other.
    pub groups: Vec<RunGroup>,
    /// All figures that at least one run has.
    pub figures: Vec<Figure>,
    /// How many there are.
    pub figures_seen: usize,
}

/// Runs of the same experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunGroup {
    /// The experiment's name.
    pub name: String,
    /// The runs, by their places.
    pub runs: Vec<usize>,
}

/// A figure of all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Where it belongs: one of `Run`, `Programs`, `Traffic`, `Flows`, `Pipes`.
    pub section: &'static str,
    /// What it is a figure of.
    pub name: String,
    /// Which figure.
    pub what: &'static str,
    /// Its unit: `s`, `ns`, `bit/s`, `B`, `share`, or nothing for what is counted.
    pub unit: &'static str,
    /// Of each run; `null` where its summary has none.
    pub values: Vec<Option<f64>>,
    /// By group: the mean's difference from the first group's, as a share of that.
    pub difference: Vec<Option<f64>>,
    /// By group: whether the difference is beyond noise; `null` where that is unknown.
    pub beyond_noise: Vec<Option<bool>>,
    /// By group: up to which share a difference is noise; `null` where that is unknown.
    pub noise: Vec<Option<f64>>,
}

impl Several {
    /// Figures that differ beyond noise; nothing where noise is unknown.
    pub fn differing(&self) -> impl Iterator<Item = &Figure> {
        let differs = |figure: &&Figure| figure.beyond_noise.contains(&Some(true));
        self.figures.iter().filter(differs)
    }

    /// Whether any run has a repeat.
    pub fn knows_noise(&self) -> bool {
        self.groups.iter().any(|group| group.runs.len() > 1)
    }
}

/// Reads runs, named as in [`saved::find`].
///
/// # Errors
/// One of them has no summary.
pub fn several(runs: &[PathBuf]) -> Result<Several, SavedError> {
    let mut folders = Vec::new();
    let mut texts = Vec::new();
    let mut figures = Vec::new();
    for run in runs {
        let folder = saved::find(Some(run))?;
        let read = read(run)?;
        texts.push(experiment(&folder, &read));
        folders.push(crate::report::page_folder(&folder));
        figures.push(read);
    }
    Ok(of(folders, &texts, &figures))
}

/// What makes runs repeats of each other: the file as it was run, its seed left out, and the clock.
fn experiment(folder: &Path, run: &Figures) -> String {
    let text = saved::bounded(&folder.join("experiment.yaml"), EXPERIMENT_MAX);
    let text = text.ok().and_then(|text| String::from_utf8(text).ok());
    let text = text.unwrap_or_else(|| run.experiment.clone());
    let is_seed = |line: &&str| {
        let set = line.strip_prefix(SET);
        line.starts_with("seed:") || set.is_some_and(|set| set.starts_with("seed="))
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_seed(line)).collect();
    format!("{}\n{}", run.clock, lines.join("\n"))
}

/// An experiment's name, with what its file was changed by.
fn named(name: &str, text: &str) -> String {
    let changes: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(SET))
        .collect();
    if changes.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({})", changes.join(", "))
    }
}

fn of(folders: Vec<PathBuf>, texts: &[String], runs: &[Figures]) -> Several {
    let mut groups: Vec<RunGroup> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (number, text) in texts.iter().enumerate() {
        let place = *places.entry(text).or_insert_with(|| {
            let name = named(&runs[number].experiment, text);
            groups.push(RunGroup {
                name,
                runs: Vec::new(),
            });
            groups.len() - 1
        });
        groups[place].runs.push(number);
    }
    let mut table = Table::default();
    for (number, run) in runs.iter().enumerate() {
        table.add(run, number, runs.len());
    }
    let figures: Vec<Figure> = table
        .rows
        .into_iter()
        .map(|(key, values)| figure(key, values, &groups))
        .collect();
    Several {
        folders,
        groups,
        figures_seen: figures.len(),
        figures,
    }
}

/// The place of a section, a name, the place of a figure among those of the name, the figure, its unit.
type Key = (usize, String, usize, &'static str, &'static str);

/// Figures by what they are of, the values of all runs beside each other.
#[derive(Default)]
struct Table {
    rows: BTreeMap<Key, Vec<Option<f64>>>,
}

impl Table {
    fn add(&mut self, run: &Figures, number: usize, runs: usize) {
        let mut put =
            |section: usize, name: &str, list: &[(&'static str, &'static str, Option<f64>)]| {
                for (order, &(what, unit, value)) in list.iter().enumerate() {
                    if let Some(value) = value.filter(|value| value.is_finite()) {
                        let key = (section, name.to_owned(), order, what, unit);
                        let values = self.rows.entry(key).or_insert_with(|| vec![None; runs]);
                        values[number] = Some(value);
                    }
                }
            };
        let lateness = run.verdict.lateness_ns;
        put(
            0,
            "",
            &[
                ("experiment time", "s", Some(run.simulated_s)),
                ("packets entered", "", Some(run.packets.entered as f64)),
                ("packets delivered", "", Some(run.packets.delivered as f64)),
                (
                    "lateness, p50",
                    "ns",
                    lateness.map(|lateness| lateness.p50 as f64),
                ),
                (
                    "lateness, p99",
                    "ns",
                    lateness.map(|lateness| lateness.p99 as f64),
                ),
            ],
        );
        let programs = run.programs.iter().filter(|program| !program.service);
        for program in programs.take(LIST_MAX) {
            let took = program
                .start_s
                .zip(program.finish_s)
                .map(|(start, finish)| finish - start);
            put(
                1,
                &program.name,
                &[("took", "s", took), ("CPU time", "s", program.cpu_s)],
            );
        }
        for group in run.flow_groups.iter().take(LIST_MAX) {
            let times = group.completion_s;
            put(
                2,
                &group.name,
                &[
                    ("completion, mean", "s", times.map(|times| times.mean)),
                    ("completion, p99", "s", times.map(|times| times.p99)),
                    ("goodput, mean", "bit/s", Some(group.goodput_bps)),
                    ("retransmissions", "", Some(group.retransmissions as f64)),
                    ("Jain's index", "", group.jain),
                ],
            );
        }
        for flow in run.flows.iter().take(LIST_MAX) {
            put(
                3,
                &flow.name,
                &[
                    ("completion", "s", flow.completion_s),
                    ("goodput", "bit/s", Some(flow.goodput_bps)),
                    ("retransmissions", "", Some(flow.retransmissions as f64)),
                ],
            );
        }
        let mut pipes: Vec<_> = run.pipes.iter().collect();
        pipes.sort_by_key(|pipe| std::cmp::Reverse(pipe.bytes));
        for pipe in pipes.into_iter().take(LIST_MAX) {
            put(
                4,
                &pipe.name,
                &[
                    ("load", "share", pipe.utilisation),
                    ("carried", "B", Some(pipe.bytes as f64)),
                    ("dropped", "", Some(pipe.drops as f64)),
                ],
            );
        }
    }
}

/// Judges a figure.
fn figure(
    (section, name, _, what, unit): Key,
    values: Vec<Option<f64>>,
    groups: &[RunGroup],
) -> Figure {
    let of_group = |group: &RunGroup| -> Vec<f64> {
        group.runs.iter().filter_map(|&run| values[run]).collect()
    };
    let groups: Vec<Vec<f64>> = groups.iter().map(of_group).collect();
    let pooled = pooled(&groups);
    let judged: Vec<_> = groups
        .iter()
        .enumerate()
        .map(|(number, group)| judged(&groups[0], group, number == 0, pooled))
        .collect();
    let beyond = |&(by, up_to): &(Option<f64>, Option<f64>)| {
        by.zip(up_to).map(|(by, up_to)| by.abs() > up_to)
    };
    Figure {
        section: SECTIONS[section],
        name,
        what,
        unit,
        values,
        difference: judged.iter().map(|(by, _)| *by).collect(),
        beyond_noise: judged.iter().map(beyond).collect(),
        noise: judged.iter().map(|(_, up_to)| *up_to).collect(),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation within groups, and Student's t for it; `None` without repeats.
fn pooled(groups: &[Vec<f64>]) -> Option<(f64, f64)> {
    let freedom: usize = groups
        .iter()
        .map(|group| group.len().saturating_sub(1))
        .sum();
    let t = STUDENT
        .get(freedom.checked_sub(1)?)
        .copied()
        .unwrap_or(NORMAL);
    let squares = groups.iter().filter_map(|group| {
        let mean = mean(group)?;
        Some(
            group
                .iter()
                .map(|value| (value - mean).powi(2))
                .sum::<f64>(),
        )
    });
    let variance = squares.sum::<f64>() / freedom as f64;
    Some((variance.sqrt(), t))
}

/// A group's difference from the first, and up to where that is noise, both as shares of the first's mean.
fn judged(
    first: &[f64],
    group: &[f64],
    is_first: bool,
    pooled: Option<(f64, f64)>,
) -> (Option<f64>, Option<f64>) {
    let (Some(a), Some(b)) = (mean(first), mean(group)) else {
        return (None, None);
    };
    let share = |value: f64| match (a == 0.0, value == 0.0) {
        (_, true) => Some(0.0),
        (true, false) => None,
        (false, false) => Some(value / a.abs()),
    };
    // Of repeats alone: what two single runs may differ by.
    let spread = if is_first {
        2.0_f64.sqrt()
    } else {
        (1.0 / first.len() as f64 + 1.0 / group.len() as f64).sqrt()
    };
    let difference = share(b - a).filter(|_| !is_first);
    (difference, pooled.and_then(|(s, t)| share(t * s * spread)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn run(name: &str, value: f64) -> Figures {
        serde_json::from_value(serde_json::json!({
            "experiment": name, "clock": "virtual", "seed": 1, "run": "/x",
            "verdict": { "state": "faithful", "lateness_ns": null },
            "simulated_s": value, "packets": { "entered": 1, "delivered": 1, "hops": 1 },
            "pipes": [{ "name": "a>b", "packets": 1, "bytes": 1, "drops": 0, "utilisation": null }],
            "programs": [{ "name": "work", "start_s": 1.0, "finish_s": 1.0 + value }],
        }))
        .unwrap()
    }

    fn several_of(values: &[(&str, f64)]) -> Several {
        let texts: Vec<String> = values.iter().map(|(text, _)| (*text).to_owned()).collect();
        let runs: Vec<Figures> = values
            .iter()
            .map(|(name, value)| run(name, *value))
            .collect();
        of(vec![PathBuf::from("x"); runs.len()], &texts, &runs)
    }

    fn time(several: &Several) -> &Figure {
        let mut figures = several.figures.iter();
        figures
            .find(|figure| figure.what == "experiment time")
            .unwrap()
    }

    #[test]
    fn without_repeats_noise_is_unknown() {
        let found = several_of(&[("a", 10.0), ("b", 11.0)]);
        assert_eq!(found.groups.len(), 2);
        assert!(!found.knows_noise());
        let time = time(&found);
        assert_eq!(time.difference, [None, Some(0.1)]);
        assert_eq!(time.beyond_noise, [None, None]);
        assert_eq!(time.noise, [None, None]);
    }

    #[test]
    fn differences_are_held_to_repeats() {
        // s = 1 with two degrees of freedom: t = 4.303, and √(1/2 + 1/2) = 1.
        let pair = |name, mean: f64| [(name, mean + 0.5_f64.sqrt()), (name, mean - 0.5_f64.sqrt())];
        for (mean, beyond) in [(9.0 + 4.4, true), (9.0 + 4.2, false), (9.0 - 4.4, true)] {
            let found = several_of(&[pair("a", 9.0), pair("b", mean)].concat());
            let time = time(&found);
            let noise = time.noise[1].unwrap();
            assert!((noise - 4.303 / 9.0).abs() < 1e-9, "{noise}");
            assert_eq!(time.beyond_noise, [None, Some(beyond)], "{mean}");
            assert_eq!(found.differing().any(|figure| figure == time), beyond);
        }
        // Alone: √2 instead.
        let alone = several_of(&[("a", 8.0), ("a", 10.0)]);
        let noise = time(&alone).noise[0].unwrap();
        assert!((noise - 12.706 * 2.0 / 9.0).abs() < 1e-9, "{noise}");
        assert_eq!(time(&alone).difference, [None]);
    }

    #[test]
    fn identical_repeats_leave_no_room_for_noise() {
        let found = several_of(&[("a", 5.0), ("b", 5.0), ("a", 5.0)]);
        assert_eq!(found.groups[0].runs, [0, 2]);
        assert_eq!(time(&found).beyond_noise, [None, Some(false)]);
        let found = several_of(&[("a", 5.0), ("b", 5.001), ("a", 5.0)]);
        assert_eq!(time(&found).beyond_noise, [None, Some(true)]);
        let took = found
            .figures
            .iter()
            .find(|figure| figure.section == "Programs")
            .unwrap();
        assert_eq!((took.what, took.values[0]), ("took", Some(5.0)));
    }

    #[test]
    fn what_is_zero_has_no_share() {
        let found = several_of(&[("a", 0.0), ("a", 0.0), ("b", 1.0)]);
        let time = time(&found);
        assert_eq!((time.difference[1], time.beyond_noise[1]), (None, None));
    }

    #[test]
    fn seeds_do_not_make_experiments_differ() {
        let folder = std::env::temp_dir().join(format!("longhaul-several-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = |text: &str| {
            fs::write(folder.join("experiment.yaml"), text).unwrap();
            experiment(&folder, &run("x", 1.0))
        };
        let one = key("name: x\nseed: 1\n");
        assert_eq!(one, key("name: x\nseed: 2\n"));
        assert_eq!(one, key("name: x\n# run with --set seed=9\n"));
        assert_ne!(
            one,
            key("name: x\nseed: 1\n# run with --set duration=9 s\n")
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
