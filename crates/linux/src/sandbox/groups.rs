//! A host's control groups, seen from inside: its processes join them, and its cgroup namespace
//! shows them as the roots of their trees, where the Java and Go run-times look for limits.
//!
//! The host's init makes the namespace while it is in the groups, and then leaves them: it is none
//! of the host's programs, and must not be the process that is killed when the host's memory is
//! used up.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::mount::{self, MountFlags};
use rustix::thread::UnshareFlags;

use super::boot::DATA_ONLY;
use crate::resources::Membership;
use crate::sys;

/// Where the trees are mounted.
const TREES: &str = "/sys/fs/cgroup";

/// Moves the calling process into the groups, with what it starts from now on.
pub(super) fn join(groups: &[Membership]) -> io::Result<()> {
    for group in groups {
        members(&group.folder)?.write_all(b"0")?;
    }
    Ok(())
}

/// Makes a cgroup namespace whose roots are the groups; the caller is in none of them afterwards.
pub(super) fn enter(groups: &[Membership]) -> io::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    // Opened before, since version 2 checks against the namespace in which a file was opened.
    let homes: io::Result<Vec<File>> = groups.iter().map(|group| members(&group.home)).collect();
    join(groups)?;
    sys::unshare(UnshareFlags::NEWCGROUP)?;
    for mut home in homes? {
        home.write_all(b"0")?;
    }
    Ok(())
}

/// The file that moves processes into a group.
fn members(group: &Path) -> io::Result<File> {
    let file = group.join("cgroup.procs");
    let opened = OpenOptions::new().write(true).open(&file);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// Shows the groups in place of the machine's; programs cannot change them.
pub(super) fn mount(groups: &[Membership]) -> io::Result<()> {
    let trees = Path::new(TREES);
    if groups.is_empty() || !trees.is_dir() {
        return Ok(());
    }
    let read_only = DATA_ONLY | MountFlags::RDONLY;
    if groups.iter().any(|group| group.tree.is_none()) {
        mount::mount("cgroup2", trees, "cgroup2", read_only, c"")?;
        return Ok(());
    }
    mount::mount("tmpfs", trees, "tmpfs", DATA_ONLY, c"mode=0755")?;
    for tree in groups.iter().filter_map(|group| group.tree.as_deref()) {
        let folder = trees.join(tree);
        fs::create_dir(&folder)?;
        let tree = CString::new(tree)?;
        mount::mount("cgroup", &folder, "cgroup", read_only, tree.as_c_str())?;
    }
    Ok(())
}
