//! What a run has left that ended before it could write its summary.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::find::began;
use super::{SUMMARY, bounded};
use crate::folder;

/// The most entries of a folder that are counted.
const ENTRIES_MAX: usize = 100_000;
/// What is read of an experiment file, for its name.
const EXPERIMENT_MAX: u64 = 64 << 20;
/// What is read of the end of a series.
const TAIL: u64 = 4096;

/// Files of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// The folder, below that of the run.
    pub folder: &'static str,
    /// How many of them hold anything.
    pub files: usize,
    /// What they take.
    pub bytes: u64,
}

/// What is there of a run without summary.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialRun {
    /// The run folder.
    pub folder: PathBuf,
    /// The experiment's name, where its file has one in the ordinary place.
    pub experiment: Option<String>,
    /// How long after its beginning the last of its files was written, in seconds.
    pub written_for_s: Option<f64>,
    /// Seconds of the experiment that `series/seconds.csv` has rows of.
    pub seconds: Option<u64>,
    /// Logs, series and captures.
    pub groups: Vec<Group>,
    /// Folders of attempts that have a summary.
    pub attempts: Vec<PathBuf>,
}

/// Inspects a run folder that has no summary.
pub fn partial_run(folder: &Path) -> PartialRun {
    let mut last: Option<SystemTime> = None;
    let groups = ["logs", "series", "captures"].map(|name| group(folder, name, &mut last));
    let written_for = began(folder).zip(last);
    let written_for = written_for.and_then(|(began, last)| last.duration_since(began).ok());
    let attempts = folder::attempts(folder).into_iter();
    PartialRun {
        folder: folder.to_owned(),
        experiment: experiment(folder),
        written_for_s: written_for.map(|time| time.as_secs_f64()),
        seconds: seconds(&folder.join("series").join("seconds.csv")),
        groups: groups.into_iter().filter(|group| group.files > 0).collect(),
        attempts: attempts
            .filter(|path| path.join(SUMMARY).is_file())
            .collect(),
    }
}

/// Counts the files of a folder and of its folders, and notes when the last was written.
fn group(run: &Path, name: &'static str, last: &mut Option<SystemTime>) -> Group {
    let mut found = Group {
        folder: name,
        ..Group::default()
    };
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = list(&run.join(name)).flat_map(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let below = is_folder.then(|| list(&entry.path()));
        std::iter::once(entry).chain(below.into_iter().flatten())
    });
    // Of the link itself where it is one: what it leads to is not the run's.
    let files = entries.take(ENTRIES_MAX).flat_map(|entry| entry.metadata());
    for file in files.filter(|file| file.is_file() && file.len() > 0) {
        found.files += 1;
        found.bytes += file.len();
        *last = (*last).max(file.modified().ok());
    }
    found
}

/// The experiment's name, if the file has it in a line of its own, as `longhaul run` has read it.
fn experiment(folder: &Path) -> Option<String> {
    let bytes = bounded(&folder::mark(folder), EXPERIMENT_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let name = text.lines().find_map(|line| line.strip_prefix("name:"))?;
    let name = name.split(" #").next()?.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// How many seconds a series has rows of: the number of its last whole row, which counts from 0.
fn seconds(path: &Path) -> Option<u64> {
    let tail = || -> io::Result<Vec<u8>> {
        if !path.symlink_metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let tail = tail().ok()?;
    let text = String::from_utf8_lossy(&tail);
    // Text after the last end of a line is a row that was cut short.
    let (whole, _) = text.rsplit_once('\n')?;
    let (_, row) = whole.rsplit_once('\n')?;
    let number: u64 = row.split(',').next()?.parse().ok()?;
    number.checked_add(1)
}
