//! Governs hosts by the machine's state: how fast they may send (`backpressure.rs`), and on which
//! CPUs they receive (`steering.rs`).

use std::time::Duration;

use longhaul_emulation::Known;
use longhaul_linux::clock::MachineTime;
use longhaul_linux::sandbox::SandboxError;

use super::supervise::{Supervisor, TICK};
use crate::pace::Pace;
use crate::run::live::backpressure::{Backpressure, CoreLoad, Seen};
use crate::run::live::bottleneck;
use crate::run::live::drive::Load;
use longhaul_plan::plan::Plan;

impl Supervisor<'_> {
    /// Samples the core's load every [`TICK`], and adjusts hosts' shapers and steering.
    pub(super) fn govern(&mut self, now: MachineTime) -> Result<(), SandboxError> {
        let (then, busy_then, [stale_then, read_then]) = self.governed;
        let elapsed = now.since(then);
        if elapsed < TICK {
            return Ok(());
        }
        let (counts, pace) = (&self.core.load, self.core.pace);
        let (busy, stale, read) = (counts.busy(), counts.stale(), counts.read());
        self.governed = (now, busy, [stale, read]);
        let core_load = CoreLoad {
            elapsed,
            load: busy.saturating_sub(busy_then).as_secs_f64() / elapsed.as_secs_f64(),
            behind: (stale - stale_then) as f64 / (read - read_then).max(1) as f64,
        };
        let changes = self
            .backpressure
            .sample(core_load, |host| seen(counts, pace, host));
        for (host, shaper) in changes {
            match self.sandbox.set_shaper(host, shaper) {
                // The host has died, and its event says so.
                Ok(()) | Err(SandboxError::Setup(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.steer(now, elapsed)
    }

    /// Moves the receive path of hosts with many super-packets away from the core's CPU.
    fn steer(&mut self, now: MachineTime, elapsed: Duration) -> Result<(), SandboxError> {
        let Some(steering) = &mut self.steering else {
            return Ok(());
        };
        for (host, steered) in steering.sample(now, elapsed, |host| self.core.load.bulk(host)) {
            match self.sandbox.steer(host, steered) {
                // `Setup` is a host that has died.
                Ok(true) | Err(SandboxError::Setup(_)) => {}
                // The kernel does not allow steering: not for the next host either.
                Ok(false) => self.steering = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What has come from a host so far.
pub(super) fn seen(load: &Load, pace: Pace, host: usize) -> Seen {
    let (packets, bytes) = load.arrived(host);
    Seen {
        packets,
        bytes,
        waited: pace.duration(load.waited(host)),
    }
}

/// The most bytes of a host's packets, and of its frames.
pub(super) fn lengths(plan: &Plan, host: usize, offload: bool) -> (u32, u32) {
    let mtu = plan.hosts[host].mtu;
    (mtu, bottleneck::longest_frame(mtu, offload))
}

/// The shapers that hosts start with.
pub(super) fn backpressure(plan: &Plan, offload: bool) -> Backpressure {
    let mut backpressure = Backpressure::default();
    for host in 0..plan.hosts.len() {
        let bottleneck = bottleneck::of_host(plan, &plan.hosts[host], &Known::default(), offload);
        backpressure.follow(
            host,
            bottleneck,
            lengths(plan, host, offload),
            Seen::default(),
        );
    }
    backpressure
}
