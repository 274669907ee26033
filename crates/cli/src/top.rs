//! `longhaul top`: how a run is doing, second by second: as a screen where there is a terminal, else as text.

mod draw;
mod plain;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod watcher;

use longhaul_lab::control::{Order, Top};

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
Headroom is the share of the last second in which the core was idle: at 0 % it cannot carry more,
and packets are late. For a run in virtual time, top shows the speed, and totals of cores and pipes
since the beginning.

On a terminal it fills the screen: r, u, d and b sort the pipes, arrows scroll, ? shows all keys,
q quits; the run goes on. Into a pipe or file it writes one report a second.

Examples:
  longhaul top                                 the only run, until it ends
  longhaul top --by backlog                    the longest queues first
  longhaul top --once --json | jq .second.headroom
  longhaul top --run two-clusters --pipes 20 | cat";

/// Watch a run that is under way: headroom, lateness and the busiest pipes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: its experiment's name or its folder; needed only if several are under way
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
    /// How many pipes to show, the busiest first; the full screen shows as many as fit
    #[arg(long, value_name = "N", default_value_t = 10)]
    pipes: usize,
    /// What to sort pipes by
    #[arg(long, value_enum, default_value_t = By::Rate)]
    by: By,
    /// Print one report instead of one a second
    #[arg(long)]
    once: bool,
    /// Print JSON: one object a second
    #[arg(long)]
    json: bool,
}

/// What pipes are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Bytes that left them
    Rate,
    /// Share of the time in which they were sending
    Utilisation,
    /// Packets dropped in them
    Drops,
    /// Bytes waiting in their queues
    Backlog,
}

impl From<By> for Order {
    fn from(by: By) -> Self {
        match by {
            By::Rate => Self::Rate,
            By::Utilisation => Self::Utilisation,
            By::Drops => Self::Drops,
            By::Backlog => Self::Backlog,
        }
    }
}

pub(crate) fn main(args: &Args) -> Exit {
    let watched = if screen::is_possible() && !args.once && !args.json {
        screen::watch(args)
    } else {
        plain::watch(args).map(|()| Exit::Done)
    };
    watched.unwrap_or_else(|error| {
        style::problem(style::clean(&error.to_string()));
        crate::exec::exit_of(&error)
    })
}

/// What distinguishes an answer from the one before: the second that it describes, or in virtual time the time
/// that has been reached; `None` in the first second.
fn moment(top: &Top) -> Option<u64> {
    match (&top.simulation, top.second) {
        (Some(_), _) => Some(top.time_s.to_bits()),
        (None, second) => second.map(|second| second.number),
    }
}
