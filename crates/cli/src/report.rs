//! `longhaul report [RUN]`: what came of a run, at any time after it.

use std::path::{Path, PathBuf};

use longhaul_lab::saved::{self, Remains, SavedError, SummaryFile};

use crate::exit::Exit;
use crate::result::{self, Page};
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Examples:
  longhaul report                              the newest run in longhaul-runs
  longhaul report wan-2                        the run in longhaul-runs/wan-2
  longhaul report results/first
  longhaul report --json | jq .verdict.state

Exit codes, the first that applies:
  2  there is no such run, or its summary cannot be read
  1  the run has no summary: it was killed, or is under way
  0  shown, whatever the verdict";

/// Show what came of a run: verdict, programs, flows, busiest pipes, drops, and where the rest lies
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run folder, its summary.json, or the name of a run in longhaul-runs; the newest there if absent
    run: Option<PathBuf>,
    /// Print the content of summary.json, and nothing else, to standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Exit {
    let shown = saved::find(args.run.as_deref()).and_then(|folder| show(&folder, args.json));
    match shown {
        Ok(()) => Exit::Done,
        Err(error) => {
            style::problem(style::clean(&error.to_string()));
            let SavedError::Unfinished { folder, under_way } = &error else {
                return Exit::Wrong;
            };
            if !args.json {
                style::print(&left(&saved::remains(folder), *under_way, Style::stdout()));
            }
            Exit::Failed
        }
    }
}

fn show(folder: &Path, json: bool) -> Result<(), SavedError> {
    let file = SummaryFile::read(folder)?;
    let saved = file.saved()?;
    match json {
        true => style::print(&style::clean_json(file.text())),
        false => style::print(&result::text(&saved, Style::stdout())),
    }
    Ok(())
}

/// What there is of a run that has no summary.
fn left(remains: &Remains, under_way: bool, style: Style) -> String {
    let mut page = Page::default();
    let folder = style::clean(&remains.folder.display().to_string());
    let name = remains.experiment.as_deref().map(style::name);
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    let state = match under_way {
        true => style.doubtful("under way"),
        false => style.bad("cut off"),
    };
    page.line("run", format!("{name}: {state}, no summary"));
    if let Some(s) = remains.written_for_s {
        let time = style::measured((s * 1e9) as u64);
        page.line(
            "time",
            format!("files were written for {time} of real time"),
        );
    }
    if let Some(n) = remains.seconds {
        let seconds = style::grouped(n);
        page.line(
            "seconds",
            format!("{seconds} of the experiment in {folder}/series/seconds.csv"),
        );
    }
    for group in &remains.groups {
        let files = style::number(group.files, "file");
        let bytes = style::bytes(group.bytes);
        page.line(
            group.folder,
            format!("{folder}/{}: {files}, {bytes}", group.folder),
        );
    }
    let attempts = remains.attempts.iter();
    let attempts = attempts.map(|path| format!("longhaul report {}", path.display()));
    let attempts: Vec<String> = attempts.map(|text| style::clean(&text)).collect();
    page.list("attempts", attempts, 1, "attempts with a summary");
    page.text(style)
}
