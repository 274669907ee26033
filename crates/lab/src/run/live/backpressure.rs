//! Limits how fast hosts may send, so that programs that can wait never overrun the machine.
//!
//! A host sends through a shaper (`bottleneck.rs`). Where its link limits it, the shaper has the link's
//! rate; where only the machine does, it has the machine's rate, which is unknown and changes.
//!
//! One control law finds that rate ([`Allowance`]), as TCP finds a path's rate: the allowance grows by
//! large steps until the core falls behind for the first time, shrinks whenever the core falls behind,
//! and grows by small steps from then on (slow start and congestion avoidance, RFC 5681; the steps are
//! multiplicative, since machines' speeds span three orders of magnitude). The signal is the share of
//! arrivals that waited too long in the core's receive rings. It is sampled every 20 ms, and acted on
//! when two samples in a row show it. The allowance does not grow where the core would be overloaded if
//! all hosts filled their buckets: TCP's windows can fill them within one round trip.
//!
//! All hosts have the same allowance. Once the core has fallen behind, it also limits hosts whose links
//! are faster, so that no packet is lost that a slower network would have carried. Such a link is slower
//! than it claims, and the verdict says so ([`Backpressure::left`]).
//!
//! All times and rates are in machine time: the core's load, and what a shaper lets through.
//!
//! Left out: hosts behind links that send packets one by one. What the core cannot carry of theirs is
//! shed at ingress (`drive/overload.rs`).

mod link;
#[cfg(test)]
mod tests;

use std::time::Duration;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_linux::sandbox::{Shaper, Traffic};

use self::link::LinkShaper;
use crate::run::live::bottleneck::{
    Bottleneck, COST_BYTES_PER_S, PACKET_COST_BYTES, machine_shaper,
};

/// Allowances stay within these bounds, as multiples of [`COST_BYTES_PER_S`]; the first one lets most
/// machines keep up at once.
const SPEED_MIN: f64 = 0.02;
pub(crate) const SPEED_START: f64 = 0.3;
const SPEED_MAX: f64 = 16.0;
/// The core is behind where more than this part of arrivals had waited too long (`BEHIND`) while it
/// was busy for more than that part of the time (`BUSY`). With `BEHIND` at 0.1, the 99th percentile
/// of lateness was three times as high where hosts hand over super-packets, which come in bursts.
const BEHIND: f64 = 0.02;
const BUSY: f64 = 0.5;
/// Allowances do not grow where the core's load would be more than this if all filled their buckets.
const FULL: f64 = 0.85;
/// The factor by which an overload shrinks the allowance, every 20 ms; with 0.8, twenty hops carried
/// a fifth less.
const SHRINK: f64 = 0.9;
/// The factors of growth, every 20 ms: twofold in 100 ms until the core first falls behind, in 700 ms
/// from then on.
const GROW: f64 = 1.15;
const GROW_CAREFUL: f64 = 1.02;
/// A host that uses less than this part of its shaper's rate only acknowledges, and will not fill it.
const BULK: f64 = 0.1;
/// A host that uses more than this part of its shaper's rate is held back by it: the kernel refills a bucket
/// late, and tokens beyond its depth are lost meanwhile.
const HELD_BACK: f64 = 0.4;
/// A shaper is changed when its rate is off by more than this part: the machine's speed is known no
/// better, while a link's rate is promised.
const WORTH_A_CHANGE: f64 = 0.04;
const WORTH_A_CHANGE_OF_LINK: f64 = 0.002;
/// The most shapers changed per sample: each change is a request to the sandbox.
const CHANGES_MAX: usize = 32;

/// The shapers of hosts that the machine may have to hold back.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    allowance: Allowance,
    hosts: Vec<Host>,
    /// The part of their links' rates that hosts that wanted all of it were left, summed over samples,
    /// and the number of samples, since [`left`](Self::left) was called last.
    left: (f64, u32),
}

#[derive(Debug)]
struct Host {
    number: usize,
    kind: HostShaper,
    /// Bytes per second that its shaper lets through at present.
    applied: f64,
    /// What had come from it by the last sample.
    seen: Seen,
}

#[derive(Debug)]
enum HostShaper {
    /// Only the machine limits the host, whose longest frame has `frame` bytes.
    Machine {
        frame: u32,
        /// The part of its shaper's rate that a host uses if it always has something to send.
        most: f64,
    },
    /// Its link limits it.
    Link(LinkShaper),
}

/// What has come from a host so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// How long those packets queued behind others in the link, in sum.
    pub(crate) waited: Duration,
}

/// The core's load since the last sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoreLoad {
    pub(crate) elapsed: Duration,
    /// The part of that time in which it was busy.
    pub(crate) load: f64,
    /// The part of arrivals that had waited too long.
    pub(crate) behind: f64,
}

impl Backpressure {
    /// Starts to govern a host that has this bottleneck from now on, or governs it anew; returns its shaper.
    /// Its packets have at most `mtu` bytes, its frames at most `frame`.
    pub(crate) fn follow(
        &mut self,
        number: usize,
        bottleneck: Bottleneck,
        (mtu, frame): (u32, u32),
        seen: Seen,
    ) -> Shaper {
        self.hosts.retain(|host| host.number != number);
        let (kind, shaper) = match bottleneck {
            Bottleneck::Machine => {
                let most = if frame > mtu + ETHERNET_LEN as u32 {
                    1.0
                } else {
                    HELD_BACK
                };
                let shaper = machine_shaper(self.allowance.speed, frame);
                (HostShaper::Machine { frame, most }, shaper)
            }
            Bottleneck::Link { shaper, .. } if shaper.traffic == Traffic::SuperPackets => {
                (HostShaper::Link(LinkShaper::new(shaper, mtu)), shaper)
            }
            Bottleneck::Link { shaper, .. } => return shaper,
        };
        self.hosts.push(Host {
            number,
            kind,
            applied: shaper.bytes_per_s as f64,
            seen,
        });
        shaper
    }

    /// Takes a sample: the core's load, and what has come from each host so far. Returns the shapers
    /// that have to change.
    pub(crate) fn sample(
        &mut self,
        core_load: CoreLoad,
        seen: impl Fn(usize) -> Seen,
    ) -> Vec<(usize, Shaper)> {
        let mut senders = Vec::new();
        let mut wanted = Wanted::default();
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let now = seen(host.number);
            let then = std::mem::replace(&mut host.seen, now);
            let new = Seen {
                packets: now.packets - then.packets,
                bytes: now.bytes - then.bytes,
                waited: now.waited.saturating_sub(then.waited),
            };
            if new.packets > 0 {
                senders.push((index, new));
                wanted.take(host, &new, core_load.elapsed);
            }
        }
        if let Some(rate) = wanted.held_back {
            let left = self.allowance.of_links() / rate;
            self.left = (self.left.0 + left.min(1.0), self.left.1 + 1);
        }
        if senders.is_empty() {
            return Vec::new();
        }
        self.allowance.adapt(&core_load, &wanted);
        self.change(&senders)
    }

    /// The new shapers of hosts that have sent something.
    fn change(&mut self, senders: &[(usize, Seen)]) -> Vec<(usize, Shaper)> {
        let mut changes = Vec::new();
        for (index, new) in senders {
            let host = &mut self.hosts[*index];
            let (shaper, worth) = match &host.kind {
                HostShaper::Machine { frame, .. } => {
                    let shaper = machine_shaper(self.allowance.speed, *frame);
                    (shaper, WORTH_A_CHANGE)
                }
                HostShaper::Link(link) => {
                    let shaper = link.adjusted(new, self.allowance.of_links());
                    (shaper, WORTH_A_CHANGE_OF_LINK)
                }
            };
            let rate = shaper.bytes_per_s as f64;
            if (rate / host.applied - 1.0).abs() > worth {
                host.applied = rate;
                changes.push((host.number, shaper));
            }
            if changes.len() == CHANGES_MAX {
                // The others come first in the next sample, so that none is left behind for ever.
                self.hosts.rotate_left(index + 1);
                break;
            }
        }
        changes
    }

    /// The part of their links' rates that the machine left to hosts that wanted all of it, on
    /// average since this was called last; of several hosts in a sample the worst counts.
    pub(crate) fn left(&mut self) -> Option<f64> {
        let (sum, samples) = std::mem::take(&mut self.left);
        (samples > 0).then(|| sum / f64::from(samples))
    }
}

/// What hosts want of their shapers, in one sample.
#[derive(Debug, Default)]
struct Wanted {
    /// Whether a host that only the machine limits has sent something.
    machine: bool,
    /// What such hosts have used, if they do more than acknowledge, and what they would have used if
    /// they had always had something to send; in bytes of cost.
    used: f64,
    most: f64,
    /// The rate of the fastest link that has sent something, in bytes per second.
    fastest: f64,
    /// The same of links whose hosts are held back by their shapers.
    held_back: Option<f64>,
}

impl Wanted {
    fn take(&mut self, host: &Host, new: &Seen, elapsed: Duration) {
        let allowed = host.applied * elapsed.as_secs_f64();
        match &host.kind {
            HostShaper::Machine { most, .. } => {
                self.machine = true;
                let used = (new.bytes + new.packets * PACKET_COST_BYTES) as f64;
                if used > BULK * allowed {
                    self.used += used;
                    self.most += most * allowed;
                }
            }
            HostShaper::Link(link) => {
                self.fastest = self.fastest.max(link.rate());
                if new.bytes as f64 > HELD_BACK * allowed {
                    let fastest = self.held_back.unwrap_or(0.0);
                    self.held_back = Some(fastest.max(link.rate()));
                }
            }
        }
    }

    /// The core's load if those hosts filled their buckets.
    fn load(&self, load: f64) -> f64 {
        if self.used > 0.0 {
            load * (self.most / self.used).max(1.0)
        } else {
            load
        }
    }
}

/// The rate that the machine allows each host.
#[derive(Debug)]
struct Allowance {
    /// As a multiple of [`COST_BYTES_PER_S`].
    speed: f64,
    was_behind: bool,
    /// Whether the core has fallen behind before.
    is_careful: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            speed: SPEED_START,
            was_behind: false,
            is_careful: false,
        }
    }
}

impl Allowance {
    /// Bytes per second for hosts whose links limit them: unlimited until the core first falls behind.
    fn of_links(&self) -> f64 {
        if self.is_careful {
            self.speed * COST_BYTES_PER_S
        } else {
            f64::INFINITY
        }
    }

    /// Adapts the allowance to a sample.
    fn adapt(&mut self, core_load: &CoreLoad, wanted: &Wanted) {
        let is_behind = core_load.behind > BEHIND && core_load.load > BUSY;
        let was_behind = std::mem::replace(&mut self.was_behind, is_behind);
        if is_behind && was_behind {
            // Nobody has been held to the allowance yet, so it starts from the rate that proved too
            // much, the fastest link's. What the core took is not a measure: overrun, it takes less.
            if !wanted.machine && !self.is_careful {
                self.speed = wanted.fastest / COST_BYTES_PER_S;
            }
            self.speed *= SHRINK;
            self.is_careful = true;
        }
        // An allowance that limits nobody does not grow: nothing would show that it is too large.
        let has_machine = wanted.used > 0.0;
        let has_link = wanted.held_back.is_some_and(|rate| self.of_links() < rate);
        let has_room = !is_behind && wanted.load(core_load.load) < FULL;
        if has_room && (has_machine || has_link) {
            self.speed *= if self.is_careful { GROW_CAREFUL } else { GROW };
        }
        self.speed = self.speed.clamp(SPEED_MIN, SPEED_MAX);
    }
}
