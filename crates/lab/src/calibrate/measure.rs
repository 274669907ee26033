//! The sequence of trials.
//!
//! Each limit is searched upwards: the rate about doubles until it is not carried, then one or two
//! rates in between are tried. A rate is carried when one of a few tries is faithful: noise of the
//! machine spoils some of them, overload spoils all. A rate that was merely late does not end the
//! search, because a busier core is often more punctual; losses do, and overload leads to them: the
//! core sheds what it cannot handle in time. (How busy the core is says nothing, since it spins
//! while it waits.)

use longhaul_core::Span;

use super::costs::{CoreCosts, Tries};
use super::end_to_end::{self, EndToEnd, Way};
use super::figures::{Hosts, Memory, Step, Tcp};
use super::fit::{Limit, LimitedBy, Region};
use super::interrupt::Interrupt;
use super::load::{Received, Sent};
use super::platform::Platform;
use super::timer::Timer;
use super::trial::{self, Bench, Trial};
use super::{CalibrateError, Calibration, FORMAT, machine_id};
use crate::fidelity::State;
use crate::noise::Noise;
use crate::resources::reference;
use crate::summary::Machine;

/// Headers of IPv4 and UDP.
const UDP_HEADERS: u32 = 28;
/// A sender that keeps less than this part of its rate does not keep it.
const KEPT: f64 = 0.97;
/// Losses at up to so many times the carried rate mean that the core is near its end there; packets
/// that are late far below are somebody else's doing.
const NEAR: u64 = 5;
/// Payload of the smallest packets that are tried.
const SMALL: u32 = 64;
const PORT: &str = "5000";
const TARGET: &str = "b:5000";

/// How much is measured.
struct Scale {
    /// For how long the noise of the idle machine is measured.
    noise: Span,
    seconds: f64,
    tries: u32,
    /// Runs of each kind that measure costs.
    cost_tries: u32,
    refinements: u32,
    rates: &'static [u64],
    hops: &'static [u32],
    /// Further kinds of packets whose limit is searched: hops and MTU.
    more: &'static [(u32, u32)],
    tcp: &'static [(u32, u32)],
    hosts: &'static [u32],
}

const FULL_SCALE: Scale = Scale {
    noise: Span::from_s(10),
    seconds: 1.0,
    tries: 3,
    cost_tries: 7,
    refinements: 2,
    rates: &[
        1_000, 5_000, 20_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000,
    ],
    hops: &[1, 4, 12],
    more: &[(1, 9000)],
    tcp: &[
        (1, 1500),
        (4, 1500),
        (12, 1500),
        (1, 9000),
        (4, 9000),
        (12, 9000),
    ],
    hosts: &[100, 500],
};

const QUICK_SCALE: Scale = Scale {
    noise: Span::from_s(2),
    seconds: 0.2,
    tries: 2,
    cost_tries: 2,
    refinements: 0,
    rates: &[5_000, 20_000, 50_000, 100_000, 200_000, 400_000, 800_000],
    hops: &[1, 12],
    more: &[],
    tcp: &[(1, 1500), (1, 9000)],
    hosts: &[20, 100],
};

/// Measures this machine: some minutes, or some seconds where it is to be `quick`.
///
/// `report` is given how far it has come (0 to 1) and what comes next. Call it while the process has
/// one thread, and from a program that runs [`super::load`] when it is called with `load`.
pub fn measure(
    quick: bool,
    report: &mut dyn FnMut(f64, &str),
) -> Result<Calibration, CalibrateError> {
    let scale = if quick { QUICK_SCALE } else { FULL_SCALE };
    let failed = |what: &str| {
        let what = what.to_owned();
        |error| CalibrateError::Io { what, error }
    };
    report(0.0, "noise of the idle machine");
    let noise = Noise::measure(scale.noise).map_err(failed("measuring the machine's noise"))?;
    report(0.0, "timer");
    let timer = Timer::measure(Span::from_ns((scale.seconds * 1e9) as u64));
    let timer = timer.map_err(failed("measuring the timer"))?;
    // From here on there is something to remove; before, a signal ends the process.
    let interrupt = Interrupt::catch()?;
    let mut session = Session {
        bench: Bench::new(&interrupt)?,
        scale,
        report,
        done: 0,
        machine: None,
        tolerance_ns: 0,
    };
    // A plain cable needs the least of a machine; one that allows no namespaces says so at once.
    let end_to_end = session.end_to_end()?;
    let mut lateness = Vec::new();
    let kinds: Vec<(u32, u32)> = session
        .scale
        .hops
        .iter()
        .map(|&hops| (hops, 1500))
        .collect();
    let mut limits = Vec::new();
    for &kind in kinds.iter().chain(session.scale.more) {
        limits.push(session.climb(kind, &mut lateness)?);
    }
    let throughput = session.floods()?;
    let tcp = session.tcp()?;
    let hosts = session.hosts()?;
    let costs = session.costs()?;
    let reference = reference::measure();
    interrupt.check()?;
    let carried: Vec<(Limit, LimitedBy)> = limits.into_iter().flatten().collect();
    let faithful = lateness.iter().filter(|step| step.state == State::Faithful);
    let floor = faithful.map(|step| step.lateness_ns).min_by_key(|l| l.p999);
    (session.report)(1.0, "done");
    Ok(Calibration {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made_unix_s: longhaul_linux::clock::realtime_ns() / 1_000_000_000,
        quick,
        machine_id: machine_id(),
        region: Region::new(session.tolerance_ns, &carried, floor),
        machine: session.machine.unwrap_or_else(super::present_machine),
        memory: Memory::of(&hosts),
        timer,
        lateness,
        throughput,
        tcp,
        hosts,
        platform: Some(Platform::read()),
        end_to_end,
        noise: Some(noise),
        costs: Some(costs),
        reference: Some(reference),
    })
}

/// The progress reports of the costs' runs.
const COST_PARTS: usize = 2;

struct Session<'a> {
    bench: Bench<'a>,
    scale: Scale,
    report: &'a mut dyn FnMut(f64, &str),
    /// Parts of the work that are done.
    done: usize,
    machine: Option<Machine>,
    tolerance_ns: u64,
}

impl Session<'_> {
    /// Says what comes next.
    fn next(&mut self, what: &str) {
        let scale = &self.scale;
        let parts = (scale.hops.len() + scale.more.len()) * scale.rates.len()
            + scale.hops.len() * 2
            + scale.tcp.len()
            + scale.hosts.len()
            + Way::ALL.len()
            + COST_PARTS;
        (self.report)(self.done as f64 / parts as f64, what);
        self.done += 1;
    }

    /// What programs get, without the emulator and with it.
    fn end_to_end(&mut self) -> Result<Vec<EndToEnd>, CalibrateError> {
        let mut all = Vec::new();
        for way in Way::ALL {
            self.next(&format!("end to end, {}", way.name()));
            all.push(end_to_end::measure(&self.bench, way, self.scale.seconds)?);
        }
        Ok(all)
    }

    /// What work costs the threads of virtual runs.
    fn costs(&mut self) -> Result<CoreCosts, CalibrateError> {
        let tries = Tries {
            count: self.scale.cost_tries,
            interrupt: self.bench.interrupt(),
        };
        let cpus = self.bench.cpus();
        CoreCosts::measure(tries, cpus, &mut |what| self.next(what))
    }

    fn run(&mut self, text: &str) -> Result<Trial, CalibrateError> {
        let trial = self.bench.run(text)?;
        self.tolerance_ns = trial.summary.verdict.tolerance_ns;
        if self.machine.is_none() {
            self.machine = Some(trial.summary.machine.clone());
        }
        Ok(trial)
    }

    /// Finds the highest rate of packets of one kind that is carried, if any is.
    fn climb(
        &mut self,
        (hops, mtu): (u32, u32),
        steps: &mut Vec<Step>,
    ) -> Result<Option<(Limit, LimitedBy)>, CalibrateError> {
        let rates = self.scale.rates;
        let first = self.done;
        let from = steps.len();
        let mut ended_by = LimitedBy::Nothing;
        for &rate in rates {
            self.next(&format!("{}, MTU {mtu}, {rate} packets/s", way(hops)));
            let step = self.step(hops, mtu, Some(rate))?;
            let end = end_of_climb(&step);
            steps.push(step);
            if let Some(reason) = end {
                ended_by = reason;
                break;
            }
        }
        self.done = first + rates.len();
        for _ in 0..self.scale.refinements {
            if ended_by != LimitedBy::Core {
                break;
            }
            let Some(rate) = halfway(&steps[from..]) else {
                break;
            };
            let step = self.step(hops, mtu, Some(rate))?;
            steps.push(step);
        }
        steps[from..].sort_by_key(|step| step.asked_packets_per_s);
        let limit = limit(&steps[from..], ended_by);
        Ok(limit.map(|(packets_per_s, limited_by)| {
            let limit = Limit {
                hops,
                mtu,
                packets_per_s,
            };
            (limit, limited_by)
        }))
    }

    /// The best of a few tries at one rate.
    fn step(&mut self, hops: u32, bytes: u32, rate: Option<u64>) -> Result<Step, CalibrateError> {
        let tries = if rate.is_some() { self.scale.tries } else { 1 };
        let mut best = self.send(hops, bytes, rate)?;
        for number in 2..=tries {
            // What loses so much does not lose it by chance.
            let hopeless = best.delivered_packets_per_s < 0.9 * best.sent_packets_per_s;
            if best.state == State::Faithful || hopeless {
                break;
            }
            let again = self.send(hops, bytes, rate)?;
            let rank = |step: &Step| {
                (
                    step.state != State::Faithful,
                    step.physical_drops,
                    step.lateness_ns.p999,
                )
            };
            if rank(&again) < rank(&best) {
                best = again;
            }
            best.tries = number;
        }
        Ok(best)
    }

    fn send(&mut self, hops: u32, bytes: u32, rate: Option<u64>) -> Result<Step, CalibrateError> {
        let size = (bytes - UDP_HEADERS).to_string();
        let seconds = self.scale.seconds.to_string();
        let asked = rate.map(|rate| rate.to_string());
        let mut send = vec![
            "udp-send",
            "--to",
            TARGET,
            "--size",
            &size,
            "--seconds",
            &seconds,
        ];
        if let Some(asked) = &asked {
            send.extend(["--rate", asked]);
        }
        let sink = (["udp-sink", "--port", PORT], true);
        let mtu = if bytes > 1500 { bytes } else { 1500 };
        let text = trial::chain((hops, mtu), (&sink.0, sink.1), &send, self.scale.seconds);
        let trial = self.run(&text)?;
        let sent: Sent = trial.last_line("send")?;
        let packets = &trial.summary.packets;
        let per_second = |n: u64| n as f64 / sent.seconds.max(1e-9);
        Ok(Step {
            hops,
            packet_bytes: bytes,
            asked_packets_per_s: rate,
            sent_packets_per_s: per_second(sent.packets),
            delivered_packets_per_s: per_second(packets.delivered),
            sent: sent.packets,
            entered: packets.entered,
            delivered: packets.delivered,
            left: (packets.entered + packets.created).saturating_sub(packets.delivered),
            physical_drops: trial.summary.verdict.physical_drops,
            core_busy: busy(&trial, sent.seconds),
            lateness_ns: trial.summary.verdict.lateness_ns.unwrap_or_default(),
            state: trial.summary.verdict.state,
            tries: 1,
        })
    }

    /// As much as goes, of small and of full packets.
    fn floods(&mut self) -> Result<Vec<Step>, CalibrateError> {
        let mut steps = Vec::new();
        for bytes in [SMALL + UDP_HEADERS, 1500] {
            for &hops in self.scale.hops {
                self.next(&format!("{}, {bytes} bytes, at full speed", way(hops)));
                steps.push(self.step(hops, bytes, None)?);
            }
        }
        Ok(steps)
    }

    fn tcp(&mut self) -> Result<Vec<Tcp>, CalibrateError> {
        let mut all = Vec::new();
        let seconds = self.scale.seconds.to_string();
        for &(hops, mtu) in self.scale.tcp {
            self.next(&format!("{}, MTU {mtu}, TCP", way(hops)));
            let send = ["tcp-send", "--to", TARGET, "--seconds", &seconds];
            let sink: (&[&str], bool) = (&["tcp-sink", "--port", PORT], false);
            let text = trial::chain((hops, mtu), sink, &send, self.scale.seconds);
            let trial = self.run(&text)?;
            let received: Received = trial.last_line("sink")?;
            all.push(Tcp {
                hops,
                mtu,
                bytes: received.bytes,
                seconds: received.seconds,
                bits_per_s: received.bytes as f64 * 8.0 / received.seconds.max(1e-9),
                core_busy: busy(&trial, received.seconds),
                lateness_ns: trial.summary.verdict.lateness_ns.unwrap_or_default(),
                physical_drops: trial.summary.verdict.physical_drops,
                state: trial.summary.verdict.state,
            });
        }
        Ok(all)
    }

    fn hosts(&mut self) -> Result<Vec<Hosts>, CalibrateError> {
        let mut all = Vec::new();
        for &hosts in self.scale.hosts {
            self.next(&format!("{hosts} hosts"));
            let trial = self.run(&trial::star(hosts, 0.1))?;
            let setup_s = trial.summary.setup_s;
            let rest_s = trial.wall_s - setup_s - trial.summary.simulated_s;
            all.push(Hosts {
                hosts,
                setup_s,
                setup_per_host_s: setup_s / f64::from(hosts),
                teardown_s: rest_s.max(0.0),
                used_bytes: trial.used_bytes,
            });
        }
        Ok(all)
    }
}

fn way(hops: u32) -> String {
    Way::Hops(hops).name()
}

/// Why no higher rate need be tried after this one.
fn end_of_climb(step: &Step) -> Option<LimitedBy> {
    let asked = step.asked_packets_per_s? as f64;
    if step.state == State::Faithful {
        if step.sent_packets_per_s < KEPT * asked {
            return Some(LimitedBy::Sender);
        }
        // Kernels since 6.16 hold a sender back whose cable is full; the excess is lost in its own
        // queue, where no packet has entered the network yet.
        return (step.delivered_packets_per_s < KEPT * asked).then_some(LimitedBy::Core);
    }
    is_spent(step).then_some(LimitedBy::Core)
}

/// Whether machine or sender could do no more.
fn is_spent(step: &Step) -> bool {
    let asked = step.asked_packets_per_s.map_or(0.0, |asked| asked as f64);
    step.physical_drops > 0 || step.sent_packets_per_s < KEPT * asked
}

/// The highest rate that was carried, by the steps of a climb that ended so, and what it is
/// really limited by; `None` where none was.
fn limit(steps: &[Step], ended_by: LimitedBy) -> Option<(f64, LimitedBy)> {
    let faithful = steps.iter().filter(|step| step.state == State::Faithful);
    let best = faithful.max_by(|a, b| {
        a.delivered_packets_per_s
            .total_cmp(&b.delivered_packets_per_s)
    })?;
    let highest = steps.iter().map(|step| step.asked_packets_per_s).max()?;
    let carried_all = best.asked_packets_per_s == highest;
    let limited_by = match ended_by {
        LimitedBy::Core if !carried_all && near_end(steps).is_none() => LimitedBy::Noise,
        LimitedBy::Nothing if !carried_all => LimitedBy::Noise,
        end => end,
    };
    Some((best.delivered_packets_per_s, limited_by))
}

/// The highest rate that was carried and the lowest above it at which machine or sender could do
/// no more, where these are near each other.
fn near_end(steps: &[Step]) -> Option<(u64, u64)> {
    let faithful = steps.iter().filter(|step| step.state == State::Faithful);
    let carried = faithful.filter_map(|step| step.asked_packets_per_s).max()?;
    let lossy = steps
        .iter()
        .filter(|step| step.state != State::Faithful && is_spent(step));
    let lost = lossy
        .filter_map(|step| step.asked_packets_per_s)
        .filter(|rate| *rate > carried)
        .min()?;
    (lost <= carried.saturating_mul(NEAR)).then_some((carried, lost))
}

/// A rate between the highest one that was carried and the lowest that was too much, in equal
/// proportion to both.
fn halfway(steps: &[Step]) -> Option<u64> {
    let (carried, lost) = near_end(steps)?;
    let rate = (carried as f64 * lost as f64).sqrt() as u64;
    let new = |step: &Step| step.asked_packets_per_s != Some(rate);
    (rate > carried && rate < lost && steps.iter().all(new)).then_some(rate)
}

/// The core idles before and after: its load is that of the time with traffic.
fn busy(trial: &Trial, seconds: f64) -> f64 {
    let cpu_s: f64 = trial
        .summary
        .cores
        .iter()
        .map(|core| core.busy)
        .sum::<f64>()
        * trial.summary.simulated_s;
    (cpu_s / seconds.max(1e-9)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::Quantiles;

    fn step(asked: u64, state: State) -> Step {
        Step {
            hops: 1,
            packet_bytes: 1500,
            asked_packets_per_s: Some(asked),
            sent_packets_per_s: asked as f64,
            delivered_packets_per_s: asked as f64,
            sent: asked,
            entered: asked,
            delivered: asked,
            left: 0,
            physical_drops: 0,
            core_busy: 0.5,
            lateness_ns: Quantiles::default(),
            state,
            tries: 1,
        }
    }

    #[test]
    fn noise_does_not_end_the_climb_and_overload_does() {
        assert_eq!(end_of_climb(&step(1000, State::Faithful)), None);
        assert_eq!(end_of_climb(&step(1000, State::Broken)), None);
        let lossy = Step {
            physical_drops: 1,
            ..step(1000, State::Broken)
        };
        assert_eq!(end_of_climb(&lossy), Some(LimitedBy::Core));
        let slow = Step {
            sent_packets_per_s: 900.0,
            ..step(1000, State::Faithful)
        };
        assert_eq!(end_of_climb(&slow), Some(LimitedBy::Sender));
        let held_back = Step {
            delivered_packets_per_s: 900.0,
            ..step(1000, State::Faithful)
        };
        assert_eq!(end_of_climb(&held_back), Some(LimitedBy::Core));
    }

    fn lossy(asked: u64) -> Step {
        Step {
            physical_drops: 1,
            ..step(asked, State::Broken)
        }
    }

    #[test]
    fn the_limit_is_sought_between_its_neighbours() {
        let mut steps = vec![
            step(1_000, State::Broken),
            step(100_000, State::Faithful),
            lossy(400_000),
        ];
        assert_eq!(halfway(&steps), Some(200_000));
        steps.push(step(200_000, State::Faithful));
        assert_eq!(halfway(&steps), Some(282_842));
        steps.push(step(282_842, State::Broken));
        assert_eq!(halfway(&steps), None, "no rate is tried again");
        assert_eq!(halfway(&steps[1..2]), None);
        assert_eq!(halfway(&steps[..1]), None);
    }

    #[test]
    fn what_is_late_far_below_the_first_losses_is_noise() {
        let (core, nothing) = (LimitedBy::Core, LimitedBy::Nothing);
        let near = [step(100_000, State::Faithful), lossy(400_000)];
        assert_eq!(limit(&near, core), Some((100_000.0, core)));
        let far = [
            step(1_000, State::Faithful),
            step(100_000, State::Broken),
            lossy(400_000),
        ];
        assert_eq!(limit(&far, core), Some((1_000.0, LimitedBy::Noise)));
        assert_eq!(halfway(&far), None, "noise has no limit to be sought");
        assert_eq!(limit(&far[..2], nothing), Some((1_000.0, LimitedBy::Noise)));
        assert_eq!(limit(&far[..1], nothing), Some((1_000.0, nothing)));
        assert_eq!(limit(&far[1..], core), None);
        // Held back by its own shaper, and faithful: the last step is the limit.
        assert_eq!(limit(&near[..1], core), Some((100_000.0, core)));
        // Late where the sender can do no more is an end, too.
        let spent = Step {
            sent_packets_per_s: 350_000.0,
            ..step(400_000, State::Broken)
        };
        assert_eq!(end_of_climb(&spent), Some(core));
        let steps = [near[0].clone(), spent];
        assert_eq!(limit(&steps, core), Some((100_000.0, core)));
        let sender = LimitedBy::Sender;
        assert_eq!(limit(&near[..1], sender), Some((100_000.0, sender)));
    }
}
