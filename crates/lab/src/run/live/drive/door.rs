//! The door: which arrivals are taken in a turn, and which are shed.
//!
//! Arrivals enter the engine at their stamps, in bounded batches, so that what is due does not wait
//! for a crowd. A frame that would come out of its first pipe too late is shed, once the loop's
//! patience is spent (see `patience.rs`), and with far too many of them also what the loop cannot
//! carry in time (see `admission.rs`). One that would have waited there for others has lost
//! nothing by waiting at the door.

use longhaul_core::engine::Refused;
use longhaul_core::packet::Refusal;
use longhaul_core::segment::{Kind, Super};
use longhaul_core::topology::PipeId;
use longhaul_core::{NodeId, Span, Time};

use longhaul_emulation::Emulation;

use super::patience::Patience;
use super::platform::{Arrival, Platform};
use super::{Drive, add, offload};

/// Most arrivals taken before what is due is sent, and most while turns take too long.
pub(super) const ARRIVALS: usize = 64;
const ARRIVALS_SLOW: usize = 4;
/// A turn of the loop should take no longer: what becomes due meanwhile waits for its end.
const TURN: Span = Span::from_us(50);
const TURN_SHORT: Span = Span::from_us(25);
/// Frames that have waited so long at the door are a backlog, even where they are not late yet.
const BACKLOG: Span = Span::from_ms(1);
/// Frames that have waited longer are stale wherever they go: the rings hold no more than this.
const BACKLOG_MAX: Span = Span::from_ms(10);
/// Copying so many bytes takes as long as a packet does.
const COPIED_BYTES: usize = 1024;
/// While frames are shed, those older than this part of the tolerance are: what is taken leaves
/// the rest to the turns that it waits for.
const SHEDDING: u64 = 4;
/// Most frames shed before what is due is sent.
const SHED: usize = 256;
/// No stamp can be further ahead of a clock that was read before it.
const STAMP_AHEAD_MAX: Span = Span::from_ms(1);

/// How far the loop has read what stands at the door.
pub(super) enum Reached {
    /// All that concerns this turn.
    All,
    /// More waits; nothing of it can come out of its first pipe before this.
    Stamp(Time),
}

impl<P: Platform> Drive<P> {
    /// Adapts to how long a turn with so many arrivals took.
    pub(super) fn adapt(&mut self, turn: Span, taken: usize) {
        if taken < self.arrivals {
            return;
        }
        self.arrivals = match turn {
            long if long > TURN => (self.arrivals / 2).max(ARRIVALS_SLOW),
            short if short < TURN_SHORT => (self.arrivals * 2).min(ARRIVALS),
            _ => self.arrivals,
        };
    }

    /// Takes a bounded batch of arrivals stamped at or before `now`, and before the next `step` of
    /// the schedule. Returns how many, and how far they reach.
    pub(super) fn take_arrivals(&mut self, now: Time, step: Option<Time>) -> (usize, Reached) {
        let (mut taken, mut shed, mut last) = (0, 0, Time::ZERO);
        while taken < self.arrivals && shed < SHED {
            let Some(arrival) = self.platform.peek() else {
                self.caught_up();
                return (taken + shed, Reached::All);
            };
            // Far ahead, it was stamped before somebody set the clock back: it arrives now.
            let stamp = match arrival.stamp.since(now) > STAMP_AHEAD_MAX {
                true => now,
                false => arrival.stamp,
            };
            if stamp > now {
                self.caught_up();
                return (taken + shed, Reached::All);
            }
            if step.is_some_and(|at| stamp >= at) {
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
            let stale = age.saturating_sub(lead.min(BACKLOG_MAX));
            let waited = age.saturating_sub(lead.min(BACKLOG));
            if waited.as_ns() > self.tolerance.as_ns() / 2 && self.overrun.is_shown_by(waited, now)
            {
                add(&self.load.stale, 1);
            }
            let booked = !self.admission.admits(stamp);
            let tolerance = self.tolerance;
            if is_excess(
                &mut self.patience,
                &arrival,
                (stale, tolerance),
                booked,
                now,
            ) {
                shed += 1;
                self.meter.shed(arrival.host, packets_in(&arrival));
                self.admission.shed(now, self.load.busy());
            } else {
                let work = 1 + arrival.frame.len() / COPIED_BYTES;
                taken += work;
                self.admission.take(stamp, work as u64);
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

    /// Nothing stale is left at the door.
    fn caught_up(&mut self) {
        self.patience.iter_mut().for_each(Patience::caught_up);
        self.overrun.caught_up();
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

/// Whether a frame that is so stale, of what is tolerated, is to be shed. Frames that nothing else
/// holds back also are where the loop is `booked`.
fn is_excess(
    patience: &mut [Patience; 2],
    arrival: &Arrival<'_>,
    (stale, tolerance): (Span, Span),
    booked: bool,
    now: Time,
) -> bool {
    if !booked && stale.as_ns() <= tolerance.as_ns() / SHEDDING {
        return false;
    }
    let is_free = !is_tcp(arrival.frame);
    let patience = &mut patience[usize::from(is_free)];
    let may_wait = if patience.is_spent() {
        Span::from_ns(tolerance.as_ns() / SHEDDING)
    } else {
        tolerance
    };
    let is_old = stale > may_wait && patience.is_over(stale, now);
    is_old || booked && is_free
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
