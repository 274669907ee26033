//! A host's identity: files by which programs identify the machine they run on.
//!
//! Each such file is written into the host's own `/run`, and bind-mounted over the machine's. A host
//! with its own CPUs or memory has these in `/proc` and `/sys` too; others keep the machine's, since any
//! mount there prevents programs from mounting a `/proc` of their own (`mount_too_revealing` in the
//! kernel's `fs/namespace.c`).
//!
//! CPUs keep their numbers, since `sched_setaffinity` uses those.
//!
//! Left out: what programs ask the kernel itself for, such as `sysinfo(2)`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::HostConfig;
use super::boot::{PRIVATE, bind_over};
use crate::cpu;
use crate::procfs::{kib, numbers_in};
use crate::resources::watchdog::tmpfs_bytes;

/// Where the files of a host's identity are.
const FOLDER: &str = "/run/longhaul";
/// Where programs look for the machine's id (machine-id(5), and D-Bus).
const MACHINE_ID: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
/// Where they look for the numbers of CPUs.
const CPU_LISTS: [&str; 3] = [
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/possible",
];
const CPUINFO: &str = "/proc/cpuinfo";
const MEMINFO: &str = "/proc/meminfo";

/// How often `/proc/meminfo` of a host with memory of its own is refreshed.
pub(super) const REFRESH: Duration = Duration::from_secs(1);

/// Gives this host its identity; returns what follows what the host does. A host without a `/run` of
/// its own, which has no place for it, keeps the machine's; a file that the machine does not have stays
/// away.
pub(super) fn give(config: &HostConfig, own_run: bool) -> io::Result<Option<Meminfo>> {
    if !own_run {
        return Ok(None);
    }
    std::fs::create_dir_all(FOLDER)?;
    let id = format!("{:032x}\n", config.machine_id);
    show("machine-id", &id, &MACHINE_ID)?;
    if !config.cpus.is_empty() {
        show("cpus", &(cpu::list(&config.cpus) + "\n"), &CPU_LISTS)?;
        let machine = std::fs::read_to_string(CPUINFO).unwrap_or_default();
        if let Some(cpuinfo) = cpuinfo(&machine, &config.cpus) {
            show("cpuinfo", &cpuinfo, &[CPUINFO])?;
        }
    }
    config.memory.map(Meminfo::show).transpose()
}

/// Writes a file and shows it in each of these places.
fn show(name: &str, text: &str, places: &[&str]) -> io::Result<()> {
    let source = Path::new(FOLDER).join(name);
    std::fs::write(&source, text)?;
    for place in places.iter().map(Path::new) {
        // A link leads to the other place.
        if place.is_file() && !place.is_symlink() {
            bind_over(&source, place)?;
        }
    }
    Ok(())
}

/// The machine's `/proc/cpuinfo` with the paragraphs of these CPUs alone, and with those that are of
/// none. Nothing where none of these is in it.
fn cpuinfo(machine: &str, cpus: &[usize]) -> Option<String> {
    let number = |paragraph: &str| {
        let (name, value) = paragraph.lines().next()?.split_once(':')?;
        let number = value.trim().parse::<usize>().ok()?;
        (name.trim() == "processor").then_some(number)
    };
    let mut any = false;
    let paragraphs = machine.split_inclusive("\n\n").filter(|paragraph| {
        let shown = number(paragraph).map(|number| cpus.contains(&number));
        any |= shown == Some(true);
        shown != Some(false)
    });
    let text: String = paragraphs.collect();
    any.then_some(text)
}

/// `/proc/meminfo` of a host with memory of its own.
#[derive(Debug)]
pub(super) struct Meminfo {
    total: u64,
    used: u64,
    file: Option<File>,
}

impl Meminfo {
    fn show(total: u64) -> io::Result<Self> {
        show("meminfo", &meminfo(total, 0), &[MEMINFO])?;
        Ok(Self {
            total,
            used: 0,
            file: None,
        })
    }

    /// Follows what the host's processes, which this process's `/proc` shows, hold now.
    pub(super) fn refresh(&mut self) {
        let used = held_by_group().unwrap_or_else(held);
        if used == self.used {
            return;
        }
        // Opened late: when it was mounted, init had yet to close all its descriptors.
        if self.file.is_none() {
            let path = Path::new(FOLDER).join("meminfo");
            self.file = File::options().write(true).open(path).ok();
        }
        let text = meminfo(self.total, used);
        // Of the same length as what it replaces, so that nobody reads half of one.
        let written = self
            .file
            .as_ref()
            .map(|file| file.write_all_at(text.as_bytes(), 0));
        if let Some(Ok(())) = written {
            self.used = used;
        }
    }
}

/// The kernel's form, with what programs look for. The host has no cache of its own and no swap.
fn meminfo(total: u64, used: u64) -> String {
    let free = total.saturating_sub(used);
    let fields = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("Active", total - free),
        ("Inactive", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("AnonPages", total - free),
        ("Shmem", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
    ];
    let line = |(name, bytes): (&str, u64)| {
        let name = format!("{name}:");
        format!("{name:<15} {:>12} kB\n", bytes >> 10)
    };
    fields.into_iter().map(line).collect()
}

/// What the host's control group counts, without what the kernel gives up first: cached files that
/// nobody has used of late. `None` where the host has no group for memory.
fn held_by_group() -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok();
    let ways = [
        ("memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ];
    ways.into_iter().find_map(|(usage, details, cached)| {
        let usage: u64 = read(usage)?.trim().parse().ok()?;
        Some(usage.saturating_sub(detail(&read(details)?, cached)))
    })
}

/// A field of a group's `memory.stat`; 0 where it is not there.
fn detail(text: &str, field: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(field)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Bytes that the host holds without a group: its processes' own memory, where what several share
/// counts for each, and its private folders, or mapped shared memory where that is more.
fn held() -> u64 {
    let mut own = 0;
    let mut shared = 0;
    for process in numbers_in("/proc").filter(|&pid| pid != 1) {
        let path = format!("/proc/{process}/status");
        let status = std::fs::read_to_string(path).unwrap_or_default();
        own += kib(&status, "RssAnon:").unwrap_or(0);
        shared += kib(&status, "RssShmem:").unwrap_or(0);
    }
    let folders = PRIVATE
        .iter()
        .map(|(folder, _)| tmpfs_bytes(1, Path::new(folder)));
    own + shared.max(folders.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_has_the_paragraphs_of_its_cpus() {
        let machine = "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\nmodel\t: y\n\nHardware\t: z\n";
        let one = "processor\t: 1\nmodel\t: y\n\nHardware\t: z\n";
        assert_eq!(cpuinfo(machine, &[1]).as_deref(), Some(one));
        assert_eq!(cpuinfo(machine, &[0, 1]).as_deref(), Some(machine));
        assert_eq!(cpuinfo(machine, &[2]), None);
        assert_eq!(cpuinfo("vendor_id: IBM/S390\n", &[0]), None);
    }

    #[test]
    fn meminfo_keeps_its_length_and_its_sum() {
        let (empty, half, over) = (
            meminfo(512 << 20, 0),
            meminfo(512 << 20, 256 << 20),
            meminfo(512 << 20, 1 << 40),
        );
        assert!(half.len() == empty.len() && over.len() == empty.len());
        let field = |text: &str, name: &str| {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{name}:")))
                .unwrap();
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        assert_eq!(field(&half, "MemTotal"), 512 << 10);
        assert_eq!(
            (field(&half, "MemFree"), field(&half, "MemAvailable")),
            (256 << 10, 256 << 10)
        );
        assert_eq!(
            (field(&over, "MemFree"), field(&over, "MemTotal")),
            (0, 512 << 10)
        );
    }

    #[test]
    fn fields_of_groups_are_found_by_their_whole_name() {
        let text = "cache 5\ninactive_file 7\ntotal_inactive_file 9\n";
        assert_eq!(detail(text, "inactive_file"), 7);
        assert_eq!(detail(text, "total_inactive_file"), 9);
        assert_eq!(detail(text, "inactive"), 0);
    }
}
