//! Control groups for an ordinary user: a systemd scope, and groups that are the user's already.
//!
//! Theory: version 2 of the control groups lets an owner delegate a subtree (cgroups(7)). A user's
//! systemd does so for a *scope*, a unit around processes that somebody else has started:
//! `StartTransientUnit` with `Delegate=yes` on the session bus moves them into a group whose folder
//! belongs to the user (systemd.scope(5), org.freedesktop.systemd1(5)). systemd removes the scope once
//! its last process has ended. [`delegated`] finds out whether a process is in such a group without
//! asking anybody, as in a container or in `systemd-run --user --scope -p Delegate=yes`.
//!
//! The D-Bus client runs on the calling thread and leaves no other behind, since the caller forks
//! afterwards and must have one thread. Every wait is bounded by the caller's patience.
//!
//! Left out: the system's manager, which asks for a password.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;
use zbus::connection::Builder;
use zbus::{Connection, DBusError, OwnedObjectPath, OwnedVariant, Variant};

const SYSTEMD: &str = "org.freedesktop.systemd1";
/// The interval between two requests for the scope's group: about what the manager takes to make it.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// A subtree of control groups, version 2, that the user may arrange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its folder.
    pub path: PathBuf,
    /// The controllers that it may hand on to groups of its own: `cpu`, `memory`, `io` and so on.
    pub controllers: Vec<String>,
}

/// Why there is no scope.
#[derive(Debug, Error)]
pub enum ScopeError {
    /// Nobody answers there.
    #[error(
        "there is no session bus ({0}); log in with a session of systemd (`loginctl enable-linger` \
         keeps its manager), or set DBUS_SESSION_BUS_ADDRESS"
    )]
    NoBus(String),
    /// The bus has no systemd.
    #[error("no user's systemd is on the session bus ({0}); start it as `systemctl --user` does")]
    NoManager(String),
    /// There is a unit of this name.
    #[error("systemd has a unit {0} already; stop it with `systemctl --user stop {0}`")]
    Exists(String),
    /// The manager does not want to.
    #[error("systemd refuses the scope {unit}: {reason}")]
    Refused {
        /// The scope.
        unit: String,
        /// In the manager's words.
        reason: String,
    },
    /// It has taken too long.
    #[error("systemd has not made the scope {unit} within {patience:?}")]
    TimedOut {
        /// The scope.
        unit: String,
        /// How long that was.
        patience: Duration,
    },
    /// There is a scope without a group that is ours.
    #[error("systemd has made the scope {unit}, but {reason}")]
    NotDelegated {
        /// The scope.
        unit: String,
        /// What is missing.
        reason: String,
    },
    /// The run stays in a group that is the user's, where its hosts' groups cannot be made beside it.
    #[error("cannot move to a group of its own in {}: {error}", group.display())]
    NotMoved {
        /// The user's group.
        group: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

/// Moves processes into a scope `unit` (its name ends with `.scope`) of the user's systemd and returns
/// the scope's group below `mount`, where version 2 is mounted. `bus` is the address of the bus; `None`
/// means the session's own.
///
/// # Errors
/// See [`ScopeError`].
pub fn start(
    bus: Option<&str>,
    unit: &str,
    pids: &[u32],
    mount: &Path,
    patience: Duration,
) -> Result<Group, ScopeError> {
    let timed_out = || ScopeError::TimedOut {
        unit: unit.to_owned(),
        patience,
    };
    let until = Instant::now() + patience;
    let work = async {
        let runtime = zruntime::SharedRuntime::current().map_err(|e| bus_error(&e.into()))?;
        let done = runtime.timeout(patience, ask(bus, unit, pids, until));
        done.await.map_err(|_| timed_out())?
    };
    let group = zbus::block_on(work)?.ok_or_else(timed_out)?;
    let path = mount.join(group.trim_start_matches('/'));
    let reason = match ours(&path, crate::sys::user_and_group().0) {
        Ok(Some(group)) => return Ok(group),
        Ok(None) => format!("its group {} is not the user's", path.display()),
        Err(error) => format!("its group {}: {error}", path.display()),
    };
    let unit = unit.to_owned();
    Err(ScopeError::NotDelegated { unit, reason })
}

/// Asks for a scope and waits until it has a group; none where that takes longer.
async fn ask(
    bus: Option<&str>,
    unit: &str,
    pids: &[u32],
    until: Instant,
) -> Result<Option<String>, ScopeError> {
    let builder = bus.map_or_else(Builder::session, Builder::address);
    let connection = builder.build().await.map_err(|e| bus_error(&e))?;
    let result = start_unit(&connection, unit, pids).await;
    let result = result.map_err(|error| refusal(unit, &error));
    let group = match result {
        Ok(()) => loop {
            let group = control_group(&connection, unit).await;
            let group = group.map_err(|error| refusal(unit, &error))?;
            if !group.is_empty() {
                break Some(group);
            }
            if Instant::now() >= until {
                break None;
            }
            std::thread::sleep(ASK_AGAIN);
        },
        Err(error) => return Err(error),
    };
    let _ = connection.close().await;
    Ok(group)
}

async fn start_unit(connection: &Connection, unit: &str, pids: &[u32]) -> zbus::Result<()> {
    const PATH: &str = "/org/freedesktop/systemd1";
    const INTERFACE: &str = "org.freedesktop.systemd1.Manager";
    let properties: Vec<(&str, Variant<'_>)> = vec![
        ("Description", Variant::from("Longhaul's hosts")),
        ("Delegate", Variant::from(true)),
        ("CollectMode", Variant::from("inactive-or-failed")),
        ("PIDs", Variant::from(pids.to_vec())),
    ];
    let auxiliary: Vec<(&str, Vec<(&str, Variant<'_>)>)> = Vec::new();
    let body = (unit, "fail", properties, auxiliary);
    let call = connection.call_method(
        Some(SYSTEMD),
        PATH,
        Some(INTERFACE),
        "StartTransientUnit",
        &body,
    );
    call.await.map(drop)
}

/// The scope's group, as `/proc/PID/cgroup` would name it; empty before it has one.
async fn control_group(connection: &Connection, unit: &str) -> zbus::Result<String> {
    const PATH: &str = "/org/freedesktop/systemd1";
    const INTERFACE: &str = "org.freedesktop.systemd1.Manager";
    const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
    let call = connection.call_method(Some(SYSTEMD), PATH, Some(INTERFACE), "GetUnit", &unit);
    let path: OwnedObjectPath = call.await?.body().deserialize()?;
    let body = ("org.freedesktop.systemd1.Scope", "ControlGroup");
    let call = connection.call_method(Some(SYSTEMD), path, Some(PROPERTIES), "Get", &body);
    let value: OwnedVariant = call.await?.body().deserialize()?;
    String::try_from(value)
}

fn bus_error(error: &zbus::Error) -> ScopeError {
    ScopeError::NoBus(error.to_string())
}

fn refusal(unit: &str, error: &zbus::Error) -> ScopeError {
    const GENERAL: &str = "org.freedesktop.DBus.Error.";
    let (unit, reason) = (unit.to_owned(), error.to_string());
    let name = match error {
        zbus::Error::MethodError(name, ..) => name.to_string(),
        zbus::Error::FDO(error) => error.name().to_string(),
        _ => String::new(),
    };
    match name.strip_prefix(GENERAL) {
        // A bus that starts services on demand has tried to.
        Some(kind) if kind == "ServiceUnknown" || kind.starts_with("Spawn.") => {
            ScopeError::NoManager(reason)
        }
        _ if name.ends_with(".UnitExists") => ScopeError::Exists(unit),
        _ => ScopeError::Refused { unit, reason },
    }
}

/// The group of a process, if it belongs to the user `uid` already: `cgroup` is the text of its
/// `/proc/PID/cgroup`, `mount` where version 2 is mounted.
pub fn delegated(cgroup: &str, mount: &Path, uid: u32) -> Option<Group> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A process that was moved out of what its namespace shows, or whose group is removed.
    if path.starts_with("/..") || path.ends_with(" (deleted)") {
        return None;
    }
    ours(&mount.join(path.trim_start_matches('/')), uid).ok()?
}

/// Where version 2 is mounted, by the text of a `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
pub fn mount_of_version_2(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let is_it = system.split_whitespace().next() == Some("cgroup2");
        is_it.then(|| mount.split_whitespace().nth(4).map(PathBuf::from))?
    })
}

/// A group, if it and the files by which it is arranged belong to the user.
fn ours(path: &Path, uid: u32) -> io::Result<Option<Group>> {
    for name in ["", "cgroup.procs", "cgroup.subtree_control"] {
        match fs::metadata(path.join(name)) {
            Ok(metadata) if metadata.uid() == uid => {}
            Ok(_) => return Ok(None),
            // The root group has no such files, and is delegated to no user.
            Err(error) if error.kind() == ErrorKind::NotFound && !name.is_empty() => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let controllers = fs::read_to_string(path.join("cgroup.controllers"))?;
    Ok(Some(Group {
        path: path.to_owned(),
        controllers: controllers.split_whitespace().map(str::to_owned).collect(),
    }))
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
