//! `longhaul compare RUN RUN…`: two runs side by side, or several with the noise of repeats.

mod noise;

use std::cmp::Ordering;
use std::path::PathBuf;

use longhaul_lab::compare::{self, Comparison, Figures, Pair, several};
use longhaul_lab::report::{self, Extent};
use serde_json::json;

use crate::exit::Exit;
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Examples:
  longhaul compare longhaul-runs/wan longhaul-runs/wan-2
  longhaul compare real virtual --tolerance '1 %'
  longhaul compare a b --json | jq '.flows[] | select(.agrees | not)'
  longhaul compare old-1 old-2 old-3 new-1 new-2 new-3 --html both.html

Two runs differ if a flow differs by more than the tolerance and the median lateness does not
explain it, or if drops or retransmissions differ by more than the tolerance and more than by
chance. Of three runs or more, repeats of an experiment show the noise of each figure; the runs
differ if any figure differs by more than that.

Exit codes:
  2  the command line is wrong, or a folder holds no finished run
  1  the runs differ, or the page could not be written
  0  the runs agree, or there are three or more without repeats, so that the noise is unknown";

/// Rows of a list that are shown; `--json` shows all.
const ROWS: usize = 20;

/// Compare the flows, pipes and drops of runs; repeats tell differences from noise
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The first run: its folder, its summary.json, or its name in longhaul-runs
    first: PathBuf,
    /// The second run, named in the same way
    second: PathBuf,
    /// More runs; those of one experiment file, whatever their seeds, are repeats of each other
    more: Vec<PathBuf>,
    /// Write a web page that compares all runs to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How much completion times, goodputs of endless flows, drops and retransmissions may differ
    #[arg(long, value_name = "PERCENT", default_value = "1 %", value_parser = percent)]
    tolerance: f64,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim);
    let number: Option<f64> = number.and_then(|number| number.parse().ok());
    let number = number.filter(|number| (0.0..=10_000.0).contains(number));
    number
        .map(|number| number / 100.0)
        .ok_or_else(|| "write a percentage, like `1 %`".to_owned())
}

pub(crate) fn main(args: &Args) -> Exit {
    let mut runs = vec![args.first.clone(), args.second.clone()];
    runs.extend(args.more.iter().cloned());
    if runs.len() > several::RUNS_MAX {
        style::problem(format_args!(
            "{} runs are too many: name at most {}",
            runs.len(),
            several::RUNS_MAX
        ));
        return Exit::Wrong;
    }
    if runs.len() > 2 || args.html.is_some() {
        let found = match several::several(&runs) {
            Ok(found) => found,
            Err(error) => {
                style::problem(style::clean(&error.to_string()));
                return Exit::Wrong;
            }
        };
        if let Some(file) = &args.html {
            let page = report::compared(&found, &Extent::whole());
            if let Err(error) = std::fs::write(file, page) {
                style::problem(format_args!("{}: {error}", file.display()));
                return Exit::Failed;
            }
            style::notice(format_args!(
                "page written to {}",
                style::clean(&file.display().to_string())
            ));
        }
        if runs.len() > 2 {
            return noise::show(&found, args.json);
        }
    }
    let read = |path: &PathBuf| {
        compare::read(path).map_err(|error| {
            style::problem(style::clean(&error.to_string()));
            Exit::Wrong
        })
    };
    let (first, second) = match (read(&args.first), read(&args.second)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(exit), _) | (_, Err(exit)) => return exit,
    };
    let found = compare::compare(first, second, args.tolerance);
    if args.json {
        style::print(&style::json(&json!(found)));
    } else {
        style::print(&text(&found));
    }
    if found.agree {
        Exit::Done
    } else {
        Exit::Failed
    }
}

fn text(found: &Comparison) -> String {
    let style = Style::stdout();
    let mut text = style::table(&runs(found));
    let mut section = |title: &str, rows: Vec<Vec<String>>, more: usize| {
        if rows.len() > 1 {
            text.push_str(&format!("\n{}\n{}", style.bold(title), style::table(&rows)));
            if more > 0 {
                text.push_str(&format!("  … and {more} more (all with --json)\n"));
            }
        }
    };
    section("traffic", groups(found), 0);
    let (rows, more) = flows(found);
    section("flows, largest difference first", rows, more);
    let (rows, more) = pipes(found);
    section("pipes, largest difference first", rows, more);
    let share = format!("{} %", found.tolerance * 100.0);
    let explained = found.flows.iter().filter(|flow| flow.explained).count();
    let explained = match explained {
        0 => String::new(),
        n => format!("; lateness explains {}", style::number(n, "flow")),
    };
    let word = if found.agree {
        style.good("the runs agree")
    } else {
        style.bad("the runs differ")
    };
    text.push_str(&format!("\n{word} (tolerance {share}{explained})\n"));
    for reason in &found.reasons {
        text.push_str(&format!("  - {}\n", style::clean(reason)));
    }
    text
}

fn runs(found: &Comparison) -> Vec<Vec<String>> {
    let row = |name: &str, value: &dyn Fn(&Figures) -> String| {
        let [a, b] = [0, 1].map(|run| style::clean(&value(&found.runs[run])));
        vec![name.to_owned(), a, b]
    };
    let hash = |run: &Figures| run.trace_hash.clone().unwrap_or_else(|| "—".to_owned());
    let mut rows = vec![
        row("run", &|run| run.run.clone()),
        row("experiment", &|run| run.experiment.clone()),
        row("clock", &|run| run.clock.clone()),
        row("seed", &|run| run.seed.to_string()),
        row("verdict", &|run| run.verdict.state.name().to_owned()),
        row("lateness, median", &|run| {
            let lateness = run.verdict.lateness_ns;
            lateness.map_or("—".to_owned(), |lateness| style::measured(lateness.p50))
        }),
        row("lateness, worst", &|run| {
            let lateness = run.verdict.lateness_ns;
            lateness.map_or("—".to_owned(), |lateness| style::measured(lateness.max))
        }),
        row("experiment time", &|run| {
            format!("{:.3} s", run.simulated_s)
        }),
        row("packets", &|run| style::grouped(run.packets.entered)),
        row("delivered", &|run| style::grouped(run.packets.delivered)),
        row("flows", &|run| style::grouped(run.flows_seen)),
        row("trace hash", &hash),
    ];
    if let Some(last) = rows.last_mut() {
        let same = match found.same_trace {
            Some(true) => "same",
            Some(false) => "different",
            None => "",
        };
        last.push(same.to_owned());
    }
    rows
}

fn groups(found: &Comparison) -> Vec<Vec<String>> {
    let mut rows = vec![head(&["", "first", "second", "difference"])];
    for group in &found.flow_groups {
        let mut row = |what: &str, pair: &Pair, show: fn(f64) -> String| {
            rows.push(vec![
                format!("{} {what}", style::name(&group.name)),
                show(pair.first),
                show(pair.second),
                difference(pair),
            ]);
        };
        row("finished", &group.finished, count);
        row("payload", &group.bytes, bytes);
        let times = [
            ("completion, mean", &group.completion_mean_s),
            ("completion, p50", &group.completion_p50_s),
            ("completion, p99", &group.completion_p99_s),
        ];
        for (what, pair) in times {
            if let Some(pair) = pair {
                row(what, pair, seconds);
            }
        }
        row("goodput, mean", &group.goodput_bps, rate);
        if let Some(jain) = &group.jain {
            row("Jain's index", jain, |value| format!("{value:.4}"));
        }
    }
    rows
}

fn flows(found: &Comparison) -> (Vec<Vec<String>>, usize) {
    let mut rows = vec![head(&["flow", "completion", "", "", "goodput", "", "", ""])];
    let mut list: Vec<_> = found.flows.iter().collect();
    let by = |flow: &longhaul_lab::compare::FlowPair| flow.completion_s.unwrap_or(flow.goodput_bps);
    list.sort_by(|a, b| (a.agrees.cmp(&b.agrees)).then(more_apart(&by(a), &by(b))));
    for flow in list.iter().take(ROWS) {
        let time = |pick: fn(&Pair) -> f64| {
            let time = flow.completion_s.as_ref();
            time.map_or("—".to_owned(), |pair| seconds(pick(pair)))
        };
        rows.push(vec![
            style::name(&flow.name),
            time(|pair| pair.first),
            time(|pair| pair.second),
            flow.completion_s.as_ref().map_or(String::new(), difference),
            rate(flow.goodput_bps.first),
            rate(flow.goodput_bps.second),
            difference(&flow.goodput_bps),
            match (flow.agrees, flow.explained) {
                (false, _) => "differs".to_owned(),
                (true, true) => "explained by lateness".to_owned(),
                (true, false) => String::new(),
            },
        ]);
    }
    (rows, list.len().saturating_sub(ROWS))
}

fn pipes(found: &Comparison) -> (Vec<Vec<String>>, usize) {
    let mut rows = vec![head(&["pipe", "packets", "", "", "drops", "", "", ""])];
    let mut list: Vec<_> = found.pipes.iter().collect();
    list.sort_by(|a, b| (a.agrees.cmp(&b.agrees)).then(more_apart(&a.packets, &b.packets)));
    for pipe in list.iter().take(ROWS) {
        rows.push(vec![
            style::name(&pipe.name),
            count(pipe.packets.first),
            count(pipe.packets.second),
            difference(&pipe.packets),
            count(pipe.drops.first),
            count(pipe.drops.second),
            difference(&pipe.drops),
            if pipe.agrees {
                String::new()
            } else {
                "differs".to_owned()
            },
        ]);
    }
    (rows, list.len().saturating_sub(ROWS))
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Larger differences first.
fn more_apart(a: &Pair, b: &Pair) -> Ordering {
    let apart = |pair: &Pair| pair.difference.map_or(f64::INFINITY, f64::abs);
    apart(b).total_cmp(&apart(a))
}

fn difference(pair: &Pair) -> String {
    match pair.difference {
        Some(0.0) => "same".to_owned(),
        Some(share) => format!("{:+.3} %", share * 100.0),
        None => "new".to_owned(),
    }
}

fn count(value: f64) -> String {
    style::grouped(value as u64)
}

fn bytes(value: f64) -> String {
    style::bytes(value as u64)
}

fn seconds(value: f64) -> String {
    style::measured((value * 1e9) as u64)
}

fn rate(value: f64) -> String {
    format!("{}bit/s", style::short(value as u64))
}
