//! What work costs threads of this machine, by which virtual runs are split over them.
//!
//! The terms of [`longhaul_partition::costs`] are separated by small virtual runs of one fat tree, of
//! which each has more of one term than another:
//!
//! | run | what it has |
//! |---|---|
//! | far | TCP between pods on one thread: six hops to two ends |
//! | near | TCP between neighbours on one thread: two hops to two ends |
//! | crossing | datagrams between pods on two threads, cut between the halves of the tree and between its layers: the same work, and every packet crosses once or four times; windows are long, so that there are few |
//! | windows | datagrams between neighbours, on one thread and on two: half of the work for each, nothing crosses, and windows are short |
//!
//! Crossings are compared on two threads in either run: on one, all of the network shares a cache, which
//! costs more than a crossing does. Each run is made several times and the shortest counts: other work on the machine only adds. Nothing
//! holds packets up, so that all runs carry what they are offered.
//!
//! Left out: networks that lie in no cache, where everything costs more.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::observe::Counters;
use longhaul_core::parallel::{CoreId, Split};
use longhaul_emulation::{Clocks, Outcome, VirtualConfig, VirtualRun, Watch};
use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::cpu;
use longhaul_partition::costs::Costs;
use longhaul_plan::plan::Plan;
use serde::{Deserialize, Serialize};

use super::CalibrateError;
use super::interrupt::Interrupt;
use crate::run::RunError;

/// Ports of a switch of the tree.
const K: usize = 8;
const HOSTS: usize = K * K * K / 4;
/// The look-ahead of the run with windows, and its length: so many windows.
const SHORT_US: u64 = 3;
/// The look-ahead of the run with crossings.
const LONG_US: u64 = 1_000;
const WINDOWS_MS: u64 = 20;
const WINDOWS: f64 = (WINDOWS_MS * 1_000 / SHORT_US) as f64;

/// What work costs cores that are threads of this machine, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoreCosts {
    /// A packet that crosses a pipe.
    pub hop_ns: f64,
    /// A packet that a modelled host sends or receives.
    pub end_ns: f64,
    /// What several cores cost each other; `None` on one CPU.
    pub between: Option<Between>,
}

/// What two cores cost each other, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// A packet that goes from one to the other.
    pub crossing_ns: f64,
    /// The end of a window.
    pub window_ns: f64,
}

/// How often each run is made, unless the calibration is interrupted.
#[derive(Clone, Copy)]
pub(super) struct Tries<'a> {
    pub(super) count: u32,
    pub(super) interrupt: &'a Interrupt,
}

impl CoreCosts {
    /// The costs that partitions are weighed by: what was not measured is as it is built in. `None`
    /// where they are beyond all machines, since they may come from a file.
    pub fn costs(&self) -> Option<Costs> {
        let between = self.between.unwrap_or(Between {
            crossing_ns: Costs::THREADS.crossing_ns,
            window_ns: Costs::THREADS.window_ns,
        });
        let costs = Costs {
            hop_ns: self.hop_ns,
            end_ns: self.end_ns,
            crossing_ns: between.crossing_ns,
            window_ns: between.window_ns,
        };
        costs.is_sound().then_some(costs)
    }

    /// Measures them.
    pub(super) fn measure(
        tries: Tries<'_>,
        cpus: usize,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, CalibrateError> {
        report("costs of hops and ends");
        let far = Run::new(&experiment(Pairs::Far, "congestion: cubic", (SHORT_US, 20)))?;
        let near = Run::new(&experiment(
            Pairs::Near,
            "congestion: cubic",
            (SHORT_US, 20),
        ))?;
        let [far, near] = [far, near].map(|run| run.best(tries, Cut::Nowhere));
        let (far, near) = (far?, near?);
        let (hop_ns, end_ns) = hop_and_end([&far, &near]);
        let mut costs = Self {
            hop_ns,
            end_ns,
            between: None,
        };
        if cpus > 1 {
            report("costs of crossings and windows");
            costs.between = Some(Self::between(tries)?);
        }
        Ok(costs)
    }

    fn between(tries: Tries<'_>) -> Result<Between, CalibrateError> {
        let datagrams = "model: udp, rate: 450 Mbit/s, gaps: poisson";
        let crossing = Run::new(&experiment(Pairs::Far, datagrams, (LONG_US, 30)))?;
        let windows = Run::new(&experiment(Pairs::Near, datagrams, (SHORT_US, WINDOWS_MS)))?;
        let [once, often] = [Cut::Halves, Cut::Layers].map(|cut| crossing.best(tries, cut));
        let (once, often) = (once?, often?);
        let more = often
            .counters
            .imported
            .saturating_sub(once.counters.imported);
        let crossing_ns = (often.cpu_ns - once.cpu_ns) / more.max(1) as f64;
        let [alone, both] = [Cut::Nowhere, Cut::Halves].map(|cut| windows.best(tries, cut));
        let window_ns = (both?.wall_ns - alone?.cpu_ns / 2.0) / WINDOWS;
        Ok(Between {
            crossing_ns: clamp(crossing_ns, Costs::BOUNDS.crossing_ns),
            window_ns: clamp(window_ns, Costs::BOUNDS.window_ns),
        })
    }
}

/// What was measured, within bounds; no number counts as the least.
fn clamp(measured_ns: f64, (least, most): (f64, f64)) -> f64 {
    measured_ns.max(least).min(most)
}

/// The cost of a hop and of an end, by two runs in which they are in different proportions.
fn hop_and_end(runs: [&Measured; 2]) -> (f64, f64) {
    let ends = |run: &Measured| (run.counters.entered + run.counters.delivered) as f64;
    let [far, near] = runs;
    let (far_hops, near_hops) = (far.counters.hops as f64, near.counters.hops as f64);
    let determinant = far_hops * ends(near) - near_hops * ends(far);
    let hop_ns = (far.cpu_ns * ends(near) - near.cpu_ns * ends(far)) / determinant;
    let hop_ns = clamp(hop_ns, Costs::BOUNDS.hop_ns);
    let end_ns = (near.cpu_ns - near_hops * hop_ns) / ends(near).max(1.0);
    (hop_ns, clamp(end_ns, Costs::BOUNDS.end_ns))
}

/// Who sends to whom.
#[derive(Debug, Clone, Copy)]
enum Pairs {
    /// To a host of the other half of the tree: six hops.
    Far,
    /// To the next host at the same switch: two hops.
    Near,
}

/// How the tree is split.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// On one core.
    Nowhere,
    /// Half of the pods on either of two cores, core switches with the first: a packet between the
    /// halves crosses once.
    Halves,
    /// Aggregation switches on the second core, all else on the first: a packet between pods crosses
    /// four times.
    Layers,
}

/// A fat tree whose links between switches hold nothing up and are `delay_us` long.
fn experiment(pairs: Pairs, flows: &str, (delay_us, ms): (u64, u64)) -> String {
    let to = |host: usize| match pairs {
        Pairs::Far => (host + HOSTS / 2) % HOSTS,
        Pairs::Near => host ^ 1,
    };
    let names = |of: &dyn Fn(usize) -> usize| {
        let names: Vec<String> = (0..HOSTS).map(|host| format!("h{}", of(host))).collect();
        names.join(", ")
    };
    format!(
        "clock: virtual\nduration: {ms} ms\ntopology:\n  generate: {{ kind: fat_tree, k: {K}, rate: \
         10 Gbit/s, delay: {delay_us} us, access_rate: 500 Mbit/s, access_delay: 3 \
         us }}\ntraffic: {{ x: {{ from: [{}], to: [{}], {flows} }} }}\n",
        names(&|host| host),
        names(&to),
    )
}

/// A run that is made again and again.
struct Run {
    plan: Plan,
}

/// What one of them took.
#[derive(Debug, Clone)]
struct Measured {
    /// By the clock.
    wall_ns: f64,
    /// CPU time of work, of all cores.
    cpu_ns: f64,
    counters: Counters,
}

impl Run {
    fn new(text: &str) -> Result<Self, CalibrateError> {
        let plan = Plan::from_text(text, "calibrate.yaml");
        let plan = plan.map_err(|errors| CalibrateError::Failed(errors.to_string()))?;
        Ok(Self { plan })
    }

    /// The shortest times of several runs.
    fn best(&self, tries: Tries<'_>, cut: Cut) -> Result<Measured, CalibrateError> {
        let mut best = self.measure(cut)?;
        for _ in 1..tries.count {
            tries.interrupt.check()?;
            let other = self.measure(cut)?;
            best.wall_ns = best.wall_ns.min(other.wall_ns);
            best.cpu_ns = best.cpu_ns.min(other.cpu_ns);
        }
        Ok(best)
    }

    fn measure(&self, cut: Cut) -> Result<Measured, CalibrateError> {
        let split = Arc::new(self.split(cut));
        let run = VirtualRun::new(&self.plan, split, VirtualConfig::of(&self.plan));
        let mut run = run.map_err(|error| CalibrateError::Run(RunError::Traffic(error)))?;
        let clock = || Duration::from_nanos(monotonic_ns());
        let cpu_time = || Duration::from_nanos(cpu::own_cpu_ns());
        let (begun, used) = (monotonic_ns(), cpu::own_cpu_ns());
        let watch = Watch {
            pauses: &mut || false,
            clocks: Clocks {
                now: &clock,
                cpu_time: &cpu_time,
            },
        };
        let outcome = run.run(Time::MAX, watch);
        let (wall, used) = (monotonic_ns() - begun, cpu::own_cpu_ns() - used);
        if !matches!(outcome, Outcome::Over(_)) {
            let problem = format!("a virtual run ended with {outcome:?}");
            return Err(CalibrateError::Failed(problem));
        }
        let mut counters = Counters::default();
        for emulation in run.emulations() {
            counters.merge(emulation.engine().counters());
        }
        Ok(Measured {
            wall_ns: wall as f64,
            cpu_ns: match cut {
                Cut::Nowhere => used as f64,
                Cut::Halves | Cut::Layers => run.worked().sum::<Duration>().as_nanos() as f64,
            },
            counters,
        })
    }

    fn split(&self, cut: Cut) -> Split {
        let topology = &self.plan.topology;
        let is_second = |name: &str| match (cut, name.as_bytes()) {
            (Cut::Halves, [b'p', pod, ..]) => *pod >= b'0' + K as u8 / 2,
            (Cut::Halves, [b'h', host @ ..]) => {
                let host = std::str::from_utf8(host).unwrap_or_default();
                host.parse().is_ok_and(|host: usize| host >= HOSTS / 2)
            }
            (Cut::Layers, [b'p', _, layer, ..]) => *layer == b'a',
            _ => false,
        };
        if matches!(cut, Cut::Nowhere) {
            return Split::whole(Arc::clone(topology));
        }
        let nodes = topology.nodes().iter();
        let owners = nodes.map(|node| CoreId(u16::from(is_second(&node.name))));
        Split::new(Arc::clone(topology), owners.collect(), 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_separated() {
        let measured = |hops: u64, ends: u64| Measured {
            wall_ns: 0.0,
            cpu_ns: hops as f64 * 80.0 + ends as f64 * 300.0,
            counters: Counters {
                hops,
                entered: ends / 2,
                delivered: ends / 2,
                ..Counters::default()
            },
        };
        let (hop, end) = hop_and_end([&measured(6_000, 2_000), &measured(2_000, 2_000)]);
        assert!((hop - 80.0).abs() < 1e-6 && (end - 300.0).abs() < 1e-6);
        // Noise may turn things round; no cost is negative or absurd.
        let mut odd = measured(6_000, 2_000);
        odd.cpu_ns = 0.0;
        let (hop, end) = hop_and_end([&odd, &measured(2_000, 2_000)]);
        assert_eq!(hop, Costs::BOUNDS.hop_ns.0);
        assert!(end > 0.0 && end < 1e6);
        let (hop, end) = hop_and_end([&odd, &odd]);
        let costs = CoreCosts {
            hop_ns: hop,
            end_ns: end,
            between: None,
        };
        assert!(costs.costs().is_some(), "{costs:?}");
    }

    #[test]
    fn runs_are_what_they_are_meant_to_be() {
        let datagrams = "model: udp, rate: 450 Mbit/s, gaps: poisson";
        let run = |pairs, flows: &str, times| Run::new(&experiment(pairs, flows, times)).unwrap();
        let far = run(Pairs::Far, "congestion: cubic", (SHORT_US, 2))
            .measure(Cut::Nowhere)
            .unwrap();
        let near = run(Pairs::Near, "congestion: cubic", (SHORT_US, 2))
            .measure(Cut::Nowhere)
            .unwrap();
        for (measured, hops) in [(&far, 6.0), (&near, 2.0)] {
            let counters = &measured.counters;
            let each = counters.hops as f64 / counters.delivered as f64;
            assert!((each / hops - 1.0).abs() < 0.2, "{each} hops");
            assert_eq!(counters.dropped.total(), 0, "nothing is held up");
        }
        // Those that are on their way when the run ends have not made all of their crossings.
        let crossing = run(Pairs::Far, datagrams, (100, 10));
        for (cut, times) in [(Cut::Halves, 1), (Cut::Layers, 4)] {
            let counters = crossing.measure(cut).unwrap().counters;
            assert!(counters.imported >= times * counters.delivered, "{cut:?}");
            assert!(counters.imported <= times * counters.entered, "{cut:?}");
        }
        let windows = run(Pairs::Near, datagrams, (SHORT_US, 2))
            .measure(Cut::Halves)
            .unwrap();
        assert_eq!(windows.counters.imported, 0);
        assert!(windows.cpu_ns > 0.0 && windows.wall_ns > 0.0);
    }

    #[test]
    fn costs_of_a_file_are_bounded() {
        let costs = CoreCosts {
            hop_ns: 60.0,
            end_ns: 200.0,
            between: None,
        };
        let known = costs.costs().unwrap();
        assert_eq!(
            (known.hop_ns, known.window_ns),
            (60.0, Costs::THREADS.window_ns)
        );
        let between = |crossing_ns, window_ns| CoreCosts {
            between: Some(Between {
                crossing_ns,
                window_ns,
            }),
            ..costs
        };
        assert_eq!(between(90.0, 1e3).costs().unwrap().crossing_ns, 90.0);
        for (crossing, window) in [
            (0.0, 1e3),
            (-1.0, 1e3),
            (90.0, -1.0),
            (f64::NAN, 1e3),
            (90.0, 1e300),
        ] {
            assert!(
                between(crossing, window).costs().is_none(),
                "{crossing} {window}"
            );
        }
        for hop_ns in [0.0, -5.0, f64::INFINITY, 1e12] {
            assert!(CoreCosts { hop_ns, ..costs }.costs().is_none(), "{hop_ns}");
        }
    }
}
