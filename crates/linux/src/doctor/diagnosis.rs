//! From facts to causes and remedies: pure functions, one per finding.

use std::io;

use super::Finding;
use super::facts::Facts;
use super::probe::{Outcomes, Step};
use super::{remedy, resources};

/// `clone3` came with 5.3.
const CLONE3: (u32, u32) = (5, 3);
/// `close_range` with all that we ask of it came with 5.11.
const KERNEL_MIN: (u32, u32) = (5, 11);
/// `IFLA_GRO_MAX_SIZE` came with 5.19.
const KERNEL_GOOD: (u32, u32) = (5, 19);
/// Reading a clock without a system call takes about 25 ns, with one several hundred.
const CLOCK_READ_NS: u64 = 150;
/// A few files per program and host; a large run wants more.
const OPEN_FILES: u64 = 4096;
/// The ring, a small packet pool and some programs.
const MEMORY_BYTES: u64 = 512 << 20;
/// What a run reserves at most without using all of it: the packet pool.
const COMMIT_BYTES: u64 = 1 << 30;

/// All findings, in the order in which a run would meet them, and so the gravest first.
pub(super) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kernel(facts)];
    match &facts.probe {
        Some(probe) => {
            findings.push(namespaces(facts, probe));
            if probe.worked(Step::Namespaces) {
                findings.extend([mounts(facts, probe), cables(probe), packets(probe)]);
                findings.extend([congestion(probe), backpressure(probe)]);
            }
        }
        None => findings.push(Finding::warning(
            "namespaces",
            "not tried: this needs a process with a single thread",
            "run `longhaul doctor`",
        )),
    }
    findings.extend([
        cpus(facts),
        clock(facts),
        open_files(facts),
        starvation(facts),
    ]);
    findings.push(memory(facts));
    findings.extend(resources::findings(&facts.support));
    findings
}

/// The kernel's words for an error.
fn words(errno: i32) -> String {
    if errno == 0 {
        return "unknown error".to_owned();
    }
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn kernel(facts: &Facts) -> Finding {
    const NAME: &str = "kernel";
    let (major, minor) = facts.kernel;
    let detail = format!("Linux {major}.{minor}");
    if facts.kernel < KERNEL_MIN {
        let remedy = "use Linux 5.11 or later; 6.3 or later is best";
        return Finding::failed(NAME, format!("{detail} is too old"), remedy);
    }
    if facts.kernel < KERNEL_GOOD {
        let detail = format!(
            "{detail} merges TCP segments on veth cables, which the core refuses as too long"
        );
        return Finding::warning(NAME, detail, "use Linux 5.19 or later");
    }
    Finding::ok(NAME, detail)
}

fn namespaces(facts: &Facts, probe: &Outcomes) -> Finding {
    const NAME: &str = "namespaces";
    let steps = [
        Step::UserNamespace,
        Step::IdMap,
        Step::Namespaces,
        Step::InnerUser,
    ];
    let failure = steps
        .into_iter()
        .find_map(|step| Some((step, probe.error(step)?)));
    let Some((step, errno)) = failure else {
        if probe.worked(Step::Namespaces) {
            return Finding::ok(
                NAME,
                "user, network, mount, PID, UTS and IPC namespaces work",
            );
        }
        let remedy = "look for what kills processes that make namespaces: a seccomp filter, or \
                      the memory limit of a container";
        return Finding::failed(NAME, "the probe was killed", remedy);
    };
    let (cause, remedy) = cause_of_refusal(facts, step, errno);
    Finding::failed(NAME, format!("{step}: {}: {cause}", words(errno)), remedy)
}

/// Why a namespace is refused, and what to do; the surest signs first.
fn cause_of_refusal(facts: &Facts, step: Step, errno: i32) -> (String, String) {
    if errno == libc::ENOSYS && facts.kernel < CLONE3 {
        let remedy = "use Linux 5.11 or later; 6.3 or later is best";
        return ("the kernel is too old".to_owned(), remedy.to_owned());
    }
    if errno == libc::ENOSPC {
        let kind = facts.forbidden_namespaces.first();
        let setting = format!("user.max_{}_namespaces", kind.unwrap_or(&"user"));
        let cause = match kind {
            Some(_) => format!("the sysctl {setting} is 0"),
            None => format!("the limit {setting} is reached, or namespaces are nested too deep"),
        };
        return (cause, remedy::sysctl(&format!("{setting}=100000")));
    }
    if facts.userns_clone == Some(0) && (facts.uid != 0 || facts.container.is_some()) {
        let cause = "the sysctl kernel.unprivileged_userns_clone is 0".to_owned();
        return (cause, remedy::sysctl("kernel.unprivileged_userns_clone=1"));
    }
    if blames_apparmor(facts) {
        let label = facts.apparmor_label.as_deref().unwrap_or("unconfined");
        let cause = format!(
            "AppArmor allows it only to programs with a profile for it (the sysctl \
             kernel.apparmor_restrict_unprivileged_userns is 1, this program's profile is `{label}`)"
        );
        return (cause, remedy::apparmor(&facts.program));
    }
    if let Some(kind) = facts.container {
        let cause = if errno == libc::ENOSYS || facts.seccomp {
            "the container's seccomp filter forbids it"
        } else {
            "the container forbids it"
        };
        return (cause.to_owned(), remedy::container(kind));
    }
    if facts.chrooted && step == Step::UserNamespace {
        let cause = "the kernel forbids it to processes in a chroot".to_owned();
        let remedy = "run outside of the chroot, or use a container instead of it".to_owned();
        return (cause, remedy);
    }
    if facts.seccomp || errno == libc::ENOSYS {
        let cause = "a seccomp filter forbids it".to_owned();
        let remedy = "run outside of the sandbox that this process is in (flatpak, snap, or a \
                      systemd service with RestrictNamespaces= or SystemCallFilter=)";
        return (cause, remedy.to_owned());
    }
    let cause = "the kernel does not say why".to_owned();
    let remedy = "look for a security module (SELinux, a systemd or cloud policy) that forbids \
                  user namespaces: `sudo dmesg | tail` and `journalctl -t audit` often name it";
    (cause, remedy.to_owned())
}

/// Whether AppArmor's restriction, and nothing before it, binds this process. A container that
/// confines its processes by a filter or a profile of its own comes first.
fn blames_apparmor(facts: &Facts) -> bool {
    let restricts = facts.apparmor_restricts.is_some_and(|value| value > 0);
    let unconfined = facts
        .apparmor_label
        .as_deref()
        .is_none_or(|label| label == "unconfined");
    restricts
        && match facts.container {
            Some(_) => unconfined && !facts.seccomp,
            None => facts.uid != 0,
        }
}

/// The first of `steps` that failed.
fn first_failure(probe: &Outcomes, steps: &[Step]) -> Option<(Step, i32)> {
    steps
        .iter()
        .find_map(|&step| Some((step, probe.error(step)?)))
}

fn mounts(facts: &Facts, probe: &Outcomes) -> Finding {
    const NAME: &str = "mounts";
    let steps = [
        Step::PrivateMounts,
        Step::MountProc,
        Step::MountTmpfs,
        Step::Hostname,
        Step::NetSysctls,
    ];
    let Some((step, errno)) = first_failure(probe, &steps) else {
        return Finding::ok(
            NAME,
            "private /proc, /tmp, host name and network parameters work",
        );
    };
    let failed = format!("{step}: {}", words(errno));
    let masked = step == Step::MountProc && facts.proc_masked;
    match facts.container {
        Some(kind) if masked => {
            let detail = format!("{failed}: the container masks parts of /proc");
            Finding::failed(NAME, detail, remedy::container(kind))
        }
        Some(kind) => {
            let detail = format!("{failed}: the container forbids it");
            Finding::failed(NAME, detail, remedy::container(kind))
        }
        None if masked => {
            let detail = format!("{failed}: something is mounted over parts of /proc");
            let remedy = "unmount what `grep ' /proc/' /proc/self/mountinfo` shows, or, in a \
                          container, start it without masked paths";
            Finding::failed(NAME, detail, remedy)
        }
        None => {
            let remedy = "look for a security module (AppArmor, SELinux) that forbids it: \
                          `sudo dmesg | tail` often names it";
            Finding::failed(NAME, failed, remedy)
        }
    }
}

fn cables(probe: &Outcomes) -> Finding {
    const NAME: &str = "cables";
    match first_failure(probe, &[Step::Veth, Step::Offloads, Step::Ipv6]) {
        None => Finding::ok(NAME, "veth pairs with IPv4 and IPv6 work"),
        Some((Step::Ipv6, errno)) => Finding::failed(
            NAME,
            format!("{}: {}: this kernel has no IPv6", Step::Ipv6, words(errno)),
            "remove `ipv6.disable=1` from the kernel's command line and restart the machine",
        ),
        Some((Step::Veth, errno)) => Finding::failed(
            NAME,
            format!("{}: {}: this kernel has no veth", Step::Veth, words(errno)),
            remedy::module("veth"),
        ),
        Some((step, errno)) => Finding::failed(
            NAME,
            format!("{step}: {}", words(errno)),
            "use a kernel whose veth has receive offload (Linux 5.11 or later)",
        ),
    }
}

fn packets(probe: &Outcomes) -> Finding {
    const NAME: &str = "packet ring";
    match first_failure(probe, &[Step::PacketSocket, Step::PacketRing]) {
        None => Finding::ok(NAME, "AF_PACKET with a TPACKET_V2 receive ring works"),
        Some((step @ Step::PacketSocket, errno)) => Finding::failed(
            NAME,
            format!(
                "{step}: {}: this kernel has no packet sockets",
                words(errno)
            ),
            remedy::module("af_packet"),
        ),
        Some((step, libc::ENOMEM)) => Finding::failed(
            NAME,
            format!("{step}: {}", words(libc::ENOMEM)),
            "free some memory: the ring takes 32 MiB",
        ),
        Some((step, errno)) => Finding::failed(
            NAME,
            format!("{step}: {}", words(errno)),
            "use a kernel with CONFIG_PACKET and packet rings (every distribution's has them)",
        ),
    }
}

fn congestion(probe: &Outcomes) -> Finding {
    const NAME: &str = "congestion control";
    match probe.error(Step::Cubic) {
        None => Finding::ok(NAME, "cubic, the default of hosts, is available"),
        Some(errno) => Finding::warning(
            NAME,
            format!("{}: {}", Step::Cubic, words(errno)),
            format!(
                "{}\nor choose another in the experiment file: tcp: {{ congestion: reno }}",
                remedy::module("tcp_cubic")
            ),
        ),
    }
}

fn backpressure(probe: &Outcomes) -> Finding {
    const NAME: &str = "backpressure";
    match probe.error(Step::Shaper) {
        None => Finding::ok(NAME, "tbf, which shapes hosts' network cards, is available"),
        Some(errno) => Finding::warning(
            NAME,
            format!(
                "{}: {}: links with a rate do not work",
                Step::Shaper,
                words(errno)
            ),
            remedy::module("sch_tbf"),
        ),
    }
}

fn cpus(facts: &Facts) -> Finding {
    const NAME: &str = "CPUs";
    match facts.cpus {
        0 | 1 => Finding::warning(
            NAME,
            "one CPU: the core and the programs share it, so packets will be late",
            "use a machine (or a CPU set) with two CPUs or more",
        ),
        n => Finding::ok(
            NAME,
            format!("{n}: one for the core, the rest for programs"),
        ),
    }
}

fn clock(facts: &Facts) -> Finding {
    const NAME: &str = "clock";
    let Facts {
        clocksource,
        clock_read_ns,
        ..
    } = facts;
    let source = if clocksource.is_empty() {
        "unknown source"
    } else {
        clocksource
    };
    let detail = format!("{source}, read in {clock_read_ns} ns");
    if *clock_read_ns <= CLOCK_READ_NS {
        return Finding::ok(NAME, detail);
    }
    let remedy = "choose tsc (or kvm-clock, hyperv_clocksource_tsc_page in a virtual machine) if \
                  /sys/devices/system/clocksource/clocksource0/available_clocksource offers it: \
                  echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource";
    Finding::warning(NAME, format!("{detail}, which is slow"), remedy)
}

fn open_files(facts: &Facts) -> Finding {
    const NAME: &str = "open files";
    if facts.open_files >= OPEN_FILES {
        return Finding::ok(NAME, format!("at most {}", limit(facts.open_files)));
    }
    let detail = format!(
        "at most {}: a run with many programs needs more",
        facts.open_files
    );
    let remedy = "raise the hard limit: `* hard nofile 65536` in /etc/security/limits.conf, \
                  DefaultLimitNOFILE= of systemd, or `docker run --ulimit nofile=65536`";
    Finding::warning(NAME, detail, remedy)
}

fn limit(files: u64) -> String {
    if files == u64::MAX {
        "unlimited".to_owned()
    } else {
        files.to_string()
    }
}

fn starvation(facts: &Facts) -> Finding {
    const NAME: &str = "starvation counter";
    if facts.schedstat {
        return Finding::ok(
            NAME,
            "/proc/PID/schedstat reports how long programs waited for a CPU",
        );
    }
    let detail = "this kernel has no /proc/PID/schedstat: starved hosts go unnoticed";
    Finding::warning(NAME, detail, "use a kernel with CONFIG_SCHED_INFO")
}

fn memory(facts: &Facts) -> Finding {
    const NAME: &str = "memory";
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    if facts.memory_bytes < MEMORY_BYTES {
        let detail = format!("{} available", mib(facts.memory_bytes));
        let remedy = "free some: a run takes 32 MiB for its receive ring, about 0.3 MiB per host, \
                      and for packets what `longhaul check FILE` prints";
        return Finding::warning(NAME, detail, remedy);
    }
    if let Some(left) = facts.committable_bytes.filter(|left| *left < COMMIT_BYTES) {
        let detail = format!(
            "vm.overcommit_memory is 2, and only {} more may be committed",
            mib(left)
        );
        return Finding::warning(NAME, detail, remedy::sysctl("vm.overcommit_memory=0"));
    }
    Finding::ok(NAME, format!("{} available", mib(facts.memory_bytes)))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
