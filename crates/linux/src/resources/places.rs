//! Where control groups can be made on this machine, controller by controller: cgroups(7), both
//! versions.
//!
//! Version 1 has a tree for each controller, mounted at `/sys/fs/cgroup/CONTROLLER`; version 2 has
//! one tree, at `/sys/fs/cgroup` or, beside version 1, at `/sys/fs/cgroup/unified`. A controller is
//! in one of them. A run makes its groups below the group that it is in itself, so that it stays
//! within whatever limits it has. In version 2 a group cannot have both processes and controllers
//! for its children, so there it takes the nearest one above that can.
//!
//! Left out: moving this process to where groups can be made, which is
//! [`delegate`](super::delegate())'s.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::groups::Version;

/// What a controller limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Cpu,
    Memory,
    Disk,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Disk];

    /// Its name in the tree of a version.
    pub(crate) const fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Cpu, _) => "cpu",
            (Self::Memory, _) => "memory",
            (Self::Disk, Version::First) => "blkio",
            (Self::Disk, Version::Second) => "io",
        }
    }
}

/// A group below which others can be made, for one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) version: Version,
    /// The group below which the run's groups are made.
    pub(crate) folder: PathBuf,
    /// The group that this process is in.
    pub(crate) own: PathBuf,
}

/// Why there is no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The kernel has no such controller, or it is mounted nowhere.
    Controller,
    /// Groups are there, but not for this user to change.
    Rights(PathBuf),
    /// A process is in the way: in version 2, a group whose children have controllers holds none.
    Busy(PathBuf),
}

/// A place for each controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) cpu: Result<Place, Missing>,
    pub(crate) memory: Result<Place, Missing>,
    pub(crate) disk: Result<Place, Missing>,
}

impl Places {
    /// Those of this machine.
    pub(crate) fn find() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::of(&groups, Path::new("/sys/fs/cgroup"))
    }

    /// Those of what `/proc/self/cgroup` says, with trees below `root`.
    pub(crate) fn of(groups: &str, root: &Path) -> Self {
        let find = |controller| find(groups, root, controller);
        Self {
            cpu: find(Controller::Cpu),
            memory: find(Controller::Memory),
            disk: find(Controller::Disk),
        }
    }

    /// That of a controller.
    pub(crate) const fn of_controller(&self, controller: Controller) -> &Result<Place, Missing> {
        match controller {
            Controller::Cpu => &self.cpu,
            Controller::Memory => &self.memory,
            Controller::Disk => &self.disk,
        }
    }
}

fn find(groups: &str, root: &Path, controller: Controller) -> Result<Place, Missing> {
    let mut second = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        let name = controller.name(Version::First);
        if controllers.split(',').any(|other| other == name) {
            return first(&root.join(name), path);
        }
        if controllers.is_empty() {
            second = Some(path);
        }
    }
    // Of version 2 there is one tree, and it has the controllers that no tree of version 1 has.
    let trees = [root.to_owned(), root.join("unified")];
    let tree = trees.iter().find(|tree| {
        let controllers = fs::read_to_string(tree.join("cgroup.controllers")).unwrap_or_default();
        has_word(&controllers, controller.name(Version::Second))
    });
    match (tree, second) {
        (Some(tree), Some(path)) => self::second(tree, path, controller),
        _ => Err(Missing::Controller),
    }
}

/// In version 1: the group that we are in, or, where the tree is mounted from further up or down,
/// the nearest that there is.
fn first(tree: &Path, path: &str) -> Result<Place, Missing> {
    let own = tree.join(path);
    let mut above = own.ancestors().take_while(|group| group.starts_with(tree));
    let own = above.find(|group| group.join("cgroup.procs").exists());
    let own = own.ok_or(Missing::Controller)?.to_owned();
    if !writable(&own) {
        return Err(Missing::Rights(own));
    }
    Ok(Place {
        version: Version::First,
        folder: own.clone(),
        own,
    })
}

/// In version 2: the nearest group, from ours upwards, whose children have the controller.
fn second(tree: &Path, path: &str, controller: Controller) -> Result<Place, Missing> {
    let name = controller.name(Version::Second);
    let own = tree.join(path);
    let above = own.ancestors().take_while(|group| group.starts_with(tree));
    let mut missing = Missing::Controller;
    for group in above.filter(|group| group.join("cgroup.procs").exists()) {
        if !writable(group) {
            missing = Missing::Rights(group.to_owned());
            continue;
        }
        let words = |file| fs::read_to_string(group.join(file)).unwrap_or_default();
        // The root group has no type, and may hold processes.
        let may_give = || {
            let is_top = !group.join("cgroup.type").exists();
            has_word(&words("cgroup.controllers"), name)
                && (is_top || words("cgroup.procs").trim().is_empty())
        };
        if has_word(&words("cgroup.subtree_control"), name) || may_give() {
            return Ok(Place {
                version: Version::Second,
                folder: group.to_owned(),
                own,
            });
        }
        missing = Missing::Busy(group.to_owned());
    }
    Err(missing)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|other| other == word)
}

/// Whether groups can be made in a group.
fn writable(group: &Path) -> bool {
    access(group, Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            Self(root)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_controller_is_in_one_of_the_versions() {
        let tree = Tree::new("places");
        tree.write("cpu/cgroup.procs", "");
        tree.write("memory/cgroup.procs", "");
        tree.write("memory/box/cgroup.procs", "");
        tree.write("unified/cgroup.procs", "");
        tree.write("unified/cgroup.controllers", "hugetlb io\n");
        tree.write("unified/cgroup.subtree_control", "io\n");
        let groups = "4:memory:/box/gone\n1:cpu,cpuacct:/\n0::/\n";
        let places = Places::of(groups, &tree.0);
        let place = |version, folder: &str| Place {
            version,
            folder: tree.0.join(folder),
            own: tree.0.join(folder),
        };
        assert_eq!(places.cpu, Ok(place(Version::First, "cpu/")));
        assert_eq!(places.memory, Ok(place(Version::First, "memory/box")));
        assert_eq!(places.disk, Ok(place(Version::Second, "unified/")));
        let none = Places::of("0::/\n", &tree.0.join("nowhere"));
        assert_eq!(none.cpu, Err(Missing::Controller));
    }

    #[test]
    fn in_version_2_groups_stand_below_the_nearest_that_can_give_the_controller_on() {
        let tree = Tree::new("places-2");
        for (group, given_on, processes) in [
            ("", "cpu memory", "1\n"),
            ("a/", "memory", ""),
            ("a/b/", "", "7\n"),
        ] {
            tree.write(&format!("{group}cgroup.controllers"), "cpu io memory\n");
            tree.write(&format!("{group}cgroup.subtree_control"), given_on);
            tree.write(&format!("{group}cgroup.procs"), processes);
            if !group.is_empty() {
                tree.write(&format!("{group}cgroup.type"), "domain\n");
            }
        }
        let places = Places::of("0::/a/b\n", &tree.0);
        let below = |place: &Result<Place, Missing>| place.clone().unwrap().folder;
        // A group without processes can give on what it has.
        assert_eq!(below(&places.memory), tree.0.join("a"));
        assert_eq!(below(&places.cpu), tree.0.join("a"));
        tree.write("a/cgroup.procs", "8\n");
        let places = Places::of("0::/a/b\n", &tree.0);
        assert_eq!(below(&places.memory), tree.0.join("a"));
        assert_eq!(below(&places.cpu), tree.0);
        assert_eq!(below(&places.disk), tree.0, "the top may have processes");
        assert_eq!(places.cpu.unwrap().own, tree.0.join("a/b"));
        tree.write("cgroup.type", "domain\n");
        let places = Places::of("0::/a/b\n", &tree.0);
        assert_eq!(places.disk, Err(Missing::Busy(tree.0.clone())));
    }
}
