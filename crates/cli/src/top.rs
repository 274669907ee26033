//! `longhaul top`: how a run is doing, second by second.

use std::io::IsTerminal;
use std::time::Duration;

use longhaul_lab::control::{Control, ControlError, Reply, Request, SimulationNow, Top};

use crate::exit::Exit;
use crate::result;
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Headroom is the share of the last second in which the core had nothing to do: at 0 % it cannot
carry more, and packets come late. Of a run in virtual time it shows the speed, and what its cores and
pipes have done since it began.

Examples:
  longhaul top                                 the only run, until it ends
  longhaul top --once --json | jq .second.headroom
  longhaul top --run two-clusters --pipes 20";

/// Questions are so far apart: a second is seen soon after its end.
const LOOK: Duration = Duration::from_millis(500);
/// Characters of the bar that shows the core's load.
const BAR: usize = 40;
/// Cores that are shown.
const CORES: usize = 32;
/// Clears the screen from the cursor, which it puts at the top.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Watch a run that is under way: its headroom, punctuality and busiest pipes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run, by its experiment's name or its folder; the only one if absent
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
    /// How many pipes to show, the busiest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pipes: usize,
    /// Show it once instead of every second
    #[arg(long)]
    once: bool,
    /// Print JSON, one object a second
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Exit {
    match watch(args) {
        Ok(()) => Exit::Done,
        Err(error) => {
            style::problem(&error);
            crate::exec::exit_of(&error)
        }
    }
}

/// Shows the run each second until it ends, which is no error.
fn watch(args: &Args) -> Result<(), ControlError> {
    let control = Control::connect(args.run.as_deref())?;
    let request = Request::Top { pipes: args.pipes };
    let redraw = !args.once && !args.json && std::io::stdout().is_terminal();
    let mut shown = None;
    loop {
        let top = match control.ask(&request, &[]) {
            Ok(Reply::Top(top)) => top,
            Ok(_) => return Err(ControlError::Ended),
            Err(ControlError::Ended) if shown.is_some() => return Ok(()),
            Err(ControlError::Io { .. }) if shown.is_some() => return Ok(()),
            Err(error) => return Err(error),
        };
        // Each second once: a question may come before the next one is over. In virtual time, each
        // time that has been reached.
        let second = match (&top.simulation, top.second) {
            (Some(_), _) => Some(top.time_s.to_bits()),
            (None, second) => second.map(|second| second.number),
        };
        if shown != Some(second) {
            let text = match args.json {
                true => style::json(&serde_json::json!(top)),
                false => page(&top, Style::stdout()),
            };
            style::print(&format!("{}{text}", if redraw { CLEAR } else { "" }));
            shown = Some(second);
        }
        if args.once || !control.pause(LOOK) {
            return Ok(());
        }
    }
}

/// One second as a page.
fn page(top: &Top, style: Style) -> String {
    let of = top
        .duration_s
        .map_or(String::new(), |duration| format!(" of {duration} s"));
    let verdict = match top.verdict.as_str() {
        "faithful" => style.good("faithful"),
        "degraded" => style.doubtful("degraded"),
        other => style.bad(other),
    };
    let name = style::clean(&top.experiment);
    let mut text = format!("{name}: {:.1} s{of}, {verdict}\n", top.time_s);
    for reason in &top.reasons {
        text += &format!("  {}\n", style.dim(style::clean(reason)));
    }
    if let Some(simulation) = &top.simulation {
        text += &simulated(simulation);
        return with_pipes(text, top, ["PACKETS", "BYTES", "USED", "LOST"]);
    }
    let Some(second) = &top.second else {
        return text + "the first second is not over yet\n";
    };
    let filled = (second.core_load.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let bar = format!("[{:<BAR$}]", "|".repeat(filled));
    let late = &second.lateness_ns;
    let rows = [
        (
            "headroom",
            format!("{bar} {:.0} %", second.headroom * 100.0),
        ),
        ("packets/s", style::grouped(second.packets)),
        (
            "lateness",
            format!(
                "p50 {}, p99 {}, p99.9 {}",
                style::measured(late.p50),
                style::measured(late.p99),
                style::measured(late.p999)
            ),
        ),
        ("late packets", style::grouped(second.late)),
        (
            "lost by machine",
            style::grouped(second.physical_drops.total()),
        ),
        ("inside", style::grouped(second.inside)),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    text += &style::table(&rows);
    with_pipes(text, top, ["PACKETS/S", "BYTES/S", "USED", "LOST/S"])
}

/// A run in virtual time: its speed, and what its cores have done since it began.
fn simulated(now: &SimulationNow) -> String {
    let mut rows = vec![
        (
            "speed",
            format!(
                "{:.2} times real time, {} packet-hops/s",
                now.speed,
                style::short(now.hops_per_s as u64)
            ),
        ),
        (
            "flows",
            format!(
                "{}/{} ended",
                style::grouped(now.flows_done),
                style::grouped(now.flows)
            ),
        ),
    ];
    if let Some(partition) = &now.partition {
        rows.push(("cores", result::cores(now.cores.len(), partition)));
        rows.push(("load", result::load(partition)));
    }
    let rows = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value]);
    let text = style::table(&rows.collect::<Vec<_>>());
    if now.partition.is_none() {
        return text;
    }
    let head = ["CORE", "PIPES", "PACKETS", "CROSSING", "BUSY"].map(str::to_owned);
    let cores = now
        .cores
        .iter()
        .enumerate()
        .take(CORES)
        .map(|(number, core)| {
            vec![
                number.to_string(),
                style::grouped(core.pipes as u64),
                style::grouped(core.packets),
                style::grouped(core.cross_core),
                style::percent(core.busy),
            ]
        });
    let rows: Vec<Vec<String>> = std::iter::once(head.to_vec()).chain(cores).collect();
    format!("{text}\n{}", style::table(&rows))
}

/// The page with its busiest pipes, if there are any.
fn with_pipes(text: String, top: &Top, columns: [&str; 4]) -> String {
    if top.pipes.is_empty() {
        return text;
    }
    let head = std::iter::once("PIPE").chain(columns).map(str::to_owned);
    let pipes = top.pipes.iter().map(|pipe| {
        let used = pipe
            .utilisation
            .map_or("-".to_owned(), |used| format!("{:.0} %", used * 100.0));
        vec![
            style::clean(&pipe.name),
            style::grouped(pipe.packets),
            style::bytes(pipe.bytes),
            used,
            style::grouped(pipe.drops),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head.collect()).chain(pipes).collect();
    format!("{text}\n{}", style::table(&rows))
}
