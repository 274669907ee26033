//! The threads of this process, which may fork only while it has one.
//!
//! A forked child has a copy of every lock and only the thread that forked, so a lock that another
//! thread held, such as the allocator's, is never released there.
//!
//! Theory: a thread that has been waited for may still be there. `join` returns when the kernel clears
//! the thread's id (set_tid_address(2)), and a scope (`std::thread::scope`) ends when the thread's result
//! has been stored. The kernel takes the thread off `/proc/self/task` afterwards, and a thread of a scope
//! runs code of its own until then. So a caller that is about to fork waits for threads on their way
//! out, up to a bound, and only a thread that stays is its mistake.

use std::time::Duration;

use crate::clock::monotonic_ns;

/// How long threads that have been waited for may take to be gone. They need only a CPU for some
/// microseconds; on a busy machine, a virtual one above all, they may wait for it. Only a caller that is wrong
/// waits as long.
const GONE_WITHIN: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_micros(100);

/// Panics unless the calling thread is the only one, once those on their way out are gone. `what` is
/// about to be forked.
pub(crate) fn assert_alone(what: &str) {
    assert!(is_alone(), "{what} must be forked before any thread starts");
}

/// Whether the calling thread is the only one, once those on their way out are gone.
pub(crate) fn is_alone() -> bool {
    no_more_than(1, GONE_WITHIN)
}

/// Waits until there are no more than `most` threads; whether that was so within `patience`.
fn no_more_than(most: usize, patience: Duration) -> bool {
    let until_ns = monotonic_ns() + patience.as_nanos() as u64;
    loop {
        if count() <= most {
            return true;
        }
        if monotonic_ns() > until_ns {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Without `/proc` nothing can be forked into namespaces either, and that error says more.
fn count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;

    /// Not a test of its own: the next one runs it in a process without other tests.
    #[test]
    fn counting_process() {
        if std::env::var_os("LONGHAUL_TEST_THREADS").is_none() {
            return;
        }
        let own = count();
        // A scope's threads are gone only after its end.
        for _ in 0..200 {
            std::thread::scope(|scope| {
                scope.spawn(|| {});
            });
            assert!(no_more_than(own, GONE_WITHIN));
        }
        let leaves = Duration::from_millis(20);
        let thread = std::thread::spawn(move || std::thread::sleep(leaves));
        assert!(no_more_than(own, GONE_WITHIN));
        thread.join().unwrap();
        // One that stays is waited for, and not for long.
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || ended.recv());
        let began_ns = monotonic_ns();
        assert!(!no_more_than(own, leaves));
        assert!(monotonic_ns() - began_ns >= leaves.as_nanos() as u64);
        drop(end);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn threads_on_their_way_out_are_waited_for_and_others_are_not() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::tests::counting_process"])
            .env("LONGHAUL_TEST_THREADS", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}");
    }
}
