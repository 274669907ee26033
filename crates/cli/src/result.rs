//! A run's summary for people: the verdict and why, what failed, where the rest is.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use longhaul_lab::fidelity::{Quantiles, State, Verdict};
use longhaul_lab::flows::GroupSummary;
use longhaul_lab::summary::{
    AttemptSummary, Load, Packets, PartitionSummary, ProgramSummary, Summary,
};

use crate::style::{self, Style};

/// The last lines of a failed program's log that are shown, and how much is read for them.
const LOG_LINES: usize = 8;
const LOG_BYTES: u64 = 8 << 10;
/// Entries of traffic that are shown.
const GROUPS: usize = 12;

/// The whole text.
pub(crate) fn text(summary: &Summary, style: Style) -> String {
    let mut text = String::new();
    let mut line = |label: &str, words: &str| {
        text.push_str(&format!(
            "{}  {words}\n",
            style.bold(format_args!("{label:<9}"))
        ));
    };
    if let Some(error) = &summary.error {
        line("error", &style.bad(error));
    }
    for program in summary
        .programs
        .iter()
        .filter(|program| program.failure.is_some())
    {
        line("failed", &failure(program, Path::new(&summary.run), style));
    }
    line("verdict", &verdict(&summary.verdict, style));
    let lateness = summary
        .verdict
        .lateness_ns
        .filter(|_| summary.packets.delivered > 0);
    if let Some(lateness) = &lateness {
        line(
            "lateness",
            &quantiles(lateness, summary.verdict.tolerance_ns),
        );
    }
    if !summary.attempts.is_empty() {
        line("attempts", &attempts(&summary.attempts));
    }
    line("packets", &packets(&summary.packets));
    for group in summary.flow_groups.iter().take(GROUPS) {
        line("flows", &flows(group));
    }
    if summary.flow_groups.len() > GROUPS {
        let more = summary.flow_groups.len() - GROUPS;
        line("flows", &format!("and those of {more} more entries"));
    }
    let is_virtual = summary.clock == "virtual";
    if !is_virtual {
        line("programs", &programs(&summary.programs));
    }
    line(
        "time",
        &format!(
            "{} of the experiment in {:.1} s ({:.0} ms of it set-up)",
            match summary.simulated_s {
                short if short < 1.0 => style::measured((short * 1e9) as u64),
                long => format!("{long:.1} s"),
            },
            summary.wall_s,
            summary.setup_s * 1e3
        ),
    );
    if is_virtual {
        let hops = style::short(summary.hops_per_s as u64);
        line("speed", &format!("{hops} packet-hops/s"));
    }
    if let Some(partition) = &summary.partition {
        line("cores", &cores(summary.cores.len(), partition));
        line("load", &load(partition));
    }
    if let Some(hash) = &summary.trace_hash {
        line("trace", hash);
    }
    for warning in &summary.warnings {
        line("warning", warning);
    }
    line("report", &format!("{}/report.html", summary.run));
    text
}

/// What several cores have shared, and the efficiency that follows.
pub(crate) fn cores(count: usize, partition: &PartitionSummary) -> String {
    format!(
        "{count}: {} edge packets, {} crossed between cores; efficiency {} (predicted {})",
        style::grouped(partition.edge_packets),
        style::grouped(partition.crossing_packets),
        style::percent(partition.measured.efficiency),
        style::percent(partition.predicted.efficiency),
    )
}

/// CPU time of several cores over experiment time.
pub(crate) fn load(partition: &PartitionSummary) -> String {
    let of = |load: &Load| [load.load_max, load.load_mean].map(style::percent);
    let ([max, mean], [likely_max, likely_mean]) =
        (of(&partition.measured), of(&partition.predicted));
    format!(
        "{max} of experiment time at most, {mean} in the mean (predicted {likely_max}, {likely_mean})"
    )
}

/// How each attempt came out.
fn attempts(attempts: &[AttemptSummary]) -> String {
    let states = attempts.iter().zip(1..);
    let states = states.map(|(attempt, number)| format!("{number} {}", attempt.state.name()));
    states.collect::<Vec<_>>().join(", ")
}

/// The flows of an entry of the file.
fn flows(group: &GroupSummary) -> String {
    let time = |s: f64| style::measured((s * 1e9) as u64);
    let finished = match group.flows {
        1 => String::new(),
        _ => format!(
            "{} of {} finished, ",
            style::grouped(group.finished),
            style::grouped(group.flows)
        ),
    };
    let completion = match (&group.completion_s, group.flows) {
        (None, 1) => "not finished, ".to_owned(),
        (None, _) => String::new(),
        (Some(times), 1) => format!("finished in {}, ", time(times.max)),
        (Some(times), _) => {
            format!("in {} (p50), {} (p99), ", time(times.p50), time(times.p99))
        }
    };
    let jain = match group.jain {
        Some(jain) if group.flows > 1 => format!(", Jain's index {jain:.3}"),
        _ => String::new(),
    };
    format!(
        "{}: {finished}{completion}{} at {}bit/s{jain}",
        style::clean(&group.name),
        style::bytes(group.bytes),
        style::short(group.goodput_bps as u64),
    )
}

/// The word, what speaks against the run, and what that means.
fn verdict(verdict: &Verdict, style: Style) -> String {
    let word = match verdict.state {
        State::Faithful => style.good("faithful"),
        State::Degraded => style.doubtful("degraded"),
        State::Broken => style.bad("broken"),
    };
    let holds = verdict.holds.as_deref().map(style::clean);
    let mut text = match (verdict.state, holds) {
        (_, None) if verdict.lateness_ns.is_none() => {
            format!("{word}: time was virtual, nothing could be late")
        }
        (_, None) => word,
        (State::Broken, Some(_)) => format!("{word}: do not rely on figures of this run"),
        (_, Some(holds)) => format!("{word}: {holds}"),
    };
    for reason in &verdict.reasons {
        text.push_str(&format!("\n           - {}", style::clean(reason)));
    }
    let asks_too_much = verdict.by_cause.overload > 0 || verdict.physical_drops_by_place.shed > 0;
    if verdict.blames_noise() {
        text.push_str(
            "\n           run it again (--attempts), or on a quieter machine; `longhaul doctor` looks \
             at this one",
        );
    } else if asks_too_much && verdict.state != State::Faithful {
        text.push_str(
            "\n           lower rates or fewer packets help; `longhaul calibrate` says what this \
             machine carries",
        );
    }
    text
}

fn quantiles(lateness: &Quantiles, tolerance_ns: u64) -> String {
    format!(
        "p50 {}, p99 {}, p99.9 {}, worst {} (tolerance {})",
        style::measured(lateness.p50),
        style::measured(lateness.p99),
        style::measured(lateness.p999),
        style::measured(lateness.max),
        style::measured(tolerance_ns),
    )
}

fn packets(packets: &Packets) -> String {
    let dropped = &packets.dropped;
    let causes = [
        (dropped.queue, "queue full"),
        (dropped.loss, "loss"),
        (dropped.link_down, "link down"),
        (dropped.hop_limit, "hop limit"),
        (dropped.no_route, "no route"),
        (dropped.too_big, "too big"),
        (dropped.misdelivered, "no such address"),
    ];
    let total: u64 = causes.iter().map(|(n, _)| n).sum();
    let causes: Vec<String> = causes
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, cause)| format!("{} {cause}", style::grouped(*n)))
        .collect();
    let causes = if causes.is_empty() {
        String::new()
    } else {
        format!(" ({})", causes.join(", "))
    };
    format!(
        "{} entered, {} delivered, {} dropped by the network{causes}",
        style::grouped(packets.entered),
        style::grouped(packets.delivered),
        style::grouped(total),
    )
}

fn programs(programs: &[ProgramSummary]) -> String {
    let services = programs.iter().filter(|program| program.service).count();
    let failed = programs
        .iter()
        .filter(|program| program.failure.is_some())
        .count();
    let services = match services {
        0 => String::new(),
        n => format!(", {} among them", style::number(n, "service")),
    };
    format!(
        "{} ran{services}, {failed} failed",
        style::number(programs.len(), "program")
    )
}

/// A failed program with the end of what it wrote to its error stream, or else to its output.
fn failure(program: &ProgramSummary, run: &Path, style: Style) -> String {
    let why = program.failure.as_deref().unwrap_or_default();
    let mut text = format!(
        "{} on {}: {}",
        style.bad(&program.name),
        program.host,
        style::clean(why)
    );
    for stream in ["err", "out"] {
        let name = format!("{}.{stream}", program.log);
        let lines = last_lines(&run.join(&name));
        if lines.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "\n           {}",
            style.dim(format_args!("end of {name}:"))
        ));
        for line in lines {
            text.push_str(&format!("\n           {} {line}", style.dim("|")));
        }
        break;
    }
    text
}

fn last_lines(path: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.len().saturating_sub(LOG_LINES);
    lines[last..]
        .iter()
        .map(|line| style::clean(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_told_as_measured_and_as_predicted() {
        let load = |efficiency, load_max, load_mean| Load {
            efficiency,
            load_max,
            load_mean,
        };
        let partition = PartitionSummary {
            method: "best".to_owned(),
            costs: "machine".to_owned(),
            cut_pipes: 2,
            lookahead_ns: None,
            predicted: load(0.8, 0.5, 0.45),
            measured: load(0.783, 15.6, 14.4),
            edge_packets: 526_053,
            crossing_packets: 146_015,
        };
        let text = cores(2, &partition);
        assert!(
            text.starts_with("2: 526,053 edge packets, 146,015 crossed"),
            "{text}"
        );
        assert!(
            text.ends_with("efficiency 78.3 % (predicted 80.0 %)"),
            "{text}"
        );
        let text = super::load(&partition);
        assert!(
            text.starts_with("1560.0 % of experiment time at most, 1440.0 %"),
            "{text}"
        );
        assert!(text.ends_with("(predicted 50.0 %, 45.0 %)"), "{text}");
    }

    #[test]
    fn the_end_of_a_log_is_cut_and_cleaned() {
        let path = std::env::temp_dir().join(format!("longhaul-cli-log-{}", std::process::id()));
        let text: String = (0..5000).map(|n| format!("line {n}\x1b[2J\n\n")).collect();
        std::fs::write(&path, text).unwrap();
        let lines = last_lines(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lines.len(), LOG_LINES);
        assert_eq!(lines.last().unwrap(), "line 4999\u{fffd}[2J");
        assert!(last_lines(Path::new("/nonexistent")).is_empty());
    }
}
