//! `longhaul run FILE`.

use std::path::PathBuf;

use longhaul_lab::fidelity::State;
use longhaul_lab::folder::FolderError;
use longhaul_lab::run::{self, Attempts, Cores, RunError, RunOptions};
use longhaul_lab::saved::Saved;
use longhaul_lab::summary::Summary;
use longhaul_linux::sandbox::SandboxError;
use longhaul_plan::elements::Elements;
use longhaul_plan::plan::{Plan, RunClock};

use crate::demands::Outlook;
use crate::exit::Exit;
use crate::experiment::{self, Overrides};
use crate::progress::Reporter;
use crate::style::{self, Style};
use crate::{doctor, partition, result};

const EXAMPLES: &str = "\
Examples:
  longhaul run wan.yaml
  longhaul run wan.yaml --set links.a-b.delay='20 ms' --set programs.client.timeout='5 s'
  longhaul run wan.yaml --out results/first --force
  longhaul run wan.yaml --attempts 5 --accept degraded
  longhaul run wan.yaml --clock virtual --threads 4
  longhaul run wan.yaml --json --quiet | jq .verdict.state

Exit codes, the first that applies:
  2  the experiment file or the command line is wrong
  1  a program of the run, or the run itself, failed
  3  the run finished, but was not faithful (or worse than --accept)
  0  finished, and faithful (or as good as --accept)

Ctrl-C ends the run in good order: its programs are stopped, and the summary is written.";

/// Run an experiment: set up its hosts, run its programs, judge the emulation
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The experiment file
    file: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// The run folder [default: longhaul-runs/NAME, or the next free NAME-2, NAME-3, …]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite an earlier run in the run folder
    #[arg(long)]
    force: bool,
    /// Run even if hosts ask for more CPUs or memory than this machine has for programs; the verdict is
    /// then degraded at best
    #[arg(long)]
    oversubscribe: bool,
    /// Run up to N times in all, as long as stalls of the machine make the verdict worse than --accept;
    /// attempts are kept in attempt-1, attempt-2, … of the run folder
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: u32,
    /// Run a virtual run on up to N threads, as many as make it fastest; the results are the same for
    /// any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Split a virtual run over threads by this partition, written by `longhaul partition --save`
    #[arg(long, value_name = "FILE", conflicts_with = "threads")]
    partition: Option<PathBuf>,
    /// The worst verdict that is accepted, with exit code 0 and no further attempt
    #[arg(long, value_name = "GRADE", value_enum, default_value_t = Grade::Faithful)]
    accept: Grade,
    /// Print the summary as JSON to standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Show no progress, and the result only if the exit code is not 0
    #[arg(long, short)]
    quiet: bool,
}

/// A verdict that is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Grade {
    /// Every figure holds, within the tolerance
    Faithful,
    /// Figures are off by no more than the verdict states
    Degraded,
}

impl Grade {
    const fn state(self) -> State {
        match self {
            Self::Faithful => State::Faithful,
            Self::Degraded => State::Degraded,
        }
    }
}

pub(crate) fn main(args: &Args, elements: &Elements) -> Exit {
    let experiment = match experiment::load(&args.file, &args.overrides, elements) {
        Ok(experiment) => experiment,
        Err(errors) => {
            style::notice(errors);
            return Exit::Wrong;
        }
    };
    let plan = &experiment.plan;
    let cores = match cores_of(args, plan) {
        Ok(cores) => cores,
        Err(problem) => {
            style::notice(problem);
            return Exit::Wrong;
        }
    };
    let options = RunOptions {
        out: args.out.clone().unwrap_or_else(|| run::default_out(plan)),
        force: args.force,
        oversubscribe: args.oversubscribe,
        experiment_text: experiment.text,
        experiment_dir: experiment.dir,
        cores,
    };
    let mut reporter = Reporter::new(plan, args.quiet);
    if !args.quiet {
        plan.warnings
            .iter()
            .for_each(|warning| reporter.warn(warning));
        let ahead = Outlook::warnings_of(plan);
        ahead.iter().for_each(|warning| reporter.warn(warning));
    }
    let attempts = Attempts {
        most: args.attempts,
        accept: args.accept.state(),
    };
    let outcome = run::run_until(plan, &options, attempts, &mut reporter);
    reporter.finish();
    match outcome {
        Ok(summary) => finished(args, &summary),
        Err(error) => failed(&error),
    }
}

/// The cores that a virtual run uses.
fn cores_of(args: &Args, plan: &Plan) -> Result<Cores, String> {
    if (args.threads > 1 || args.partition.is_some()) && plan.clock != RunClock::Virtual {
        let hint = "a run on the real clock uses one core; add `--clock virtual`";
        return Err(format!(
            "--threads and --partition need the virtual clock\nhint: {hint}"
        ));
    }
    let Some(file) = &args.partition else {
        return Ok(Cores::UpTo(args.threads));
    };
    partition::read(file, plan).map(Cores::Given)
}

/// Prints the result, and gives the code for it.
fn finished(args: &Args, summary: &Summary) -> Exit {
    let exit = exit_of(summary, args.accept.state());
    let json = summary.to_json();
    if args.json {
        style::print(&json);
    }
    if args.quiet && exit == Exit::Done {
        return exit;
    }
    // As `longhaul report` reads it from the run folder.
    match Saved::from_json(&json) {
        Ok(saved) if args.json => style::notice(result::text(&saved, Style::stderr()).trim_end()),
        Ok(saved) => style::print(&result::text(&saved, Style::stdout())),
        Err(error) => style::problem(format_args!(
            "the summary cannot be shown: {error}; please report this"
        )),
    }
    exit
}

fn exit_of(summary: &Summary, accept: State) -> Exit {
    match summary.verdict.state {
        _ if summary.failed() => Exit::Failed,
        state if state <= accept => Exit::Done,
        _ => Exit::NotFaithful,
    }
}

/// Reports why there is no summary, and what to do where the machine is the cause.
fn failed(error: &RunError) -> Exit {
    style::problem(error);
    match error {
        RunError::Resources(_) => Exit::Wrong,
        RunError::Folder(FolderError::EarlierRun(_) | FolderError::NotEmpty(_)) => Exit::Wrong,
        RunError::Sandbox(SandboxError::Forbidden { .. } | SandboxError::Setup(_)) => {
            doctor::explain_failure();
            Exit::Failed
        }
        _ => Exit::Failed,
    }
}
