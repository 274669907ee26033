//! The verdict: did the emulation keep its promise, measured packet by packet.
//!
//! Purpose: turn what the drive loop saw into one word with its reasons. Theory: a packet's
//! error is how much later it left than it should have (**lateness**, the clock after the send
//! call minus its due time) plus how much later it entered than its kernel stamp because the
//! engine was already past it (the **shift**). Reading an arrival late is no error by itself:
//! it enters at its stamp as long as its first pipe can still serve it there.
//!
//! A second is *bad* when more than one packet in 1000 has an error beyond the tolerance (the
//! file's, or 1 % of the packet's own path delay where that is more), or a packet was lost by
//! the machine, or the clock was stepped, or a host was starved of CPU or held back below its link's
//! rate. No bad second:
//! `faithful`; at most 1 % of the seconds: `degraded`; else `broken`. See docs/fidelity.md.

use hdrhistogram::Histogram;
use longhaul_core::{Span, Time};
use serde::{Deserialize, Serialize};

/// Of the packets of a second, this part may be late: 1 in 1000.
const LATE_PART: u64 = 1000;
/// Of the seconds of a run, this part may be bad in a degraded run: 1 in 100.
const BAD_PART: u64 = 100;
/// The path's own delay divided by this is tolerated too.
const PATH_PART: u64 = 100;
/// A host whose tasks waited this long for a CPU within a second was starved.
pub const STARVED_NS: u64 = 500_000_000;
/// A link that gave less than this part of its rate because of the machine was not itself.
const LEFT_LEAST: f64 = 0.99;
/// A core that does not come back to its clock for so long stood still, and so it did where the first
/// stale frame is older than this: in a flood frames become stale little by little.
pub(crate) const STALL: Span = Span::from_ms(1);
/// It waits for its CPU now and then, while it leaves room to others; this is more than that.
const CORE_WAIT: Span = Span::from_ms(100);
/// With more than this part of the time spent on packets there is none to spare.
const FULL_LOAD: f64 = 0.95;
/// The most reasons that are spelled out.
const REASONS_MAX: usize = 20;

/// A histogram of nanoseconds, within 1 % of each value.
#[derive(Debug, Clone)]
pub struct Delays(Histogram<u64>);

impl Default for Delays {
    fn default() -> Self {
        // Bounds of the histogram: a minute is far beyond any delay that leaves a run useful.
        Self(Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("constant bounds are valid"))
    }
}

impl Delays {
    /// Counts one value; what lies beyond the bounds counts as the bound.
    #[inline]
    pub fn record(&mut self, span: Span) {
        self.0.saturating_record(span.as_ns());
    }

    /// Takes over all of `other` and empties it.
    pub fn absorb(&mut self, other: &mut Self) {
        self.0.add(&other.0).expect("histograms of the same bounds");
        other.0.reset();
    }

    /// The figures of `summary.json`.
    pub fn quantiles(&self) -> Quantiles {
        let at = |quantile: f64| {
            if self.0.is_empty() {
                0
            } else {
                self.0.value_at_quantile(quantile)
            }
        };
        Quantiles {
            p50: at(0.50),
            p90: at(0.90),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max(),
        }
    }
}

/// Quantiles in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Quantiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Packets lost by the machine, by the place where it lost them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalDrops {
    /// The receive ring of the core was full.
    pub ring: u64,
    /// Read so late that the core shed them at the door.
    pub shed: u64,
    /// No free slot in the packet pool.
    pub pool: u64,
    /// The kernel refused to send them.
    pub send: u64,
    /// A cable lost them on the way to the core.
    pub to_core: u64,
    /// A cable lost them on the way to the host.
    pub from_core: u64,
}

impl PhysicalDrops {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.ring + self.shed + self.pool + self.send + self.to_core + self.from_core
    }

    /// Adds `other` to each.
    pub fn add(&mut self, other: &Self) {
        self.ring += other.ring;
        self.shed += other.shed;
        self.pool += other.pool;
        self.send += other.send;
        self.to_core += other.to_core;
        self.from_core += other.from_core;
    }

    /// The places that lost something, in words.
    fn places(&self) -> String {
        let places = [
            (self.ring, "in the core's receive ring"),
            (self.shed, "at the door, read too late"),
            (self.pool, "for want of a free packet slot"),
            (self.send, "refused by the kernel on sending"),
            (self.to_core, "on cables to the core"),
            (self.from_core, "on cables to hosts"),
        ];
        let lost = places
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, place)| format!("{n} {place}"));
        lost.collect::<Vec<_>>().join(", ")
    }
}

/// The error of the worst packet of a second and where it was going.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worst {
    /// Lateness plus shift.
    pub error: Span,
    /// The host's number.
    pub host: usize,
}

/// What the drive loop saw in one second of the run.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// Its number, from 0.
    pub number: u64,
    /// Packets sent to hosts.
    pub packets: u64,
    /// Those whose error was beyond the tolerance.
    pub late: u64,
    /// The worst of them.
    pub worst: Worst,
    /// Lateness of this second's packets.
    pub lateness: Quantiles,
    /// Lost by the machine.
    pub drops: PhysicalDrops,
    /// How often the clock was stepped.
    pub clock_steps: u64,
    /// Hosts that were starved, with the time that their tasks waited.
    pub starved: Vec<(usize, Span)>,
    /// The part of their links' rates that the machine left to hosts that wanted all of it, where
    /// there were any.
    pub left: Option<f64>,
    /// The share of the second that the core's thread was on its CPU.
    pub core_busy: f64,
    /// How long the core's thread waited for its CPU.
    pub core_wait: Span,
    /// For how long the core did not come back to its clock at most, other than to sleep.
    pub stall: Span,
    /// CPU time that the hypervisor took from all CPUs of this machine.
    pub stolen: Span,
    /// The share of the second that the core worked; it spins and sleeps in the rest.
    pub core_load: f64,
}

impl Second {
    /// Counts a packet that has been sent at `sent`.
    #[inline]
    pub fn packet(
        &mut self,
        lateness: Span,
        shift: Span,
        path_delay: Span,
        tolerance: Span,
        host: usize,
    ) {
        let error = lateness + shift;
        self.packets += 1;
        if error > tolerance && error.as_ns() > path_delay.as_ns() / PATH_PART {
            self.late += 1;
            if error > self.worst.error {
                self.worst = Worst { error, host };
            }
        }
    }

    /// The share of the second that the core did not need, 0 to 1.
    pub fn headroom(&self) -> f64 {
        (1.0 - self.core_load).clamp(0.0, 1.0)
    }

    fn is_bad(&self) -> bool {
        self.late * LATE_PART > self.packets
            || self.drops.total() > 0
            || self.clock_steps > 0
            || !self.starved.is_empty()
            || self.is_held_back()
    }

    /// Whether hosts had less than they would notice.
    fn is_held_back(&self) -> bool {
        self.left.is_some_and(|part| part < LEFT_LEAST)
    }
}

/// How a run is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Every second kept the promise.
    Faithful,
    /// At most one second in a hundred did not.
    Degraded,
    /// More did not.
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

/// What is measured of all packets of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// Lateness of every packet sent.
    pub lateness: Delays,
    /// Age of every arrival when it was read.
    pub staleness: Delays,
    /// The kernel's own word, asked now and then: how far from due a packet was put on its cable.
    pub on_cable: Delays,
}

/// The verdict as `summary.json` holds it.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The word.
    pub state: State,
    /// What spoke against the run, second by second; empty for a faithful one.
    pub reasons: Vec<String>,
    /// The tolerance in nanoseconds.
    pub tolerance_ns: u64,
    /// Seconds judged.
    pub seconds: u64,
    /// Bad ones among them.
    pub bad_seconds: u64,
    /// Lateness of all packets; `null` in a virtual run.
    pub lateness_ns: Option<Quantiles>,
    /// How old arrivals were when they were read; `null` in a virtual run.
    pub staleness_ns: Option<Quantiles>,
    /// How far from due the kernel put packets on their cables, for those of which it was asked;
    /// `null` in a virtual run.
    pub on_cable_ns: Option<Quantiles>,
    /// All packets lost by the machine.
    pub physical_drops: u64,
    /// The same by place.
    pub physical_drops_by_place: PhysicalDrops,
    /// How often the clock was stepped.
    pub clock_steps: u64,
    /// For how long the core did not come back to its clock at most, other than to sleep; `null` in a
    /// virtual run.
    pub stall_ns: Option<u64>,
    /// CPU time that the hypervisor took from all CPUs of this machine; `null` in a virtual run.
    pub stolen_ns: Option<u64>,
}

/// Collects seconds and judges them.
#[derive(Debug)]
pub struct Judge {
    tolerance: Span,
    host_names: Vec<String>,
    seconds: u64,
    bad: u64,
    drops: PhysicalDrops,
    clock_steps: u64,
    stall: Span,
    stolen: Span,
    reasons: Vec<String>,
    unspoken: u64,
}

impl Judge {
    /// A judge of a run whose hosts have these names.
    pub fn new(tolerance: Span, host_names: Vec<String>) -> Self {
        Self {
            tolerance,
            host_names,
            seconds: 0,
            bad: 0,
            drops: PhysicalDrops::default(),
            clock_steps: 0,
            stall: Span::ZERO,
            stolen: Span::ZERO,
            reasons: Vec::new(),
            unspoken: 0,
        }
    }

    /// Takes one second into account, and those since the last one in which the core did not
    /// come to its end: it was stopped, and whatever was due then is late.
    pub fn second(&mut self, second: &Second) {
        let missed = second.number.saturating_sub(self.seconds);
        if missed > 0 {
            self.bad += missed;
            self.say(
                self.seconds,
                &format!("the core stood still for {missed} seconds"),
            );
        }
        self.seconds = second.number + 1;
        self.drops.add(&second.drops);
        self.clock_steps += second.clock_steps;
        self.stall = self.stall.max(second.stall);
        self.stolen += second.stolen;
        if !second.is_bad() {
            return;
        }
        self.bad += 1;
        let name = |host: usize| self.host_names.get(host).map_or("?", String::as_str);
        let mut reasons = Vec::new();
        if second.late * LATE_PART > second.packets {
            reasons.push(format!(
                "{} of {} packets were late beyond the tolerance, the worst by {} on its way to {}{}",
                second.late,
                second.packets,
                readable(second.worst.error),
                name(second.worst.host),
                core_excuse(second),
            ));
        }
        if second.drops.total() > 0 {
            let places = second.drops.places();
            reasons.push(format!("the machine lost packets: {places}"));
        }
        if second.clock_steps > 0 {
            reasons.push("the machine's clock was stepped".to_owned());
        }
        if let Some(part) = second.left.filter(|_| second.is_held_back()) {
            reasons.push(format!(
                "the machine did not keep up: hosts had to make do with {:.0} % of their links' rates",
                part * 100.0
            ));
        }
        for (host, wait) in &second.starved {
            let wait = readable(*wait);
            reasons.push(format!(
                "programs on {} waited {wait} for a CPU",
                name(*host)
            ));
        }
        for reason in reasons {
            self.say(second.number, &reason);
        }
    }

    /// Nothing happened in the seconds before `second`, and nothing was to.
    pub fn idle_until(&mut self, second: u64) {
        self.seconds = self.seconds.max(second);
    }

    fn say(&mut self, second: u64, reason: &str) {
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("second {second}: {reason}"));
        } else {
            self.unspoken += 1;
        }
    }

    /// What has spoken against the run so far, the newest last; at most so many.
    pub fn newest_reasons(&self, most: usize) -> &[String] {
        &self.reasons[self.reasons.len().saturating_sub(most)..]
    }

    /// The state if the run ended now.
    pub fn state(&self) -> State {
        match self.bad {
            0 => State::Faithful,
            bad if bad * BAD_PART <= self.seconds => State::Degraded,
            _ => State::Broken,
        }
    }

    /// The final word on a run that no clock has driven: nothing in it could be late.
    pub fn virtual_verdict(&self) -> Verdict {
        Verdict {
            lateness_ns: None,
            staleness_ns: None,
            on_cable_ns: None,
            stall_ns: None,
            stolen_ns: None,
            ..self.verdict(&Measured::default())
        }
    }

    /// The final word.
    pub fn verdict(&self, measured: &Measured) -> Verdict {
        let mut reasons = self.reasons.clone();
        if self.unspoken > 0 {
            reasons.push(format!("and {} more", self.unspoken));
        }
        Verdict {
            state: self.state(),
            reasons,
            tolerance_ns: self.tolerance.as_ns(),
            seconds: self.seconds,
            bad_seconds: self.bad,
            lateness_ns: Some(measured.lateness.quantiles()),
            staleness_ns: Some(measured.staleness.quantiles()),
            on_cable_ns: Some(measured.on_cable.quantiles()),
            physical_drops: self.drops.total(),
            physical_drops_by_place: self.drops,
            clock_steps: self.clock_steps,
            stall_ns: Some(self.stall.as_ns()),
            stolen_ns: Some(self.stolen.as_ns()),
        }
    }
}

/// Why the core itself was late, as far as it can be seen from here.
fn core_excuse(second: &Second) -> String {
    let [stall, stolen, wait] = [second.stall, second.stolen, second.core_wait].map(readable);
    let mut excuses = Vec::new();
    if second.stall > STALL {
        excuses.push(format!("the core stood still for up to {stall}"));
    }
    if second.stolen > Span::ZERO {
        excuses.push(format!("the hypervisor took {stolen} of CPU time"));
    }
    if second.core_wait > CORE_WAIT {
        excuses.push(format!("the core waited {wait} for its CPU"));
    }
    if excuses.is_empty() && second.core_load > FULL_LOAD {
        excuses.push("the core had no CPU time left".to_owned());
    }
    if excuses.is_empty() {
        return String::new();
    }
    format!(" ({})", excuses.join(", "))
}

/// A span with three significant digits, for people.
pub fn readable(span: Span) -> String {
    let ns = span.as_ns();
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// The second of the run that a point belongs to.
pub fn second_of(time: Time) -> u64 {
    time.as_ns() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64, packets: u64, late: u64) -> Second {
        let mut second = Second {
            number,
            ..Second::default()
        };
        for index in 0..packets {
            let error = if index < late {
                Span::from_ms(1)
            } else {
                Span::ZERO
            };
            second.packet(error, Span::ZERO, Span::from_ms(1), Span::from_us(200), 0);
        }
        second
    }

    fn judged(seconds: impl IntoIterator<Item = Second>) -> Judge {
        let mut judge = Judge::new(Span::from_us(200), vec!["a".to_owned()]);
        seconds.into_iter().for_each(|second| judge.second(&second));
        judge
    }

    #[test]
    fn one_late_packet_in_a_thousand_is_allowed() {
        assert_eq!(judged([second(0, 1000, 1)]).state(), State::Faithful);
        assert_eq!(judged([second(0, 999, 1)]).state(), State::Broken);
    }

    #[test]
    fn one_bad_second_in_a_hundred_degrades() {
        let run = |bad: u64| judged((0..200).map(|n| second(n, 10, u64::from(n < bad))));
        assert_eq!(run(0).state(), State::Faithful);
        assert_eq!(run(2).state(), State::Degraded);
        assert_eq!(run(3).state(), State::Broken);
    }

    #[test]
    fn a_second_in_which_hosts_had_less_than_their_links_is_bad() {
        let left = |part| Second {
            left: Some(part),
            ..second(0, 10, 0)
        };
        assert_eq!(judged([left(1.0)]).state(), State::Faithful);
        assert_eq!(judged([left(0.995)]).state(), State::Faithful);
        let judge = judged([left(0.724)]);
        assert_eq!(judge.state(), State::Broken);
        let reasons = judge.verdict(&Measured::default()).reasons;
        assert!(
            reasons[0].contains("72 % of their links' rates"),
            "{reasons:?}"
        );
    }

    #[test]
    fn seconds_without_the_core_are_bad() {
        let judge = judged([second(0, 10, 0), second(5, 10, 0)]);
        assert_eq!(judge.state(), State::Broken);
        let verdict = judge.verdict(&Measured::default());
        assert_eq!((verdict.seconds, verdict.bad_seconds), (6, 4));
        assert!(
            verdict.reasons[0].contains("second 1") && verdict.reasons[0].contains("4 seconds")
        );
    }

    #[test]
    fn a_late_second_says_what_held_the_core_up() {
        let held_up = Second {
            stall: Span::from_us(5_300),
            stolen: Span::from_ms(10),
            core_load: 1.0,
            ..second(0, 10, 10)
        };
        let busy = Second {
            stall: STALL,
            core_load: 1.0,
            ..second(1, 10, 10)
        };
        let verdict = judged([held_up, busy]).verdict(&Measured::default());
        let ends = [
            "(the core stood still for up to 5.3 ms, the hypervisor took 10.0 ms of CPU time)",
            "(the core had no CPU time left)",
        ];
        for (reason, end) in verdict.reasons.iter().zip(ends) {
            assert!(reason.ends_with(end), "{reason}");
        }
        assert_eq!(
            (verdict.stall_ns, verdict.stolen_ns),
            (Some(5_300_000), Some(10_000_000))
        );
    }

    #[test]
    fn one_per_cent_of_the_path_is_tolerated() {
        let mut second = Second::default();
        let (tolerance, far) = (Span::from_us(200), Span::from_ms(100));
        second.packet(Span::from_us(900), Span::ZERO, far, tolerance, 0);
        assert_eq!(second.late, 0);
        second.packet(Span::from_us(900), Span::from_us(200), far, tolerance, 0);
        assert_eq!(second.late, 1);
    }

    #[test]
    fn a_physical_drop_names_its_place_and_second() {
        let mut bad = second(7, 10, 0);
        bad.drops.ring = 3;
        let verdict =
            judged((0..7).map(|n| second(n, 10, 0)).chain([bad])).verdict(&Measured::default());
        assert_eq!(verdict.state, State::Broken);
        assert!(verdict.reasons[0].contains("second 7") && verdict.reasons[0].contains("ring"));
        assert_eq!(verdict.physical_drops, 3);
    }
}
