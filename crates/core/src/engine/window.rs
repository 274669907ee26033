//! Look-ahead windows: many events at once, with the results of one at a time.
//!
//! Theory: what enters a pipe comes out no sooner than the pipe's delay later. So in a stretch of
//! time no longer than the least delay of the pipes concerned, nothing that happens makes
//! anything else happen in it: all that comes out of pipes in the stretch is known when it
//! begins. A window takes that out of the wheel, pipe by pipe, finds for each packet the pipe
//! that it goes into, and lets each of those pipes take what it gets, in the order of events.
//! Memory is touched in the order of pipes, each of which serves several packets while its state is
//! in the cache, and nothing is kept sorted for longer than a window.
//!
//! That is done where a window has nothing but the usual: packets that come out of plain pipes with
//! enough delay and are lost, are at home, or go on into another such pipe. Where it has anything
//! else (a reply, a fragment, a lan, equal paths, a pipe that is shaped or short, an end of the
//! engine's step), its events are sorted and done one at a time, in between those of the heap.
//! Either way, every pipe sees the same packets in the same order at the same times, so that all
//! results are the same.
//!
//! What decides is the topology: windows are as wide as the least delay of any plain pipe that
//! has at least [`LEAST_WIDTH`]; pipes with less stand in the heap. So do all heads while there
//! are few of them.
//!
//! Left out: widths that follow changes of delays; cores ([`crate::parallel`]).

mod lookout;

use super::Engine;
use super::way::Way;
use crate::parallel::LocalPipe;
use crate::pending::wheel::{self, Wheel};
use crate::pending::{self, Key};
use crate::pipe::Pipe;
use crate::pipe::delay::Moment;
use crate::pool::{Descriptor, NIL};
use crate::time::Time;
use crate::witness::Fate;
use lookout::{Lookout, Share};

pub(super) use lookout::Event;

/// Narrower windows than this, in ns, hold too few packets to pay.
const LEAST_WIDTH: u64 = 16_000;

/// Wider windows than this, in ns, would not fit the order of events.
const MOST_WIDTH: u64 = 1 << 30;

/// Windows are at least so many slots wide, so that little of them is cut off by a step's end.
const SLOTS_PER_WINDOW: u64 = 32;

/// Prefetch only where pipes and packets take more bytes than these. Below, all of them are in L2
/// already, and the instructions cost more than they save.
const FAR: u64 = 2 << 20;

/// So many pipes are looked at in turn: enough for memory to answer many questions at once, few
/// enough for all the answers to stay in the cache.
const AT_A_TIME: usize = 64;

/// From this many entries on, the standard library's stable sort allocates, and entries are sorted in place.
const SORT_IN_PLACE_FROM: usize = 64;

/// Where there are windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Windows {
    /// Where they pay.
    #[default]
    Paying,
    /// Nowhere.
    Never,
    /// Wherever they are valid, as if all memory were near.
    Near,
    /// Wherever they are valid, as if all memory were far away.
    Far,
}

/// A packet goes into a pipe.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// As that of its event.
    order: u64,
    pipe: u32,
    index: u32,
}

/// The open window, and what is needed for it.
#[derive(Debug)]
pub(super) struct Window {
    /// The least delay of the pipes that have windows, in ns; 0 for no windows at all.
    width: u64,
    /// Where there are to be windows.
    pub(super) wanted: Windows,
    /// By pipe: the largest packet that it takes; 0 for pipes without windows.
    fits: Box<[u32]>,
    /// The least of these so far, which spares most networks a look at the pipe's own.
    fits_all: u32,
    /// When the window begins, in ns.
    start: u64,
    /// Each pipe's in order.
    events: Vec<Event>,
    /// Whether pipes and packets are far away in memory.
    is_far: bool,
    shares: Vec<Share>,
    pipes: Vec<wheel::Entry>,
    /// Places of events that end in their pipe.
    ends: Vec<u32>,
    /// By pipe: how many packets go into it.
    inbox: Box<[u32]>,
    /// The pipes into which any do: so many, and room for one more than all.
    fed: Box<[u32]>,
    entries: Vec<Entry>,
    /// Places of events, sorted by the order of events.
    tray: Vec<u128>,
    /// How much of the tray has been done, where it holds a whole window.
    done: usize,
}

/// Set in the tray for a pipe's last event. Of those with the same order, it is the last anyway.
const LAST: u128 = 1 << 32;

/// A place in the tray: (order, place).
const fn tray_entry(order: u64, place: u32) -> u128 {
    (order as u128) << 64 | place as u128
}

impl Window {
    /// For such pipes, with a wheel for them.
    pub(super) fn new(pipes: &[Pipe], wanted: Windows) -> (Self, Wheel) {
        let least = match wanted {
            Windows::Paying | Windows::Never => LEAST_WIDTH,
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
        let width = width.min(MOST_WIDTH);
        let shift = (width / SLOTS_PER_WINDOW).max(1).ilog2();
        let known = if width > 0 { pipes.len() } else { 0 };
        let wheel = Wheel::new(known, shift, longest.saturating_mul(2));
        let mut window = Self {
            width,
            wanted,
            fits: vec![0; pipes.len()].into(),
            fits_all: u32::MAX,
            start: 0,
            events: Vec::new(),
            shares: Vec::new(),
            is_far: false,
            pipes: Vec::new(),
            ends: Vec::new(),
            inbox: vec![0; known].into(),
            fed: vec![0; known + 1].into(),
            entries: Vec::new(),
            tray: Vec::new(),
            done: 0,
        };
        for (pipe, id) in pipes.iter().zip(0..) {
            window.know(LocalPipe(id), pipe);
        }
        (window, wheel)
    }

    /// Whether pipes and packets were far away in memory at the last window.
    #[inline]
    pub(super) const fn is_far(&self) -> bool {
        self.is_far
    }

    /// How many pipes gave something to the last window.
    #[inline]
    pub(super) const fn crowd(&self) -> usize {
        self.shares.len()
    }

    /// Finds out whether a pipe has windows.
    pub(super) fn know(&mut self, id: LocalPipe, pipe: &Pipe) {
        let fits = if self.is_for(pipe) { pipe.mtu() } else { 0 };
        self.fits[id.index()] = fits;
        self.fits_all = self.fits_all.min(fits);
    }

    /// Whether a pipe has windows.
    #[inline]
    pub(super) fn is_for(&self, pipe: &Pipe) -> bool {
        let delay = pipe.constant_delay().map_or(0, |delay| delay.as_ns());
        self.width > 0 && delay >= self.width
    }

    /// The key of the next event of a window that is done one event at a time.
    #[inline]
    pub(super) fn first(&self) -> Key {
        match self.tray.get(self.done) {
            Some(&entry) => {
                let order = (entry >> 64) as u64;
                pending::key(self.moment(order), order as u32)
            }
            None => Key::MAX,
        }
    }

    /// Takes that event out, which must exist, and says whether it is its pipe's last one.
    #[inline]
    pub(super) fn pop(&mut self) -> (Event, bool) {
        let entry = self.tray[self.done];
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

    /// Brings all `entering` events into the order of the pipes that they go into, and for each
    /// pipe into the order of events. The inboxes hold counts before and 0 afterwards.
    #[inline(never)] // inlined, it made a ring of 400 routers 0 to 2 % slower
    fn sort_by_inbox(&mut self) {
        let entering = self.events.len() - self.ends.len();
        let mut fed = 0;
        for event in &self.events {
            if let Some(next) = event.way.pipe() {
                let count = &mut self.inbox[next.index()];
                // Whether it is the pipe's first one is hard to foretell, so nothing branches on it.
                self.fed[fed] = next.0;
                fed += usize::from(*count == 0);
                *count += 1;
            }
        }
        let fed = &self.fed[..fed];
        // All entries are written below.
        if self.entries.len() < entering {
            self.entries.resize(entering, Entry::default());
        }
        self.entries.truncate(entering);
        let mut end = 0;
        for &pipe in fed {
            let count = &mut self.inbox[pipe as usize];
            (*count, end) = (end, end + *count);
        }
        for event in &self.events {
            if let Some(next) = event.way.pipe() {
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
        for &pipe in fed {
            let end = std::mem::take(&mut self.inbox[pipe as usize]) as usize;
            let own = &mut self.entries[start..end];
            match own {
                [_] => {}
                // Those of one pipe stand in order already, also where they are due together.
                [one, other] => {
                    if other.order < one.order {
                        std::mem::swap(one, other);
                    }
                }
                _ if own.len() < SORT_IN_PLACE_FROM => own.sort_by_key(|entry| entry.order),
                _ => sort_many(own, pipe),
            }
            start = end;
        }
    }

    /// Sorts the window, to be done one event at a time.
    fn sort(&mut self) {
        self.tray.clear();
        for (place, event) in self.events.iter().enumerate().rev() {
            let is_last = std::mem::replace(&mut self.inbox[event.pipe as usize], 1) == 0;
            let last = if is_last { LAST } else { 0 };
            self.tray.push(tray_entry(event.order, place as u32) | last);
        }
        for share in &self.shares {
            self.inbox[share.pipe as usize] = 0;
        }
        self.tray.sort_unstable();
        self.done = 0;
    }
}

/// Sorts what goes into one pipe by the order of events; what is equal in that keeps its order. The
/// standard library's stable sort would allocate.
#[inline(never)] // out of the way of the usual case
fn sort_many(own: &mut [Entry], pipe: u32) {
    for (place, entry) in own.iter_mut().enumerate() {
        entry.pipe = place as u32;
    }
    own.sort_unstable_by_key(|entry| (entry.order, entry.pipe));
    for entry in own {
        entry.pipe = pipe;
    }
}

impl Engine {
    /// Opens the next window, whose first event is at `least` ns: does it, or leaves it sorted.
    #[inline(never)] // out of the way of what does without
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
        let is_usual = self.look_ahead(least, slots, at_once);
        if at_once && is_usual {
            self.do_window();
            return;
        }
        if at_once && self.window.is_far {
            self.put_back();
        }
        self.window.sort();
    }

    /// Finds all that comes out of the pipes in the wheel before slot `end`, and where it goes.
    /// Changes nothing else, but that with `at_once`, and memory far away, it is taken out of the pipes
    /// already. Says whether nothing but the usual happens.
    fn look_ahead(&mut self, start: u64, end: u64, at_once: bool) -> bool {
        let window = &mut self.window;
        let bytes =
            size_of_val(&*self.pipes) as u64 + self.record.inside * size_of::<Descriptor>() as u64;
        window.is_far = match window.wanted {
            Windows::Near => false,
            Windows::Far => true,
            Windows::Paying | Windows::Never => bytes > FAR,
        };
        window.start = start;
        window.shares.clear();
        window.pipes.clear();
        window.ends.clear();
        window.events.clear();
        self.wheel.take(end, &mut window.pipes);
        let mut lookout = Lookout {
            time: start..self.wheel.start_of(end),
            is_usual: true,
            takes: at_once && window.is_far,
            pool: &self.pool,
            pipes: &mut self.pipes,
            routes: &mut self.routes,
            topology: &self.topology,
            fits: &window.fits,
            fits_all: window.fits_all,
            events: std::mem::take(&mut window.events),
            ends: &mut window.ends,
        };
        lookout.look(&window.pipes, window.is_far, &mut window.shares);
        let is_usual = lookout.is_usual;
        window.events = lookout.events;
        is_usual
    }

    /// Puts back into the pipes what has been taken out of them.
    fn put_back(&mut self) {
        for (entry, share) in self.window.pipes.iter().zip(&self.window.shares) {
            self.pipes[entry.pipe as usize].put_back(&share.taken, entry.head);
        }
    }

    /// Does the window at once.
    fn do_window(&mut self) {
        let crowded = self.is_crowded();
        let shares = std::mem::take(&mut self.window.shares);
        let are_taken = self.window.is_far;
        for share in &shares {
            if !are_taken {
                self.pipes[share.pipe as usize].pop_all(&share.taken, share.head);
            }
            if share.head != NIL {
                self.enqueue_head(LocalPipe(share.pipe), share.head, share.due, crowded);
            }
        }
        self.window.shares = shares;
        self.complete_window();
        self.window.sort_by_inbox();
        self.serve_inboxes(crowded);
    }

    /// [`Engine::complete`] for all of the window's packets, but for their entry into the next pipes.
    fn complete_window(&mut self) {
        let window = &mut self.window;
        window.tray.clear();
        window.done = 0;
        let mut lost = 0;
        for number in 0..self.window.ends.len() {
            let place = self.window.ends[number];
            let event = self.window.events[place as usize];
            if event.way == Way::LOST {
                lost += 1;
                let ip_len = self.pool[event.index].ip_len();
                self.pipes[event.pipe as usize].lose(ip_len);
                self.lose(LocalPipe(event.pipe), event.index);
            } else {
                self.window.tray.push(tray_entry(event.order, place));
            }
        }
        let window = &self.window;
        let came_out = window.events.iter().filter(|event| event.way != Way::LOST);
        let came_out = came_out.map(|event| {
            let at = window.moment(event.order);
            (LocalPipe(event.pipe), event.index, at.time)
        });
        let count = window.events.len() - lost;
        self.record.came_out(count, came_out, &self.pool);
        self.window.tray.sort_unstable();
        for number in 0..self.window.tray.len() {
            let place = self.window.tray[number] as u32;
            self.deliver(self.window.events[place as usize].index);
        }
        self.window.tray.clear();
    }

    /// Lets each pipe take what goes into it.
    fn serve_inboxes(&mut self, crowded: bool) {
        let entries = std::mem::take(&mut self.window.entries);
        for entries in entries.chunks(AT_A_TIME) {
            self.fetch(entries);
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
                if self.record.wants(Fate::Served) {
                    self.tell_served(into, entry.index);
                }
                match last {
                    None => self.enqueue_head(LocalPipe(entry.pipe), entry.index, due, crowded),
                    Some(last) if self.window.is_far => self.pool[last].set_due_behind(due),
                    Some(_) => {}
                }
            }
        }
        self.window.entries = entries;
    }

    /// Has the memory brought that is about to be needed: loops that wait for nothing.
    fn fetch(&self, entries: &[Entry]) {
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

    /// Gives back to the pending set what is left of an open window.
    pub(super) fn close_window(&mut self) {
        let window = &mut self.window;
        let rest = std::mem::take(&mut window.tray);
        for &entry in &rest[self.window.done.min(rest.len())..] {
            let event = self.window.events[entry as u32 as usize];
            let pipe = &self.pipes[event.pipe as usize];
            if entry & LAST > 0
                && let Some(due) = pipe.next_due(&self.pool)
            {
                self.announce(LocalPipe(event.pipe), pipe.first(), due);
            }
        }
        self.window.tray = rest;
        self.window.tray.clear();
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
            sort_many(&mut own, 3);
            let parts = |entry: &Entry| (entry.order, entry.pipe, entry.index);
            assert!(own.iter().map(parts).eq(expected.iter().map(parts)));
        }
    }
}
