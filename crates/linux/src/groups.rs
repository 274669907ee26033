//! The control groups that this process is in: cgroups(7), both versions.

use std::fs;
use std::path::{Path, PathBuf};

/// The versions, whose files have different names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    First,
    Second,
}

/// The folders of the groups whose limits of a `controller` hold for this process: its own, then
/// those above it.
pub(crate) fn own(controller: &str) -> Vec<(Version, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    folders(&groups, Path::new("/sys/fs/cgroup"), controller)
}

/// The same of what `/proc/self/cgroup` says, with folders below `root`.
pub(crate) fn folders(groups: &str, root: &Path, controller: &str) -> Vec<(Version, PathBuf)> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (version, top) = if controllers.is_empty() {
            (Version::Second, root.to_owned())
        } else if controllers.split(',').any(|name| name == controller) {
            (Version::First, root.join(controller))
        } else {
            continue;
        };
        let own = top.join(path.trim_start_matches('/'));
        let groups = own.ancestors().take_while(|group| group.starts_with(&top));
        folders.extend(groups.map(|group| (version, group.to_owned())));
    }
    folders
}
