//! What happens at half of the core's capacity, at twice, and for a long time just below it.
//!
//! Capacity is the highest rate without loss, searched in the same round, with the lateness at it. At
//! half of it no packet is lost. At twice, packets in flight keep their times, the excess is shed at
//! ingress and counted, what arrives does not become less, and the run is flagged: this goes through many
//! shaped links, which cost the core more per packet than the sender pays, or the sender would be the
//! limit. The soak shows that memory does not grow and that every packet is accounted for (as in every
//! run of the suite).

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::emulated::Path;
use super::figures::{Against, Figure, Target, at};
use super::lab::Lab;
use super::pair::Pair;
use super::place::Place;
use super::udp;
use super::{Group, Setup};

const SIZE: u32 = 64;
/// Parts of the capacity.
const HALF: f64 = 0.5;
const TWICE: f64 = 2.0;
const SOAK: f64 = 0.9;
/// How long, in seconds.
const SHORT: u32 = 10;
const LONG: u32 = 600;
/// What arrives at twice the capacity, at least, in relation to the capacity.
const CARRIED: f64 = 0.9;
/// How much memory may grow, from the second tenth of a run to its last.
const FLAT: f64 = 1.02;

/// Many links, each with the bit errors of a good fibre: about a hundred times the core's work for one.
const HEAVY: Path = Path {
    hops: 60,
    delay_ns: 600_000,
    more: ", bit_errors: 1e-15",
    ..Path::LINK
};

/// Half and twice.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let half = Part {
        name: "at half of it",
        path: Path::LINK,
        part: HALF,
        seconds: lab.seconds(SHORT),
        overload: false,
        once: false,
    };
    let compared = |quantile: usize| lateness(quantile).against(0, Against::Ratio);
    let lost = Figure::new("lost", "", at("/lost")).target(Target::Zero);
    let twice = Part {
        name: "at twice",
        path: HEAVY,
        part: TWICE,
        seconds: lab.seconds(SHORT),
        overload: true,
        once: false,
    };
    let overload = vec![
        compared(0),
        compared(1).headline("at twice the capacity, lateness p99", "at the capacity"),
        compared(2),
        Figure::new("sent / capacity", "", at("/sent_of_capacity")),
        Figure::new("received / capacity", "", at("/received_of_capacity"))
            .target(Target::AtLeast(CARRIED))
            .headline("at twice the capacity, received", "the capacity"),
        Figure::new("not flagged", "", at("/unflagged")).target(Target::Zero),
        Figure::new(
            "shed",
            "",
            at("/summary/verdict/physical_drops_by_place/shed"),
        ),
        Figure::new("late", "%", at("/summary/verdict/late_share").times(100.0)),
    ];
    vec![
        half.group(
            lab,
            vec![
                compared(0),
                compared(1),
                compared(2),
                after_call(0),
                after_call(1),
                lost.headline("at half the capacity, lost", "none"),
            ],
        ),
        twice.group(lab, overload),
    ]
}

/// The soak: ten minutes, once.
pub(crate) fn soak(lab: &Lab) -> Vec<Group> {
    let soak = Part {
        name: "soak",
        path: Path::LINK,
        part: SOAK,
        seconds: lab.seconds(LONG),
        overload: false,
        once: true,
    };
    let figures = vec![
        Figure::new("memory, last / second tenth", "", at("/memory_growth"))
            .target(Target::AtMost(FLAT))
            .headline(
                "ten minutes at 0.9 of the capacity, memory at the end",
                "in the second minute",
            ),
        Figure::new("memory", "MB", at("/memory_bytes").times(1e-6)),
        Figure::new("lost", "", at("/lost")),
        lateness(0),
        lateness(1),
        lateness(2),
    ];
    vec![soak.group(lab, figures)]
}

/// Lateness from the run's verdict.
fn lateness(quantile: usize) -> Figure {
    let (name, pointer) = [
        ("lateness p50", "/summary/verdict/lateness_ns/p50"),
        ("lateness p99", "/summary/verdict/lateness_ns/p99"),
        ("lateness p99.9", "/summary/verdict/lateness_ns/p999"),
    ][quantile];
    Figure::new(name, "µs", at(pointer).times(1e-3))
}

/// When the send calls ended that carried packets, from the run's verdict.
fn after_call(quantile: usize) -> Figure {
    let (name, pointer) = [
        ("after the call p50", "/summary/verdict/after_call_ns/p50"),
        ("after the call p99", "/summary/verdict/after_call_ns/p99"),
    ][quantile];
    Figure::new(name, "µs", at(pointer).times(1e-3))
}

/// A run at a part of the capacity of a path.
struct Part {
    name: &'static str,
    path: Path,
    part: f64,
    seconds: u32,
    overload: bool,
    once: bool,
}

impl Part {
    /// The search of the capacity, and the run.
    fn group(self, lab: &Lab, figures: Vec<Figure>) -> Group {
        let Self {
            name,
            path,
            part,
            seconds,
            overload,
            once,
        } = self;
        let words = path.words();
        let place = Place::Emulated(path);
        let capacity = Rc::new(Cell::new(0.0));
        let found = Rc::clone(&capacity);
        let mut search = udp::loss_free_at(lab, place.clone(), SIZE);
        let searched = search.run;
        search.run = Box::new(move |lab| {
            let outcome = searched(lab)?;
            found.set(outcome.data["kpps"].as_f64().unwrap_or(0.0) * 1e3);
            Ok(outcome)
        });
        let pair = Pair::udp(SIZE, "RATE", seconds, &["--batch", "8"]);
        let command = place.command(&pair);
        let run = Setup::new(
            format!("{name}, {seconds} s"),
            command,
            figures,
            move |lab| {
                let rate = (capacity.get() * part).round().max(1000.0);
                let pair = Pair::udp(SIZE, &rate.to_string(), seconds, &["--batch", "8"]);
                let mut outcome = place.run(lab, &pair)?;
                let more = derived(&outcome.data, capacity.get());
                if let (Value::Object(data), Value::Object(more)) = (&mut outcome.data, more) {
                    data.extend(more);
                }
                Ok(outcome)
            },
        );
        let run = Setup { overload, ..run };
        let title = format!("capacity in datagrams of {SIZE} B, and {name}: {words}");
        let group = Group::new(title, [search, run]);
        Group { once, ..group }
    }
}

/// What follows from a run's reports.
fn derived(data: &Value, capacity: f64) -> Value {
    let number = |pointer: &str| data.pointer(pointer).and_then(Value::as_f64);
    let (sent, received) = (number("/send/sent"), number("/recv/received"));
    let of_capacity = |pointer: &str| number(pointer).map(|pps| pps / capacity);
    let memory: Vec<u64> = data["memory"].as_array().map_or(Vec::new(), |all| {
        all.iter().filter_map(Value::as_u64).collect()
    });
    let tenth = memory.len().div_ceil(10);
    let most = |from: usize| memory.iter().skip(from).take(tenth).max().copied();
    let (early, late) = (most(tenth), most(memory.len().saturating_sub(tenth)));
    let verdict = data.pointer("/summary/verdict/state");
    json!({
        "unflagged": verdict.map(|state| *state == "faithful"),
        "lost": sent.zip(received).map(|(sent, received)| sent - received),
        "sent_of_capacity": of_capacity("/send/pps"),
        "received_of_capacity": of_capacity("/recv/pps"),
        "memory_bytes": late,
        "memory_growth": early.zip(late).map(|(early, late)| late as f64 / early as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_is_seen() {
        let memory: Vec<u64> = (0..100).map(|second| 1000 + second).collect();
        let data = json!({
            "memory": memory,
            "send": { "sent": 10, "pps": 4.0 }, "recv": { "received": 7, "pps": 2.0 },
            "summary": { "verdict": { "state": "broken" } },
        });
        let derived = derived(&data, 2.0);
        assert_eq!(derived["memory_growth"], 1099.0 / 1019.0);
        assert_eq!(derived["lost"], 3.0);
        assert_eq!(derived["unflagged"], false);
        assert_eq!(derived["sent_of_capacity"], 2.0);
    }
}
