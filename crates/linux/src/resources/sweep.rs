//! Removes control groups that dead runs have left.
//!
//! Theory: a run's group is locked (flock(2)) for as long as the run or its sandbox lives: both have the
//! open file, and the kernel releases the lock with the last of them. So any other run can tell whether
//! the group is in use, even where the owner is in another PID namespace, as in containers that share the
//! machine's groups; process numbers would mean nothing there. Between making a group and locking it,
//! another run's sweep may remove it, so [`make_locked`] then makes it again.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::clock::monotonic_ns;

/// What the groups of runs are called, before the number of their process and the time.
const PREFIX: &str = "longhaul-run-";
/// Between two attempts to remove or to lock a group.
const PAUSE: Duration = Duration::from_millis(5);

/// A name that no other run's groups have.
pub(super) fn name() -> String {
    format!("{PREFIX}{}-{}", std::process::id(), monotonic_ns())
}

/// Makes a group that is locked until its file and all copies of it are closed.
pub(super) fn make_locked(folder: &Path) -> io::Result<File> {
    const ATTEMPTS: u32 = 200;
    for _ in 0..ATTEMPTS {
        make_folder(folder)?;
        // Another run may sweep it before it is locked; then it is made again.
        if let Ok(file) = File::open(folder)
            && file.try_lock_shared().is_ok()
            && folder.exists()
        {
            return Ok(file);
        }
        std::thread::sleep(PAUSE);
    }
    let message = format!("{}: another process has locked it", folder.display());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
}

/// Removes the groups of runs that have died together with their reapers.
pub(super) fn sweep(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else {
            continue;
        };
        if file.try_lock().is_ok() {
            remove(&entry.path(), Duration::ZERO);
        }
    }
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
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_nobody_has_locked_are_swept_and_others_stay() {
        let place = std::env::temp_dir().join(format!("longhaul-sweep-{}", std::process::id()));
        let names = [name(), name(), "longhaul-other".to_owned()];
        let folders = names.each_ref().map(|name| place.join(name));
        let there = || folders.each_ref().map(|folder| folder.exists());
        fs::create_dir(&place).unwrap();
        let [one, other] = [&folders[0], &folders[1]].map(|f| make_locked(f).unwrap());
        // What a sandbox has inherited.
        let copy = other.try_clone().unwrap();
        fs::create_dir(&folders[2]).unwrap();
        let hosts = folders.each_ref().map(|folder| folder.join("host-0"));
        hosts.iter().for_each(|host| fs::create_dir(host).unwrap());
        sweep(&place);
        assert_eq!(there(), [true, true, true]);
        drop((one, other));
        sweep(&place);
        assert_eq!(there(), [false, true, true]);
        assert!(hosts[1].exists());
        drop(copy);
        sweep(&place);
        assert_eq!(there(), [false, false, true]);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_group_that_is_swept_before_it_is_locked_is_made_again() {
        let place = std::env::temp_dir().join(format!("longhaul-locked-{}", std::process::id()));
        let folder = place.join(name());
        fs::create_dir_all(&folder).unwrap();
        let sweeper = File::open(&folder).unwrap();
        sweeper.try_lock().unwrap();
        let swept = std::thread::spawn({
            let folder = folder.clone();
            move || {
                std::thread::sleep(10 * PAUSE);
                assert!(remove(&folder, Duration::ZERO));
                drop(sweeper);
            }
        });
        let locked = make_locked(&folder).unwrap();
        swept.join().unwrap();
        assert!(folder.exists() && File::open(&folder).unwrap().try_lock().is_err());
        drop(locked);
        fs::remove_dir_all(place).unwrap();
    }
}
