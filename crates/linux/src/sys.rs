//! Small safe wrappers around the system calls that the standard library lacks.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::{
    self, FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags,
};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::{
    Pid, Resource, Rlimit, WaitOptions, getgid, getrlimit, getuid, setrlimit, wait, waitpid,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::clock::MachineTime;

/// Turns the kernel's −1 into its error.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A path or name for the kernel; an interior NUL is an error, not a cut.
pub(crate) fn cstring(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in a name"))
}

/// Which side of a [`fork`] we are on.
pub(crate) enum Fork {
    /// In the new process.
    Child,
    /// In the old one: the child's id here and a handle that never names another process.
    Parent { pid: i32, pidfd: OwnedFd },
}

/// `clone3` like `fork`, into new namespaces (`CLONE_NEW*` in `flags`).
///
/// One call makes the child, its namespaces and its pidfd, so that the parent's own namespaces stay as
/// they are and nothing is left half done.
///
/// # Safety
/// The calling process must have one thread only: the child owns a copy of every lock.
pub(crate) unsafe fn fork(flags: i32) -> io::Result<Fork> {
    let mut pidfd: RawFd = -1;
    // SAFETY: an all-zero clone_args is valid: fork without a stack of its own.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (flags as u32 as u64) | libc::CLONE_PIDFD as u64;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: the arguments outlive the call; the caller vouches for the single thread.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<libc::clone_args>(),
        )
    };
    match i32::try_from(pid).map_err(io::Error::other)? {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent {
            pid,
            // SAFETY: the kernel has just opened this descriptor for us.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        }),
    }
}

/// Ends the process at once, without running anything of its parent's.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: always allowed.
    unsafe { libc::_exit(code) }
}

/// Leaves namespaces for new ones.
pub(crate) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: only with a table of descriptors of its own could a thread use those of another.
    unsafe { unshare_unsafe(namespaces.difference(UnshareFlags::FILES)) }?;
    Ok(())
}

/// Waits for a child of ours to end.
pub(crate) fn wait_for_child(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // An error says that somebody has done so before.
        retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok();
    }
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) pid: i32,
    /// The wait status, to be read with `libc::WIFEXITED` and friends.
    pub(crate) status: i32,
    /// User and system time together.
    pub(crate) cpu: Duration,
}

/// The next child that has ended, if there is one.
pub(crate) fn reap() -> Option<Ended> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid, and both pointers outlive the call.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (
            libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage),
            usage,
        )
    };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs())
            + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    (pid > 0).then(|| Ended {
        pid,
        status,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
    })
}

/// A set of `signals`.
fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: an all-zero set is valid, and it outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Changes which signals this thread blocks, by one of `SIG_BLOCK` and `SIG_SETMASK`.
fn mask_signals(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is valid; the old one is not asked for.
    check(unsafe { libc::sigprocmask(how, set, std::ptr::null_mut()) }).map(drop)
}

/// What becomes of a signal without a handler.
#[derive(Clone, Copy)]
enum Disposition {
    Default,
    Ignore,
}

fn dispose(signals: &[i32], disposition: Disposition) {
    let action = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
    };
    for &signal in signals {
        // SAFETY: neither action has a handler.
        unsafe { libc::signal(signal, action) };
    }
}

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero action is a valid one, and only read into.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Blocks `signals` in this thread and returns a descriptor that delivers them instead.
pub(crate) fn signalfd(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    mask_signals(libc::SIG_BLOCK, &set)?;
    // SAFETY: the set is valid; the result is checked and owned at once.
    unsafe {
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        Ok(OwnedFd::from_raw_fd(check(fd)?))
    }
}

/// Unblocks every signal and gives each its default action, as a new program expects.
pub(crate) fn reset_signals() {
    mask_signals(libc::SIG_SETMASK, &signal_set(&[])).ok();
    let changed = [
        libc::SIGPIPE,
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGCHLD,
        libc::SIGUSR2,
    ];
    dispose(&changed, Disposition::Default);
}

/// Reads and forgets what a signalfd holds; returns the first signal number.
pub(crate) fn drain(fd: BorrowedFd<'_>) -> Option<i32> {
    let mut first = None;
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(fd, &mut buffer).is_ok_and(|read| read > 0) {
        let signal = u32::from_ne_bytes(buffer[..4].try_into().expect("four bytes"));
        first = first.or(Some(signal as i32));
    }
    first
}

/// Waits until one of `fds` can be read (or is closed), at most `timeout`; says which.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polls: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    wait_for(&mut polls, timeout)
}

/// Waits until something can be written to `fd`, or nobody can read it any more.
pub fn wait_writable(fd: BorrowedFd<'_>) -> io::Result<()> {
    wait_for(&mut [PollFd::new(&fd, PollFlags::OUT)], None).map(drop)
}

/// Waits like [`wait_readable`], or until `outlet` has lost its last reader; the last result says whether it has.
pub fn wait_readable_or_unread(
    fds: &[BorrowedFd<'_>],
    outlet: BorrowedFd<'_>,
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let fds = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
    // `poll` reports errors and hang-ups without being asked for them.
    let outlet = PollFd::new(&outlet, PollFlags::empty());
    wait_for(&mut fds.chain([outlet]).collect::<Vec<_>>(), timeout)
}

fn wait_for(polls: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    match poll(polls, timeout.map(timespec).as_ref()) {
        // The results of an interrupted call mean nothing.
        Err(Errno::INTR) => return Ok(vec![false; polls.len()]),
        result => result?,
    };
    Ok(polls
        .iter()
        .map(|poll| !poll.revents().is_empty())
        .collect())
}

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs().min(1 << 40) as i64,
        tv_nsec: span.subsec_nanos().into(),
    }
}

/// The process's real user and group.
pub fn user_and_group() -> (u32, u32) {
    (getuid().as_raw(), getgid().as_raw())
}

/// Writes `text` to a file of `/proc` with one call, as the kernel wants it.
pub(crate) fn write_file(path: &str, text: &str) -> io::Result<()> {
    use std::io::Write;
    let open = std::fs::OpenOptions::new().write(true).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Replaces this process by a program. Returns only on failure.
pub(crate) fn exec(program: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| {
        let mut list: Vec<_> = strings.iter().map(|s| s.as_ptr()).collect();
        list.push(std::ptr::null());
        list
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists are NULL-terminated and point to NUL-terminated strings.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Marks every descriptor from 3 on to be closed by `exec`.
pub(crate) fn close_on_exec_from_3() {
    // SAFETY: no pointers. Every kernel since 5.11 has the call; descriptors that we open are
    // marked one by one anyway.
    unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
}

/// The number of an interface of this network namespace.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let any = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok(net::netdevice::name_to_index(any, name)?)
}

/// A detached copy of the mounts at a folder, to be attached elsewhere.
pub(crate) fn clone_tree(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(mount::open_tree(CWD, folder, flags)?)
}

/// Attaches a detached tree at a folder.
pub(crate) fn attach_tree(tree: &OwnedFd, folder: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(mount::move_mount(tree, c"", CWD, folder, flags)?)
}

/// A sysfs that is attached nowhere and shows the caller's network namespace. There is one file
/// system for each namespace, so that only a mount of it is made read-only, not the whole.
pub(crate) fn mount_sysfs(read_only: bool) -> io::Result<OwnedFd> {
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, read_only);
    let context = mount::fsopen(c"sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    mount::fsconfig_create(&context)?;
    Ok(mount::fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// Makes all mounts of this namespace its own: others see no changes.
pub(crate) fn make_mounts_private() -> io::Result<()> {
    let all = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    Ok(mount::mount_change("/", all)?)
}

/// Makes a write to a pipe without readers fail with an error instead of raising a signal.
pub(crate) fn ignore_broken_pipes() {
    dispose(&[libc::SIGPIPE], Disposition::Ignore);
}

/// Closes every descriptor from `first` on but those in `kept`. The caller uses none of them again.
pub(crate) fn close_all_but(first: RawFd, kept: &mut [RawFd]) {
    kept.sort_unstable();
    let mut first = first as libc::c_uint;
    let kept = kept.iter().map(|&fd| fd as libc::c_uint);
    // The last range reaches beyond any descriptor.
    for next in kept.chain([libc::c_uint::MAX]) {
        if next > first {
            // SAFETY: no pointers; the caller owns nothing there that it will use again.
            unsafe { libc::close_range(first, next - 1, 0) };
        }
        first = first.max(next.saturating_add(1));
    }
}

/// Ignores the signals that usually end a process; those that cannot be ignored still do.
pub(crate) fn ignore_endings() {
    let endings = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE];
    dispose(&endings, Disposition::Ignore);
}

/// Reaps children for ever, as an init must; does `chore` once in each `period`, if there is one.
pub(crate) fn reap_forever(period: Option<Duration>, mut chore: impl FnMut()) -> ! {
    let set = signal_set(&[libc::SIGCHLD]);
    mask_signals(libc::SIG_BLOCK, &set).ok();
    let mut done = MachineTime::now();
    loop {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        // The deadline is absolute, so that children ending in quick succession do not put the chore off.
        let timeout = period.map(|period| {
            if MachineTime::now().since(done) >= period {
                chore();
                done = MachineTime::now();
            }
            let left = (done + period).since(MachineTime::now());
            libc::timespec {
                tv_sec: left.as_secs() as libc::time_t,
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the set and the time outlive the calls; a null pointer asks for nothing.
        unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), timeout) };
    }
}

/// A pipe for a program's output: our end does not block, the program's does.
pub fn log_pipe() -> io::Result<(File, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    fcntl_setfl(&reader, OFlags::NONBLOCK)?;
    Ok((OwnedFd::from(reader).into(), writer.into()))
}

/// Raises our limit of open files to what is allowed, and returns the old one.
pub fn raise_open_files() -> io::Result<Rlimit> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit })?;
    Ok(limit)
}

/// A file in memory with this content, read from its beginning.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    let mut file = File::from(memfd_create(c"longhaul", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The content of a file in memory, at most `limit` bytes.
pub(crate) fn read_memory_file(fd: OwnedFd, limit: usize) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    File::from(fd).take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
