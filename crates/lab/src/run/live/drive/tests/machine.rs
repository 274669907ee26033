//! A machine in memory: its clock moves as far as what it does takes, and stands still where a
//! test says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use longhaul_core::engine::{GATEWAY_MAC, host_mac};
use longhaul_core::packet::sum16;
use longhaul_core::{Span, Time};
use longhaul_linux::packet_io::{Ask, Departure, VnetHeader};

use crate::run::live::drive::Command;
use crate::run::live::drive::platform::{Arrival, Happened, Outcome, Platform};
use longhaul_plan::plan::Plan;

/// When frames were on their cables, by host.
pub(super) type Cables = Rc<RefCell<Vec<Vec<Time>>>>;

/// What becomes of a frame that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// The kernel refuses it.
    Refused,
    /// The kernel sends it, and does not say when.
    Unanswered,
}

/// What a machine is like.
pub(super) struct Machine {
    /// From which host a frame comes, to which it goes, and when.
    frames: Vec<(usize, usize, Time)>,
    /// When the machine stands still, and for how long.
    pub(super) stalls: Vec<(Time, Span)>,
    /// Of the n-th frame that is sent.
    pub(super) fault: fn(u64) -> Fault,
    /// How long a frame takes to send.
    pub(super) send_cost: Span,
    /// Frames that find room until they are read.
    pub(super) ring: usize,
    /// Waits end so much too soon.
    pub(super) wakes_early: Span,
}

/// How long a look at the clock takes.
const LOOK: Span = Span::from_ns(50);

impl Machine {
    pub(super) fn new(frames: Vec<(usize, usize, Time)>) -> Self {
        Self {
            frames,
            stalls: Vec::new(),
            fault: |_| Fault::None,
            send_cost: Span::from_us(1),
            ring: 1 << 20,
            wakes_early: Span::ZERO,
        }
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// The machine for a plan's hosts; `commands` is dropped at `end`. Also where it writes down
    /// when frames were on their cables, by host, and a channel that is closed then.
    pub(super) fn platform(
        self,
        plan: &Plan,
        commands: Sender<Command>,
        end: Time,
    ) -> (TestPlatform, Cables, Receiver<()>) {
        let (under_way, over) = channel();
        let cables = Rc::new(RefCell::new(vec![Vec::new(); plan.hosts.len()]));
        let arrivals = self.frames.iter();
        let arrivals = arrivals.map(|&(from, to, stamp)| (from, stamp, frame(plan, from, to)));
        let platform = TestPlatform {
            now: Time::ZERO,
            stalls: self.stalls.iter().copied().collect(),
            arrivals: arrivals.collect(),
            lost: 0,
            number: 0,
            under_way: Some((commands, under_way)),
            end,
            cables: Rc::clone(&cables),
            machine: self,
        };
        (platform, cables, over)
    }
}

/// An empty UDP datagram between two hosts.
fn frame(plan: &Plan, from: usize, to: usize) -> Vec<u8> {
    let [from, to] = [from, to].map(|host| plan.hosts[host].node);
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0];
    for node in [from, to] {
        ip.extend(plan.topology.node(node).ipv4.octets());
    }
    let checksum = !sum16(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip.extend([0x30, 0x39, 0, 9, 0, 8, 0, 0]);
    let macs = GATEWAY_MAC.into_iter().chain(host_mac(from));
    macs.chain([0x08, 0x00]).chain(ip).collect()
}

pub(super) struct TestPlatform {
    machine: Machine,
    now: Time,
    stalls: VecDeque<(Time, Span)>,
    arrivals: VecDeque<(usize, Time, Vec<u8>)>,
    lost: u64,
    /// Frames sent so far.
    number: u64,
    /// Dropped at the end.
    under_way: Option<(Sender<Command>, Sender<()>)>,
    end: Time,
    cables: Cables,
}

impl TestPlatform {
    /// The clock comes to `at`, or stands still on its way there.
    fn come_to(&mut self, at: Time) {
        while let Some((start, length)) = self.stalls.front().copied()
            && start <= at
        {
            self.now = self.now.max(start) + length;
            self.stalls.pop_front();
        }
        self.now = self.now.max(at);
    }

    /// What has come meanwhile and found no room is lost.
    fn fill_ring(&mut self) {
        let came = self
            .arrivals
            .partition_point(|(_, stamp, _)| *stamp <= self.now);
        if came > self.machine.ring {
            self.lost += (came - self.machine.ring) as u64;
            self.arrivals.drain(self.machine.ring..came);
        }
    }
}

impl Platform for TestPlatform {
    fn now(&mut self) -> Time {
        self.come_to(self.now + LOOK);
        self.now
    }

    fn peek(&mut self) -> Option<Arrival<'_>> {
        self.fill_ring();
        let (host, stamp, frame) = self.arrivals.front()?;
        (*stamp <= self.now).then(|| Arrival {
            host: *host,
            stamp: *stamp,
            vnet: VnetHeader::default(),
            frame,
            full_len: frame.len(),
            tagged: false,
        })
    }

    fn release(&mut self) {
        self.arrivals.pop_front();
    }

    fn send(&mut self, batch: &[Departure<'_>], ask: Ask, outcomes: &mut [Outcome]) {
        let last = batch.len() - 1;
        for (place, (departure, outcome)) in batch.iter().zip(outcomes).enumerate() {
            self.come_to(self.now + self.machine.send_cost);
            let fault = (self.machine.fault)(self.number);
            self.number += 1;
            if fault != Fault::Refused {
                self.cables.borrow_mut()[departure.host].push(self.now);
            }
            *outcome = match fault {
                Fault::Refused => Outcome::Refused,
                _ if ask == Ask::Last && place < last => Outcome::Unasked,
                Fault::Unanswered => Outcome::Unanswered,
                Fault::None => Outcome::At(self.now),
            };
        }
    }

    fn wait(&mut self, until: Time) -> io::Result<()> {
        if self.now >= self.end {
            self.under_way = None;
        }
        let next = self.arrivals.front().map_or(until, |(_, stamp, _)| *stamp);
        let until = until - self.machine.wakes_early;
        self.come_to(self.now.max(until.min(next)));
        Ok(())
    }

    fn turned(&mut self, _now: Time) {}

    fn duration(&self, span: Span) -> Duration {
        Duration::from_nanos(span.as_ns())
    }

    fn take_happened(&mut self) -> Happened {
        self.fill_ring();
        Happened {
            lost: std::mem::take(&mut self.lost),
            ..Happened::default()
        }
    }
}
