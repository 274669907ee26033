//! The memory that this process may still have, and large pages for what it takes at once.
//!
//! Theory: a simulation of many hosts accesses gigabytes in random order. With pages of 4 KiB the
//! processor's TLB covers some megabytes of that, and nearly every access first walks the page
//! tables; pages of 2 MiB make that rare. The kernel gives them where it is asked to
//! (`MADV_HUGEPAGE`, Documentation/admin-guide/mm/transhuge.rst; the default of most systems).
//! [`LargePages`] asks for them for all large allocations, once a program that handles no live
//! packets has called [`prefer_large_pages`]: zeroing 2 MiB takes longer than a packet may be late.
//!
//! Left out: small allocations, which share the pages of the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{Advice, madvise};

use crate::groups::{self, Version};
use crate::procfs::kib;

/// Allocations from here on lie on large pages.
const LARGE: usize = 8 << 20;
const PAGE: usize = 2 << 20;

static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on large allocations of a program whose allocator is [`LargePages`] lie on large pages.
pub fn prefer_large_pages() {
    WANTED.store(true, Ordering::Relaxed);
}

/// The system's allocator, which asks for large pages once that is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct LargePages;

/// Asks for large pages in what lies between `at` and `at + size`.
#[inline]
fn advise(at: *mut u8, size: usize) {
    if size >= LARGE && !at.is_null() && WANTED.load(Ordering::Relaxed) {
        let start = (at as usize).next_multiple_of(PAGE);
        let end = (at as usize + size) / PAGE * PAGE;
        let into = start - at as usize;
        // SAFETY: the range lies within an allocation of ours, since it is larger than four pages;
        // the advice changes no byte of it. A kernel without large pages refuses, which is fine.
        unsafe { madvise(at.add(into).cast(), end - start, Advice::LinuxHugepage) }.ok();
    }
}

// SAFETY: everything is done by the system's allocator, under the same contract.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let at = unsafe { System.alloc(layout) };
        advise(at, layout.size());
        at
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let at = unsafe { System.alloc_zeroed(layout) };
        advise(at, layout.size());
        at
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches for the allocation, its layout and the size.
        let at = unsafe { System.realloc(at, layout, size) };
        advise(at, size);
        at
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller vouches for the allocation and its layout.
        unsafe { System.dealloc(at, layout) };
    }
}

/// Bytes that this process may still take without swapping: what the machine has left, or its
/// control group. `None` where the system does not say.
pub fn available_bytes() -> Option<u64> {
    let machine = kib(&read("/proc/meminfo"), "MemAvailable:")?;
    let group = group_bytes(&groups::own("memory"));
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// Bytes of memory that this machine has, or the control group that this process is in. `None` where
/// the system does not say.
pub fn total_bytes() -> Option<u64> {
    let machine = kib(&read("/proc/meminfo"), "MemTotal:")?;
    let limits = groups::own("memory");
    let limits = limits.iter().filter_map(|(version, group)| {
        let name = match version {
            Version::First => "memory.limit_in_bytes",
            Version::Second => "memory.max",
        };
        read(group.join(name)).trim().parse::<u64>().ok()
    });
    Some(limits.min().map_or(machine, |limit| limit.min(machine)))
}

/// Bytes that this process has in memory; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    kib(&read("/proc/self/status"), "VmRSS:").unwrap_or(0)
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// What control groups leave to programs: the tightest of these counts.
fn group_bytes(groups: &[(Version, PathBuf)]) -> Option<u64> {
    let left = |(version, group): &(Version, PathBuf)| {
        let (limit, used) = match version {
            Version::First => ("memory.limit_in_bytes", "total_rss "),
            Version::Second => ("memory.max", "anon "),
        };
        // `max`, or no such file.
        let limit: u64 = read(group.join(limit)).trim().parse().ok()?;
        let statistics = read(group.join("memory.stat"));
        let used = statistics.lines().find_map(|line| line.strip_prefix(used));
        let used = used.and_then(|number| number.trim().parse().ok());
        Some(limit.saturating_sub(used.unwrap_or(0)))
    };
    groups.iter().filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("longhaul-groups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/memory.stat", "anon 300\nfile 600\n");
        write("a/b/memory.max", "max\n");
        write("memory/x/memory.limit_in_bytes", "900\n");
        write("memory/x/memory.stat", "cache 5\ntotal_rss 850\n");
        let group_bytes = |text: &str| group_bytes(&groups::folders(text, &root, "memory"));
        let second = "0::/a/b\n";
        assert_eq!(group_bytes(second), Some(700));
        assert_eq!(group_bytes("0::/c\n"), None);
        let first = "5:cpu,memory:/x/y\n4:pids:/a\n";
        assert_eq!(group_bytes(first), Some(50));
        assert_eq!(group_bytes(&format!("{first}{second}")), Some(50));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(resident_bytes() > 100_000);
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn allocations_on_large_pages_are_like_all_others() {
        prefer_large_pages();
        let size = 3 * LARGE + 12_345;
        let layout = Layout::from_size_align(size, 16).unwrap();
        // SAFETY: the layout is not empty, and each pointer is used within it and given back once.
        unsafe {
            let at = LargePages.alloc_zeroed(layout);
            assert!((0..size).step_by(4096).all(|n| at.add(n).read() == 0));
            at.add(size - 1).write(7);
            let at = LargePages.realloc(at, layout, 2 * size);
            assert_eq!(at.add(size - 1).read(), 7);
            at.add(2 * size - 1).write(9);
            LargePages.dealloc(at, Layout::from_size_align(2 * size, 16).unwrap());
        }
    }
}
