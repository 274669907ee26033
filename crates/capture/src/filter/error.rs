//! What is wrong with a filter, and what to write instead.

use std::fmt;

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Where, in characters from 1.
    pub column: usize,
    /// How many characters it spans, at least 1.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl std::error::Error for FilterError {}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "filter, column {}: {}; {}",
            self.column, self.message, self.hint
        )
    }
}

/// A text of the filter as messages quote it: cut, and nothing that steers a terminal.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut short: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

/// The word that a mistyped one was probably meant to be.
pub(super) fn near_miss<'a>(
    word: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word: String = word.chars().take(80).flat_map(char::to_lowercase).collect();
    let len = word.chars().count();
    let allowed = (len / 3).clamp(1, 3);
    let edits = |other: &&str| strsim::osa_distance(&word, other);
    let nearest = words.into_iter().min_by_key(edits)?;
    // Words without a letter in common are not near, however short.
    (edits(&nearest) <= allowed && edits(&nearest) < len.max(nearest.len())).then_some(nearest)
}
