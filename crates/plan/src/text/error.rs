//! What is wrong with an experiment file, and where, as a person reads it.
//!
//! While a file is read, problems are [`Fault`]s: a position and words. At the end they become
//! [`FileError`]s, which carry the source line and need nothing else to be shown. Every text
//! that comes from the file is cut and cleaned before it is shown: a file must not be able to
//! steer a terminal.

use std::fmt;

/// A place in one of the sources of an experiment: the file, or an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pos {
    /// 0 is the file, n the n-th override.
    pub(crate) source: u16,
    /// From 1; 0 where there is no place.
    pub(crate) line: u32,
    /// In characters, from 1.
    pub(crate) column: u32,
    /// How many characters to underline.
    pub(crate) width: u32,
}

/// A problem found while reading.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) at: Option<Pos>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            at: None,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn at(mut self, at: Pos) -> Self {
        self.at.get_or_insert(at);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }
}

/// The problems found so far. A hostile file may have millions: the first ones are kept, the
/// rest counted.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    more: usize,
}

impl Faults {
    const KEPT: usize = 50;

    pub(crate) fn push(&mut self, fault: Fault) {
        if self.list.len() < Self::KEPT {
            self.list.push(fault)
        } else {
            self.more += 1
        }
    }

    pub(crate) fn add(&mut self, at: Pos, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Fault::new(message).at(at).hint(hint));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are, to see whether there are more later.
    pub(crate) fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// True once further problems are only counted: no need to search for suggestions.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= Self::KEPT
    }
}

/// Where texts come from: the file first, then the overrides.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Name and text.
    pub(crate) list: Vec<(String, String)>,
}

impl Sources {
    /// Turns problems into self-contained errors, in the order of the text.
    pub(crate) fn explain(&self, mut faults: Faults) -> Errors {
        faults
            .list
            .sort_by_key(|fault| fault.at.map(|at| (at.source, at.line, at.column)));
        let errors = faults.list.into_iter().map(|fault| {
            let place = fault.at.filter(|at| at.line > 0);
            let (file, text) = &self.list[place.map_or(0, |at| usize::from(at.source))];
            let line = |at: Pos| text.lines().nth(at.line as usize - 1).unwrap_or_default();
            let place = place.map(|at| Place {
                line: at.line,
                column: at.column,
                width: at.width,
                excerpt: line(at).to_owned(),
            });
            FileError {
                file: file.clone(),
                place,
                message: fault.message,
                hint: fault.hint,
            }
        });
        Errors {
            list: errors.collect(),
            more: faults.more,
        }
    }
}

/// A line and column of a file, with the line itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// How many characters the problem spans, at least 1 when shown.
    pub width: u32,
    /// The source line.
    pub excerpt: String,
}

/// One thing that is wrong with an experiment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file's name, or `--set PATH` for an override.
    pub file: String,
    /// Where; absent for problems of the file as a whole.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl FileError {
    /// An error of the file as a whole.
    pub(crate) fn whole(file: &str, message: impl Into<String>, hint: &str) -> Self {
        let hint = Some(hint.to_owned());
        Self {
            file: file.to_owned(),
            place: None,
            message: message.into(),
            hint,
        }
    }

    /// An error of the text at a place whose line cannot be shown.
    pub(crate) fn unreadable(
        file: &str,
        (line, column): (u32, u32),
        message: impl Into<String>,
        hint: &str,
    ) -> Self {
        let place = Place {
            line,
            column,
            width: 1,
            excerpt: String::new(),
        };
        Self {
            place: Some(place),
            ..Self::whole(file, message, hint)
        }
    }

    /// The line of the problem, 0 for the file as a whole.
    pub fn line(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.line)
    }

    /// The column of the problem, 0 for the file as a whole.
    pub fn column(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.column)
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(place) = &self.place {
            write!(f, "{}:{}:", place.line, place.column)?;
        }
        write!(f, " error: {}", self.message)?;
        if let Some(place) = self
            .place
            .as_ref()
            .filter(|place| !place.excerpt.trim().is_empty())
        {
            place.draw(f)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Place {
    const SHOWN: usize = 100;

    /// The source line and carets under the problem; long lines are cut around it.
    fn draw(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.max(1) as usize - 1;
        let long = self.excerpt.chars().nth(Self::SHOWN).is_some();
        // Of a long line two thirds of the room go to the text before the problem, which tells where
        // it is, and one third to the problem itself.
        let skipped = if long {
            column.saturating_sub(Self::SHOWN * 2 / 3)
        } else {
            0
        };
        let line: String = self
            .excerpt
            .chars()
            .skip(skipped)
            .take(Self::SHOWN)
            .map(clean)
            .collect();
        let (before, indent) = if skipped > 0 { ("…", 1) } else { ("", 0) };
        let room = line.chars().count().saturating_sub(column - skipped).max(1);
        let carets = "^".repeat((self.width as usize).clamp(1, room));
        let number = self.line.to_string();
        let (margin, blank) = (number.len(), " ".repeat(indent + column - skipped));
        write!(f, "\n{number} | {before}{}", line.trim_end())?;
        write!(f, "\n{:margin$} | {blank}{carets}", "")
    }
}

/// Everything that is wrong with an experiment file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    list: Vec<FileError>,
    more: usize,
}

impl Errors {
    /// The errors in the order of the file, at most fifty.
    pub fn list(&self) -> &[FileError] {
        &self.list
    }

    /// How many were found, including those that are not in the list.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }
}

impl From<FileError> for Errors {
    fn from(error: FileError) -> Self {
        Self {
            list: vec![error],
            more: 0,
        }
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.list.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n\n" })?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n\n… and {more} more errors"),
        }
    }
}

/// A character as it may be shown on a terminal.
fn clean(c: char) -> char {
    if c == '\t' {
        ' '
    } else if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
        '\u{fffd}'
    } else {
        c
    }
}

/// A text of the file as messages quote it: cut, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(60).map(clean).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}

/// The candidate that `word` was probably meant to be.
pub(crate) fn near_miss<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    near_misses(word, candidates).first().copied()
}

/// The candidates that `word` may have been meant to be, at most three, the nearest first.
pub(crate) fn near_misses<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    const SHOWN: usize = 3;
    let word: Vec<char> = word.chars().take(80).flat_map(char::to_lowercase).collect();
    let allowed = (word.len() / 3).clamp(1, 3);
    let mut nearest: Vec<(usize, &str)> = Vec::new();
    for candidate in candidates {
        if candidate.chars().count().abs_diff(word.len()) > allowed {
            continue;
        }
        let other: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        let scored = (edits(&word, &other), candidate);
        // Words without a letter in common are not near, however short.
        let near = scored.0 <= allowed && scored.0 < word.len().max(other.len());
        if near && !nearest.contains(&scored) {
            nearest.push(scored);
            nearest.sort_unstable();
            nearest.truncate(SHOWN);
        }
    }
    nearest
        .into_iter()
        .map(|(_, candidate)| candidate)
        .collect()
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_near() {
        let fields = ["ends", "name", "rate", "delay", "loss", "queue"];
        assert_eq!(near_miss("dealy", fields), Some("delay"));
        assert_eq!(near_miss("Rate", fields), Some("rate"));
        assert_eq!(near_miss("bandwidth", fields), None);
        assert_eq!(near_miss("", fields), None);
        let names = ["r1", "r10", "r2", "r3", "s", "r1"];
        assert_eq!(near_misses("r1", names), ["r1", "r10", "r2"]);
        assert_eq!(near_misses("t", names), [""; 0]);
    }

    #[test]
    fn a_line_is_cut_around_its_problem() {
        let place = Place {
            line: 3,
            column: 301,
            width: 4,
            excerpt: "x".repeat(300) + "\x1b[2J",
        };
        let error = FileError {
            file: "f".into(),
            place: Some(place),
            message: "m".into(),
            hint: None,
        };
        let text = error.to_string();
        assert!(text.starts_with("f:3:301: error: m\n3 | …xx"));
        assert!(text.lines().all(|line| line.chars().count() < 120) && !text.contains('\x1b'));
        let (line, carets) = (text.lines().nth(1).unwrap(), text.lines().nth(2).unwrap());
        let column = carets.chars().position(|c| c == '^').unwrap();
        assert_eq!(line.chars().nth(column), Some('\u{fffd}'));
    }
}
