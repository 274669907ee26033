//! Live: shells that hold memory in PID namespaces.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::resources::testing::{TestHost, below, state, until};

const MB: u64 = 1 << 20;

/// `tail` holds what has come on its input until there is more.
fn hold(mb: u64) -> String {
    format!("(head -c {mb}M /dev/zero; sleep 60) | tail > /dev/null &")
}

fn holders(host: &TestHost) -> Vec<(i32, u64)> {
    let holds = |pid| Pss::of(pid).map(|pss| (pid, pss.all));
    let all = below(host.init).into_iter().filter_map(holds);
    let mut big: Vec<_> = all.filter(|(_, pss)| *pss > 20 * MB).collect();
    big.sort_unstable_by_key(|(_, pss)| *pss);
    big
}

/// A host with two processes of about 30 and 60 MB, once it has them.
fn two() -> Option<TestHost> {
    let host = TestHost::start(&format!("{} {} wait", hold(30), hold(60)))?;
    let held = || holders(&host).iter().map(|(_, pss)| *pss).sum::<u64>() >= 90 * MB;
    assert!(until(Duration::from_secs(20), held));
    Some(host)
}

fn watch(host: &TestHost, bytes: u64, span: Duration) -> Vec<Killed> {
    let limit = Limit {
        init: host.init,
        bytes,
        folders: vec!["/dev/shm".into()],
    };
    let mut watchdog = Watchdog::new(vec![limit]).unwrap();
    let (began, mut killed) = (Instant::now(), Vec::new());
    while began.elapsed() < span {
        killed.extend(watchdog.turn());
        thread::sleep(Duration::from_nanos(
            watchdog.due_ns().saturating_sub(monotonic_ns()),
        ));
    }
    killed
}

#[test]
fn the_biggest_process_is_killed_and_only_it() {
    let Some(host) = two() else { return };
    let before = holders(&host);
    let [(small, _), (big, pss)] = before[..] else {
        panic!("{before:?}")
    };
    let all: u64 = below(host.init)
        .into_iter()
        .filter_map(Pss::of)
        .map(|pss| pss.all)
        .sum();
    // What they hold fits, and a MiB less does not.
    assert_eq!(watch(&host, all + MB, Duration::from_millis(200)), []);
    let killed = watch(&host, all - MB, Duration::from_millis(500));
    let [killed] = &killed[..] else {
        panic!("{killed:?}")
    };
    assert_eq!(
        (killed.host, killed.pid, killed.name.as_str()),
        (0, big, "tail")
    );
    assert!(killed.pss_bytes.abs_diff(pss) < MB, "{killed:?}");
    assert!(killed.host_bytes.abs_diff(all) < MB, "{killed:?}");
    assert_eq!((killed.limit_bytes, killed.files_bytes), (all - MB, 0));
    assert!(until(Duration::from_secs(5), || state(big).is_none()));
    assert_eq!(state(small), Some('S'));
}

#[test]
fn files_in_memory_count() {
    let script = "mount -t tmpfs -o size=64M tmpfs /dev/shm && \
                  head -c 40M /dev/zero > /dev/shm/file && sleep 60 & wait";
    let Some(host) = TestHost::start(script) else {
        return;
    };
    let written = || tmpfs_bytes(host.init, "/dev/shm".as_ref()) == 40 * MB;
    assert!(until(Duration::from_secs(20), written));
    assert_eq!(watch(&host, 50 * MB, Duration::from_millis(100)), []);
    let killed = watch(&host, 30 * MB, Duration::from_millis(200));
    assert!(!killed.is_empty());
    assert_eq!(killed[0].files_bytes, 40 * MB);
    assert_eq!(tmpfs_bytes(host.init, "/proc".as_ref()), 0, "no tmpfs");
}

#[test]
fn sampling_costs_less_than_a_hundredth() {
    let Some(host) = two() else { return };
    let limit = Limit {
        init: host.init,
        bytes: 80 * MB,
        folders: Vec::new(),
    };
    let mut watchdog = Watchdog::new(vec![limit]).unwrap();
    // As if somebody had just been killed, so that the page tables are what it looks at.
    let (now, before) = (monotonic_ns(), own_cpu_ns());
    let killed = watchdog.turn();
    let cost = own_cpu_ns() - before;
    assert_eq!(killed.len(), 1);
    assert!(watchdog.due_ns() - now >= LEAST_NS);
    assert!(watchdog.due_ns() - now + LEAST_NS >= cost * COST, "{cost}");
    assert_eq!(
        watchdog.turn(),
        [],
        "it waits for who is dying, or all is well"
    );
}

/// Not a test of its own: what the next one runs with a limit.
#[test]
fn limited_process() {
    if std::env::var_os("LONGHAUL_TEST_DATA").is_some() {
        limit_data(64 * MB).unwrap();
        let head = |mb: u64| {
            let script = format!("head -c {mb}M /dev/zero | tail > /dev/null");
            Command::new("sh")
                .args(["-c", &script])
                .status()
                .unwrap()
                .success()
        };
        assert!(head(20));
        assert!(!head(100));
    }
}

#[test]
fn a_program_is_refused_more_data_than_its_limit() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resources::watchdog::tests::limited_process"])
        .env("LONGHAUL_TEST_DATA", "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_rollup_is_read_by_its_names() {
    let text = "0-1 ---p 0 00:00 0 [rollup]\nRss: 900 kB\nPss: 300 kB\nPss_Dirty: 7 kB\nPss_Shmem: 20 kB\n";
    let pss = Pss {
        all: 300 << 10,
        shared: 20 << 10,
    };
    assert_eq!(Pss::parse(text), Some(pss));
    assert_eq!(Pss::parse(""), None, "a process without memory");
}
