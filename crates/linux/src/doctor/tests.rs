//! Every machine that the doctor knows, as facts.

use super::super::State;
use super::super::facts::Container;
use super::super::probe::Outcome;
use super::*;
use crate::resources::{Means, Support, Unsupported};

const ALL: [Step; 16] = [
    Step::UserNamespace,
    Step::IdMap,
    Step::Namespaces,
    Step::PrivateMounts,
    Step::MountProc,
    Step::MountTmpfs,
    Step::Hostname,
    Step::NetSysctls,
    Step::Veth,
    Step::Offloads,
    Step::Ipv6,
    Step::Cubic,
    Step::Shaper,
    Step::PacketSocket,
    Step::PacketRing,
    Step::InnerUser,
];

fn healthy() -> Facts {
    let outcome = |step| Outcome { step, errno: None };
    Facts {
        uid: 1000,
        program: "/usr/bin/longhaul".to_owned(),
        kernel: (6, 8),
        userns_clone: None,
        forbidden_namespaces: Vec::new(),
        apparmor_restricts: None,
        apparmor_label: None,
        container: None,
        seccomp: false,
        proc_masked: false,
        chrooted: false,
        probe: Some(Outcomes(ALL.into_iter().map(outcome).collect())),
        cpus: 4,
        clocksource: "tsc".to_owned(),
        clock_read_ns: 25,
        open_files: 1 << 20,
        schedstat: true,
        memory_bytes: 4 << 30,
        committable_bytes: None,
        support: Support {
            cpu: Ok(Means::GroupsV2),
            memory: Ok(Means::GroupsV2),
            disk: Ok(Means::GroupsV2),
        },
    }
}

/// A machine on which `step` fails; nothing that depends on it is tried.
fn failing(step: Step, errno: i32) -> Facts {
    let fatal = matches!(step, Step::UserNamespace | Step::IdMap | Step::Namespaces);
    let mut facts = healthy();
    let mut outcomes = facts.probe.take().unwrap().0;
    let at = outcomes
        .iter()
        .position(|outcome| outcome.step == step)
        .unwrap();
    outcomes[at].errno = Some(errno);
    if fatal {
        outcomes.truncate(at + 1);
    }
    facts.probe = Some(Outcomes(outcomes));
    facts
}

#[test]
fn resources_that_hosts_cannot_be_limited_to_are_reported_with_a_remedy() {
    let mut facts = healthy();
    facts.support.disk = Err(Unsupported {
        reason: "no disks here".to_owned(),
        remedy: "run as root".to_owned(),
    });
    let finding = only(&facts);
    assert_eq!(finding.state, State::Warning);
    assert!(finding.detail.contains("no disks here") && finding.detail.contains("`disk`"));
    assert_eq!(finding.remedy.as_deref(), Some("run as root"));
}

/// The one thing that is wrong with a machine.
fn only(facts: &Facts) -> Finding {
    let findings = diagnose(facts);
    let mut wrong = findings
        .into_iter()
        .filter(|finding| finding.state != State::Ok);
    let first = wrong.next().expect("something is wrong");
    assert_eq!(wrong.next(), None, "only one thing is wrong");
    first
}

fn assert_says(facts: &Facts, state: State, cause: &str, remedy: &str) {
    let finding = only(facts);
    assert_eq!(finding.state, state, "{finding:?}");
    assert!(finding.detail.contains(cause), "{finding:?}");
    assert!(
        finding.remedy.as_deref().unwrap().contains(remedy),
        "{finding:?}"
    );
}

#[test]
fn a_healthy_machine_lacks_nothing() {
    assert!(
        diagnose(&healthy())
            .iter()
            .all(|finding| finding.state == State::Ok)
    );
}

#[test]
fn debian_forbids_by_its_own_sysctl() {
    let mut facts = failing(Step::UserNamespace, libc::EPERM);
    facts.userns_clone = Some(0);
    assert_says(
        &facts,
        State::Failed,
        "unprivileged_userns_clone is 0",
        "userns_clone=1",
    );
    // The same sysctl does not bind root, so it is not blamed.
    facts.uid = 0;
    assert!(!only(&facts).detail.contains("userns_clone"));
}

#[test]
fn a_limit_of_no_namespaces() {
    let mut facts = failing(Step::UserNamespace, libc::ENOSPC);
    facts.forbidden_namespaces = vec!["user"];
    assert_says(
        &facts,
        State::Failed,
        "max_user_namespaces is 0",
        "sysctl user.max_user_names",
    );
    let mut facts = failing(Step::Namespaces, libc::ENOSPC);
    facts.forbidden_namespaces = vec!["net"];
    assert_says(
        &facts,
        State::Failed,
        "max_net_namespaces is 0",
        "max_net_namespaces=",
    );
    let facts = failing(Step::UserNamespace, libc::ENOSPC);
    assert_says(&facts, State::Failed, "is reached", "max_user_namespaces=");
}

#[test]
fn ubuntu_forbids_by_apparmor() {
    // 23.10 refuses the namespace, 24.04 the rights within it.
    for (step, errno) in [
        (Step::UserNamespace, libc::EACCES),
        (Step::IdMap, libc::EPERM),
    ] {
        let mut facts = failing(step, errno);
        facts.apparmor_restricts = Some(1);
        facts.apparmor_label = Some("unconfined".to_owned());
        facts.program = "/home/u/my programs/longhaul".to_owned();
        assert_says(&facts, State::Failed, "AppArmor", "apparmor_parser -r");
        let remedy = only(&facts).remedy.unwrap();
        assert!(remedy.contains("profile longhaul \"/home/u/my programs/longhaul\" flags"));
        assert!(remedy.contains("  userns,\n}\nEND\n"));
    }
}

#[test]
fn apparmor_binds_containers_that_do_not_bind_themselves() {
    let mut facts = failing(Step::IdMap, libc::EPERM);
    (facts.container, facts.uid) = (Some(Container::Docker), 0);
    facts.apparmor_restricts = Some(1);
    facts.apparmor_label = Some("unconfined".to_owned());
    assert_says(&facts, State::Failed, "AppArmor", "apparmor_parser");
    facts.apparmor_label = Some("docker-default (enforce)".to_owned());
    assert_says(&facts, State::Failed, "container forbids", "docker run");
    facts.apparmor_label = None;
    facts.seccomp = true;
    assert_says(&facts, State::Failed, "container's seccomp", "docker run");
}

#[test]
fn a_container_forbids_by_seccomp() {
    // Docker answers clone with EPERM and clone3 with ENOSYS.
    for errno in [libc::EPERM, libc::ENOSYS] {
        let mut facts = failing(Step::UserNamespace, errno);
        (facts.container, facts.seccomp, facts.uid) = (Some(Container::Docker), true, 0);
        assert_says(
            &facts,
            State::Failed,
            "seccomp",
            "docker run --security-opt seccomp=unconf",
        );
    }
    let mut facts = failing(Step::UserNamespace, libc::EPERM);
    facts.container = Some(Container::Lxc);
    assert_says(
        &facts,
        State::Failed,
        "container forbids",
        "security.nesting",
    );
    facts.container = Some(Container::Kubernetes);
    assert_says(
        &facts,
        State::Failed,
        "container forbids",
        "procMount: Unmasked",
    );
    facts.container = Some(Container::Other);
    assert_says(&facts, State::Failed, "container forbids", "seccomp");
}

#[test]
fn a_container_masks_proc() {
    let mut facts = failing(Step::MountProc, libc::EPERM);
    (facts.container, facts.proc_masked) = (Some(Container::Docker), true);
    assert_says(
        &facts,
        State::Failed,
        "masks parts of /proc",
        "systempaths=unconfined",
    );
    facts.container = Some(Container::Podman);
    assert_says(&facts, State::Failed, "masks parts of /proc", "unmask=ALL");
    facts.container = None;
    assert_says(
        &facts,
        State::Failed,
        "mounted over parts of /proc",
        "mountinfo",
    );
}

#[test]
fn a_container_forbids_mounts_by_apparmor() {
    let mut facts = failing(Step::PrivateMounts, libc::EACCES);
    facts.container = Some(Container::Docker);
    assert_says(
        &facts,
        State::Failed,
        "container forbids",
        "apparmor=unconfined",
    );
    facts.container = None;
    assert_says(
        &facts,
        State::Failed,
        "making mounts private",
        "security module",
    );
}

#[test]
fn other_sandboxes() {
    let mut facts = failing(Step::UserNamespace, libc::EPERM);
    facts.chrooted = true;
    assert_says(&facts, State::Failed, "chroot", "container");
    facts.chrooted = false;
    facts.seccomp = true;
    assert_says(&facts, State::Failed, "seccomp", "systemd");
    facts.seccomp = false;
    assert_says(&facts, State::Failed, "does not say why", "SELinux");
    facts.probe = Some(Outcomes::default());
    assert_says(&facts, State::Failed, "was killed", "seccomp");
}

#[test]
fn a_kernel_without_a_feature() {
    let eopnotsupp = libc::EOPNOTSUPP;
    let cases = [
        (
            Step::Veth,
            eopnotsupp,
            State::Failed,
            "no veth",
            "modprobe veth",
        ),
        (
            Step::Offloads,
            eopnotsupp,
            State::Failed,
            "offloads",
            "5.11",
        ),
        (
            Step::Ipv6,
            libc::ENOENT,
            State::Failed,
            "no IPv6",
            "ipv6.disable=1",
        ),
        (
            Step::PacketSocket,
            libc::EAFNOSUPPORT,
            State::Failed,
            "AF_PACKET",
            "af_packet",
        ),
        (
            Step::PacketRing,
            libc::ENOMEM,
            State::Failed,
            "ring",
            "32 MiB",
        ),
        (
            Step::PacketRing,
            libc::EINVAL,
            State::Failed,
            "ring",
            "CONFIG_PACKET",
        ),
        (
            Step::Cubic,
            libc::ENOENT,
            State::Warning,
            "cubic",
            "congestion: reno",
        ),
        (Step::Shaper, libc::ENOENT, State::Warning, "tbf", "sch_tbf"),
    ];
    for (step, errno, state, cause, remedy) in cases {
        assert_says(&failing(step, errno), state, cause, remedy);
    }
}

#[test]
fn an_old_kernel() {
    let mut facts = healthy();
    facts.kernel = (5, 15);
    assert_says(&facts, State::Warning, "too long", "5.19");
    facts.kernel = (5, 4);
    assert_says(&facts, State::Failed, "too old", "5.11");
    let mut facts = failing(Step::UserNamespace, libc::ENOSYS);
    facts.kernel = (4, 19);
    let all = diagnose(&facts);
    let failed = all.iter().filter(|finding| finding.state == State::Failed);
    assert!(failed.clone().count() == 2 && failed.clone().all(|f| f.detail.contains("too old")));
}

#[test]
fn a_small_or_slow_machine() {
    let change = |change: fn(&mut Facts)| {
        let mut facts = healthy();
        change(&mut facts);
        facts
    };
    let warn = |facts: &Facts, cause, remedy| assert_says(facts, State::Warning, cause, remedy);
    warn(&change(|f| f.cpus = 1), "one CPU", "two CPUs");
    warn(&change(|f| f.open_files = 1024), "1024", "nofile");
    warn(
        &change(|f| f.schedstat = false),
        "schedstat",
        "CONFIG_SCHED_INFO",
    );
    warn(
        &change(|f| f.memory_bytes = 100 << 20),
        "100 MiB",
        "free some",
    );
    warn(
        &change(|f| f.committable_bytes = Some(1 << 20)),
        "1 MiB",
        "overcommit_memory=0",
    );
    warn(&change(|f| f.probe = None), "not tried", "longhaul doctor");
    let slow = |f: &mut Facts| (f.clocksource, f.clock_read_ns) = ("hpet".to_owned(), 900);
    warn(&change(slow), "hpet, read in 900 ns, which is slow", "tsc");
}
