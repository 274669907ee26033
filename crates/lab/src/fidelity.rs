//! The verdict: how exact the emulation was, and which figures of the run hold.
//!
//! The loop measures each packet ([`meter`]): its **error** is when the kernel put it on its host's
//! cable, minus its due time, plus its **shift** (how much later than its stamp it had to enter the
//! network). Shares of late packets are kept for the run, each second, each receiving host and each
//! pair of hosts ([`shares`]). The rule that derives a grade and a claim from them is one file, with
//! its theory ([`rule`]); [`judge`] adds what the supervisor knows besides, and puts the outcome into
//! words. docs/fidelity.md derives the rule for users.

pub(crate) mod causes;
mod delays;
mod drops;
pub(crate) mod judge;
pub(crate) mod meter;
pub(crate) mod rule;
pub(crate) mod shares;
mod verdict;

use std::time::Duration;

use longhaul_core::{Span, Time};

pub use causes::{ByCause, LONG_NS, Stalls, WOKEN_LATE_NS};
pub use delays::{Delays, Quantiles};
pub use drops::PhysicalDrops;
pub use judge::Judge;
pub use meter::{Measured, Second};
pub use rule::State;
pub use verdict::{Spurious, Verdict, WorstPair};

/// A host was starved in a second if it lacked a CPU for this long although it had something to
/// run: half of the second, however long that is on the machine; for a host with less than one CPU,
/// half of its quota.
pub const STARVED: Span = Span::from_ms(500);

/// Of a faithful run, at most this share of packets was late.
pub const FAITHFUL_LATE_SHARE: f64 = rule::FAITHFUL;

/// A span to a tenth of its unit, for people.
pub fn readable(span: Span) -> String {
    let ns = span.as_ns();
    let (unit_ns, unit) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let tenths = format!("{:.1}", ns as f64 / f64::from(unit_ns));
    format!("{} {unit}", tenths.strip_suffix(".0").unwrap_or(&tenths))
}

/// The same of machine time.
pub(crate) fn readable_duration(duration: Duration) -> String {
    readable(Span::from_ns(
        u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
    ))
}

/// The second of the run that a point belongs to.
pub fn second_of(time: Time) -> u64 {
    time.as_ns() / 1_000_000_000
}
