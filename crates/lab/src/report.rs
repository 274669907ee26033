//! `report.html`: what happened in a run and whether it can be trusted, in one file that opens without a
//! network.
//!
//! Purpose: the verdict and why, the topology under load, and every series of the run folder, readable on
//! any machine for as long as there are browsers. How: the data of a run is gathered into one document
//! (`gather`, `document`), series are aggregated to columns (`rollup`) with rows of full resolution where
//! something happened (`windows`), and put into the page that `ui/` builds (`page`). A missing or damaged
//! series costs its charts or a note, never the report; nor does a missing summary.
//!
//! **Bounds.** A page is at most [`PAGE_MAX`] long, whatever the run: a longer one is gathered again with
//! fewer columns. The page that a run makes at its end reads a bounded number of rows, so as not to delay
//! that end; `longhaul report --html` reads all.
//!
//! Left out: packets' payload, programs' environments, and command lines.

mod document;
mod gather;
mod logs;
mod page;
mod rollup;
pub mod serve;
mod specs;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod windows;

use std::path::{Path, PathBuf};

use crate::compare::several::Several;
use crate::saved::SummaryFile;
use document::{Document, FORMAT, VERSION};

/// The longest page, in bytes.
pub const PAGE_MAX: usize = 50_000_000;
/// Rows of a series that a run reads at its end: about a second's work.
const ROWS_AT_END: u64 = 4_000_000;
/// Numbers of a series in columns.
const NUMBERS: u64 = 6_000_000;
/// Rows of full resolution of a series.
const WINDOW_ROWS: u64 = 60_000;
/// A page that is too long is made again with its extent divided by this.
const LESS: u64 = 3;

/// How much of a run goes into its page.
#[derive(Debug, Clone)]
pub struct Extent {
    /// Rows of a series that are read.
    rows: u64,
    /// Numbers of a series in columns, about.
    numbers: u64,
    /// Rows of full resolution of a series.
    window_rows: u64,
    /// Stretches of experiment time of which all rows are wanted, in nanoseconds.
    windows: Vec<(u64, u64)>,
    /// The longest page.
    bytes: usize,
}

impl Extent {
    /// Of the page that a run makes at its end.
    pub const fn at_end() -> Self {
        Self::of_rows(ROWS_AT_END)
    }

    /// Of a page that may take as long as it takes.
    pub const fn whole() -> Self {
        Self::of_rows(u64::MAX)
    }

    const fn of_rows(rows: u64) -> Self {
        Self {
            rows,
            numbers: NUMBERS,
            window_rows: WINDOW_ROWS,
            windows: Vec::new(),
            bytes: PAGE_MAX,
        }
    }

    /// With all rows of these stretches of experiment time, in nanoseconds.
    #[must_use]
    pub fn with_windows(self, windows: Vec<(u64, u64)>) -> Self {
        Self { windows, ..self }
    }

    fn less(&self) -> Self {
        Self {
            numbers: self.numbers / LESS,
            window_rows: self.window_rows / LESS,
            ..self.clone()
        }
    }
}

/// The page of the run in `folder`; `summary` is the text of its `summary.json` where it is at hand, else it
/// is read, and missed where there is none.
pub fn html(folder: &Path, summary: Option<&str>, extent: &Extent) -> String {
    made(extent, |extent| {
        document(vec![gather::run(folder, summary, extent)])
    })
}

/// One page of several runs beside each other.
pub fn compared(several: &Several, extent: &Extent) -> String {
    let share = several.folders.len().max(1) as u64;
    let each = Extent {
        numbers: extent.numbers / share,
        window_rows: extent.window_rows / share,
        ..extent.clone()
    };
    made(&each, |extent| {
        let runs = several.folders.iter();
        let mut document = document(
            runs.map(|folder| gather::run(folder, None, extent))
                .collect(),
        );
        document.comparison = Some(several.clone());
        document
    })
}

/// The folder whose series and logs the page of a run is of: where it had several attempts, that of the best,
/// or of the last where none has been called the best.
pub fn page_folder(folder: &Path) -> PathBuf {
    let saved = SummaryFile::read(folder).and_then(|file| file.saved());
    let best = saved.ok().and_then(|saved| saved.run).map(PathBuf::from);
    let last = || crate::folder::attempts(folder).pop();
    best.or_else(last).unwrap_or_else(|| folder.to_owned())
}

/// A document of these runs.
fn document(runs: Vec<document::Run>) -> Document {
    Document {
        format: FORMAT,
        version: VERSION,
        made_by: env!("CARGO_PKG_VERSION"),
        runs,
        comparison: None,
        served: false,
    }
}

/// A page that is not too long.
fn made(extent: &Extent, gather: impl Fn(&Extent) -> Document) -> String {
    let mut extent = extent.clone();
    loop {
        let document = gather(&extent);
        let packed = page::packed(&document).expect("memory takes what is written");
        let page = page::page(&document, &packed);
        if page.len() <= extent.bytes || extent.numbers == 0 {
            return page;
        }
        extent = extent.less();
    }
}
