//! Look-ahead windows: many events at once, with the results of one at a time.
//!
//! Theory: a packet that enters a pipe comes out no sooner than the pipe's delay later. So within a
//! stretch of time no longer than the least delay of the pipes concerned no event causes another one:
//! all packets that come out within the stretch are known when it begins. A window takes them out of the
//! wheel pipe by pipe ([`scan`]), decides about each, and hands each next pipe all of its arrivals in the
//! order of events. That touches memory pipe by pipe, several packets while a pipe's state is in the
//! cache, and keeps nothing sorted for longer than a window.
//!
//! A window is handled whole only if all of its events are *plain*: a packet comes out of a plain pipe
//! with windows and is lost, is delivered, or is forwarded into another such pipe. If any event is not
//! plain (a reply, a fragment, a lan, equal paths, a shaped or short pipe), or if an event of the heap or
//! the end of the engine's step falls into the window, its events are sorted and handled one at a time,
//! interleaved with those of the heap. Every pipe sees the same packets at the same times in the same
//! order either way, so all results are equal.
//!
//! The topology sets the width: the least delay of all plain pipes with at least [`MIN_WIDTH`]. Pipes
//! with less are kept in the heap, and so are all pipes while few are busy.
//!
//! *Far* memory means that pipes and packets together exceed the L2 cache. The loops then prefetch: they
//! issue many independent loads, so that the CPU overlaps their cache misses.
//! Without prefetching, networks of 100,000 and of 1,000,000 pipes run at 0.6 to 0.7 of the speed; with it, but
//! without the stored gaps and the early pops of [`scan`], at 0.8 to 0.9 (`examples/scale.rs`, six rounds in
//! turn). Networks that fit the cache are as fast without either.
//!
//! Left out: widths that follow changed delays; several cores ([`crate::parallel`]).

mod scan;

use super::Engine;
use super::disposition::Disposition;
use crate::parallel::LocalPipe;
use crate::pending::wheel::{self, Wheel};
use crate::pending::{self, Key};
use crate::pipe::Pipe;
use crate::pipe::delay::Moment;
use crate::pool::{Descriptor, NIL};
use crate::time::Time;
use crate::witness::PacketEvent;
use scan::{PipeScan, Scanner};

pub(super) use scan::Event;

/// The narrowest window in ns. A narrower one holds too few packets to repay the scan.
const MIN_WIDTH: u64 = 16_000;

/// The widest window in ns. An event's order holds its offset from the window's beginning in 32 bits.
const MAX_WIDTH: u64 = 1 << 30;

/// Slots of the wheel that a window spans, at least. Windows end at slots, so at most one part in this
/// many of a window's width is lost to rounding.
const SLOTS_PER_WINDOW: u64 = 32;

/// Prefetch only where pipes and packets take more bytes than this. Below, all of them are in L2
/// already, and the instructions cost more than they save.
const L2_BYTES: u64 = 2 << 20;

/// Pipes whose memory is prefetched together: enough for the CPU to overlap their cache misses, few
/// enough for all of them to stay in the cache.
const PREFETCH_BATCH: usize = 64;

/// From this many entries on, the standard library's stable sort allocates, and entries are sorted in place.
const SORT_IN_PLACE_FROM: usize = 64;

/// When the engine uses look-ahead windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Windows {
    /// Where they are faster than the heap.
    #[default]
    Paying,
    /// Never.
    Never,
    /// Wherever they are valid, without prefetching.
    Near,
    /// Wherever they are valid, with prefetching.
    Far,
}

/// A packet that enters a pipe.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// The order of its event.
    order: u64,
    pipe: u32,
    index: u32,
}

/// The open window and its buffers, which are reused.
#[derive(Debug)]
pub(super) struct Window {
    /// The least delay of the pipes that have windows, in ns; 0 where no pipe has.
    width: u64,
    /// When windows are used.
    pub(super) wanted: Windows,
    /// By pipe: its MTU; 0 for a pipe without windows, so that one comparison decides both.
    mtus: Box<[u32]>,
    /// The least MTU of all, checked first: a packet that fits everywhere needs no load from `mtus`.
    min_mtu: u32,
    /// The window's beginning, in ns.
    start: u64,
    /// All events of the window: those of one pipe are in order, those of different pipes are not.
    events: Vec<Event>,
    /// Whether pipes and packets exceed the L2 cache.
    is_far: bool,
    scans: Vec<PipeScan>,
    pipes: Vec<wheel::Entry>,
    /// Places of the events whose packet is not forwarded into a pipe.
    ends: Vec<u32>,
    /// By pipe: how many packets of the window enter it. All 0 between windows.
    inbox: Box<[u32]>,
    /// The pipes that any packet enters, at the front. Has one place more than there are pipes, because
    /// the branch-free loop writes behind the last.
    inbox_pipes: Box<[u32]>,
    entries: Vec<Entry>,
    /// Places of events, sorted by their order, while events are handled one at a time.
    sorted: Vec<u128>,
    /// How many entries of `sorted` have been handled.
    done: usize,
}

/// Flag in `sorted`: the last event of its pipe. It is above the place, and a pipe's last event has the
/// highest place, so it never changes the order.
const LAST: u128 = 1 << 32;

/// An entry of `sorted`: (order, place) in one number.
const fn sorted_entry(order: u64, place: u32) -> u128 {
    (order as u128) << 64 | place as u128
}

impl Window {
    /// Windows for these pipes, and a wheel that reaches twice their longest delay.
    pub(super) fn new(pipes: &[Pipe], wanted: Windows) -> (Self, Wheel) {
        let least = match wanted {
            Windows::Paying | Windows::Never => MIN_WIDTH,
            Windows::Near | Windows::Far => 1,
        };
        let delays = pipes.iter().filter_map(Pipe::constant_delay);
        let (mut width, mut longest) = (u64::MAX, 0);
        for delay in delays.map(|delay| delay.as_ns()).filter(|&ns| ns >= least) {
            width = width.min(delay);
            longest = longest.max(delay);
        }
        if width == u64::MAX || wanted == Windows::Never {
            width = 0;
        }
        let width = width.min(MAX_WIDTH);
        let shift = (width / SLOTS_PER_WINDOW).max(1).ilog2();
        let known = if width > 0 { pipes.len() } else { 0 };
        let wheel = Wheel::new(known, shift, longest.saturating_mul(2));
        let mut window = Self {
            width,
            wanted,
            mtus: vec![0; pipes.len()].into(),
            min_mtu: u32::MAX,
            start: 0,
            events: Vec::new(),
            scans: Vec::new(),
            is_far: false,
            pipes: Vec::new(),
            ends: Vec::new(),
            inbox: vec![0; known].into(),
            inbox_pipes: vec![0; known + 1].into(),
            entries: Vec::new(),
            sorted: Vec::new(),
            done: 0,
        };
        for (pipe, id) in pipes.iter().zip(0..) {
            window.update_pipe(LocalPipe(id), pipe);
        }
        (window, wheel)
    }

    /// Whether pipes and packets exceeded the L2 cache at the last window.
    #[inline]
    pub(super) const fn is_far(&self) -> bool {
        self.is_far
    }

    /// How many pipes had events in the last window.
    #[inline]
    pub(super) const fn busy_pipes(&self) -> usize {
        self.scans.len()
    }

    /// Updates whether a pipe has windows, after a change.
    pub(super) fn update_pipe(&mut self, id: LocalPipe, pipe: &Pipe) {
        let mtu = if self.is_for(pipe) { pipe.mtu() } else { 0 };
        self.mtus[id.index()] = mtu;
        self.min_mtu = self.min_mtu.min(mtu);
    }

    /// Whether a pipe has windows.
    #[inline]
    pub(super) fn is_for(&self, pipe: &Pipe) -> bool {
        let delay = pipe.constant_delay().map_or(0, |delay| delay.as_ns());
        self.width > 0 && delay >= self.width
    }

    /// The key of the next event of a window that is handled one event at a time.
    #[inline]
    pub(super) fn first(&self) -> Key {
        match self.sorted.get(self.done) {
            Some(&entry) => {
                let order = (entry >> 64) as u64;
                pending::key(self.moment(order), order as u32)
            }
            None => Key::MAX,
        }
    }

    /// Takes out that event, which must exist; returns whether it is the last of its pipe.
    #[inline]
    pub(super) fn pop(&mut self) -> (Event, bool) {
        let entry = self.sorted[self.done];
        self.done += 1;
        (self.events[entry as u32 as usize], entry & LAST > 0)
    }

    #[inline]
    fn moment(&self, order: u64) -> Moment {
        Moment {
            time: Time::from_ns(self.start + (order >> 32)),
            microstep: 0,
        }
    }

    /// Sorts all events that enter a pipe by that pipe, then by the order of events: a counting sort over
    /// pipes, then a sort within each, which needs no comparison between events of different pipes.
    /// Leaves all inbox counts at 0.
    #[inline(never)] // inlined, it made a ring of 400 routers 0 to 2 % slower
    fn sort_by_inbox(&mut self) {
        let entering = self.events.len() - self.ends.len();
        let mut inbox_pipes = 0;
        for event in &self.events {
            if let Some(next) = event.disposition.pipe() {
                let count = &mut self.inbox[next.index()];
                // No branch: whether it is the pipe's first packet is unpredictable.
                self.inbox_pipes[inbox_pipes] = next.0;
                inbox_pipes += usize::from(*count == 0);
                *count += 1;
            }
        }
        let inbox_pipes = &self.inbox_pipes[..inbox_pipes];
        // Not cleared: all entries are written below.
        if self.entries.len() < entering {
            self.entries.resize(entering, Entry::default());
        }
        self.entries.truncate(entering);
        let mut end = 0;
        for &pipe in inbox_pipes {
            let count = &mut self.inbox[pipe as usize];
            (*count, end) = (end, end + *count);
        }
        for event in &self.events {
            if let Some(next) = event.disposition.pipe() {
                let at = &mut self.inbox[next.index()];
                self.entries[*at as usize] = Entry {
                    order: event.order,
                    pipe: next.0,
                    index: event.index,
                };
                *at += 1;
            }
        }
        let mut start = 0;
        for &pipe in inbox_pipes {
            let end = std::mem::take(&mut self.inbox[pipe as usize]) as usize;
            let own = &mut self.entries[start..end];
            match own {
                [_] => {}
                // Two packets of the same sending pipe are in order already; keep them so on a tie.
                [one, other] => {
                    if other.order < one.order {
                        std::mem::swap(one, other);
                    }
                }
                _ if own.len() < SORT_IN_PLACE_FROM => own.sort_by_key(|entry| entry.order),
                _ => sort_without_allocating(own, pipe),
            }
            start = end;
        }
    }

    /// Sorts the events, to be handled one at a time.
    fn sort(&mut self) {
        self.sorted.clear();
        for (place, event) in self.events.iter().enumerate().rev() {
            let is_last = std::mem::replace(&mut self.inbox[event.pipe as usize], 1) == 0;
            let last = if is_last { LAST } else { 0 };
            self.sorted
                .push(sorted_entry(event.order, place as u32) | last);
        }
        for scan in &self.scans {
            self.inbox[scan.pipe as usize] = 0;
        }
        self.sorted.sort_unstable();
        self.done = 0;
    }
}

/// Sorts the entries of one pipe by the order of events. A stable sort, because events of the same order
/// are of the same sending pipe and in its order; the standard library's would allocate, so this one
/// puts the place into the `pipe` field meanwhile.
#[inline(never)] // rare: keeps it out of the hot loop
fn sort_without_allocating(own: &mut [Entry], pipe: u32) {
    for (place, entry) in own.iter_mut().enumerate() {
        entry.pipe = place as u32;
    }
    own.sort_unstable_by_key(|entry| (entry.order, entry.pipe));
    for entry in own {
        entry.pipe = pipe;
    }
}

impl Engine {
    /// Opens the next window, whose first event is at `least` ns. Handles it whole if it may; otherwise
    /// leaves it sorted, for [`Engine::step_window`]. `heap` is the first key of the heap, `end` the end
    /// of the step.
    #[inline(never)] // keeps it out of the loop over events
    pub(super) fn open_window(&mut self, least: u64, heap: Key, end: Key) {
        let wheel = &self.wheel;
        let first = wheel.slot_of(least);
        let whole = wheel
            .slot_of(least.saturating_add(self.window.width))
            .max(first + 1);
        let end_ns = pending::time(end)
            .as_ns()
            .saturating_add(u64::from(end as u64 > 0));
        let step = whole.min(wheel.slot_of(end_ns));
        let until = wheel.slot_of(pending::time(heap).as_ns());
        let (slots, at_once) = if step <= first {
            (first + 1, false)
        } else if until <= first {
            (whole, false)
        } else {
            (step.min(until), true)
        };
        let all_plain = self.look_ahead(least, slots, at_once);
        if at_once && all_plain {
            self.run_whole();
            return;
        }
        if at_once && self.window.is_far {
            self.put_back();
        }
        self.window.sort();
    }

    /// Finds all packets that come out of the wheel's pipes before slot `end`, and decides about each.
    /// The pipes are left as they are, except with `at_once` and far memory: then the packets are popped
    /// while their pipe is in the cache ([`Engine::put_back`] undoes it). Returns whether all events are
    /// plain.
    fn look_ahead(&mut self, start: u64, end: u64, at_once: bool) -> bool {
        let window = &mut self.window;
        let bytes =
            size_of_val(&*self.pipes) as u64 + self.record.inside * size_of::<Descriptor>() as u64;
        window.is_far = match window.wanted {
            Windows::Near => false,
            Windows::Far => true,
            Windows::Paying | Windows::Never => bytes > L2_BYTES,
        };
        window.start = start;
        window.scans.clear();
        window.pipes.clear();
        window.ends.clear();
        window.events.clear();
        self.wheel.take(end, &mut window.pipes);
        let mut scanner = Scanner {
            time: start..self.wheel.start_of(end),
            all_plain: true,
            pops: at_once && window.is_far,
            pool: &self.pool,
            pipes: &mut self.pipes,
            routes: &mut self.routes,
            topology: &self.topology,
            mtus: &window.mtus,
            min_mtu: window.min_mtu,
            events: std::mem::take(&mut window.events),
            ends: &mut window.ends,
        };
        scanner.scan(&window.pipes, window.is_far, &mut window.scans);
        let all_plain = scanner.all_plain;
        window.events = scanner.events;
        all_plain
    }

    /// Puts back into the pipes the packets that the scan has popped.
    fn put_back(&mut self) {
        for (entry, scan) in self.window.pipes.iter().zip(&self.window.scans) {
            self.pipes[entry.pipe as usize].put_back(&scan.batch, entry.head);
        }
    }

    /// Handles the window whole.
    fn run_whole(&mut self) {
        let windows_pay = self.windows_pay();
        let scans = std::mem::take(&mut self.window.scans);
        let already_popped = self.window.is_far;
        for scan in &scans {
            if !already_popped {
                self.pipes[scan.pipe as usize].pop_all(&scan.batch, scan.head);
            }
            if scan.head != NIL {
                self.enqueue_head(LocalPipe(scan.pipe), scan.head, scan.due, windows_pay);
            }
        }
        self.window.scans = scans;
        self.complete_window();
        self.window.sort_by_inbox();
        self.serve_inboxes(windows_pay);
    }

    /// [`Engine::complete`] for all of the window's packets, except that none enters its next pipe yet.
    fn complete_window(&mut self) {
        let window = &mut self.window;
        window.sorted.clear();
        window.done = 0;
        let mut lost = 0;
        for number in 0..self.window.ends.len() {
            let place = self.window.ends[number];
            let event = self.window.events[place as usize];
            if event.disposition == Disposition::LOST {
                lost += 1;
                let ip_len = self.pool[event.index].ip_len();
                self.pipes[event.pipe as usize].lose(ip_len);
                self.lose(LocalPipe(event.pipe), event.index);
            } else {
                self.window.sorted.push(sorted_entry(event.order, place));
            }
        }
        let window = &self.window;
        let came_out = window
            .events
            .iter()
            .filter(|event| event.disposition != Disposition::LOST);
        let came_out = came_out.map(|event| {
            let at = window.moment(event.order);
            (LocalPipe(event.pipe), event.index, at.time)
        });
        let count = window.events.len() - lost;
        self.record.came_out(count, came_out, &self.pool);
        self.window.sorted.sort_unstable();
        for number in 0..self.window.sorted.len() {
            let place = self.window.sorted[number] as u32;
            self.deliver(self.window.events[place as usize].index);
        }
        self.window.sorted.clear();
    }

    /// Enqueues the sorted entries, pipe by pipe.
    fn serve_inboxes(&mut self, windows_pay: bool) {
        let entries = std::mem::take(&mut self.window.entries);
        for entries in entries.chunks(PREFETCH_BATCH) {
            self.prefetch_entries(entries);
            for entry in entries {
                let at = self.window.moment(entry.order);
                let pipe = &mut self.pipes[entry.pipe as usize];
                let last = pipe.last();
                if !pipe.enter(entry.index, at, Time::ZERO, &mut self.pool) {
                    self.overflow(LocalPipe(entry.pipe), entry.index, at);
                    continue;
                }
                let packet = &mut self.pool[entry.index];
                packet.hop_limit -= 1;
                let due = packet.due();
                let into = LocalPipe(entry.pipe);
                self.record.went_in(into, entry.index, at.time, &self.pool);
                if self.record.wants(PacketEvent::Served) {
                    self.report_served(into, entry.index);
                }
                match last {
                    None => self.enqueue_head(LocalPipe(entry.pipe), entry.index, due, windows_pay),
                    Some(last) if self.window.is_far => self.pool[last].set_due_behind(due),
                    Some(_) => {}
                }
            }
        }
        self.window.entries = entries;
    }

    /// Prefetches what the entries need. The loads of each loop are independent, so the CPU overlaps their
    /// cache misses; `black_box` keeps the compiler from removing them.
    fn prefetch_entries(&self, entries: &[Entry]) {
        if !self.window.is_far {
            return;
        }
        let mut touched = 0;
        for entry in entries {
            touched ^= self.pipes[entry.pipe as usize].prefetch() ^ self.pool[entry.index].next;
        }
        for entry in entries {
            if let Some(tail) = self.pipes[entry.pipe as usize].last() {
                touched ^= self.pool[tail].next;
            }
        }
        std::hint::black_box(touched);
    }

    /// Puts the pipes with unhandled events of an open window back into the pending set.
    pub(super) fn close_window(&mut self) {
        let window = &mut self.window;
        let rest = std::mem::take(&mut window.sorted);
        for &entry in &rest[self.window.done.min(rest.len())..] {
            let event = self.window.events[entry as u32 as usize];
            let pipe = &self.pipes[event.pipe as usize];
            if entry & LAST > 0
                && let Some(due) = pipe.next_due(&self.pool)
            {
                self.announce(LocalPipe(event.pipe), pipe.first(), due);
            }
        }
        self.window.sorted = rest;
        self.window.sorted.clear();
        self.window.done = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Against the standard library's stable sort, with many equal orders.
    #[test]
    fn many_entries_keep_their_order_where_they_are_equal() {
        let mut random = Stream::new(7, "entries");
        for count in [SORT_IN_PLACE_FROM, 1000] {
            let any = |index| Entry {
                order: random.draw() % 50,
                pipe: 3,
                index,
            };
            let mut own: Vec<Entry> = (0..count as u32).map(any).collect();
            let mut expected = own.clone();
            expected.sort_by_key(|entry| entry.order);
            sort_without_allocating(&mut own, 3);
            let parts = |entry: &Entry| (entry.order, entry.pipe, entry.index);
            assert!(own.iter().map(parts).eq(expected.iter().map(parts)));
        }
    }
}
