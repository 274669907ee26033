//! Runs on disk: found by folder, file or name, and read whatever state they are in.
//!
//! A summary is a file that anybody may have written, truncated or changed, or that comes from another version.
//! So its size is bounded before it is read, and it is parsed as [`Saved`], in which every figure may be missing
//! and is then unknown, never zero. A value of the wrong form is an error that says where. A run that was killed
//! has no summary; [`partial_run`](partial_run()) says what it has left.
//!
//! Texts are returned as they are in the file: the caller escapes control characters before showing them.
//!
//! Left out: the contents of logs, series and captures.

mod figures;
mod find;
mod partial_run;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use thiserror::Error;

pub use figures::{
    Saved, SavedAttempt, SavedCapture, SavedFlow, SavedGroup, SavedPackets, SavedPipe,
    SavedProgram, SavedSeries, SavedVerdict,
};
pub use find::{find, newest};
pub use partial_run::{Group, PartialRun, partial_run};

/// Where runs go that name no other place, below the current folder.
pub const RUNS: &str = "longhaul-runs";
/// The summary's name in a run folder.
pub const SUMMARY: &str = "summary.json";
/// The largest summary that is read: 400,000 pipes take about 200 MB.
pub(crate) const SUMMARY_MAX: u64 = 1 << 30;

/// Why a run cannot be read.
#[derive(Debug, Error)]
pub enum SavedError {
    /// There is no run at all.
    #[error(
        "there is no run in {RUNS}: name a run folder, or start a run with `longhaul run FILE`"
    )]
    NoRuns,
    /// None of this name.
    #[error("there is no run `{0}`: name a run folder, a {SUMMARY}, or a run in {RUNS}")]
    Unknown(String),
    /// A folder of something else.
    #[error(
        "{0} is not a run folder: it has neither experiment.yaml nor {SUMMARY}; name another, or a run in {RUNS}"
    )]
    NotARun(PathBuf),
    /// It has not ended, or was killed.
    #[error("{folder}: there is no {SUMMARY}: {}", match .under_way {
        true => "the run is still under way; watch it with `longhaul top`",
        false => "the run was killed before its end; run it again",
    })]
    Unfinished {
        /// The run folder.
        folder: PathBuf,
        /// Whether it still runs.
        under_way: bool,
    },
    /// The system does not let it be read.
    #[error("{path}: cannot read it: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Something that no run has written.
    #[error("{path}: this is not a summary: {problem}")]
    NotASummary {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// A summary as a file holds it.
#[derive(Debug)]
pub struct SummaryFile {
    /// The folder that it lies in.
    pub folder: PathBuf,
    path: PathBuf,
    text: String,
}

impl SummaryFile {
    /// Reads the summary of a run that has been [found](find).
    pub fn read(folder: &Path) -> Result<Self, SavedError> {
        let path = folder.join(SUMMARY);
        let bytes = bounded(&path, SUMMARY_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SavedError::Unfinished {
                folder: folder.to_owned(),
                under_way: crate::folder::is_under_way(folder),
            },
            io::ErrorKind::InvalidData => SavedError::NotASummary {
                path: path.clone(),
                problem: error.to_string(),
            },
            _ => SavedError::Io {
                path: path.clone(),
                error,
            },
        })?;
        // Parsers do not check the encoding of values that they skip.
        let text = String::from_utf8(bytes).map_err(|error| SavedError::NotASummary {
            path: path.clone(),
            problem: error.utf8_error().to_string(),
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            text,
        })
    }

    /// What it says, in whatever form is asked for.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, SavedError> {
        serde_json::from_str(&self.text).map_err(|error| SavedError::NotASummary {
            path: self.path.clone(),
            problem: error.to_string(),
        })
    }

    /// What of it is shown, with the run folder where it lies now.
    pub fn saved(&self) -> Result<Saved, SavedError> {
        let mut saved: Saved = self.parse()?;
        let folder = self.folder.canonicalize().unwrap_or(self.folder.clone());
        // Of several attempts the summary is that of the best, which has a folder of its own.
        let attempt = saved.run.as_deref().filter(|_| !saved.attempts.is_empty());
        let attempt = attempt.and_then(|run| Path::new(run).file_name());
        let attempts = crate::folder::attempts(&folder);
        let mut attempts = attempts.into_iter();
        let folder = attempts
            .find(|path| path.file_name() == attempt)
            .unwrap_or(folder);
        saved.run = Some(folder.display().to_string());
        Ok(saved)
    }

    /// Its text, which [`parse`](Self::parse) has found to be JSON.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What a file holds. It is an error of the kind `InvalidData` if it is not a regular file or larger than `most` bytes.
pub(crate) fn bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let unfit = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem);
    let too_large = || unfit("it is too large");
    // Before it is opened, which waits for a writer where it is a pipe.
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(unfit("it is not a regular file"));
    }
    if metadata.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    Ok(bytes)
}
