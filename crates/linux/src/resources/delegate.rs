//! Control groups for an ordinary user's run: this process moves into a group that is the user's.
//!
//! That is the group it is in already, where somebody has delegated it to this process alone, or a
//! scope that the user's systemd makes ([`scope`](super::scope)). Version 2 demands that groups whose
//! children have controllers hold no processes, so this process moves to a child, and the run's groups
//! become its siblings. systemd removes the scope after the last process in it.
//!
//! Left out: moving other processes of such a group, such as a shell. They prevent it from having
//! children with controllers, so there the run asks for a scope.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::places::{Controller, Places};
use super::scope::{self, Group, ScopeError};
use crate::groups::Version;

/// Where the run's own processes are, beside its hosts' groups.
const OWN: &str = "longhaul-run";
/// How long systemd may take for a scope.
const PATIENCE: Duration = Duration::from_secs(2);

/// Moves this process to where it can make groups, where that is possible and necessary. Call it before
/// [`Support::find`](super::Support::find), while the process has one thread.
///
/// # Errors
/// Why there are no groups; a run can do without, less exactly.
pub fn delegate() -> Result<(), ScopeError> {
    let (uid, _) = crate::sys::user_and_group();
    let places = Places::find();
    if uid == 0 || (places.cpu.is_ok() && places.memory.is_ok()) {
        return Ok(());
    }
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let Some(mount) = scope::mount_of_version_2(&read("/proc/self/mountinfo")) else {
        return Ok(());
    };
    let pid = std::process::id();
    let unit = format!("longhaul-{pid}.scope");
    let delegated = scope::delegated(&read("/proc/self/cgroup"), &mount, uid);
    let group = match delegated.filter(|group| is_of_use(group, pid)) {
        Some(group) => group,
        None => scope::start(None, &unit, &[pid], &mount, PATIENCE)?,
    };
    let moved = move_below(&group.path, pid);
    moved.map_err(|error| ScopeError::NotMoved {
        group: group.path,
        error,
    })
}

/// Whether a group has controllers for its children, and no process but `pid` prevents that.
fn is_of_use(group: &Group, pid: u32) -> bool {
    let gives = |controller: Controller| {
        let name = controller.name(Version::Second);
        group.controllers.iter().any(|given| given == name)
    };
    let processes = fs::read_to_string(group.path.join("cgroup.procs")).unwrap_or_default();
    let pid = pid.to_string();
    (gives(Controller::Cpu) || gives(Controller::Memory))
        && processes.split_whitespace().all(|other| other == pid)
}

/// Moves a process to a group of its own below `group`.
fn move_below(group: &Path, pid: u32) -> io::Result<()> {
    let own = group.join(OWN);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(own.join("cgroup.procs"), pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_of_use_with_controllers_and_without_others() {
        let tree = std::env::temp_dir().join(format!("longhaul-of-use-{}", std::process::id()));
        fs::create_dir_all(&tree).unwrap();
        for (controllers, processes, expected) in [
            ("cpu memory pids", "77\n", true),
            ("memory", "77\n", true),
            ("cpu memory", "7\n77\n", false),
            // Of a process that this PID namespace does not show.
            ("cpu memory", "0\n77\n", false),
            ("pids", "77\n", false),
            ("", "77\n", false),
        ] {
            fs::write(tree.join("cgroup.procs"), processes).unwrap();
            let group = Group {
                path: tree.clone(),
                controllers: controllers.split_whitespace().map(str::to_owned).collect(),
            };
            assert_eq!(is_of_use(&group, 77), expected, "{controllers} {processes}");
        }
        fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn a_process_goes_below_its_group_so_that_groups_can_stand_beside_it() {
        let tree = std::env::temp_dir().join(format!("longhaul-delegate-{}", std::process::id()));
        let scope = tree.join("user/scope");
        fs::create_dir_all(&scope).unwrap();
        fs::write(tree.join("cgroup.controllers"), "cpu memory").unwrap();
        for group in [&tree.join("user"), &scope] {
            fs::write(group.join("cgroup.controllers"), "cpu memory").unwrap();
            fs::write(group.join("cgroup.subtree_control"), "").unwrap();
            fs::write(group.join("cgroup.type"), "domain").unwrap();
            fs::write(group.join("cgroup.procs"), "").unwrap();
        }
        move_below(&scope, 77).unwrap();
        move_below(&scope, 77).unwrap();
        let own = scope.join(OWN);
        assert_eq!(fs::read_to_string(own.join("cgroup.procs")).unwrap(), "77");
        fs::write(own.join("cgroup.type"), "domain").unwrap();
        fs::write(own.join("cgroup.controllers"), "").unwrap();
        let place = Places::of("0::/user/scope/longhaul-run\n", &tree)
            .memory
            .unwrap();
        assert_eq!((place.folder, place.own), (scope, own));
        fs::remove_dir_all(tree).unwrap();
    }
}
