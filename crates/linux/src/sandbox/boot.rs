//! A host's init: makes its namespaces into a host, then reaps orphans until it is killed.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::IpAddr;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::system::sethostname;
use rustix::thread::set_name;

use super::identity::{self, Meminfo};
use super::service::{self, NAME_SERVER};
use super::{GATEWAY_V4, GATEWAY_V6, HostConfig, SandboxConfig, groups};
use crate::channel::Channel;
use crate::netlink::shaper::{self, Shaper};
use crate::netlink::{self, Netlink};
use crate::{ethtool, sys};

/// The name of a host's one network interface.
pub(super) const INTERFACE: &str = "eth0";
/// How many buckets the TCP tables of network namespaces made by this one have (ip-sysctl).
pub(super) const CHILD_TABLES: &str = "/proc/sys/net/ipv4/tcp_child_ehash_entries";
/// Parameters whose defaults follow the size of that table (`tcp_sk_init` in `net/ipv4/tcp_ipv4.c`).
const OF_TABLE_SIZE: [&str; 2] = [
    "net/ipv4/tcp_max_tw_buckets",
    "net/ipv4/tcp_max_syn_backlog",
];
/// Features for super-packets that the core cannot split and checksums that it cannot complete: of
/// tunnels, whose outer headers do not describe them, of lists and of SCTP. With these off, the
/// kernel splits and completes them itself.
const NOT_OURS: [&str; 12] = [
    "tx-checksum-sctp",
    "tx-esp-segmentation",
    "tx-gre-csum-segmentation",
    "tx-gre-segmentation",
    "tx-gso-list",
    "tx-gso-partial",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-sctp-segmentation",
    "tx-tunnel-remcsum-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-udp_tnl-segmentation",
];

/// Folders that every host has to itself, empty, with the mode of each.
pub(super) const PRIVATE: [(&str, &str); 4] = [
    ("/run", "0755"),
    ("/tmp", "1777"),
    ("/var/tmp", "1777"),
    ("/dev/shm", "1777"),
];
/// Mounts whose files give nobody other rights, and those that hold no programs at all.
const UNPRIVILEGED: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
pub(super) const DATA_ONLY: MountFlags = UNPRIVILEGED.union(MountFlags::NOEXEC);
/// A folder that every host sees as the machine has it, while its own writes stay private.
const OVERLAID: &str = "/var";

/// A parameter below `/proc/sys`, and its value.
pub(super) type Sysctl = (&'static str, String);

/// This namespace's values of the parameters that a TCP table of another size would change.
pub(super) fn of_table_size() -> Vec<Sysctl> {
    let value = |name| std::fs::read_to_string(format!("/proc/sys/{name}"));
    let known = |name| Some((name, value(name).ok()?.trim().to_owned()));
    OF_TABLE_SIZE.into_iter().filter_map(known).collect()
}

/// What a host's init gets from the sandbox.
pub(super) struct InitContext<'a> {
    /// Its number.
    pub(super) number: usize,
    pub(super) shared: &'a SandboxConfig,
    pub(super) pinned: &'a [Sysctl],
    /// Where its services' sockets go.
    pub(super) feed: Option<&'a Channel>,
}

/// The init's main function. Says `up` or what went wrong on `report`, then reaps for ever.
pub(super) fn main(
    config: &HostConfig,
    context: &InitContext<'_>,
    mut go: PipeReader,
    mut report: PipeWriter,
) -> ! {
    set_name(c"longhaul-host").ok();
    sys::reset_signals();
    crate::resources::duty::without_stop_signals();
    let result = boot(config, context, &mut go);
    let text = result.as_ref().map_or_else(String::as_str, |_| "up");
    let reported = report.write_all(text.as_bytes());
    let (Ok(()), Ok(mut meminfo)) = (reported, result) else {
        sys::exit_now(1);
    };
    drop((go, report));
    sys::close_all_but(3, &mut []);
    match &mut meminfo {
        Some(meminfo) => sys::reap_forever(Some(identity::REFRESH), || meminfo.refresh()),
        None => sys::reap_forever(None, || {}),
    }
}

/// Makes the host; returns the part of its identity that has to be refreshed as it runs.
fn boot(
    config: &HostConfig,
    context: &InitContext<'_>,
    go: &mut PipeReader,
) -> Result<Option<Meminfo>, String> {
    let step = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let named = sethostname(config.name.as_bytes()).map_err(io::Error::from);
    named.map_err(step("setting its name"))?;
    groups::enter(&config.groups).map_err(step("entering its control groups"))?;
    let limits = config.limits;
    let visible = &context.shared.visible;
    mount_private(visible, limits.memory).map_err(step("mounting its private folders"))?;
    groups::mount(&config.groups).map_err(step("showing its control groups"))?;
    let own_run = is_private(Path::new("/run"));
    let meminfo = identity::give(config, own_run);
    let meminfo = meminfo.map_err(step("writing its identity files"))?;
    set_sysctls(config, context.pinned).map_err(step("setting its network parameters"))?;
    let mut byte = [0];
    go.read_exact(&mut byte)
        .map_err(step("waiting for its cable"))?;
    configure_network(config, context.shared.gateway_mac)
        .map_err(step("configuring its network"))?;
    let Some(feed) = context.feed else {
        return Ok(meminfo);
    };
    let handed_over = service::hand_over(feed, context.number, own_run);
    handed_over
        .map(|()| meminfo)
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                "the process that runs the hosts' name server died (was it killed?)".to_owned()
            }
            _ => step("opening its services")(error),
        })
}

/// A `/proc` that shows this PID namespace.
pub(super) fn mount_proc() -> io::Result<()> {
    Ok(mount("proc", "/proc", "proc", DATA_ONLY, c"")?)
}

/// Puts the run's names in place of `/etc/hosts`, their server into `/etc/resolv.conf`, files and
/// that server as all sources of names into `/etc/nsswitch.conf`, and IPv4 first in `/etc/gai.conf`,
/// because many programs listen on IPv4 alone: inherited by every host. A file that does not exist
/// stays so.
pub(super) fn bind_names(hosts_file: &str, domain: Option<&str>) -> io::Result<()> {
    let stage = Path::new("/tmp");
    mount("tmpfs", stage, "tmpfs", UNPRIVILEGED, c"mode=0755")?;
    std::fs::write("/tmp/hosts", hosts_file)?;
    let resolver = domain.map_or_else(
        || "# no name server: see /etc/hosts\n".to_owned(),
        |domain| format!("nameserver {NAME_SERVER}\nsearch {domain}\n"),
    );
    std::fs::write("/tmp/resolv.conf", resolver)?;
    let sources = std::fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    std::fs::write("/tmp/nsswitch.conf", sources_of_names(&sources))?;
    std::fs::write("/tmp/gai.conf", "precedence ::ffff:0:0/96 100\n")?;
    bind_over(&stage.join("hosts"), Path::new("/etc/hosts"))?;
    for name in ["resolv.conf", "nsswitch.conf", "gai.conf"] {
        bind_over(&stage.join(name), &Path::new("/etc").join(name)).ok();
    }
    Ok(unmount(stage, UnmountFlags::DETACH)?)
}

/// Shows `source` in place of the file `target`, and in place of a link itself where it is one:
/// `/etc/resolv.conf` often leads into a `/run` that hosts do not see.
pub(super) fn bind_over(source: &Path, target: &Path) -> io::Result<()> {
    sys::attach_tree(&sys::clone_tree(source)?, target)
}

/// `/etc/nsswitch.conf` with other sources of host names: the machine's may ask daemons that run on
/// no host.
fn sources_of_names(text: &str) -> String {
    let is_hosts = |line: &&str| line.trim_start().starts_with("hosts:");
    let others = text.lines().filter(|line| !is_hosts(line));
    let lines = others.chain(["hosts: files dns"]);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Whether a folder of [`PRIVATE`] is there to be made private.
fn is_private(folder: &Path) -> bool {
    folder.is_dir() && !folder.is_symlink()
}

/// Gives the host folders of its own and leaves those in `visible` there. No folder holds more than
/// the host's `memory`, where no control group counts them.
fn mount_private(visible: &[std::path::PathBuf], memory: Option<u64>) -> io::Result<()> {
    let inside = |folder: &Path, of: &str| folder.starts_with(of) && folder != Path::new(of);
    let below = |folder: &Path| {
        inside(folder, OVERLAID) || PRIVATE.iter().any(|(private, _)| inside(folder, private))
    };
    let mut kept = Vec::new();
    for folder in visible.iter().filter(|folder| below(folder)) {
        kept.push((folder, sys::clone_tree(folder)?));
    }
    for (folder, mode) in PRIVATE {
        if !is_private(Path::new(folder)) {
            continue;
        }
        let size = memory.map_or(String::new(), |bytes| format!(",size={bytes}"));
        let options = format!("mode={mode}{size}");
        let options = CString::new(options)?;
        mount("tmpfs", folder, "tmpfs", UNPRIVILEGED, options.as_c_str())?;
        if folder == "/run" {
            // Where the kernel or the machine's file system does not allow it, /var is shared.
            overlay(OVERLAID).ok();
        }
    }
    for (folder, tree) in kept {
        std::fs::create_dir_all(folder)?;
        sys::attach_tree(&tree, folder)?;
    }
    mount_proc()?;
    // Shows the host's own interfaces to programs that look there; some containers forbid it.
    let sysfs = sys::mount_sysfs(true);
    sysfs
        .and_then(|s| sys::attach_tree(&s, Path::new("/sys")))
        .ok();
    Ok(())
}

/// Puts a layer over `folder` that takes all writes, kept in the host's own memory.
fn overlay(folder: &str) -> io::Result<()> {
    const LAYER: &str = "/run/longhaul";
    for name in ["", "upper", "work"] {
        std::fs::create_dir(Path::new(LAYER).join(name))?;
    }
    let options =
        format!("lowerdir={folder},upperdir={LAYER}/upper,workdir={LAYER}/work,userxattr");
    let options = CString::new(options)?;
    mount(
        "overlay",
        folder,
        "overlay",
        UNPRIVILEGED,
        options.as_c_str(),
    )?;
    Ok(())
}

fn set_sysctls(config: &HostConfig, pinned: &[Sysctl]) -> io::Result<()> {
    let tcp = &config.tcp;
    let ecn = if tcp.ecn { "1" } else { "0" };
    let rmem = format!("4096 131072 {}", tcp.rmem_max);
    let wmem = format!("4096 16384 {}", tcp.wmem_max);
    let settings = [
        ("net/ipv4/tcp_rmem", rmem.as_str()),
        ("net/ipv4/tcp_wmem", wmem.as_str()),
        ("net/ipv4/tcp_ecn", ecn),
        // A connection must not inherit metrics that an earlier one learnt.
        ("net/ipv4/tcp_no_metrics_save", "1"),
        // Ordinary users may serve port 80 and send pings.
        ("net/ipv4/ip_unprivileged_port_start", "0"),
        ("net/ipv4/ping_group_range", "0 0"),
    ];
    for (name, value) in settings {
        sys::write_file(&format!("/proc/sys/{name}"), value)?;
    }
    for (name, value) in pinned {
        sys::write_file(&format!("/proc/sys/{name}"), value)?;
    }
    Ok(())
}

fn configure_network(config: &HostConfig, gateway_mac: [u8; 6]) -> io::Result<()> {
    const LOOPBACK: u32 = 1;
    let mut netlink = Netlink::open()?;
    netlink.request(netlink::link_up(LOOPBACK))?;
    let index = sys::interface_index(INTERFACE)?;
    if config.offloads() {
        ethtool::turn_off(INTERFACE, &NOT_OURS)?;
    } else {
        ethtool::set_transmit_checksums(INTERFACE, false)?;
    }
    // No duplicate-address detection, no router discovery, no addresses but ours.
    for (name, value) in [
        ("accept_dad", "0"),
        ("accept_ra", "0"),
        ("router_solicitations", "0"),
        ("addr_gen_mode", "1"),
    ] {
        sys::write_file(
            &format!("/proc/sys/net/ipv6/conf/{INTERFACE}/{name}"),
            value,
        )?;
    }
    netlink.request(netlink::link_up(index))?;
    if let Some(shaper) = &config.shaper {
        shaper::set_shaper(&mut netlink, index, shaper)?;
    }
    for (address, gateway) in addresses(config) {
        netlink.request(netlink::new_address(index, address))?;
        netlink.request(netlink::new_neighbour(index, gateway, gateway_mac))?;
    }
    set_routes(&mut netlink, index, config)
}

/// The host's address of each family, and its gateway's.
fn addresses(config: &HostConfig) -> [(IpAddr, IpAddr); 2] {
    [
        (config.ipv4.into(), GATEWAY_V4.into()),
        (config.ipv6.into(), GATEWAY_V6.into()),
    ]
}

/// Sets the default routes, or replaces them.
fn set_routes(netlink: &mut Netlink, index: u32, config: &HostConfig) -> io::Result<()> {
    let congestion = config.tcp.congestion.as_str();
    for (address, gateway) in addresses(config) {
        let route = netlink::default_route(index, gateway, address, Some(congestion));
        netlink.request(route).map_err(|error| {
            let what = "default route with congestion control";
            io::Error::new(error.kind(), format!("{what} `{congestion}`: {error}"))
        })?;
    }
    Ok(())
}

/// Sets the shaper of this namespace's interface; returns how many frames were lost by that.
pub(super) fn apply_shaper(shaper: &Shaper) -> io::Result<u64> {
    let index = sys::interface_index(INTERFACE)?;
    shaper::set_shaper(&mut Netlink::open()?, index, shaper)
}

/// Makes the host send single packets from now on. A link's shaper counts a super-packet wrong, and
/// one that shrinks below a waiting super-packet never sends again. A connection reads the
/// interface's features from its route once (`sk_setup_caps` in `net/core/sock.c`), so the routes
/// are replaced, which makes every connection look again.
pub(super) fn stop_offload(config: &HostConfig) -> io::Result<()> {
    let index = sys::interface_index(INTERFACE)?;
    let mut netlink = Netlink::open()?;
    ethtool::set_transmit_checksums(INTERFACE, false)?;
    netlink.request(netlink::set_gso_max_segs(index, 1))?;
    set_routes(&mut netlink, index, config)
}
