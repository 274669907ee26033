//! The memory of a process and those that it has started, second by second.

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The emulator's own processes; programs are not its memory.
const OWN: [&str; 3] = ["longhaul", "longhaul-box", "longhaul-host"];
const EVERY: Duration = Duration::from_secs(1);

/// Samples once a second until it is asked for the samples.
pub(super) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Vec<u64>>,
}

impl Watch {
    /// Watches process `root`.
    pub(super) fn new(root: u32) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut seen = Vec::new();
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                seen.push(resident(root));
            }
            seen
        });
        Self { stop, thread }
    }

    /// The resident bytes in each second so far.
    pub(super) fn seen(self) -> Vec<u64> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Resident bytes of the emulator's processes at and below `root`.
fn resident(root: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: HashMap<u32, Process> = numbers.filter_map(|id| Some((id, process(id)?))).collect();
    let below = |mut id: u32| {
        while id != root {
            match all.get(&id) {
                Some(process) => id = process.parent,
                None => return false,
            }
        }
        true
    };
    let own = all
        .iter()
        .filter(|(id, process)| process.own && below(**id));
    own.map(|(_, process)| process.resident).sum()
}

struct Process {
    parent: u32,
    own: bool,
    resident: u64,
}

/// What `/proc/ID/status` says (proc_pid_status(5)).
fn process(id: u32) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].split_whitespace().next()
    };
    let kib: u64 = field("VmRSS:").unwrap_or("0").parse().ok()?;
    Some(Process {
        parent: field("PPid:")?.parse().ok()?,
        own: OWN.contains(&field("Name:")?),
        resident: kib * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_parent() {
        let own = process(std::process::id()).expect("our own");
        assert!(own.resident > 0 && own.parent == std::os::unix::process::parent_id());
        assert!(process(u32::MAX).is_none());
    }
}
