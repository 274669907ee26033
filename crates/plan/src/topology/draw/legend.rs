//! The legend: what the symbols and widths mean, how many there are, and what is not shown.

use std::collections::BTreeMap;
use std::fmt::Write;

use longhaul_core::units::Rate;

use super::{
    MANY_LINKS, Paper, Symbol, about_rate, best, class, cores, cut, escape, number, symbol, width,
};
use crate::topology::{Kind, Sketch, Tier};

/// Height of a line.
const LINE: f64 = 18.0;
/// The most rates that are listed.
const RATES: usize = 8;
/// The most cores that are listed.
const CORES: usize = 24;
/// The most notes.
const NOTES: usize = 6;
const LETTER: f64 = 6.6;

/// The legend at the origin, and its size.
pub(super) fn draw(sketch: &Sketch, paper: &Paper<'_>, hidden: usize) -> (String, (f64, f64)) {
    let mut legend = Legend::default();
    let kinds = [
        (Kind::Router, Tier::Core, "core router"),
        (Kind::Router, Tier::Edge, "router"),
        (Kind::Router, Tier::Access, "access router"),
        (Kind::Host, Tier::Access, "host"),
        (Kind::Lan, Tier::Access, "segment"),
    ];
    for (kind, tier, name) in kinds {
        let same =
            |node: &&crate::topology::SketchNode| class(node.kind, node.tier) == class(kind, tier);
        let count = sketch.nodes.iter().filter(same).count();
        if count > 0 {
            let half = match kind {
                Kind::Router => Symbol(6.0, 6.0),
                Kind::Host => Symbol(4.5, 4.5),
                Kind::Lan => Symbol(9.0, 3.0),
            };
            let at = (10.0, legend.middle());
            // With a partition, colours are those of cores, and symbols alone tell kinds apart.
            let class = if sketch.owners.is_empty() {
                class(kind, tier)
            } else {
                "d"
            };
            symbol(&mut legend.text, kind, class, half, at, name);
            legend.row(30.0, &counted(count, name));
        }
    }
    legend.owners(sketch);
    // Unlimited first, then the fastest.
    let mut rates: BTreeMap<(bool, u64), usize> = BTreeMap::new();
    for link in &sketch.links {
        let rate = best(link).map(Rate::bits_per_s);
        *rates
            .entry((rate.is_none(), rate.unwrap_or(0)))
            .or_default() += 1;
    }
    let more = rates.len().saturating_sub(RATES);
    for ((unlimited, bits), count) in rates.iter().rev().take(RATES) {
        let rate = Rate::from_bits_per_s(*bits).filter(|_| !unlimited);
        let (y, wide) = (number(legend.middle()), number(paper.line(rate)));
        let _ = writeln!(
            legend.text,
            "<path class=\"l\" d=\"M0 {y}H22\" stroke-width=\"{wide}\"/>"
        );
        let name = rate.map_or("unlimited".to_owned(), about_rate);
        legend.row(30.0, &format!("{}, {name}", counted(*count, "link")));
    }
    if more > 0 {
        legend.row(
            30.0,
            &format!("and links of {}", counted(more, "other rate")),
        );
    }
    if sketch.links.len() > MANY_LINKS {
        legend.row(
            0.0,
            "Too many links to draw apart: thin lines, without tooltips.",
        );
    } else if !sketch.links.is_empty() {
        legend.row(0.0, "Point at a link for its rate, delay and queue.");
    }
    if hidden > 0 {
        let text = format!(
            "{} did not fit: point at the nodes.",
            counted(hidden, "name")
        );
        legend.row(0.0, &text);
    }
    for note in sketch.notes.iter().take(NOTES) {
        legend.row(0.0, &cut(note, 760.0, LETTER));
    }
    if sketch.notes.len() > NOTES {
        legend.row(
            0.0,
            &format!("… and {}", counted(sketch.notes.len() - NOTES, "more note")),
        );
    }
    let height = legend.height + 12.0;
    (legend.text, (legend.width, height))
}

#[derive(Default)]
struct Legend {
    text: String,
    width: f64,
    height: f64,
}

impl Legend {
    /// The colours of cores and how much each owns, and how many links are cut.
    fn owners(&mut self, sketch: &Sketch) {
        let counts = cores::counts(sketch);
        let more = counts.len().saturating_sub(CORES);
        for (core, count) in counts.into_iter().take(CORES) {
            let (at, name) = ((10.0, self.middle()), format!("core {core}"));
            let class = cores::class(core);
            symbol(
                &mut self.text,
                Kind::Router,
                &class,
                Symbol(6.0, 6.0),
                at,
                &name,
            );
            self.row(30.0, &format!("{name}: {}", counted(count, "node")));
        }
        if more > 0 {
            self.row(
                30.0,
                &format!("and {}; colours repeat", counted(more, "other core")),
            );
        }
        let links = sketch.links.iter();
        let cut = links
            .filter(|link| cores::is_cut(sketch, link.ends))
            .count();
        if cut > 0 {
            let y = number(self.middle());
            let _ = writeln!(
                self.text,
                "<path class=\"l cut\" d=\"M0 {y}H22\" stroke-width=\"2\"/>"
            );
            self.row(30.0, &format!("{} between cores", counted(cut, "link")));
        }
    }

    /// The height of the next line's middle.
    fn middle(&self) -> f64 {
        self.height + LINE / 2.0
    }

    fn row(&mut self, x: f64, text: &str) {
        let y = number(self.middle() + 4.0);
        let _ = writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\">{}</text>",
            escape(text)
        );
        self.width = self.width.max(x + width(text, LETTER));
        self.height += LINE;
    }
}

/// `1 link`, `1,234 links`.
fn counted(count: usize, what: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let s = if count == 1 { "" } else { "s" };
    format!("{text} {what}{s}")
}
