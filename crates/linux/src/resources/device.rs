//! The disk below a folder, as the kernel counts its traffic.
//!
//! Theory: requests are throttled at a whole disk (`blkg_conf_prep` in `block/blk-cgroup.c` refuses
//! partitions), and a file's disk is known where its file system has one. Memory (tmpfs), layers
//! over other file systems (overlay) and the network have none.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A whole disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its number, `254:0`.
    pub number: String,
    /// Its name, `vda`.
    pub name: String,
}

/// Why a folder's disk cannot be throttled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDevice {
    /// Its file system has no disk.
    #[error("{} is on {kind}, which has no disk that can be throttled", folder.display())]
    NoDisk {
        /// The folder.
        folder: PathBuf,
        /// The file system.
        kind: String,
    },
    /// The kernel does not say.
    #[error("asking for the disk of {}: {error}", folder.display())]
    Unknown {
        /// The folder.
        folder: PathBuf,
        /// Its answer.
        error: String,
    },
}

impl Device {
    /// The disk of `folder`, or of the nearest folder above it that there is.
    ///
    /// # Errors
    /// It lies on no disk, or the kernel does not say.
    pub fn of(folder: &Path) -> Result<Self, NoDevice> {
        let unknown = |error: io::Error| NoDevice::Unknown {
            folder: folder.to_owned(),
            error: error.to_string(),
        };
        let absolute = std::path::absolute(folder).map_err(unknown)?;
        let there = absolute.ancestors().find(|folder| folder.exists());
        let there = fs::canonicalize(there.unwrap_or(Path::new("/"))).map_err(unknown)?;
        let number = fs::metadata(&there).map_err(unknown)?.dev();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mount_of(&mounts, &there);
        // File systems such as btrfs have numbers of their own, but say which disk they are on.
        let source = mount.and_then(|mount| fs::metadata(mount.source).ok());
        let source = source.filter(|source| source.file_type().is_block_device());
        let numbers = [Some(number), source.map(|source| source.rdev())];
        let disk = numbers.into_iter().flatten().find_map(whole_disk);
        disk.ok_or_else(|| NoDevice::NoDisk {
            folder: folder.to_owned(),
            kind: mount.map_or_else(|| "a file system".to_owned(), |mount| mount.kind.to_owned()),
        })
    }
}

/// A line of mountinfo, proc_pid_mountinfo(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mount<'a> {
    kind: &'a str,
    source: &'a str,
}

/// The mount that `folder` lies on: the last one with the longest path that is above it.
fn mount_of<'a>(mounts: &'a str, folder: &Path) -> Option<Mount<'a>> {
    let mounts = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?.replace("\\040", " ");
        let mut right = right.split(' ');
        let (kind, source) = (right.next()?, right.next()?);
        folder
            .starts_with(&point)
            .then_some((point.len(), Mount { kind, source }))
    });
    mounts.max_by_key(|(len, _)| *len).map(|(_, mount)| mount)
}

/// The disk of a block device's number; none where it is not one.
fn whole_disk(number: u64) -> Option<Device> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let folder = fs::canonicalize(link).ok()?;
    let disk = if folder.join("partition").exists() {
        folder.parent()?
    } else {
        &folder
    };
    Some(Device {
        number: fs::read_to_string(disk.join("dev")).ok()?.trim().to_owned(),
        name: disk.file_name()?.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_longest_mounts_counts() {
        let mounts = "1 0 254:0 / / rw - ext4 /dev/vda rw\n\
                      2 1 0:20 / /tmp rw shared:1 - tmpfs tmpfs rw\n\
                      3 1 0:21 / /tmp rw - overlay overlay rw\n\
                      4 1 8:1 / /mnt/a\\040b rw - xfs /dev/sda1 rw\n";
        let kind = |path: &str| mount_of(mounts, Path::new(path)).map(|mount| mount.kind);
        assert_eq!(kind("/home/x"), Some("ext4"));
        assert_eq!(kind("/tmp/x"), Some("overlay"));
        assert_eq!(kind("/tmpfs"), Some("ext4"));
        assert_eq!(kind("/mnt/a b/c"), Some("xfs"));
    }

    #[test]
    fn memory_is_no_disk() {
        let error = Device::of(Path::new("/proc/self")).unwrap_err().to_string();
        assert!(error.contains("/proc/self is on proc"), "{error}");
    }
}
