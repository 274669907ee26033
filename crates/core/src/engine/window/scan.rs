//! What a look-ahead window holds: all that comes out of plain pipes in it, and where it goes.
//!
//! Many pipes are looked at in turn, one packet of each at a time: what is found about one does not
//! wait for what memory says about another, and nothing is written to a place that memory has to
//! tell first. A pipe at a time takes fewer instructions and is slower by a tenth. A pipe with many
//! packets keeps its lane, while others come and go in the rest.
//!
//! Where memory is far away, each place in it is gone to as seldom as can be: a packet knows when the
//! one behind it is due, and pipes give away what comes out of them while they are at hand. Where it is
//! near, both cost more than they save.
//!
//! Left out: what becomes of it ([`super`]).

use std::ops::Range;

use crate::engine::way::{self, Way};
use crate::parallel::LocalPipe;
use crate::pending::wheel;
use crate::pipe::delay::Moment;
use crate::pipe::{Pipe, Taken};
use crate::pool::{Descriptor, NIL, Pool};
use crate::route::{Place, Routes};
use crate::topology::{NodeId, Topology};

use super::AT_A_TIME;

/// With more bytes of route tables than these, which no near cache holds, they are fetched ahead.
const LARGE_TABLES: usize = 8 << 20;

/// A packet comes out of a plain pipe.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Event {
    /// (time since the window's beginning in ns, rank) in one number.
    pub(super) order: u64,
    pub(in crate::engine) pipe: u32,
    pub(in crate::engine) index: u32,
    pub(in crate::engine) way: Way,
}

/// What a pipe gives to a window: while it is looked at, as far as is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) pipe: u32,
    /// The place, in tables of routes, of where it leads.
    place: Place,
    rank: u32,
    /// The first packet that is not taken, and when it is due.
    pub(super) head: u32,
    pub(super) due: Moment,
    pub(super) taken: Taken,
}

/// Looks ahead: what is read, and what is found.
pub(super) struct Lookout<'a> {
    /// From when to when, in ns.
    pub(super) time: Range<u64>,
    /// Whether nothing but the usual happens.
    pub(super) is_usual: bool,
    /// Whether pipes are to give away what comes out of them.
    pub(super) takes: bool,
    pub(super) pool: &'a Pool,
    pub(super) pipes: &'a mut [Pipe],
    pub(super) routes: &'a mut Routes,
    pub(super) topology: &'a Topology,
    pub(super) fits: &'a [u32],
    pub(super) fits_all: u32,
    pub(super) events: Vec<Event>,
    pub(super) ends: &'a mut Vec<u32>,
}

impl Lookout<'_> {
    /// Finds all that comes out of such pipes.
    pub(super) fn look(&mut self, pipes: &[wheel::Entry], is_far: bool, shares: &mut Vec<Share>) {
        if is_far {
            self.look_in_lanes::<true>(pipes, shares);
        } else {
            self.look_in_lanes::<false>(pipes, shares);
        }
    }

    fn look_in_lanes<const FAR: bool>(&mut self, pipes: &[wheel::Entry], shares: &mut Vec<Share>) {
        let has_far_ways = self.routes.table_bytes() > LARGE_TABLES;
        let mut lanes = [0; AT_A_TIME];
        let (mut busy, mut begun) = (0, 0);
        loop {
            // Whatever has a lane for long, others have the rest.
            if busy <= AT_A_TIME / 2 && begun < pipes.len() {
                let more = &pipes[begun..pipes.len().min(begun + AT_A_TIME - busy)];
                if FAR {
                    self.fetch_heads(more);
                }
                shares.extend(more.iter().map(|entry| self.begin(entry)));
                for _ in more {
                    lanes[busy] = begun as u32;
                    (busy, begun) = (busy + 1, begun + 1);
                }
            }
            if busy == 0 {
                break;
            }
            if has_far_ways {
                self.fetch_ways(&lanes[..busy], shares);
            }
            self.take_one_each::<FAR>(&lanes[..busy], shares);
            busy = self.leave::<FAR>(&mut lanes, busy, shares);
            if FAR {
                self.fetch_next(&lanes[..busy], shares);
            }
        }
    }

    /// Begins with the head of a pipe.
    #[inline(always)]
    fn begin(&self, entry: &wheel::Entry) -> Share {
        let pipe = &self.pipes[entry.pipe as usize];
        debug_assert_eq!(pipe.first(), entry.head);
        Share {
            pipe: entry.pipe,
            place: if pipe.leads_to_router() {
                self.routes.place(NodeId(pipe.to))
            } else {
                Place::NOWHERE
            },
            rank: pipe.rank,
            head: entry.head,
            due: self.pool[entry.head].due(),
            taken: Taken::default(),
        }
    }

    /// Makes an event of each lane's packet, and goes on to the one behind it.
    #[inline(always)]
    fn take_one_each<const FAR: bool>(&mut self, lanes: &[u32], shares: &mut [Share]) {
        for &lane in lanes {
            let share = &mut shares[lane as usize];
            let packet = &self.pool[share.head];
            let way = match self.routes.next_at(share.place, packet.destination) {
                Some(next) if self.goes_on(packet, LocalPipe(next.0)) => Way::on(LocalPipe(next.0)),
                _ => self.look_closer(share, packet),
            };
            self.events.push(Event {
                order: (share.due.time.as_ns() - self.time.start) << 32 | u64::from(share.rank),
                pipe: share.pipe,
                index: share.head,
                way,
            });
            share.taken.add(packet);
            share.head = packet.next;
            if FAR && let Some(due) = packet.due_behind().or_else(|| self.due_of(packet.next)) {
                share.due = due;
            }
        }
    }

    /// When a packet is due, if there is one.
    #[inline(never)] // out of the way of the usual case
    fn due_of(&self, index: u32) -> Option<Moment> {
        self.pool.get(index).map(Descriptor::due)
    }

    /// When the first packet of a lane that is not taken is due, if there is one.
    #[inline(always)]
    fn head_due<const FAR: bool>(&self, share: &Share) -> Option<Moment> {
        if FAR {
            (share.head != NIL).then_some(share.due)
        } else {
            self.pool.get(share.head).map(Descriptor::due)
        }
    }

    /// Takes away the lanes whose next packet is not due in the window, and what they found out of
    /// their pipes; says how many are left.
    #[inline(always)]
    fn leave<const FAR: bool>(
        &mut self,
        lanes: &mut [u32; AT_A_TIME],
        of: usize,
        shares: &mut [Share],
    ) -> usize {
        let (mut left, mut is_usual) = (0, true);
        let (mut gone, mut ended) = (0, [0; AT_A_TIME]);
        for number in 0..of {
            let lane = lanes[number];
            let share = &mut shares[lane as usize];
            let mut goes_on = false;
            if let Some(due) = self.head_due::<FAR>(share) {
                share.due = due;
                let is_due = due.time.as_ns() < self.time.end;
                goes_on = is_due & (due.microstep == 0);
                is_usual &= goes_on | !is_due;
            }
            // Who stays is hard to foretell, so nothing branches on it.
            lanes[left] = lane;
            left += usize::from(goes_on);
            if FAR {
                ended[gone] = lane;
                gone += usize::from(!goes_on);
            }
        }
        self.is_usual &= is_usual;
        if FAR && self.takes {
            for &lane in &ended[..gone] {
                let share = &shares[lane as usize];
                self.pipes[share.pipe as usize].pop_all(&share.taken, share.head);
            }
        }
        left
    }

    /// Whether a packet may go on into a pipe with no more ado.
    #[inline(always)]
    fn goes_on(&self, packet: &Descriptor, next: LocalPipe) -> bool {
        way::may_go_on(packet, self.fits_all) || way::may_go_on(packet, self.fits[next.index()])
    }

    /// Where a packet goes at an end of its path, or off the usual way.
    #[inline(never)]
    fn look_closer(&mut self, share: &Share, packet: &Descriptor) -> Way {
        let pipe = &self.pipes[share.pipe as usize];
        let fits = self.fits;
        let routes = (&mut *self.routes, self.topology);
        let way = way::decide(pipe, packet, routes, |next| fits[next.index()]);
        if way.pipe().is_none() {
            self.is_usual &= way != Way::NODE;
            self.ends.push(self.events.len() as u32);
        }
        way
    }

    /// Has the pipes and their first packets brought.
    fn fetch_heads(&self, pipes: &[wheel::Entry]) {
        // Nothing in these loops waits for anything but memory, of which much comes at a time.
        let touched = pipes.iter().fold(0, |touched, entry| {
            touched ^ self.pool[entry.head].next ^ self.pipes[entry.pipe as usize].to
        });
        std::hint::black_box(touched);
    }

    /// Has the lanes' next packets brought.
    fn fetch_next(&self, lanes: &[u32], shares: &[Share]) {
        let touched = lanes.iter().fold(0, |touched, &lane| {
            let packet = self.pool.get(shares[lane as usize].head);
            touched ^ packet.map_or(0, |packet| packet.next)
        });
        std::hint::black_box(touched);
    }

    /// Has what routes say about the lanes' packets brought.
    fn fetch_ways(&self, lanes: &[u32], shares: &[Share]) {
        let touched = lanes.iter().fold(0, |touched, &lane| {
            let share = &shares[lane as usize];
            let to = self.pool[share.head].destination;
            touched
                ^ self
                    .routes
                    .next_at(share.place, to)
                    .map_or(0, |pipe| pipe.0)
        });
        std::hint::black_box(touched);
    }
}
