//! The tables of the report.

use std::cmp::Reverse;
use std::fmt::Write;
use std::path::Path;

use super::text::{count, escape, link, nanoseconds, of, percent, ranges, seconds, si};
use crate::summary::{Load, Packets, PartitionSummary, ProgramSummary, Summary};

/// Most programs that are shown.
const PROGRAMS_MAX: usize = 500;
/// Most pipes, flows and cores that are shown.
pub(super) const ROWS_MAX: usize = 200;

/// A table's cell.
pub(super) struct Cell {
    class: &'static str,
    html: String,
}

impl Cell {
    /// A text, escaped here.
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self {
            class: "",
            html: escape(text.as_ref()),
        }
    }

    /// A figure, on the right.
    pub(super) fn number(text: impl AsRef<str>) -> Self {
        Self {
            class: " class=\"n\"",
            html: escape(text.as_ref()),
        }
    }

    /// What went wrong.
    fn bad(text: impl AsRef<str>) -> Self {
        Self {
            class: " class=\"bad\"",
            html: escape(text.as_ref()),
        }
    }

    /// Markup, made of escaped texts.
    fn html(html: String) -> Self {
        Self { class: "", html }
    }
}

/// A table; columns of figures have their head on the right too.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> String {
    let mut body = String::new();
    let mut classes = vec![""; head.len()];
    for row in rows {
        body.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(body, "<td{}>{}</td>", cell.class, cell.html);
            if let Some(class) = classes
                .get_mut(column)
                .filter(|_| cell.class.contains("\"n\""))
            {
                *class = cell.class;
            }
        }
        body.push_str("</tr>\n");
    }
    let heads: String = head
        .iter()
        .zip(classes)
        .map(|(name, class)| format!("<th{class}>{}</th>", escape(name)))
        .collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n"
    )
}

fn section(title: &str, content: &str) -> String {
    format!(
        "<section>\n<h2>{}</h2>\n{content}</section>\n",
        escape(title)
    )
}

/// What became of all packets: the sum exactly, then the causes.
pub(super) fn packets(packets: &Packets) -> String {
    let d = &packets.dropped;
    let drops = [
        ("queue", d.queue, "the queue was full"),
        ("loss", d.loss, "a pipe's random loss"),
        ("link_down", d.link_down, "the link was down"),
        ("hop_limit", d.hop_limit, "the TTL or hop limit ran out"),
        (
            "no_route",
            d.no_route,
            "no node has the address, or no path leads there",
        ),
        (
            "too_big",
            d.too_big,
            "larger than the next MTU, and not to be fragmented",
        ),
        (
            "misdelivered",
            d.misdelivered,
            "came to a host that they were not for",
        ),
        ("absorbed", d.absorbed, "were for a router, which took them"),
    ];
    let r = &packets.refused;
    let refused = [
        ("malformed", r.malformed, "broken headers"),
        ("not_ip", r.not_ip, "neither IPv4 nor IPv6"),
        (
            "multicast",
            r.multicast,
            "broadcast and multicast, which only a lan segment carries",
        ),
        (
            "multicast_data",
            r.multicast_data,
            "those of multicast that programs had sent",
        ),
        ("too_long", r.too_long, "longer than any link's MTU"),
    ];
    let sum = |parts: &[u64]| parts.iter().map(|&part| u128::from(part)).sum::<u128>();
    let dropped = sum(&drops.map(|(_, packets, _)| packets));
    let came = sum(&[packets.entered, packets.created]);
    let went = sum(&[packets.delivered, packets.inside]) + dropped;
    let term = |number: u128, what: &str| format!("<span><b>{}</b> {what}</span>", count(number));
    let mut content = format!(
        "<p class=\"sum\">{} + {} {} {} + {} + {}</p>\n",
        term(packets.entered.into(), "entered"),
        term(packets.created.into(), "created"),
        if came == went { "=" } else { "≠" },
        term(packets.delivered.into(), "delivered"),
        term(dropped, "dropped"),
        term(packets.inside.into(), "inside"),
    );
    if came != went {
        let difference = count(came.abs_diff(went));
        let _ = writeln!(
            content,
            "<p class=\"bad\">The sum does not close: it is off by {difference}. \
             Please report this.</p>"
        );
    }
    let _ = writeln!(
        content,
        "<p>{} in all. Routers left {} unsent for their rate limit.</p>",
        of(packets.hops, "packet-hop"),
        if packets.replies_suppressed == 1 {
            "1 reply".to_owned()
        } else {
            format!("{} replies", count(packets.replies_suppressed))
        },
    );
    content += &causes("Dropped inside the network", &drops);
    content += &causes("Refused at the door: these never entered", &refused);
    section("Packets", &content)
}

/// The causes that occurred.
fn causes(title: &str, causes: &[(&str, u64, &str)]) -> String {
    let occurred = causes.iter().filter(|(_, packets, _)| *packets > 0);
    let rows = occurred.map(|(cause, packets, meaning)| {
        vec![
            Cell::text(cause),
            Cell::number(count(*packets)),
            Cell::text(meaning),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return format!("<p>{}: none.</p>\n", escape(title));
    }
    format!(
        "<h3>{}</h3>\n{}",
        escape(title),
        table(&["cause", "packets", ""], rows)
    )
}

/// The programs, those that failed first.
pub(super) fn programs(programs: &[ProgramSummary], folder: &Path) -> String {
    if programs.is_empty() {
        return section("Programs", "<p>None.</p>\n");
    }
    let mut shown: Vec<_> = programs.iter().collect();
    if shown.len() > PROGRAMS_MAX {
        shown.sort_by_key(|program| program.failure.is_none());
    }
    let rows = shown.iter().take(PROGRAMS_MAX).map(|program| {
        let time = |time: Option<f64>| Cell::number(time.map_or("—".to_owned(), seconds));
        let took = program
            .start_s
            .zip(program.finish_s)
            .map(|(start, finish)| finish - start);
        vec![
            Cell::text(&program.name),
            Cell::text(&program.host),
            Cell::number(program.exit.map_or("—".to_owned(), |code| code.to_string())),
            time(program.start_s),
            time(program.finish_s),
            time(took),
            Cell::number(seconds(program.cpu_s)),
            Cell::html(logs(program, folder)),
            remarks(program),
        ]
    });
    let head = [
        "program", "host", "exit", "start", "end", "took", "CPU time", "logs", "",
    ];
    let note = left_out(programs.len(), PROGRAMS_MAX, "program", "failed ones first");
    section("Programs", &(note + &table(&head, rows)))
}

/// Links to the logs that are there, with their sizes.
fn logs(program: &ProgramSummary, folder: &Path) -> String {
    let log = |stream: &str| {
        let path = format!("{}.{stream}", program.log);
        let link = link(&path)?;
        let bytes = std::fs::metadata(folder.join(&path))
            .ok()
            .filter(|m| m.is_file())?
            .len();
        let size = si(bytes as f64, "B");
        Some(format!(
            "<a href=\"{link}\">{stream}</a>&#160;<small>{size}</small>"
        ))
    };
    let logs: Vec<_> = ["out", "err"].into_iter().filter_map(log).collect();
    if logs.is_empty() {
        "—".to_owned()
    } else {
        logs.join(" ")
    }
}

fn remarks(program: &ProgramSummary) -> Cell {
    let mut remarks: Vec<String> = program.failure.iter().cloned().collect();
    if program.service {
        let stopped = if program.ended_by_run {
            ", stopped with the run"
        } else {
            ""
        };
        remarks.push(format!("service{stopped}"));
    }
    if program.log_discarded_bytes > 0 {
        let bytes = si(program.log_discarded_bytes as f64, "B");
        remarks.push(format!(
            "{bytes} of output beyond the bound of a log were not kept"
        ));
    }
    let text = remarks.join("; ");
    if program.failure.is_some() {
        Cell::bad(text)
    } else {
        Cell::text(text)
    }
}

/// What the file had scheduled; no section where there was nothing.
pub(super) fn events(summary: &Summary) -> String {
    let events = &summary.events;
    if events.is_empty() {
        return String::new();
    }
    let rows = events.iter().take(ROWS_MAX).map(|event| {
        let at = Cell::number(format!("{:.3} s", event.at_s));
        vec![at, Cell::text(&event.event)]
    });
    let all = usize::try_from(summary.events_seen).unwrap_or(usize::MAX);
    let note = left_out(all, ROWS_MAX, "event", "the first ones");
    section("Events", &(note + &table(&["at", "event"], rows)))
}

/// The pipes, busiest first.
pub(super) fn pipes(summary: &Summary) -> String {
    let mut pipes: Vec<_> = summary.pipes.iter().collect();
    pipes.sort_by_key(|pipe| Reverse(pipe.counts.bytes));
    let rows = pipes.iter().take(ROWS_MAX).map(|pipe| {
        let rate = pipe.counts.bytes as f64 * 8.0 / summary.simulated_s;
        vec![
            Cell::text(&pipe.name),
            Cell::number(count(pipe.counts.packets)),
            Cell::number(count(pipe.counts.bytes)),
            Cell::number(si(rate, "bit/s")),
            Cell::number(pipe.utilisation.map_or("—".to_owned(), percent)),
            Cell::number(count(pipe.counts.drops_queue)),
            Cell::number(count(pipe.counts.drops_loss)),
            Cell::number(count(pipe.counts.drops_down)),
            Cell::text(&pipe.framing),
        ]
    });
    let head = [
        "pipe",
        "packets",
        "bytes",
        "mean rate",
        "utilisation",
        "queue",
        "loss",
        "down",
        "framing",
    ];
    let mut note = left_out(
        summary.pipes_seen.max(pipes.len()),
        ROWS_MAX,
        "pipe",
        "most bytes first",
    );
    let hidden: u128 = pipes
        .iter()
        .skip(ROWS_MAX)
        .map(|pipe| u128::from(pipe.counts.drops))
        .sum();
    if hidden > 0 {
        let hidden = count(hidden);
        let _ = writeln!(
            note,
            "<p>Pipes that are not shown dropped {hidden} packets.</p>"
        );
    }
    note += "<p>Bytes count as the pipe's framing has it. An unlimited rate has no \
             utilisation.</p>\n";
    section("Pipes", &(note + &table(&head, rows)))
}

/// The cores.
pub(super) fn cores(summary: &Summary) -> String {
    let rows = summary
        .cores
        .iter()
        .enumerate()
        .take(ROWS_MAX)
        .map(|(number, core)| {
            vec![
                Cell::number(number.to_string()),
                Cell::number(count(core.pipes as u64)),
                Cell::number(count(core.packets)),
                Cell::number(count(core.cross_core)),
                Cell::number(percent(core.busy)),
            ]
        });
    let head = ["core", "pipes", "packets", "cross-core", "busy"];
    let mut content = left_out(summary.cores.len(), ROWS_MAX, "core", "in their order");
    content += &table(&head, rows);
    if let Some(partition) = &summary.partition {
        content += &load(partition);
    }
    section("Cores", &content)
}

/// What was expected of a partition, and what came of it.
fn load(partition: &PartitionSummary) -> String {
    let (predicted, measured) = (&partition.predicted, &partition.measured);
    let row = |name: &str, text: fn(f64) -> String, of: fn(&Load) -> f64| {
        let numbers = [predicted, measured].map(|load| Cell::number(text(of(load))));
        [Cell::text(name)].into_iter().chain(numbers).collect()
    };
    let rows: [Vec<Cell>; 3] = [
        row("efficiency", percent, |load| load.efficiency),
        row("busy, maximum", percent, |load| load.load_max),
        row("busy, mean", percent, |load| load.load_mean),
    ];
    let look_ahead = partition.lookahead_ns;
    let look_ahead = look_ahead.map_or("without bound".to_owned(), nanoseconds);
    format!(
        "{}<p>{} edge packets, which entered or were created, and {} that crossed from one core to \
         another: efficiency is edge over edge and crossing. Busy is CPU time over experiment time. \
         Partition: {}, {} cut, look-ahead {look_ahead}. Predicted by {}.</p>\n",
        table(&["", "predicted", "measured"], rows),
        count(partition.edge_packets),
        count(partition.crossing_packets),
        escape(&partition.method),
        of(partition.cut_pipes as u64, "pipe"),
        match partition.costs.as_str() {
            "machine" => "this machine's costs",
            _ => "the built-in costs",
        },
    )
}

/// Says what a table leaves out.
fn left_out(all: usize, max: usize, what: &str, order: &str) -> String {
    if all <= max {
        return String::new();
    }
    let all = of(all as u64, what);
    format!("<p>{max} of {all}, {order}; the rest is in summary.json.</p>\n")
}

/// The parameters of the run, the machine, and where everything is.
pub(super) fn run(summary: &Summary) -> String {
    let machine = &summary.machine;
    let programs = match machine.program_cpus.as_slice() {
        [] => "shared with the core".to_owned(),
        cpus => ranges(cpus),
    };
    let core = machine
        .core_cpu
        .map_or("shared with programs".to_owned(), |cpu| cpu.to_string());
    let facts = [
        ("experiment", summary.experiment.clone()),
        ("seed", summary.seed.to_string()),
        ("clock", summary.clock.clone()),
        ("longhaul", summary.version.clone()),
        ("experiment time", seconds(summary.simulated_s)),
        ("real time", seconds(summary.wall_s)),
        ("CPU time of Longhaul", seconds(summary.cpu_s)),
        ("of it set-up", seconds(summary.setup_s)),
        ("of it tear-down", seconds(summary.teardown_s)),
        (
            "speed",
            format!(
                "{} packet-hops per CPU second of the drive loop",
                count(summary.hops_per_s as u64)
            ),
        ),
        (
            "trace hash",
            summary
                .trace_hash
                .clone()
                .unwrap_or_else(|| "only in virtual time".to_owned()),
        ),
        ("CPUs", machine.cpus.to_string()),
        ("CPU of the core", core),
        ("CPUs of programs", programs),
        ("processor", machine.processor.clone()),
        ("memory", si(machine.memory_bytes as f64, "B")),
        ("kernel", machine.kernel.clone()),
        ("run folder", summary.run.clone()),
    ];
    let rows = facts.map(|(name, value)| vec![Cell::text(name), Cell::text(value)]);
    let mut files = vec![
        "experiment.yaml",
        "hosts.txt",
        "summary.json",
        "series/seconds.csv",
        "series/pipes.csv",
    ];
    if summary.flows_seen > 0 {
        files.push("flows.csv");
    }
    let links = files
        .iter()
        .map(|file| format!("<a href=\"{file}\">{file}</a>"))
        .collect::<Vec<_>>()
        .join(" · ");
    section(
        "Run and machine",
        &(table(&["", ""], rows) + &format!("<p>Files: {links}</p>\n")),
    )
}
