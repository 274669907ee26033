//! A sketch as an SVG image that a person can read: routers round, hosts square, segments flat;
//! links as wide as their rate's order of magnitude, with rate and delay as tooltips; names where
//! they have room; a title, and a legend with the counts.
//!
//! With a partition, colours are those of the cores that own nodes (`cores.rs`).
//!
//! The image is self-contained: no script, no font, no reference to anything outside. Colours follow
//! the reader's preference for light or dark. Every text from outside is escaped, and every
//! coordinate is finite. Left out: links that bend around nodes, and names that would cover
//! others (they are tooltips, and the legend counts them).

mod cores;
mod labels;
mod legend;

use std::collections::HashMap;
use std::fmt::Write;

use longhaul_core::Span;
use longhaul_core::units::Rate;

use super::layout::{self, Layout};
use super::{Kind, Sketch, SketchLink, SketchPipe, Tier};
use labels::{Labels, Rect};

/// With more links than this, each is a thin line without a tooltip.
const MANY_LINKS: usize = 3_000;
/// Up to this many links, rate and delay are written beside them.
const FEW_LINKS: usize = 40;
/// Space around the drawing, for names at its rim.
const MARGIN: f64 = 56.0;
/// Height of the title.
const HEAD: f64 = 34.0;
/// The longest side of the drawing itself, in pixels.
const LONGEST: f64 = 1_800.0;
/// What neighbouring nodes are apart where there is room.
const APART: f64 = 110.0;
const FONT: f64 = 11.0;

const STYLE: &str = "\
text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328;paint-order:stroke;\
stroke:#fff;stroke-width:3px;stroke-linejoin:round}\
.t{font-size:16px;font-weight:600}.d,.d text{fill:#59636e}.d{font-size:10px}\
.paper{fill:#fff}.l{stroke:#818b98;fill:none;stroke-linecap:round}.many{stroke-opacity:.25}\
.n{stroke:#fff;stroke-width:1.5px}.core{fill:#8250df}.edge{fill:#0969da}.access{fill:#54aeff}\
.host{fill:#1a7f37}.lan{fill:#bc4c00}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3;stroke:#0d1117}.d,.d text{fill:#9198a1}\
.paper{fill:#0d1117}.l{stroke:#6e7681}.n{stroke:#0d1117}.core{fill:#a371f7}.edge{fill:#388bfd}\
.access{fill:#79c0ff}.host{fill:#3fb950}.lan{fill:#db6d28}}";

/// The image of a sketch.
pub fn svg(sketch: &Sketch) -> String {
    let paper = Paper::new(sketch);
    let mut body = String::new();
    let mut labels = Labels::new((
        paper.size.0 + 2.0 * MARGIN,
        HEAD + paper.size.1 + 2.0 * MARGIN,
    ));
    for (node, at) in paper.places.iter().enumerate() {
        labels.block(paper.symbol(node).around(*at));
    }
    paper.links(&mut body);
    paper.nodes(&mut body);
    let hidden = paper.names(&mut labels, &mut body);
    paper.link_texts(&mut labels, &mut body);
    let (legend, legend_size) = legend::draw(sketch, &paper, hidden);
    let width = (paper.size.0 + 2.0 * MARGIN).max(legend_size.0 + 32.0);
    let height = HEAD + paper.size.1 + 2.0 * MARGIN + legend_size.1;
    let title = match sketch.title.as_str() {
        "" => "topology",
        title => title,
    };
    let (title, shown) = (escape(title), escape(&cut(title, width - 32.0, 9.0)));
    let (width, height) = (number(width.ceil()), number(height.ceil()));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}{}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"t\" x=\"16\" y=\"26\">{shown}</text>\n{body}\
         <g transform=\"translate(16 {})\">\n{legend}</g>\n</svg>\n",
        if sketch.owners.is_empty() {
            ""
        } else {
            cores::STYLE
        },
        number((HEAD + paper.size.1 + 2.0 * MARGIN).floor())
    )
}

/// Where the image of a sketch has its nodes, in the order of the sketch: x to the right, y downwards,
/// neighbours usually [`APART`] apart.
pub fn places(sketch: &Sketch) -> Vec<(f64, f64)> {
    let paper = Paper::new(sketch);
    let shifted = |(x, y): (f64, f64)| (x - MARGIN, y - HEAD - MARGIN);
    paper.places.into_iter().map(shifted).collect()
}

/// A symbol's half width and half height.
#[derive(Debug, Clone, Copy)]
struct Symbol(f64, f64);

impl Symbol {
    fn around(self, (x, y): (f64, f64)) -> Rect {
        Rect {
            left: x - self.0,
            top: y - self.1,
            right: x + self.0,
            bottom: y + self.1,
        }
    }
}

/// A sketch with its nodes in pixels.
struct Paper<'a> {
    sketch: &'a Sketch,
    places: Vec<(f64, f64)>,
    size: (f64, f64),
    /// The radius of a router.
    radius: f64,
    degrees: Vec<usize>,
}

impl<'a> Paper<'a> {
    fn new(sketch: &'a Sketch) -> Self {
        let Layout { places, room } = layout::place(sketch);
        let bounds = |part: fn(&(f64, f64)) -> f64| {
            let low = places.iter().map(part).fold(f64::INFINITY, f64::min);
            let high = places.iter().map(part).fold(f64::NEG_INFINITY, f64::max);
            if low <= high { (low, high) } else { (0.0, 0.0) }
        };
        let ((left, right), (bottom, top)) = (bounds(|p| p.0), bounds(|p| p.1));
        let longest = (right - left).max(top - bottom).max(1e-9);
        let scale = (APART / 2.0 / room.max(1e-9)).min(LONGEST / longest);
        let on_paper = |p: &(f64, f64)| {
            let (x, y) = ((p.0 - left) * scale, (top - p.1) * scale);
            (MARGIN + x, HEAD + MARGIN + y)
        };
        Self {
            sketch,
            places: places.iter().map(on_paper).collect(),
            size: ((right - left) * scale, (top - bottom) * scale),
            // On a map with towns close together the symbols stay visible all the same.
            radius: (0.18 * room * scale).clamp(if places.len() < 1000 { 2.5 } else { 1.5 }, 9.0),
            degrees: sketch.degrees(),
        }
    }

    fn symbol(&self, node: usize) -> Symbol {
        let r = self.radius;
        match self.sketch.nodes[node].kind {
            Kind::Router => Symbol(r, r),
            Kind::Host => Symbol(0.7 * r, 0.7 * r),
            Kind::Lan => Symbol(1.6 * r, 0.5 * r),
        }
    }

    /// How wide lines are in this drawing.
    fn line(&self, rate: Option<Rate>) -> f64 {
        width_of(rate) * (self.radius / 6.0).clamp(0.3, 1.0)
    }

    fn links(&self, out: &mut String) {
        if self.sketch.links.len() > MANY_LINKS {
            return self.many_links(out);
        }
        out.push_str("<g class=\"l\">\n");
        let mut parallel: HashMap<[usize; 2], usize> = HashMap::new();
        for link in &self.sketch.links {
            let [a, b] = link.ends;
            let count = parallel.entry([a.min(b), a.max(b)]).or_default();
            let shape = self.line_shape(a.min(b), a.max(b), *count);
            *count += 1;
            let width = number(self.line(best(link)));
            let title = escape(&about_link(self.sketch, link));
            let class = if cores::is_cut(self.sketch, link.ends) {
                " class=\"cut\""
            } else {
                ""
            };
            let _ = writeln!(
                out,
                "<path{class} d=\"{shape}\" stroke-width=\"{width}\"><title>{title}</title></path>"
            );
        }
        out.push_str("</g>\n");
    }

    /// The line between two nodes; further ones between the same nodes bend to both sides.
    fn line_shape(&self, a: usize, b: usize, nth: usize) -> String {
        let ((x1, y1), (x2, y2)) = (self.places[a], self.places[b]);
        let from = format!("M{} {}", number(x1), number(y1));
        if nth == 0 {
            return format!("{from}L{} {}", number(x2), number(y2));
        }
        let length = ((x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1))
            .sqrt()
            .max(1e-9);
        // Parallel links bend to alternating sides; every second one needs a wider curve.
        let side = if nth % 2 == 1 { 1.0 } else { -1.0 };
        let bend = side * 2.0 * self.radius * nth.div_ceil(2) as f64;
        let (x, y) = (
            (x1 + x2) / 2.0 - (y2 - y1) / length * bend,
            (y1 + y2) / 2.0 + (x2 - x1) / length * bend,
        );
        format!(
            "{from}Q{} {} {} {}",
            number(x),
            number(y),
            number(x2),
            number(y2)
        )
    }

    /// All links of one width as one shape, to whole pixels, each pair of nodes once.
    fn many_links(&self, out: &mut String) {
        let mut seen = std::collections::HashSet::new();
        // The more there are the thinner they get, so that the paper does not turn black.
        let thin = (MANY_LINKS as f64 / self.sketch.links.len() as f64).sqrt();
        // By width in hundredths of a pixel, and whether cut: what looks alike is one shape.
        let mut shapes: std::collections::BTreeMap<(u32, bool), String> = Default::default();
        for link in &self.sketch.links {
            let [a, b] = link.ends;
            if !seen.insert([a.min(b), a.max(b)]) {
                continue;
            }
            let width = (self.line(best(link)) * thin * 100.0).max(10.0) as u32;
            let cut = cores::is_cut(self.sketch, link.ends);
            let shape = shapes.entry((width, cut)).or_default();
            let ((x1, y1), (x2, y2)) = (self.places[a], self.places[b]);
            let _ = write!(shape, "M{:.0} {:.0}L{:.0} {:.0}", x1, y1, x2, y2);
        }
        for ((width, cut), shape) in shapes {
            let width = f64::from(width) / 100.0;
            let cut = if cut { " cut" } else { "" };
            let _ = writeln!(
                out,
                "<path class=\"l many{cut}\" d=\"{shape}\" stroke-width=\"{width}\"/>"
            );
        }
    }

    fn nodes(&self, out: &mut String) {
        for (node, &(x, y)) in self.places.iter().enumerate() {
            let sketched = &self.sketch.nodes[node];
            let links = self.degrees[node];
            let s = if links == 1 { "" } else { "s" };
            let owner = cores::owner(self.sketch, node);
            let core = owner.map_or(String::new(), |core| format!(", core {core}"));
            let title = format!(
                "{}: {}, {links} link{s}{core}",
                sketched.name,
                kind(sketched.kind)
            );
            let class = owner.map_or_else(
                || class(sketched.kind, sketched.tier).to_owned(),
                cores::class,
            );
            symbol(
                out,
                sketched.kind,
                &class,
                self.symbol(node),
                (x, y),
                &escape(&title),
            );
        }
    }

    /// Writes the names that have room, routers first, and counts the others.
    fn names(&self, labels: &mut Labels, out: &mut String) -> usize {
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|node| {
            let sketched = &self.sketch.nodes[*node];
            let host = sketched.kind == Kind::Host;
            (
                host,
                sketched.tier,
                std::cmp::Reverse(self.degrees[*node]),
                *node,
            )
        });
        let crowded = self.crowded();
        let mut hidden = 0;
        for node in order {
            let name = cut(&self.sketch.nodes[node].name, 220.0, 0.6 * FONT);
            let size = (width(&name, 0.6 * FONT), FONT);
            let symbol = self.symbol(node);
            let Some((x, y)) = labels.beside(self.places[node], symbol, size, &crowded[node])
            else {
                hidden += 1;
                continue;
            };
            // The baseline is a fifth above the bottom of a line.
            let (x, y) = (number(x), number(y + 0.8 * FONT));
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", escape(&name));
        }
        hidden
    }

    /// For each node and each side on which its name can be, how near to that side its nearest
    /// link leaves: the cosine of the angle between them, in tenths.
    fn crowded(&self) -> Vec<[i8; labels::SIDES.len()]> {
        let mut crowded = vec![[-10; labels::SIDES.len()]; self.places.len()];
        for link in &self.sketch.links {
            let [a, b] = link.ends;
            let (x, y) = (
                self.places[b].0 - self.places[a].0,
                self.places[b].1 - self.places[a].1,
            );
            let length = (x * x + y * y).sqrt().max(1e-9);
            for (node, sign) in [(a, 10.0 / length), (b, -10.0 / length)] {
                for (worst, side) in crowded[node].iter_mut().zip(labels::SIDES) {
                    *worst = (*worst).max(((side.0 * x + side.1 * y) * sign) as i8);
                }
            }
        }
        crowded
    }

    /// Writes rate and delay beside the links of a small drawing, where they have room.
    fn link_texts(&self, labels: &mut Labels, out: &mut String) {
        if self.sketch.links.len() > FEW_LINKS {
            return;
        }
        for link in &self.sketch.links {
            let [a, b] = link.ends.map(|end| self.places[end]);
            let parts = [
                best(link).map(about_rate),
                Some(link.forward.delay)
                    .filter(|d| d.as_ns() > 0)
                    .map(about_span),
            ];
            let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let middle = ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
            let size = (width(&text, 0.55 * FONT), FONT);
            if text.is_empty() || !labels.at(middle, size) {
                continue;
            }
            let (x, y) = (
                number(middle.0 - size.0 / 2.0),
                number(middle.1 + 0.3 * FONT),
            );
            let _ = writeln!(
                out,
                "<text class=\"d\" x=\"{x}\" y=\"{y}\">{}</text>",
                escape(&text)
            );
        }
    }
}

/// Draws a node.
fn symbol(out: &mut String, kind: Kind, class: &str, size: Symbol, at: (f64, f64), title: &str) {
    let (x, y) = at;
    let _ = match kind {
        Kind::Router => writeln!(
            out,
            "<circle class=\"n {class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{title}</title></circle>",
            number(x),
            number(y),
            number(size.0)
        ),
        Kind::Host | Kind::Lan => writeln!(
            out,
            "<rect class=\"n {class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\">\
             <title>{title}</title></rect>",
            number(x - size.0),
            number(y - size.1),
            number(2.0 * size.0),
            number(2.0 * size.1),
            number(size.1 / 4.0)
        ),
    };
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Host => "host",
        Kind::Router => "router",
        Kind::Lan => "segment",
    }
}

fn class(kind: Kind, tier: Tier) -> &'static str {
    match (kind, tier) {
        (Kind::Host, _) => "host",
        (Kind::Lan, _) => "lan",
        (Kind::Router, Tier::Core) => "core",
        (Kind::Router, Tier::Edge) => "edge",
        (Kind::Router, Tier::Access) => "access",
    }
}

/// The larger rate of a link's directions; unlimited is `None`.
fn best(link: &SketchLink) -> Option<Rate> {
    match link.back {
        Some(back) => Some(link.forward.rate?.max(back.rate?)),
        None => link.forward.rate,
    }
}

/// Pixels for a rate: 1 up to 1 Mbit/s, and 0.7 more for each tenfold.
fn width_of(rate: Option<Rate>) -> f64 {
    let Some(rate) = rate else { return 1.5 };
    let mut width = 1.0;
    let mut step = 1_000_000;
    while rate.bits_per_s() >= step * 10 && step < 1_000_000_000_000 {
        width += 0.7;
        step *= 10;
    }
    width
}

/// What a link is and does, in a line.
fn about_link(sketch: &Sketch, link: &SketchLink) -> String {
    let name = |end: usize| sketch.nodes[end].name.as_str();
    let ends = format!("{}-{}", name(link.ends[0]), name(link.ends[1]));
    let mut text = link
        .name
        .clone()
        .or_else(|| link.label.clone())
        .unwrap_or_else(|| ends.clone());
    if text != ends {
        let _ = write!(text, " ({ends})");
    }
    let _ = write!(text, ": {}", about_pipe(&link.forward));
    if let Some(back) = &link.back {
        let _ = write!(text, "; back: {}", about_pipe(back));
    }
    text
}

fn about_pipe(pipe: &SketchPipe) -> String {
    let rate = pipe
        .rate
        .map_or("unlimited".to_owned(), |rate| rate.to_string());
    let mut text = format!("{rate}, {}", pipe.delay);
    if let Some(loss) = pipe.loss {
        let _ = write!(text, ", loss {loss}");
    }
    if let Some(queue) = pipe.queue {
        let _ = write!(text, ", queue {queue}");
    }
    text
}

/// A rate to three digits; tooltips have all of them.
fn about_rate(rate: Rate) -> String {
    let units = [
        (1e12, "Tbit/s"),
        (1e9, "Gbit/s"),
        (1e6, "Mbit/s"),
        (1e3, "kbit/s"),
        (1.0, "bit/s"),
    ];
    three_digits(rate.bits_per_s() as f64, &units)
}

/// A time to three digits.
fn about_span(span: Span) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    three_digits(span.as_ns() as f64, &units)
}

fn three_digits(value: f64, units: &[(f64, &str)]) -> String {
    // What rounds up to 1 of a unit is shown in it.
    let fits = units.iter().find(|(factor, _)| value >= 0.9995 * factor);
    let (factor, unit) = fits.copied().unwrap_or((1.0, ""));
    let value = value / factor;
    let digits = usize::from(value < 99.95) + usize::from(value < 9.995);
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} {unit}")
}

/// A coordinate to a tenth of a pixel.
fn number(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// About how wide a text is, if its usual letters are `letter` wide.
fn width(text: &str, letter: f64) -> f64 {
    // From here on most letters are as wide as they are high.
    let one = |c: char| {
        if c >= '\u{1100}' {
            1.7 * letter
        } else {
            letter
        }
    };
    text.chars().map(one).sum()
}

/// A text that is at most so wide, with `…` where it was cut.
fn cut(text: &str, room: f64, letter: f64) -> String {
    if width(text, letter) <= room {
        return text.to_owned();
    }
    let fits = ((room / letter) as usize).saturating_sub(1).max(1);
    text.chars().take(fits).chain(['…']).collect()
}

/// A text as XML may have it: markup escaped, what XML 1.0 §2.2 forbids replaced, and what
/// turns the direction of writing around.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
