//! `longhaul report [RUN]`: the result of a run, at any time after it.

use std::path::{Path, PathBuf};

use longhaul_core::Span;
use longhaul_lab::report::{self, Extent, serve::Server};
use longhaul_lab::saved::{self, PartialRun, SavedError, SummaryFile};

use crate::exit::Exit;
use crate::result::{self, Page};
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Examples:
  longhaul report                              the newest run in longhaul-runs
  longhaul report wan-2                        the run in longhaul-runs/wan-2
  longhaul report results/first
  longhaul report --json | jq .verdict.state
  longhaul report --html page.html --window '2 s..2.5 s'
  longhaul report --serve                      in the browser, with every row of the series

Exit codes, the first that applies:
  2  there is no such run, or its summary cannot be read
  1  the run has no summary, because it was killed or is under way (--html and --serve show it
     nevertheless); or the page could not be written or served
  0  the result was shown, whatever the verdict";

/// Show the result of a run: verdict, programs, flows, busiest pipes, drops, files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run folder, a summary.json, or the name of a run in longhaul-runs; the newest there if absent
    run: Option<PathBuf>,
    /// Print summary.json to standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Write a new page of the run to this file, from all of its series; needs no summary
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// Serve the page to browsers on this machine, with every row of the series, until Ctrl-C
    #[arg(long, conflicts_with_all = ["json", "html"])]
    serve: bool,
    /// The port to serve on, at 127.0.0.1; a free one if 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "serve")]
    port: u16,
    /// Put every row of this interval of experiment time into the page, such as '2 s..2.5 s'; may be
    /// repeated
    #[arg(long = "window", value_name = "FROM..TO", value_parser = window)]
    windows: Vec<(u64, u64)>,
}

/// A stretch of experiment time, in nanoseconds.
fn window(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "write it like `2 s..2.5 s`".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let ns = |text: &str| text.trim().parse::<Span>().map(Span::as_ns);
    let parsed = (ns(from), ns(to));
    let (Ok(from), Ok(to)) = parsed else {
        return Err(wrong());
    };
    if from < to {
        Ok((from, to))
    } else {
        Err(format!("`{text}` ends before it begins"))
    }
}

pub(crate) fn main(args: &Args) -> Exit {
    let extent = Extent::whole().with_windows(args.windows.clone());
    if args.html.is_some() || args.serve {
        let folder = match saved::find(args.run.as_deref()) {
            Ok(folder) => report::page_folder(&folder),
            Err(error) => {
                style::problem(style::clean(&error.to_string()));
                return Exit::Wrong;
            }
        };
        return match &args.html {
            Some(file) => write(&folder, file, &extent),
            None => serve(&folder, extent, args.port),
        };
    }
    if !args.windows.is_empty() {
        style::problem("--window needs --html or --serve");
        return Exit::Wrong;
    }
    let shown = saved::find(args.run.as_deref()).and_then(|folder| show(&folder, args.json));
    match shown {
        Ok(()) => Exit::Done,
        Err(error) => {
            style::problem(style::clean(&error.to_string()));
            let SavedError::Unfinished { folder, under_way } = &error else {
                return Exit::Wrong;
            };
            if !args.json {
                style::print(&left(
                    &saved::partial_run(folder),
                    *under_way,
                    Style::stdout(),
                ));
            }
            Exit::Failed
        }
    }
}

/// Writes the page of a run.
fn write(folder: &Path, file: &Path, extent: &Extent) -> Exit {
    let page = report::html(folder, None, extent);
    match std::fs::write(file, page) {
        Ok(()) => {
            style::print(&format!("{}\n", file.display()));
            Exit::Done
        }
        Err(error) => {
            style::problem(format_args!("{}: {error}", file.display()));
            Exit::Failed
        }
    }
}

/// Serves the page of a run until the user interrupts it.
fn serve(folder: &Path, extent: Extent, port: u16) -> Exit {
    match Server::bind(folder, extent, port) {
        Ok(server) => {
            style::print(&format!("{}\n", server.url()));
            style::notice(
                "it can be opened on this machine only, with this address only; Ctrl-C stops serving",
            );
            server.serve();
            Exit::Done
        }
        Err(error) => {
            style::problem(format_args!(
                "cannot serve on port {port}: {error}; choose another with --port"
            ));
            Exit::Failed
        }
    }
}

fn show(folder: &Path, json: bool) -> Result<(), SavedError> {
    let file = SummaryFile::read(folder)?;
    let saved = file.saved()?;
    if json {
        style::print(&style::clean_json(file.text()))
    } else {
        style::print(&result::text(&saved, Style::stdout()))
    }
    Ok(())
}

/// What there is of a run that has no summary.
fn left(run: &PartialRun, under_way: bool, style: Style) -> String {
    let mut page = Page::default();
    let folder = style::clean(&run.folder.display().to_string());
    let name = run.experiment.as_deref().map(style::name);
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    let state = if under_way {
        style.doubtful("under way")
    } else {
        style.bad("cut off")
    };
    page.line("run", format!("{name}: {state}, no summary"));
    if let Some(s) = run.written_for_s {
        let time = style::measured((s * 1e9) as u64);
        page.line(
            "time",
            format!("its files were written over {time} of real time"),
        );
    }
    if let Some(n) = run.seconds {
        let seconds = style::grouped(n);
        page.line(
            "seconds",
            format!("{seconds} of experiment time in {folder}/series/seconds.csv"),
        );
    }
    for group in &run.groups {
        let files = style::number(group.files, "file");
        let bytes = style::bytes(group.bytes);
        page.line(
            group.folder,
            format!("{folder}/{}: {files}, {bytes}", group.folder),
        );
    }
    let attempts = run.attempts.iter();
    let attempts = attempts.map(|path| format!("longhaul report {}", path.display()));
    let attempts: Vec<String> = attempts.map(|text| style::clean(&text)).collect();
    page.list("attempts", attempts, 1, "in the run folder");
    page.text(style)
}
