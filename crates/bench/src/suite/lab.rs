//! What all setups share: programs, folders, CPUs, and whether this machine can do the reference.

use std::cell::Cell;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Folders of the machine that hosts do not see; this program runs on them.
const HIDDEN: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// The surroundings of a suite.
pub(crate) struct Lab {
    /// This program.
    pub(crate) bench: PathBuf,
    /// The emulator.
    pub(crate) longhaul: PathBuf,
    /// The CPUs that an emulated run gives to programs; empty for all.
    pub(crate) cpus: Vec<usize>,
    /// A short test instead of a measurement.
    pub(crate) quick: bool,
    /// Why there is no cable to compare with.
    pub(crate) no_reference: Option<String>,
    dir: PathBuf,
    keep: bool,
    next: Cell<u32>,
}

impl Lab {
    /// Inspects the machine and makes the working folder.
    pub(crate) fn new(
        longhaul: Option<PathBuf>,
        keep: Option<PathBuf>,
        quick: bool,
    ) -> io::Result<Self> {
        let bench = env::current_exe()?;
        let longhaul = longhaul.unwrap_or_else(|| bench.with_file_name("longhaul"));
        if !longhaul.is_file() {
            let problem = format!(
                "no emulator at {}: build it first, with `cargo build --release`",
                longhaul.display()
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, problem));
        }
        let longhaul = longhaul.canonicalize()?;
        let temporary =
            || env::temp_dir().join(format!("longhaul-bench-suite-{}", std::process::id()));
        let dir = keep.clone().unwrap_or_else(temporary);
        fs::create_dir_all(&dir)?;
        if fs::read_dir(&dir)?.next().is_some() {
            let problem = format!("{} is not empty", dir.display());
            return Err(io::Error::other(problem));
        }
        Ok(Self {
            bench,
            longhaul,
            cpus: program_cpus()?,
            quick,
            no_reference: missing_tools(),
            dir: dir.canonicalize()?,
            keep: keep.is_some(),
            next: Cell::new(0),
        })
    }

    /// An error where hosts could not run this program.
    pub(crate) fn must_be_visible(&self) -> io::Result<()> {
        if !HIDDEN.iter().any(|folder| self.bench.starts_with(folder)) {
            return Ok(());
        }
        let problem = format!(
            "{} is hidden from hosts, which have folders {} of their own: put it elsewhere",
            self.bench.display(),
            HIDDEN.join(", ")
        );
        Err(io::Error::other(problem))
    }

    /// A new folder for one run.
    pub(crate) fn folder(&self) -> io::Result<PathBuf> {
        self.next.set(self.next.get() + 1);
        let path = self.dir.join(format!("{:04}", self.next.get()));
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Removes a run's folder, unless all are kept.
    pub(crate) fn done_with(&self, folder: &Path) {
        if !self.keep {
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// How long a setup sends: `full` seconds, or one in a test.
    pub(crate) fn seconds(&self, full: u32) -> u32 {
        if self.quick { 1 } else { full }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// All CPUs but the last, which is the core's: what an emulated run gives to programs.
fn program_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero set is empty, and it outlives the call.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        let size = mem::size_of::<libc::cpu_set_t>();
        crate::net::check(libc::sched_getaffinity(0, size, &raw mut set))?;
        set
    };
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the numbers are below CPU_SETSIZE.
    let mut cpus: Vec<usize> = all
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect();
    cpus.pop();
    Ok(cpus)
}

/// A system tool, searched for also in the `sbin` folders, which ordinary users' `PATH` lacks.
pub(crate) fn tool(name: &str) -> Command {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new(name);
    command.env("PATH", path);
    command
}

/// Tools that the reference needs and this machine lacks, in one sentence.
fn missing_tools() -> Option<String> {
    let tools = [
        ("unshare", "util-linux"),
        ("nsenter", "util-linux"),
        ("taskset", "util-linux"),
        ("ip", "iproute2"),
        ("ethtool", "ethtool"),
    ];
    let missing = tools.iter().find(|(name, _)| {
        let found = self::tool(name).arg("--version").output();
        matches!(found, Err(error) if error.kind() == io::ErrorKind::NotFound)
    });
    missing.map(|(name, package)| {
        format!("`{name}` is not installed (package {package}); a plain cable needs it")
    })
}
