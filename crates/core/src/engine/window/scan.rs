//! The scan of a look-ahead window: all packets that come out of plain pipes in it, and the forwarding
//! decision about each.
//!
//! Up to [`PREFETCH_BATCH`] pipes are scanned side by side, each in a *lane*, one packet of each at a
//! time. The steps of different lanes are independent, so the CPU overlaps their cache misses; scanning
//! pipe by pipe takes fewer instructions and was slower by a tenth. A pipe with many packets keeps its
//! lane, while short ones come and go in the others.
//!
//! In far memory ([`super`]) every visit to a cache line counts. So a packet also stores when the one
//! behind it is due, which spares a visit to that one, and packets are popped while their pipe is in the
//! cache. In near memory both cost more than they save.
//!
//! Left out: handling the events ([`super`]).

use std::ops::Range;

use crate::engine::disposition::{self, Disposition};
use crate::parallel::LocalPipe;
use crate::pending::wheel;
use crate::pipe::delay::Moment;
use crate::pipe::{Batch, Pipe};
use crate::pool::{Descriptor, NIL, Pool};
use crate::route::{Place, Routes};
use crate::topology::{NodeId, Topology};

use super::PREFETCH_BATCH;

/// Route tables with more bytes than this exceed the caches and are prefetched.
const LARGE_TABLES: usize = 8 << 20;

/// A packet comes out of a plain pipe.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Event {
    /// (time since the window's start in ns, rank) in one number.
    pub(super) order: u64,
    pub(in crate::engine) pipe: u32,
    pub(in crate::engine) index: u32,
    pub(in crate::engine) disposition: Disposition,
}

/// The scan of one pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct PipeScan {
    pub(super) pipe: u32,
    /// The row of its receiving node in the route tables.
    place: Place,
    rank: u32,
    /// The first packet that is not in the batch, and when it is due.
    pub(super) head: u32,
    pub(super) due: Moment,
    pub(super) batch: Batch,
}

/// The state of a scan: what it reads, and what it finds.
pub(super) struct Scanner<'a> {
    /// The window, in ns.
    pub(super) time: Range<u64>,
    /// Whether all events so far are plain.
    pub(super) all_plain: bool,
    /// Whether packets are popped from their pipes during the scan.
    pub(super) pops: bool,
    pub(super) pool: &'a Pool,
    pub(super) pipes: &'a mut [Pipe],
    pub(super) routes: &'a mut Routes,
    pub(super) topology: &'a Topology,
    pub(super) mtus: &'a [u32],
    pub(super) min_mtu: u32,
    pub(super) events: Vec<Event>,
    pub(super) ends: &'a mut Vec<u32>,
}

impl Scanner<'_> {
    /// Scans these pipes: all packets that come out of them in the window.
    pub(super) fn scan(&mut self, pipes: &[wheel::Entry], is_far: bool, scans: &mut Vec<PipeScan>) {
        if is_far {
            self.scan_lanes::<true>(pipes, scans);
        } else {
            self.scan_lanes::<false>(pipes, scans);
        }
    }

    fn scan_lanes<const FAR: bool>(&mut self, pipes: &[wheel::Entry], scans: &mut Vec<PipeScan>) {
        let has_far_ways = self.routes.table_bytes() > LARGE_TABLES;
        let mut lanes = [0; PREFETCH_BATCH];
        let (mut busy, mut begun) = (0, 0);
        loop {
            // Refill only when half the lanes are free: refills prefetch, and pay by the batch.
            if busy <= PREFETCH_BATCH / 2 && begun < pipes.len() {
                let more = &pipes[begun..pipes.len().min(begun + PREFETCH_BATCH - busy)];
                if FAR {
                    self.prefetch_heads(more);
                }
                scans.extend(more.iter().map(|entry| self.start(entry)));
                for _ in more {
                    lanes[busy] = begun as u32;
                    (busy, begun) = (busy + 1, begun + 1);
                }
            }
            if busy == 0 {
                break;
            }
            if has_far_ways {
                self.prefetch_routes(&lanes[..busy], scans);
            }
            self.step_lanes::<FAR>(&lanes[..busy], scans);
            busy = self.retire_lanes::<FAR>(&mut lanes, busy, scans);
            if FAR {
                self.prefetch_next(&lanes[..busy], scans);
            }
        }
    }

    /// Starts at the head of a pipe.
    #[inline(always)]
    fn start(&self, entry: &wheel::Entry) -> PipeScan {
        let pipe = &self.pipes[entry.pipe as usize];
        debug_assert_eq!(pipe.first(), entry.head);
        PipeScan {
            pipe: entry.pipe,
            place: if pipe.leads_to_router() {
                self.routes.place(NodeId(pipe.to))
            } else {
                Place::NOWHERE
            },
            rank: pipe.rank,
            head: entry.head,
            due: self.pool[entry.head].due(),
            batch: Batch::default(),
        }
    }

    /// Advances each lane by one packet, and records its event.
    #[inline(always)]
    fn step_lanes<const FAR: bool>(&mut self, lanes: &[u32], scans: &mut [PipeScan]) {
        for &lane in lanes {
            let scan = &mut scans[lane as usize];
            let packet = &self.pool[scan.head];
            let disposition = match self.routes.next_at(scan.place, packet.destination) {
                Some(next) if self.may_forward(packet, LocalPipe(next.0)) => {
                    Disposition::forward(LocalPipe(next.0))
                }
                _ => self.decide_off_path(scan, packet),
            };
            self.events.push(Event {
                order: (scan.due.time.as_ns() - self.time.start) << 32 | u64::from(scan.rank),
                pipe: scan.pipe,
                index: scan.head,
                disposition,
            });
            scan.batch.add(packet);
            scan.head = packet.next;
            if FAR && let Some(due) = packet.due_behind().or_else(|| self.due_of(packet.next)) {
                scan.due = due;
            }
        }
    }

    /// When a packet is due, if there is one.
    #[inline(never)] // rare: keeps it out of the hot loop
    fn due_of(&self, index: u32) -> Option<Moment> {
        self.pool.get(index).map(Descriptor::due)
    }

    /// When the first packet of a lane that is not in the batch is due, if there is one.
    #[inline(always)]
    fn head_due<const FAR: bool>(&self, scan: &PipeScan) -> Option<Moment> {
        if FAR {
            (scan.head != NIL).then_some(scan.due)
        } else {
            self.pool.get(scan.head).map(Descriptor::due)
        }
    }

    /// Retires the lanes whose next packet is not due in the window, and pops their packets if the scan
    /// pops. Returns how many lanes are left.
    #[inline(always)]
    fn retire_lanes<const FAR: bool>(
        &mut self,
        lanes: &mut [u32; PREFETCH_BATCH],
        of: usize,
        scans: &mut [PipeScan],
    ) -> usize {
        let (mut left, mut all_plain) = (0, true);
        let (mut gone, mut ended) = (0, [0; PREFETCH_BATCH]);
        for number in 0..of {
            let lane = lanes[number];
            let scan = &mut scans[lane as usize];
            let mut may_forward = false;
            if let Some(due) = self.head_due::<FAR>(scan) {
                scan.due = due;
                let is_due = due.time.as_ns() < self.time.end;
                may_forward = is_due & (due.microstep == 0);
                all_plain &= may_forward | !is_due;
            }
            // No branch: which lanes stay is unpredictable.
            lanes[left] = lane;
            left += usize::from(may_forward);
            if FAR {
                ended[gone] = lane;
                gone += usize::from(!may_forward);
            }
        }
        self.all_plain &= all_plain;
        if FAR && self.pops {
            for &lane in &ended[..gone] {
                let scan = &scans[lane as usize];
                self.pipes[scan.pipe as usize].pop_all(&scan.batch, scan.head);
            }
        }
        left
    }

    /// Whether a packet may be forwarded unchanged into a pipe with windows.
    #[inline(always)]
    fn may_forward(&self, packet: &Descriptor, next: LocalPipe) -> bool {
        disposition::may_forward(packet, self.min_mtu)
            || disposition::may_forward(packet, self.mtus[next.index()])
    }

    /// Decides about a packet that is not forwarded by a route table: at an end of its path, or not plain.
    #[inline(never)]
    fn decide_off_path(&mut self, scan: &PipeScan, packet: &Descriptor) -> Disposition {
        let pipe = &self.pipes[scan.pipe as usize];
        let mtus = self.mtus;
        let routes = (&mut *self.routes, self.topology);
        let disposition = disposition::decide(pipe, packet, routes, |next| mtus[next.index()]);
        if disposition.pipe().is_none() {
            self.all_plain &= disposition != Disposition::SLOW_PATH;
            self.ends.push(self.events.len() as u32);
        }
        disposition
    }

    /// Prefetches the pipes and their first packets.
    fn prefetch_heads(&self, pipes: &[wheel::Entry]) {
        // The loads of each prefetch loop are independent, so the CPU overlaps their cache misses.
        let touched = pipes.iter().fold(0, |touched, entry| {
            touched ^ self.pool[entry.head].next ^ self.pipes[entry.pipe as usize].to
        });
        std::hint::black_box(touched);
    }

    /// Prefetches the lanes' next packets.
    fn prefetch_next(&self, lanes: &[u32], scans: &[PipeScan]) {
        let touched = lanes.iter().fold(0, |touched, &lane| {
            let packet = self.pool.get(scans[lane as usize].head);
            touched ^ packet.map_or(0, |packet| packet.next)
        });
        std::hint::black_box(touched);
    }

    /// Prefetches the route table entries of the lanes' packets.
    fn prefetch_routes(&self, lanes: &[u32], scans: &[PipeScan]) {
        let touched = lanes.iter().fold(0, |touched, &lane| {
            let scan = &scans[lane as usize];
            let to = self.pool[scan.head].destination;
            touched ^ self.routes.next_at(scan.place, to).map_or(0, |pipe| pipe.0)
        });
        std::hint::black_box(touched);
    }
}
