//! Which run is meant: a folder, a summary, a name, or none for the newest.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use super::{RUNS, SUMMARY, SavedError};
use crate::control;
use crate::folder::{self, MARK};

/// The folder of the run that `run` names: a run folder, its `summary.json`, the name of a folder in
/// `longhaul-runs`, or the name of a run that is under way; the [newest] run there if absent.
pub fn find(run: Option<&Path>) -> Result<PathBuf, SavedError> {
    let Some(run) = run else {
        return newest(Path::new(RUNS));
    };
    if run.is_dir() {
        return of_folder(run);
    }
    if run.file_name().is_some_and(|name| name == SUMMARY) && run.is_file() {
        let parent = run.parent().filter(|parent| *parent != Path::new(""));
        return Ok(parent.unwrap_or(Path::new(".")).to_owned());
    }
    let unknown = || SavedError::Unknown(run.display().to_string());
    // Names lead to folders of `longhaul-runs`, and nowhere else.
    let mut parts = run.components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return Err(unknown());
    };
    let folder = Path::new(RUNS).join(name);
    if folder.is_dir() {
        return of_folder(&folder);
    }
    let name = name.to_str().ok_or_else(unknown)?;
    let under_way = control::running().into_iter();
    let mut named = under_way.filter(|status| control::is_named(status, name));
    named.next().map(|status| status.run).ok_or_else(unknown)
}

fn of_folder(folder: &Path) -> Result<PathBuf, SavedError> {
    if is_run(folder) {
        Ok(folder.to_owned())
    } else {
        Err(SavedError::NotARun(folder.to_owned()))
    }
}

fn is_run(folder: &Path) -> bool {
    folder.join(SUMMARY).exists() || folder.join(MARK).is_file()
}

/// The run in `runs` that began last, by the time of the file that marks it; of several the last by name.
pub fn newest(runs: &Path) -> Result<PathBuf, SavedError> {
    let entries = fs::read_dir(runs).map_err(|_| SavedError::NoRuns)?;
    let began = |folder: PathBuf| Some((began(&folder)?, folder));
    let folders = entries.flatten().map(|entry| entry.path());
    let newest = folders.filter_map(began).max();
    newest.map(|(_, folder)| folder).ok_or(SavedError::NoRuns)
}

/// When a run began; `None` if `folder` is not a run folder.
pub(super) fn began(folder: &Path) -> Option<SystemTime> {
    let mark = folder::mark(folder).metadata().ok()?;
    mark.is_file().then(|| mark.modified().ok())?
}
