//! `longhaul list`: the runs under way.

use longhaul_lab::control;

use crate::exit::Exit;
use crate::style;

/// List the runs that are under way
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Exit {
    let runs = control::running();
    if args.json {
        style::print(&style::json(&serde_json::json!(runs)));
        return Exit::Done;
    }
    if runs.is_empty() {
        style::notice("no run is under way");
        return Exit::Done;
    }
    let head = ["EXPERIMENT", "TIME", "VERDICT", "HOSTS", "FOLDER"]
        .map(str::to_owned)
        .to_vec();
    let rows = runs.iter().map(|run| {
        vec![
            run.experiment.clone(),
            format!("{:.1} s", run.time_s),
            run.verdict.clone(),
            run.hosts.len().to_string(),
            run.run.display().to_string(),
        ]
    });
    style::print(&style::table(
        &std::iter::once(head).chain(rows).collect::<Vec<_>>(),
    ));
    Exit::Done
}
