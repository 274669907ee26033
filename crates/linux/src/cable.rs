//! A plain cable: two network namespaces joined by a veth pair, with no emulator between them.
//!
//! Purpose: what an emulated path is compared with. Its ends have the TCP settings of a run's hosts,
//! and offloads on, as network interfaces have by default. No root is needed, and no other program.
//!
//! Two processes hold the namespaces: the first has a user namespace and one end, its child has the
//! other end. Both end when their caller does, however it ends: the first waits for end-of-file on a
//! channel whose other end only the caller holds, its child on a pipe whose other end only the first
//! holds. The namespaces and the cable go with them. Programs are the caller's own children, which
//! enter an end between `fork` and `exec` and are killed when the caller dies.
//!
//! Left out: all else that a host of a run has, such as a name, folders and names of other hosts.

use std::io::{self, PipeReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces, set_name};

use crate::channel::Channel;
use crate::netlink::{self, Netlink, VethPair};
use crate::sandbox::{SandboxError, TcpConfig, forbidden, map_ids};
use crate::sys::{self, Fork};
use crate::threads;

/// The name of the interface at either end.
const INTERFACE: &str = "eth0";
/// The number of the first end's interface; high enough to be free.
const INDEX: u32 = 1000;
/// The largest super-packets of IPv4 and IPv6 without jumbograms.
const SUPER_PACKET: u32 = 65_536;
const SEGMENTS: u32 = 65_535;

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The first.
    A,
    /// The second.
    B,
}

impl End {
    /// Its two addresses, both of its one interface.
    pub const fn addresses(self) -> [Ipv4Addr; 2] {
        let host = match self {
            Self::A => 1,
            Self::B => 2,
        };
        [Ipv4Addr::new(10, 0, 0, host), Ipv4Addr::new(10, 0, 1, host)]
    }

    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A cable that has been laid; dropping it ends both of its processes.
#[derive(Debug)]
pub struct PlainCable {
    /// Handles of the processes that hold the ends.
    ends: [OwnedFd; 2],
    pid: i32,
    channel: Option<Channel>,
}

impl PlainCable {
    /// Lays a cable of this MTU.
    ///
    /// Call it while the process has one thread; panics otherwise.
    ///
    /// # Errors
    /// The machine allows no namespaces, or a step failed.
    pub fn lay(mtu: u32, tcp: &TcpConfig) -> Result<Self, SandboxError> {
        threads::assert_alone("a cable's process");
        let (ours, theirs) = Channel::pair().map_err(SandboxError::Channel)?;
        let (uid, gid) = sys::user_and_group();
        // SAFETY: there is one thread, as just asserted.
        let forked = unsafe { sys::fork(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) };
        let (pid, first) = match forked.map_err(forbidden)? {
            Fork::Child => {
                drop(ours);
                hold(&theirs, mtu, tcp)
            }
            Fork::Parent { pid, pidfd } => (pid, pidfd),
        };
        drop(theirs);
        // From here on dropping what there is ends the child.
        let child = Holder {
            pid,
            channel: Some(ours),
        };
        map_ids(pid, uid, gid).map_err(forbidden)?;
        let channel = child.channel.as_ref().expect("just put there");
        channel.send(&(), &[]).map_err(SandboxError::Channel)?;
        let answer = channel.receive::<Result<(), String>>();
        let (laid, mut fds) = answer
            .map_err(SandboxError::Channel)?
            .ok_or(SandboxError::Died)?;
        laid.map_err(SandboxError::Setup)?;
        let second = fds.pop().ok_or(SandboxError::Died)?;
        let (pid, channel) = child.into_parts();
        Ok(Self {
            ends: [first, second],
            pid,
            channel,
        })
    }

    /// A command that runs at one end, on these CPUs (all where there are none). It dies with this
    /// process.
    pub fn command(&self, end: End, program: &str, cpus: &[usize]) -> io::Result<Command> {
        let holder = match end {
            End::A => &self.ends[0],
            End::B => &self.ends[1],
        };
        let holder = holder.try_clone()?;
        let cpus = cpus.to_vec();
        let caller = getpid();
        let mut command = Command::new(program);
        let enter = move || {
            let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::NETWORK;
            move_into_thread_name_spaces(holder.as_fd(), both)?;
            if !cpus.is_empty() {
                crate::cpu::pin(&cpus)?;
            }
            // After the namespaces: a change of rights would forget it.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The caller may have died before the kernel knew that.
            if getppid() != Some(caller) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        };
        // SAFETY: system calls and nothing else; a CPU set is on the stack.
        unsafe { command.pre_exec(enter) };
        Ok(command)
    }
}

impl Drop for PlainCable {
    fn drop(&mut self) {
        self.channel.take();
        sys::wait_for_child(self.pid);
    }
}

/// The first process, while the cable is being laid.
struct Holder {
    pid: i32,
    channel: Option<Channel>,
}

impl Holder {
    fn into_parts(mut self) -> (i32, Option<Channel>) {
        (std::mem::replace(&mut self.pid, 0), self.channel.take())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.channel.take();
        if self.pid > 0 {
            sys::wait_for_child(self.pid);
        }
    }
}

/// The first process: lays the cable, reports it, and waits for the end of its caller.
fn hold(channel: &Channel, mtu: u32, tcp: &TcpConfig) -> ! {
    set_name(c"longhaul-cable").ok();
    sys::reset_signals();
    sys::ignore_endings();
    sys::close_all_but(3, &mut [channel.as_fd().as_raw_fd()]);
    // Its user is not mapped before the caller says so.
    if !matches!(channel.receive::<()>(), Ok(Some(_))) {
        sys::exit_now(1);
    }
    let (second, sent) = match lay(mtu, tcp) {
        Ok(Second { pipe, pid, handle }) => (
            Some((pipe, pid)),
            channel.send(&Ok::<(), String>(()), &[handle.as_fd()]),
        ),
        Err(error) => (None, channel.send(&Err::<(), _>(error.to_string()), &[])),
    };
    if sent.is_ok() {
        let _ = channel.receive::<()>();
    }
    if let Some((pipe, pid)) = second {
        // The second process ends with the pipe. Reaped here, it does not wait for an init to do that.
        drop(pipe);
        sys::wait_for_child(pid);
    }
    sys::exit_now(0)
}

/// The second process, as the first knows it.
struct Second {
    /// Ends it when closed.
    pipe: io::PipeWriter,
    pid: i32,
    handle: OwnedFd,
}

/// Makes the second process and the pair between the two.
fn lay(mtu: u32, tcp: &TcpConfig) -> io::Result<Second> {
    let (go, mut held) = io::pipe()?;
    let (mut answer, report) = io::pipe()?;
    // SAFETY: a forked child has one thread.
    let (pid, handle) = match unsafe { sys::fork(libc::CLONE_NEWNET) }? {
        Fork::Child => {
            drop((held, answer));
            hold_second(go, report, tcp)
        }
        Fork::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop((go, report));
    let mut netlink = Netlink::open()?;
    netlink.request(netlink::new_veth(&VethPair {
        index: INDEX,
        name: INTERFACE,
        group: 1,
        mtu,
        gro_max_size: SUPER_PACKET,
        peer_name: INTERFACE,
        peer_pid: pid,
        peer_mac: [2, 0, 0, 0, 0, 2],
        peer_gso_max_segs: SEGMENTS,
    }))?;
    configure(End::A, tcp, &mut netlink)?;
    held.write_all(b"g")?;
    let mut text = String::new();
    answer.read_to_string(&mut text)?;
    match text.as_str() {
        "up" => Ok(Second {
            pipe: held,
            pid,
            handle,
        }),
        problem => Err(io::Error::other(problem.to_owned())),
    }
}

/// The second process: configures its end when it is there, and waits for the end of the first.
fn hold_second(mut go: PipeReader, mut report: io::PipeWriter, tcp: &TcpConfig) -> ! {
    sys::close_all_but(3, &mut [go.as_raw_fd(), report.as_raw_fd()]);
    let mut byte = [0];
    let configured = go
        .read_exact(&mut byte)
        .and_then(|()| configure(End::B, tcp, &mut Netlink::open()?));
    let text = configured.map_or_else(|error| error.to_string(), |()| "up".to_owned());
    let _ = report.write_all(text.as_bytes());
    drop(report);
    let _ = go.read(&mut byte);
    sys::exit_now(0)
}

/// Makes this namespace into one end.
fn configure(end: End, tcp: &TcpConfig, netlink: &mut Netlink) -> io::Result<()> {
    const LOOPBACK: u32 = 1;
    let settings = [
        ("tcp_rmem", format!("4096 131072 {}", tcp.rmem_max)),
        ("tcp_wmem", format!("4096 16384 {}", tcp.wmem_max)),
        ("tcp_ecn", u8::from(tcp.ecn).to_string()),
        ("tcp_no_metrics_save", "1".to_owned()),
    ];
    for (name, value) in settings {
        sys::write_file(&format!("/proc/sys/net/ipv4/{name}"), &value)?;
    }
    netlink.request(netlink::link_up(LOOPBACK))?;
    let index = sys::interface_index(INTERFACE)?;
    netlink.request(netlink::link_up(index))?;
    let [own, second] = end.addresses().map(IpAddr::V4);
    let [gateway, _] = end.other().addresses().map(IpAddr::V4);
    for address in [own, second] {
        netlink.request(netlink::new_address(index, address))?;
    }
    netlink.request(netlink::default_route(
        index,
        gateway,
        own,
        Some(&tcp.congestion),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_two_addresses_each_and_share_none() {
        let all = [End::A, End::B].map(End::addresses).concat();
        for (number, address) in all.iter().enumerate() {
            assert!(!all[..number].contains(address));
        }
        assert_eq!(End::A.other().other(), End::A);
    }
}
