//! A report as text: for a terminal, and as a Markdown block for the documentation.

use std::fmt::Write;
use std::io;

use super::figures::{Row, Spread};
use super::report::{Report, Scenario};

/// The parts that `--write-docs` replaces, each between a line `<!-- suite:NAME -->` and a line
/// `<!-- suite:end -->`: the first screen, and all figures.
const SCREEN: &str = "screen";
const ALL: &str = "all";
const END: &str = "<!-- suite:end -->";

const HEADLINES: [&str; 6] = ["what", "reference", "ours", "ratio", "target", "verdict"];

const FIGURES: [&str; 8] = [
    "setup",
    "figure",
    "median",
    "range",
    "reference",
    "ratio",
    "target",
    "",
];
const HEALTH: [&str; 5] = [
    "setup",
    "verdict",
    "lateness p50 / p99 / p99.9, µs",
    "physical drops",
    "checks",
];

/// A table as rows of cells.
type Cells = Vec<Vec<String>>;

/// Aligned columns for a terminal.
pub(crate) fn plain(report: &Report) -> String {
    let mut text = machine(report) + "\n\n";
    aligned(&mut text, &HEADLINES, &headline_cells(report));
    for group in groups(report) {
        let _ = write!(text, "\n{}: {}\n", group[0].bench, group[0].group);
        aligned(&mut text, &FIGURES, &figure_cells(group));
        let health = health_cells(group);
        if !health.is_empty() {
            text.push('\n');
            aligned(&mut text, &HEALTH, &health);
        }
        for line in notes(group) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text + "\n" + &totals(report)
}

/// How many targets were met, and what gave no figure.
fn totals(report: &Report) -> String {
    let missed = rows(report).filter(|row| row.missed == Some(true)).count();
    let judged = rows(report).filter(|row| row.missed.is_some()).count();
    let mut text = format!("{} of {judged} targets met", judged - missed);
    let count = |is: fn(&Scenario) -> bool| report.scenarios.iter().filter(|one| is(one)).count();
    match count(Scenario::is_broken) {
        0 => {}
        count => {
            let _ = write!(text, "; {count} setups without a run that was not broken");
        }
    }
    match count(|one| !one.errors.is_empty()) {
        0 => text,
        count => text + &format!("; runs of {count} setups failed"),
    }
}

/// A page with both parts replaced.
pub(crate) fn write_into(page: &str, report: &Report) -> io::Result<String> {
    let page = replace_part(page, SCREEN, &screen(report))?;
    replace_part(&page, ALL, &all(report))
}

/// The first screen.
fn screen(report: &Report) -> String {
    let mut text = machine(report) + "\n\n";
    piped(&mut text, &HEADLINES, &headline_cells(report));
    text + "\n" + &totals(report) + ".\n"
}

/// All figures.
fn all(report: &Report) -> String {
    let mut text = String::new();
    let mut bench = "";
    for group in groups(report) {
        if group[0].bench != bench {
            bench = group[0].bench;
            let _ = write!(text, "\n### {bench}\n");
        }
        let _ = write!(text, "\n{}:\n\n", group[0].group);
        piped(&mut text, &FIGURES, &figure_cells(group));
        let health = health_cells(group);
        if !health.is_empty() {
            text.push('\n');
            piped(&mut text, &HEALTH, &health);
        }
        let notes = notes(group);
        if !notes.is_empty() {
            text.push('\n');
        }
        for line in notes {
            let _ = writeln!(text, "- {line}");
        }
        let _ = write!(text, "\n<details><summary>Commands</summary>\n\n```text\n");
        for scenario in group {
            let _ = writeln!(text, "{}: {}", scenario.name, scenario.command);
        }
        text += "```\n\n</details>\n";
    }
    text
}

/// `page` with the part `name` replaced.
fn replace_part(page: &str, name: &str, part: &str) -> io::Result<String> {
    let marker = format!("<!-- suite:{name} -->\n");
    let range = page.find(&marker).and_then(|at| {
        let begin = at + marker.len();
        Some((begin, begin + page[begin..].find(END)?))
    });
    let (begin, end) = range.ok_or_else(|| {
        let problem = format!(
            "the file has no lines {} and {END} to write between",
            marker.trim()
        );
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })?;
    let part = part.trim();
    Ok(format!("{}\n{part}\n\n{}", &page[..begin], &page[end..]))
}

/// Consecutive scenarios of the same group.
fn groups(report: &Report) -> impl Iterator<Item = &[Scenario]> {
    report
        .scenarios
        .chunk_by(|a, b| (a.bench, &a.group) == (b.bench, &b.group))
}

fn rows(report: &Report) -> impl Iterator<Item = &Row> {
    report.scenarios.iter().flat_map(|one| &one.rows)
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let cpus: Vec<String> = machine.program_cpus.iter().map(usize::to_string).collect();
    let pinned = match cpus.as_slice() {
        [] => "programs and core share it".to_owned(),
        [cpu] => format!("programs on CPU {cpu}"),
        cpus => format!("programs on CPUs {}", cpus.join(", ")),
    };
    let rounds = match report.runs {
        1 => "1 round".to_owned(),
        n => format!("medians and ranges of {n} rounds"),
    };
    let user = if machine.is_root {
        "root's runs"
    } else {
        "an ordinary user's runs"
    };
    let quick = if report.quick {
        ", --quick: a test of the suite, not a measurement"
    } else {
        ""
    };
    format!(
        "{} ({} CPUs, {pinned}), Linux {}; {user}; load before {}; {rounds}{quick}",
        machine.processor, machine.cpus, machine.kernel, machine.load_before
    )
}

fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", number(value)).trim_end().to_owned()
}

/// One row for each figure on the first screen.
fn headline_cells(report: &Report) -> Cells {
    let scenarios = report.scenarios.iter();
    let rows = scenarios.flat_map(|one| one.rows.iter().map(move |row| (one, row)));
    rows.filter_map(|(one, row)| {
        let headline = row.headline.as_ref()?;
        let reference = row.reference.as_ref();
        let reference = reference.map(|(_, median)| format!(": {}", with_unit(*median, row.unit)));
        let met = match row.missed {
            Some(true) => ": MISS",
            Some(false) => ": ok",
            None => "",
        };
        Some(vec![
            headline.what.clone(),
            headline.reference.to_owned() + &reference.unwrap_or_default(),
            row.spread.map_or("no figure".to_owned(), |spread| {
                let unit = with_unit(spread.median, row.unit);
                format!("{unit} ({})", range(spread))
            }),
            row.ratio
                .map_or(String::new(), |ratio| format!("{:.3}", ratio.median)),
            row.target.clone().unwrap_or_default() + met,
            verdict(one),
        ])
    })
    .collect()
}

/// What the emulator says of a setup's runs, and which of them count.
fn verdict(one: &Scenario) -> String {
    let verdicts = one.verdicts();
    match one.health.first() {
        _ if one.health.is_empty() => String::new(),
        _ if one.overload => format!("{verdicts}; overloaded on purpose"),
        Some(first) if one.is_broken() => {
            let why = first.reasons.first().map_or("", String::as_str);
            format!("{verdicts}: {why}")
        }
        _ if verdicts.contains("broken") => format!("{verdicts}, left out"),
        _ => verdicts,
    }
}

fn figure_cells(group: &[Scenario]) -> Cells {
    let cells = |(one, row): (&Scenario, &Row)| {
        let median = |s: Spread| with_unit(s.median, row.unit);
        let reference = row.reference.as_ref();
        vec![
            one.name.clone(),
            row.figure.to_owned(),
            row.spread.map_or("–".to_owned(), median),
            row.spread.map_or("–".to_owned(), range),
            reference.map_or(String::new(), |(_, median)| number(*median)),
            row.ratio.map_or(String::new(), |ratio| {
                format!("{:.3} ({:.3}–{:.3})", ratio.median, ratio.min, ratio.max)
            }),
            row.target.clone().unwrap_or_default(),
            match row.missed {
                Some(true) => "MISS".to_owned(),
                Some(false) => "ok".to_owned(),
                None if row.spread.is_none() && !one.errors.is_empty() => "FAILED".to_owned(),
                None if row.spread.is_none() && one.is_broken() => "BROKEN".to_owned(),
                None => String::new(),
            },
        ]
    };
    group
        .iter()
        .flat_map(|one| one.rows.iter().map(move |row| (one, row)))
        .map(cells)
        .collect()
}

fn health_cells(group: &[Scenario]) -> Cells {
    let cells = |one: &Scenario| {
        let lateness = |index: usize| {
            let values: Vec<f64> = one.health.iter().map(|h| h.lateness_us[index]).collect();
            Spread::of(&values).map_or("–".to_owned(), |spread| number(spread.median))
        };
        let drops: Vec<f64> = one.health.iter().map(|h| h.physical_drops as f64).collect();
        let drops = Spread::of(&drops).map_or(String::new(), range);
        let bad = one.health.iter().filter(|h| !h.problems.is_empty()).count();
        vec![
            one.name.clone(),
            verdict(one),
            format!("{} / {} / {}", lateness(0), lateness(1), lateness(2)),
            drops,
            match bad {
                0 => "ok".to_owned(),
                n => format!("PROBLEM in {n}"),
            },
        ]
    };
    group
        .iter()
        .filter(|one| !one.health.is_empty())
        .map(cells)
        .collect()
}

/// Runs that failed and checks that did not hold, in words; each sentence once.
fn notes(group: &[Scenario]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in group {
        let errors = one.errors.iter().map(|error| format!("failed: {error}"));
        let problems = one.health.iter().flat_map(|health| health.problems.clone());
        for text in errors.chain(problems) {
            let line = format!("{}: {}", one.name, text.replace('\n', " "));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn range(spread: Spread) -> String {
    if spread.min == spread.max {
        return number(spread.min);
    }
    format!("{}–{}", number(spread.min), number(spread.max))
}

/// About four digits, without a fraction where there are more.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 || value == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

fn aligned(text: &mut String, head: &[&str], rows: &Cells) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([head[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::from("  ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn piped(text: &mut String, head: &[&str], rows: &Cells) {
    let mut line = |cells: &[String]| {
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    };
    line(
        &head
            .iter()
            .map(|cell| (*cell).to_owned())
            .collect::<Vec<_>>(),
    );
    line(&vec!["---".to_owned(); head.len()]);
    rows.iter().for_each(|row| line(row));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_is_replaced() {
        let page = |first: &str, second: &str| {
            format!(
                "a\n<!-- suite:screen -->\n{first}{END}\nb\n<!-- suite:all -->\n{second}{END}\nc\n"
            )
        };
        let replaced = replace_part(&page("old\n", "other\n"), SCREEN, "new\n").unwrap();
        assert_eq!(replaced, page("\nnew\n\n", "other\n"));
        assert_eq!(replace_part(&replaced, SCREEN, "new").unwrap(), replaced);
        let replaced = replace_part(&replaced, ALL, "more").unwrap();
        assert_eq!(replaced, page("\nnew\n\n", "\nmore\n\n"));
        assert!(replace_part("nothing", ALL, "").is_err());
    }

    #[test]
    fn numbers_have_about_four_digits() {
        let shown = [0.0, 12_345.6, 123.46, 12.3, 1.5, 0.123_46, -2.0].map(number);
        assert_eq!(
            shown,
            ["0", "12346", "123.5", "12.3", "1.5", "0.1235", "-2"]
        );
    }

    #[test]
    fn columns_line_up() {
        let mut text = String::new();
        let rows = vec![vec!["µs".to_owned(), "x".to_owned()]];
        aligned(&mut text, &["a", "b"], &rows);
        assert_eq!(text, "  a   b\n  µs  x\n");
    }
}
