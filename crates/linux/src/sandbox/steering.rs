//! Receive packet steering: which CPUs run the receiving side of a cable.
//!
//! A veth cable hands a frame to the queue of the CPU that sends it (`veth_forward_skb` in
//! `drivers/net/veth.c`), unless the receiving interface steers it elsewhere (`get_rps_cpu` in
//! `net/core/dev.c`).
//!
//! - The core's end: hosts send from many CPUs, whose queues race. Super-packets must stay in
//!   order, so all are steered to the queue of one CPU. A namespace may set that for new interfaces
//!   without root ([`DEFAULT_MASK`], since Linux 6.3).
//! - A host's end: the core sends, so its CPU runs the whole stack of every host, and whatever that
//!   sends in turn. [`open`] gives the file that steers this work to the programs' CPUs during a
//!   run. Only the machine's own root may write it (`store_rps_map` in `net/core/net-sysfs.c`),
//!   whoever owns the namespace.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

use super::{Answer, Request, Sandbox, SandboxError, boot, launch, unexpected};
use crate::sys;

/// The mask of CPUs that receive for each new interface of a network namespace.
pub(super) const DEFAULT_MASK: &str = "/proc/sys/net/core/rps_default_mask";

/// Whether this kernel can keep super-packets in order.
pub fn orders_super_packets() -> bool {
    Path::new(DEFAULT_MASK).exists()
}

impl Sandbox {
    /// Steers what a host receives to the programs' CPUs, or leaves it to the core's, which sends
    /// it. False where the kernel does not allow it: only the machine's root may.
    pub fn steer(&mut self, host: usize, to_programs: bool) -> Result<bool, SandboxError> {
        if self.cpus.is_empty() {
            return Ok(false);
        }
        let (answer, mut fds) = self.ask(&Request::OpenSteering { host }, &[])?;
        let Answer::Steering = answer else {
            return Err(unexpected(answer));
        };
        let cpus: &[usize] = if to_programs { &self.cpus } else { &[] };
        let mask = cpu_mask(cpus);
        let write = |file| File::from(file).write_all(mask.as_bytes()).is_ok();
        Ok(fds.pop().is_some_and(write))
    }
}

/// CPUs as the kernel reads sets of them: words of 32 bits in hexadecimal, the highest first.
pub(super) fn cpu_mask(cpus: &[usize]) -> String {
    let highest = cpus.iter().max().copied().unwrap_or(0);
    let mut words = vec![0u32; highest / 32 + 1];
    for cpu in cpus {
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let mut mask = String::new();
    for word in words.iter().rev() {
        let comma = if mask.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(mask, "{comma}{word:08x}");
    }
    mask
}

/// The mask of the first CPU that the kernel accepts for steering (`write` says whether it does):
/// it refuses isolated ones (`rps_cpumask_housekeeping` in `net/core/net-sysfs.c`).
pub(super) fn first_mask(cpus: &[usize], write: impl Fn(&str) -> io::Result<()>) -> Option<String> {
    let cpus = if cpus.is_empty() { &[0] } else { cpus };
    let mut masks = cpus.iter().map(|cpu| cpu_mask(&[*cpu]));
    masks.find(|mask| write(mask).is_ok())
}

/// The file with the mask of a host's interface, by the host's init.
pub(super) fn open(init: i32) -> io::Result<File> {
    let path = format!("class/net/{}/queues/rx-0/rps_cpus", boot::INTERFACE);
    launch::inside_network_of(init, || {
        let sysfs = sys::mount_sysfs(false)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(openat(sysfs, path, flags, Mode::empty())?.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_with_the_highest_first() {
        assert_eq!(cpu_mask(&[]), "00000000");
        assert_eq!(cpu_mask(&[0, 2, 31]), "80000005");
        assert_eq!(cpu_mask(&[1, 33, 64]), "00000001,00000002,00000002");
    }

    #[test]
    fn super_packets_go_to_the_first_cpu_that_takes_them() {
        let refuses = |cpus: &'static [usize]| {
            move |mask: &str| {
                if cpus.iter().any(|cpu| cpu_mask(&[*cpu]) == mask) {
                    Err(io::Error::from_raw_os_error(libc::EINVAL))
                } else {
                    Ok(())
                }
            }
        };
        let first = |cpus: &[usize], refused| first_mask(cpus, refuses(refused));
        assert_eq!(first(&[1, 2], &[]), Some(cpu_mask(&[1])));
        assert_eq!(first(&[1, 2], &[1]), Some(cpu_mask(&[2])));
        assert_eq!(first(&[33, 64], &[33]), Some(cpu_mask(&[64])));
        assert_eq!(first(&[1, 2], &[1, 2]), None);
        assert_eq!(first(&[], &[]), Some(cpu_mask(&[0])));
        assert_eq!(first(&[], &[0]), None);
    }
}
