//! What a run leaves on a machine: processes, namespaces, interfaces, mounts, files.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A process of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Its command name: `longhaul`, `longhaul-box`, `longhaul-host` or a program's.
    pub(crate) name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// All processes that carry `mark` in the environment that they started with: a run's sandbox
/// and hosts are forks of it, and programs inherit it. The dead and unreaped carry nothing.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    let process = |pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let parent = Stat::of(pid)?.parent;
        Some(Process {
            pid,
            parent,
            name: name.trim().to_owned(),
        })
    };
    pids().filter(carries).filter_map(process).collect()
}

/// The namespaces of a run's processes.
///
/// They find members of a run that carry no mark. The kernel gives the numbers of dead
/// namespaces to new ones, so only processes that are old enough count.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    links: BTreeSet<PathBuf>,
    /// Ticks since boot, before which members were started.
    until: u64,
}

impl Namespaces {
    /// Those that `processes` are in and we are not.
    pub(crate) fn of(processes: &[Process]) -> Self {
        let own: BTreeSet<PathBuf> = links(Path::new("/proc/self/ns")).collect();
        let of = |process: &Process| links(&PathBuf::from(format!("/proc/{}/ns", process.pid)));
        let links = processes
            .iter()
            .flat_map(of)
            .filter(|link| !own.contains(link))
            .collect();
        Self {
            links,
            until: uptime() + 2,
        }
    }

    /// Living processes that are in one of them. A dead one is the business of the machine's
    /// init, and some take their time.
    pub(crate) fn members(&self) -> Vec<String> {
        if self.links.is_empty() {
            return Vec::new();
        }
        let member = |pid: u32| {
            let link = links(&PathBuf::from(format!("/proc/{pid}/ns")))
                .find(|link| self.links.contains(link))?;
            let stat = Stat::of(pid)?;
            let counts = !matches!(stat.state, 'Z' | 'X') && stat.start <= self.until;
            counts.then(|| format!("process {pid} in namespace {}", link.display()))
        };
        pids().filter_map(member).collect()
    }
}

/// Ticks of 10 ms since boot.
fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("/proc/uptime");
    let seconds: f64 = text
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .expect("seconds");
    (seconds * 100.0) as u64
}

/// Part of what `/proc/PID/stat` says.
struct Stat {
    state: char,
    parent: u32,
    /// Ticks since boot.
    start: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may hold anything; these are the fields 3, 4 and 22.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let start = fields.nth(17)?.parse().ok()?;
        Some(Self {
            state,
            parent,
            start,
        })
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn links(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// What can be seen of runs outside of them.
#[derive(Debug)]
pub(crate) struct Machine {
    things: BTreeSet<String>,
}

impl Machine {
    /// The machine as it is: interfaces and mounts of our namespaces, named network namespaces,
    /// control groups of runs, temporary files that are called after Longhaul and are no test's.
    pub(crate) fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut things = BTreeSet::new();
        for line in read("/proc/self/net/dev").lines() {
            things.extend(
                line.split_once(':')
                    .map(|(name, _)| format!("interface {}", name.trim())),
            );
        }
        things.extend(
            read("/proc/self/mountinfo")
                .lines()
                .map(|line| format!("mount {line}")),
        );
        for folder in ["/run/netns", "/var/run/netns"] {
            things.extend(names(Path::new(folder)).map(|name| format!("namespace {name}")));
        }
        groups(Path::new("/sys/fs/cgroup"), &mut things);
        let tests = ["live", "bench", "cli", "gallery"].map(|test| format!("longhaul-{test}-"));
        let temporary = names(&std::env::temp_dir()).filter(|name| {
            name.contains("longhaul") && !tests.iter().any(|test| name.starts_with(test))
        });
        things.extend(temporary.map(|name| format!("temporary file {name}")));
        Self { things }
    }

    /// What is there now and was not `before`.
    pub(crate) fn beyond(self, before: &Self) -> Vec<String> {
        self.things.difference(&before.things).cloned().collect()
    }
}

/// The control groups below `folder` that runs have made.
fn groups(folder: &Path, things: &mut BTreeSet<String>) {
    for name in names(folder) {
        let path = folder.join(&name);
        if !path.is_dir() || path.is_symlink() {
            continue;
        }
        if name.starts_with("longhaul-") {
            things.insert(format!("control group {}", path.display()));
        }
        groups(&path, things);
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}
