//! The result of a run, for people, on one screen: the verdict and why, what failed, where the packets went,
//! and where the rest is. `run` shows it at its end, `report` whenever it is asked to.

mod failures;
mod page;

use std::collections::BTreeMap;
use std::path::Path;

use longhaul_lab::fidelity::{Quantiles, State};
use longhaul_lab::saved::{
    Saved, SavedAttempt, SavedFlow, SavedGroup, SavedPackets, SavedPipe, SavedProgram, SavedVerdict,
};
use longhaul_lab::summary::{Load, PartitionSummary};

use crate::style::{self, Style};
pub(crate) use page::Page;

/// Rows of lists that are shown; what does not fit the screen is left out besides.
const GROUPS: usize = 12;
const FLOWS: usize = 5;
const PIPES: usize = 5;
const PROGRAMS: usize = 8;
const REASONS: usize = 8;
const WARNINGS: usize = 8;
const CAPTURES: usize = 4;
/// What a summary does not say.
const UNKNOWN: &str = "unknown";

/// The whole text.
pub(crate) fn text(saved: &Saved, style: Style) -> String {
    let mut page = Page::default();
    let folder = saved.run.clone().unwrap_or_default();
    let programs = saved.programs.as_deref();
    page.line("run", run(saved));
    if let Some(error) = &saved.error {
        page.line("error", style.bad(style::clean(error)));
    }
    failures::add(
        &mut page,
        programs.unwrap_or_default(),
        Path::new(&folder),
        style,
    );
    verdict(&mut page, &saved.verdict, saved.clock.as_deref(), style);
    let delivered = saved.packets.delivered;
    let lateness = saved.verdict.lateness_ns.filter(|_| delivered != Some(0));
    if let Some(lateness) = &lateness {
        page.line("lateness", quantiles(lateness, saved.verdict.tolerance_ns));
    }
    if !saved.attempts.is_empty() {
        page.line("attempts", attempts(&saved.attempts));
    }
    page.line("packets", packets(&saved.packets));
    if let Some(lost) = lost(&saved.verdict.physical_drops_by_place) {
        page.line("lost", lost);
    }
    flows(&mut page, saved);
    pipes(&mut page, saved, style);
    let is_virtual = saved.clock.as_deref() == Some("virtual");
    if !is_virtual {
        list_programs(&mut page, programs);
    }
    page.line("time", time(saved));
    if is_virtual {
        let hops = known(saved.hops_per_s, |hops| style::short(hops as u64));
        page.line("speed", format!("{hops} packet-hops/s"));
    }
    if let Some(partition) = &saved.partition {
        page.line("cores", cores(saved.cores, partition));
        page.line("load", load(partition));
    }
    if let Some(hash) = &saved.trace_hash {
        page.line("trace", style::clean(hash));
    }
    let warnings = saved.warnings.iter().map(|warning| style::clean(warning));
    some(
        &mut page,
        "warning",
        warnings.collect(),
        WARNINGS,
        "in summary.json",
    );
    places(&mut page, saved, &style::clean(&folder));
    page.text(style)
}

/// The first `most` of some lines; the others are counted.
fn some(page: &mut Page, label: &'static str, mut lines: Vec<String>, most: usize, place: &str) {
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    page.part(label, lines, more, 1, place);
}

/// A figure, or that it is not known.
fn known<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or(UNKNOWN.to_owned(), show)
}

fn seconds(s: f64) -> String {
    style::measured((s * 1e9) as u64)
}

/// What was run, and how.
fn run(saved: &Saved) -> String {
    format!(
        "{}: {} clock, seed {}, longhaul {}",
        known(saved.experiment.as_deref(), style::name),
        known(saved.clock.as_deref(), style::name),
        known(saved.seed, |seed| seed.to_string()),
        known(saved.version.as_deref(), style::name),
    )
}

fn time(saved: &Saved) -> String {
    let simulated = known(saved.simulated_s, |s| match s {
        short if short < 1.0 => seconds(short),
        long => format!("{long:.1} s"),
    });
    let wall = known(saved.wall_s, |s| format!("{s:.1} s"));
    let set_up = known(saved.setup_s, |s| format!("{:.0} ms", s * 1e3));
    format!("{simulated} of experiment time in {wall} of real time ({set_up} of it for set-up)")
}

/// Where series, captures and the report lie.
fn places(page: &mut Page, saved: &Saved, folder: &str) {
    let series = saved.series.iter();
    let series = series.map(|series| {
        let rows = known(series.rows, style::grouped);
        format!("{} ({rows} rows)", style::name(&series.name))
    });
    let series: Vec<String> = series.collect();
    let names = if series.is_empty() {
        String::new()
    } else {
        format!(": {}", series.join(", "))
    };
    page.line("series", format!("{folder}/series{names}"));
    let captures = saved.captures.iter().map(|capture| {
        let missed = match capture.missed {
            Some(0) => String::new(),
            missed => format!(", {} missed", known(missed, style::grouped)),
        };
        let packets = known(capture.packets, style::grouped);
        format!(
            "{folder}/{}: {packets} packets{missed}",
            style::name(&capture.file)
        )
    });
    some(
        page,
        "captures",
        captures.collect(),
        CAPTURES,
        "in summary.json",
    );
    page.line("report", format!("{folder}/report.html"));
}

/// What several cores have shared, and the efficiency that follows.
pub(crate) fn cores(count: usize, partition: &PartitionSummary) -> String {
    format!(
        "{count}: {} edge packets, {} between cores; efficiency {} (predicted {})",
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
    format!("max {max} of experiment time, mean {mean} (predicted {likely_max}, {likely_mean})")
}

/// How each attempt came out.
fn attempts(attempts: &[SavedAttempt]) -> String {
    let states = attempts.iter().zip(1..);
    let states = states.map(|(attempt, number)| format!("{number} {}", attempt.state.name()));
    states.collect::<Vec<_>>().join(", ")
}

/// The flows of each entry of the file, and the biggest of all.
fn flows(page: &mut Page, saved: &Saved) {
    let groups = saved.flow_groups.iter().map(group).collect();
    some(page, "flows", groups, GROUPS, "(all are in summary.json)");
    // Where each entry has one flow, its line has shown everything.
    if saved.flows.len() <= saved.flow_groups.len() {
        return;
    }
    let mut list: Vec<&SavedFlow> = saved.flows.iter().collect();
    list.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
    let lines: Vec<String> = list.iter().take(FLOWS).map(|flow| one(flow)).collect();
    let more = match saved.flows_seen {
        Some(seen) => usize::try_from(seen).unwrap_or(usize::MAX),
        None => list.len(),
    };
    let more = more.max(list.len()) - lines.len();
    page.part("biggest", lines, more, 1, "(all are in flows.csv)");
}

/// A flow.
fn one(flow: &SavedFlow) -> String {
    let end = match (flow.completion_s, flow.failed) {
        (_, true) => "gave up".to_owned(),
        (Some(s), _) => format!("finished in {}", seconds(s)),
        (None, _) => "not finished".to_owned(),
    };
    format!(
        "{} ({} to {}): {end}, {} at {}",
        style::name(&flow.name),
        known(flow.from.as_deref(), style::name),
        known(flow.to.as_deref(), style::name),
        known(flow.bytes, style::bytes),
        known(flow.goodput_bps, bits),
    )
}

/// The flows of an entry of the file.
fn group(group: &SavedGroup) -> String {
    let alone = group.flows == Some(1);
    let finished = if alone {
        String::new()
    } else {
        format!(
            "{} of {} finished, ",
            known(group.finished, style::grouped),
            known(group.flows, style::grouped)
        )
    };
    let at = |times: &BTreeMap<String, f64>, name: &str| known(times.get(name).copied(), seconds);
    let completion = match &group.completion_s {
        None if alone => "not finished, ".to_owned(),
        None => String::new(),
        Some(times) if alone => format!("finished in {}, ", at(times, "max")),
        Some(times) => format!(
            "in {} (p50), {} (p99), ",
            at(times, "p50"),
            at(times, "p99")
        ),
    };
    let jain = match group.jain {
        Some(jain) if !alone => format!(", Jain's index {jain:.3}"),
        _ => String::new(),
    };
    format!(
        "{}: {finished}{completion}{} at {}{jain}",
        style::name(&group.name),
        known(group.bytes, style::bytes),
        known(group.goodput_bps, bits),
    )
}

fn bits(bps: f64) -> String {
    format!("{}bit/s", style::short(bps as u64))
}

/// The busiest pipes, those with the highest utilisation first; unlimited ones by what they carried.
fn pipes(page: &mut Page, saved: &Saved, style: Style) {
    let Some(pipes) = &saved.pipes else {
        page.line("pipes", UNKNOWN);
        return;
    };
    let is_used = |pipe: &&SavedPipe| pipe.packets != Some(0) || pipe.drops.unwrap_or(0) > 0;
    let mut used: Vec<&SavedPipe> = pipes.iter().filter(is_used).collect();
    used.sort_by(|a, b| {
        let share = |pipe: &SavedPipe| pipe.utilisation.unwrap_or(0.0);
        let by_use = share(b).total_cmp(&share(a));
        by_use.then(b.bytes.cmp(&a.bytes)).then(a.name.cmp(&b.name))
    });
    if used.is_empty() {
        return;
    }
    let head = ["PIPE", "USED", "PACKETS", "BYTES", "DROPS"].map(str::to_owned);
    let rows = used.iter().take(PIPES).map(|pipe| {
        vec![
            style::name(&pipe.name),
            pipe.utilisation.map_or("-".to_owned(), style::percent),
            known(pipe.packets, style::grouped),
            known(pipe.bytes, style::bytes),
            known(pipe.drops, style::grouped),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head.to_vec()).chain(rows).collect();
    let table = style::table(&rows);
    let lines = table.lines().map(|line| line[2..].to_owned());
    let mut lines: Vec<String> = lines.collect();
    lines[0] = style.dim(&lines[0]);
    let all = saved.pipes_seen.and_then(|seen| usize::try_from(seen).ok());
    let idle = pipes.len() - used.len();
    let more = all.unwrap_or(0).max(pipes.len()) - idle - (lines.len() - 1);
    page.part("pipes", lines, more, 2, "(all are in summary.json)");
}

/// The word, what speaks against the run, and what that means.
fn verdict(page: &mut Page, verdict: &SavedVerdict, clock: Option<&str>, style: Style) {
    let word = match verdict.state {
        State::Faithful => style.good("faithful"),
        State::Degraded => style.doubtful("degraded"),
        State::Broken => style.bad("broken"),
    };
    let holds = verdict.holds.as_deref().map(style::clean);
    let text = match (verdict.state, holds) {
        (_, None) if clock == Some("virtual") => {
            format!("{word}: in virtual time, no packet is late")
        }
        (_, None) => word,
        (State::Broken, Some(_)) => format!("{word}: do not rely on the figures of this run"),
        (_, Some(holds)) => format!("{word}: {holds}"),
    };
    page.line("verdict", text);
    let reasons = verdict.reasons.iter();
    let reasons = reasons.map(|reason| format!("- {}", style::clean(reason)));
    some(
        page,
        "",
        reasons.collect(),
        REASONS,
        "(all are in summary.json)",
    );
    if verdict.blames_noise() {
        page.line(
            "",
            "repeat the run (--attempts), or use a quieter machine; `longhaul doctor` checks this one",
        );
    } else if verdict.blames_overload() && verdict.state != State::Faithful {
        page.line(
            "",
            "lower the rates or send fewer packets; `longhaul calibrate` measures what this machine carries",
        );
    }
}

fn quantiles(lateness: &Quantiles, tolerance_ns: Option<u64>) -> String {
    format!(
        "p50 {}, p99 {}, p99.9 {}, worst {} (tolerance {})",
        style::measured(lateness.p50),
        style::measured(lateness.p99),
        style::measured(lateness.p999),
        style::measured(lateness.max),
        known(tolerance_ns, style::measured),
    )
}

fn packets(packets: &SavedPackets) -> String {
    // Packets consumed by elements and modelled hosts are not lost.
    const WORDS: [(&str, &str); 7] = [
        ("queue", "queue full"),
        ("loss", "loss"),
        ("link_down", "link down"),
        ("hop_limit", "hop limit"),
        ("no_route", "no route"),
        ("too_big", "too big"),
        ("misdelivered", "wrong host"),
    ];
    let dropped = packets.dropped.as_ref().map(|dropped| {
        let causes = dropped.iter().filter(|(name, _)| *name != "absorbed");
        let mut causes: Vec<(&String, u64)> = causes.map(|(name, n)| (name, *n)).collect();
        let rank = |name: &str| WORDS.iter().position(|(word, _)| *word == name);
        causes.sort_by_key(|(name, _)| rank(name).unwrap_or(WORDS.len()));
        let total = causes
            .iter()
            .fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        let words = |(name, n): &(&String, u64)| {
            let word = rank(name).map_or_else(|| style::name(name), |at| WORDS[at].1.to_owned());
            format!("{} {word}", style::grouped(*n))
        };
        let causes: Vec<String> = causes.iter().filter(|(_, n)| *n > 0).map(words).collect();
        let causes = if causes.is_empty() {
            String::new()
        } else {
            format!(" ({})", causes.join(", "))
        };
        format!("{} dropped by the network{causes}", style::grouped(total))
    });
    let dropped = dropped.unwrap_or_else(|| format!("{UNKNOWN} dropped by the network"));
    let inside = match packets.inside {
        Some(0) => String::new(),
        inside => format!(
            ", {} still inside at the end",
            known(inside, style::grouped)
        ),
    };
    format!(
        "{} entered, {} delivered, {dropped}{inside}",
        known(packets.entered, style::grouped),
        known(packets.delivered, style::grouped),
    )
}

/// What the machine lost, by place; `None` where that is nothing.
fn lost(places: &BTreeMap<String, u64>) -> Option<String> {
    let lost = places.iter().filter(|(_, n)| **n > 0);
    let lost = lost.map(|(place, n)| format!("{} {}", style::grouped(*n), style::name(place)));
    let lost: Vec<String> = lost.collect();
    (!lost.is_empty()).then(|| format!("by this machine: {}", lost.join(", ")))
}

/// How many programs there were, and how each ended; failed ones first, and services last.
fn list_programs(page: &mut Page, programs: Option<&[SavedProgram]>) {
    let Some(programs) = programs else {
        page.line("programs", UNKNOWN);
        return;
    };
    let services = programs.iter().filter(|program| program.service).count();
    let failed = |program: &&SavedProgram| program.failure.is_some();
    let failed = programs.iter().filter(failed).count();
    let services = match services {
        0 => String::new(),
        n => format!(", of which {}", style::number(n, "service")),
    };
    let all = style::number(programs.len(), "program");
    let mut list: Vec<&SavedProgram> = programs.iter().collect();
    list.sort_by_key(|program| (program.failure.is_none(), program.service));
    let rows = list.iter().take(PROGRAMS).map(|program| {
        let time = program.finish_s.zip(program.start_s);
        let (exit, time) = match program.exit {
            Some(code) => (
                format!("exit {code}"),
                known(time, |(finish, start)| seconds(finish - start)),
            ),
            None => ("never ran".to_owned(), String::new()),
        };
        let log = known(program.log.as_deref(), style::clean);
        let log = match program.failure {
            Some(_) => format!("log {log}.err"),
            None => String::new(),
        };
        let host = known(program.host.as_deref(), style::name);
        vec![
            style::name(&program.name),
            format!("on {host}"),
            exit,
            time,
            log,
        ]
    });
    let table = style::table(&rows.collect::<Vec<_>>());
    let mut lines = vec![format!("{all} ran{services}, {failed} failed")];
    lines.extend(table.lines().map(|line| line[2..].to_owned()));
    let more = programs.len() + 1 - lines.len();
    page.part("programs", lines, more, 1, "(all are in summary.json)");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shown_as_measured_and_as_predicted() {
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
            text.starts_with("2: 526,053 edge packets, 146,015 between cores"),
            "{text}"
        );
        assert!(
            text.ends_with("efficiency 78.3 % (predicted 80.0 %)"),
            "{text}"
        );
        let text = super::load(&partition);
        assert!(
            text.starts_with("max 1560.0 % of experiment time, mean 1440.0 %"),
            "{text}"
        );
        assert!(text.ends_with("(predicted 50.0 %, 45.0 %)"), "{text}");
    }
}
