//! Starting a program inside a host.
//!
//! The sandbox forks into the host's PID namespace; the child enters the host's other namespaces,
//! becomes the caller's own user again and executes the program. An error before the program runs
//! comes back as a sentence through a pipe that `exec` closes: an empty pipe is success.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{Pid, PidfdFlags, Resource, pidfd_open, setrlimit, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags, move_into_link_name_space,
    move_into_thread_name_spaces,
};

use super::server::Server;
use super::{HostConfig, SpawnSpec, groups};
use crate::cpu;
use crate::resources::watchdog;
use crate::sys::{self, Fork};

/// Where programs are looked for when the environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts `spec` and returns its process id.
pub(super) fn launch(
    server: &Server,
    spec: &SpawnSpec,
    streams: &[OwnedFd],
) -> Result<i32, String> {
    let host = server.host(spec.host)?;
    let name = spec.argv.first().ok_or("a program needs a name")?;
    if streams.len() != 3 {
        return Err("a program needs three standard streams".to_owned());
    }
    let failed = |e: io::Error| format!("cannot start `{name}` on {}: {e}", host.config.name);
    let (mut report_read, mut report_write) = io::pipe().map_err(failed)?;
    let init = open_pidfd(host.pid).map_err(failed)?;
    let child = fork_into(&init).map_err(failed)?;
    let pid = match child {
        Fork::Child => {
            let error = become_program(server, spec, &init, streams);
            let _ = report_write.write_all(error.as_bytes());
            sys::exit_now(127)
        }
        Fork::Parent { pid, .. } => pid,
    };
    drop(report_write);
    let mut problem = String::new();
    report_read.read_to_string(&mut problem).map_err(failed)?;
    if problem.is_empty() {
        Ok(pid)
    } else {
        Err(problem)
    }
}

/// Forks a child that is a member of the PID namespace of `init`.
///
/// A process never changes its own PID namespace: `setns` only chooses the one of its later
/// children. So the sandbox sets it, forks, and sets it back; the child keeps it for children of
/// its own.
fn fork_into(init: &OwnedFd) -> io::Result<Fork> {
    let own = File::open("/proc/self/ns/pid")?;
    move_into_thread_name_spaces(init.as_fd(), ThreadNameSpaceType::PROCESS_ID)?;
    // SAFETY: the sandbox has one thread.
    let fork = unsafe { sys::fork(0) };
    if !matches!(fork, Ok(Fork::Child)) {
        move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    }
    fork
}

/// In the child: enters the host and executes the program; returns only what went wrong.
fn become_program(
    server: &Server,
    spec: &SpawnSpec,
    init: &OwnedFd,
    streams: &[OwnedFd],
) -> String {
    let name = &spec.argv[0];
    let enter = || -> Result<(), String> {
        let step = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
        let config = &server.host(spec.host)?.config;
        accept_limits(config)?;
        let mut host = ThreadNameSpaceType::NETWORK
            | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
            | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
            | ThreadNameSpaceType::MOUNT;
        host.set(
            ThreadNameSpaceType::CONTROL_GROUP,
            !config.groups.is_empty(),
        );
        let entered = move_into_thread_name_spaces(init.as_fd(), host);
        entered.map_err(|e| step("entering the host")(e.into()))?;
        setsid().ok();
        connect(streams).map_err(step("connecting its streams"))?;
        // Lowering a soft limit cannot fail.
        setrlimit(Resource::Nofile, server.open_files).ok();
        if !spec.as_root && server.uid != 0 {
            become_caller(server.uid, server.gid).map_err(step("becoming the caller's user"))?;
        }
        std::env::set_current_dir(&spec.cwd)
            .map_err(|e| format!("its working folder {}: {e}", spec.cwd.display()))
    };
    if let Err(problem) = enter() {
        return format!("cannot start `{name}`: {problem}");
    }
    let path = match find(name, &spec.env) {
        Ok(path) => path,
        Err(problem) => return problem,
    };
    let env: Vec<String> = spec
        .env
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let list = |strings: &[String]| -> io::Result<Vec<CString>> {
        strings.iter().map(|s| sys::cstring(s.as_bytes())).collect()
    };
    let strings = list(&spec.argv).and_then(|argv| {
        Ok((
            argv,
            list(&env)?,
            sys::cstring(path.as_os_str().as_encoded_bytes())?,
        ))
    });
    let (argv, env, program) = match strings {
        Ok(strings) => strings,
        Err(error) => return format!("cannot start `{name}`: {error}"),
    };
    sys::reset_signals();
    sys::close_on_exec_from_3();
    let error = sys::exec(&program, &argv, &env);
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => format!(
            "cannot start `{name}`: {} is neither a program nor a script with a #! line",
            path.display()
        ),
        _ => format!("cannot start `{name}`: {error}"),
    }
}

/// Makes copies of `streams` the standard streams, which survive `exec`.
fn connect(streams: &[OwnedFd]) -> io::Result<()> {
    let [input, output, errors] = streams else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    dup2_stdin(input)?;
    dup2_stdout(output)?;
    dup2_stderr(errors)?;
    Ok(())
}

/// Imposes the host's limits on the calling process. Must run before it enters the host's
/// namespaces, in which the paths of its control groups are not visible.
fn accept_limits(config: &HostConfig) -> Result<(), String> {
    let step = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    groups::join(&config.groups).map_err(step("joining the host's control groups"))?;
    if let Some(bytes) = config.limits.memory {
        watchdog::limit_data(bytes).map_err(step("limiting its memory"))?;
    }
    if !config.cpus.is_empty() {
        cpu::pin(&config.cpus).map_err(step("choosing CPUs"))?;
    }
    Ok(())
}

/// Maps the caller's own user and group onto the sandbox's user 0 and drops its rights.
fn become_caller(uid: u32, gid: u32) -> io::Result<()> {
    sys::unshare(UnshareFlags::NEWUSER)?;
    sys::write_file("/proc/self/setgroups", "deny")?;
    sys::write_file("/proc/self/uid_map", &format!("{uid} 0 1\n"))?;
    sys::write_file("/proc/self/gid_map", &format!("{gid} 0 1\n"))
}

/// Whether this process may execute `path`.
fn may_execute(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

/// The file of a program, looked up in the `PATH` of `env` as a shell does.
fn find(name: &str, env: &[(String, String)]) -> Result<PathBuf, String> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Ok(_) if may_execute(&path) => Ok(path),
            Ok(_) => Err(format!("cannot start `{name}`: the file is not executable")),
            Err(error) => Err(format!(
                "cannot start `{name}`: {error} (each host has a /tmp, /var/tmp, /run and \
                 /dev/shm of its own)"
            )),
        };
    }
    let path = env
        .iter()
        .find(|(key, _)| key == "PATH")
        .map_or(DEFAULT_PATH, |(_, v)| v.as_str());
    let candidates = path.split(':').map(|folder| Path::new(folder).join(name));
    candidates.into_iter().find(|file| may_execute(file)).ok_or_else(|| {
        format!("cannot start `{name}`: no such program in PATH ({path}); install it or give its path")
    })
}

/// Runs `work` inside the network namespace of a process and comes back.
pub(super) fn inside_network_of<T>(
    pid: i32,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let own = File::open("/proc/self/ns/net")?;
    let other = open_pidfd(pid)?;
    move_into_thread_name_spaces(other.as_fd(), ThreadNameSpaceType::NETWORK)?;
    let result = work();
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Network))?;
    result
}

fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}
