//! A machine in memory: its clock advances by the cost of what the loop does, and by the stalls that
//! a test plants. Frames come by the experiment's clock, which may be slower.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::engine::{GATEWAY_MAC, host_mac};
use longhaul_core::packet::sum16;
use longhaul_linux::clock::MachineTime;
use longhaul_linux::packet_io::{Ask, Departure, VnetHeader};

use crate::pace::{Dilation, Now, Pace};
use crate::run::live::drive::Command;
use crate::run::live::drive::platform::{Arrival, Outcome, Platform, PlatformCounters};
use longhaul_plan::plan::Plan;

/// What a machine writes down of frames that it sends.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// When they were on their cables, by host.
    pub(super) cables: Vec<Vec<Now>>,
    /// In how many calls it was asked of the last one alone.
    pub(super) asked_of_last: u64,
}

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
    /// Stalls: how long after t = 0 each begins, and how long it lasts.
    pub(super) stalls: Vec<(Duration, Duration)>,
    /// How much slower the experiment's clock is than the machine's.
    pub(super) dilation: Dilation,
    /// Of the n-th frame that is sent.
    pub(super) fault: fn(u64) -> Fault,
    /// How long a frame takes to send.
    pub(super) send_cost: Duration,
    /// How long a frame takes to read.
    pub(super) read_cost: Duration,
    /// Frames that find room until they are read.
    pub(super) ring: usize,
    /// How much too soon waits end.
    pub(super) wakes_early: Duration,
}

/// How long reading the clock takes.
const CLOCK_READ: Duration = Duration::from_nanos(50);
/// When it is t = 0 by the machine's clock.
const START: MachineTime = MachineTime::from_ns(1_000_000_000_000);

impl Machine {
    pub(super) fn new(frames: Vec<(usize, usize, Time)>) -> Self {
        Self {
            frames,
            stalls: Vec::new(),
            dilation: Dilation::NONE,
            fault: |_| Fault::None,
            send_cost: Duration::from_micros(1),
            read_cost: Duration::ZERO,
            ring: 1 << 20,
            wakes_early: Duration::ZERO,
        }
    }

    /// The same machine with an experiment whose clock is slower, and whose frames come as much
    /// sooner by it: on the machine's clock nothing changes.
    pub(super) fn slowed(mut self, factor: u32) -> Self {
        self.dilation = Dilation::by(factor);
        for (_, _, stamp) in &mut self.frames {
            *stamp = Time::from_ns(stamp.as_ns() / u64::from(factor));
        }
        self
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// The machine for a plan's hosts; `commands` is dropped at `end`. Also what it writes down,
    /// and a channel that is closed then.
    pub(super) fn platform(
        self,
        plan: &Plan,
        commands: Sender<Command>,
        end: Time,
    ) -> (TestPlatform, Rc<RefCell<Sent>>, Receiver<()>) {
        let (under_way, over) = channel();
        let sent = Rc::new(RefCell::new(Sent {
            cables: vec![Vec::new(); plan.hosts.len()],
            asked_of_last: 0,
        }));
        let arrivals = self.frames.iter();
        let pace = Pace::new(START, self.dilation);
        let arrivals = arrivals.map(|&(from, to, stamp)| (from, stamp, frame(plan, from, to)));
        let stalls = self.stalls.iter();
        let platform = TestPlatform {
            pace,
            at: START,
            stalls: stalls.map(|&(at, length)| (START + at, length)).collect(),
            arrivals: arrivals.collect(),
            lost: 0,
            number: 0,
            under_way: Some((commands, under_way)),
            end,
            sent: Rc::clone(&sent),
            machine: self,
        };
        (platform, sent, over)
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
    pace: Pace,
    at: MachineTime,
    stalls: VecDeque<(MachineTime, Duration)>,
    arrivals: VecDeque<(usize, Time, Vec<u8>)>,
    lost: u64,
    /// Frames sent so far.
    number: u64,
    /// Dropped at the end.
    under_way: Option<(Sender<Command>, Sender<()>)>,
    end: Time,
    sent: Rc<RefCell<Sent>>,
}

impl TestPlatform {
    /// Advances the clock to `at`, with the stalls on its way there.
    fn come_to(&mut self, at: MachineTime) {
        while let Some((start, length)) = self.stalls.front().copied()
            && start <= at
        {
            self.at = self.at.max(start) + length;
            self.stalls.pop_front();
        }
        self.at = self.at.max(at);
    }

    fn read(&self) -> Now {
        self.pace.read(self.at)
    }

    /// What has come meanwhile and found no room is lost.
    fn fill_ring(&mut self) {
        let now = self.read().time;
        let arrived = self.arrivals.partition_point(|(_, stamp, _)| *stamp <= now);
        if arrived > self.machine.ring {
            self.lost += (arrived - self.machine.ring) as u64;
            self.arrivals.drain(self.machine.ring..arrived);
        }
    }
}

impl Platform for TestPlatform {
    fn now(&mut self) -> Now {
        self.come_to(self.at + CLOCK_READ);
        self.read()
    }

    fn peek(&mut self) -> Option<Arrival<'_>> {
        self.fill_ring();
        let now = self.read().time;
        let (host, stamp, frame) = self.arrivals.front()?;
        (*stamp <= now).then(|| Arrival {
            host: *host,
            stamp: *stamp,
            vnet: VnetHeader::default(),
            frame,
            full_len: frame.len(),
            tagged: false,
        })
    }

    fn release(&mut self) {
        self.come_to(self.at + self.machine.read_cost);
        self.arrivals.pop_front();
    }

    fn send(&mut self, batch: &[Departure<'_>], ask: Ask, outcomes: &mut [Outcome]) {
        let last = batch.len() - 1;
        self.sent.borrow_mut().asked_of_last += u64::from(ask == Ask::Last);
        for (place, (departure, outcome)) in batch.iter().zip(outcomes).enumerate() {
            self.come_to(self.at + self.machine.send_cost);
            let fault = (self.machine.fault)(self.number);
            self.number += 1;
            if fault != Fault::Refused {
                let now = self.read();
                self.sent.borrow_mut().cables[departure.host].push(now);
            }
            *outcome = match fault {
                Fault::Refused => Outcome::Refused,
                _ if ask == Ask::Last && place < last => Outcome::Unasked,
                Fault::Unanswered => Outcome::Unanswered,
                Fault::None => Outcome::At(self.read().time),
            };
        }
    }

    fn wait(&mut self, until: Time) -> io::Result<()> {
        if self.read().time >= self.end {
            self.under_way = None;
        }
        let next = self.arrivals.front().map_or(until, |(_, stamp, _)| *stamp);
        let (until, next) = (self.pace.moment_of(until), self.pace.moment_of(next));
        let early = self.machine.wakes_early.as_nanos() as u64;
        let until = MachineTime::from_ns(until.as_ns() - early);
        self.come_to(self.at.max(until.min(next)));
        Ok(())
    }

    fn turned(&mut self, _now: MachineTime) {}

    fn pace(&self) -> Pace {
        self.pace
    }

    fn take_counters(&mut self) -> PlatformCounters {
        self.fill_ring();
        PlatformCounters {
            lost: std::mem::take(&mut self.lost),
            ..PlatformCounters::default()
        }
    }
}
