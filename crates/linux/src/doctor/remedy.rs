//! The remedies: what to type, as exactly as it can be said.

use super::facts::Container;

/// For a sysctl that forbids: now, and after the next start too.
pub(super) fn sysctl(setting: &str) -> String {
    format!(
        "sudo sysctl {setting}\n\
         and to keep it: echo '{setting}' | sudo tee /etc/sysctl.d/60-longhaul.conf"
    )
}

/// For Ubuntu, where only programs with a profile may make user namespaces.
pub(super) fn apparmor(program: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let quote = if program.chars().all(plain) { "" } else { "\"" };
    format!(
        "give this program an AppArmor profile (in a container: on the machine that it runs on):\n\
         sudo tee /etc/apparmor.d/longhaul >/dev/null <<'END'\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile longhaul {quote}{program}{quote} flags=(unconfined) {{\n\
         \x20 userns,\n\
         }}\n\
         END\n\
         sudo apparmor_parser -r /etc/apparmor.d/longhaul\n\
         or allow it to every program: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    )
}

/// For a container that is closed more tightly than a run needs.
pub(super) fn container(kind: Container) -> String {
    match kind {
        Container::Docker => "start the container with\n\
             docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined …\n\
             (no --privileged and no --cap-add is needed)"
            .to_owned(),
        Container::Podman => "start the container with\n\
             podman run --security-opt seccomp=unconfined --security-opt unmask=ALL \
             --security-opt label=disable …\n\
             (no --privileged and no --cap-add is needed)"
            .to_owned(),
        Container::Kubernetes => "give the pod `hostUsers: false` and the container\n\
             securityContext: { seccompProfile: { type: Unconfined }, \
             appArmorProfile: { type: Unconfined }, procMount: Unmasked }"
            .to_owned(),
        Container::Lxc => "allow nesting, from outside:\n\
             lxc config set NAME security.nesting true && lxc restart NAME\n\
             (on Proxmox: pct set ID --features nesting=1)"
            .to_owned(),
        Container::Other => "start the container without a seccomp filter, without an AppArmor \
             profile and without masked paths in /proc; no further rights are needed"
            .to_owned(),
    }
}

/// For a feature of the kernel that may be there as a module.
pub(super) fn module(name: &str) -> String {
    format!(
        "sudo modprobe {name}\n\
         and to keep it: echo {name} | sudo tee /etc/modules-load.d/longhaul-{name}.conf\n\
         (in a container: on the machine that it runs on)"
    )
}
