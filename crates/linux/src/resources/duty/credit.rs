//! Decides when a host with a share of a CPU runs and when it is stopped.
//!
//! Theory: a token bucket of CPU time. Credit flows in at the share's rate as time passes, and all
//! that the host has used is taken out, however late it is sampled: a late sample leaves a debt,
//! which a longer stop pays, so the error of the share does not grow with time. The host is stopped
//! once its credit is used up, and continued at a mark that is worth a whole piece of running:
//!
//! ```text
//! credit   mark ┬─╮            on  = period x share / rate   (at most 10 ms, about 1 ms at least)
//!               │  ╲           off = period - on
//!             0 ┴───╲────╱─    mark = share x off
//!                on   off      rate: CPUs that the host uses while it runs
//! ```
//!
//! A host that does not use its share loses credit above a quantum's worth, so that it cannot save up
//! for a burst. One that wants the CPU but waits for it, because others run there, keeps up to
//! [`LATE_NS`] worth for as long as one of its threads is runnable: once all sleep, it has had what it
//! wanted, and nothing of the wait is left to make up for.
//!
//! No system calls, no clocks: time and use are arguments.

/// The longest piece of running or of an undisturbed stop.
pub const QUANTUM_NS: u64 = 10_000_000;
/// The shortest piece of running aimed at. Smaller shares have stops longer than a quantum instead, so
/// that there are fewer than 1000 pieces a second for each CPU in use.
const LEAST_ON_NS: f64 = 1_000_000.0;
/// The least time between two samples of a host: about what a signal takes to arrive.
const LEAST_NS: f64 = 200_000.0;
/// The interval of sampling an idle host, for each whole CPU of its share: what it overdraws before it
/// is sampled is paid by a stop of 1/share of that, so smaller shares are sampled more often.
const IDLE_NS_PER_SHARE: f64 = 40_000_000.0;
const IDLE_LEAST_NS: f64 = 2_500_000.0;
/// How much time's credit a host that wanted to run keeps: what a late sample, or others on its CPU,
/// cost it.
const LATE_NS: f64 = 250_000_000.0;
/// How long a host that has waited for a CPU still counts as waiting: the kernel accounts for a wait
/// only when it is over.
const WAITS_NS: u64 = 200_000_000;

/// The decision after a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the host must be stopped from now on; else it runs.
    pub stopped: bool,
    /// When to sample next.
    pub next_ns: u64,
}

/// The tasks of a host, asked only where that matters: asking takes system calls.
pub trait Tasks {
    /// How long they have waited for a CPU since this was called last, in sum.
    fn waited_ns(&mut self) -> u64;

    /// Whether one of them runs or waits for a CPU now.
    fn any_is_runnable(&mut self) -> bool;
}

/// The CPU time that a host may use.
#[derive(Debug, Clone)]
pub struct Credit {
    share: f64,
    /// CPUs that there are.
    cpus: f64,
    credit_ns: f64,
    /// The last sample: when, and what had been used by then.
    at_ns: u64,
    used_ns: u64,
    /// How many CPUs the host used at a time when it last ran.
    rate: f64,
    stopped: bool,
    waits_until_ns: u64,
}

impl Credit {
    /// A host that runs, has used `used_ns` by `now_ns` and gets `share` CPUs out of `cpus`.
    pub fn new(share: f64, cpus: usize, now_ns: u64, used_ns: u64) -> Self {
        Self {
            share,
            cpus: cpus.max(1) as f64,
            // A quantum to begin with: time used before may be accounted for only now, up to a tick
            // late, and a host that cannot exceed its share must never be stopped for it.
            credit_ns: share * QUANTUM_NS as f64,
            at_ns: now_ns,
            used_ns,
            rate: 0.0,
            stopped: false,
            waits_until_ns: 0,
        }
    }

    /// Whether the host is stopped.
    pub const fn stopped(&self) -> bool {
        self.stopped
    }

    /// Decides by what the host's processes have used so far.
    pub fn decide(&mut self, now_ns: u64, used_ns: u64, tasks: &mut impl Tasks) -> Decision {
        let span = now_ns.saturating_sub(self.at_ns) as f64;
        let used = used_ns.saturating_sub(self.used_ns) as f64;
        self.at_ns = self.at_ns.max(now_ns);
        self.used_ns = self.used_ns.max(used_ns);
        let most = self.mark().max(self.share * QUANTUM_NS as f64) + self.share * LATE_NS;
        self.credit_ns = (self.credit_ns + self.share * span - used).min(most);
        if self.stopped {
            // A nanosecond may have been rounded away from the time of this sample.
            self.stopped = self.credit_ns + self.share < self.mark();
        } else {
            if span >= LEAST_NS {
                self.rate = (used / span).min(self.cpus);
            }
            self.forfeit(used, span, tasks);
            // Samples are LEAST_NS apart, so the one nearest to the end of the credit may come half of
            // that too early.
            let near = (self.rate - self.share).max(0.0) * LEAST_NS / 2.0;
            self.stopped = self.credit_ns <= near && used > 0.0;
        }
        Decision {
            stopped: self.stopped,
            next_ns: now_ns + self.patience() as u64,
        }
    }

    /// Takes the credit that a host with less to do than its share must not save.
    fn forfeit(&mut self, used: f64, span: f64, tasks: &mut impl Tasks) {
        let most = self.share * QUANTUM_NS as f64;
        if self.credit_ns <= most || used >= self.share * span {
            return;
        }
        let waited = tasks.waited_ns() as f64;
        if waited > span / 10.0 {
            self.waits_until_ns = self.at_ns + WAITS_NS;
        }
        if self.at_ns >= self.waits_until_ns || !tasks.any_is_runnable() {
            self.credit_ns = most;
        }
    }

    /// The credit at which a stopped host goes on.
    fn mark(&self) -> f64 {
        let rate = self.rate.max(self.share);
        let period = (QUANTUM_NS as f64).max(LEAST_ON_NS * rate / self.share);
        let off = period * (1.0 - self.share / rate);
        self.share * off.max(LEAST_NS)
    }

    /// Nanoseconds until there may be something to decide.
    fn patience(&self) -> f64 {
        let idle = (self.share * IDLE_NS_PER_SHARE).clamp(IDLE_LEAST_NS, QUANTUM_NS as f64);
        if self.stopped {
            ((self.mark() - self.credit_ns) / self.share).max(LEAST_NS)
        } else if self.rate > self.share {
            (self.credit_ns / (self.rate - self.share)).clamp(LEAST_NS, idle)
        } else {
            idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A machine with one host, whose tasks want a number of CPUs at a time, and samples that come late.
    struct Machine {
        credit: Credit,
        now_ns: u64,
        used_ns: u64,
        stopped: bool,
        next_ns: u64,
    }

    impl Machine {
        fn new(share: f64, cpus: usize) -> Self {
            Self {
                credit: Credit::new(share, cpus, 0, 0),
                now_ns: 0,
                used_ns: 0,
                stopped: false,
                next_ns: 0,
            }
        }

        /// The next sample, `late_ns` after it was due; the host has used `wants` CPUs until then.
        fn step(&mut self, late_ns: u64, wants: f64) {
            let then = self.next_ns + late_ns;
            if !self.stopped {
                self.used_ns += ((then - self.now_ns) as f64 * wants) as u64;
            }
            self.now_ns = then;
            let decision = self.credit.decide(then, self.used_ns, &mut NeverWaits);
            assert!(decision.next_ns > then, "time passes between samples");
            (self.stopped, self.next_ns) = (decision.stopped, decision.next_ns);
        }
    }

    struct NeverWaits;

    impl Tasks for NeverWaits {
        fn waited_ns(&mut self) -> u64 {
            0
        }

        fn any_is_runnable(&mut self) -> bool {
            true
        }
    }

    /// Mostly punctual, now and then late by up to 200 ms.
    fn lateness() -> impl Strategy<Value = u64> {
        prop_oneof![20 => 0u64..100_000, 3 => 0u64..10_000_000, 1 => 0u64..200_000_000]
    }

    proptest! {
        #[test]
        fn a_host_that_always_wants_gets_its_share(
            share in 0.01f64..2.0,
            cpus in 2usize..9,
            late in prop::collection::vec((lateness(), 0.0f64..1.0), 3000),
        ) {
            let mut machine = Machine::new(share, cpus);
            let mut worst_ns = 0;
            for (late_ns, more) in late {
                // From a little more than its share to all there is.
                let least = share * 1.02;
                machine.step(late_ns, least + more * (cpus as f64 - least).max(0.0));
                worst_ns = worst_ns.max(late_ns);
            }
            let error = machine.used_ns as f64 - machine.now_ns as f64 * share;
            // What it may be ahead: a sample, late, with all CPUs; or behind: a period and a late sample.
            let ahead = (QUANTUM_NS + worst_ns) as f64 * cpus as f64 + QUANTUM_NS as f64 * share;
            let period = (LEAST_ON_NS * cpus as f64).max(QUANTUM_NS as f64 * share);
            let behind = period + share * worst_ns as f64;
            prop_assert!(error <= ahead && error >= -2.0 * behind, "{error} of {machine_ns} ns",
                machine_ns = machine.now_ns);
        }

        #[test]
        fn nobody_gets_more_and_nobody_stays_stopped(
            share in 0.01f64..2.0,
            cpus in 2usize..9,
            samples in prop::collection::vec((lateness(), prop_oneof![Just(0.0), 0.0f64..1.0, Just(1.0)]), 3000),
        ) {
            let mut machine = Machine::new(share, cpus);
            let (mut worst_ns, mut stopped_ns) = (0, 0);
            for (late_ns, wants) in samples {
                let before = (machine.stopped, machine.now_ns);
                machine.step(late_ns, wants * cpus as f64);
                worst_ns = worst_ns.max(late_ns);
                let debt = -machine.credit.credit_ns.min(0.0);
                prop_assert!(debt <= (QUANTUM_NS + worst_ns) as f64 * cpus as f64);
                if machine.stopped {
                    prop_assert!(machine.credit.credit_ns < machine.credit.mark(),
                        "within its credit");
                    // The next sample, if it is in time, lets it go on.
                    let goes_on = debt + machine.credit.mark();
                    let wait = (machine.next_ns - machine.now_ns) as f64;
                    prop_assert!(wait <= goes_on / share + LEAST_NS);
                    if before.0 {
                        stopped_ns += machine.now_ns - before.1;
                    }
                }
            }
            let most = machine.now_ns as f64 * share + share * LATE_NS
                + (QUANTUM_NS + worst_ns) as f64 * (cpus as f64 + share);
            prop_assert!(machine.used_ns as f64 <= most);
            // Samples that were late, or rounding: no other finds a host stopped twice.
            prop_assert!(stopped_ns as f64 <= 0.01 * machine.now_ns as f64, "{stopped_ns}");
        }

        #[test]
        fn pieces_are_short(share in 0.1f64..0.9) {
            let mut machine = Machine::new(share, 1);
            let (mut since, mut pieces) = (0, 0);
            for _ in 0..2000 {
                let before = machine.stopped;
                machine.step(0, 1.0);
                if machine.stopped != before {
                    let piece = (machine.now_ns - since) as f64;
                    let most = QUANTUM_NS as f64 + LEAST_NS / share;
                    // The first is the one with which it is found out, the second pays for it.
                    prop_assert!(pieces < 2 || piece <= most, "{piece}");
                    since = machine.now_ns;
                    pieces += 1;
                }
            }
            prop_assert!(pieces > 100);
        }
    }

    #[test]
    fn an_idle_host_saves_no_more_than_a_quantum() {
        let mut machine = Machine::new(0.5, 4);
        (0..1000).for_each(|_| machine.step(0, 0.0));
        let (began, used) = (machine.now_ns, machine.used_ns);
        while !machine.stopped {
            machine.step(0, 4.0);
        }
        // A quantum's credit and one sample.
        assert!(machine.now_ns - began <= 2 * QUANTUM_NS);
        assert!(machine.used_ns - used <= 8 * QUANTUM_NS);
    }

    #[test]
    fn who_waits_for_a_cpu_gets_it_later() {
        // Others have the CPU for 40 ms of 50; the host is content with a tenth on the whole.
        let mut shared = SharedCpu::new(0.1);
        for now_ns in (0..20_000_000_000_u64).step_by(STEP_NS as usize) {
            shared.step(now_ns % 50_000_000 >= 40_000_000, true);
        }
        let got = shared.used_ns as f64 / shared.now_ns as f64;
        assert!((got / 0.1 - 1.0).abs() < 0.05, "{got}");
    }

    #[test]
    fn who_has_had_what_it_waited_for_saves_no_more_than_a_quantum() {
        let mut shared = SharedCpu::new(0.5);
        // Others leave it a fifth, so it saves what it waits for.
        for now_ns in (0..1_000_000_000_u64).step_by(STEP_NS as usize) {
            shared.step(now_ns % 50_000_000 >= 40_000_000, true);
        }
        let quantum = 0.5 * QUANTUM_NS as f64;
        assert!(shared.credit.credit_ns > 20.0 * quantum);
        // Then it sleeps, for less than it counts as waiting.
        let steps = 50_000_000 / STEP_NS;
        (0..steps).for_each(|_| shared.step(true, false));
        assert!(shared.credit.credit_ns <= quantum);
        let before_ns = shared.used_ns;
        (0..steps).for_each(|_| shared.step(true, true));
        // Half of the 50 ms, and a quantum.
        let burst_ns = shared.used_ns - before_ns;
        assert!(burst_ns <= 25_000_000 + QUANTUM_NS, "{burst_ns}");
    }

    const STEP_NS: u64 = 100_000;

    /// A host with one thread, on one CPU with others.
    struct SharedCpu {
        credit: Credit,
        now_ns: u64,
        used_ns: u64,
        stopped: bool,
        next_ns: u64,
        thread: Thread,
    }

    #[derive(Default)]
    struct Thread {
        is_runnable: bool,
        /// How long it has waited since it last ran: the kernel accounts for that when it is over.
        waits_ns: u64,
        waited_ns: u64,
    }

    impl Tasks for Thread {
        fn waited_ns(&mut self) -> u64 {
            std::mem::take(&mut self.waited_ns)
        }

        fn any_is_runnable(&mut self) -> bool {
            self.is_runnable
        }
    }

    impl SharedCpu {
        fn new(share: f64) -> Self {
            Self {
                credit: Credit::new(share, 1, 0, 0),
                now_ns: 0,
                used_ns: 0,
                stopped: false,
                next_ns: 0,
                thread: Thread::default(),
            }
        }

        /// A tenth of a millisecond in which the CPU is free for the host, or others have it, and its
        /// thread wants it or sleeps.
        fn step(&mut self, is_free: bool, wants: bool) {
            self.thread.is_runnable = wants;
            if wants && !self.stopped && is_free {
                self.used_ns += STEP_NS;
                self.thread.waited_ns += std::mem::take(&mut self.thread.waits_ns);
            } else if wants && !self.stopped {
                self.thread.waits_ns += STEP_NS;
            }
            self.now_ns += STEP_NS;
            if self.now_ns >= self.next_ns {
                let decision = self
                    .credit
                    .decide(self.now_ns, self.used_ns, &mut self.thread);
                (self.stopped, self.next_ns) = (decision.stopped, decision.next_ns);
            }
        }
    }
}
