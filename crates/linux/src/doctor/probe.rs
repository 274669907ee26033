//! The probe: a throw-away sandbox that goes through the steps of a run's set-up, one by one.
//!
//! A child makes a user namespace, its child makes the others, as a run's sandbox and hosts do;
//! both write the outcome of each step into a pipe. Everything ends with the two processes: the
//! kernel takes the namespaces apart.

use std::fmt;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::net::{IpAddr, Ipv4Addr};

use rustix::mount::{MountFlags, mount};
use rustix::net::{self, AddressFamily, SocketType};
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, set_name};
use serde::{Deserialize, Serialize};

use crate::ethtool;
use crate::netlink::shaper::{self, Shaper, Traffic};
use crate::netlink::{self, Netlink, VethPair};
use crate::packet_io::{self, RingConfig};
use crate::sys::{self, Fork};
use crate::threads;

/// A step of a run's set-up, in the order in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// A user namespace.
    UserNamespace,
    /// The caller as user 0 of it.
    IdMap,
    /// Network, mount, PID, UTS and IPC namespaces in it.
    Namespaces,
    /// Mounts that the machine does not see.
    PrivateMounts,
    /// A `/proc` of its own.
    MountProc,
    /// A `/tmp` of its own.
    MountTmpfs,
    /// A name of its own.
    Hostname,
    /// TCP settings of its own.
    NetSysctls,
    /// A cable.
    Veth,
    /// Frames in order, complete checksums.
    Offloads,
    /// IPv6.
    Ipv6,
    /// A route whose connections use cubic.
    Cubic,
    /// A token bucket filter.
    Shaper,
    /// A packet socket.
    PacketSocket,
    /// A packet socket with its receive ring, mapped.
    PacketRing,
    /// A user namespace within, for programs under the caller's own user.
    InnerUser,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespace => "making a user namespace",
            Self::IdMap => "becoming user 0 of a user namespace",
            Self::Namespaces => "making network, mount, PID, UTS and IPC namespaces",
            Self::PrivateMounts => "making mounts private",
            Self::MountProc => "mounting /proc",
            Self::MountTmpfs => "mounting a tmpfs",
            Self::Hostname => "setting a host name",
            Self::NetSysctls => "setting TCP parameters of a host",
            Self::Veth => "making a veth pair",
            Self::Offloads => "setting the offloads of a veth pair",
            Self::Ipv6 => "setting IPv6 parameters of a host",
            Self::Cubic => "making a route with congestion control cubic",
            Self::Shaper => "making a token bucket filter (tbf)",
            Self::PacketSocket => "opening a packet socket (AF_PACKET)",
            Self::PacketRing => "setting up a receive ring (TPACKET_V2)",
            Self::InnerUser => "making a user namespace within the sandbox",
        })
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) step: Step,
    /// The kernel's error; absent where it worked. 0 where the error has no number.
    pub(super) errno: Option<i32>,
}

/// The outcomes of all steps; those that could not be tried are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcomes(pub(super) Vec<Outcome>);

impl Outcomes {
    /// The error of a step that was tried and failed.
    pub(super) fn error(&self, step: Step) -> Option<i32> {
        self.0.iter().find(|outcome| outcome.step == step)?.errno
    }

    /// Whether a step was tried and worked.
    pub(super) fn worked(&self, step: Step) -> bool {
        self.0
            .iter()
            .any(|outcome| outcome.step == step && outcome.errno.is_none())
    }
}

/// Goes through all steps; `None` where there are threads that forbid a fork.
pub(super) fn run() -> Option<Outcomes> {
    if !threads::is_alone() {
        return None;
    }
    Some(Outcomes(try_all().unwrap_or_default()))
}

fn try_all() -> io::Result<Vec<Outcome>> {
    let (uid, gid) = sys::user_and_group();
    let (read, write) = io::pipe()?;
    let mut report = Report(write);
    // SAFETY: there is one thread, as just counted.
    let child = unsafe { sys::fork(libc::CLONE_NEWUSER) };
    match &child {
        Err(error) => {
            let errno = Some(error.raw_os_error().unwrap_or(0));
            return Ok(vec![Outcome {
                step: Step::UserNamespace,
                errno,
            }]);
        }
        Ok(Fork::Child) => {
            drop(read);
            in_user_namespace(&mut report, uid, gid);
            sys::exit_now(0)
        }
        Ok(Fork::Parent { .. }) => drop(report),
    }
    let lines = BufReader::new(read).lines().map_while(Result::ok);
    let outcomes = lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    if let Ok(Fork::Parent { pid, .. }) = child {
        sys::wait_for_child(pid);
    }
    Ok(outcomes)
}

/// Where the outcomes go.
struct Report(PipeWriter);

impl Report {
    /// Tries a step, reports it, and says whether it worked.
    fn attempt(&mut self, step: Step, work: impl FnOnce() -> io::Result<()>) -> bool {
        let result = work();
        let errno = result
            .as_ref()
            .err()
            .map(|error| error.raw_os_error().unwrap_or(0));
        let line = serde_json::to_string(&Outcome { step, errno }).unwrap_or_default();
        // One write, far below the size that a pipe takes whole.
        let _ = self.0.write_all(format!("{line}\n").as_bytes());
        result.is_ok()
    }
}

/// The first child: becomes user 0 and makes the second one.
fn in_user_namespace(report: &mut Report, uid: u32, gid: u32) {
    set_name(c"longhaul-doctor").ok();
    sys::reset_signals();
    report.attempt(Step::UserNamespace, || Ok(()));
    let mapped = report.attempt(Step::IdMap, || {
        // Absent on kernels without it, refused to nobody who needs it.
        write("/proc/self/setgroups", "deny").ok();
        write("/proc/self/uid_map", &format!("0 {uid} 1\n"))?;
        write("/proc/self/gid_map", &format!("0 {gid} 1\n"))
    });
    if !mapped {
        return;
    }
    let flags = libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC;
    // SAFETY: a forked child has one thread.
    match unsafe { sys::fork(flags) } {
        Err(error) => {
            report.attempt(Step::Namespaces, || Err(error));
        }
        Ok(Fork::Child) => {
            report.attempt(Step::Namespaces, || Ok(()));
            as_host(report);
            sys::exit_now(0)
        }
        Ok(Fork::Parent { pid, .. }) => sys::wait_for_child(pid),
    }
}

/// Like `sys::write_file`, with the error's number kept.
fn write(path: &str, text: &str) -> io::Result<()> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// The second child: what hosts and their cables need.
fn as_host(report: &mut Report) {
    let private = MountFlags::NOSUID | MountFlags::NODEV;
    report.attempt(Step::PrivateMounts, sys::make_mounts_private);
    report.attempt(Step::MountProc, || {
        let flags = private | MountFlags::NOEXEC;
        Ok(mount("proc", "/proc", "proc", flags, c"")?)
    });
    report.attempt(Step::MountTmpfs, || {
        Ok(mount("tmpfs", "/tmp", "tmpfs", private, c"mode=1777")?)
    });
    report.attempt(Step::Hostname, || Ok(sethostname(b"probe")?));
    report.attempt(Step::NetSysctls, || {
        write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 8388608")?;
        write("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 8388608")?;
        write("/proc/sys/net/ipv4/ping_group_range", "0 0")
    });
    cable(report);
    ring(report);
    report.attempt(Step::InnerUser, || {
        sys::unshare(UnshareFlags::NEWUSER)?;
        write("/proc/self/setgroups", "deny").ok();
        write("/proc/self/uid_map", "0 0 1\n")
    });
}

/// Both ends of the cable stay in this namespace, which is enough to try them.
fn cable(report: &mut Report) {
    const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));
    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OWN_END: u32 = 1000;
    let mut netlink = match Netlink::open() {
        Ok(netlink) => netlink,
        Err(error) => {
            report.attempt(Step::Veth, || Err(error));
            return;
        }
    };
    let laid = report.attempt(Step::Veth, || {
        netlink.request(netlink::new_veth(&VethPair {
            index: OWN_END,
            name: "h0",
            group: 1,
            mtu: 1500,
            gro_max_size: 1000,
            peer_name: "eth0",
            peer_pid: 1,
            peer_mac: [2, 0, 0, 0, 0, 1],
            peer_gso_max_segs: 1,
        }))
    });
    if !laid {
        return;
    }
    report.attempt(Step::Offloads, || {
        ethtool::set_receive_offload("h0", true)?;
        ethtool::set_transmit_checksums("eth0", false)
    });
    report.attempt(Step::Ipv6, || {
        write("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0")
    });
    let Ok(index) = sys::interface_index("eth0") else {
        return;
    };
    report.attempt(Step::Cubic, || {
        netlink.request(netlink::link_up(index))?;
        netlink.request(netlink::new_address(index, ADDRESS))?;
        netlink.request(netlink::default_route(
            index,
            GATEWAY,
            ADDRESS,
            Some("cubic"),
        ))
    });
    report.attempt(Step::Shaper, || {
        shaper::set_shaper(
            &mut netlink,
            index,
            &Shaper {
                bytes_per_s: 12_500_000,
                overhead: 4,
                burst_bytes: 15_000,
                limit_bytes: 150_000,
                traffic: Traffic::Packets,
            },
        )
        .map(drop)
    });
}

fn ring(report: &mut Report) {
    let socket = report.attempt(Step::PacketSocket, || {
        drop(net::socket(AddressFamily::PACKET, SocketType::RAW, None)?);
        Ok(())
    });
    if socket {
        report.attempt(Step::PacketRing, || {
            packet_io::open(RingConfig::for_mtu(1500)).map(drop)
        });
    }
}
