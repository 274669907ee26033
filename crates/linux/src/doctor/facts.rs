//! The facts that a diagnosis needs: settings of the kernel and the machine, read once.

use std::fs;

use super::probe::{self, Outcomes};
use crate::procfs::kib;
use crate::resources::Support;

/// The kind of container that we are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Docker,
    Podman,
    Kubernetes,
    Lxc,
    Other,
}

/// All inputs of a diagnosis. `None` means that this kernel has no such setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) uid: u32,
    /// Where this program lies.
    pub(super) program: String,
    /// Major and minor version.
    pub(super) kernel: (u32, u32),
    /// `kernel.unprivileged_userns_clone`, which Debian and its kin have.
    pub(super) userns_clone: Option<u64>,
    /// `user.max_*_namespaces` that are 0, by the word in the middle.
    pub(super) forbidden_namespaces: Vec<&'static str>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, which Ubuntu has.
    pub(super) apparmor_restricts: Option<u64>,
    /// Our AppArmor label, such as `docker-default (enforce)`.
    pub(super) apparmor_label: Option<String>,
    pub(super) container: Option<Container>,
    /// Whether a seccomp filter watches our system calls.
    pub(super) seccomp: bool,
    /// Whether something is mounted over parts of `/proc`.
    pub(super) proc_masked: bool,
    /// Whether our root is not the root of a mount, as after chroot(2).
    pub(super) chrooted: bool,
    /// What the probe found; `None` where it could not be made.
    pub(super) probe: Option<Outcomes>,
    pub(super) cpus: usize,
    pub(super) clocksource: String,
    /// How long reading the clock takes.
    pub(super) clock_read_ns: u64,
    /// The hard limit of open files.
    pub(super) open_files: u64,
    /// Whether `/proc/self/schedstat` says how long a task waited for a CPU.
    pub(super) schedstat: bool,
    /// `MemAvailable`.
    pub(super) memory_bytes: u64,
    /// What may still be promised; only under `vm.overcommit_memory=2`.
    pub(super) committable_bytes: Option<u64>,
    /// By what hosts are kept to their resources.
    pub(super) support: Support,
}

impl Facts {
    /// Reads everything and makes the probe.
    pub(super) fn gather() -> Self {
        let mounts = read("/proc/self/mountinfo");
        Self {
            uid: crate::sys::user_and_group().0,
            program: program(),
            kernel: version(&read("/proc/sys/kernel/osrelease")),
            userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            forbidden_namespaces: ["user", "net", "mnt", "pid", "uts", "ipc"]
                .into_iter()
                .filter(|kind| number(&format!("/proc/sys/user/max_{kind}_namespaces")) == Some(0))
                .collect(),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            apparmor_label: apparmor_label(),
            container: container(),
            seccomp: field(&read("/proc/self/status"), "Seccomp:") == Some(2),
            proc_masked: masks_proc(&mounts),
            chrooted: is_chrooted(&mounts),
            probe: probe::run(),
            cpus: crate::cpu::allowed().map_or(1, |cpus| cpus.len()),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .trim()
                .to_owned(),
            clock_read_ns: clock_read_ns(),
            open_files: open_files(&read("/proc/self/limits")),
            schedstat: crate::cpu::schedstat("/proc/self/schedstat").is_some(),
            memory_bytes: kib(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(u64::MAX),
            committable_bytes: committable(&read("/proc/meminfo")),
            support: Support::find(),
        }
    }
}

fn program() -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| "/usr/bin/longhaul".into());
    own.display().to_string()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after `name` in a table of `/proc`.
fn field(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

/// `6.8.0-31-generic` → (6, 8).
pub(crate) fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next())
}

fn apparmor_label() -> Option<String> {
    let files = [
        "/proc/self/attr/apparmor/current",
        "/proc/self/attr/current",
    ];
    let label = files
        .iter()
        .find_map(|file| fs::read_to_string(file).ok())?;
    let label = label.trim_matches(['\0', '\n', ' ']).to_owned();
    (!label.is_empty()).then_some(label)
}

fn container() -> Option<Container> {
    let exists = |path: &str| fs::exists(path).unwrap_or(false);
    let set = |name: &str| std::env::var_os(name).is_some();
    if set("KUBERNETES_SERVICE_HOST") || exists("/var/run/secrets/kubernetes.io") {
        return Some(Container::Kubernetes);
    }
    if exists("/run/.containerenv") {
        return Some(Container::Podman);
    }
    if exists("/.dockerenv") {
        return Some(Container::Docker);
    }
    match std::env::var("container").ok()?.as_str() {
        "" => None,
        "podman" => Some(Container::Podman),
        "docker" => Some(Container::Docker),
        "lxc" => Some(Container::Lxc),
        _ => Some(Container::Other),
    }
}

/// The mount points of a `mountinfo`.
fn mount_points(mounts: &str) -> impl Iterator<Item = &str> {
    mounts.lines().filter_map(|line| line.split(' ').nth(4))
}

/// The kernel lets a user namespace mount a new `/proc` only where it sees all of an old one.
fn masks_proc(mounts: &str) -> bool {
    // An automount point of every distribution; empty folders do not count as masks.
    mount_points(mounts).any(|at| at.starts_with("/proc/") && !at.starts_with("/proc/sys/fs"))
}

fn is_chrooted(mounts: &str) -> bool {
    !mounts.is_empty() && !mount_points(mounts).any(|at| at == "/")
}

/// `Max open files  1024  1048576  files` → 1048576.
fn open_files(limits: &str) -> u64 {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1));
    hard.and_then(|hard| hard.parse().ok()).unwrap_or(u64::MAX)
}

fn committable(meminfo: &str) -> Option<u64> {
    const NEVER: u64 = 2;
    let strict = number("/proc/sys/vm/overcommit_memory") == Some(NEVER);
    let limit = kib(meminfo, "CommitLimit:").filter(|_| strict)?;
    Some(limit.saturating_sub(kib(meminfo, "Committed_AS:")?))
}

/// The fastest of several rounds: others only show how busy the machine is.
fn clock_read_ns() -> u64 {
    const READS: u64 = 1000;
    let round = || {
        let start = crate::clock::monotonic_ns();
        (0..READS).for_each(|_| {
            std::hint::black_box(crate::clock::realtime_ns());
        });
        (crate::clock::monotonic_ns() - start) / READS
    };
    (0..5).map(|_| round()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        assert_eq!(version("6.8.0-31-generic\n"), (6, 8));
        assert_eq!(version("5.10-custom"), (5, 10));
        assert_eq!(version(""), (0, 0));
        assert_eq!(
            open_files("Max open files            1024                 4096   files"),
            4096
        );
        assert_eq!(
            open_files("Max open files  unlimited  unlimited  files"),
            u64::MAX
        );
        assert_eq!(
            kib("MemFree: 1 kB\nMemAvailable:   2048 kB\n", "MemAvailable:"),
            Some(2 << 20)
        );
    }

    #[test]
    fn a_masked_proc_and_a_chroot_show_in_the_mounts() {
        let usual = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:4 / /proc rw - proc proc rw\n\
                     3 2 0:5 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n";
        assert!(!masks_proc(usual) && !is_chrooted(usual));
        let docker = format!("{usual}4 2 0:6 /null /proc/kcore rw - tmpfs tmpfs rw\n");
        assert!(masks_proc(&docker));
        assert!(is_chrooted("1 0 8:1 / /home rw - ext4 /dev/sda rw\n"));
    }
}
