//! Draws the screen, at any size: parts without room are dropped, the table of pipes last.

use longhaul_lab::control::{Order, SecondNow, SimulationNow, Top};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as TextStyle};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, LineGauge, Paragraph, Row, Sparkline, Table};

use super::state::{Curve, State};
use crate::style::{self, Style};

/// Lines of a curve, its title among them.
const CURVE: u16 = 5;
/// Cores that are shown.
const CORES: usize = 8;
/// Reasons that are shown.
const REASONS: usize = 3;

const KEYS: [(&str, &str); 8] = [
    ("r", "sort pipes by rate"),
    ("u", "sort them by utilisation"),
    ("d", "sort them by drops"),
    ("b", "sort them by backlog"),
    ("↑ ↓ j k", "scroll the pipes"),
    ("PgUp PgDn Home End", "scroll by a page, or to either end"),
    ("?", "show these keys"),
    ("q Esc Ctrl-C", "quit; the run goes on"),
];

/// Colours, or what stands for them where there are none.
#[derive(Clone, Copy)]
struct Theme {
    coloured: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> TextStyle {
        if self.coloured {
            TextStyle::new().fg(colour)
        } else {
            TextStyle::new()
        }
    }

    fn verdict(self, word: &str) -> TextStyle {
        let colour = match word {
            "faithful" => Color::Green,
            "degraded" => Color::Yellow,
            _ => Color::Red,
        };
        self.colour(colour).add_modifier(Modifier::BOLD)
    }

    fn dim(self) -> TextStyle {
        TextStyle::new().add_modifier(Modifier::DIM)
    }

    fn head(self) -> TextStyle {
        TextStyle::new().add_modifier(Modifier::BOLD)
    }
}

/// The whole screen.
pub(super) fn all(frame: &mut Frame<'_>, state: &mut State, style: Style) {
    let theme = Theme {
        coloured: style.is_on(),
    };
    let area = frame.area();
    let Some(top) = state.top.take() else {
        frame.render_widget(Paragraph::new("asking the run …"), area);
        return;
    };
    let reasons: Vec<Line<'_>> = top
        .reasons
        .iter()
        .rev()
        .take(REASONS)
        .rev()
        .map(|reason| Line::styled(format!("  {}", style::clean(reason)), theme.dim()))
        .collect();
    let figures = figures(&top);
    let cores = cores(&top, theme);
    let has = |height: u16, lines: usize| {
        if area.height >= height {
            Constraint::Length(lines as u16)
        } else {
            Constraint::Length(0)
        }
    };
    let has_curves = usize::from(area.width >= 40) * usize::from(CURVE);
    let [head, why, gauge, numbers, curves, core_rows, pipes, foot] = Layout::vertical([
        Constraint::Length(1),
        has(10, reasons.len()),
        has(6, 1),
        has(8, figures.len()),
        has(20, has_curves),
        has(30, if cores.is_empty() { 0 } else { cores.len() + 2 }),
        Constraint::Min(0),
        has(3, 1),
    ])
    .areas(area);
    frame.render_widget(title(&top, theme), head);
    frame.render_widget(Paragraph::new(reasons), why);
    gauges(frame, gauge, &top, theme);
    frame.render_widget(Paragraph::new(figures), numbers);
    two_curves(frame, curves, state, &top, theme);
    core_table(frame, core_rows, cores, theme);
    pipe_table(frame, pipes, state, &top, theme);
    let keys = "q quit  ? keys  sort by: r rate  u utilisation  d drops  b backlog  ↑↓ scroll";
    frame.render_widget(Line::styled(keys, theme.dim()), foot);
    if state.help {
        help(frame, area, theme);
    }
    state.top = Some(top);
}

fn title(top: &Top, theme: Theme) -> Line<'static> {
    let of = top
        .duration_s
        .map_or(String::new(), |duration| format!(" of {duration} s"));
    Line::from(vec![
        Span::styled(style::name(&top.experiment), theme.head()),
        Span::raw(format!("  {:.1} s{of}  ", top.time_s)),
        Span::styled(style::name(&top.verdict), theme.verdict(&top.verdict)),
    ])
}

/// The load of the core, or how far a run in virtual time has come.
fn gauges(frame: &mut Frame<'_>, area: Rect, top: &Top, theme: Theme) {
    let gauge = |part: f64, label: String, style: TextStyle| {
        let part = if part.is_finite() {
            part.clamp(0.0, 1.0)
        } else {
            0.0
        };
        LineGauge::default()
            .ratio(part)
            .label(label)
            .filled_style(style)
    };
    let passed = |duration: f64| {
        let part = top.time_s / duration.max(1e-9);
        gauge(
            part,
            format!("time {:3.0} %", (part * 100.0).min(100.0)),
            theme.colour(Color::Blue),
        )
    };
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2])
        .spacing(2)
        .areas(area);
    let load = top.second.as_ref().map(|second| {
        let colour = match second.headroom {
            ..0.1 => Color::Red,
            ..0.3 => Color::Yellow,
            _ => Color::Green,
        };
        let label = format!("core load {:3.0} %", second.core_load * 100.0);
        gauge(second.core_load, label, theme.colour(colour))
    });
    match (load, top.duration_s) {
        (Some(load), Some(duration)) => {
            frame.render_widget(load, left);
            frame.render_widget(passed(duration), right);
        }
        (Some(load), None) => frame.render_widget(load, area),
        (None, Some(duration)) => frame.render_widget(passed(duration), area),
        (None, None) => {}
    }
}

/// The figures of the last second, or of a run in virtual time.
fn figures(top: &Top) -> Vec<Line<'static>> {
    match (&top.simulation, &top.second) {
        (Some(now), _) => simulated(now),
        (None, Some(second)) => measured(second),
        (None, None) => vec![Line::raw(
            "no figures yet: they appear after the first second",
        )],
    }
}

fn measured(second: &SecondNow) -> Vec<Line<'static>> {
    let late = &second.lateness_ns;
    vec![
        Line::raw(format!(
            "{} packets/s, {} inside; headroom {:.0} %",
            style::grouped(second.packets),
            style::grouped(second.inside),
            second.headroom * 100.0
        )),
        Line::raw(format!(
            "lateness p50 {}, p99 {}, p99.9 {}; {} late, {} lost by the machine",
            style::measured(late.p50),
            style::measured(late.p99),
            style::measured(late.p999),
            style::grouped(second.late),
            style::grouped(second.physical_drops.total()),
        )),
    ]
}

fn simulated(now: &SimulationNow) -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw(format!(
        "{:.2} x real time, {} packet-hops/s; {}/{} flows ended",
        now.speed,
        style::short(now.hops_per_s as u64),
        style::grouped(now.flows_done),
        style::grouped(now.flows),
    ))];
    if let Some(partition) = &now.partition {
        let cores = crate::result::cores(now.cores.len(), partition);
        lines.push(Line::raw(format!("cores {cores}")));
        lines.push(Line::raw(format!(
            "load {}",
            crate::result::load(partition)
        )));
    }
    lines
}

/// Packets and lateness over time.
fn two_curves(frame: &mut Frame<'_>, area: Rect, state: &State, top: &Top, theme: Theme) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2])
        .spacing(1)
        .areas(area);
    let speed = |hundredths: u64| format!("{:.1} x", hundredths as f64 / 100.0);
    let packets = |n: u64| style::short(n);
    let mut one = |area: Rect, name: &str, curve: &Curve, show: &dyn Fn(u64) -> String, colour| {
        let points = curve.last(usize::from(area.width));
        let last = points.last().copied().unwrap_or(0);
        let most = points.iter().copied().max().unwrap_or(0);
        let name = format!("{name} {} (max {})", show(last), show(most));
        let block = Block::new()
            .borders(Borders::TOP)
            .title(Line::styled(name, theme.head()));
        let curve = Sparkline::default()
            .block(block)
            .data(points)
            .style(theme.colour(colour));
        frame.render_widget(curve, area);
    };
    let (names, show): ([&str; 2], &dyn Fn(u64) -> String) = match top.simulation {
        Some(_) => (["packet-hops/s", "speed"], &speed),
        None => (["packets/s", "lateness p99"], &style::measured),
    };
    one(left, names[0], &state.packets, &packets, Color::Cyan);
    one(right, names[1], &state.lateness, show, Color::Magenta);
}

/// Several cores, one row each.
fn cores(top: &Top, theme: Theme) -> Vec<Row<'static>> {
    let Some(now) = top
        .simulation
        .as_ref()
        .filter(|now| now.partition.is_some())
    else {
        return Vec::new();
    };
    let cores = now.cores.iter().enumerate().take(CORES);
    let row = |(number, core): (usize, &longhaul_lab::summary::CoreSummary)| {
        Row::new([
            number.to_string(),
            style::grouped(core.pipes as u64),
            style::grouped(core.packets),
            style::grouped(core.cross_core),
            style::percent(core.busy),
        ])
        .style(theme.colour(Color::Reset))
    };
    cores.map(row).collect()
}

fn core_table(frame: &mut Frame<'_>, area: Rect, rows: Vec<Row<'static>>, theme: Theme) {
    if rows.is_empty() {
        return;
    }
    let head = Row::new(["CORE", "PIPES", "PACKETS", "CROSSING", "BUSY"]).style(theme.head());
    let widths = [6, 9, 16, 16, 10].map(Constraint::Length);
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

/// The pipes, as many as fit; the column that they are sorted by is marked.
fn pipe_table(frame: &mut Frame<'_>, area: Rect, state: &mut State, top: &Top, theme: Theme) {
    state.rows = usize::from(area.height.saturating_sub(1));
    let per = if top.simulation.is_some() { "" } else { "/S" };
    let names = [
        ("PIPE".to_owned(), None),
        (format!("PACKETS{per}"), None),
        (format!("BYTES{per}"), Some(Order::Rate)),
        ("RATE".to_owned(), None),
        ("USED".to_owned(), Some(Order::Utilisation)),
        (format!("DROPS{per}"), Some(Order::Drops)),
        ("BACKLOG".to_owned(), Some(Order::Backlog)),
    ];
    let head = names.map(|(name, by)| {
        if by == Some(state.by) {
            Cell::from(format!("{name} ▼")).style(theme.head().add_modifier(Modifier::REVERSED))
        } else {
            Cell::from(name).style(theme.head())
        }
    });
    let unknown = || "-".to_owned();
    let rows = top
        .pipes
        .iter()
        .skip(state.first)
        .take(state.rows)
        .map(|pipe| {
            let lost = match pipe.drops {
                0 => TextStyle::new(),
                _ => theme.colour(Color::Red),
            };
            Row::new([
                Cell::from(style::name(&pipe.name)),
                Cell::from(style::grouped(pipe.packets)),
                Cell::from(style::bytes(pipe.bytes)),
                Cell::from(
                    pipe.rate_bps
                        .map_or(unknown(), |bps| format!("{}bit/s", style::short(bps))),
                ),
                Cell::from(pipe.utilisation.map_or(unknown(), style::percent)),
                Cell::from(style::grouped(pipe.drops)).style(lost),
                Cell::from(pipe.backlog_bytes.map_or(unknown(), style::bytes)),
            ])
        });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Length(13),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(11),
    ];
    frame.render_widget(Table::new(rows, widths).header(Row::new(head)), area);
}

/// The keys, over everything else.
fn help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let size = |most: u16, there: u16| most.min(there);
    let (width, height) = (
        size(62, area.width),
        size(KEYS.len() as u16 + 2, area.height),
    );
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let lines = KEYS.map(|(key, what)| {
        Line::from(vec![
            Span::styled(format!(" {key:<20}"), theme.head()),
            Span::raw(what),
        ])
    });
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), place);
}
