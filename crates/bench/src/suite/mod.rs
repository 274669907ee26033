//! `suite`: the benchmarks of the emulator itself, each against a reference or a target.
//!
//! A **bench** is a list of groups. A **group** is a list of setups that are run in turn, round
//! after round (A B A B), so that whatever the machine does meanwhile hits all of them alike. A
//! **setup** is one command with the **figures** to read from it, most often a sender and a
//! receiver over an emulated path or over a plain veth cable, which is the reference. Figures
//! are medians with ranges over the rounds whose run was not broken; a setup with a figure on the first
//! screen gets further rounds until it and its reference have such a run, [`ATTEMPTS`] at most. A missed
//! target is marked and does not fail the suite, a setup that does not run does.
//!
//! Left out: judging a run's fidelity, which is the emulator's own task; its verdict is quoted.

mod capacity;
mod delay;
mod direct;
mod emulated;
mod engine;
mod fat_tree;
mod figures;
mod hosts;
mod kernel;
mod lab;
mod memory;
mod ns3;
mod pair;
mod place;
mod rate;
mod report;
mod shares;
mod table;
mod tcp;
mod udp;
mod virtual_time;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use figures::Outcome;
use lab::Lab;
use pair::Pair;
use place::Place;
use report::{Report, Scenario};

/// What makes the groups of a bench.
type Groups = fn(&Lab) -> Vec<Group>;
/// What runs a setup once.
type Run = Box<dyn Fn(&Lab) -> io::Result<Outcome>>;

/// The benches by name, in the order in which they run.
const BENCHES: [(&str, Groups); 11] = [
    ("delay", delay::groups),
    ("udp", udp::groups),
    ("tcp", tcp::groups),
    ("rate", rate::groups),
    ("capacity", capacity::groups),
    ("soak", capacity::soak),
    ("hosts", hosts::groups),
    ("shares", shares::groups),
    ("engine", engine::groups),
    ("kernel", kernel::groups),
    ("virtual", virtual_time::groups),
];

/// Rounds of a group, at most, for a run that is not broken.
const ATTEMPTS: usize = 5;

/// Run the emulator's benchmarks and compare them with a plain cable and with their targets.
///
/// Prints a table on stdout, progress on stderr. Exit code 0 unless something did not run;
/// missed targets are marked MISS.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to run. Default: all.
    #[arg(value_name = "NAME", value_parser = BENCHES.map(|(name, _)| name))]
    names: Vec<String>,
    /// Rounds of each group; the soak, which takes ten minutes, has one.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// One round of a second each: a test of the suite, not a measurement.
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Write everything measured to this file too, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Replace the tables between the markers of this Markdown file.
    #[arg(long, value_name = "FILE")]
    write_docs: Option<PathBuf>,
    /// The emulator. Default: `longhaul` beside this program.
    #[arg(long, value_name = "FILE")]
    longhaul: Option<PathBuf>,
    /// Keep experiment files and run folders in this new or empty folder. Default: a temporary folder, removed.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Setups that are run in turn.
pub(crate) struct Group {
    /// What they are, in words.
    title: String,
    /// A reference stands before those that are compared with it.
    setups: Vec<Setup>,
    /// Whether it has one round only, because it takes long.
    once: bool,
}

impl Group {
    pub(crate) fn new(title: impl Into<String>, setups: impl Into<Vec<Setup>>) -> Self {
        Self {
            title: title.into(),
            setups: setups.into(),
            once: false,
        }
    }
}

/// One thing to run and what to read from it.
pub(crate) struct Setup {
    /// Its name within the bench.
    pub(crate) name: String,
    /// The commands, for whoever wants to repeat them by hand.
    pub(crate) command: String,
    /// Whether it needs no emulator, but the tools that [`Lab::no_reference`] names.
    pub(crate) reference: bool,
    /// Whether it asks more of the emulator than it can do: a broken run is what it is about.
    pub(crate) overload: bool,
    /// Runs it once.
    pub(crate) run: Run,
    /// What to read from it.
    pub(crate) figures: Vec<figures::Figure>,
}

impl Setup {
    /// Something of the emulator's.
    fn new(
        name: impl Into<String>,
        command: String,
        figures: Vec<figures::Figure>,
        run: impl Fn(&Lab) -> io::Result<Outcome> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            command,
            reference: false,
            overload: false,
            run: Box::new(run),
            figures,
        }
    }

    /// A sender and a receiver at a place.
    fn pair(name: String, place: Place, pair: &Pair, figures: Vec<figures::Figure>) -> Self {
        let pair = pair.clone();
        let (command, reference) = (place.command(&pair), place.is_reference());
        let setup = Self::new(name, command, figures, move |lab| place.run(lab, &pair));
        Self { reference, ..setup }
    }

    /// It asks for more than the emulator can do.
    fn overload(self) -> Self {
        Self {
            overload: true,
            ..self
        }
    }

    /// Whether a figure of this run counts.
    fn counts(&self, outcome: &Outcome) -> bool {
        self.overload || !outcome.is_broken()
    }
}

/// Runs the command; what is to be printed, and whether everything ran.
pub(crate) fn run(options: &Options) -> io::Result<(String, bool)> {
    let lab = Lab::new(
        options.longhaul.clone(),
        options.keep.clone(),
        options.quick,
    )?;
    lab.must_be_visible()?;
    if let Some(problem) = &lab.no_reference {
        eprintln!("suite: no reference, because {problem}; ratios and differences are left out");
    }
    let runs = if options.quick { 1 } else { options.runs };
    let mut report = Report::new(&lab, runs);
    for (bench, groups) in BENCHES {
        let named = options.names.iter().any(|name| name == bench);
        if !named && !options.names.is_empty() {
            continue;
        }
        for group in groups(&lab) {
            report
                .scenarios
                .extend(run_group(&lab, bench, group, usize::from(runs)));
        }
    }
    let json = report.to_json()?;
    if let Some(path) = &options.out {
        fs::write(path, format!("{json}\n"))?;
    }
    if let Some(path) = &options.write_docs {
        let text = fs::read_to_string(path)?;
        fs::write(path, table::write_into(&text, &report)?)?;
    }
    let text = if options.json {
        json
    } else {
        table::plain(&report)
    };
    Ok((text, report.complete()))
}

/// Whether each figure of the first screen has a run that counts, and so has its reference. A reference
/// that never ran, because the machine lacks it, is not waited for.
fn is_settled(setups: &[Setup], outcomes: &[Vec<io::Result<Outcome>>]) -> bool {
    let counted = |number: usize| {
        let mut done = outcomes[number].iter().flatten();
        done.any(|one| setups[number].counts(one))
    };
    let never_ran = |number: usize| outcomes[number].iter().all(Result::is_err);
    setups.iter().enumerate().all(|(number, setup)| {
        let mut shown = setup
            .figures
            .iter()
            .filter(|figure| figure.headline.is_some());
        shown.all(|figure| {
            let reference = figures::reference_of(figure);
            counted(number) && reference.is_none_or(|other| counted(other) || never_ran(other))
        })
    })
}

/// Runs the setups of a group in turn, round after round.
fn run_group(lab: &Lab, bench: &'static str, group: Group, runs: usize) -> Vec<Scenario> {
    let setups = group.setups;
    let runs = if group.once { 1 } else { runs };
    let may_repeat = !group.once && !lab.quick;
    let mut outcomes: Vec<Vec<io::Result<Outcome>>> = setups.iter().map(|_| Vec::new()).collect();
    for round in 1.. {
        let is_over = || !may_repeat || round > ATTEMPTS || is_settled(&setups, &outcomes);
        if round > runs && is_over() {
            break;
        }
        for (setup, outcomes) in setups.iter().zip(&mut outcomes) {
            let error = match &lab.no_reference {
                Some(problem) if setup.reference => Some(problem.clone()),
                _ => None,
            };
            let outcome = match error {
                Some(problem) => Err(io::Error::other(problem)),
                None => {
                    progress(bench, &setup.name, round, runs.max(round));
                    (setup.run)(lab)
                }
            };
            if let (Err(error), false) = (&outcome, setup.reference && lab.no_reference.is_some()) {
                eprintln!("suite: {bench} {}: {error}", setup.name);
            }
            outcomes.push(outcome);
        }
    }
    let scenarios = report::scenarios(bench, &group.title, &setups, &outcomes);
    if lab.no_reference.is_none() {
        return scenarios;
    }
    scenarios.into_iter().filter(|one| !one.reference).collect()
}

fn progress(bench: &str, setup: &str, round: usize, runs: usize) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{bench}: {setup}, round {round} of {runs}");
        if round == runs {
            eprintln!();
        }
    } else {
        eprintln!("{bench}: {setup}, round {round} of {runs}");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::figures::Target;
    use super::*;

    /// Surroundings with an empty folder, in which nothing is run.
    fn lab(name: &str) -> Lab {
        let this = std::env::current_exe().unwrap();
        let folder = format!("longhaul-bench-{name}-{}", std::process::id());
        let lab = Lab::new(Some(this), Some(std::env::temp_dir().join(&folder)), false);
        fs::remove_dir(std::env::temp_dir().join(folder)).unwrap();
        lab.unwrap()
    }

    /// Absolute speeds are the machine's; only relations can be right or wrong.
    #[test]
    fn targets_are_relations_and_the_first_screen_is_one_screen() {
        let lab = lab("relations");
        let mut headlines = 0;
        for (bench, groups) in BENCHES {
            for setup in groups(&lab).iter().flat_map(|group| &group.setups) {
                for figure in &setup.figures {
                    headlines += usize::from(figure.headline.is_some());
                    if let Some(Target::AtMost(_) | Target::AtLeast(_) | Target::NearOne(_)) =
                        figure.target
                    {
                        assert_eq!(figure.unit, "", "{bench} {} {}", setup.name, figure.name);
                    }
                }
            }
        }
        assert!((15..=36).contains(&headlines), "{headlines}");
    }

    /// A setup whose runs are broken while their number, from 1, is at most `broken`; its figure is that number.
    fn setup(broken: usize) -> Setup {
        let done = Cell::new(0);
        let figure = figures::Figure::new("number", "", figures::at("/n")).headline("a", "b");
        Setup::new("x", String::new(), vec![figure], move |_| {
            done.set(done.get() + 1);
            let verdict = if done.get() <= broken {
                "broken"
            } else {
                "faithful"
            };
            Ok(Outcome {
                data: serde_json::json!({ "n": done.get() }),
                health: Some(figures::Health {
                    verdict: verdict.to_owned(),
                    reasons: vec!["stalls".to_owned()],
                    lateness_us: [0.0; 3],
                    physical_drops: 0,
                    problems: Vec::new(),
                }),
            })
        })
    }

    #[test]
    fn a_broken_reference_is_repeated() {
        let lab = lab("reference");
        let number = || figures::Figure::new("number", "", figures::at("/n"));
        let reference = Setup {
            figures: vec![number()],
            ..setup(4)
        };
        let shown = number().against(0, figures::Against::Ratio);
        let own = Setup {
            figures: vec![shown.headline("a", "b")],
            ..setup(0)
        };
        let all = run_group(&lab, "bench", Group::new("group", [reference, own]), 3);
        assert_eq!(all[1].rows[0].ratio.unwrap().median, 1.0);
    }

    #[test]
    fn broken_runs_are_repeated_and_give_no_figure() {
        let lab = lab("broken");
        let measure = |setup: Setup| {
            let mut all = run_group(&lab, "bench", Group::new("group", [setup]), 3);
            let one = all.remove(0);
            (one.rows[0].values.clone(), one.is_broken(), one.verdicts())
        };
        let texts = |text: &str| text.to_owned();
        assert_eq!(
            measure(setup(2)),
            (vec![3.0], false, texts("1 faithful, 2 broken"))
        );
        assert_eq!(
            measure(setup(4)),
            (vec![5.0], false, texts("1 faithful, 4 broken"))
        );
        assert_eq!(measure(setup(9)), (Vec::new(), true, texts("5 broken")));
        let overloaded = measure(setup(9).overload());
        assert_eq!(overloaded, (vec![1.0, 2.0, 3.0], false, texts("3 broken")));
    }
}
