//! What people see: the real binary in a pseudo-terminal, whose screen an independent terminal emulator keeps; and
//! what goes into pipes instead. Nothing here needs namespaces.

// Screens and runs under way are waited for by the clock.
#![allow(clippy::disallowed_methods)]

mod pty;
mod report;
mod top;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than any screen takes to come.
const PATIENCE: Duration = Duration::from_secs(30);

const EXPERIMENT: &str = "\
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
  bulk: { from: a, to: b, bytes: 500 kB }
measure: { every: 1 s, capture: [g-h] }
";

/// A folder of its own for each test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("longhaul-terminal-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn longhaul(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn write(&self, text: &str) -> &'static str {
        fs::write(self.0.join("experiment.yaml"), text).unwrap();
        "experiment.yaml"
    }

    /// Runs the experiment to its end, and gives what it has printed.
    fn run(&self) -> String {
        let output = self.longhaul(&["run", self.write(EXPERIMENT)]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stdout)
    }

    /// Starts a run that goes on for long.
    fn start(&self) -> UnderWay {
        let long = EXPERIMENT.replace("30 s", "800000 h");
        let long = long.replace(", bytes: 500 kB", "");
        let long = long.replace("measure: { every: 1 s, capture: [g-h] }\n", "");
        let file = self.write(&long);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["run", file, "--quiet"]).current_dir(&self.0);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let run = UnderWay(command.stderr(Stdio::null()).spawn().unwrap());
        let begun = self.0.join("longhaul-runs/small/series/seconds.csv");
        wait_for("the run to begin", || begun.exists().then_some(()));
        std::thread::sleep(Duration::from_millis(500));
        run
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run, which ends with this.
struct UnderWay(Child);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn kill(signal: &str, pid: u32) {
    let kill = format!("kill -{signal} {pid}");
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing that a terminal would take for more than text.
fn assert_plain(text: &str, path: &Path) {
    let steers = |c: &char| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c);
    let found = text.chars().find(steers);
    assert_eq!(found, None, "{}: {text}", path.display());
}
