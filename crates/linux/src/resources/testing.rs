//! Hosts for tests: PID namespaces with processes that ordinary users may make.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::census::StatFile;
use crate::procfs::numbers_in;

#[path = "../../../../tests/skip.rs"]
mod skip;

/// A PID namespace whose first process is a shell; it ends with this value.
#[derive(Debug)]
pub(super) struct TestHost {
    unshare: Child,
    pub(super) init: i32,
}

impl TestHost {
    /// With a script for the shell; none, said so, where the machine allows none.
    pub(super) fn start(script: &str) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--mount", "--fork"]);
        command.args(["--kill-child", "--mount-proc", "sh", "-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let Ok(unshare) = command.spawn() else {
            skip::skip("unshare is missing: install util-linux");
            return None;
        };
        let mut host = Self { unshare, init: 0 };
        let found = until(Duration::from_secs(10), || {
            host.init = host.first().unwrap_or(0);
            host.init != 0 || host.unshare.try_wait().unwrap().is_some()
        });
        if !found || host.init == 0 {
            skip::skip("this machine allows no namespaces: see `longhaul doctor`");
            return None;
        }
        Some(host)
    }

    /// The child of `unshare`, once it is the shell.
    fn first(&self) -> Option<i32> {
        let own = self.unshare.id() as i32;
        let name = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        children_of(own)
            .into_iter()
            .find(|&pid| name(pid).as_deref() == Some("sh\n"))
    }

    /// The processes of the host but the first, as soon as there are `number`.
    pub(super) fn processes(&self, number: usize) -> Vec<i32> {
        let mut found = Vec::new();
        until(Duration::from_secs(10), || {
            found = below(self.init);
            found.len() == number
        });
        assert_eq!(found.len(), number, "{found:?}");
        found
    }

    /// What the shell has written by its end.
    pub(super) fn output(mut self) -> String {
        use std::io::Read;
        let ended = until(Duration::from_secs(20), || {
            self.unshare.try_wait().unwrap().is_some()
        });
        assert!(ended, "its shell goes on");
        let mut text = String::new();
        let mut out = self.unshare.stdout.take().unwrap();
        out.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// All descendants of a process.
pub(super) fn below(pid: i32) -> Vec<i32> {
    let mut all = children_of(pid);
    let mut at = 0;
    while at < all.len() {
        all.extend(children_of(all[at]));
        at += 1;
    }
    all
}

fn children_of(pid: i32) -> Vec<i32> {
    let parent = |child| StatFile::open(child).map(|(_, stat)| stat.parent);
    numbers_in("/proc")
        .filter(|&child| parent(child) == Some(pid))
        .collect()
}

/// `R`, `S`, `T` and so on.
pub(super) fn state(pid: i32) -> Option<char> {
    StatFile::open(pid).map(|(_, stat)| stat.state.into())
}

/// Waits until something is so.
pub(super) fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if began.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says why a test has not run.
pub(super) fn skipped(why: &str) {
    skip::skip(why);
}
