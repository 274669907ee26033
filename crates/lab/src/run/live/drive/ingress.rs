//! Ingress: reads a bounded batch of arrivals from the receive rings and admits those that are not shed.
//!
//! Arrivals enter the engine at their stamps. Waiting in the ring costs a frame nothing for as long as
//! it would have waited in its first pipe anyway, for the pipe's delay or behind others; any longer wait
//! makes it stale. `overload.rs` decides which stale frames are shed.

use std::time::Duration;

use longhaul_core::engine::Refused;
use longhaul_core::packet::FrameError;
use longhaul_core::segment::{Kind, Super};
use longhaul_core::topology::PipeId;
use longhaul_core::{NodeId, Span, Time};
use longhaul_emulation::Emulation;
use longhaul_linux::clock::MachineTime;

use super::overload::Waiting;
use super::overrun::Overrun;
use super::platform::{Arrival, Platform};
use super::{Drive, add, offload};
use crate::pace::{Now, Pace};

/// The most frames read before due packets are sent, which bounds how long reading delays those: 16
/// frames take less than 10 us. A larger batch would spread the cost of a turn hardly any further.
pub(super) const ARRIVALS: usize = 16;
/// Frames that have waited in the ring for this long are a backlog, even where they are not late yet.
const BACKLOG: Duration = Duration::from_millis(1);
/// Frames that have waited longer are stale whatever their first pipe: the rings hold no more than this.
const BACKLOG_MAX: Duration = Duration::from_millis(10);
/// Copying this many bytes takes as long as handling a packet, and counts as one against the batch.
const COPIED_BYTES: usize = 1024;
/// A frame may be stamped after the clock was read, but no further ahead than this.
const STAMP_AHEAD_MAX: Duration = Duration::from_millis(1);

/// The bounds on a frame's wait in the ring. Frames are stamped in experiment time, so the bounds above,
/// in machine time, are converted to it here; how far the loop is behind is machine time.
#[derive(Debug)]
pub(super) struct Ingress {
    pace: Pace,
    /// How late packets may be.
    tolerance: Span,
    backlog: Span,
    backlog_max: Span,
    stamp_ahead_max: Span,
    overrun: Overrun,
}

impl Ingress {
    pub(super) fn new(tolerance: Span, pace: Pace) -> Self {
        Self {
            pace,
            tolerance,
            backlog: pace.span(BACKLOG),
            backlog_max: pace.span(BACKLOG_MAX),
            stamp_ahead_max: pace.span(STAMP_AHEAD_MAX),
            overrun: Overrun::new(pace.begin().at),
        }
    }

    /// When a frame with this stamp arrives. One far ahead was stamped before somebody set the clock
    /// back: it arrives now.
    fn stamp(&self, stamp: Time, now: Time) -> Time {
        if stamp.since(now) > self.stamp_ahead_max {
            now
        } else {
            stamp
        }
    }

    /// No stale frame is left.
    fn caught_up(&mut self) {
        self.overrun.caught_up();
    }

    /// Whether an arrival of this age shows a loop that cannot keep up; waiting for `lead` costs it
    /// nothing.
    fn is_overrun(&mut self, age: Span, lead: Span, now: MachineTime) -> bool {
        let waited = age.saturating_sub(lead.min(self.backlog));
        let is_long = waited.as_ns() > self.tolerance.as_ns() / 2;
        is_long && self.overrun.is_shown_by(self.pace.duration(waited), now)
    }

    /// How late an arrival of this age would leave its first pipe; waiting for `lead` costs it nothing.
    fn stale(&self, age: Span, lead: Span) -> Duration {
        let stale = age.saturating_sub(lead.min(self.backlog_max));
        self.pace.duration(stale)
    }
}

impl<P: Platform> Drive<P> {
    /// Reads a bounded batch of arrivals stamped at or before `now`, and before the next `halt`.
    /// Returns how much work that was, in frames.
    pub(super) fn take_arrivals(&mut self, now: Now, halt: Option<Time>) -> usize {
        let Now { at, time: now } = now;
        let mut work = 0;
        while work < ARRIVALS {
            let Some(arrival) = self.platform.peek() else {
                self.caught_up();
                return work;
            };
            let stamp = self.ingress.stamp(arrival.stamp, now);
            if stamp > now {
                self.caught_up();
                return work;
            }
            if halt.is_some_and(|halt| stamp >= halt) {
                return work;
            }
            let age = now.since(stamp);
            self.meter.measured.staleness.record(age);
            add(&self.load.read, 1);
            // It would have queued in its first pipe for this long: the ring has only taken that over.
            let waits = match self.nodes.get(arrival.host) {
                Some(&node) => self.emulation.engine().backlog(node, stamp),
                None => Span::ZERO,
            };
            let lead = self.leads.get(arrival.host).copied().unwrap_or_default() + waits;
            if self.ingress.is_overrun(age, lead, at) {
                add(&self.load.stale, 1);
            }
            let waiting = Waiting {
                arrived: self.pace.moment_of(stamp),
                stale: self.ingress.stale(age, lead),
                is_tcp: is_tcp(arrival.frame),
            };
            work += 1;
            if self.overload.sheds(waiting, at) {
                self.meter.shed(arrival.host, packets_in(&arrival));
            } else {
                work += arrival.frame.len() / COPIED_BYTES;
                self.load.count(arrival.host, arrival.frame.len(), waits);
                if arrival.vnet.is_super() {
                    self.load.count_bulk(arrival.host, arrival.frame.len());
                }
                let multicast = enter(&mut self.emulation, &self.nodes, stamp, &arrival);
                self.multicast_data += u64::from(multicast);
            }
            self.platform.release();
        }
        work
    }

    /// No arrival waits in the rings.
    fn caught_up(&mut self) {
        self.ingress.caught_up();
        self.overload.caught_up();
    }

    /// Finds anew how long frames may wait in the ring, after the network has changed.
    pub(super) fn find_leads(&mut self) {
        for (lead, &node) in self.leads.iter_mut().zip(&self.nodes) {
            *lead = self.emulation.engine().lead(node);
        }
    }

    /// The same for the host whose outgoing pipe has changed.
    pub(super) fn find_lead(&mut self, pipe: PipeId) {
        let engine = self.emulation.engine();
        let node = engine.topology().pipe(pipe).from;
        if let Some(lead) = self.leads.get_mut(self.hosts[node.index()]) {
            *lead = engine.lead(node);
        }
    }
}

/// Hands an arrival to the engine; true for multicast that a program has sent.
fn enter(emulation: &mut Emulation, nodes: &[NodeId], stamp: Time, arrival: &Arrival<'_>) -> bool {
    let Some(&node) = nodes.get(arrival.host) else {
        return false;
    };
    // A frame that the ring cut short, or whose VLAN tag the kernel took off, must not pass for whole.
    let frame = if arrival.tagged || arrival.frame.len() < arrival.full_len {
        &[]
    } else {
        arrival.frame
    };
    let refused = match offload::from_kernel(&arrival.vnet) {
        Some(offload) => emulation.arrive(node, stamp, frame, &offload),
        None => emulation.arrive_unreadable(node, stamp),
    };
    refused == Err(Refused::Frame(FrameError::Multicast)) && !is_membership(frame)
}

/// Whether a frame is of TCP, by the fixed IP header alone: IPv6 extension headers are not followed.
fn is_tcp(frame: &[u8]) -> bool {
    const TCP: u8 = 6;
    let protocol = match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23),
        Some([0x86, 0xdd]) => frame.get(20),
        _ => None,
    };
    protocol == Some(&TCP)
}

/// How many packets a frame holds.
fn packets_in(arrival: &Arrival<'_>) -> u64 {
    let offload = offload::from_kernel(&arrival.vnet).filter(|o| o.kind != Kind::Whole);
    let dimensions = offload.and_then(|offload| Super::parse(arrival.frame, &offload));
    dimensions.map_or(1, |dimensions| dimensions.count().into())
}

/// Whether a frame goes to the groups of MLDv2 or IGMPv3 routers: the kernel's own business.
fn is_membership(frame: &[u8]) -> bool {
    const MLD: &[u8] = &[0x33, 0x33, 0, 0, 0, 0x16];
    const IGMP: &[u8] = &[0x01, 0, 0x5e, 0, 0, 0x16];
    frame.starts_with(MLD) || frame.starts_with(IGMP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Dilation;

    /// Without dilation, and with a dilation of 10; both tolerate 200 us of machine time.
    fn ingresses() -> [(Ingress, Pace); 2] {
        [1, 10].map(|factor| {
            let pace = Pace::new(MachineTime::from_ns(1 << 40), Dilation::by(factor));
            let tolerance = pace.span(us(200));
            (Ingress::new(tolerance, pace), pace)
        })
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_wait_of_a_millisecond_is_a_backlog_though_it_loses_nothing() {
        for (mut ingress, pace) in ingresses() {
            let (lead, now) = (pace.span(us(50_000)), pace.begin().at + us(100_000));
            let mut is_overrun = |age| ingress.is_overrun(pace.span(age), lead, now);
            assert!(!is_overrun(us(1_100)));
            assert!(is_overrun(us(1_101)));
        }
    }

    #[test]
    fn a_stall_is_no_overrun_while_it_is_made_good() {
        for (mut ingress, pace) in ingresses() {
            let (lead, now) = (pace.span(us(50_000)), pace.begin().at + us(100_000));
            let mut is_overrun = |age, now| ingress.is_overrun(pace.span(age), lead, now);
            assert!(!is_overrun(us(6_000), now));
            assert!(!is_overrun(us(2_000), now + us(40_000)));
            assert!(is_overrun(us(2_000), now + us(40_001)));
        }
    }

    #[test]
    fn nothing_may_wait_for_longer_than_rings_hold() {
        for (ingress, pace) in ingresses() {
            let stale = |age, lead| ingress.stale(pace.span(us(age)), pace.span(us(lead)));
            assert_eq!(stale(4_000, 5_000), us(0));
            assert_eq!(stale(10_210, 50_000), us(210));
        }
    }

    #[test]
    fn what_is_stamped_far_ahead_arrives_now() {
        for (ingress, pace) in ingresses() {
            let now = Time::ZERO + Span::from_s(1);
            for (ahead, arrives) in [(us(1_000), us(1_000)), (us(1_001), us(0))] {
                let stamp = now + pace.span(ahead);
                assert_eq!(ingress.stamp(stamp, now), now + pace.span(arrives));
            }
        }
    }
}
