//! The verdict in words: what holds, and a line for each cause.

use std::time::Duration;

use longhaul_core::Span;

use super::{Judge, Part};
use crate::fidelity::causes::ByCause;
use crate::fidelity::delays::Quantiles;
use crate::fidelity::rule::{self, State};
use crate::fidelity::shares::share;
use crate::fidelity::{readable, readable_duration};
use crate::noise::Comparison;

/// The most hosts that a reason names.
const NAMES_MAX: usize = 5;

impl Judge {
    /// What of the run's figures still holds.
    pub(super) fn holds(&self, worst: &Part) -> String {
        let allowance = readable(worst.t);
        let whose = match worst.to.as_str() {
            "all hosts" => "delay percentiles".to_owned(),
            _ => format!("delay percentiles of {}", worst.named()),
        };
        let percentiles = match worst.shift() {
            0.0 => format!("{whose} are off by at most {allowance}"),
            shift => format!(
                "{whose} are off by at most {} points and {allowance}",
                at_most(100.0 * shift.min(1.0))
            ),
        };
        let rates = match 1.0 - self.rate_share() {
            0.0 => String::new(),
            rates => format!(", mean rates by at most {} %", at_most(100.0 * rates)),
        };
        let stalls = match self.stalls.count {
            0 => String::new(),
            _ => format!(" (this {})", self.stalls_in_words()),
        };
        format!("{percentiles}{rates}{stalls}")
    }

    fn stalls_in_words(&self) -> String {
        let longest = readable_duration(Duration::from_nanos(self.stalls.longest_ns));
        match self.stalls.count {
            1 => format!("machine stalled once, for {longest}"),
            n => format!("machine stalled {n} times, for up to {longest}"),
        }
    }

    /// How the run's stalls compare with those of the idle machine, where these are known.
    fn beside_the_idle_machine(&self) -> String {
        let Some(alone) = self.compared() else {
            return String::new();
        };
        let limit = readable(Span::from_ns(alone.stalls_from_ns));
        let measured = readable(Span::from_ns((alone.measured_s * 1e9) as u64));
        let run = format!(
            "{:.1} stalls of {limit} or more a minute",
            alone.run_per_minute
        );
        let machine = alone.machine_per_minute;
        match alone.comparison {
            Comparison::Alike => format!(
                "; as quiet as this machine gets: {run}, and {machine:.1} a minute with nothing running"
            ),
            Comparison::Exceeds => format!(
                "; noisier than this machine is by itself: {run}, but {machine:.1} a minute with \
                 nothing running (in {measured}): look for other programs"
            ),
            Comparison::Unknown => format!(
                "; {run}, and none in the {measured} for which the machine was measured with nothing \
                 running: too briefly to compare"
            ),
        }
    }

    pub(super) fn starved_hosts(&self) -> impl Iterator<Item = (&str, Duration)> {
        let hosts = self.hosts.iter().zip(&self.starved);
        hosts.filter_map(|(node, waited)| {
            let name = self.names.get(node.index()).map_or("?", String::as_str);
            Some((name, (*waited)?))
        })
    }

    /// One line each cause, of a run that is not faithful.
    pub(super) fn reasons(&self, state: State, late: Option<&Part>) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.run.packets + self.drops.total() == 0 {
            reasons.push("no packet was due, so there was nothing to judge".to_owned());
        }
        if state != State::Faithful {
            self.add_late_packets(&mut reasons);
            self.add_where_late(late, &mut reasons);
            self.add_losses(&mut reasons);
            self.add_everything_else(&mut reasons);
        }
        reasons
    }

    /// A note on a run whose packets were in time but whose hosts' stacks were slow.
    pub(super) fn add_slow_stacks(
        &self,
        lateness: &Quantiles,
        after: &Quantiles,
        reasons: &mut Vec<String>,
    ) {
        let tolerance = self.tolerance.as_ns();
        if lateness.p99 <= tolerance && after.p99 > tolerance {
            reasons.push(format!(
                "hosts received packets slowly: 1 in 100 was through the receiving stack {} or \
                 more after it was due, although it was on its cable in time",
                readable(Span::from_ns(after.p99))
            ));
        }
    }

    /// Where, and when, more packets were late than in the run as a whole.
    fn add_where_late(&self, late: Option<&Part>, reasons: &mut Vec<String>) {
        let is_worse = |part: &&Part| part.shares.late_share() > self.run.late_share();
        if let Some(part) = late.filter(is_worse) {
            reasons.push(format!(
                "{} % of packets late in the worst pair, {}",
                at_most(100.0 * part.shares.late_share()),
                part.named(),
            ));
        }
        if self.late_seconds > 0 {
            reasons.push(format!(
                "more than 1 % of packets late in {} of {} seconds",
                self.late_seconds, self.seconds
            ));
        }
        if rule::is_too_large(self.run.worst) {
            reasons.push(format!(
                "a packet was {} late, too much for any figure to hold",
                readable(self.run.worst)
            ));
        }
    }

    fn add_late_packets(&self, reasons: &mut Vec<String>) {
        let late = |packets: u64| {
            let share = 100.0 * share(packets, self.run.packets);
            format!("{} % of packets late", at_most(share))
        };
        let ByCause {
            stall,
            overload,
            other,
        } = self.by_cause;
        if stall > 0 {
            let mut why = format!("the {}", self.stalls_in_words());
            if self.stolen > Duration::ZERO {
                let stolen = readable_duration(self.stolen);
                why.push_str(&format!("; its hypervisor took {stolen} of CPU time"));
            }
            if self.core_wait > Duration::from_millis(1) {
                let waited = readable_duration(self.core_wait);
                why.push_str(&format!("; the core waited {waited} for its CPU"));
            }
            why.push_str(&self.beside_the_idle_machine());
            reasons.push(format!("{}: {why}", late(stall)));
        }
        if overload > 0 {
            reasons.push(format!(
                "{}: the core was overloaded (busy for up to {:.0} % of a second)",
                late(overload),
                100.0 * self.core_load
            ));
        }
        if other > 0 {
            reasons.push(format!(
                "{}: wake-ups or send calls took longer than the tolerance (up to {} late)",
                late(other),
                readable(self.run.worst)
            ));
        }
    }

    fn add_losses(&self, reasons: &mut Vec<String>) {
        let drops = self.drops.total();
        if let Some(one_in) = (self.run.packets + drops).checked_div(drops) {
            let packets = if drops == 1 { "packet" } else { "packets" };
            reasons.push(format!(
                "the machine, not the network, lost {drops} {packets}, 1 in {one_in}: {}",
                self.drops.places()
            ));
        }
    }

    fn add_everything_else(&self, reasons: &mut Vec<String>) {
        match self.clock_steps {
            0 => {}
            1 => reasons.push("the machine's clock was stepped".to_owned()),
            n => reasons.push(format!("the machine's clock was stepped {n} times")),
        }
        let left = self.rate_left();
        if left < 1.0 {
            reasons.push(format!(
                "the machine did not keep up: hosts that needed the full rate of their links got \
                 {:.1} % of it",
                100.0 * left
            ));
        }
        if self.by_cause.stall == 0 && rule::are_slow(1.0 - self.stalled_share()) {
            reasons.push(format!(
                "the {}, {} % of the run in all{}",
                self.stalls_in_words(),
                at_most(100.0 * self.stalled_share()),
                self.beside_the_idle_machine()
            ));
        }
        reasons.extend(self.excess.iter().cloned());
        let starved: Vec<_> = self.starved_hosts().collect();
        if let Some(longest) = starved.iter().map(|(_, waited)| *waited).max() {
            let mut names: Vec<_> = starved.iter().map(|(name, _)| *name).collect();
            let more = names.len().saturating_sub(NAMES_MAX);
            names.truncate(NAMES_MAX);
            let more = match more {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            reasons.push(format!(
                "programs on {}{more} waited for a CPU, for up to {} of a second",
                names.join(", "),
                readable_duration(longest)
            ));
        }
    }
}

/// A positive number with two significant digits, but no more than two decimals, rounded up.
pub(super) fn at_most(number: f64) -> String {
    if number <= 0.0 {
        return "0".to_owned();
    }
    let digits = (1 - number.log10().floor() as i32).clamp(0, 2);
    let scale = 10f64.powi(digits);
    // A number that is rounded already stays so, whatever floating-point error it has.
    let rounded = (number * scale - 1e-9).ceil() / scale;
    format!("{rounded:.*}", digits as usize)
}
