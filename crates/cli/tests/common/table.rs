//! Series in CSV, as the tests of what runs write down read them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A row by its columns.
#[derive(Debug)]
pub(crate) struct Row(pub(crate) HashMap<String, String>);

impl Row {
    pub(crate) fn text(&self, column: &str) -> &str {
        let cell = self.0.get(column);
        cell.unwrap_or_else(|| panic!("no column {column}"))
    }

    pub(crate) fn whole(&self, column: &str) -> u64 {
        let cell = self.text(column);
        cell.parse()
            .unwrap_or_else(|_| panic!("{column}: `{cell}`"))
    }

    /// A figure, 0 where there is none.
    pub(crate) fn real(&self, column: &str) -> f64 {
        let cell = self.text(column);
        if cell.is_empty() {
            return 0.0;
        }
        cell.parse()
            .unwrap_or_else(|_| panic!("{column}: `{cell}`"))
    }
}

/// The parts of a series of the run in `folder`, in their order; what begins with a dot is none.
pub(crate) fn parts(folder: &Path, series: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("series").join(series));
    let entries = entries.into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().path());
    let is_hidden = |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes()[0] == b'.';
    let mut parts: Vec<PathBuf> = names.filter(|path| !is_hidden(path)).collect();
    parts.sort();
    parts
}

/// The rows of all parts, each of which is whole.
pub(crate) fn rows(folder: &Path, series: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in parts(folder, series) {
        let text = fs::read_to_string(&part).unwrap();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().expect("names").split(',').collect();
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), names.len(), "{}: {line}", part.display());
            let cells = names.iter().zip(cells);
            let row = cells.map(|(name, cell)| ((*name).to_owned(), cell.to_owned()));
            rows.push(Row(row.collect()));
        }
    }
    rows
}
