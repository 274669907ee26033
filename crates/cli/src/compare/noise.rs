//! Three runs and more: groups of repeats, and the figures that differ beyond noise.

use longhaul_lab::compare::several::{Figure, Several};
use serde_json::json;

use super::{ROWS, seconds};
use crate::exit::Exit;
use crate::style::{self, Style};

/// Prints the comparison, and gives the code for it.
pub(super) fn show(found: &Several, as_json: bool) -> Exit {
    if as_json {
        style::print(&style::json(&json!(found)))
    } else {
        style::print(&text(found))
    }
    match found.differing().next() {
        Some(_) => Exit::Failed,
        None => Exit::Done,
    }
}

fn text(found: &Several) -> String {
    let style = Style::stdout();
    let letters = || ('A'..).take(found.groups.len());
    let mut rows = vec![vec![
        "group".to_owned(),
        "experiment".to_owned(),
        "runs".to_owned(),
    ]];
    for (letter, group) in letters().zip(&found.groups) {
        let folders = group
            .runs
            .iter()
            .map(|&run| found.folders[run].display().to_string());
        let folders = style::clean(&folders.collect::<Vec<_>>().join(", "));
        rows.push(vec![letter.to_string(), style::name(&group.name), folders]);
    }
    let mut text = style::table(&rows);
    if found.groups.len() < 2 {
        text.push_str(
            "\nrepeats of one experiment: `noise` is how much two of them may differ by chance\n",
        );
    }
    let mut figures: Vec<&Figure> = found.figures.iter().collect();
    let apart = |figure: &Figure| {
        let by = figure.difference.iter().flatten().map(|by| by.abs());
        let beyond = figure.beyond_noise.contains(&Some(true));
        (beyond, by.fold(0.0, f64::max))
    };
    figures.sort_by(|a, b| {
        let (a, b) = (apart(a), apart(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let mut head = vec!["figure".to_owned()];
    head.extend(letters().map(|letter| format!("{letter}, mean")));
    head.extend(
        letters()
            .skip(1)
            .map(|letter| format!("{letter} against A")),
    );
    head.push("noise".to_owned());
    let mut rows = vec![head];
    rows.extend(figures.iter().take(ROWS).map(|figure| row(figure, found)));
    text.push_str(&format!(
        "\n{}\n{}",
        style.bold("figures, largest difference first"),
        style::table(&rows)
    ));
    if figures.len() > ROWS {
        text.push_str(&format!(
            "  … and {} more (all with --json)\n",
            figures.len() - ROWS
        ));
    }
    let differing = found.differing().count();
    let word = match (found.knows_noise(), differing) {
        (false, _) => style.doubtful(
            "undecided: no experiment was repeated, so the noise is unknown; add runs of the same file",
        ),
        (true, 0) => style.good("no figure differs by more than the noise of repeats"),
        (true, n) => style.bad(format_args!(
            "{} by more than the noise of repeats",
            match n {
                1 => "1 figure differs".to_owned(),
                n => format!("{n} figures differ"),
            }
        )),
    };
    text.push_str(&format!("\n{word}\n"));
    text
}

fn row(figure: &Figure, found: &Several) -> Vec<String> {
    let name = if figure.name.is_empty() {
        figure.what.to_owned()
    } else {
        format!("{} {}", style::name(&figure.name), figure.what)
    };
    let mean = |runs: &[usize]| {
        let values: Vec<f64> = runs.iter().filter_map(|&run| figure.values[run]).collect();
        match values.len() {
            0 => "—".to_owned(),
            n => shown(values.iter().sum::<f64>() / n as f64, figure.unit),
        }
    };
    let percent = |share: f64| format!("{:+.2} %", 100.0 * share);
    let mut cells = vec![name];
    cells.extend(found.groups.iter().map(|group| mean(&group.runs)));
    for (by, beyond) in figure.difference.iter().zip(&figure.beyond_noise).skip(1) {
        let mark = if *beyond == Some(true) { " *" } else { "" };
        cells.push(by.map_or("—".to_owned(), |by| percent(by) + mark));
    }
    let noise = figure
        .noise
        .iter()
        .skip(usize::from(found.groups.len() > 1));
    let noise = noise.flatten().copied().reduce(f64::max);
    cells.push(noise.map_or("unknown".to_owned(), |noise| {
        format!("{:.2} %", 100.0 * noise)
    }));
    cells
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "ns" => style::measured(value as u64),
        "share" => style::percent(value),
        "" => format!("{value:.1}"),
        unit => format!("{}{unit}", style::short(value as u64)),
    }
}
