//! The door: which arrivals are taken in a turn, and which are shed.
//!
//! Arrivals enter the engine at their stamps, in bounded batches, so that what is due does not wait
//! for a crowd. A frame that would come out of its first pipe too late is shed, once the loop's
//! patience is spent (see `patience.rs`), and with far too many of them also what the loop cannot
//! carry in time (see `admission.rs`). One that would have waited there for others has lost
//! nothing by waiting at the door.

use std::time::Duration;

use longhaul_core::engine::Refused;
use longhaul_core::packet::Refusal;
use longhaul_core::segment::{Kind, Super};
use longhaul_core::topology::PipeId;
use longhaul_core::{NodeId, Span, Time};
use longhaul_emulation::Emulation;
use longhaul_linux::clock::MachineTime;

use super::patience::{FREE, HELD_BACK, Overrun, Patience};
use super::platform::{Arrival, Platform};
use super::{Drive, add, offload};
use crate::pace::{Now, Pace};

/// Most arrivals taken before what is due is sent, and most while turns take too long.
pub(super) const ARRIVALS: usize = 64;
const ARRIVALS_SLOW: usize = 4;
/// A turn of the loop should take no longer: what becomes due meanwhile waits for its end.
const TURN: Duration = Duration::from_micros(50);
const TURN_SHORT: Duration = Duration::from_micros(25);
/// Frames that have waited so long at the door are a backlog, even where they are not late yet.
const BACKLOG: Duration = Duration::from_millis(1);
/// Frames that have waited longer are stale wherever they go: the rings hold no more than this.
const BACKLOG_MAX: Duration = Duration::from_millis(10);
/// Copying so many bytes takes as long as a packet does.
const COPIED_BYTES: usize = 1024;
/// While frames are shed, those older than this part of the tolerance are: what is taken leaves
/// the rest to the turns that it waits for.
const SHEDDING: u64 = 4;
/// Most frames shed before what is due is sent.
const SHED: usize = 256;
/// No stamp can be further ahead of a clock that was read before it.
const STAMP_AHEAD_MAX: Duration = Duration::from_millis(1);

/// What the door holds frames to. Frames have experiment time, so that is what the machine's bounds
/// are in here; how long the loop is behind is machine time.
#[derive(Debug)]
pub(super) struct Door {
    pace: Pace,
    /// How late packets may be.
    tolerance: Span,
    backlog: Span,
    backlog_max: Span,
    stamp_ahead_max: Span,
    /// With frames of TCP, and with others.
    patience: [Patience; 2],
    overrun: Overrun,
}

impl Door {
    pub(super) fn new(tolerance: Span, pace: Pace) -> Self {
        Self {
            pace,
            tolerance,
            backlog: pace.span(BACKLOG),
            backlog_max: pace.span(BACKLOG_MAX),
            stamp_ahead_max: pace.span(STAMP_AHEAD_MAX),
            patience: [HELD_BACK, FREE].map(Patience::new),
            overrun: Overrun::new(pace.begin().at),
        }
    }

    /// A second of the machine has begun.
    pub(super) fn renew(&mut self) {
        self.patience.iter_mut().for_each(Patience::renew);
    }

    /// When a frame arrives with this stamp. Far ahead, it was stamped before somebody set the
    /// clock back: it arrives now.
    fn stamp(&self, stamp: Time, now: Time) -> Time {
        match stamp.since(now) > self.stamp_ahead_max {
            true => now,
            false => stamp,
        }
    }

    /// Nothing stale is left.
    fn caught_up(&mut self) {
        self.patience.iter_mut().for_each(Patience::caught_up);
        self.overrun.caught_up();
    }

    /// Whether an arrival of this age, which loses nothing in so much of it, tells of a loop that
    /// cannot keep up.
    fn is_overrun(&mut self, age: Span, lead: Span, now: MachineTime) -> bool {
        let waited = age.saturating_sub(lead.min(self.backlog));
        let is_long = waited.as_ns() > self.tolerance.as_ns() / 2;
        is_long && self.overrun.is_shown_by(self.pace.duration(waited), now)
    }

    /// Whether such an arrival is to be shed. Frames that nothing else holds back also are where
    /// the loop is `booked`.
    fn is_excess(
        &mut self,
        arrival: &Arrival<'_>,
        (age, lead): (Span, Span),
        booked: bool,
        now: MachineTime,
    ) -> bool {
        let stale = age.saturating_sub(lead.min(self.backlog_max));
        let shedding = Span::from_ns(self.tolerance.as_ns() / SHEDDING);
        if !booked && stale <= shedding {
            return false;
        }
        let is_free = !is_tcp(arrival.frame);
        let patience = &mut self.patience[usize::from(is_free)];
        let may_be = match patience.is_spent() {
            true => shedding,
            false => self.tolerance,
        };
        let is_old = stale > may_be && patience.is_over(self.pace.duration(stale), now);
        is_old || booked && is_free
    }
}

/// How far the loop has read what stands at the door.
pub(super) enum Reached {
    /// All that concerns this turn.
    All,
    /// More waits; nothing of it can come out of its first pipe before this.
    Stamp(Time),
}

impl<P: Platform> Drive<P> {
    /// Adapts to how long a turn with so many arrivals took.
    pub(super) fn adapt(&mut self, began: MachineTime, ended: MachineTime, taken: usize) {
        if taken < self.arrivals {
            return;
        }
        self.arrivals = match ended {
            long if long > began + TURN => (self.arrivals / 2).max(ARRIVALS_SLOW),
            short if short < began + TURN_SHORT => (self.arrivals * 2).min(ARRIVALS),
            _ => self.arrivals,
        };
    }

    /// Takes a bounded batch of arrivals stamped at or before `now`, and before the next `step` of
    /// the schedule. Returns how many, and how far they reach.
    pub(super) fn take_arrivals(&mut self, now: Now, step: Option<Time>) -> (usize, Reached) {
        let Now { at, time: now } = now;
        let (mut taken, mut shed, mut last) = (0, 0, Time::ZERO);
        while taken < self.arrivals && shed < SHED {
            let Some(arrival) = self.platform.peek() else {
                self.door.caught_up();
                return (taken + shed, Reached::All);
            };
            let stamp = self.door.stamp(arrival.stamp, now);
            if stamp > now {
                self.door.caught_up();
                return (taken + shed, Reached::All);
            }
            if step.is_some_and(|step| stamp >= step) {
                return (taken + shed, Reached::All);
            }
            let age = now.since(stamp);
            self.meter.measured.staleness.record(age);
            last = last.max(stamp);
            add(&self.load.read, 1);
            let waits = match self.nodes.get(arrival.host) {
                Some(&node) => self.emulation.engine().backlog(node, stamp),
                None => Span::ZERO,
            };
            let lead = self.leads.get(arrival.host).copied().unwrap_or_default() + waits;
            if self.door.is_overrun(age, lead, at) {
                add(&self.load.stale, 1);
            }
            let came = self.pace.moment_of(stamp);
            let booked = !self.admission.admits(came);
            let is_excess = self.door.is_excess(&arrival, (age, lead), booked, at);
            if is_excess {
                shed += 1;
                self.meter.shed(arrival.host, packets_in(&arrival));
                self.admission.shed(at, self.load.busy());
            } else {
                let work = 1 + arrival.frame.len() / COPIED_BYTES;
                taken += work;
                self.admission.take(came, work as u64);
                self.load.count(arrival.host, arrival.frame.len(), waits);
                if arrival.vnet.is_super() {
                    self.load.count_bulk(arrival.host, arrival.frame.len());
                }
                let multicast = enter(&mut self.emulation, &self.nodes, stamp, &arrival);
                self.multicast_data += u64::from(multicast);
            }
            self.platform.release();
        }
        (taken + shed, Reached::Stamp(last + self.lead))
    }

    /// Learns anew how old frames may be.
    pub(super) fn find_leads(&mut self) {
        for (lead, &node) in self.leads.iter_mut().zip(&self.nodes) {
            *lead = self.emulation.engine().lead(node);
        }
        self.lead = self.leads.iter().min().copied().unwrap_or_default();
    }

    /// Learns anew how old a host's frames may be, since its pipe has changed.
    pub(super) fn find_lead(&mut self, pipe: PipeId) {
        let engine = self.emulation.engine();
        let node = engine.topology().pipe(pipe).from;
        if let Some(lead) = self.leads.get_mut(self.hosts[node.index()]) {
            *lead = engine.lead(node);
            self.lead = self.leads.iter().min().copied().unwrap_or_default();
        }
    }
}

/// Hands an arrival to the engine; true for multicast that a program has sent.
fn enter(emulation: &mut Emulation, nodes: &[NodeId], stamp: Time, arrival: &Arrival<'_>) -> bool {
    let Some(&node) = nodes.get(arrival.host) else {
        return false;
    };
    // A frame that was cut short, or whose tag the kernel took off, must not pass for whole.
    let frame = if arrival.tagged || arrival.frame.len() < arrival.full_len {
        &[]
    } else {
        arrival.frame
    };
    let refused = match offload::from_kernel(&arrival.vnet) {
        Some(offload) => emulation.arrive(node, stamp, frame, &offload),
        None => emulation.arrive_unreadable(node, stamp),
    };
    refused == Err(Refused::Frame(Refusal::Multicast)) && !is_membership(frame)
}

/// Whether a frame is of TCP, as far as its first bytes tell.
fn is_tcp(frame: &[u8]) -> bool {
    const TCP: u8 = 6;
    let protocol = match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23),
        Some([0x86, 0xdd]) => frame.get(20),
        _ => None,
    };
    protocol == Some(&TCP)
}

/// How many packets a frame is.
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
    use longhaul_linux::packet_io::VnetHeader;

    /// A door at the experiment's own pace and at a tenth of it, which tolerates 200 us of the
    /// machine's time.
    fn doors() -> [(Door, Pace); 2] {
        [1, 10].map(|factor| {
            let pace = Pace::new(MachineTime::from_ns(1 << 40), Dilation::by(factor));
            let tolerance = pace.span(us(200));
            (Door::new(tolerance, pace), pace)
        })
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn datagram() -> Arrival<'static> {
        Arrival {
            host: 0,
            stamp: Time::ZERO,
            vnet: VnetHeader::default(),
            frame: &[],
            full_len: 0,
            tagged: false,
        }
    }

    #[test]
    fn a_millisecond_at_the_door_is_a_backlog_though_it_loses_nothing() {
        for (mut door, pace) in doors() {
            let (lead, now) = (pace.span(us(50_000)), pace.begin().at + us(100_000));
            let mut is_overrun = |age| door.is_overrun(pace.span(age), lead, now);
            assert!(!is_overrun(us(1_100)));
            assert!(is_overrun(us(1_101)));
        }
    }

    #[test]
    fn a_stall_is_no_overrun_while_it_is_made_good() {
        for (mut door, pace) in doors() {
            let (lead, now) = (pace.span(us(50_000)), pace.begin().at + us(100_000));
            let mut is_overrun = |age, now| door.is_overrun(pace.span(age), lead, now);
            assert!(!is_overrun(us(6_000), now));
            assert!(!is_overrun(us(2_000), now + us(40_000)));
            assert!(is_overrun(us(2_000), now + us(40_001)));
        }
    }

    #[test]
    fn nothing_may_wait_for_longer_than_rings_hold() {
        for (mut door, pace) in doors() {
            let (lead, now) = (pace.span(us(50_000)), pace.begin().at + us(100_000));
            let mut is_excess =
                |age, now| door.is_excess(&datagram(), (pace.span(age), lead), false, now);
            // Stale by less than is tolerated, then by more for longer than the loop has patience.
            assert!(!is_excess(us(10_190), now));
            assert!(!is_excess(us(10_210), now));
            assert!(!is_excess(us(10_210), now + us(5_000)));
            assert!(is_excess(us(10_210), now + us(5_001)));
            // From then on less is tolerated.
            assert!(is_excess(us(10_060), now + us(5_002)));
            assert!(!is_excess(us(10_040), now + us(5_002)));
        }
    }

    #[test]
    fn after_a_stall_twice_its_length_is_there_to_catch_up() {
        for (mut door, pace) in doors() {
            let (lead, now) = (pace.span(us(50_000)), pace.begin().at + us(100_000));
            let mut is_excess =
                |age, now| door.is_excess(&datagram(), (pace.span(age), lead), false, now);
            assert!(!is_excess(us(13_000), now));
            assert!(!is_excess(us(10_210), now + us(11_000)));
            assert!(is_excess(us(10_210), now + us(11_001)));
        }
    }

    #[test]
    fn what_is_stamped_far_ahead_arrives_now() {
        for (door, pace) in doors() {
            let now = Time::ZERO + Span::from_s(1);
            for (ahead, arrives) in [(us(1_000), us(1_000)), (us(1_001), us(0))] {
                let stamp = now + pace.span(ahead);
                assert_eq!(door.stamp(stamp, now), now + pace.span(arrives));
            }
        }
    }
}
