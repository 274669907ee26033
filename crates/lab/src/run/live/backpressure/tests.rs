//! Hosts that always send, and cores of a given capacity.

use super::*;
use crate::pace::Dilation;
use crate::run::live::bottleneck::longest_frame;
use longhaul_core::Span;
use longhaul_core::topology::PipeParams;
use longhaul_core::units::{Framing, Rate};
use proptest::prelude::*;

const TICK: Duration = Duration::from_millis(20);
const GIGABIT: f64 = 125e6;
const LENGTHS: (u32, u32) = (1500, 1514);

/// A sample of a core that was busy for part of the time, and behind with part of its arrivals.
fn core_load(load: f64, behind: f64) -> CoreLoad {
    CoreLoad {
        elapsed: TICK,
        load,
        behind,
    }
}

/// A machine that carries `capacity` bytes of cost per second, and one host that always sends frames of
/// `frame` bytes. The core falls behind above the load `behind_above`.
fn settle(capacity: f64, frame: u32, behind_above: f64) -> f64 {
    let mut backpressure = Backpressure::default();
    backpressure.follow(0, Bottleneck::Machine, (1500, frame), Seen::default());
    let (mut cost, mut allowed) = (0.0, SPEED_START * COST_BYTES_PER_S);
    let mut load = 0.0;
    for _ in 0..2000 {
        cost += allowed * TICK.as_secs_f64();
        load = allowed / capacity;
        let behind = if load > behind_above { 0.5 } else { 0.0 };
        let frames = cost / (f64::from(frame) + PACKET_COST_BYTES as f64);
        let seen = Seen {
            packets: frames as u64,
            bytes: (frames * f64::from(frame)) as u64,
            waited: Duration::ZERO,
        };
        for (_, shaper) in backpressure.sample(core_load(load.min(1.0), behind), |_| seen) {
            allowed = shaper.bytes_per_s as f64;
        }
    }
    load
}

#[test]
fn a_greedy_host_settles_below_the_capacity_of_the_machine() {
    for capacity in [1e8, 4e8, 1e9, 4e9] {
        let load = settle(capacity, 1514, 0.95);
        assert!((0.6..=0.95).contains(&load), "capacity {capacity}: {load}");
    }
}

/// Super-packets come in bursts: the core is behind long before it is busy all the time.
#[test]
fn super_packets_settle_where_the_core_is_seldom_behind() {
    for capacity in [4e8, 1e9, 4e9] {
        let load = settle(capacity, longest_frame(1500, true), 0.8);
        assert!((0.5..=0.85).contains(&load), "capacity {capacity}: {load}");
    }
}

#[test]
fn a_modest_host_is_left_alone() {
    let mut backpressure = Backpressure::default();
    backpressure.follow(0, Bottleneck::Machine, LENGTHS, Seen::default());
    for tick in 1..100 {
        let seen = Seen {
            packets: tick,
            bytes: tick * 100,
            waited: Duration::ZERO,
        };
        assert!(
            backpressure
                .sample(core_load(0.1, 0.0), |_| seen)
                .is_empty()
        );
    }
}

/// Hosts that always send, some of them behind a link of that many bytes a second, and a core that is
/// behind above a load of `full`. Each sample: the load, and what each host's shaper lets through.
fn flood(machine: usize, links: &[u64], capacity: f64, full: f64) -> Vec<(f64, Vec<f64>)> {
    let mut backpressure = Backpressure::default();
    let bottlenecks = std::iter::repeat_n(Bottleneck::Machine, machine);
    let bottlenecks = bottlenecks.chain(links.iter().map(|bits_per_s| link(*bits_per_s)));
    let lengths = (1500, longhaul_core::segment::MAX_SUPER_LEN as u32);
    let mut shapers: Vec<Shaper> = bottlenecks
        .enumerate()
        .map(|(host, bottleneck)| backpressure.follow(host, bottleneck, lengths, Seen::default()))
        .collect();
    let mut seen = vec![Seen::default(); shapers.len()];
    let mut samples = Vec::new();
    for _ in 0..2000 {
        let rates: Vec<f64> = shapers.iter().map(|b| b.bytes_per_s as f64).collect();
        let load = rates.iter().sum::<f64>() / capacity;
        // A core that is full takes what it can from each.
        let taken = TICK.as_secs_f64() / load.max(1.0);
        for ((seen, rate), shaper) in seen.iter_mut().zip(&rates).zip(&shapers) {
            let frame = 60_000;
            let frames = (rate * taken / frame as f64).ceil() as u64;
            seen.packets += frames;
            seen.bytes += frames * frame;
            // As long as the bucket of a link wants it to be.
            let middle = f64::from(shaper.burst_bytes) / rate / 2.0;
            seen.waited += Duration::from_secs_f64(frames as f64 * middle);
        }
        let core_load = core_load(load.min(1.0), if load > full { 0.3 } else { 0.0 });
        for (host, shaper) in backpressure.sample(core_load, |host| seen[host]) {
            shapers[host] = shaper;
        }
        samples.push((load, rates));
    }
    samples
}

proptest! {
    /// Whatever a machine carries and whoever sends: it is used, not overrun for long, and shared.
    #[test]
    fn floods_fill_a_machine_and_do_not_overrun_it(
        machine in 0usize..6,
        links in prop::collection::vec(1_000_000_000u64..40_000_000_000, 0..6),
        each in 1e8f64..4e9,
        full in 0.8f64..0.95,
    ) {
        prop_assume!(machine + links.len() > 0);
        let capacity = each * (machine + links.len()) as f64;
        let samples = flood(machine, &links, capacity, full);
        let late = &samples[1000..];
        let mean = late.iter().map(|(load, _)| load).sum::<f64>() / late.len() as f64;
        let behind = late.iter().filter(|(load, _)| *load > full).count();
        prop_assert!(behind * 3 < late.len(), "behind at {behind} of {} samples", late.len());
        prop_assert!(late.iter().all(|(load, _)| *load < 1.2 * full), "overrun");
        let all = links.iter().map(|bits| *bits as f64 / 8.0).sum::<f64>() / capacity;
        let reached = if machine == 0 { all.min(full) } else { full.min(FULL) };
        prop_assert!(mean > 0.75 * reached, "{mean} of {reached}");
        // A link has what it claims until the core has been behind.
        let was_behind = samples.windows(2).any(|two| two.iter().all(|(load, _)| *load > full));
        prop_assert!(was_behind || reached < full, "never behind");
        if !was_behind {
            return Ok(());
        }
        let (_, last) = &late[late.len() - 1];
        let most = last.iter().copied().fold(0.0, f64::max);
        for (host, rate) in last.iter().enumerate() {
            let own = host.checked_sub(machine).map_or(f64::INFINITY, |link| links[link] as f64 / 8.0);
            prop_assert!(*rate > 0.85 * most.min(own), "host {host}: {rate} of {most}, {own}");
        }
    }
}

/// The machine stalled once: at the next sample it has caught up.
#[test]
fn a_core_is_behind_the_second_time_in_a_row() {
    let mut backpressure = Backpressure::default();
    backpressure.follow(0, Bottleneck::Machine, LENGTHS, Seen::default());
    let mut sent = Seen::default();
    let mut sample = |behind| {
        sent.packets += 1;
        sent.bytes += 1 << 30;
        backpressure.sample(core_load(0.99, behind), |_| sent);
        backpressure.allowance.speed
    };
    for behind in [0.9, 0.0, 0.9, 0.0, 0.9] {
        assert_eq!(sample(behind), SPEED_START, "{behind}");
    }
    assert!(sample(0.9) < SPEED_START);
}

/// Hosts without and with a link get the same, once the core has been behind.
#[test]
fn the_machine_allows_all_hosts_the_same() {
    let mut backpressure = Backpressure::default();
    backpressure.follow(0, Bottleneck::Machine, LENGTHS, Seen::default());
    backpressure.follow(1, link(10_000_000_000), LENGTHS, Seen::default());
    let mut sent = Seen::default();
    let mut applied = [0, 0];
    for _ in 0..3 {
        sent.packets += 1000;
        sent.bytes += 1 << 30;
        for (host, shaper) in backpressure.sample(core_load(0.99, 0.9), |_| sent) {
            applied[host] = shaper.bytes_per_s;
        }
    }
    assert!(applied[0] > 0 && applied[0] == applied[1], "{applied:?}");
}

fn link(bits_per_s: u64) -> Bottleneck {
    framed(bits_per_s, Framing::Ethernet, Dilation::NONE)
}

fn framed(bits_per_s: u64, framing: Framing, dilation: Dilation) -> Bottleneck {
    let pipe = PipeParams {
        rate: Rate::from_bits_per_s(bits_per_s),
        framing,
        ..PipeParams::default()
    };
    crate::run::live::bottleneck::of(&[pipe], 1500, true, dilation)
}

/// A host that always sends, in frames of several packets of 1514 bytes on the cable. Its
/// shaper counts the overhead for each frame, and its link for each packet.
struct Greedy {
    overhead: f64,
    backpressure: Backpressure,
    dilation: Dilation,
    /// What its link sends in a second of the machine.
    link: f64,
    /// And in one of the experiment.
    own: f64,
    shaped: f64,
    packets_in_frame: f64,
    /// Counted bytes that wait in the link.
    waits: f64,
    seen: Seen,
}

impl Greedy {
    fn new(bits_per_s: u64, packets_in_frame: f64) -> Self {
        let none = Dilation::NONE;
        Self::framed(bits_per_s, packets_in_frame, Framing::Ethernet, none)
    }

    fn framed(
        bits_per_s: u64,
        packets_in_frame: f64,
        framing: Framing,
        dilation: Dilation,
    ) -> Self {
        let bottleneck = framed(bits_per_s, framing, dilation);
        let mut backpressure = Backpressure::default();
        backpressure.follow(0, bottleneck, LENGTHS, Seen::default());
        let link = dilation.per_machine_second(bits_per_s) as f64 / 8.0;
        // A full bucket comes at once.
        let Bottleneck::Link { shaper, .. } = bottleneck else {
            panic!("its link limits it");
        };
        Self {
            overhead: shaper.overhead.into(),
            backpressure,
            dilation,
            link,
            own: bits_per_s as f64 / 8.0,
            shaped: link,
            packets_in_frame,
            waits: shaper.burst_bytes.into(),
            seen: Seen::default(),
        }
    }

    /// One sample later, of a core that carries `capacity` bytes per second.
    fn tick(&mut self, capacity: f64) {
        let load = self.shaped / capacity;
        let behind = if load > 1.0 { 0.5 } else { 0.0 };
        let counted = self.packets_in_frame * 1514.0 + self.overhead;
        let frames = self.shaped * TICK.as_secs_f64() / counted;
        self.seen.packets += frames as u64;
        self.seen.bytes += (frames * self.packets_in_frame * 1514.0) as u64;
        let wait = Span::from_ns((self.waits / self.own * 1e9) as u64);
        let all = Span::from_ns(wait.as_ns() * frames as u64);
        self.seen.waited += self.dilation.duration(all);
        let (came, sent) = (
            frames * self.packets_in_frame * (1514.0 + self.overhead),
            self.link * TICK.as_secs_f64(),
        );
        self.waits = (self.waits + came - sent).max(0.0);
        let changes = self
            .backpressure
            .sample(core_load(load.min(1.0), behind), |_| self.seen);
        for (host, shaper) in changes {
            assert_eq!(host, 0);
            self.shaped = shaper.bytes_per_s as f64;
        }
    }
}

#[test]
fn what_waits_settles_near_half_a_bucket() {
    for framing in [Framing::Ip, Framing::Ethernet, Framing::Wire] {
        for (factor, packets_in_frame) in [(1, 1.0), (1, 4.0), (1, 41.0), (10, 4.0), (10, 41.0)] {
            // The same link by the machine's clock.
            let rate = 1_000_000_000 * u64::from(factor);
            let dilation = Dilation::by(factor);
            let mut host = Greedy::framed(rate, packets_in_frame, framing, dilation);
            (0..500).for_each(|_| host.tick(1e12));
            let ms = host.waits / host.link * 1e3;
            let case = (framing, packets_in_frame, factor);
            assert!((0.7..1.3).contains(&ms), "{case:?}: {ms} ms wait");
            assert_eq!(host.backpressure.left(), Some(1.0));
            assert_eq!(host.backpressure.left(), None, "nobody has sent since");
        }
    }
}

#[test]
fn what_waits_too_much_goes_away() {
    let mut host = Greedy::new(1_000_000_000, 41.0);
    host.waits = 4e-3 * host.link;
    (0..15).for_each(|_| host.tick(1e12));
    let ms = host.waits / host.link * 1e3;
    assert!((0.7..1.5).contains(&ms), "{ms} ms wait");
}

#[test]
fn an_overrun_core_holds_hosts_back_and_the_verdict_hears_of_it() {
    let mut host = Greedy::new(10_000_000_000, 43.0);
    (0..500).for_each(|_| host.tick(6.0 * GIGABIT));
    host.backpressure.left();
    (0..50).for_each(|_| host.tick(6.0 * GIGABIT));
    let part = host.shaped / (6.0 * GIGABIT);
    assert!((0.6..1.1).contains(&part), "{part} of what it carries");
    let left = host.backpressure.left().expect("it wants more");
    assert!((0.3..0.7).contains(&left), "{left} of its link");
    // A machine that becomes faster lets it have all.
    (0..500).for_each(|_| host.tick(1e12));
    host.backpressure.left();
    (0..50).for_each(|_| host.tick(1e12));
    assert_eq!(host.backpressure.left(), Some(1.0));
}

#[test]
fn a_host_that_is_not_held_back_says_nothing() {
    let mut backpressure = Backpressure::default();
    backpressure.follow(0, link(10_000_000_000), LENGTHS, Seen::default());
    for tick in 1..100 {
        let seen = Seen {
            packets: tick,
            bytes: tick * 66,
            waited: Duration::ZERO,
        };
        backpressure.sample(core_load(1.0, 0.9), |_| seen);
    }
    assert_eq!(backpressure.left(), None);
}

#[test]
fn only_hosts_with_super_packets_and_a_link_follow_it() {
    let mut backpressure = Backpressure::default();
    let seen = |packets| Seen {
        packets,
        ..Seen::default()
    };
    backpressure.follow(0, link(1_000_000_000), LENGTHS, Seen::default());
    let mut changes = |packets| {
        backpressure
            .sample(core_load(0.1, 0.0), |_| seen(packets))
            .len()
    };
    assert_eq!(changes(1), 1);
    assert_eq!(changes(2), 0, "as before");
    backpressure.follow(0, Bottleneck::Machine, LENGTHS, Seen::default());
    backpressure.follow(1, link(1_000_000), LENGTHS, Seen::default());
    let of_machine = |host: &Host| matches!(host.kind, HostShaper::Machine { .. });
    assert!(backpressure.hosts.iter().all(of_machine));
    assert_eq!(backpressure.hosts.len(), 1);
}
