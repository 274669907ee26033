//! The rule of the verdict: what a run's figures can claim, and its grade.
//!
//! **Theory.** Of the packets that were due at a host, let a share `d` be lost by the machine, and
//! of those that left let a share `l` be late, which means later than due by more than the
//! allowance `t`. Nothing leaves early. Let `Q` be the quantile function of the delays that the
//! emulated network gives, and `m(p)` what is measured as p-quantile.
//!
//! - *From below*: a share `p(1 − d) ≥ p − d` of all packets is measured to be no slower than
//!   `m(p)`, and truly is, since nothing is early. So `m(p) ≥ Q(p − d)`.
//! - *From above*: of the share `p + l + d` of packets that are truly no slower than
//!   `Q(p + l + d)`, at most `d` are missing and `l` late. The others, `p` at least, are measured to
//!   be no slower than `Q(p + l + d) + t`. So `m(p) ≤ Q(p + l + d) + t`; where p + l + d > 1 nothing
//!   is claimed.
//!
//! A round trip is two packets: shares and allowances of both directions add up (union bound).
//! A distribution of a subset of the packets (one pair of hosts) has shares of its own: a busy flow
//! hides a ping that is always late. So the claim is that of the worst pair of at least
//! [`JUDGED_FROM`] packets.
//!
//! Rates follow from delays only where senders are open loops. A closed loop sends nothing while
//! the machine stalls, and a host held back by the machine sends less than its link allows.
//! So the mean rate over a run is too low by at most the share of time for which the machine
//! stalled and what hosts lacked of their links' rates.
//!
//! **Grades** bound these figures. Late packets come in bursts, so one short burst is no evidence
//! of a second or a host that is late as a rule: those count from two episodes on, or one of
//! [`LONG`].
//!
//! Left out: what a program does with its packets later (a retransmission after a late
//! acknowledgement); the kernels' own counts of spurious retransmissions are reported alongside.

use longhaul_core::Span;
use serde::{Deserialize, Serialize};

use super::shares::{Shares, share};

/// A path's own delay divided by this is allowed where it exceeds the tolerance, up to [`PATH_MAX`]:
/// an error is judged against the delay that it distorts.
const PATH_PART: u64 = 100;
const PATH_MAX: Span = Span::from_ms(1);
/// Hosts and pairs of hosts are judged by themselves from this many packets on: of fewer, 1 % is
/// less than one packet.
pub(crate) const JUDGED_FROM: u64 = 100;
/// The least evidence that something is late as a rule: two episodes, or one that lasts this long.
/// A single short burst of late packets is an accident.
const EPISODES: u64 = 2;
const LONG: Span = Span::from_ms(100);
/// The largest share of late packets in a faithful run, and in each of its hosts, pairs and seconds.
pub(crate) const FAITHFUL: f64 = 0.001;
const FAITHFUL_PART: f64 = 0.01;
/// One in this many seconds of a faithful run may be worse.
const FAITHFUL_SECONDS: u64 = 100;
/// The largest share of late packets in a degraded run, and in each of its hosts and pairs.
const DEGRADED: f64 = 0.05;
/// The largest error of a packet in a degraded run.
const DEGRADED_ERROR: Span = Span::from_ms(100);
/// The largest share of packets that the machine may lose in a degraded run; a faithful run loses
/// none.
const DEGRADED_LOST: f64 = 1e-4;
/// The least part of their true values that mean rates must have kept, for each grade.
const FAITHFUL_RATES: f64 = 0.99;
const DEGRADED_RATES: f64 = 0.95;

/// How large the error of a packet may be whose path has this delay.
#[inline]
pub(crate) fn allowance(tolerance: Span, path_delay: Span) -> Span {
    tolerance.max(Span::from_ns(path_delay.as_ns() / PATH_PART).min(PATH_MAX))
}

/// How a run is judged, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Figures are as on the network that was asked for.
    Faithful,
    /// Figures are off by no more than the verdict says.
    Degraded,
    /// Neither.
    Broken,
}

impl State {
    /// As `summary.json` and the terminal name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faithful => "faithful",
            Self::Degraded => "degraded",
            Self::Broken => "broken",
        }
    }
}

/// Everything that a grade depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    /// All packets of the run.
    pub(crate) run: &'a Shares,
    /// Those of each host and pair that is judged by itself.
    pub(crate) parts: &'a [Shares],
    /// Packets that the machine lost.
    pub(crate) lost: u64,
    /// Seconds, and those of them that were late by themselves ([`is_late`]).
    pub(crate) seconds: u64,
    pub(crate) late_seconds: u64,
    pub(crate) clock_steps: u64,
    /// Whether hosts were starved of CPU time.
    pub(crate) is_starved: bool,
    /// Whether hosts were given more than the machine has.
    pub(crate) is_oversubscribed: bool,
    /// The part of their true values that rates have kept.
    pub(crate) rates: f64,
}

/// Whether a second, a host or a pair is late as a rule.
pub(crate) fn is_late(shares: &Shares) -> bool {
    is_evidence(shares) && shares.late_share() > FAITHFUL_PART
}

/// Whether a run, a host or a pair is too late, or has lost too much, for a degraded run.
pub(crate) fn is_too_late(shares: &Shares) -> bool {
    let is_late = is_evidence(shares) && shares.late_share() > DEGRADED;
    is_late || lost_share(shares.lost, shares.packets) > DEGRADED
}

/// Whether an error is too large for a degraded run.
pub(crate) fn is_too_large(error: Span) -> bool {
    error > DEGRADED_ERROR
}

fn is_evidence(shares: &Shares) -> bool {
    shares.episodes >= EPISODES || shares.longest >= LONG
}

/// Whether rates have kept too little for a faithful run.
pub(crate) fn are_slow(rates: f64) -> bool {
    rates < FAITHFUL_RATES
}

/// The share of what was due that the machine lost.
pub(crate) fn lost_share(lost: u64, left: u64) -> f64 {
    share(lost, lost + left)
}

/// The grade of a run.
pub(crate) fn grade(evidence: &Evidence<'_>) -> State {
    let Evidence {
        run,
        parts,
        lost,
        seconds,
        late_seconds,
        clock_steps,
        is_starved,
        is_oversubscribed,
        rates,
    } = *evidence;
    let is_faithful = run.late_share() <= FAITHFUL
        && !parts.iter().any(is_late)
        && late_seconds * FAITHFUL_SECONDS <= seconds
        && lost == 0
        && clock_steps == 0
        && !is_starved
        && !is_oversubscribed
        && !are_slow(rates);
    let is_degraded = !is_too_late(run)
        && !parts.iter().any(is_too_late)
        && !is_too_large(run.worst)
        && lost_share(lost, run.packets) <= DEGRADED_LOST
        && rates >= DEGRADED_RATES;
    match (is_faithful, is_degraded) {
        (true, true) => State::Faithful,
        (false, true) => State::Degraded,
        (_, false) => State::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Time;
    use proptest::prelude::*;

    /// Packets, of which `late` are late by a millisecond, in `episodes` episodes.
    fn shares(packets: u64, late: u64, episodes: u64) -> Shares {
        let mut shares = Shares::default();
        (0..packets).for_each(|_| shares.count(Span::ZERO));
        for number in 0..late {
            let due = Time::ZERO + Span::from_ms(100 * (number % episodes.max(1)));
            shares.count_late(due, Span::from_ms(1));
        }
        shares.episodes = episodes;
        shares
    }

    fn of<'a>(run: &'a Shares, parts: &'a [Shares]) -> Evidence<'a> {
        Evidence {
            run,
            parts,
            lost: 0,
            seconds: 10,
            late_seconds: 0,
            clock_steps: 0,
            is_starved: false,
            is_oversubscribed: false,
            rates: 1.0,
        }
    }

    #[test]
    fn the_allowance_is_the_tolerance_or_a_part_of_the_path() {
        let tolerance = Span::from_us(200);
        let allowed = |path| allowance(tolerance, path);
        assert_eq!(allowed(Span::ZERO), tolerance);
        assert_eq!(allowed(Span::from_ms(20)), tolerance);
        assert_eq!(allowed(Span::from_ms(50)), Span::from_us(500));
        assert_eq!(allowed(Span::from_s(1)), Span::from_ms(1));
        let wide = Span::from_ms(5);
        assert_eq!(allowance(wide, Span::from_s(1)), wide);
    }

    #[test]
    fn a_run_is_graded_by_its_late_packets() {
        let graded = |packets, late, episodes| {
            let run = shares(packets, late, episodes);
            grade(&of(&run, &[run]))
        };
        assert_eq!(graded(0, 0, 0), State::Faithful);
        assert_eq!(graded(1000, 1, 1), State::Faithful);
        assert_eq!(graded(999, 1, 1), State::Degraded);
        assert_eq!(graded(1000, 50, 9), State::Degraded);
        assert_eq!(graded(1000, 51, 9), State::Broken);
        // One burst is an accident.
        assert_eq!(graded(40, 20, 1), State::Degraded);
        assert_eq!(graded(40, 20, 2), State::Broken);
    }

    #[test]
    fn a_burst_that_lasts_is_no_accident() {
        // Packets 5 ms apart, all late for so many of them: one episode.
        let graded = |late: u64| {
            let mut run = Shares::default();
            (0..1000).for_each(|_| run.count(Span::ZERO));
            for number in 0..late {
                run.count_late(Time::ZERO + Span::from_ms(5 * number), Span::from_ms(1));
            }
            assert_eq!(run.episodes, 1);
            grade(&of(&run, &[run]))
        };
        assert_eq!(graded(20), State::Degraded);
        assert_eq!(graded(1000), State::Broken);
        // Beside a busy flow it is seen all the same.
        let busy = shares(1_000_000, 0, 0);
        let mut ping = Shares::default();
        (0..200).for_each(|_| ping.count(Span::ZERO));
        for number in 0..200 {
            ping.count_late(Time::ZERO + Span::from_ms(5 * number), Span::from_ms(1));
        }
        assert_eq!(grade(&of(&busy, &[busy, ping])), State::Broken);
    }

    #[test]
    fn a_pair_that_lost_most_of_its_packets_breaks_a_run() {
        let run = shares(1_000_000, 0, 0);
        let mut pair = shares(100, 0, 0);
        pair.lost = 50;
        let mut evidence = of(&run, &[]);
        evidence.lost = 50;
        assert_eq!(grade(&evidence), State::Degraded);
        let parts = [pair];
        evidence.parts = &parts;
        assert_eq!(grade(&evidence), State::Broken);
    }

    #[test]
    fn a_busy_flow_hides_no_ping() {
        let run = shares(100_000, 20, 10);
        let quiet = |late, episodes| [shares(99_800, 0, 0), shares(200, late, episodes)];
        assert_eq!(grade(&of(&run, &quiet(2, 2))), State::Faithful);
        assert_eq!(grade(&of(&run, &quiet(3, 1))), State::Faithful);
        assert_eq!(grade(&of(&run, &quiet(3, 2))), State::Degraded);
        assert_eq!(grade(&of(&run, &quiet(11, 5))), State::Broken);
    }

    #[test]
    fn everything_else_counts_too() {
        let run = shares(20_000, 0, 0);
        let clean = of(&run, &[]);
        let graded = |change: fn(&mut Evidence<'_>)| {
            let mut evidence = clean;
            change(&mut evidence);
            grade(&evidence)
        };
        assert_eq!(graded(|_| {}), State::Faithful);
        assert_eq!(graded(|e| e.lost = 1), State::Degraded);
        assert_eq!(graded(|e| e.lost = 3), State::Broken);
        assert_eq!(graded(|e| e.clock_steps = 1), State::Degraded);
        assert_eq!(graded(|e| e.is_starved = true), State::Degraded);
        assert_eq!(graded(|e| e.is_oversubscribed = true), State::Degraded);
        assert_eq!(graded(|e| e.late_seconds = 1), State::Degraded);
        assert_eq!(
            graded(|e| (e.late_seconds, e.seconds) = (1, 100)),
            State::Faithful
        );
        assert_eq!(graded(|e| e.rates = 0.99), State::Faithful);
        assert_eq!(graded(|e| e.rates = 0.98), State::Degraded);
        assert_eq!(graded(|e| e.rates = 0.94), State::Broken);
        let mut far = run;
        far.count_late(Time::ZERO, Span::from_ms(101));
        assert_eq!(grade(&of(&far, &[])), State::Broken);
    }

    /// The quantile of a sorted sample: the smallest value that a share `p` does not exceed.
    fn quantile(sorted: &[u64], p: f64) -> u64 {
        let rank = (p * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
        sorted[rank.min(sorted.len()) - 1]
    }

    proptest! {
        /// The claim holds for any delays, whichever packets are late or lost, and however late.
        #[test]
        fn percentiles_lie_within_what_is_claimed(
            packets in prop::collection::vec((0u64..1_000_000, 0u8..100, 0u64..10_000_000), 1..300),
            late_below in 0u8..30,
            lost_from in 80u8..100,
            t in 0u64..300,
        ) {
            let mut truth: Vec<u64> = packets.iter().map(|(delay, ..)| *delay).collect();
            truth.sort_unstable();
            let (mut measured, mut late, mut lost) = (Vec::new(), 0u64, 0u64);
            for (delay, dice, error) in packets {
                if dice >= lost_from {
                    lost += 1;
                } else if dice < late_below {
                    late += 1;
                    measured.push(delay + t + 1 + error);
                } else {
                    measured.push(delay + error % (t + 1));
                }
            }
            measured.sort_unstable();
            prop_assume!(!measured.is_empty());
            let d = lost_share(lost, measured.len() as u64);
            let l = share(late, measured.len() as u64);
            for percent in 1..100 {
                let p = f64::from(percent) / 100.0;
                let m = quantile(&measured, p);
                if p - d > 0.0 {
                    prop_assert!(m >= quantile(&truth, p - d), "p{percent} from below");
                }
                if p + l + d <= 1.0 {
                    prop_assert!(m <= quantile(&truth, p + l + d) + t, "p{percent} from above");
                }
            }
        }
    }
}
