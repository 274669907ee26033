//! Texts and figures as the page shows them.

use std::path::{Component, Path};

use longhaul_core::Span;

use crate::fidelity::readable;

/// The longest text that is shown, in characters: names are far shorter, reasons too.
const TEXT_MAX: usize = 1000;

/// A text for any place in HTML, attributes included: markup is escaped, what could hide or
/// reorder text is replaced, and too long a text is cut.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len().min(TEXT_MAX) + 16);
    for (index, character) in text.chars().enumerate() {
        if index == TEXT_MAX {
            html.push('…');
            break;
        }
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(character),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                html.push('\u{fffd}');
            }
            _ if character.is_control() => html.push('\u{fffd}'),
            _ => html.push(character),
        }
    }
    html
}

/// The address of a file in the run folder; `None` for a path that leads out of it.
pub(super) fn link(path: &str) -> Option<String> {
    let inside = |part| matches!(part, Component::Normal(_));
    if path.is_empty() || path.len() > TEXT_MAX || !Path::new(path).components().all(inside) {
        return None;
    }
    let mut link = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                link.push(char::from(byte));
            }
            // The colon too: in the first part of a path it would make a scheme.
            _ => link.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(link)
}

/// A whole number with its thousands apart.
pub(super) fn count(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 packet`, `2 packets`.
pub(super) fn of(number: u64, what: &str) -> String {
    format!(
        "{} {what}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// A number with three significant digits and a decimal prefix: `12.3 k`, `1.5 Gbit/s`.
pub(super) fn si(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "—".to_owned();
    }
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // What would be rounded up to 1000 of a prefix is 1 of the next.
    let chosen = prefixes
        .into_iter()
        .find(|(factor, _)| value.abs() >= factor * 0.9995);
    let (factor, prefix) = chosen.unwrap_or((1.0, ""));
    let text = format!("{} {prefix}{unit}", significant(value / factor));
    text.trim_end().to_owned()
}

/// Three significant digits of a number below 1000, without zeros that say nothing.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 || v == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Nanoseconds with a unit for people.
pub(super) fn nanoseconds(ns: u64) -> String {
    readable(Span::from_ns(ns))
}

/// Seconds to the millisecond.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds.is_finite() {
        format!("{seconds:.3} s")
    } else {
        "—".to_owned()
    }
}

/// A part of one, in per cent.
pub(super) fn percent(part: f64) -> String {
    if part.is_finite() {
        format!("{:.1} %", part * 100.0)
    } else {
        "—".to_owned()
    }
}

/// Numbers with runs of neighbours drawn together: `0-3, 6`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let run = |run: &[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    let runs = sorted
        .chunk_by(|a, b| a.checked_add(1) == Some(*b))
        .map(run);
    runs.collect::<Vec<_>>().join(", ")
}
