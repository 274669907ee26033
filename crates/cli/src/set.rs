//! `longhaul set LINK key=value …`: changes a link of a run that is under way.

use longhaul_lab::control::{Control, Reply, Request};

use crate::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul set ga-gb delay='50 ms'             both directions of the link
  longhaul set 'ga>gb' rate='10 Mbit/s' loss='1 %'
  longhaul set ga-gb rate=unlimited

The parameters are those of the file: rate, delay, loss, queue. They hold for packets that enter
the link from then on.";

/// Change a link of a run that is under way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The link x-y (both directions) or the pipe 'x>y' (one)
    link: String,
    /// What to change
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = assignment)]
    values: Vec<(String, String)>,
    /// The run, by its experiment's name or its folder; the only one if absent
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
}

pub(crate) fn main(args: &Args) -> Exit {
    let values = args.values.iter().cloned().collect();
    let request = Request::Set {
        link: args.link.clone(),
        values,
    };
    let ask = || Control::connect(args.run.as_deref())?.ask(&request, &[]);
    match ask() {
        Ok(Reply::Set { pipes, at_s }) => {
            style::print(&format!("{} changed at {at_s:.6} s\n", pipes.join(", ")));
            Exit::Done
        }
        Ok(other) => {
            style::problem(format!(
                "the run gave an answer to something else: {other:?}"
            ));
            Exit::Failed
        }
        Err(error) => {
            style::problem(&error);
            crate::exec::exit_of(&error)
        }
    }
}

/// A parameter and its value.
fn assignment(text: &str) -> Result<(String, String), String> {
    crate::experiment::pair(text).map_err(|_| "write it like `delay=5 ms`".to_owned())
}
