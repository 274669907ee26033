//! Decides which hosts receive on the programs' CPUs.
//!
//! The core's send call runs the stack of the receiving host, and whatever that sends in turn: an
//! acknowledgement, and at the other end the next super-packet that it allows. For one TCP
//! connection at full speed that is more work than the core's own, all on one CPU. The kernel can
//! steer it to the programs' CPUs (receive packet steering). That costs one interrupt between CPUs
//! for each burst: little beside a super-packet, much beside a datagram. Datagrams at full speed,
//! sent and received on one CPU, would lose nearly half of their rate. So only hosts with many
//! super-packets are steered, and only for as long as those come.
//!
//! Starting to steer keeps a connection in order, because the core's send call has returned only
//! once the stack has received the frame. Going back might reorder frames still on their way to
//! another CPU, so it happens only when no super-packet has come for a while.

use std::time::Duration;

use longhaul_linux::clock::MachineTime;

/// From this rate of super-packets on, an interrupt for each is worth it.
const BULK_BYTES_PER_S: f64 = 50e6;
/// A host is left to the core again when it has had less than that for this long.
const QUIET: Duration = Duration::from_secs(1);

/// Decides from what went through the hosts' interfaces.
#[derive(Debug)]
pub(crate) struct Steering {
    hosts: Vec<Host>,
}

#[derive(Debug, Clone, Default)]
struct Host {
    /// Bytes of super-packets by the last sample.
    bytes: u64,
    /// When there were last many; `None` while it is not steered.
    bulk_at: Option<MachineTime>,
}

impl Steering {
    /// For this many hosts, none of which is steered.
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            hosts: vec![Host::default(); hosts],
        }
    }

    /// Samples how many bytes of super-packets each host has had so far, `elapsed` after the last
    /// sample; returns the hosts to steer (true) and to leave to the core (false).
    pub(crate) fn sample(
        &mut self,
        now: MachineTime,
        elapsed: Duration,
        bytes: impl Fn(usize) -> u64,
    ) -> Vec<(usize, bool)> {
        let bulk = (BULK_BYTES_PER_S * elapsed.as_secs_f64()) as u64;
        let mut changes = Vec::new();
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let before = std::mem::replace(&mut host.bytes, bytes(number));
            if host.bytes - before > bulk {
                if host.bulk_at.replace(now).is_none() {
                    changes.push((number, true));
                }
            } else if host.bulk_at.is_some_and(|at| now.since(at) > QUIET) {
                host.bulk_at = None;
                changes.push((number, false));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions for a host with these bytes at each of `samples`.
    fn decisions(samples: impl IntoIterator<Item = u64>) -> Vec<(usize, bool)> {
        let mut steering = Steering::new(2);
        let tick = Duration::from_millis(20);
        let (mut now, mut total) = (MachineTime::from_ns(0), 0);
        let mut all = Vec::new();
        for bytes in samples {
            now = now + tick;
            total += bytes;
            all.extend(steering.sample(now, tick, |host| if host == 1 { total } else { 0 }));
        }
        all
    }

    #[test]
    fn a_host_is_steered_once_while_super_packets_come() {
        assert_eq!(decisions([2_000_000; 200]), [(1, true)]);
    }

    #[test]
    fn little_is_left_to_the_core() {
        assert_eq!(decisions([500_000; 200]), []);
    }

    #[test]
    fn a_pause_changes_nothing_and_an_end_does() {
        let bulk = [2_000_000; 5];
        let pause = bulk.into_iter().chain([0; 40]).chain(bulk);
        assert_eq!(decisions(pause), [(1, true)]);
        let end = bulk.into_iter().chain([0; 100]).chain(bulk);
        assert_eq!(decisions(end), [(1, true), (1, false), (1, true)]);
    }
}
