//! The run folder: where everything of a run goes.
//!
//! ```text
//! DIR/experiment.yaml    the file as it was run (the mark of a run folder)
//! DIR/network.json       the network and the programs, for drawings
//! DIR/hosts.txt          one line per host: name, IPv4, IPv6
//! DIR/logs/NAME.out .err raw output of each program
//! DIR/hosts/NAME/        each host's working folder
//! DIR/series/*.csv       time series
//! DIR/flows.csv          modelled flows
//! DIR/summary.json report.html
//! DIR/control.sock       while the run is under way
//! DIR/attempt-N/         the same for each attempt, where a run may be repeated; DIR itself then holds
//!                        experiment.yaml and summary.json alone
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// Why a folder cannot be a run's.
#[derive(Debug, Error)]
pub enum FolderError {
    /// It holds an earlier run.
    #[error(
        "{0} holds an earlier run; choose another folder with --out, or overwrite it with --force"
    )]
    EarlierRun(PathBuf),
    /// It holds other things.
    #[error("{0} holds files that are not from a run; choose another folder with --out")]
    NotEmpty(PathBuf),
    /// A run in it is under way.
    #[error("a run is under way in {0}; choose another folder with --out")]
    Busy(PathBuf),
    /// It cannot be made or written.
    #[error("run folder {path}: {error}; choose another folder with --out")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

/// A run's folder.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    /// Locked while the run is under way, from before anything is written.
    _lock: Arc<File>,
}

/// What makes a folder a run's.
pub(crate) const MARK: &str = "experiment.yaml";
const SOCKET: &str = "control.sock";
/// Folders of attempts begin so, and end in their number.
const ATTEMPT: &str = "attempt-";
/// Everything that a run writes.
const OURS: [&str; 11] = [
    MARK,
    "network.json",
    "hosts.txt",
    "logs",
    "hosts",
    "series",
    "captures",
    "flows.csv",
    "summary.json",
    "report.html",
    SOCKET,
];

impl RunFolder {
    /// Makes a new folder with `experiment` as its mark; an earlier run in it is removed with
    /// `force` and refused without.
    pub fn create(path: &Path, experiment: &str, force: bool) -> Result<Self, FolderError> {
        let folder = Self::claim(path, experiment, force)?;
        for name in ["logs", "hosts", "series"] {
            let path = folder.path.join(name);
            fs::create_dir(&path).map_err(|error| FolderError::Io { path, error })?;
        }
        Ok(folder)
    }

    /// The same for a folder that only holds the folders of attempts.
    pub fn claim(path: &Path, experiment: &str, force: bool) -> Result<Self, FolderError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| FolderError::Io { path, error }
        };
        fs::create_dir_all(path).map_err(failed(path))?;
        let path = path.canonicalize().map_err(failed(path))?;
        let lock = File::open(&path).map_err(failed(&path))?;
        // A file system without locks cannot tell, which is no reason not to run on it.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(FolderError::Busy(path));
        }
        let empty = fs::read_dir(&path).map_err(failed(&path))?.next().is_none();
        if !empty {
            if !path.join(MARK).is_file() {
                return Err(FolderError::NotEmpty(path));
            }
            if !force {
                return Err(FolderError::EarlierRun(path));
            }
            for name in OURS {
                remove(&path.join(name)).map_err(failed(&path))?;
            }
            for attempt in attempts(&path) {
                remove(&attempt).map_err(failed(&path))?;
            }
        }
        let folder = Self {
            path,
            _lock: Arc::new(lock),
        };
        folder.write(MARK, experiment)?;
        Ok(folder)
    }

    /// The folder of an attempt, from 1.
    pub fn attempt(&self, number: u32) -> PathBuf {
        self.path.join(format!("{ATTEMPT}{number}"))
    }

    /// Makes the first folder of `NAME`, `NAME-2`, … below `parent` that is free: no other run
    /// can get it too. Where none can be made, the first is given, for the error that it brings.
    pub fn next_free(parent: &Path, name: &str) -> PathBuf {
        let _ = fs::create_dir_all(parent);
        let first = parent.join(name);
        let more = (2u64..).map(|number| parent.join(format!("{name}-{number}")));
        for path in std::iter::once(first.clone()).chain(more) {
            match fs::create_dir(&path) {
                Ok(()) => return path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(_) => break,
            }
        }
        first
    }

    /// Removes the folder again: nothing has run in it.
    pub fn abandon(self) {
        for name in OURS {
            let _ = remove(&self.path.join(name));
        }
        // Only an empty folder goes: what others have put there stays.
        let _ = fs::remove_dir(&self.path);
    }

    /// The folder itself, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A program's log; slashes cannot occur in names.
    pub fn log(&self, program: &str, stream: &str) -> PathBuf {
        self.path.join("logs").join(format!("{program}.{stream}"))
    }

    /// A host's working folder.
    pub fn host(&self, name: &str) -> PathBuf {
        self.path.join("hosts").join(name)
    }

    /// The list of hosts for programs that want a file.
    pub fn hostfile(&self) -> PathBuf {
        self.path.join("hosts.txt")
    }

    /// A time series.
    pub fn series(&self, name: &str) -> PathBuf {
        self.path.join("series").join(name)
    }

    /// What became of modelled flows.
    pub fn flows(&self) -> PathBuf {
        self.path.join("flows.csv")
    }

    /// The control socket.
    pub fn control_socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Makes the hosts' working folders.
    pub fn create_hosts<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), FolderError> {
        for name in names {
            let path = self.host(name);
            fs::create_dir(&path).map_err(|error| FolderError::Io { path, error })?;
        }
        Ok(())
    }

    /// Writes a whole file: under a temporary name first, so that a full disk or a kill never
    /// leaves half of one.
    pub fn write(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let partial = self.path.join(format!("{name}.partial"));
        let result = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path));
        result.map_err(|error| {
            let _ = fs::remove_file(&partial);
            FolderError::Io { path, error }
        })
    }
}

/// The file that makes a folder a run's.
pub(crate) fn mark(folder: &Path) -> PathBuf {
    folder.join(MARK)
}

/// Whether a run in the folder is under way, as far as its file system can tell.
pub(crate) fn is_under_way(folder: &Path) -> bool {
    let lock = File::open(folder).map(|file| file.try_lock_shared());
    matches!(lock, Ok(Err(TryLockError::WouldBlock)))
}

/// The folders of attempts in a run's folder, by number: those that are run folders themselves.
pub(crate) fn attempts(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut attempts: Vec<_> = paths
        .filter_map(|path| Some((number_of(&path)?, path)))
        .filter(|(_, path)| path.join(MARK).is_file())
        .collect();
    attempts.sort();
    attempts.into_iter().map(|(_, path)| path).collect()
}

/// The number of an attempt, as its folder is named.
fn number_of(attempt: &Path) -> Option<u32> {
    let name = attempt.file_name()?.to_str()?;
    name.strip_prefix(ATTEMPT)?.parse().ok()
}

/// The folder of the run that is under way in a run's folder: the folder itself, or an attempt's.
pub(crate) fn under_way(path: &Path) -> PathBuf {
    let has_socket = |path: &PathBuf| path.join(SOCKET).exists();
    // A socket that a kill has left behind is an earlier attempt's.
    let attempt = attempts(path).into_iter().rfind(has_socket);
    attempt.unwrap_or_else(|| path.to_owned())
}

/// The folder that the folder of an attempt lies in.
pub(crate) fn of_attempts(attempt: &Path) -> Option<&Path> {
    number_of(attempt).and(attempt.parent())
}

fn remove(path: &Path) -> io::Result<()> {
    let result = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
