//! Removes control groups that dead runs have left.
//!
//! Theory: a run's group is a [locked folder](crate::locked_folder): both the run and its sandbox have the
//! file that locks it, so it is in use for as long as either lives.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::locked_folder;

/// What the groups of runs are called, before the number of their process and the time.
const PREFIX: &str = "longhaul-run-";
/// Between two attempts to remove a group.
const PAUSE: Duration = Duration::from_millis(5);

/// A name that no other run's groups have.
pub(super) fn name() -> String {
    locked_folder::name(PREFIX)
}

/// Makes a group that is locked until its file and all copies of it are closed.
pub(super) fn make_locked(folder: &Path) -> io::Result<File> {
    locked_folder::make(folder)
}

/// Removes the groups of runs that have died together with their reapers.
pub(super) fn sweep(place: &Path) {
    locked_folder::sweep(place, PREFIX, |folder| {
        remove(folder, Duration::ZERO);
    });
}

/// Removes a run's group and those of its hosts, once their processes have ended; whether it has. The
/// kernel refuses to remove a group with processes, so it is tried until `patience` is over.
pub(super) fn remove(folder: &Path, patience: Duration) -> bool {
    let mut left = patience;
    loop {
        let children = fs::read_dir(folder).into_iter().flatten().flatten();
        for child in children.filter(|child| child.file_type().is_ok_and(|kind| kind.is_dir())) {
            let _ = fs::remove_dir(child.path());
        }
        match fs::remove_dir(folder) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if left.is_zero() => return false,
            Err(_) => {}
        }
        std::thread::sleep(PAUSE);
        left = left.saturating_sub(PAUSE);
    }
}

/// Makes a group that may be there already.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    locked_folder::make_unlocked(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::testing::until;

    #[test]
    fn groups_of_dead_runs_are_swept_with_those_of_their_hosts() {
        let place = std::env::temp_dir().join(format!("longhaul-sweep-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let group = place.join(name());
        let locked = make_locked(&group).unwrap();
        fs::create_dir(group.join("host-0")).unwrap();
        sweep(&place);
        assert!(group.join("host-0").exists());
        drop(locked);
        // What another test has just forked has a copy of the lock until it executes its program.
        let is_swept = || {
            sweep(&place);
            !group.exists()
        };
        assert!(until(Duration::from_secs(10), is_swept));
        fs::remove_dir_all(place).unwrap();
    }
}
