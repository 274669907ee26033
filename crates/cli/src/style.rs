//! Colours, numbers for people, and output that survives a reader that goes away.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::Span;
use longhaul_core::units::Rate;

/// Colours of one stream, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    pub(crate) fn stdout() -> Self {
        Self::of(&io::stdout())
    }

    pub(crate) fn stderr() -> Self {
        Self::of(&io::stderr())
    }

    /// Colours on a terminal, unless `NO_COLOR` (no-color.org) or a dumb one forbids them.
    fn of(stream: &impl IsTerminal) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self {
            on: stream.is_terminal() && !set("NO_COLOR") && !is_dumb(),
        }
    }

    /// No colours, whatever the stream.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { on: false }
    }

    /// Whether there are colours.
    pub(crate) const fn is_on(self) -> bool {
        self.on
    }

    fn paint(self, code: &str, text: impl Display) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.paint("2", text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.paint("1;32", text)
    }

    pub(crate) fn doubtful(self, text: impl Display) -> String {
        self.paint("1;33", text)
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.paint("1;31", text)
    }
}

/// Whether the terminal knows no control sequences.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether a result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether a result was lost on its way to standard output.
pub(crate) fn result_is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes a result to standard output. A reader that has gone away (`| head`) is not a failure.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            LOST.store(true, Ordering::Relaxed);
            problem(format!("standard output: {error}"));
        }
        _ => {}
    }
}

/// Writes a line to standard error, whether or not somebody reads it.
pub(crate) fn notice(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes `error: …` to standard error.
pub(crate) fn problem(text: impl Display) {
    notice(format_args!("{}: {text}", Style::stderr().bad("error")));
}

/// JSON for standard output.
pub(crate) fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// A text from outside without what could steer a terminal.
pub(crate) fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' => ' ',
        c if steers(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// The longest name that is shown whole.
const NAME: usize = 48;

/// A name from outside: cleaned, and cut where it is very long.
pub(crate) fn name(text: &str) -> String {
    let mut name = clean(text.get(..4 * NAME).unwrap_or(text));
    if let Some((at, _)) = name.char_indices().nth(NAME) {
        name.truncate(at);
        name.push('…');
    }
    name
}

/// JSON with escapes for what could steer a terminal. Valid JSON has such characters in its strings alone.
pub(crate) fn clean_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\t' | '\r' => text.push(c),
            c if steers(c) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// Whether a character does something else to a terminal than to be shown.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `1 host`, `2 hosts`.
pub(crate) fn number(n: usize, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {one}{s}", grouped(n as u64))
}

/// Digits in groups of three.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A value in the largest unit that leaves at least 1, to `digits` places, without zeros at the
/// end.
fn scaled(value: f64, units: &[(f64, &str)], digits: usize) -> String {
    // What rounds to 1 of a unit is shown in it: 1 GiB, not 1024 MiB.
    let fits = units.iter().find(|(factor, _)| value >= *factor * 0.99999);
    let (factor, unit) = fits.copied().unwrap_or(units[units.len() - 1]);
    let text = format!("{:.digits$}", value / factor);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} {unit}")
}

/// A time such as `5.1 ms`, to a thousandth of its unit.
pub(crate) fn span(span: Span) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    scaled(span.as_ns() as f64, &units, 3)
}

/// A time such as `5.1 ms`, to a tenth of its unit: for what is measured.
pub(crate) fn measured(ns: u64) -> String {
    scaled(
        ns as f64,
        &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")],
        1,
    )
}

pub(crate) fn rate(rate: Option<Rate>) -> Cow<'static, str> {
    let units = [
        (1e12, "Tbit/s"),
        (1e9, "Gbit/s"),
        (1e6, "Mbit/s"),
        (1e3, "kbit/s"),
        (1.0, "bit/s"),
    ];
    match rate {
        Some(rate) => scaled(rate.bits_per_s() as f64, &units, 3).into(),
        None => "unlimited".into(),
    }
}

/// Memory such as `1.5 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (kib, mib, gib) = (1024.0, 1_048_576.0, 1_073_741_824.0);
    scaled(
        bytes as f64,
        &[(gib, "GiB"), (mib, "MiB"), (kib, "KiB"), (1.0, "B")],
        1,
    )
}

/// A count such as `12.3 k`.
pub(crate) fn short(n: u64) -> String {
    let text = scaled(
        n as f64,
        &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
        1,
    );
    text.trim_end().to_owned()
}

/// A part of one, in per cent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Rows as columns of equal width, two spaces apart and two from the edge.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |c| c.chars().count());
    let width = |column| rows.iter().map(|row| cell(row, column)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("  {cell:width$}"));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(span(Span::from_us(5_100)), "5.1 ms");
        assert_eq!(span(Span::ZERO), "0 ns");
        assert_eq!(span(Span::from_s(100)), "100 s");
        assert_eq!(rate(Rate::from_bits_per_s(1_500_000_000)), "1.5 Gbit/s");
        assert_eq!(rate(None), "unlimited");
        assert_eq!(bytes(32 << 20), "32 MiB");
        assert_eq!(bytes((1 << 30) - 100), "1 GiB");
        assert_eq!(short(12_345), "12.3 k");
        assert_eq!(short(7), "7");
        assert_eq!(number(1, "host"), "1 host");
        assert_eq!(number(2000, "host"), "2,000 hosts");
    }

    #[test]
    fn a_log_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\tc"), "a\u{fffd}[2Jb c");
        assert_eq!(name(&"\u{9b}é".repeat(99)), "\u{fffd}é".repeat(24) + "…");
        let json = "{\n\t\"a\u{9b}2J\": \"\u{202e}é\"\r}";
        assert_eq!(clean_json(json), "{\n\t\"a\\u009b2J\": \"\\u202eé\"\r}");
    }
}
