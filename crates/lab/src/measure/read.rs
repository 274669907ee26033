//! Series read back from a run folder: some columns of all parts, batch by batch.
//!
//! One form for both formats and for the files of seconds: numbers are `f64` (missing ones NaN; times of
//! experiments of up to 104 days are exact), texts are numbers in a pool of texts. A part that cannot be
//! read costs its rows and becomes a note, never the others.
//!
//! **Bounds.** A batch is a part, of which the writer bounds the rows, or [`BATCH`] lines of CSV; lines are
//! of [`LINE_MAX`] at most. How many rows are read in all is the caller's choice.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

/// Rows of a batch of CSV.
const BATCH: usize = 16_384;
/// The longest line that is one of ours.
const LINE_MAX: u64 = 16 << 10;

/// Texts, each with a number.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    numbers: FxHashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
}

impl Pool {
    /// The number of a text.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(text.into(), number);
        self.texts.push(text.into());
        number
    }

    /// The text of a number.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }
}

/// What is asked for: columns by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) numbers: &'a [&'a str],
    pub(crate) texts: &'a [&'a str],
}

/// Some rows: a list for each column that was asked for, all of the same length.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) numbers: Vec<Vec<f64>>,
    pub(crate) texts: Vec<Vec<u32>>,
}

impl Batch {
    fn new(columns: &Columns<'_>) -> Self {
        Self {
            rows: 0,
            numbers: vec![Vec::new(); columns.numbers.len()],
            texts: vec![Vec::new(); columns.texts.len()],
        }
    }
}

/// The outcome of reading a series.
#[derive(Debug, Default)]
pub(crate) struct ReadOutcome {
    /// Rows that were read.
    pub(crate) rows: u64,
    /// Whether rows are left because of the bound.
    pub(crate) cut: bool,
    /// What could not be read, for people.
    pub(crate) notes: Vec<String>,
}

/// The files of a series below `series/`: one file, or the parts of a folder in their order.
pub(crate) fn files(run: &Path, name: &str) -> Vec<PathBuf> {
    let path = run.join("series").join(name);
    if path.is_file() {
        return vec![path];
    }
    let is_part = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("parquet" | "csv")) && path.is_file()
    };
    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
    let mut parts: Vec<_> = entries.map(|entry| entry.path()).filter(is_part).collect();
    let number = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        stem.and_then(|stem| stem.parse::<u64>().ok())
            .unwrap_or(u64::MAX)
    };
    parts.sort_by_cached_key(|path| (number(path), path.clone()));
    parts
}

/// Reads up to about `rows_max` rows of a series; `each` says whether it goes on.
pub(crate) fn read(
    run: &Path,
    name: &str,
    columns: &Columns<'_>,
    pool: &mut Pool,
    rows_max: u64,
    mut each: impl FnMut(&Batch, &Pool) -> bool,
) -> ReadOutcome {
    let mut outcome = ReadOutcome::default();
    for path in files(run, name) {
        if outcome.rows >= rows_max {
            outcome.cut = true;
            break;
        }
        let mut goes_on = true;
        let mut rows = 0;
        let mut take = |batch: &Batch, pool: &Pool| {
            rows += batch.rows as u64;
            goes_on = each(batch, pool);
            goes_on && outcome.rows + rows < rows_max
        };
        match part(&path, columns, pool, &mut take) {
            Ok(notes) => outcome
                .notes
                .extend(notes.map(|note| noted(run, &path, &note))),
            Err(error) => {
                let note = format!("cannot be read: {error}");
                outcome.notes.push(noted(run, &path, &note));
            }
        }
        outcome.rows += rows;
        if !goes_on {
            break;
        }
    }
    outcome
}

fn noted(run: &Path, path: &Path, note: &str) -> String {
    let path = path.strip_prefix(run).unwrap_or(path);
    format!("{} {note}", path.display())
}

/// Takes a batch; says whether more are wanted.
type Take<'a> = &'a mut dyn FnMut(&Batch, &Pool) -> bool;

/// Reads a part. Rows that make no sense are skipped, and a note says how many.
fn part(
    path: &Path,
    columns: &Columns<'_>,
    pool: &mut Pool,
    take: Take<'_>,
) -> io::Result<Option<String>> {
    // Opening anything else, such as a FIFO, could block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(path)?;
    match path.extension().and_then(|ending| ending.to_str()) {
        #[cfg(feature = "parquet")]
        Some("parquet") => parquet::part(file, columns, pool, take).map(|()| None),
        #[cfg(not(feature = "parquet"))]
        Some("parquet") => Err(io::Error::other("this build lacks the feature `parquet`")),
        _ => csv::part(file, columns, pool, take),
    }
}
