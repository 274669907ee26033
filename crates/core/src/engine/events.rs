//! Events, one at a time in their total order.
//!
//! What is next is the least of three: the heap, the open window ([`super::window`]), and the
//! wheel, out of which the next window is opened when its turn has come.

use super::Engine;
use super::way;
use super::window::Windows;
use crate::parallel::LocalPipe;
use crate::pending::wheel::Entry;
use crate::pending::{self, Key};
use crate::pipe::Context;
use crate::pipe::delay::Moment;
use crate::pool::NIL;
use crate::time::Time;
use crate::witness::Fate;

/// Windows pay from this many heads on; with fewer they hold a few packets each, and the heap is faster.
/// Measured with rings of 50 to 1000 pipes (`examples/hops.rs`).
const WINDOWS_PAY_FROM: usize = 160;

impl Engine {
    /// Does everything with a key below `end`, in order.
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

    /// When something is due next, in the order of events.
    pub(super) fn first_due(&self) -> Option<Time> {
        let heap = self.heap.first().unwrap_or(Key::MAX);
        let first = heap.min(self.window.first());
        let wheel = self.wheel.least();
        if first == Key::MAX && wheel == u64::MAX {
            return None;
        }
        Some(pending::time(first).min(Time::from_ns(wheel)))
    }

    /// What stands first in the heap happens.
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

    /// A packet that has been taken out of its pipe goes where that turns out to be.
    #[inline]
    fn come_out(&mut self, from: LocalPipe, index: u32, at: Moment) {
        let pipes = &self.pipes;
        let routes = (&mut self.routes, &*self.topology);
        let mtu = |next: LocalPipe| pipes[next.index()].mtu();
        let way = way::decide(&pipes[from.index()], &self.pool[index], routes, mtu);
        self.complete(from, index, at, way);
    }

    /// What stands first in the open window happens.
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
        self.complete(from, index, at, event.way);
    }

    /// The head of a plain pipe is due at `due`; the pipe stands nowhere yet.
    #[inline]
    pub(super) fn announce(&mut self, pipe: LocalPipe, head: u32, due: Moment) {
        if self.pipes[pipe.index()].is_exit() {
            self.announce_exit(pipe, due);
        } else if !self.wheel_takes(pipe, head, due) {
            let rank = self.pipes[pipe.index()].rank;
            self.heap.insert(pending::key(due, rank));
        }
    }

    /// Puts a plain pipe into the wheel, where that pays and is allowed.
    #[inline]
    fn wheel_takes(&mut self, pipe: LocalPipe, head: u32, due: Moment) -> bool {
        let entry = Entry { pipe: pipe.0, head };
        due.microstep == 0
            && self.is_crowded()
            && self.window.is_for(&self.pipes[pipe.index()])
            && self.wheel.insert(entry, due.time.as_ns())
    }

    /// As [`Engine::announce`], for a pipe that has windows, when it is known whether they pay.
    #[inline]
    pub(super) fn enqueue_head(&mut self, pipe: LocalPipe, head: u32, due: Moment, crowded: bool) {
        debug_assert!(self.window.is_for(&self.pipes[pipe.index()]));
        let entry = Entry { pipe: pipe.0, head };
        let pays = crowded && due.microstep == 0;
        if self.pipes[pipe.index()].is_exit() {
            self.announce_exit(pipe, due);
        } else if !(pays && self.wheel.insert(entry, due.time.as_ns())) {
            let rank = self.pipes[pipe.index()].rank;
            self.heap.insert(pending::key(due, rank));
        }
    }

    /// Whether there are enough heads for windows to pay.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        match self.window.wanted {
            Windows::Paying | Windows::Never => self.crowd() >= WINDOWS_PAY_FROM,
            Windows::Near | Windows::Far => true,
        }
    }

    /// How many pipes have something to do, more or less.
    #[inline]
    fn crowd(&self) -> usize {
        self.heap.len() + self.wheel.len() + self.window.crowd()
    }

    /// What stands first in the heap happens, in a shaped pipe; gives the packet that comes out,
    /// `NIL` where none does, and what takes the first place's place.
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
            debug_assert!(head > key, "nothing new comes before what is first");
            self.heap.insert(head);
        }
        (out.unwrap_or(NIL), departure.or(head))
    }

    /// [`Engine::step_shaped`] for a cut pipe, whose packet goes over to another core.
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

    /// Puts a shaped pipe where it has to stand.
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

    /// Puts a packet into a pipe, or drops it where there is no room.
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
        if self.record.wants(Fate::Served) {
            self.tell_served(to, index);
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

    /// Tells of the service of the packet that was the last to enter a plain pipe.
    #[cold]
    pub(super) fn tell_served(&mut self, pipe: LocalPipe, index: u32) {
        let start = self.pipes[pipe.index()].last_start(self.pool[index].ip_len());
        self.record.served(pipe, index, start, &self.pool);
    }

    /// A pipe had no room for a packet.
    #[cold]
    pub(super) fn overflow(&mut self, pipe: LocalPipe, index: u32, at: Moment) {
        self.record.went_in(pipe, index, at.time, &self.pool);
        self.record
            .ended_inside(pipe, index, at.time, Fate::Queue, &mut self.pool);
    }

    /// Changes a pipe, and where it stands among what is to come.
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
        let stands_in_wheel = pipe
            .next_due(pool)
            .is_some_and(|due| self.wheel.remove(id.0, due.time.as_ns(), due_of));
        if !stands_in_wheel {
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
        self.window.know(id, pipe);
        pipe.forget();
        self.announce_shaped(id);
        let pipe = &self.pipes[id.index()];
        if let Some(due) = pipe.next_due(&self.pool) {
            self.announce(id, pipe.first(), due);
        }
        debug_assert!(self.record.is_balanced());
    }
}
