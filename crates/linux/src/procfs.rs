//! What `/proc` says in more than one place: numbers of processes, tables of sizes, ticks.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

/// The names of a folder that are numbers: processes in `/proc`, threads in `/proc/PID/task`.
pub(crate) fn numbers_in(folder: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The size of a line `key NUMBER kB`, in bytes; `key` has its colon.
pub(crate) fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

/// Memory that a process holds now (RSS), in bytes; `None` where it is gone.
pub(crate) fn resident_bytes(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Nanoseconds of a tick, in which `/proc` counts CPU time.
pub(crate) fn tick_ns() -> u64 {
    1_000_000_000 / clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_by_their_whole_names() {
        let status = "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t     300 kB\nRssShmem:\t 100 kB\n";
        assert_eq!(kib(status, "RssAnon:"), Some(300 << 10));
        assert_eq!(kib(status, "RssShmem:"), Some(100 << 10));
        assert_eq!((kib(status, "Rss:"), kib(status, "Name:")), (None, None));
    }

    #[test]
    fn this_process_is_among_the_numbers_and_holds_memory() {
        let own = std::process::id() as i32;
        assert!(numbers_in("/proc").any(|pid| pid == own));
        assert!(resident_bytes(own).is_some_and(|bytes| bytes > 0));
        assert_eq!(resident_bytes(-1), None);
    }
}
