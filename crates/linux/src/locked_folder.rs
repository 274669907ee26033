//! Folders that processes lock while they live, so that others can remove what the dead have left.
//!
//! Theory: such a folder is locked (flock(2)) by a file that its process, and what that forks, hold open;
//! the kernel releases the lock with the last of them, however they end. So any other process can tell
//! whether the folder is in use, even where the owner is in another PID namespace, as in containers that
//! share the machine's folders; process numbers would mean nothing there, and are reused. Between making a
//! folder and locking it, another process may remove it, so [`make`] then makes it again, and [`sweep`] removes
//! only the very folder that it has locked.
//!
//! Folders may lie in a place where everybody writes, such as `/tmp`. Only folders of the caller's own user
//! are swept or used, and no link is followed.
//!
//! Left out: file systems without locks, where folders are used unlocked and never swept, and those that give files
//! another owner (NFS with `root_squash`), where [`make`] fails.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;

use crate::clock::monotonic_ns;

/// Between two attempts to lock a folder.
const PAUSE: Duration = Duration::from_millis(5);

/// A name that no other process's folders have.
pub fn name(prefix: &str) -> String {
    format!("{prefix}{}-{}", std::process::id(), monotonic_ns())
}

/// Makes a folder that is locked until its file and all copies of it are closed.
///
/// # Errors
/// It cannot be made, is another user's or a link, or somebody else keeps it locked.
pub fn make(folder: &Path) -> io::Result<File> {
    const ATTEMPTS: u32 = 200;
    for _ in 0..ATTEMPTS {
        make_unlocked(folder)?;
        let file = match open_own(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            result => result?,
        };
        match file.try_lock_shared() {
            // Another process may sweep it before it is locked; then it is made again.
            Ok(()) if folder.exists() => return Ok(file),
            Err(TryLockError::Error(_)) => return Ok(file),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
        }
        std::thread::sleep(PAUSE);
    }
    let message = format!("{}: another process has locked it", folder.display());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
}

/// Makes a folder that may be there already.
pub(crate) fn make_unlocked(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map_err(|error| explain(folder, error)),
    }
}

/// Calls `remove` for each of our folders in `place` that has a [`name`] with `prefix` and whose processes
/// have died.
pub fn sweep(place: &Path, prefix: &str, remove: impl Fn(&Path)) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries {
        if !is_made_name(&entry.file_name(), prefix) {
            continue;
        }
        let folder = entry.path();
        let Ok(file) = open_own(&folder) else {
            continue;
        };
        // Since it was opened, another process may have swept it and its owner may have made it again.
        if file.try_lock().is_ok() && is_at(&file, &folder) {
            remove(&folder);
        }
    }
}

/// Whether a name has the form of those that [`name`] makes: a user's own folder may begin with the same
/// words.
fn is_made_name(name: &OsStr, prefix: &str) -> bool {
    let numbers = name.to_str().and_then(|name| name.strip_prefix(prefix));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|numbers| numbers.split('-').all(is_number))
}

/// Whether an open folder is the one that has this name now.
fn is_at(file: &File, folder: &Path) -> bool {
    let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (opened, named) = (file.metadata().map(id), folder.symlink_metadata().map(id));
    opened.is_ok_and(|opened| named.is_ok_and(|named| opened == named))
}

/// Opens a folder that is the caller's own, not a link to one and nothing else.
fn open_own(folder: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(folder)
        .map_err(|error| explain(folder, error))?;
    if file.metadata()?.uid() != geteuid().as_raw() {
        let error = io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's");
        return Err(explain(folder, error));
    }
    Ok(file)
}

fn explain(folder: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::path::PathBuf;

    use super::*;

    const PREFIX: &str = "longhaul-locked-test-";

    /// A scratch folder; it goes when this does.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let name = name(&format!("longhaul-folder-{test}-"));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn sweep_all(place: &Path) {
        sweep(place, PREFIX, |folder| fs::remove_dir_all(folder).unwrap());
    }

    /// Sweeps until a folder is gone: what another test has just forked has a copy of its lock until it
    /// executes its program.
    fn sweep_until_gone(place: &Path, folder: &Path) {
        const ATTEMPTS: u32 = 2_000;
        for _ in 0..ATTEMPTS {
            sweep_all(place);
            if !folder.exists() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{} stays", folder.display());
    }

    #[test]
    fn folders_that_nobody_has_locked_are_swept_and_others_stay() {
        let place = Scratch::new("sweep");
        let names = [name(PREFIX), name(PREFIX), format!("{PREFIX}2-results")];
        let folders = names.each_ref().map(|name| place.0.join(name));
        let there = || folders.each_ref().map(|folder| folder.exists());
        let [one, other] = [&folders[0], &folders[1]].map(|folder| make(folder).unwrap());
        // What a child has inherited.
        let copy = other.try_clone().unwrap();
        fs::create_dir(&folders[2]).unwrap();
        for folder in &folders {
            fs::write(folder.join("file"), "text").unwrap();
        }
        sweep_all(&place.0);
        assert_eq!(there(), [true, true, true]);
        drop((one, other));
        sweep_until_gone(&place.0, &folders[0]);
        assert_eq!(there(), [false, true, true]);
        assert!(folders[1].join("file").exists());
        drop(copy);
        sweep_until_gone(&place.0, &folders[1]);
        assert_eq!(there(), [false, false, true]);
    }

    #[test]
    fn links_files_and_other_users_folders_are_neither_swept_nor_used() {
        let place = Scratch::new("foreign");
        let target = place.0.join("target");
        fs::create_dir(&target).unwrap();
        let [link, file, foreign] =
            ["1", "2", "3"].map(|number| place.0.join(format!("{PREFIX}{number}")));
        symlink(&target, &link).unwrap();
        fs::write(&file, "").unwrap();
        let mut others = vec![link, file];
        if geteuid().is_root() {
            const NOBODY: u32 = 65534;
            fs::create_dir(&foreign).unwrap();
            chown(&foreign, Some(NOBODY), Some(NOBODY)).unwrap();
            others.push(foreign);
        }
        sweep(&place.0, PREFIX, |folder| panic!("{}", folder.display()));
        for other in &others {
            let error = make(other).unwrap_err().to_string();
            assert!(error.contains(PREFIX), "{error}");
            assert!(other.symlink_metadata().is_ok());
        }
    }

    #[test]
    fn a_folder_that_is_swept_before_it_is_locked_is_made_again() {
        let place = Scratch::new("again");
        let folder = place.0.join(name(PREFIX));
        fs::create_dir(&folder).unwrap();
        let sweeper = File::open(&folder).unwrap();
        sweeper.try_lock().unwrap();
        let swept = std::thread::spawn({
            let folder = folder.clone();
            move || {
                std::thread::sleep(10 * PAUSE);
                fs::remove_dir(&folder).unwrap();
                drop(sweeper);
            }
        });
        let locked = make(&folder).unwrap();
        swept.join().unwrap();
        assert!(folder.exists() && File::open(&folder).unwrap().try_lock().is_err());
        drop(locked);
    }

    #[test]
    fn a_folder_that_is_made_again_is_another_one() {
        let place = Scratch::new("another");
        let folder = place.0.join(name(PREFIX));
        fs::create_dir(&folder).unwrap();
        let file = open_own(&folder).unwrap();
        assert!(is_at(&file, &folder));
        fs::remove_dir(&folder).unwrap();
        assert!(!is_at(&file, &folder));
        fs::create_dir(&folder).unwrap();
        assert!(!is_at(&file, &folder));
    }
}
