//! Keeps what hosts have under way in their links where their cards would.
//!
//! A bucket that takes super-packets counts a link's framing once for each, and the link counts it
//! for each packet: at the link's own rate it lets through a little too much, and what comes too
//! early waits in the link; or, where only IP packets count and not their Ethernet headers, too
//! little. So the bucket follows what the packets of a host find there: slower where that is more
//! than half of the bucket's depth, faster where it is less. In the middle the link has something
//! to send for as long as the machine is likely to stand still.
//!
//! The link itself adds up what the bucket has too much, so a step in proportion to the difference
//! is enough. It starts from the rate at which frames of the present mean length come as fast as
//! the link sends them, if they are of whole segments.
//!
//! Where the core does not keep up with its arrivals, these hosts are held back besides, all of
//! them to the same rate, so that no packet is lost that a slower network would have carried. A
//! link above that rate is slower than it claims, and the verdict says so.
//!
//! A kernel fills buckets by the machine's clock, so all of it is machine time: what waits in a
//! link, for how long, and how fast the link empties.

use std::time::Duration;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_linux::sandbox::{Shaper, Traffic};

use crate::run::live::nic::Limit;

/// A difference is to be gone after about so long: several looks.
const SETTLE: Duration = Duration::from_millis(50);
/// A bucket is changed when it is off by more than this.
const WORTH_A_CHANGE: f64 = 0.002;
/// For its link's sake a bucket is never slower than this part of the link's rate, nor faster than
/// the link by more than that part of it.
const SLOWEST: f64 = 0.9;
const FASTER: f64 = 0.01;
/// What the machine lets every host send at first, and at least, in bytes per second.
const FIRST: f64 = 1e9;
const LEAST: f64 = 1e6;
/// The core does not keep up where more than this part of arrivals was stale, twice in a row, and
/// it was busy for more than that part of the time. Short of either, it was a stall of the machine:
/// a quarter of a look is nothing unusual.
const BEHIND_MANY: f64 = 0.4;
const BUSY: f64 = 0.75;
const SHRINK: f64 = 0.7;
/// Below this load hosts that are held back get more: at first much, once they had too much little.
const LOAD_LOW: f64 = 0.9;
const GROW: f64 = 1.15;
const GROW_CAREFUL: f64 = 1.02;
/// A host that uses more than this part of its bucket is held back by it.
const HELD_BACK: f64 = 0.6;
/// Most buckets changed at a time.
const CHANGES_MAX: usize = 32;

/// Trims the buckets of hosts that hand over super-packets and that their links limit.
#[derive(Debug)]
pub(crate) struct Trim {
    hosts: Vec<Trimmed>,
    /// What the machine lets each of them send, in bytes per second.
    machine: f64,
    grow: f64,
    was_behind: bool,
    /// What it left them of their links, summed up over so many looks, since somebody asked.
    left: (f64, u32),
}

#[derive(Debug)]
struct Trimmed {
    number: usize,
    /// Its bucket, at the link's own rate.
    shaper: Shaper,
    /// The length of a whole packet's frame.
    whole: f64,
    /// What the bucket has at present, as a part of that rate.
    applied: f64,
    /// What had come from it at the last look.
    seen: Seen,
}

/// What has come from a host so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// How long those packets had to wait for others in the link, all together.
    pub(crate) waited: Duration,
}

impl Default for Trim {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            machine: FIRST,
            grow: GROW,
            was_behind: false,
            left: (0.0, 0),
        }
    }
}

impl Trim {
    /// Takes note of what limits a host now, whose packets have at most `mtu` bytes.
    pub(crate) fn follow(&mut self, host: usize, limit: Limit, mtu: u32, seen: Seen) {
        self.hosts.retain(|trimmed| trimmed.number != host);
        match limit {
            Limit::Link { shaper, .. } if shaper.traffic == Traffic::SuperPackets => {
                self.hosts.push(Trimmed {
                    number: host,
                    shaper,
                    whole: f64::from(mtu) + ETHERNET_LEN as f64,
                    applied: 1.0,
                    seen,
                });
            }
            Limit::Link { .. } | Limit::Machine => {}
        }
    }

    /// Looks at the core's `load` (busy part of `elapsed`), at which part of the arrivals it was
    /// `behind` with, and at what has come from each host so far; says which buckets are to change.
    pub(crate) fn look(
        &mut self,
        load: f64,
        behind: f64,
        elapsed: Duration,
        seen: impl Fn(usize) -> Seen,
    ) -> Vec<(usize, Shaper)> {
        let mut changes = Vec::new();
        let (mut left, mut fastest, mut last) = (None, 0.0f64, 0);
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let (now, then) = (seen(host.number), std::mem::take(&mut host.seen));
            host.seen = now;
            let packets = now.packets - then.packets;
            if packets == 0 {
                continue;
            }
            let rate = host.shaper.bytes_per_s as f64;
            let bytes = (now.bytes - then.bytes) as f64;
            if bytes > HELD_BACK * rate * host.applied * elapsed.as_secs_f64() {
                left = Some((self.machine / rate).min(left.unwrap_or(1.0)));
                fastest = fastest.max(rate);
            }
            let wait = now.waited.saturating_sub(then.waited).as_secs_f64() / packets as f64;
            let even = host.even(bytes / packets as f64);
            let part = even + (middle(&host.shaper) - wait) / SETTLE.as_secs_f64();
            let part = part.clamp(SLOWEST, even.max(1.0) + FASTER);
            let part = part.min(self.machine / rate);
            if (part - host.applied).abs() > WORTH_A_CHANGE && changes.len() < CHANGES_MAX {
                host.applied = part;
                changes.push((host.number, at(&host.shaper, part)));
                last = index;
            }
        }
        if changes.len() == CHANGES_MAX {
            // The others first the next time.
            self.hosts.rotate_left(last + 1);
        }
        if let Some(left) = left {
            self.left = (self.left.0 + left, self.left.1 + 1);
            let more = left < 1.0 && load < LOAD_LOW;
            self.govern(behind > BEHIND_MANY && load > BUSY, more, fastest);
        }
        changes
    }

    /// Lets hosts have less where the core `is_behind`, and `more` where they want it, up to the
    /// rate of the `fastest` link of those who want it all.
    fn govern(&mut self, is_behind: bool, more: bool, fastest: f64) {
        let was_behind = std::mem::replace(&mut self.was_behind, is_behind);
        if is_behind && was_behind {
            self.machine = self.machine.min(fastest) * SHRINK;
            self.grow = GROW_CAREFUL;
        } else if more && !is_behind {
            self.machine *= self.grow;
        }
        self.machine = self.machine.clamp(LEAST, fastest.max(FIRST));
    }

    /// The part of their links' rates that the machine left to hosts that wanted all of it, on
    /// average since this was asked last; of several hosts at a time the worst counts.
    pub(crate) fn left(&mut self) -> Option<f64> {
        let (sum, looks) = std::mem::take(&mut self.left);
        (looks > 0).then(|| sum / f64::from(looks))
    }
}

impl Trimmed {
    /// The part of its rate at which frames of `len` bytes come as fast as the link sends them,
    /// which counts the overhead for each segment.
    fn even(&self, len: f64) -> f64 {
        let (segments, overhead) = ((len / self.whole).max(1.0), f64::from(self.shaper.overhead));
        (self.whole + overhead / segments) / (self.whole + overhead)
    }
}

/// The time in which the link sends half of what its bucket holds, in seconds.
fn middle(shaper: &Shaper) -> f64 {
    f64::from(shaper.burst_bytes) / shaper.bytes_per_s as f64 / 2.0
}

/// A bucket with a part of its rate and the same number of bytes.
fn at(shaper: &Shaper, part: f64) -> Shaper {
    Shaper {
        bytes_per_s: (shaper.bytes_per_s as f64 * part) as u64,
        ..*shaper
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Dilation;
    use longhaul_core::Span;
    use longhaul_core::topology::PipeParams;
    use longhaul_core::units::{Framing, Rate};

    const TICK: Duration = Duration::from_millis(20);
    const GIGABIT: f64 = 125e6;

    fn limit(bits_per_s: u64) -> Limit {
        framed(bits_per_s, Framing::Ethernet, Dilation::NONE)
    }

    fn framed(bits_per_s: u64, framing: Framing, dilation: Dilation) -> Limit {
        let pipe = PipeParams {
            rate: Rate::from_bits_per_s(bits_per_s),
            framing,
            ..PipeParams::default()
        };
        crate::run::live::nic::limit(&[pipe], 1500, true, dilation)
    }

    /// A host that always sends, in frames of so many packets of 1514 bytes on the cable. Its
    /// bucket counts the overhead for each frame, and its link for each packet.
    struct Greedy {
        overhead: f64,
        trim: Trim,
        dilation: Dilation,
        /// What its link sends in a second of the machine.
        link: f64,
        /// And in one of the experiment.
        own: f64,
        bucket: f64,
        packets_in_frame: f64,
        /// Counted bytes that wait in the link.
        waits: f64,
        seen: Seen,
    }

    impl Greedy {
        fn new(bits_per_s: u64, packets_in_frame: f64) -> Self {
            let none = Dilation::NONE;
            Self::framed(bits_per_s, packets_in_frame, Framing::Ethernet, none)
        }

        fn framed(
            bits_per_s: u64,
            packets_in_frame: f64,
            framing: Framing,
            dilation: Dilation,
        ) -> Self {
            let limit = framed(bits_per_s, framing, dilation);
            let mut trim = Trim::default();
            trim.follow(0, limit, 1500, Seen::default());
            let link = dilation.per_machine_second(bits_per_s) as f64 / 8.0;
            // A full bucket comes at once.
            let Limit::Link { shaper, .. } = limit else {
                panic!("its link limits it");
            };
            Self {
                overhead: shaper.overhead.into(),
                trim,
                dilation,
                link,
                own: bits_per_s as f64 / 8.0,
                bucket: link,
                packets_in_frame,
                waits: shaper.burst_bytes.into(),
                seen: Seen::default(),
            }
        }

        /// A look later, of a core that carries so many bytes per second.
        fn tick(&mut self, capacity: f64) {
            let load = self.bucket / capacity;
            let behind = if load > 1.0 { 0.5 } else { 0.0 };
            let counted = self.packets_in_frame * 1514.0 + self.overhead;
            let frames = self.bucket * TICK.as_secs_f64() / counted;
            self.seen.packets += frames as u64;
            self.seen.bytes += (frames * self.packets_in_frame * 1514.0) as u64;
            let wait = Span::from_ns((self.waits / self.own * 1e9) as u64);
            let all = Span::from_ns(wait.as_ns() * frames as u64);
            self.seen.waited += self.dilation.duration(all);
            let (came, sent) = (
                frames * self.packets_in_frame * (1514.0 + self.overhead),
                self.link * TICK.as_secs_f64(),
            );
            self.waits = (self.waits + came - sent).max(0.0);
            let changes = self.trim.look(load.min(1.0), behind, TICK, |_| self.seen);
            for (host, shaper) in changes {
                assert_eq!(host, 0);
                self.bucket = shaper.bytes_per_s as f64;
            }
        }
    }

    #[test]
    fn what_waits_settles_near_half_a_bucket() {
        for framing in [Framing::Ip, Framing::Ethernet, Framing::Wire] {
            for (factor, packets_in_frame) in [(1, 1.0), (1, 4.0), (1, 41.0), (10, 4.0), (10, 41.0)]
            {
                // The same link by the machine's clock.
                let rate = 1_000_000_000 * u64::from(factor);
                let dilation = Dilation::by(factor);
                let mut host = Greedy::framed(rate, packets_in_frame, framing, dilation);
                (0..500).for_each(|_| host.tick(1e12));
                let ms = host.waits / host.link * 1e3;
                let case = (framing, packets_in_frame, factor);
                assert!((0.7..1.3).contains(&ms), "{case:?}: {ms} ms wait");
                assert_eq!(host.trim.left(), Some(1.0));
                assert_eq!(host.trim.left(), None, "nobody has sent since");
            }
        }
    }

    #[test]
    fn what_waits_too_much_goes_away() {
        let mut host = Greedy::new(1_000_000_000, 41.0);
        host.waits = 4e-3 * host.link;
        (0..15).for_each(|_| host.tick(1e12));
        let ms = host.waits / host.link * 1e3;
        assert!((0.7..1.5).contains(&ms), "{ms} ms wait");
    }

    #[test]
    fn an_overrun_core_holds_hosts_back_and_the_verdict_hears_of_it() {
        let mut host = Greedy::new(10_000_000_000, 43.0);
        (0..500).for_each(|_| host.tick(6.0 * GIGABIT));
        host.trim.left();
        (0..50).for_each(|_| host.tick(6.0 * GIGABIT));
        let part = host.bucket / (6.0 * GIGABIT);
        assert!((0.6..1.1).contains(&part), "{part} of what it carries");
        let left = host.trim.left().expect("it wants more");
        assert!((0.3..0.7).contains(&left), "{left} of its link");
        // A machine that becomes faster lets it have all.
        (0..500).for_each(|_| host.tick(1e12));
        host.trim.left();
        (0..50).for_each(|_| host.tick(1e12));
        assert_eq!(host.trim.left(), Some(1.0));
    }

    #[test]
    fn a_host_that_is_not_held_back_says_nothing() {
        let mut trim = Trim::default();
        trim.follow(0, limit(10_000_000_000), 1500, Seen::default());
        for tick in 1..100 {
            let seen = Seen {
                packets: tick,
                bytes: tick * 66,
                waited: Duration::ZERO,
            };
            trim.look(1.0, 0.9, TICK, |_| seen);
        }
        assert_eq!(trim.left(), None);
    }

    #[test]
    fn only_hosts_with_super_packets_and_a_link_are_trimmed() {
        let mut trim = Trim::default();
        let seen = |packets| Seen {
            packets,
            ..Seen::default()
        };
        trim.follow(0, limit(1_000_000_000), 1500, Seen::default());
        assert_eq!(trim.look(0.1, 0.0, TICK, |_| seen(1)).len(), 1);
        assert!(
            trim.look(0.1, 0.0, TICK, |_| seen(2)).is_empty(),
            "as before"
        );
        trim.follow(0, Limit::Machine, 1500, Seen::default());
        trim.follow(1, limit(1_000_000), 1500, Seen::default());
        assert!(trim.hosts.is_empty());
    }
}
