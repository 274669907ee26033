//! The means by which this machine can limit hosts' resources.

use std::fmt;
use std::path::Path;

use super::places::{Controller, Missing, Places};
use crate::groups::Version;

/// The means of limiting a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Control groups of version 1.
    GroupsV1,
    /// Control groups of version 2.
    GroupsV2,
    /// Processes that are stopped and continued: of CPU time.
    DutyCycle,
    /// A bound on each program's data, and a watchdog over a host's sum: of memory.
    Watchdog,
}

impl Means {
    /// As `summary.json` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GroupsV1 => "cgroup-v1",
            Self::GroupsV2 => "cgroup-v2",
            Self::DutyCycle => "duty-cycle",
            Self::Watchdog => "watchdog",
        }
    }

    /// Whether control groups do it, and not processes of the run.
    pub const fn is_groups(self) -> bool {
        matches!(self, Self::GroupsV1 | Self::GroupsV2)
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GroupsV1 => "control groups (version 1)",
            Self::GroupsV2 => "control groups (version 2)",
            Self::DutyCycle => "stopping and continuing programs (no control groups)",
            Self::Watchdog => "polling the memory of programs (no control groups)",
        })
    }
}

/// Why a resource of hosts cannot be limited, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// What is missing.
    pub reason: String,
    /// What helps.
    pub remedy: String,
}

/// What this machine has for each resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// CPU time.
    pub cpu: Result<Means, Unsupported>,
    /// Memory.
    pub memory: Result<Means, Unsupported>,
    /// Disks.
    pub disk: Result<Means, Unsupported>,
}

impl Support {
    /// That of this machine and user; changes nothing.
    pub fn find() -> Self {
        Self::of(&Places::find())
    }

    fn of(places: &Places) -> Self {
        let of = |controller| match (places.of_controller(controller), controller) {
            (Ok(place), _) => Ok(match place.version {
                Version::First => Means::GroupsV1,
                Version::Second => Means::GroupsV2,
            }),
            (Err(_), Controller::Cpu) => Ok(Means::DutyCycle),
            (Err(_), Controller::Memory) => Ok(Means::Watchdog),
            (Err(missing), Controller::Disk) => Err(unsupported(controller, missing)),
        };
        Self {
            cpu: of(Controller::Cpu),
            memory: of(Controller::Memory),
            disk: of(Controller::Disk),
        }
    }
}

fn unsupported(controller: Controller, missing: &Missing) -> Unsupported {
    let name = controller.name(Version::Second);
    let shown = |group: &Path| group.display().to_string();
    let (reason, remedy) = match missing {
        Missing::Controller => (
            format!("no control groups with the controller `{name}` are mounted"),
            "mount them (`mount -t cgroup2 none /sys/fs/cgroup`), or give the container those of \
             the machine (`--privileged`, or `-v /sys/fs/cgroup:/sys/fs/cgroup:rw`)",
        ),
        Missing::Rights(group) => (
            format!("this user may not make control groups in {}", shown(group)),
            "run as root",
        ),
        Missing::Busy(group) => (
            format!(
                "no control groups can be made in {}, since there are processes in it",
                shown(group)
            ),
            "start Longhaul in a group of its own that is delegated to it, as `systemd-run \
             --scope -p Delegate=yes` does",
        ),
    };
    Unsupported {
        reason,
        remedy: remedy.to_owned(),
    }
}
