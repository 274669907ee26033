//! The command line. Each command has a file of its own; this one is the table of contents.
//!
//! Only this crate prints. Results for people and for programs go to standard output, progress
//! and problems to standard error. Names, options and exit codes are described in docs/cli.md.
//!
//! The library is for programs that bring elements of their own (docs/elements.md): they hand
//! them to [`main_with`] and are then `longhaul` with all its commands, and more.
#![forbid(unsafe_code)]

mod calibrate;
mod capture;
mod check;
mod compare;
mod completions;
mod demands;
mod doctor;
mod exec;
mod exit;
mod experiment;
mod flow_groups;
mod get;
mod hosts;
mod labels;
mod list;
mod load;
mod memory;
mod partition;
mod paths;
mod progress;
mod report;
mod resources;
mod result;
mod run;
mod set;
mod sockets;
mod style;
mod top;
mod topology;

use std::process::ExitCode;

use exit::Exit;

use clap::{Parser, Subcommand};

pub use longhaul_core::element::{Action, Element};
pub use longhaul_core::rng::Stream;
pub use longhaul_core::{Span, Time};
pub use longhaul_plan::elements::Elements;

const EXAMPLES: &str = "\
Examples:
  longhaul check wan.yaml                      print what the file means
  longhaul run wan.yaml                        run it
  longhaul run wan.yaml --set links.a-b.delay='20 ms'
  longhaul report                              show the result of the newest run
  longhaul exec a -- ping -c 3 b               run a program on a host of a run under way
  longhaul doctor                              check whether this machine can run experiments

Exit codes, the first that applies:
  2  the experiment file or the command line is wrong
  1  a program of the run, or the run itself, failed
  3  the run finished, but was not faithful
  0  success";

#[derive(Debug, Parser)]
#[command(name = "longhaul", version, about, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Check(check::Args),
    Report(report::Args),
    Compare(compare::Args),
    Exec(exec::Args),
    Capture(capture::Args),
    Set(set::Args),
    Get(get::Args),
    List(list::Args),
    Hosts(hosts::Args),
    Top(top::Args),
    Topology(topology::Args),
    Partition(partition::Args),
    Traffic(sockets::Args),
    Doctor(doctor::Args),
    Calibrate(calibrate::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Load(load::Args),
}

/// Does what the command line says; experiments may name `elements`.
///
/// Call it first thing in `main`, while the process has one thread.
pub fn main_with(elements: Elements) -> ExitCode {
    let exit = match Cli::parse().command {
        Command::Run(args) => run::main(&args, &elements),
        Command::Check(args) => check::main(&args, &elements),
        Command::Report(args) => report::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Exec(args) => exec::main(&args),
        Command::Capture(args) => capture::main(&args),
        Command::Set(args) => set::main(&args),
        Command::Get(args) => get::main(&args),
        Command::List(args) => list::main(&args),
        Command::Hosts(args) => hosts::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Topology(args) => topology::main(&args, &elements),
        Command::Partition(args) => partition::main(&args, &elements),
        Command::Traffic(args) => sockets::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Completions(args) => completions::main(&args),
        Command::Load(args) => load::main(&args),
    };
    match exit {
        Exit::Done | Exit::NotFaithful if style::result_is_lost() => Exit::Failed.into(),
        exit => exit.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
