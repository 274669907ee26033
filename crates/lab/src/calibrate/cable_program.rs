//! A program at an end of a plain cable: its start, what it prints, its end.
//!
//! It is a child of this process, with pipes for what it prints, which hold all of that. Every wait has
//! a bound and ends when the calibration is interrupted; a program that is dropped is killed.
//!
//! Left out: output beyond what a pipe holds, which no such program has.
#![allow(
    clippy::disallowed_methods,
    reason = "programs are polled between sleeps, as nothing of the emulation runs"
)]

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::wait_readable;
use serde::de::DeserializeOwned;

use super::CalibrateError;
use super::interrupt::Interrupt;

/// How often a program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(5);
/// So many last lines of what a program printed are shown when it fails.
const LINES: usize = 5;
/// How a service begins the line that says that it is ready.
const READY: &[u8] = b"ready";

/// A program at an end of a cable.
pub(super) struct Program<'a> {
    child: Child,
    stderr: ChildStderr,
    /// Its command line, for people.
    name: String,
    /// What it has printed to standard error, as far as that is read.
    said: Vec<u8>,
    interrupt: &'a Interrupt,
}

impl<'a> Program<'a> {
    /// Starts it.
    pub(super) fn start(
        mut command: Command,
        interrupt: &'a Interrupt,
    ) -> Result<Self, CalibrateError> {
        let name = name(&command);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| failed(&name, format_args!("did not start: {error}")))?;
        Ok(Self {
            stderr: child.stderr.take().expect("just asked for"),
            child,
            name,
            said: Vec::new(),
            interrupt,
        })
    }

    /// Waits until it says on standard error that it is ready.
    pub(super) fn await_ready(&mut self, patience: Duration) -> Result<(), CalibrateError> {
        let until_ns = monotonic_ns() + patience.as_nanos() as u64;
        while !is_ready(&self.said) {
            self.interrupt.check()?;
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return Err(self.late("said that it is ready", patience));
            }
            let fds = [self.stderr.as_fd(), self.interrupt.as_fd()];
            let ready = wait_readable(&fds, Some(Duration::from_nanos(left_ns)));
            if ready.map_err(|error| self.unreadable(&error))?[0] && self.listen()? == 0 {
                let what = format!("ended before it was ready{}", self.last_lines());
                return Err(failed(&self.name, format_args!("{what}")));
            }
        }
        Ok(())
    }

    /// Waits for its end and reads the result that it printed.
    pub(super) fn finish<T: DeserializeOwned>(
        mut self,
        patience: Duration,
    ) -> Result<T, CalibrateError> {
        let until_ns = monotonic_ns() + patience.as_nanos() as u64;
        let status = loop {
            self.interrupt.check()?;
            let ended = self.child.try_wait();
            match ended.map_err(|error| self.unreadable(&error))? {
                Some(status) => break status,
                None if monotonic_ns() > until_ns => return Err(self.late("ended", patience)),
                None => thread::sleep(POLL),
            }
        };
        if !status.success() {
            while self.listen()? > 0 {}
            let what = format!("failed ({status}){}", self.last_lines());
            return Err(failed(&self.name, format_args!("{what}")));
        }
        let mut printed = String::new();
        let stdout = self.child.stdout.as_mut().expect("asked for at its start");
        stdout
            .read_to_string(&mut printed)
            .and_then(|_| serde_json::from_str(&printed).map_err(io::Error::other))
            .map_err(|error| failed(&self.name, format_args!("printed no result: {error}")))
    }

    /// Reads what can be read at once of what it says, and waits only if that is nothing; how many bytes,
    /// 0 after its end.
    fn listen(&mut self) -> Result<usize, CalibrateError> {
        let mut bytes = [0; 4096];
        let read = self.stderr.read(&mut bytes);
        let read = read.map_err(|error| self.unreadable(&error))?;
        self.said.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    fn late(&self, what: &str, patience: Duration) -> CalibrateError {
        let seconds = patience.as_secs_f64();
        let lines = self.last_lines();
        failed(
            &self.name,
            format_args!(
                "has not {what} within {seconds} s{lines}; calibrate again when nothing else runs, and if \
                 that does not help see what `longhaul doctor` says"
            ),
        )
    }

    fn unreadable(&self, error: &io::Error) -> CalibrateError {
        failed(&self.name, format_args!("cannot be waited for: {error}"))
    }

    /// What it said last, as the end of a sentence; it has no log.
    fn last_lines(&self) -> String {
        let text = String::from_utf8_lossy(&self.said);
        let lines: Vec<&str> = text.trim().lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        match last {
            [] => ", and has printed no message".to_owned(),
            [only] => format!(", and has printed `{only}`"),
            more => format!(", and has printed at last\n  {}\n", more.join("\n  ")),
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a whole line of these says so.
fn is_ready(said: &[u8]) -> bool {
    let whole = said.iter().rposition(|byte| *byte == b'\n');
    let lines = said[..whole.unwrap_or(0)].split(|byte| *byte == b'\n');
    lines.into_iter().any(|line| line.starts_with(READY))
}

/// The command line, with this program under its own name.
fn name(command: &Command) -> String {
    let program = match command.get_program() {
        own if own == super::trial::SELF => "longhaul".into(),
        other => other.to_string_lossy(),
    };
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(program)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn failed(name: &str, what: std::fmt::Arguments<'_>) -> CalibrateError {
    CalibrateError::Failed(format!("over a plain cable `{name}` {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(30);

    /// What comes of a script that is waited for.
    fn of<T>(
        script: &str,
        wait: impl FnOnce(Program<'_>) -> Result<T, CalibrateError>,
    ) -> Result<T, String> {
        let interrupt = Interrupt::catch().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        wait(Program::start(command, &interrupt).unwrap()).map_err(|error| error.to_string())
    }

    fn ready(script: &str, patience: Duration) -> Result<(), String> {
        of(script, |mut program| program.await_ready(patience))
    }

    #[test]
    fn a_program_is_ready_once_a_line_says_so() {
        assert_eq!(ready("echo ready >&2; exec sleep 60", LONG), Ok(()));
        let after_a_warning = "echo odd >&2; sleep 0.1; echo ready on 5 >&2; exec sleep 60";
        assert_eq!(ready(after_a_warning, LONG), Ok(()));
        assert!(!is_ready(b"ready") && !is_ready(b"already\n") && !is_ready(b""));
    }

    #[test]
    fn a_program_that_is_not_ready_in_time_is_named_with_what_it_said() {
        let lines = "for n in 1 2 3 4 5 6 7; do echo l$n >&2; done; exec sleep 60";
        let error = of(lines, |mut program| {
            // On a busy machine the shell may take longer than the wait.
            while !program.said.ends_with(b"l7\n") && program.listen()? > 0 {}
            program.await_ready(SOON)
        });
        let error = error.unwrap_err();
        for part in ["`sh -c for n", "within 0.1 s", "l3\n  l4", "l7", "doctor"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("l2\n"), "{error}");
        let error = ready("exec sleep 60", SOON).unwrap_err();
        assert!(error.contains("no message"), "{error}");
        let error = ready("echo no port >&2; exit 3", LONG).unwrap_err();
        assert!(
            error.contains("ended before") && error.contains("`no port`"),
            "{error}"
        );
    }

    #[test]
    fn a_result_is_what_a_program_printed_before_it_ended_well() {
        let finish = |script, patience| of(script, |program| program.finish::<u64>(patience));
        assert_eq!(finish("echo 17", LONG), Ok(17));
        let error = finish("echo x", LONG).unwrap_err();
        assert!(error.contains("no result"), "{error}");
        let error = finish("echo 17; echo broken >&2; exit 3", LONG).unwrap_err();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
        let error = finish("exec sleep 60", SOON).unwrap_err();
        assert!(error.contains("has not ended within 0.1 s"), "{error}");
    }
}
