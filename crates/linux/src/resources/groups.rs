//! The control groups of a run: one for the run, and below it one for each host that has limits.
//!
//! Theory of the CPU quota: in each period of 10 ms a group has its quota, and is throttled once
//! that is used up, until the next period (`kernel/sched/fair.c`). A shorter period would disturb
//! round trips less, but could not be kept: the kernel may notice that a quota is used up only at
//! its next tick, up to 4 ms later, and takes the excess from later periods, which must have room
//! for it. The least quota is 1 ms, so shares below 10 % have longer periods.
//!
//! Memory includes what programs have in the host's private folders, which are memory, and in the
//! page cache; the kernel gives up the latter before it ends a program. Swap is off where the
//! kernel lets a group have none.
//!
//! Disks are throttled request by request. Version 1 throttles reads and direct writes only: writes
//! through the page cache are made by the kernel later, on no group's account.
//!
//! Groups outlive their processes, so creating them also starts a [`reaper`](super::reaper), which
//! removes them if the run is killed, and removes those that dead runs have left
//! ([`sweep`](super::sweep)).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::device::Device;
use super::places::{Controller, Place, Places};
use super::reaper::Reaper;
use super::sweep::{self, make_folder, make_locked, remove, sweep};
use super::{Cpu, Disk, Limits};
use crate::groups::Version;

/// The period of CPU quotas, in microseconds.
const PERIOD_US: u64 = 10_000;
/// The least quota that the kernel takes (`min_cfs_quota_period`).
const LEAST_QUOTA_US: u64 = 1_000;

/// The period and the quota in microseconds, of a quota in thousandths of a CPU.
pub fn period_us(quota: u32) -> (u64, u64) {
    let quota = u64::from(quota.max(1));
    let of_period = quota * PERIOD_US / 1_000;
    if of_period >= LEAST_QUOTA_US {
        (PERIOD_US, of_period)
    } else {
        ((LEAST_QUOTA_US * 1_000).div_ceil(quota), LEAST_QUOTA_US)
    }
}

/// A group that a host's processes belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group.
    pub folder: PathBuf,
    /// The group of the process that makes the host.
    pub home: PathBuf,
    /// The controllers of its tree as they are mounted; none in version 2.
    pub tree: Option<String>,
}

/// What a host has been through in its groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Nanoseconds for which it was throttled because its quota was used up.
    pub throttled_ns: u64,
    /// Processes that the kernel has killed because its memory was used up.
    pub oom_kills: u64,
    /// The most memory that it had at once, in bytes.
    pub memory_peak: u64,
}

/// A tree in which the run has groups.
#[derive(Debug)]
struct Root {
    controller: Controller,
    place: Place,
    /// The run's own group.
    folder: PathBuf,
}

/// The groups of a run. They are removed when this is dropped, or when its process has died.
#[derive(Debug)]
pub struct Groups {
    roots: Vec<Root>,
    /// By host and root.
    hosts: Vec<Vec<PathBuf>>,
    reaper: Reaper,
    /// The run's own groups, locked. The sandbox inherits the files.
    _locks: Vec<File>,
}

impl Groups {
    /// Makes groups for the hosts with limits; the disk is `device`. None where no host has any.
    ///
    /// Call it while the process has one thread only: it forks.
    ///
    /// # Errors
    /// What the kernel refuses, with the file.
    pub fn create(limits: &[Limits], device: Option<&Device>) -> io::Result<Option<Self>> {
        Self::create_in(&Places::find(), limits, device)
    }

    /// The same where there are such places.
    pub(crate) fn create_in(
        places: &Places,
        limits: &[Limits],
        device: Option<&Device>,
    ) -> io::Result<Option<Self>> {
        let roots = roots(places, limits)?;
        if roots.is_empty() {
            return Ok(None);
        }
        let mut folders: Vec<_> = roots.iter().map(|root| root.folder.clone()).collect();
        folders.dedup();
        roots.iter().for_each(|root| sweep(&root.place.folder));
        // Started before the first group is made: whatever happens from here on, all are removed.
        let reaper = Reaper::start(&folders)?;
        let locks = folders.iter().map(|folder| make_locked(folder));
        let locks = locks.collect::<io::Result<_>>()?;
        let mut groups = Self {
            roots,
            hosts: Vec::new(),
            reaper,
            _locks: locks,
        };
        groups.hosts = make(&groups.roots, limits, device)?;
        Ok(Some(groups))
    }

    /// The groups that the processes of a host belong to.
    pub fn of_host(&self, host: usize) -> Vec<Membership> {
        let folders = self.hosts.get(host).into_iter().flatten();
        let mut all: Vec<Membership> = folders
            .filter_map(|folder| {
                let run = folder.parent()?;
                let root = self.roots.iter().find(|root| root.folder == run)?;
                let tree = root.place.folder.ancestors();
                let top = tree.take_while(|f| f.join("cgroup.procs").exists()).last();
                let first = root.place.version == Version::First;
                let name = top.and_then(Path::file_name).filter(|_| first);
                Some(Membership {
                    folder: folder.clone(),
                    home: root.place.own.clone(),
                    tree: name.map(|name| name.to_string_lossy().into_owned()),
                })
            })
            .collect();
        // In version 2 all controllers of a host are in one group.
        all.dedup();
        all
    }

    /// What a host has been through so far.
    pub fn usage(&self, host: usize) -> GroupUsage {
        let mut usage = GroupUsage::default();
        for folder in self.hosts.get(host).into_iter().flatten() {
            let stat = read(&folder.join("cpu.stat"));
            let throttled = number_of(&stat, "throttled_time")
                .or_else(|| number_of(&stat, "throttled_usec").map(|us| us.saturating_mul(1_000)));
            usage.throttled_ns = usage.throttled_ns.max(throttled.unwrap_or(0));
            let kills = ["memory.oom_control", "memory.events"].map(|name| {
                let text = read(&folder.join(name));
                number_of(&text, "oom_kill").unwrap_or(0)
            });
            usage.oom_kills = usage.oom_kills.max(kills[0]).max(kills[1]);
            for name in ["memory.max_usage_in_bytes", "memory.peak"] {
                let peak = read(&folder.join(name)).trim().parse().unwrap_or(0);
                usage.memory_peak = usage.memory_peak.max(peak);
            }
        }
        usage
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let remove = |root: &Root| remove(&root.folder, Duration::from_secs(2));
        let left = self.roots.iter().filter(|root| !remove(root)).count();
        // Otherwise the reaper goes on: it waits longer for processes that the kernel is taking down.
        if left == 0 {
            self.reaper.stop();
        }
    }
}

impl Limits {
    const fn has(&self, controller: Controller) -> bool {
        match controller {
            Controller::Cpu => self.cpu.is_some(),
            Controller::Memory => self.memory.is_some(),
            Controller::Disk => self.disk.is_some(),
        }
    }
}

/// The trees that such limits need, with the run's group in each.
fn roots(places: &Places, limits: &[Limits]) -> io::Result<Vec<Root>> {
    let wanted = |controller: &Controller| limits.iter().any(|host| host.has(*controller));
    let mut roots: Vec<Root> = Vec::new();
    for controller in Controller::ALL.into_iter().filter(wanted) {
        let Ok(place) = places.of_controller(controller) else {
            let message = format!("there are no control groups for {controller:?}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        };
        let (place, folder) = (place.clone(), PathBuf::new());
        roots.push(Root {
            controller,
            place,
            folder,
        });
    }
    // In version 2 a process is in one group for all controllers, so all of them need the same place. A
    // group gets its controllers from its ancestors, so the uppermost place has those of all others.
    let is_second = |root: &&mut Root| root.place.version == Version::Second;
    let seconds = roots.iter_mut().filter(is_second);
    let uppermost = seconds.map(|root| root.place.folder.clone());
    if let Some(uppermost) = uppermost.min_by_key(|folder| folder.components().count()) {
        for root in roots.iter_mut().filter(is_second) {
            root.place.folder.clone_from(&uppermost);
        }
    }
    let name = sweep::name();
    for root in &mut roots {
        root.folder = root.place.folder.join(&name);
    }
    Ok(roots)
}

/// Makes the groups of hosts below those of the run; gives those of each host.
fn make(
    roots: &[Root],
    limits: &[Limits],
    device: Option<&Device>,
) -> io::Result<Vec<Vec<PathBuf>>> {
    for root in roots {
        if root.place.version == Version::Second {
            give_on(&root.place.folder, root.controller)?;
        }
        if root.place.version == Version::Second {
            give_on(&root.folder, root.controller)?;
        }
        if root.controller == Controller::Cpu {
            let all = limits.iter().filter_map(|host| host.cpu);
            let all: u64 = all.map(|cpu| u64::from(cpu.quota)).sum();
            write_weight(root.place.version, &root.folder, all.max(1_000))?;
        }
    }
    let of_host = |(number, host): (usize, &Limits)| {
        let mut folders = Vec::new();
        for root in roots.iter().filter(|root| host.has(root.controller)) {
            let folder = root.folder.join(format!("host-{number}"));
            make_folder(&folder)?;
            limit(root, &folder, host, device)?;
            folders.push(folder);
        }
        Ok(folders)
    };
    limits.iter().enumerate().map(of_host).collect()
}

/// Limits what the controller of a tree is for.
fn limit(root: &Root, group: &Path, host: &Limits, device: Option<&Device>) -> io::Result<()> {
    let version = root.place.version;
    match (root.controller, host.cpu, host.memory, host.disk) {
        (Controller::Cpu, Some(cpu), _, _) => limit_cpu(version, group, cpu),
        (Controller::Memory, _, Some(bytes), _) => limit_memory(version, group, bytes),
        (Controller::Disk, _, _, Some(disk)) => limit_disk(version, group, &disk, device),
        _ => Ok(()),
    }
}

/// Lets the children of a group of version 2 have a controller.
fn give_on(group: &Path, controller: Controller) -> io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    let name = controller.name(Version::Second);
    if read(&file).split_whitespace().any(|given| given == name) {
        Ok(())
    } else {
        write(&file, &format!("+{name}"))
    }
}

fn limit_cpu(version: Version, folder: &Path, cpu: Cpu) -> io::Result<()> {
    let (period, quota) = period_us(cpu.quota);
    match version {
        Version::First => {
            write(&folder.join("cpu.cfs_period_us"), &period.to_string())?;
            write(&folder.join("cpu.cfs_quota_us"), &quota.to_string())?;
        }
        Version::Second => write(&folder.join("cpu.max"), &format!("{quota} {period}"))?,
    }
    write_weight(version, folder, cpu.quota.into())
}

/// Where a CPU is short, groups get it by what they have asked for, in thousandths of one.
fn write_weight(version: Version, folder: &Path, thousandths: u64) -> io::Result<()> {
    let (name, default, range) = match version {
        Version::First => ("cpu.shares", 1_024, 2..=262_144),
        Version::Second => ("cpu.weight", 100, 1..=10_000),
    };
    let weight = (thousandths * default / 1_000).clamp(*range.start(), *range.end());
    write(&folder.join(name), &weight.to_string())
}

fn limit_memory(version: Version, folder: &Path, bytes: u64) -> io::Result<()> {
    let bytes = bytes.to_string();
    match version {
        Version::First => {
            write(&folder.join("memory.limit_in_bytes"), &bytes)?;
            // Kernels without accounting of swap have no such file, and then nothing to swap less.
            let swap = fs::write(folder.join("memory.memsw.limit_in_bytes"), &bytes);
            swap.or_else(|_| fs::write(folder.join("memory.swappiness"), "0"))
                .ok();
        }
        Version::Second => {
            write(&folder.join("memory.max"), &bytes)?;
            fs::write(folder.join("memory.swap.max"), "0").ok();
        }
    }
    Ok(())
}

fn limit_disk(
    version: Version,
    folder: &Path,
    disk: &Disk,
    device: Option<&Device>,
) -> io::Result<()> {
    let Some(device) = device else {
        let message =
            "the run folder is not on a disk that can be throttled; choose another with --out";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    };
    let number = &device.number;
    let limits = [
        ("read_bps_device", "rbps", disk.read),
        ("write_bps_device", "wbps", disk.write),
        ("read_iops_device", "riops", disk.iops),
        ("write_iops_device", "wiops", disk.iops),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(first, second, limit)| Some((first, second, limit?)));
    match version {
        Version::First => {
            for (name, _, limit) in limits {
                let file = folder.join(format!("blkio.throttle.{name}"));
                write(&file, &format!("{number} {limit}"))?;
            }
        }
        Version::Second => {
            let words: Vec<_> = limits
                .map(|(_, key, limit)| format!("{key}={limit}"))
                .collect();
            write(
                &folder.join("io.max"),
                &format!("{number} {}", words.join(" ")),
            )?;
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::write(file, text).map_err(|error| {
        let what = format!("{text} into {}: {error}", file.display());
        io::Error::new(error.kind(), what)
    })
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// The number of a line `key NUMBER`.
fn number_of(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(name, _)| *name == key)?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        cpu: Some(Cpu {
            quota: 250,
            count: 1,
        }),
        memory: Some(64 << 20),
        disk: Some(Disk {
            read: Some(20_000_000),
            write: None,
            iops: Some(200),
        }),
    };

    /// The groups of two hosts, of which the first has limits, in a tree of plain files.
    fn made(name: &str, own: &str, files: &[(&str, &str)]) -> (PathBuf, Vec<Root>) {
        let tree = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let limits = [LIMITS, Limits::default()];
        let roots = roots(&Places::of(own, &tree), &limits).unwrap();
        for root in &roots {
            make_locked(&root.folder).unwrap();
        }
        let device = Device {
            number: "254:0".to_owned(),
            name: "vda".to_owned(),
        };
        let hosts = make(&roots, &limits, Some(&device)).unwrap();
        assert_eq!((hosts[0].len(), hosts[1].len()), (3, 0));
        (tree, roots)
    }

    #[test]
    fn version_1_has_a_tree_for_each_controller() {
        let files = ["cpu", "memory", "blkio"].map(|name| format!("{name}/cgroup.procs"));
        let files = files.each_ref().map(|file| (file.as_str(), ""));
        let own = "3:cpu:/\n2:memory:/\n1:blkio:/\n";
        let (tree, roots) = made("first", own, &files);
        let host = |number: usize| roots[number].folder.join("host-0");
        assert!(roots[0].folder.starts_with(tree.join("cpu")));
        for (root, file, text) in [
            (0, "cpu.cfs_period_us", "10000"),
            (0, "cpu.cfs_quota_us", "2500"),
            (0, "cpu.shares", "256"),
            (1, "memory.limit_in_bytes", "67108864"),
            (1, "memory.memsw.limit_in_bytes", "67108864"),
            (2, "blkio.throttle.read_bps_device", "254:0 20000000"),
            (2, "blkio.throttle.read_iops_device", "254:0 200"),
            (2, "blkio.throttle.write_iops_device", "254:0 200"),
        ] {
            assert_eq!(read(&host(root).join(file)), text, "{file}");
        }
        assert!(!host(2).join("blkio.throttle.write_bps_device").exists());
        fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn version_2_has_one_group_for_all_controllers_and_gives_them_on() {
        let files = [
            ("cgroup.controllers", "cpu io memory"),
            ("cgroup.subtree_control", "cpu io memory"),
            ("cgroup.procs", ""),
            ("box/cgroup.controllers", "cpu io memory"),
            ("box/cgroup.subtree_control", "memory"),
            ("box/cgroup.procs", "7"),
            ("box/cgroup.type", "domain"),
        ];
        let (tree, roots) = made("second", "0::/box\n", &files);
        let folder = roots[0].folder.clone();
        // The box could give memory on, and nothing else.
        assert_eq!(folder.parent(), Some(tree.as_path()));
        assert!(
            roots
                .iter()
                .all(|root| root.folder == folder && root.place.own == tree.join("box"))
        );
        let host = folder.join("host-0");
        for (file, text) in [
            ("cpu.max", "2500 10000"),
            ("cpu.weight", "25"),
            ("memory.max", "67108864"),
            ("memory.swap.max", "0"),
            ("io.max", "254:0 rbps=20000000 riops=200 wiops=200"),
        ] {
            assert_eq!(read(&host.join(file)), text, "{file}");
        }
        fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn a_period_is_as_short_as_its_least_quota_allows() {
        assert_eq!(period_us(1_500), (10_000, 15_000));
        assert_eq!(period_us(100), (10_000, 1_000));
        assert_eq!(period_us(50), (20_000, 1_000));
        assert_eq!(period_us(10), (100_000, 1_000));
    }
}
