//! `longhaul calibrate`: measures this machine, shows what it can do, and keeps it in a file.

mod tables;

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul_lab::calibrate::fit::{LimitedBy, Region};
use longhaul_lab::calibrate::{self, Between, CalibrateError, Calibration, CoreCosts, Step, Tcp};
use longhaul_lab::fidelity::{Quantiles, State};
use longhaul_lab::noise::Noise;
use longhaul_lab::run::RunError;
use longhaul_linux::sandbox::SandboxError;

use crate::doctor;
use crate::exit::Exit;
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Examples:
  longhaul calibrate                        takes minutes; nothing else should run meanwhile
  longhaul calibrate --quick                takes seconds, and is less exact
  longhaul calibrate --json --out here.json | jq .region
  longhaul calibrate --markdown machine.md  hardware, system and bandwidth for a paper or a report

`longhaul check` and `longhaul run` compare experiments with the result. It is written to
$XDG_STATE_HOME/longhaul/calibration.json (~/.local/state if unset), or to the file that
LONGHAUL_CALIBRATION names. docs/calibration.md explains every figure.";

/// The steps of the bar.
const STEPS: u64 = 1000;

/// Measure what this machine can carry faithfully
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Take seconds instead of minutes; less exact
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON to standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Write the result to this file instead of the default one
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the tables of hardware, system and bandwidth end to end to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) fn main(args: &Args) -> Exit {
    // Fails for want of a place before the measurement, which takes minutes.
    let Some(place) = args.out.clone().or_else(calibrate::place) else {
        style::problem("there is no home folder to write the result to: name a file with --out");
        return Exit::Wrong;
    };
    let progress = Progress::new();
    let result = calibrate::measure(args.quick, &mut |part, what| progress.report(part, what));
    progress.finish();
    let calibration = match result {
        Ok(calibration) => calibration,
        Err(error) => return failed(&error),
    };
    if args.json {
        style::print(&calibration.to_json());
    } else {
        style::print(&text(&calibration, Style::stdout()));
    }
    if let Some(path) = &args.markdown
        && let Err(error) = std::fs::write(path, tables::markdown(&calibration))
    {
        style::problem(format_args!("writing {}: {error}", path.display()));
        return Exit::Failed;
    }
    match calibration.save(&place) {
        Ok(()) => {
            style::notice(format_args!("written to {}", place.display()));
            Exit::Done
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &CalibrateError) -> Exit {
    style::problem(error);
    if let CalibrateError::Run(RunError::Sandbox(
        SandboxError::Forbidden { .. } | SandboxError::Setup(_),
    )) = error
    {
        doctor::explain_failure();
    }
    Exit::Failed
}

/// A bar on a terminal, plain lines elsewhere.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("[{bar:20}] {wide_msg}") {
                Ok(style) => bar.with_style(style.progress_chars("=> ")),
                Err(_) => bar,
            }
        });
        Self(bar)
    }

    fn report(&self, part: f64, what: &str) {
        match &self.0 {
            Some(bar) => {
                bar.set_position((part * STEPS as f64) as u64);
                bar.set_message(format!("calibrating: {what}"));
            }
            None => style::notice(format_args!("calibrating: {:3.0} %, {what}", part * 100.0)),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn text(calibration: &Calibration, style: Style) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: String| {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{gap}{}\n{body}", style.bold(title));
    };
    for table in tables::all(calibration) {
        section(table.title, style::table(&table.rows));
    }
    if let Some(measured) = &calibration.noise {
        section("noise: stalls of the idle machine", noise(measured));
    }
    section(
        "timer: how late the kernel wakes a thread",
        timer(calibration),
    );
    let steps = |steps: &[Step]| steps_table(steps);
    section(
        "lateness at given packet rates",
        steps(&calibration.lateness),
    );
    section("packet rates at full speed", steps(&calibration.throughput));
    section("one TCP connection", tcp(&calibration.tcp));
    section("hosts", hosts(calibration));
    section("memory", memory(calibration));
    section("highest faithful packet rates", region(&calibration.region));
    if let Some(measured) = &calibration.costs {
        section("costs of virtual runs on several threads", costs(measured));
    }
    if calibration.quick {
        text.push_str("\nThis was a quick calibration: its figures are rough.\n");
    }
    text
}

fn noise(noise: &Noise) -> String {
    let mut rows = vec![head(&[
        "CPU",
        "stalls a minute",
        "long stalls",
        "longest",
        "of the time",
    ])];
    rows.extend(noise.cpus.iter().map(|cpu| {
        let stalls = cpu.stalls;
        let share = stalls.total_ns as f64 / 1e9 / noise.seconds.max(1e-9);
        vec![
            cpu.cpu.to_string(),
            format!("{:.0}", noise.per_minute(stalls.count)),
            format!("{:.0}", noise.per_minute(stalls.long)),
            style::measured(stalls.longest_ns),
            format!("{:.3} %", 100.0 * share),
        ]
    }));
    format!(
        "{}  a stall is a gap of more than {} between two readings of the clock, a long stall one of {} \
         or more;\n  measured for {:.0} s, in which the hypervisor took {} from all CPUs\n",
        style::table(&rows),
        style::measured(noise.threshold_ns),
        style::measured(noise.long_ns),
        noise.seconds,
        style::measured(noise.stolen_ns),
    )
}

fn timer(calibration: &Calibration) -> String {
    let timer = &calibration.timer;
    let l = &timer.late_ns;
    let rows = [
        vec!["wake-ups", "p50", "p99", "p99.9", "worst"]
            .into_iter()
            .map(str::to_owned)
            .collect(),
        vec![
            style::grouped(timer.wakeups),
            style::measured(l.p50),
            style::measured(l.p99),
            style::measured(l.p999),
            style::measured(l.max),
        ],
    ];
    style::table(&rows)
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Verdict, lateness, physical drops and load of a run.
fn health(state: State, lateness: &Quantiles, drops: u64, busy: f64) -> Vec<String> {
    vec![
        style::measured(lateness.p50),
        style::measured(lateness.p99),
        style::measured(lateness.p999),
        style::grouped(drops),
        format!("{:.0} %", busy * 100.0),
        state.name().to_owned(),
    ]
}

const HEALTH: [&str; 6] = ["late p50", "p99", "p99.9", "lost", "core", "verdict"];

fn steps_table(steps: &[Step]) -> String {
    let mut names = vec!["hops", "bytes", "asked", "sent", "delivered"];
    names.extend(HEALTH);
    let row = |step: &Step| {
        let asked = step.asked_packets_per_s;
        let mut row = vec![
            step.hops.to_string(),
            step.packet_bytes.to_string(),
            asked.map_or("max".to_owned(), style::short),
            style::short(step.sent_packets_per_s as u64),
            style::short(step.delivered_packets_per_s as u64),
        ];
        row.extend(health(
            step.state,
            &step.lateness_ns,
            step.physical_drops,
            step.core_busy,
        ));
        row
    };
    let rows: Vec<_> = std::iter::once(head(&names))
        .chain(steps.iter().map(row))
        .collect();
    style::table(&rows)
}

fn tcp(all: &[Tcp]) -> String {
    let mut names = vec!["hops", "MTU", "rate"];
    names.extend(HEALTH);
    let row = |tcp: &Tcp| {
        let mut row = vec![
            tcp.hops.to_string(),
            tcp.mtu.to_string(),
            tables::rate(tcp.bits_per_s),
        ];
        row.extend(health(
            tcp.state,
            &tcp.lateness_ns,
            tcp.physical_drops,
            tcp.core_busy,
        ));
        row
    };
    let rows: Vec<_> = std::iter::once(head(&names))
        .chain(all.iter().map(row))
        .collect();
    style::table(&rows)
}

fn seconds(seconds: f64) -> String {
    style::measured((seconds * 1e9) as u64)
}

fn hosts(calibration: &Calibration) -> String {
    let row = |all: &calibrate::Hosts| {
        vec![
            style::grouped(all.hosts.into()),
            seconds(all.setup_s),
            seconds(all.setup_per_host_s),
            seconds(all.teardown_s),
        ]
    };
    let names = head(&["hosts", "set-up", "each", "tear-down"]);
    let rows: Vec<_> = std::iter::once(names)
        .chain(calibration.hosts.iter().map(row))
        .collect();
    style::table(&rows)
}

fn memory(calibration: &Calibration) -> String {
    let memory = &calibration.memory;
    let host = memory.host_bytes.map_or("unknown".to_owned(), style::bytes);
    let rows = [
        ("a host", host),
        ("a packet", style::bytes(memory.packet_bytes)),
        (
            "a packet at MTU 9000",
            style::bytes(memory.jumbo_packet_bytes),
        ),
    ];
    style::table(&rows.map(|(name, value)| vec![name.to_owned(), value]))
}

fn costs(costs: &CoreCosts) -> String {
    let ns = |ns: f64| style::measured(ns.round() as u64);
    let between = |of: fn(&Between) -> f64| {
        let measured = costs.between.as_ref().map(of);
        measured.map_or("not measured: this machine has one CPU".to_owned(), ns)
    };
    let rows = [
        ("a hop", ns(costs.hop_ns)),
        ("an end", ns(costs.end_ns)),
        ("a crossing", between(|between| between.crossing_ns)),
        ("a window", between(|between| between.window_ns)),
    ];
    style::table(&rows.map(|(name, value)| vec![name.to_owned(), value]))
}

const DISTURBED: &str = "  the measurement was disturbed: packets were late although the core was \
                         not busy; calibrate\n  again when nothing else runs, and see what \
                         `longhaul doctor` says\n";

const fn limited_by(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::Core => "the core",
        LimitedBy::Sender => "the sender; the core may carry more",
        LimitedBy::Nothing => "none found; the core may carry more",
        LimitedBy::Noise => "noise; left out of the model",
    }
}

fn region(region: &Region) -> String {
    if region.points.is_empty() {
        return format!("  none: no run was faithful\n{DISTURBED}");
    }
    let names = head(&["hops", "MTU", "packets/s", "model", "residual", "limit"]);
    let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
    let rows = region.points.iter().map(|point| {
        let fitted = point.fitted_packets_per_s;
        let residual = point.residual.map(|part| format!("{:+.0} %", part * 100.0));
        vec![
            point.hops.to_string(),
            point.mtu.to_string(),
            style::short(point.packets_per_s as u64),
            or_none(fitted.map(|rate| style::short(rate as u64))),
            or_none(residual),
            limited_by(point.limited_by).to_owned(),
        ]
    });
    let rows: Vec<_> = std::iter::once(names).chain(rows).collect();
    let cost = &region.cost;
    let mut text = style::table(&rows);
    if region
        .points
        .iter()
        .any(|p| p.limited_by == LimitedBy::Noise)
    {
        text.push_str(DISTURBED);
    }
    if cost.is_sound() {
        let _ = writeln!(
            text,
            "  a packet costs {:.0} ns + {:.0} ns a hop + {:.2} ns a byte",
            cost.entry_ns, cost.hop_ns, cost.byte_ns
        );
    }
    if let Some(floor) = &region.floor_ns {
        let _ = writeln!(
            text,
            "  lowest lateness: p50 {}, p99 {}, p99.9 {} (tolerance {})",
            style::measured(floor.p50),
            style::measured(floor.p99),
            style::measured(floor.p999),
            style::measured(region.tolerance_ns)
        );
    }
    text
}
