//! A folder for a test, the binary under test in it, and runs in virtual time, which need no namespaces.

// Runs under way are waited for by the clock.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything that is waited for takes to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two groups of hosts around a bottleneck that becomes slower.
pub(crate) const SMALL: &str = "\
name: small
clock: virtual
duration: 30 s
topology:
  nodes: { a: { count: 3 }, b: { count: 3 }, g: { kind: router }, h: { kind: router } }
  links:
    - { ends: [a, g], rate: 100 Mbit/s, delay: 1 ms }
    - { ends: [g, h], rate: 10 Mbit/s, delay: 10 ms, queue: 30 packets }
    - { ends: [h, b], rate: 100 Mbit/s, delay: 1 ms }
traffic:
  bulk: { from: a, to: b, bytes: 500 kB, series: true }
  cross: { from: a0, to: b1, model: udp, rate: 500 kbit/s, gaps: poisson }
events:
  - { at: 1 s, link: g-h, set: { rate: 5 Mbit/s } }
";

/// A folder of its own for each test, gone with this.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// `name` distinguishes the tests of a binary.
    pub(crate) fn new(name: &str) -> Self {
        let tests = env!("CARGO_CRATE_NAME");
        let name = format!("longhaul-{tests}-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file, and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `longhaul` with these arguments, in the folder, to be completed.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// Runs `longhaul` to its end.
    pub(crate) fn longhaul(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Starts [`SMALL`] without an end, and waits until it answers and thousands of packets have arrived.
    pub(crate) fn start(&self, out: &str, more: &[&str]) -> UnderWay {
        let text = SMALL.replace("30 s", "800000 h");
        let file = self.write("endless.yaml", &text.replace("bytes: 500 kB, ", ""));
        let mut command = self.command(&["run", &file, "--json", "--quiet", "--out", out]);
        let command = command.args(more).stdout(Stdio::piped());
        let run = UnderWay::of(command.stderr(Stdio::piped()).spawn().unwrap());
        wait_for("the run to get going", || {
            let top = self.longhaul(&["top", "--run", out, "--once", "--json"]);
            let top: serde_json::Value = serde_json::from_slice(&top.stdout).ok()?;
            (top["time_s"].as_f64()? > 20.0).then_some(())
        });
        run
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run that goes on; by SIGKILL it ends with this.
pub(crate) struct UnderWay {
    child: Option<Child>,
}

impl UnderWay {
    pub(crate) fn of(child: Child) -> Self {
        Self { child: Some(child) }
    }

    /// Ends it by a signal.
    pub(crate) fn end(mut self, signal: &str) -> Output {
        let child = self.child.take().unwrap();
        kill(signal, child.id());
        child.wait_with_output().unwrap()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn kill(signal: &str, pid: u32) {
    let kill = format!("kill -{signal} {pid}");
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success());
}

pub(crate) fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
