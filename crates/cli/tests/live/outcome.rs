//! The outcome of a run, and what must hold of every summary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde_json::Value;

/// Causes of packets lost or ended inside the network.
const CAUSES: [&str; 8] = [
    "queue",
    "loss",
    "link_down",
    "hop_limit",
    "no_route",
    "too_big",
    "misdelivered",
    "absorbed",
];

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Its exit code, 128 + n if signal n ended it.
    pub(crate) code: i32,
    /// What it said on standard error.
    pub(crate) stderr: String,
    /// `summary.json`; null if there is none.
    pub(crate) summary: Value,
    out: PathBuf,
}

/// How much longer than its links' delays the quickest or the median round trip of a program may
/// take: four wake-ups, two of them the programs' own.
pub(crate) const ROUND_TRIP_LATE_NS: u64 = 1_000_000;

impl Outcome {
    /// Reads the run folder and checks what always holds.
    pub(crate) fn new(status: ExitStatus, stdout: String, stderr: String, out: PathBuf) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        // What the folder holds may be an earlier run's; what was printed is this one's.
        let summary = if stdout.trim().is_empty() {
            Value::Null
        } else {
            let printed: Value = serde_json::from_str(&stdout)
                .unwrap_or_else(|e| panic!("standard output is no JSON: {e}\n{stdout}"));
            match fs::read_to_string(out.join("summary.json")) {
                Ok(kept) => {
                    let kept: Value = serde_json::from_str(&kept).expect("valid JSON");
                    assert_eq!(printed, kept);
                }
                // Only what went wrong with the run may have cost the file.
                Err(error) => assert!(!printed["error"].is_null(), "summary.json: {error}"),
            }
            printed
        };
        let outcome = Self {
            code,
            stderr,
            summary,
            out,
        };
        if !outcome.summary.is_null() {
            outcome.check();
        }
        outcome
    }

    /// The sums close, and the exit code says what the summary says.
    fn check(&self) {
        let packets = &self.summary["packets"];
        let made = number(&packets["entered"]) + number(&packets["created"]);
        let ended = number(&packets["delivered"]) + self.dropped() + number(&packets["inside"]);
        assert_eq!(made, ended, "the sums do not close: {packets:#}");
        let pipes = self.summary["pipes"].as_array().expect("pipes");
        let over_pipes = |field: &str| pipes.iter().map(|pipe| number(&pipe[field])).sum::<u64>();
        assert_eq!(over_pipes("packets"), number(&packets["hops"]));
        assert_eq!(over_pipes("drops_queue"), self.dropped_by("queue"));
        assert_eq!(over_pipes("drops_loss"), self.dropped_by("loss"));
        let failures = self
            .programs()
            .filter(|program| !program["failure"].is_null())
            .count();
        let failed = failures > 0 || !self.summary["error"].is_null();
        let faithful = self.summary["verdict"]["state"] == "faithful";
        assert!(
            !faithful || self.physical_drops() == 0,
            "faithful in spite of physical drops"
        );
        let expected = match (failed, faithful) {
            (true, _) => 1,
            (false, false) => 3,
            (false, true) => 0,
        };
        assert_eq!(self.code, expected, "exit code: {self}");
    }

    /// Passes itself on if it went well, faithful or not.
    pub(crate) fn succeeded(self) -> Self {
        assert!(
            matches!(self.code, 0 | 3),
            "exit code {}: {self}",
            self.code
        );
        self
    }

    /// Passes itself on if a program or the run failed.
    pub(crate) fn failed(self) -> Self {
        assert_eq!(self.code, 1, "{self}");
        self
    }

    /// The run folder.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    /// Everything dropped inside the network.
    pub(crate) fn dropped(&self) -> u64 {
        CAUSES.iter().map(|cause| self.dropped_by(cause)).sum()
    }

    /// What was dropped for one cause.
    pub(crate) fn dropped_by(&self, cause: &str) -> u64 {
        number(&self.summary["packets"]["dropped"][cause])
    }

    /// Packets that the machine lost.
    pub(crate) fn physical_drops(&self) -> u64 {
        number(&self.summary["verdict"]["physical_drops"])
    }

    /// One-way traffic arrived, but for what was counted as dropped.
    pub(crate) fn assert_arrived(&self, sent: u64, received: u64) {
        let missing = sent.checked_sub(received).expect("no more than was sent");
        let (inside, physical) = (self.dropped(), self.physical_drops());
        if physical == 0 {
            assert_eq!(missing, inside, "{sent} sent, {received} received: {self}");
        } else {
            // What the machine lost may have been something else.
            assert!(
                (inside..=inside + physical).contains(&missing),
                "{missing} missing: {self}"
            );
        }
    }

    fn programs(&self) -> impl Iterator<Item = &Value> {
        self.summary["programs"]
            .as_array()
            .expect("programs")
            .iter()
    }

    /// A program's entry in the summary.
    pub(crate) fn program(&self, name: &str) -> &Value {
        self.programs()
            .find(|program| program["name"] == name)
            .expect("a program of that name")
    }

    /// A program's log, like `client.out`.
    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.out.join("logs").join(name)).unwrap_or_default()
    }

    /// A program's one JSON object.
    pub(crate) fn report(&self, program: &str) -> Value {
        let text = self.log(&format!("{program}.out"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{program}: {e}: {text}\n{self}"))
    }
}

impl std::fmt::Display for Outcome {
    /// Everything that helps to see why a test failed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "exit code {}\n{}", self.code, self.stderr)?;
        let parts = ["verdict", "packets", "error", "warnings", "programs"];
        for part in parts.iter().filter(|_| !self.summary.is_null()) {
            writeln!(f, "{part}: {}", self.summary[part])?;
        }
        for entry in fs::read_dir(self.out.join("logs"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if !text.is_empty() {
                let head: String = text.chars().take(2000).collect();
                writeln!(f, "{}: {head}", entry.file_name().to_string_lossy())?;
            }
        }
        Ok(())
    }
}

/// A whole number of a JSON value.
pub(crate) fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// The median of several attempts: the lower one of the two middle values.
pub(crate) fn median<T: PartialOrd + Copy>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let middle = values.len().checked_sub(1).expect("at least one attempt") / 2;
    values[middle]
}
