//! The noise of the idle machine: how often and for how long it takes a CPU from a thread that never
//! sleeps, while no experiment runs.
//!
//! Purpose: a verdict counts stalls of the machine during a run. Whether these are the machine's own,
//! or due to what ran beside or within the run, only a measurement without a run can show.
//!
//! Theory: a thread that reads the clock and does nothing else reads it every few dozen nanoseconds.
//! Two readings that lie further apart than [`THRESHOLD_NS`] mean that the CPU did something else
//! meanwhile: the hypervisor gave it to another guest, or the kernel to another program or an interrupt.
//! The threshold is that from which a late wake-up of the core counts as a stall
//! ([`causes`](crate::fidelity)). Stalls of [`LONG_NS`] and more are also counted on their own: the
//! core notices them whatever it does, so a run and the idle machine can be compared by them
//! ([`compare`]).
//!
//! At most two threads read, each on a CPU of its own, so that they do not disturb each other and
//! leave larger machines mostly idle. They are ordinary threads with the core's short slice. In real
//! time, as root's cores are, a thread that never sleeps would be stopped by the kernel's own throttle.
//!
//! Left out: how late sleeping threads wake up (`calibrate::timer`).

mod compare;

use std::io;
use std::thread;

use longhaul_core::Span;
use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::cpu::{self, Scheduling};
use serde::{Deserialize, Serialize};

pub use compare::{Alone, Comparison};

use crate::fidelity::{LONG_NS, Stalls, WOKEN_LATE_NS};

/// Readings of the clock that lie further apart than this are a stall.
pub const THRESHOLD_NS: u64 = WOKEN_LATE_NS;
/// How many CPUs are measured at most.
const CPUS_MAX: usize = 2;
/// More than any measurement takes.
const SECONDS_MAX: f64 = 3600.0;

/// The noise of the idle machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// For how long each CPU was measured.
    pub seconds: f64,
    /// A gap longer than this counts as a stall.
    pub threshold_ns: u64,
    /// A stall of this length and more counts as long.
    pub long_ns: u64,
    /// The stalls of each CPU that was measured.
    pub cpus: Vec<CpuNoise>,
    /// CPU time that the hypervisor took from all CPUs meanwhile, as far as the kernel reports it.
    pub stolen_ns: u64,
}

/// The noise of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuNoise {
    /// Its number.
    pub cpu: usize,
    /// When it did not run the measuring thread.
    pub stalls: Stalls,
}

impl Noise {
    /// Measures for `span`, in which the caller should run nothing else.
    ///
    /// # Errors
    /// A thread cannot be started or bound to its CPU.
    pub fn measure(span: Span) -> io::Result<Self> {
        let cpus = chosen(&cpu::allowed()?);
        let stolen_before = cpu::stolen_ns();
        let threads = cpus.into_iter().map(|cpu| {
            let measure = move || measure_cpu(cpu, span.as_ns());
            thread::Builder::new().spawn(measure)
        });
        // All are started before the first is waited for.
        let threads: Vec<_> = threads.collect();
        let died = |_| Err(io::Error::other("a measuring thread has panicked"));
        let measured = threads
            .into_iter()
            .map(|thread| thread?.join().unwrap_or_else(died));
        Ok(Self {
            cpus: measured.collect::<io::Result<_>>()?,
            seconds: span.as_ns() as f64 / 1e9,
            threshold_ns: THRESHOLD_NS,
            long_ns: LONG_NS,
            stolen_ns: cpu::stolen_ns().saturating_sub(stolen_before),
        })
    }

    /// The stalls of the CPU that had the most long stalls, and among equals the most stalls.
    pub fn worst(&self) -> Stalls {
        let stalls = self.cpus.iter().map(|cpu| cpu.stalls);
        let worst = stalls.max_by_key(|stalls| (stalls.long, stalls.count, stalls.total_ns));
        worst.unwrap_or_default()
    }

    /// The longest stall of any CPU.
    pub fn longest_ns(&self) -> u64 {
        let longest = self.cpus.iter().map(|cpu| cpu.stalls.longest_ns);
        longest.max().unwrap_or(0)
    }

    /// The greatest share of the time that any CPU did not run its thread.
    pub fn stalled_share(&self) -> f64 {
        let total = self.cpus.iter().map(|cpu| cpu.stalls.total_ns).max();
        total.unwrap_or(0) as f64 / 1e9 / self.seconds.max(1e-9)
    }

    /// Whether these can be figures of a measurement, since a file may hold anything: each stall takes
    /// more than the threshold, and only the last can reach beyond the end.
    pub fn is_plausible(&self) -> bool {
        let most = self.seconds * 1e9 / THRESHOLD_NS as f64 + 1.0;
        let fits = |stalls: &Stalls| stalls.count as f64 <= most && stalls.long <= stalls.count;
        (0.0..=SECONDS_MAX).contains(&self.seconds) && self.cpus.iter().all(|cpu| fits(&cpu.stalls))
    }

    /// The rate of so many events in this measurement.
    pub fn per_minute(&self, events: u64) -> f64 {
        events as f64 * 60.0 / self.seconds.max(1e-9)
    }
}

/// The CPUs to measure: the last, which a core takes, and the first, which most interrupts go to.
fn chosen(allowed: &[usize]) -> Vec<usize> {
    let mut cpus: Vec<usize> = allowed
        .last()
        .into_iter()
        .chain(allowed.first())
        .copied()
        .collect();
    cpus.dedup();
    cpus.truncate(CPUS_MAX);
    cpus
}

/// Reads the clock on `cpu` for `span_ns`.
fn measure_cpu(cpu: usize, span_ns: u64) -> io::Result<CpuNoise> {
    cpu::pin(&[cpu])?;
    Scheduling::ShortSlice.apply();
    let mut gaps = Gaps::from(monotonic_ns());
    let end_ns = gaps.last_ns.saturating_add(span_ns);
    while gaps.last_ns < end_ns {
        gaps.read(monotonic_ns());
    }
    Ok(CpuNoise {
        cpu,
        stalls: gaps.stalls,
    })
}

/// Finds stalls in readings of a clock.
#[derive(Debug)]
struct Gaps {
    last_ns: u64,
    stalls: Stalls,
}

impl Gaps {
    /// The first reading.
    fn from(first_ns: u64) -> Self {
        Self {
            last_ns: first_ns,
            stalls: Stalls::default(),
        }
    }

    /// The next one.
    #[inline]
    fn read(&mut self, now_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        if gap_ns > THRESHOLD_NS {
            self.stalls.add(std::time::Duration::from_nanos(gap_ns));
        }
        self.last_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the readings, the stalls are the gaps above the threshold, and nothing else.
        #[test]
        fn stalls_are_the_gaps_above_the_threshold(
            first in 0u64..1 << 40,
            gaps in prop::collection::vec(prop_oneof![
                8 => 0u64..2_000,
                1 => THRESHOLD_NS - 2..THRESHOLD_NS + 3,
                1 => LONG_NS - 2..LONG_NS + 3,
                1 => 0u64..100_000_000,
            ], 0..300),
        ) {
            let mut found = Gaps::from(first);
            let mut now = first;
            for gap in &gaps {
                now += gap;
                found.read(now);
            }
            let planted: Vec<u64> = gaps.into_iter().filter(|gap| *gap > 200_000).collect();
            let stalls = found.stalls;
            prop_assert_eq!(stalls.count, planted.len() as u64);
            prop_assert_eq!(stalls.total_ns, planted.iter().sum::<u64>());
            prop_assert_eq!(stalls.longest_ns, planted.iter().copied().max().unwrap_or(0));
            let long = planted.iter().filter(|gap| **gap >= 2_000_000).count();
            prop_assert_eq!(stalls.long, long as u64);
            prop_assert_eq!(found.last_ns, now);
        }
    }

    #[test]
    fn the_cores_cpu_and_the_first_are_measured() {
        assert_eq!(chosen(&[0, 1, 2, 7]), [7, 0]);
        assert_eq!(chosen(&[3]), [3]);
        assert_eq!(chosen(&[]), [0; 0]);
    }

    fn noise(stalls: &[Stalls]) -> Noise {
        let cpu = |(cpu, &stalls)| CpuNoise { cpu, stalls };
        Noise {
            seconds: 10.0,
            threshold_ns: THRESHOLD_NS,
            long_ns: LONG_NS,
            cpus: stalls.iter().enumerate().map(cpu).collect(),
            stolen_ns: 0,
        }
    }

    #[test]
    fn the_worse_cpu_counts() {
        let [a, b] = [(9, 1, 5_000_000, 30_000_000), (4, 2, 4_000_000, 40_000_000)].map(
            |(count, long, longest_ns, total_ns)| Stalls {
                count,
                long,
                total_ns,
                longest_ns,
            },
        );
        let both = noise(&[a, b]);
        assert_eq!(both.worst(), b);
        assert_eq!(both.longest_ns(), 5_000_000);
        assert!((both.stalled_share() - 0.004).abs() < 1e-12);
        assert!((both.per_minute(both.worst().long) - 12.0).abs() < 1e-9);
        assert_eq!(noise(&[]).worst(), Stalls::default());
    }

    #[test]
    fn figures_of_no_measurement_are_implausible() {
        let with = |count, long| {
            noise(&[Stalls {
                count,
                long,
                ..Stalls::default()
            }])
        };
        assert!(with(50_001, 5).is_plausible());
        assert!(!with(50_002, 5).is_plausible());
        assert!(!with(u64::MAX, u64::MAX).is_plausible());
        assert!(!with(3, 4).is_plausible());
        for seconds in [-1.0, 1e300] {
            let endless = Noise {
                seconds,
                ..noise(&[])
            };
            assert!(!endless.is_plausible());
        }
    }

    #[test]
    fn this_machine_is_measured_for_as_long_as_asked() {
        let begin = monotonic_ns();
        let noise = Noise::measure(Span::from_ms(50)).unwrap();
        assert!(monotonic_ns() - begin >= 50_000_000);
        let cpus = cpu::allowed().unwrap();
        assert_eq!(noise.cpus.len(), cpus.len().min(2));
        assert!(noise.is_plausible());
        for measured in &noise.cpus {
            assert!(cpus.contains(&measured.cpu));
            assert!(measured.stalls.long <= measured.stalls.count);
            assert!(measured.stalls.longest_ns <= measured.stalls.total_ns);
        }
    }
}
