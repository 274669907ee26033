//! How many packets a second: at full speed, and the highest rate without any loss.
//!
//! At full speed the sender floods and what arrives counts: the emulator may shed, and its
//! verdict says so. The loss-free rate is searched among fixed rates, for which it takes a few
//! runs each; at its limit either packets get lost or the sender cannot keep the rate itself.

use std::io;

use serde_json::{Value, json};

use super::direct::Cable;
use super::emulated::Path;
use super::figures::{Against, Figure, Outcome, Target, at};
use super::lab::Lab;
use super::pair::Pair;
use super::place::Place;
use super::{Group, Setup};

const SIZES: [u32; 2] = [64, 1400];
/// Received packets over the direct cable's, at least.
const SHARE: f64 = 0.95;
/// The rates among which the loss-free one is searched, in thousands a second.
const LADDER: [u32; 15] = [
    10, 20, 40, 60, 80, 100, 120, 140, 160, 200, 240, 280, 320, 400, 500,
];
/// A sender that reaches less of its rate than this could not keep it.
const KEPT: f64 = 0.97;

/// One group per size and question.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let mut groups: Vec<Group> = SIZES.iter().map(|&size| flood(lab, size)).collect();
    let sizes = if lab.quick { &SIZES[..1] } else { &SIZES[..] };
    groups.extend(sizes.iter().map(|&size| loss_free(lab, size)));
    groups
}

fn chain(hops: u32) -> Place {
    Place::Emulated(Path { hops, ..Path::LINK })
}

fn flood(lab: &Lab, size: u32) -> Group {
    let pair = Pair::udp(size, "max", lab.seconds(2), &["--batch", "64"]);
    let received = || Figure::new("received", "kpps", at("/recv/pps").times(1e-3));
    let rest = || {
        [
            Figure::new("sent", "kpps", at("/send/pps").times(1e-3)),
            Figure::new("dropped by the socket", "", at("/recv/kernel_drops")),
            Figure::new("reordered", "", at("/recv/reordered")),
        ]
    };
    let [plain, _, free] = Cable::kinds(1500);
    let direct = |cable: Cable| {
        let figures = std::iter::once(received()).chain(rest()).collect();
        Setup::pair(cable.words(), Place::Direct(cable), &pair, figures)
    };
    let emulated = |hops: u32| {
        let place = chain(hops);
        let mut one_cpu = received()
            .against(0, Against::Ratio)
            .target(Target::RatioAtLeast(SHARE));
        let mut all_cpus = received().against(1, Against::Ratio);
        if hops == 1 {
            let what = format!("UDP at full speed, {size} B");
            one_cpu = one_cpu.headline(what.clone(), "cable, one CPU");
            all_cpus = all_cpus.headline(what, "cable, all CPUs");
        }
        let mut figures = vec![one_cpu, all_cpus];
        figures.extend(rest());
        figures.push(Figure::new("core busy", "", at("/busy")));
        Setup::pair(place.words(), place, &pair, figures).overload()
    };
    Group::new(
        format!("UDP at full speed, {size} B, batches of 64"),
        [direct(plain), direct(free), emulated(1), emulated(12)],
    )
}

fn loss_free(lab: &Lab, size: u32) -> Group {
    let places = [Place::Direct(Cable::PLAIN), chain(1), chain(12)];
    let compared = |place: Place| {
        let mut setup = loss_free_at(lab, place, size);
        if !setup.reference {
            let rate = setup.figures.remove(0).against(0, Against::Ratio);
            setup.figures.insert(0, rate);
        }
        setup
    };
    let rates = ladder(lab);
    Group::new(
        format!("the highest of the rates {rates:?} kpps without loss, UDP, {size} B"),
        places.map(compared),
    )
}

/// The rates among which it is searched.
fn ladder(lab: &Lab) -> &'static [u32] {
    if lab.quick { &LADDER[3..10] } else { &LADDER }
}

/// The search at one place.
pub(super) fn loss_free_at(lab: &Lab, place: Place, size: u32) -> Setup {
    let (seconds, ladder) = (lab.seconds(1), ladder(lab));
    let rate = Figure::new("loss-free", "kpps", at("/kpps"));
    let limit = Figure::new("limited by the sender", "", at("/sender_limited"));
    let pair = Pair::udp(size, "RATE", seconds, &[]);
    let (name, reference) = (
        format!("loss-free: {}", place.words()),
        place.is_reference(),
    );
    let command = place.command(&pair);
    let setup = Setup::new(name, command, vec![rate, limit], move |lab| {
        search(lab, &place, size, seconds, ladder)
    });
    Setup { reference, ..setup }
}

/// The highest rung of `ladder` that a place carries without loss, by bisection.
fn search(
    lab: &Lab,
    place: &Place,
    size: u32,
    seconds: u32,
    ladder: &[u32],
) -> io::Result<Outcome> {
    let mut steps = Vec::new();
    let mut best = None;
    let mut sender_limited = false;
    let mut carries = |kpps: u32| -> io::Result<bool> {
        let pair = Pair::udp(size, &format!("{kpps}000"), seconds, &[]);
        let outcome = place.run(lab, &pair)?;
        let number = |pointer| outcome.data.pointer(pointer).and_then(|v| v.as_f64());
        let (sent, received) = (number("/send/sent"), number("/recv/received"));
        let pps = number("/send/pps").unwrap_or(0.0);
        let kept = pps >= f64::from(kpps) * 1000.0 * KEPT;
        let lossless = sent.is_some() && sent == received;
        steps.push(json!({ "kpps": kpps, "sent": sent, "received": received, "pps": pps }));
        if lossless && kept {
            best = Some(outcome);
        } else {
            sender_limited = lossless;
        }
        Ok(lossless && kept)
    };
    let passed = bisect(ladder.len(), |rung| carries(ladder[rung]))?;
    let kpps = passed.checked_sub(1).map_or(0, |rung| ladder[rung]);
    let (data, health) = best.map_or((Value::Null, None), |best| (best.data, best.health));
    Ok(Outcome {
        data: json!({
            "kpps": kpps, "sender_limited": sender_limited, "steps": steps,
            "recv": data["recv"], "send": data["send"], "summary": data["summary"],
        }),
        health,
    })
}

/// How many of `count` rungs hold, where none above one that does not hold is tried.
fn bisect(count: usize, mut holds: impl FnMut(usize) -> io::Result<bool>) -> io::Result<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        if holds(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_last_rung_that_holds() {
        for count in 0..9 {
            for good in 0..=count {
                assert_eq!(bisect(count, |rung| Ok(rung < good)).unwrap(), good);
            }
        }
    }
}
