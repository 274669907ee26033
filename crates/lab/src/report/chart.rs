//! A line chart as SVG: lines over time, a linear or logarithmic axis, tooltips by column.
//!
//! Colours come from the style sheet, by the line's place, so that the page's dark scheme
//! holds in charts too. Without a script, the browser's own tooltip on an invisible strip over
//! each column tells the exact figures.

use std::fmt::Write;

use super::series::Grid;
use super::text::escape;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;
/// Up to so many columns, points are marked.
const MARKED_COLUMNS: usize = 40;
/// Most labels on the time axis.
const TIME_LABELS: f64 = 8.0;
/// Decades of a logarithmic axis, at most: up to 10^12.
const DECADES_MAX: i32 = 12;

/// One line: its name and a value for each column that has one.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
}

/// How values are placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Axis {
    /// From zero to the largest, or to this.
    Linear(Option<f64>),
    /// By decades; values below 1 stand at 1.
    Log,
}

/// A chart.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) axis: Axis,
    /// How the axis names a value.
    pub(super) label: fn(f64) -> String,
    pub(super) lines: Vec<Line>,
    /// A value worth a dashed line, and its name.
    pub(super) mark: Option<(f64, String)>,
    /// What the tooltip of each column says.
    pub(super) tips: Vec<String>,
}

/// The axis as it is drawn: its ends, in decades where it is logarithmic, and its ticks.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Scale {
    fn new(chart: &Chart<'_>) -> Self {
        let values = chart
            .lines
            .iter()
            .flat_map(|line| &line.values)
            .flatten()
            .copied();
        let values = values.chain(chart.mark.iter().map(|(value, _)| *value));
        let finite = values.filter(|value| value.is_finite());
        match chart.axis {
            Axis::Log => {
                let decades: Vec<f64> = finite.map(|value| value.max(1.0).log10()).collect();
                let low = decades.iter().copied().fold(f64::MAX, f64::min).floor();
                let high = decades.iter().copied().fold(0.0, f64::max).ceil();
                let high = (high as i32).clamp(1, DECADES_MAX);
                let low = if low.is_finite() {
                    (low as i32).clamp(0, high - 1)
                } else {
                    0
                };
                let ticks = (low..=high).map(|decade| 10f64.powi(decade)).collect();
                Self {
                    log: true,
                    low: low.into(),
                    high: high.into(),
                    ticks,
                }
            }
            Axis::Linear(top) => {
                let largest = finite.fold(0.0, f64::max);
                let largest = top.unwrap_or(largest);
                let step = step(if largest > 0.0 { largest } else { 1.0 });
                let steps = (largest / step - 1e-9).ceil().max(1.0);
                let ticks = (0..=steps as u32)
                    .map(|tick| f64::from(tick) * step)
                    .collect();
                Self {
                    log: false,
                    low: 0.0,
                    high: steps * step,
                    ticks,
                }
            }
        }
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.log {
            value.max(1.0).log10()
        } else {
            value
        };
        let part = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - part)
    }
}

/// A round step that cuts `largest` into at most five.
fn step(largest: f64) -> f64 {
    let decade = 10f64.powf((largest / 5.0).log10().floor());
    let rounds = [1.0, 2.0, 2.5, 5.0, 10.0];
    let round = rounds
        .into_iter()
        .find(|round| round * decade * 5.0 >= largest * (1.0 - 1e-9));
    round.unwrap_or(10.0) * decade
}

fn x(grid: &Grid, seconds: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * (seconds / grid.total_s).clamp(0.0, 1.0)
}

fn middle(grid: &Grid, column: usize) -> f64 {
    let (start, end) = grid.span(column);
    x(grid, f64::midpoint(start, end))
}

impl Chart<'_> {
    /// The chart with its title and key.
    pub(super) fn render(&self, grid: &Grid) -> String {
        let scale = Scale::new(self);
        let title = escape(self.title);
        let mut html = format!("<figure>\n<figcaption>{title}{}</figcaption>\n", self.key());
        let _ = writeln!(
            html,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
        );
        self.draw_axis(&mut html, &scale);
        draw_time(&mut html, grid);
        for (place, line) in self.lines.iter().enumerate() {
            draw_line(&mut html, grid, &scale, place, line);
        }
        self.draw_tips(&mut html, grid);
        html + "</svg>\n</figure>\n"
    }

    /// The names of the lines, where there are several.
    fn key(&self) -> String {
        if self.lines.len() < 2 {
            return String::new();
        }
        let key = |(place, line): (usize, &Line)| {
            format!(
                " <span class=\"key\"><i class=\"k{place}\"></i>{}</span>",
                escape(&line.name)
            )
        };
        self.lines.iter().enumerate().map(key).collect()
    }

    fn draw_axis(&self, svg: &mut String, scale: &Scale) {
        let right = WIDTH - RIGHT;
        for &tick in &scale.ticks {
            let (y, label) = (scale.y(tick), escape(&(self.label)(tick)));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                LEFT - 8.0,
                y + 4.0,
            );
        }
        if let Some((value, name)) = &self.mark {
            let y = scale.y(*value);
            let _ = writeln!(
                svg,
                "<line class=\"mark\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{right}\" y=\"{:.1}\">{}</text>",
                y - 4.0,
                escape(name),
            );
        }
    }

    fn draw_tips(&self, svg: &mut String, grid: &Grid) {
        for (column, tip) in self.tips.iter().enumerate().take(grid.columns) {
            let (start, end) = grid.span(column);
            let (left, right) = (x(grid, start), x(grid, end));
            let _ = writeln!(
                svg,
                "<rect class=\"tip\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\">\
                 <title>{}</title></rect>",
                right - left,
                HEIGHT - TOP - BOTTOM,
                escape(tip),
            );
        }
    }
}

/// The labels of the time axis: round numbers of seconds, minutes or hours.
fn draw_time(svg: &mut String, grid: &Grid) {
    const STEPS: [u64; 17] = [
        1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200,
    ];
    let enough = |step: &u64| grid.total_s / *step as f64 <= TIME_LABELS;
    let fallback = ((grid.total_s / TIME_LABELS / 86_400.0).ceil() as u64).max(1) * 86_400;
    let step = STEPS.into_iter().find(enough).unwrap_or(fallback);
    let (unit, name) = match step {
        0..60 => (1, "s"),
        60..3600 => (60, "min"),
        _ => (3600, "h"),
    };
    let mut at = 0;
    while at as f64 <= grid.total_s {
        let _ = writeln!(
            svg,
            "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{} {name}</text>",
            x(grid, at as f64),
            HEIGHT - 8.0,
            at / unit,
        );
        at += step;
    }
}

/// A line with gaps where values are missing; a value between two gaps becomes a point.
fn draw_line(svg: &mut String, grid: &Grid, scale: &Scale, place: usize, line: &Line) {
    let points: Vec<Option<(f64, f64)>> = line
        .values
        .iter()
        .enumerate()
        .take(grid.columns)
        .map(|(column, value)| {
            let value = value.filter(|value| value.is_finite())?;
            Some((middle(grid, column), scale.y(value)))
        })
        .collect();
    let _ = write!(svg, "<g class=\"l{place}\">");
    for run in points.split(Option::is_none) {
        if run.len() > 1 {
            let path: Vec<_> = run
                .iter()
                .flatten()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = write!(svg, "<polyline points=\"{}\"/>", path.join(" "));
        }
        if run.len() == 1 || grid.columns <= MARKED_COLUMNS {
            for (x, y) in run.iter().flatten() {
                let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>");
            }
        }
    }
    svg.push_str("</g>\n");
}
