//! Calibration: what this machine can do, measured before experiments need it.
//!
//! Purpose: users are to know in advance where the emulation breaks down. [`measure()`] makes a
//! series of short runs, from sleeping threads to hundreds of hosts, and keeps what it finds in a
//! file ([`Calibration`]); [`CoreCosts`] says what work costs the threads of virtual runs; [`fit`] makes the region of faithful runs of it, and [`demands`] says
//! whether an experiment lies within. The method is that of eWAN's microbenchmarks (Vicat-Blanc
//! Primet, Takano, Kodama, Kudoh, Gluck, Otal: *Large Scale Gigabit Emulated Testbed for Grid
//! Transport Evaluation*, 2006): measure hardware and system first, find the bottleneck, keep
//! both beside each result.
//!
//! A calibration is of one machine in one state. The file says which: it is not used for another
//! machine, processor, number of CPUs, kernel or version of Longhaul.
//!
//! Left out: other load on the machine, and what the programs of an experiment need.

mod cable_program;
mod costs;
pub mod demands;
mod end_to_end;
mod figures;
pub mod fit;
mod interrupt;
pub mod load;
mod measure;
mod platform;
mod timer;
mod trial;

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use thiserror::Error;

pub use costs::{Between, CoreCosts};
pub use end_to_end::{Carried, EndToEnd, Way};
pub use figures::{Hosts, Memory, Step, Tcp};
pub use measure::measure;
pub use platform::{NetworkInterface, Platform};
pub use timer::Timer;

use longhaul_partition::costs::Costs;

use crate::noise::Noise;
use crate::run::RunError;
use crate::summary::{self, CoreFacts, Machine};
use fit::Region;

/// The version of the file's format.
pub const FORMAT: u32 = 1;
/// Names the file, or with nothing in it says that there is none.
pub const VARIABLE: &str = "LONGHAUL_CALIBRATION";
/// No calibration is longer.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Why there is no calibration.
#[derive(Debug, Error)]
pub enum CalibrateError {
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run failed.
    #[error("a run of the calibration failed: {0}")]
    Failed(String),
    /// A signal asked for the end.
    #[error("interrupted by signal {0}; nothing was written")]
    Interrupted(i32),
    /// The system refused something else.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        error: io::Error,
    },
}

/// What was measured, and of what machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of Longhaul.
    pub version: String,
    /// When, in seconds since 1970.
    pub made_unix_s: u64,
    /// Whether it was a short one, which is less exact.
    pub quick: bool,
    /// A number made of the machine's own id; empty where it has none.
    pub machine_id: String,
    /// Its hardware and system.
    pub machine: Machine,
    /// Wake-ups.
    pub timer: Timer,
    /// UDP at given rates.
    pub lateness: Vec<Step>,
    /// UDP at full speed.
    pub throughput: Vec<Step>,
    /// TCP.
    pub tcp: Vec<Tcp>,
    /// Hosts.
    pub hosts: Vec<Hosts>,
    /// Memory.
    pub memory: Memory,
    /// Where a run will be faithful.
    pub region: Region,
    /// What work costs the threads of virtual runs; `None` in files of before it was measured.
    #[serde(default)]
    pub costs: Option<CoreCosts>,
    /// Parameters of the machine beyond `machine`; `None` in files of before they were read.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// TCP and UDP from end to end, without the emulator and with it; empty in files of before it was
    /// measured.
    #[serde(default)]
    pub end_to_end: Vec<EndToEnd>,
    /// The noise of the idle machine; `None` in files of before it was measured.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// The speed of a CPU in [`ref`](crate::resources::reference); `None` in files of before it was
    /// measured.
    #[serde(default)]
    pub reference: Option<f64>,
}

/// What `check` and `run` know of the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    /// It has not been calibrated.
    Nothing,
    /// It has been, but in another state or not readably: why.
    Stale(String),
    /// It has been.
    Calibrated(Box<Calibration>),
}

/// What work costs on threads of this machine.
#[derive(Debug, Clone, PartialEq)]
pub enum MachineCosts {
    /// As it was measured.
    Measured(Costs),
    /// As it is built in, and why.
    BuiltIn(&'static str),
}

impl MachineCosts {
    /// Those of this machine.
    pub fn known() -> Self {
        match known() {
            Known::Nothing => Self::BuiltIn("this machine is not calibrated"),
            Known::Stale(_) => {
                Self::BuiltIn("the calibration is not of this machine in its present state")
            }
            Known::Calibrated(found) => match found.costs.and_then(|costs| costs.costs()) {
                Some(costs) => Self::Measured(costs),
                None => Self::BuiltIn("the calibration lacks the costs of cores"),
            },
        }
    }

    /// The costs.
    pub fn costs(&self) -> Costs {
        match self {
            Self::Measured(costs) => *costs,
            Self::BuiltIn(_) => Costs::THREADS,
        }
    }

    /// By which name `--costs` knows them.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Measured(_) => "machine",
            Self::BuiltIn(_) => "threads",
        }
    }
}

impl Calibration {
    /// Its JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }

    /// Keeps it in `path`, which appears whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), CalibrateError> {
        let write = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut partial = path.as_os_str().to_owned();
            partial.push(".partial");
            let partial = PathBuf::from(partial);
            let mut file = File::create(&partial)?;
            file.write_all(self.to_json().as_bytes())?;
            fs::rename(&partial, path)
        };
        write().map_err(|error| CalibrateError::Io {
            what: format!("writing {}", path.display()),
            error,
        })
    }

    /// Why it says nothing of the machine as it is now.
    fn stale(&self, now: &Machine, id: &str) -> Option<String> {
        let then = &self.machine;
        let changed = |what: &str, then: &str, now: &str| {
            (then != now).then(|| format!("{what} was `{then}` and is now `{now}`"))
        };
        if !self.machine_id.is_empty() && !id.is_empty() && self.machine_id != id {
            return Some("it was made on another machine".to_owned());
        }
        changed("the processor", &then.processor, &now.processor)
            .or_else(|| changed("the kernel", &then.kernel, &now.kernel))
            .or_else(|| {
                changed(
                    "the number of CPUs",
                    &then.cpus.to_string(),
                    &now.cpus.to_string(),
                )
            })
            .or_else(|| {
                changed(
                    "the version of longhaul",
                    &self.version,
                    env!("CARGO_PKG_VERSION"),
                )
            })
            .or_else(|| changed("the format", &self.format.to_string(), &FORMAT.to_string()))
            .or_else(|| {
                let absurd = self.costs.is_some_and(|costs| costs.costs().is_none());
                absurd.then(|| "its costs of cores are implausible".to_owned())
            })
            .or_else(|| {
                let absurd = self
                    .noise
                    .as_ref()
                    .is_some_and(|noise| !noise.is_plausible());
                absurd.then(|| "its noise is implausible".to_owned())
            })
    }
}

/// The calibration of this machine.
pub fn known() -> Known {
    let Some(path) = place() else {
        return Known::Nothing;
    };
    let mut text = String::new();
    match File::open(&path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Known::Nothing,
        Err(error) => return Known::Stale(format!("{}: {error}", path.display())),
        Ok(_) => {}
    }
    match serde_json::from_str::<Calibration>(&text) {
        Err(error) => Known::Stale(format!("{}: {error}", path.display())),
        Ok(found) => match found.stale(&present_machine(), &machine_id()) {
            Some(why) => Known::Stale(why),
            None => Known::Calibrated(Box::new(found)),
        },
    }
}

/// The noise of this machine, where it is calibrated.
pub fn known_noise() -> Option<Noise> {
    match known() {
        Known::Calibrated(found) => found.noise,
        Known::Nothing | Known::Stale(_) => None,
    }
}

/// Where the calibration of this machine is kept: what `LONGHAUL_CALIBRATION` names, or
/// `longhaul/calibration.json` below `XDG_STATE_HOME`, `~/.local/state` or `XDG_RUNTIME_DIR`, the
/// first that there is. `None` without any.
pub fn place() -> Option<PathBuf> {
    place_from(|name| std::env::var_os(name).map(PathBuf::from))
}

fn place_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = variable(VARIABLE) {
        return (!path.as_os_str().is_empty()).then_some(path);
    }
    // By the XDG base directory specification a relative path is none.
    let folder = |name: &str| variable(name).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/state")))
        .or_else(|| folder("XDG_RUNTIME_DIR"))?;
    Some(state.join("longhaul/calibration.json"))
}

/// The machine, before any run.
fn present_machine() -> Machine {
    let cpus = longhaul_linux::cpu::allowed().map_or(0, |cpus| cpus.len());
    summary::machine(CoreFacts::default(), Vec::new(), cpus)
}

/// A number that is this machine's alone. The id itself is to stay on its machine, says
/// machine-id(5).
fn machine_id() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    if id.trim().is_empty() {
        return String::new();
    }
    let mut hasher = SipHasher13::new_with_keys(0x6c6f_6e67_6861_756c, 0);
    hasher.write(id.trim().as_bytes());
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(machine: &Machine) -> Calibration {
        Calibration {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made_unix_s: 1,
            quick: true,
            machine_id: "a".to_owned(),
            machine: machine.clone(),
            timer: Timer {
                nap_ns: 1,
                wakeups: 0,
                late_ns: crate::fidelity::Quantiles::default(),
                cpu: None,
                scheduling: String::new(),
            },
            lateness: Vec::new(),
            throughput: Vec::new(),
            tcp: Vec::new(),
            hosts: Vec::new(),
            memory: Memory {
                host_bytes: None,
                packet_bytes: 0,
                jumbo_packet_bytes: 0,
            },
            region: Region::default(),
            costs: None,
            platform: None,
            end_to_end: Vec::new(),
            noise: None,
            reference: None,
        }
    }

    #[test]
    fn a_calibration_is_of_one_machine_in_one_state() {
        let machine = present_machine();
        let calibration = made(&machine);
        assert_eq!(calibration.stale(&machine, "a"), None);
        // Containers have no id: then processor and kernel must do.
        assert_eq!(calibration.stale(&machine, ""), None);
        assert!(
            calibration
                .stale(&machine, "b")
                .unwrap()
                .contains("another")
        );
        let other = |change: fn(&mut Machine)| {
            let mut other = machine.clone();
            change(&mut other);
            calibration.stale(&other, "a").unwrap()
        };
        assert!(other(|machine| machine.kernel.push('x')).contains("kernel"));
        assert!(other(|machine| machine.processor.push('x')).contains("processor"));
        assert!(other(|machine| machine.cpus += 1).contains("CPUs"));
        let old = Calibration {
            version: "0.0.1".to_owned(),
            ..calibration.clone()
        };
        assert!(old.stale(&machine, "a").unwrap().contains("0.0.1"));
        let costs = |hop_ns| Calibration {
            costs: Some(CoreCosts {
                hop_ns,
                end_ns: 200.0,
                between: None,
            }),
            ..calibration.clone()
        };
        assert_eq!(costs(70.0).stale(&machine, "a"), None);
        assert!(costs(-70.0).stale(&machine, "a").unwrap().contains("costs"));
    }

    #[test]
    fn the_file_holds_all_of_it() {
        let path =
            std::env::temp_dir().join(format!("longhaul-calibration-{}", std::process::id()));
        let file = path.join("deep/calibration.json");
        let calibration = Calibration {
            costs: Some(CoreCosts {
                hop_ns: 70.5,
                end_ns: 200.0,
                between: Some(Between {
                    crossing_ns: 150.0,
                    window_ns: 2_500.0,
                }),
            }),
            reference: Some(1.25),
            ..made(&present_machine())
        };
        calibration.save(&file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(
            serde_json::from_str::<Calibration>(&text).unwrap(),
            calibration
        );
        // Files of before costs were measured say nothing of them.
        let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
        old.as_object_mut().unwrap().remove("costs");
        let old: Calibration = serde_json::from_value(old).unwrap();
        assert_eq!(old.costs, None);
    }

    #[test]
    fn the_file_lies_where_state_lies() {
        let place = |set: &[(&str, &str)]| {
            let find = |name: &str| set.iter().find(|(n, _)| *n == name);
            let path = place_from(|name| find(name).map(|(_, value)| PathBuf::from(value)));
            path.map(|path| path.to_str().unwrap().to_owned())
        };
        let home = ("HOME", "/home/u");
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/1");
        let is = |place: Option<String>, path: &str| assert_eq!(place.as_deref(), Some(path));
        is(
            place(&[home, ("XDG_STATE_HOME", "/state"), (VARIABLE, "f.json")]),
            "f.json",
        );
        is(
            place(&[home, ("XDG_STATE_HOME", "/state")]),
            "/state/longhaul/calibration.json",
        );
        is(
            place(&[home, runtime, ("XDG_STATE_HOME", "state")]),
            "/home/u/.local/state/longhaul/calibration.json",
        );
        is(place(&[runtime]), "/run/user/1/longhaul/calibration.json");
        assert_eq!(place(&[]), None);
        assert_eq!(place(&[home, (VARIABLE, "")]), None);
    }
}
