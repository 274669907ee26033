//! What the readers of all formats share: places of problems, lines and their fields, and the
//! quantities that formats write in units of their own.
//!
//! Places are byte offsets while a file is read; only a problem that is shown needs its line.

use longhaul_core::Span;
use longhaul_core::units::{Probability, Rate};

use crate::text::error::{FileError, Place, shown};

/// The longest delay that a file may ask for.
const MAX_DELAY: Span = Span::from_s(3600);

/// How many characters of a line are kept after a problem: lines may be megabytes long.
const SHOWN_AFTER: usize = 200;

/// What is wrong with a file, and where.
#[derive(Debug)]
pub(super) struct Flaw {
    /// The byte at which it is; none for the file as a whole.
    at: Option<usize>,
    message: String,
    hint: String,
}

impl Flaw {
    pub(super) fn at(at: usize, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            at: Some(at),
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub(super) fn whole(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            at: None,
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The error that a person reads; `text` is what was read.
    pub(super) fn explain(self, file: &str, text: &str) -> FileError {
        let mut error = FileError::whole(file, self.message, &self.hint);
        error.place = self.at.map(|at| place(text, at));
        error
    }
}

/// The line and column of a byte, and the line without what would be too long to show.
fn place(text: &str, at: usize) -> Place {
    let at = floor(text, at);
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = text[start..at].chars().count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let line = text[start..].lines().next().unwrap_or_default();
    Place {
        line: count(before.bytes().filter(|b| *b == b'\n').count()).saturating_add(1),
        column: count(column).saturating_add(1),
        width: 1,
        excerpt: line.chars().take(column + SHOWN_AFTER).collect(),
    }
}

/// The last boundary between characters that is not after byte `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A line of a file, or a field of one, with its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
}

/// The lines of a file without those that are blank or start with `#`.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    let pieces = text.split_inclusive('\n').map(move |line| {
        let piece = Piece {
            at,
            text: line.trim_end(),
        };
        at += line.len();
        piece
    });
    pieces.filter(|line| {
        let text = line.text.trim_start();
        !text.is_empty() && !text.starts_with('#')
    })
}

impl<'a> Piece<'a> {
    /// The fields between separators.
    pub(super) fn split(self, separates: impl Fn(char) -> bool) -> impl Iterator<Item = Piece<'a>> {
        let base = self.text.as_ptr().addr();
        let fields = self.text.split(separates);
        fields.filter(|field| !field.is_empty()).map(move |field| {
            let at = self.at + (field.as_ptr().addr() - base);
            Piece { at, text: field }
        })
    }

    /// The fields between white space.
    pub(super) fn fields(self) -> impl Iterator<Item = Piece<'a>> {
        self.split(char::is_whitespace)
    }

    pub(super) fn flaw(self, message: impl Into<String>, hint: impl Into<String>) -> Flaw {
        Flaw::at(self.at, message, hint)
    }

    /// A finite number; `what` it is, with its article.
    pub(super) fn number(self, what: &str) -> Result<f64, Flaw> {
        let number = self.text.parse().ok().filter(|n: &f64| n.is_finite());
        number.ok_or_else(|| {
            let message = format!("`{}` is not {what}", shown(self.text));
            self.flaw(message, "write a number there, or remove the line")
        })
    }

    /// A whole number; `what` it is, with its article.
    pub(super) fn whole(self, what: &str) -> Result<usize, Flaw> {
        self.text.parse().map_err(|_| {
            let message = format!("`{}` is not {what}", shown(self.text));
            self.flaw(message, "write a whole number there, or remove the line")
        })
    }

    /// A delay of this number of `unit`s.
    pub(super) fn delay(self, unit: Span) -> Result<Span, Flaw> {
        let number = self.number("a delay")?;
        span(number, unit).ok_or_else(|| {
            let message = format!("`{}` is not a delay of at most an hour", shown(self.text));
            self.flaw(message, "delays are not negative; `unit` says what 1 means")
        })
    }
}

/// `number` times `unit`; none where that is negative, longer than an hour or no number.
pub(super) fn span(number: f64, unit: Span) -> Option<Span> {
    let ns = number * unit.as_ns() as f64;
    (0.0..=MAX_DELAY.as_ns() as f64)
        .contains(&ns)
        .then(|| Span::from_ns(ns.round() as u64))
}

/// A rate from bits per second; `None` below 1 bit/s or above 1 Pbit/s.
pub(super) fn rate(bits_per_s: f64) -> Option<Rate> {
    (1.0..=1e15)
        .contains(&bits_per_s)
        .then(|| Rate::from_bits_per_s(bits_per_s.round() as u64))
        .flatten()
}

/// A probability from a fraction, exact to 18 decimal places.
pub(super) fn fraction(number: f64) -> Option<Probability> {
    const WHOLE: u64 = 1_000_000_000_000_000_000;
    (0.0..=1.0)
        .contains(&number)
        .then(|| Probability::from_ratio((number * WHOLE as f64).round() as u64, WHOLE))
        .flatten()
}

/// Splits `10 Mbit` into its number and its unit.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !digit(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// The rate that the label of a link names: `10 Gbps`, `2.5Gb/s`, `155M`, `10GE`,
/// `2 x 10 Gbps`, and the digital hierarchies' `OC-192c`, `STM-16`, `E3`, `T1`, `DS-3`
/// (ITU-T G.702 and G.707, ANSI T1.105). Labels that say anything else name none.
pub(super) fn rate_of_label(label: &str) -> Option<Rate> {
    let label = label.trim().to_ascii_lowercase();
    let (times, label) = match label.split_once('x') {
        Some((n, rest)) => (n.trim().parse().ok()?, rest.trim()),
        None => (1.0, label.as_str()),
    };
    let one = if label.starts_with(|c: char| c.is_ascii_digit()) {
        let (number, unit) = quantity(label)?;
        let prefix = match unit.chars().next()? {
            'k' => 1e3,
            'm' => 1e6,
            'g' => 1e9,
            't' => 1e12,
            _ => return None,
        };
        let bits = [
            "", "b", "bps", "bit", "bits", "bit/s", "bits/s", "b/s", "e", "be",
        ];
        bits.contains(&&unit[1..]).then_some(number * prefix)?
    } else {
        let digits = label.find(|c: char| c.is_ascii_digit())?;
        let (kind, level) = label.split_at(digits);
        let level: f64 = level.trim_end_matches('c').parse().ok()?;
        match (kind.trim_end_matches(['-', ' ']), level as u32) {
            ("oc", _) => level * 51.84e6,
            ("stm", _) => level * 155.52e6,
            ("t" | "ds", 1) => 1.544e6,
            ("t" | "ds", 3) => 44.736e6,
            ("e", 1) => 2.048e6,
            ("e", 3) => 34.368e6,
            _ => return None,
        }
    };
    rate(times * one)
}

/// A bandwidth as Shadow writes it (`1 Gbit`, `100 megabit`, `10 MiB`); bits per second where
/// it has no unit.
pub(super) fn shadow_rate(text: &str) -> Option<Rate> {
    let (number, unit) = quantity(text)?;
    let named = |names: &[&str]| names.iter().find_map(|name| unit.strip_suffix(name));
    let (prefix, bits) = if unit.is_empty() {
        ("", 1.0)
    } else if let Some(prefix) = named(&["bits", "bit"]) {
        (prefix, 1.0)
    } else {
        (named(&["bytes", "byte", "B"])?, 8.0)
    };
    let factor = match prefix {
        "" => 1.0,
        "k" | "K" | "kilo" => 1e3,
        "M" | "mega" => 1e6,
        "G" | "giga" => 1e9,
        "T" | "tera" => 1e12,
        "Ki" | "kibi" => 1024.0,
        "Mi" | "mebi" => 1024.0 * 1024.0,
        "Gi" | "gibi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" | "tebi" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    rate(number * bits * factor)
}

/// A time as Shadow writes it (`10 ms`, `2 seconds`); seconds where it has no unit.
pub(super) fn shadow_time(text: &str) -> Option<Span> {
    let (number, unit) = quantity(text)?;
    let unit = match unit {
        "ns" | "nanosecond" | "nanoseconds" => Span::from_ns(1),
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => Span::from_us(1),
        "ms" | "millisecond" | "milliseconds" => Span::from_ms(1),
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Span::from_s(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Span::from_s(60),
        _ => return None,
    };
    span(number, unit)
}

/// Counts cases of one kind and keeps the first few as examples, for one note about all.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) count: usize,
    examples: Vec<String>,
}

impl Tally {
    const EXAMPLES: usize = 3;

    pub(super) fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < Self::EXAMPLES {
            self.examples.push(shown(&example()));
        }
    }

    /// `3 links have` or `1 link has`, with the examples in brackets; none without cases.
    pub(super) fn note(&self, (one, many): (&str, &str), rest: impl AsRef<str>) -> Option<String> {
        let what = if self.count == 1 { one } else { many };
        let more = if self.count > self.examples.len() {
            ", …"
        } else {
            ""
        };
        let examples = self.examples.join(", ");
        let rest = rest.as_ref();
        (self.count > 0).then(|| format!("{} {what} ({examples}{more}): {rest}", self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_rates_or_nothing() {
        let mbit = |label: &str| rate_of_label(label).map(|rate| rate.bits_per_s() as f64 / 1e6);
        let cases = [
            ("10 Gbps", 10_000.0),
            ("2.5Gb/s", 2_500.0),
            ("155M", 155.0),
            ("10GE", 10_000.0),
            ("2 x 10 Gbps", 20_000.0),
            ("OC-192c", 9_953.28),
            ("STM-16", 2_488.32),
            ("E3", 34.368),
            ("T1", 1.544),
            ("ds-3", 44.736),
        ];
        for (label, expected) in cases {
            assert_eq!(mbit(label), Some(expected), "{label}");
        }
        let none = [
            "",
            "Lit Fibre",
            "10",
            "x",
            "x 10 Gbps",
            "oc",
            "10 parsec",
            "e9",
            "0 Mbps",
            "…",
            "1µ",
            "9e99",
            "Leased Wavelength/Managed Service",
            "> 10 Gbps",
        ];
        for label in none {
            assert_eq!(mbit(label), None, "{label}");
        }
    }

    #[test]
    fn shadow_writes_units_of_its_own() {
        let bits = |text: &str| shadow_rate(text).map(Rate::bits_per_s);
        assert_eq!(bits("1 Gbit"), Some(1_000_000_000));
        assert_eq!(bits("100 megabits"), Some(100_000_000));
        assert_eq!(bits("10 MiB"), Some(10 * 1024 * 1024 * 8));
        assert_eq!(bits("81920"), Some(81_920));
        assert_eq!(bits("10 Gbit/s"), None);
        assert_eq!(shadow_time("10 ms"), Some(Span::from_ms(10)));
        assert_eq!(shadow_time("0.5"), Some(Span::from_ms(500)));
        assert_eq!(shadow_time("3 microseconds"), Some(Span::from_us(3)));
        assert_eq!(shadow_time("-1 ms"), None);
        assert_eq!(shadow_time("99 h"), None);
    }

    #[test]
    fn fractions_are_the_probabilities_that_people_write() {
        assert_eq!(fraction(0.01), Some("1 %".parse().unwrap()));
        assert_eq!(fraction(1.0), Some(Probability::ALWAYS));
        assert_eq!(fraction(1.1), None);
        assert_eq!(fraction(f64::NAN), None);
    }

    #[test]
    fn places_are_counted_in_characters() {
        let text = "a\né b\r\nc";
        let at = |needle: char| {
            let place = place(text, text.find(needle).unwrap());
            (place.line, place.column, place.excerpt)
        };
        assert_eq!(at('b'), (2, 3, "é b".into()));
        assert_eq!(at('c'), (3, 1, "c".into()));
        assert_eq!(place(text, 3).column, 1, "inside a character");
        assert_eq!(place(text, 999).line, 3);
    }
}
