//! The event loop: events one at a time, in their total order.
//!
//! The next event is the earliest of three sources: the heap, the open window ([`super::window`]) and the
//! wheel. A window is opened over the wheel only when the wheel's first entry is the earliest.

use super::Engine;
use super::disposition;
use super::window::Windows;
use crate::parallel::LocalPipe;
use crate::pending::wheel::Entry;
use crate::pending::{self, Key};
use crate::pipe::Context;
use crate::pipe::delay::Moment;
use crate::pool::NIL;
use crate::time::Time;
use crate::witness::PacketEvent;

/// Use windows from this many busy pipes on. With fewer, a window holds so few packets that the heap is
/// faster. Measured with rings of 50 to 1000 pipes (`examples/hops.rs`).
const MIN_BUSY_PIPES: usize = 160;

impl Engine {
    /// Handles all events with a key below `end`, in order.
    pub(super) fn run(&mut self, end: Key) {
        loop {
            let heap = self.heap.first().unwrap_or(Key::MAX);
            let first = heap.min(self.window.first());
            let least = self.wheel.least();
            if least <= pending::time(first).as_ns() && least < u64::MAX {
                if pending::departure_key(Time::from_ns(least), 0) >= end {
                    break;
                }
                self.open_window(least, heap, end);
            } else if first >= end {
                break;
            } else if heap == first {
                self.step(heap);
            } else {
                self.step_window();
            }
        }
        debug_assert!(self.record.is_balanced());
    }

    /// The time of the next event.
    pub(super) fn first_due(&self) -> Option<Time> {
        let heap = self.heap.first().unwrap_or(Key::MAX);
        let first = heap.min(self.window.first());
        let wheel = self.wheel.least();
        if first == Key::MAX && wheel == u64::MAX {
            return None;
        }
        Some(pending::time(first).min(Time::from_ns(wheel)))
    }

    /// Handles the first event of the heap.
    #[inline]
    fn step(&mut self, key: Key) {
        let from = LocalPipe(self.by_rank[pending::rank(key) as usize]);
        let pipe = &mut self.pipes[from.index()];
        let index = if pipe.is_shaped() {
            let (index, next) = self.step_shaped(from, key);
            self.heap.replace_first(next);
            index
        } else {
            let index = pipe.pop(&self.pool);
            let (head, next) = (pipe.first(), pipe.next_due(&self.pool));
            let next = next.map(|due| pending::key(due, pipe.rank));
            let next = next.filter(|&key| !self.wheel_takes(from, head, pending::moment(key)));
            self.heap.replace_first(next);
            index
        };
        if index != NIL {
            self.come_out(from, index, pending::moment(key));
        }
    }

    /// Decides what happens to a packet that has been taken out of its pipe, and carries it out.
    #[inline]
    fn come_out(&mut self, from: LocalPipe, index: u32, at: Moment) {
        let pipes = &self.pipes;
        let routes = (&mut self.routes, &*self.topology);
        let mtu = |next: LocalPipe| pipes[next.index()].mtu();
        let disposition = disposition::decide(&pipes[from.index()], &self.pool[index], routes, mtu);
        self.complete(from, index, at, disposition);
    }

    /// Handles the first event of the open window.
    #[inline]
    fn step_window(&mut self) {
        let at = pending::moment(self.window.first());
        let (event, is_last) = self.window.pop();
        let from = LocalPipe(event.pipe);
        let pipe = &mut self.pipes[from.index()];
        let index = pipe.pop(&self.pool);
        debug_assert_eq!(index, event.index);
        if is_last && let Some(due) = pipe.next_due(&self.pool) {
            let head = pipe.first();
            self.announce(from, head, due);
        }
        self.complete(from, index, at, event.disposition);
    }

    /// Puts a plain pipe into the pending set: its head comes out at `due`. The pipe must not be in it.
    #[inline]
    pub(super) fn announce(&mut self, pipe: LocalPipe, head: u32, due: Moment) {
        if self.pipes[pipe.index()].is_exit() {
            self.announce_exit(pipe, due);
        } else if !self.wheel_takes(pipe, head, due) {
            let rank = self.pipes[pipe.index()].rank;
            self.heap.insert(pending::key(due, rank));
        }
    }

    /// Puts a plain pipe into the wheel if it has windows and they pay; returns whether it did.
    #[inline]
    fn wheel_takes(&mut self, pipe: LocalPipe, head: u32, due: Moment) -> bool {
        let entry = Entry { pipe: pipe.0, head };
        due.microstep == 0
            && self.windows_pay()
            && self.window.is_for(&self.pipes[pipe.index()])
            && self.wheel.insert(entry, due.time.as_ns())
    }

    /// [`Engine::announce`] for a pipe known to have windows; the caller knows whether they pay.
    #[inline]
    pub(super) fn enqueue_head(
        &mut self,
        pipe: LocalPipe,
        head: u32,
        due: Moment,
        windows_pay: bool,
    ) {
        debug_assert!(self.window.is_for(&self.pipes[pipe.index()]));
        let entry = Entry { pipe: pipe.0, head };
        let pays = windows_pay && due.microstep == 0;
        if self.pipes[pipe.index()].is_exit() {
            self.announce_exit(pipe, due);
        } else if !(pays && self.wheel.insert(entry, due.time.as_ns())) {
            let rank = self.pipes[pipe.index()].rank;
            self.heap.insert(pending::key(due, rank));
        }
    }

    /// Whether enough pipes are busy for windows to be faster than the heap.
    #[inline]
    pub(super) fn windows_pay(&self) -> bool {
        match self.window.wanted {
            Windows::Paying | Windows::Never => self.busy_pipes() >= MIN_BUSY_PIPES,
            Windows::Near | Windows::Far => true,
        }
    }

    /// About how many pipes hold packets.
    #[inline]
    fn busy_pipes(&self) -> usize {
        self.heap.len() + self.wheel.len() + self.window.busy_pipes()
    }

    /// Handles the first event of the heap, which is a shaped pipe's. Returns the packet that comes out,
    /// or `NIL`, and the key that replaces the first one of the heap.
    #[inline(never)]
    fn step_shaped(&mut self, from: LocalPipe, key: Key) -> (u32, Option<Key>) {
        let pipe = &mut self.pipes[from.index()];
        let mut context = Context {
            pool: &mut self.pool,
            record: &mut self.record,
            floor: self.now,
            id: from,
        };
        let out = pipe.step_shaped(key, &mut context);
        let [departure, mut head] = pipe.announce(&self.pool);
        if pipe.is_exit()
            && let Some(head) = head.take()
        {
            self.announce_exit(from, pending::moment(head));
        }
        if let (Some(_), Some(head)) = (departure, head) {
            debug_assert!(head > key, "no new event precedes the current one");
            self.heap.insert(head);
        }
        (out.unwrap_or(NIL), departure.or(head))
    }

    /// [`Engine::step_shaped`] for a cut pipe, whose packet is handed to another core.
    #[inline(never)]
    pub(super) fn take_shaped_exit(&mut self, from: LocalPipe, key: Key) -> u32 {
        let (index, departure) = self.step_shaped(from, key);
        if let Some(departure) = departure {
            self.heap.insert(departure);
        }
        index
    }

    /// Puts a packet into a shaped pipe.
    #[inline(never)]
    fn enter_shaped(&mut self, id: LocalPipe, index: u32, entry: Moment) {
        let pipe = &mut self.pipes[id.index()];
        let mut context = Context {
            pool: &mut self.pool,
            record: &mut self.record,
            floor: self.now,
            id,
        };
        pipe.enter_shaped(index, entry, &mut context);
        self.announce_shaped(id);
    }

    /// Puts a shaped pipe into the pending set, or into the exits to another core.
    fn announce_shaped(&mut self, id: LocalPipe) {
        let pipe = &mut self.pipes[id.index()];
        let [departure, head] = pipe.announce(&self.pool);
        let is_exit = pipe.is_exit();
        for key in departure.into_iter().chain(head) {
            if is_exit && pending::is_out(key) {
                self.announce_exit(id, pending::moment(key));
            } else {
                self.heap.insert(key);
            }
        }
    }

    /// Enqueues a packet in a pipe, or drops it where the queue is full.
    #[inline]
    pub(super) fn enter(&mut self, to: LocalPipe, index: u32, entry: Moment, floor: Time) {
        let pipe = &mut self.pipes[to.index()];
        if pipe.is_shaped() {
            return self.enter_shaped(to, index, entry);
        }
        let last = pipe.last();
        if !pipe.enter(index, entry, floor, &mut self.pool) {
            return self.overflow(to, index, entry);
        }
        self.record.went_in(to, index, entry.time, &self.pool);
        if self.record.wants(PacketEvent::Served) {
            self.report_served(to, index);
        }
        match last {
            None => self.announce(to, index, self.pool[index].due()),
            Some(last) if self.window.is_far() => {
                let due = self.pool[index].due();
                self.pool[last].set_due_behind(due);
            }
            Some(_) => {}
        }
    }

    /// Reports when the service of the packet that entered a plain pipe last begins.
    #[cold]
    pub(super) fn report_served(&mut self, pipe: LocalPipe, index: u32) {
        let start = self.pipes[pipe.index()].last_start(self.pool[index].ip_len());
        self.record.served(pipe, index, start, &self.pool);
    }

    /// Counts a packet that found the queue full.
    #[cold]
    pub(super) fn overflow(&mut self, pipe: LocalPipe, index: u32, at: Moment) {
        self.record.went_in(pipe, index, at.time, &self.pool);
        self.record
            .ended_inside(pipe, index, at.time, PacketEvent::Queue, &mut self.pool);
    }

    /// Changes a pipe, and takes it out of the pending set before and puts it back after: a change may
    /// move the time at which its head comes out.
    pub(super) fn change(
        &mut self,
        id: LocalPipe,
        change: impl FnOnce(&mut crate::pipe::Pipe, &mut Context<'_>),
    ) {
        self.close_window();
        let (pipes, pool) = (&mut self.pipes, &mut self.pool);
        let pipe = &pipes[id.index()];
        let rank = pipe.rank;
        let due_of = |other: u32| {
            let due = pipes[other as usize].next_due(pool);
            due.map_or(u64::MAX, |due| due.time.as_ns())
        };
        let was_in_wheel = pipe
            .next_due(pool)
            .is_some_and(|due| self.wheel.remove(id.0, due.time.as_ns(), due_of));
        if !was_in_wheel {
            self.heap.remove(rank);
            self.exits.iter_mut().for_each(|exits| exits.remove(rank));
        }
        let pipe = &mut pipes[id.index()];
        let mut context = Context {
            pool,
            record: &mut self.record,
            floor: self.now,
            id,
        };
        change(pipe, &mut context);
        self.window.update_pipe(id, pipe);
        pipe.forget();
        self.announce_shaped(id);
        let pipe = &self.pipes[id.index()];
        if let Some(due) = pipe.next_due(&self.pool) {
            self.announce(id, pipe.first(), due);
        }
        debug_assert!(self.record.is_balanced());
    }
}
