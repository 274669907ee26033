//! `report.html`: the summary for people, in one file that opens without a network.
//!
//! Purpose: what happened in a run and whether it can be trusted, readable on any machine for
//! as long as there are browsers. How: static HTML without any script; charts are SVG drawn
//! here, from the time series of the run folder. A series that is missing, damaged or too long
//! costs its chart or a note, never the report.
//!
//! Every text comes from a file or a program, so every text is escaped (in `text`), and links
//! lead only into the run folder. Everything is bounded: a run with thousands of hosts makes a
//! page of less than a megabyte, which says what it leaves out and where that is found.
//!
//! Left out: interaction beyond the browser's tooltips, and figures that `summary.json` does
//! not hold.

mod chart;
mod figures;
mod flows;
mod series;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use std::fmt::Write;
use std::path::Path;

use crate::fidelity::{Quantiles, Stalls, State, Verdict};
use crate::summary::Summary;
use series::Series;
use tables::{Cell, table};
use text::{count, escape, nanoseconds, of};

/// Most warnings that are shown.
const WARNINGS_MAX: usize = 100;
/// Most reasons that are not folded away.
const REASONS_OPEN: usize = 5;
/// Most failed programs that the headline names.
const FAILED_MAX: usize = 10;

/// The page of a run whose folder is `folder`.
pub fn html(summary: &Summary, folder: &Path) -> String {
    let series = Series::read(folder, summary);
    let sections = [
        head(summary),
        headline(summary),
        failures(summary),
        warnings(&summary.warnings),
        figures::charts(summary, &series),
        timing(summary),
        tables::packets(&summary.packets),
        tables::programs(&summary.programs, folder),
        flows::section(summary),
        tables::events(summary),
        tables::pipes(summary),
        tables::cores(summary),
        tables::run(summary),
        "</main>\n</body>\n</html>\n".to_owned(),
    ];
    sections.concat()
}

fn head(summary: &Summary) -> String {
    let name = escape(&summary.experiment);
    let style = include_str!("report/style.css");
    // The policy is a second wall behind the escaping: this page never loads or runs anything.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{name}: {state}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n\
         <h1>{name}</h1>\n",
        state = summary.verdict.state.name(),
    )
}

/// The verdict in one word, one sentence and its reasons.
fn headline(summary: &Summary) -> String {
    let verdict = &summary.verdict;
    let sign = match verdict.state {
        State::Faithful => "✓",
        State::Degraded => "!",
        State::Broken => "✗",
    };
    let holds = verdict
        .holds
        .as_deref()
        .map(|holds| escape(&sentence(holds)));
    let sentence = match (verdict.state, holds) {
        (_, None) if verdict.lateness_ns.is_none() => {
            "Time was virtual: nothing could be late.".to_owned()
        }
        (_, None) => String::new(),
        (State::Faithful | State::Degraded, Some(holds)) => holds,
        (State::Broken, Some(holds)) => {
            format!("Do not rely on this run's figures. The most that can be said: {holds}")
        }
    };
    let state = verdict.state.name();
    format!(
        "<section class=\"card {state}\">\n<p class=\"word\"><span class=\"sign\">{sign}</span> \
         {state}</p>\n<p>{sentence}</p>\n{}</section>\n",
        reasons(&verdict.reasons),
    )
}

/// A phrase as a sentence.
fn sentence(phrase: &str) -> String {
    let mut letters = phrase.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// The first reasons, and the others folded away.
fn reasons(reasons: &[String]) -> String {
    let (open, folded) = reasons.split_at(reasons.len().min(REASONS_OPEN));
    let mut html = list(open, usize::MAX);
    if !folded.is_empty() {
        let (others, folded) = (folded.len(), list(folded, usize::MAX));
        let _ = writeln!(
            html,
            "<details><summary>{others} more lines</summary>\n{folded}</details>"
        );
    }
    html
}

/// What went wrong with the run or its programs; nothing where nothing did.
fn failures(summary: &Summary) -> String {
    let failed = || {
        summary
            .programs
            .iter()
            .filter(|program| program.failure.is_some())
    };
    let mut lines = Vec::new();
    lines.extend(
        summary
            .error
            .as_ref()
            .map(|error| format!("The run: {error}")),
    );
    let programs = failed().map(|program| {
        let failure = program.failure.as_deref().unwrap_or_default();
        format!("{} on {}: {failure}", program.name, program.host)
    });
    lines.extend(programs.take(FAILED_MAX));
    let more = failed().count().saturating_sub(FAILED_MAX);
    if more > 0 {
        lines.push(format!("and {} more", of(more as u64, "program")));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"card failed\">\n<p class=\"word\"><span class=\"sign\">✗</span> \
         failed</p>\n{}</section>\n",
        list(&lines, usize::MAX)
    )
}

fn warnings(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    format!(
        "<section>\n<h2>Warnings</h2>\n{}</section>\n",
        list(warnings, WARNINGS_MAX)
    )
}

/// A list of texts, at most `max` of them.
fn list(texts: &[String], max: usize) -> String {
    if texts.is_empty() {
        return String::new();
    }
    let mut html = "<ul>\n".to_owned();
    for text in texts.iter().take(max) {
        let _ = writeln!(html, "<li>{}</li>", escape(text));
    }
    if texts.len() > max {
        let more = count((texts.len() - max) as u64);
        let _ = writeln!(html, "<li>and {more} more, in summary.json</li>");
    }
    html + "</ul>\n"
}

/// Lateness and staleness, and what the machine lost.
fn timing(summary: &Summary) -> String {
    let verdict = &summary.verdict;
    let row = |what: &str, meaning: &str, quantiles: &Option<Quantiles>| {
        let at = |pick: fn(&Quantiles) -> u64| {
            Cell::number(
                quantiles
                    .as_ref()
                    .map_or("—".to_owned(), |q| nanoseconds(pick(q))),
            )
        };
        let figures = [
            at(|q| q.p50),
            at(|q| q.p90),
            at(|q| q.p99),
            at(|q| q.p999),
            at(|q| q.max),
        ];
        let mut cells = vec![Cell::text(what)];
        cells.extend(figures);
        cells.push(Cell::text(meaning));
        cells
    };
    let rows = [
        row(
            "lateness",
            "how far from due the kernel put a packet on its host's cable",
            &verdict.lateness_ns,
        ),
        row(
            "after the call",
            "how far from due the call ended that sent it, with the receiving stack's work",
            &verdict.after_call_ns,
        ),
        row(
            "staleness",
            "how old an arrival was when it was read",
            &verdict.staleness_ns,
        ),
    ];
    let head = ["", "p50", "p90", "p99", "p99.9", "max", ""];
    let tolerance = nanoseconds(verdict.tolerance_ns);
    if verdict.lateness_ns.is_none() {
        return format!(
            "<section>\n<h2>Fidelity</h2>\n{}</section>\n",
            physical(summary)
        );
    }
    format!(
        "<section>\n<h2>Fidelity</h2>\n{}<p>A packet is late when it is on its host's cable more \
         than {tolerance} after it was due, or 1 % of its path's delay where that is more (1 ms at \
         most).</p>\n{}{}{}</section>\n",
        table(&head, rows),
        late(&summary.verdict),
        physical(summary),
        stalls(&summary.verdict),
    )
}

/// How many packets were late, and where that was worst.
fn late(verdict: &Verdict) -> String {
    if verdict.episodes == 0 {
        return "<p>No packet was late.</p>\n".to_owned();
    }
    let share = |share: f64| format!("{:.3} %", 100.0 * share);
    let mut html = format!(
        "<p>{} of packets were late, in {}.",
        share(verdict.late_share),
        of(verdict.episodes, "episode"),
    );
    if let Some(worst) = &verdict.worst_pair {
        let from = worst.from.as_deref().unwrap_or("all hosts");
        let _ = write!(
            html,
            " Worst of all: {} to {}, {} late and at most {} lost of {}.",
            escape(from),
            escape(&worst.to),
            share(worst.late_share),
            share(worst.lost_share),
            of(worst.packets, "packet"),
        );
    }
    html + "</p>\n"
}

/// For how long the core and the machine stood still, where that is worth a word.
fn stalls(verdict: &Verdict) -> String {
    let Stalls {
        count,
        total_ns,
        longest_ns,
    } = verdict.stalls;
    let stolen = verdict.stolen_ns.unwrap_or_default();
    let mut stalls = String::new();
    if count > 0 {
        let [total, longest] = [total_ns, longest_ns].map(nanoseconds);
        stalls += &format!(
            "<p>The machine stood still {}, for {total} in all and {longest} at most.</p>\n",
            of(count, "time")
        );
    }
    if let Some(tcp) = verdict
        .tcp
        .filter(|tcp| tcp.spurious_retransmissions + tcp.spurious_timeouts > 0)
    {
        stalls += &format!(
            "<p>Hosts' kernels report {} that receivers had had already, and {} that were needless.</p>\n",
            of(tcp.spurious_retransmissions, "retransmission"),
            of(tcp.spurious_timeouts, "time-out"),
        );
    }
    if stolen > 0 {
        let stolen = nanoseconds(stolen);
        stalls += &format!("<p>The hypervisor took {stolen} of CPU time.</p>\n");
    }
    stalls
}

/// Physical drops and clock steps.
fn physical(summary: &Summary) -> String {
    let verdict = &summary.verdict;
    let steps = match verdict.clock_steps {
        0 => String::new(),
        steps => format!(
            "<p>The machine's clock was stepped {}.</p>\n",
            of(steps, "time")
        ),
    };
    if verdict.physical_drops == 0 {
        return format!("<p>The machine itself lost no packet.</p>\n{steps}");
    }
    let by_place = &verdict.physical_drops_by_place;
    let places = [
        ("ring", by_place.ring, "the core's receive ring was full"),
        (
            "shed",
            by_place.shed,
            "read so late that the core shed them at the door",
        ),
        ("pool", by_place.pool, "no free slot in the packet pool"),
        ("send", by_place.send, "the kernel refused to send them"),
        ("to_core", by_place.to_core, "lost on cables to the core"),
        ("from_core", by_place.from_core, "lost on cables to hosts"),
    ];
    let places = places.into_iter().filter(|(_, lost, _)| *lost > 0);
    let rows = places.map(|(place, lost, meaning)| {
        vec![
            Cell::text(place),
            Cell::number(count(lost)),
            Cell::text(meaning),
        ]
    });
    format!(
        "<p>The machine itself lost {}:</p>\n{}{steps}",
        of(verdict.physical_drops, "packet"),
        table(&["place", "packets", ""], rows),
    )
}
