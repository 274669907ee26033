//! A run second by second as plain text: on a terminal that can do no more, into pipes and files, and as JSON.

use std::io::IsTerminal;
use std::time::Duration;

use longhaul_lab::control::{Control, ControlError, Reply, Request, SimulationNow, Top};

use super::Args;
use crate::result;
use crate::style::{self, Style};

/// Interval of requests: short enough that a second is shown soon after its end.
const REFRESH: Duration = Duration::from_millis(500);
/// Characters of the bar that shows the core's load.
const BAR: usize = 40;
/// Cores that are shown.
const CORES: usize = 32;
/// Clears the screen from the cursor, which it puts at the top.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shows the run each second until it ends, which is not an error.
pub(super) fn watch(args: &Args) -> Result<(), ControlError> {
    let control = Control::connect(args.run.as_deref())?;
    let request = Request::Top {
        limit: args.pipes,
        by: args.by.into(),
    };
    let is_screen = std::io::stdout().is_terminal() && !style::is_dumb();
    let redraw = !args.once && !args.json && is_screen;
    let mut shown = None;
    loop {
        let top = match control.ask(&request, &[]) {
            Ok(Reply::Top(top)) => top,
            Ok(_) => return Err(ControlError::Ended),
            Err(ControlError::Ended) if shown.is_some() => return Ok(()),
            Err(ControlError::Io { .. }) if shown.is_some() => return Ok(()),
            Err(error) => return Err(error),
        };
        let second = super::moment(&top);
        if shown != Some(second) {
            let text = if args.json {
                style::json(&serde_json::json!(top))
            } else {
                page(&top, Style::stdout())
            };
            style::print(&format!("{}{text}", if redraw { CLEAR } else { "" }));
            shown = Some(second);
        }
        if args.once || !control.pause(REFRESH) {
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
        return with_pipes(text, top, ["PACKETS", "BYTES", "USED", "LOST", "WAITING"]);
    }
    let Some(second) = &top.second else {
        return text + "no figures yet: they appear after the first second\n";
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
    with_pipes(
        text,
        top,
        ["PACKETS/S", "BYTES/S", "USED", "LOST/S", "WAITING"],
    )
}

/// A run in virtual time: its speed, and what its cores have done since it began.
fn simulated(now: &SimulationNow) -> String {
    let mut rows = vec![
        (
            "speed",
            format!(
                "{:.2} x real time, {} packet-hops/s",
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
fn with_pipes(text: String, top: &Top, columns: [&str; 5]) -> String {
    if top.pipes.is_empty() {
        return text;
    }
    let head = std::iter::once("PIPE").chain(columns).map(str::to_owned);
    let pipes = top.pipes.iter().map(|pipe| {
        let used = pipe
            .utilisation
            .map_or("-".to_owned(), |used| format!("{:.0} %", used * 100.0));
        vec![
            style::name(&pipe.name),
            style::grouped(pipe.packets),
            style::bytes(pipe.bytes),
            used,
            style::grouped(pipe.drops),
            pipe.backlog_bytes.map_or("-".to_owned(), style::bytes),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head.collect()).chain(pipes).collect();
    format!("{text}\n{}", style::table(&rows))
}
