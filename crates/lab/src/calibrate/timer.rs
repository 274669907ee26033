//! How late the kernel wakes a thread: the ground under all punctuality.
//!
//! A thread on the core's CPU, scheduled as the core is, sleeps again and again and looks at the
//! clock. The core does better than these figures, because it sleeps until a learnt margin before
//! its time and spins through the rest; lateness beyond the margin it cannot make up for.
#![allow(
    clippy::disallowed_methods,
    reason = "sleeping is what is measured here"
)]

use std::io;
use std::thread;
use std::time::Duration;

use longhaul_core::Span;
use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::core_thread::CoreThread;
use longhaul_linux::cpu;
use serde::{Deserialize, Serialize};

use crate::fidelity::{Delays, Quantiles};

/// How long the thread wants to sleep: in the midst of what paths' delays ask for, and long
/// enough for a CPU to doze off, if it may.
const NAP: Duration = Duration::from_millis(1);

/// Wake-ups of a sleeping thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// How long it wanted to sleep, in nanoseconds.
    pub nap_ns: u64,
    /// How often.
    pub wakeups: u64,
    /// How late it woke up.
    pub late_ns: Quantiles,
    /// The CPU; `None` where there is only one.
    pub cpu: Option<usize>,
    /// How the kernel scheduled it: as the core.
    pub scheduling: String,
}

impl Timer {
    /// Sleeps for `span` altogether, in a thread that is gone afterwards.
    pub(super) fn measure(span: Span) -> io::Result<Self> {
        let claim = cpu::claim_core_cpu();
        let cpu = claim.as_ref().map(|claim| claim.cpu);
        let thread = thread::Builder::new().spawn(move || nap(cpu, span))?;
        let timer = thread.join();
        drop(claim);
        timer.unwrap_or_else(|_| Err(io::Error::other("the timer's thread has died")))
    }
}

fn nap(cpu: Option<usize>, span: Span) -> io::Result<Timer> {
    let core = CoreThread::enter(cpu)?;
    let mut late = Delays::default();
    let (start_ns, mut wakeups) = (monotonic_ns(), 0);
    loop {
        let before = monotonic_ns();
        if before - start_ns >= span.as_ns() {
            break;
        }
        thread::sleep(NAP);
        let slept = monotonic_ns() - before;
        late.record(Span::from_ns(slept.saturating_sub(NAP.as_nanos() as u64)));
        wakeups += 1;
    }
    Ok(Timer {
        nap_ns: NAP.as_nanos() as u64,
        wakeups,
        late_ns: late.quantiles(),
        cpu,
        scheduling: core.scheduling().name().to_owned(),
    })
}
