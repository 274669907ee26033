//! `longhaul run FILE`.

use std::path::PathBuf;

use longhaul_lab::elements::Elements;
use longhaul_lab::fidelity::State;
use longhaul_lab::folder::FolderError;
use longhaul_lab::run::{self, RunError, RunOptions};
use longhaul_lab::summary::Summary;
use longhaul_linux::sandbox::SandboxError;

use crate::demands::Outlook;
use crate::experiment::{self, Overrides};
use crate::progress::Reporter;
use crate::style::{self, Style};
use crate::{Exit, doctor, result};

const EXAMPLES: &str = "\
Examples:
  longhaul run wan.yaml
  longhaul run wan.yaml --set links.a-b.delay='20 ms' --set programs.client.timeout='5 s'
  longhaul run wan.yaml --out results/first --force
  longhaul run wan.yaml --json --quiet | jq .verdict.state

Exit codes, the first that applies:
  2  the experiment file or the command line is wrong
  1  a program of the run, or the run itself, failed
  3  the run finished, but was not faithful
  0  done and faithful

Ctrl-C winds a run up in good order and still writes its summary.";

/// Run an experiment: set up its hosts, run its programs, judge the emulation
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The experiment file
    file: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// The run folder; longhaul-runs/NAME, or the next free NAME-2, NAME-3, … if absent
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite an earlier run in the run folder
    #[arg(long)]
    force: bool,
    /// Print the summary as JSON, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// No progress, and a result only where something is wrong
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn main(args: &Args, elements: &Elements) -> Exit {
    let experiment = match experiment::load(&args.file, &args.overrides, elements) {
        Ok(experiment) => experiment,
        Err(errors) => {
            style::tell(errors);
            return Exit::Wrong;
        }
    };
    let plan = &experiment.plan;
    let options = RunOptions {
        out: args.out.clone().unwrap_or_else(|| run::default_out(plan)),
        force: args.force,
        experiment_text: experiment.text,
        experiment_dir: experiment.dir,
    };
    let mut reporter = Reporter::new(plan, args.quiet);
    if !args.quiet {
        plan.warnings
            .iter()
            .for_each(|warning| reporter.warn(warning));
        let ahead = Outlook::warnings_of(plan);
        ahead.iter().for_each(|warning| reporter.warn(warning));
    }
    let outcome = run::run(plan, &options, &mut reporter);
    reporter.finish();
    match outcome {
        Ok(summary) => finished(args, &summary),
        Err(error) => failed(&error),
    }
}

/// Prints the result, and gives the code for it.
fn finished(args: &Args, summary: &Summary) -> Exit {
    let exit = exit_of(summary);
    if args.json {
        style::print(&summary.to_json());
    }
    if !args.quiet || exit != Exit::Done {
        if args.json {
            style::tell(result::text(summary, Style::stderr()).trim_end());
        } else {
            style::print(&result::text(summary, Style::stdout()));
        }
    }
    exit
}

fn exit_of(summary: &Summary) -> Exit {
    match summary.verdict.state {
        _ if summary.failed() => Exit::Failed,
        State::Faithful => Exit::Done,
        State::Degraded | State::Broken => Exit::NotFaithful,
    }
}

/// There is no summary: says why, and what to do where the machine is at fault.
fn failed(error: &RunError) -> Exit {
    style::problem(error);
    match error {
        RunError::Folder(FolderError::EarlierRun(_) | FolderError::NotEmpty(_)) => Exit::Wrong,
        RunError::Sandbox(SandboxError::Forbidden { .. } | SandboxError::Setup(_)) => {
            doctor::explain_failure();
            Exit::Failed
        }
        _ => Exit::Failed,
    }
}
