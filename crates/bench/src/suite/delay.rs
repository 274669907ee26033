//! How exact delays are: one packet at a time, at three delays and four rates.
//!
//! error = (receiving kernel's stamp − sender's stamp) − set delay − constant part. The constant
//! part is what any cable takes, from the sender's stamp through its send call to the
//! receiving kernel's stamp: the median over the direct cable at the same rate in the same
//! round. The targets judge the delay as a ratio to what it should be: the set delay and the cable's.
//! Senders spin before each packet; stamps are the kernel's, so a receiver that shares
//! the sender's CPU and reads late changes nothing.

use super::direct::Cable;
use super::emulated::Path;
use super::figures::{Against, Figure, Target, at};
use super::lab::Lab;
use super::pair::Pair;
use super::place::Place;
use super::{Group, Setup};

const RATES: [u32; 4] = [1_000, 4_900, 5_000, 50_000];
const DELAYS_US: [u32; 3] = [100, 1_000, 10_000];
/// The tolerated error of p50 and p99 in microseconds, of which the targets are made.
const ERRORS_US: [f64; 2] = [5.0, 100.0];
/// What the first screen shows.
const HEADLINES: [(u32, u32); 2] = [(1_000, 1_000), (1_000, 50_000)];

/// One group per rate.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    RATES.iter().map(|&rate| group(lab, rate)).collect()
}

fn group(lab: &Lab, rate: u32) -> Group {
    let more = ["--precise", "--batch", "1"];
    let pair = Pair::udp(64, &rate.to_string(), lab.seconds(4), &more);
    let quantiles = [
        ("delay p50", "/recv/delay_ns/p50"),
        ("delay p99", "/recv/delay_ns/p99"),
        ("delay p99.9", "/recv/delay_ns/p999"),
    ];
    let direct = quantiles.map(|(name, pointer)| Figure::new(name, "µs", at(pointer).times(1e-3)));
    let mut setups = vec![Setup::pair(
        format!("direct, {rate} pps"),
        Place::Direct(Cable::PLAIN),
        &pair,
        direct.into(),
    )];
    for delay_us in DELAYS_US {
        let path = Path {
            delay_ns: u64::from(delay_us) * 1_000,
            ..Path::LINK
        };
        let name = format!("{delay_us} µs, {rate} pps");
        setups.push(Setup::pair(
            name,
            Place::Emulated(path),
            &pair,
            figures(delay_us, rate),
        ));
    }
    Group::new(
        format!("one-way delay, 64 B, {rate} packets/s, and its error over the direct cable's p50"),
        setups,
    )
}

fn figures(delay_us: u32, rate: u32) -> Vec<Figure> {
    let (set_us, pointers) = (
        f64::from(delay_us),
        ["/recv/delay_ns/p50", "/recv/delay_ns/p99"],
    );
    let delay = |number: usize| {
        let name = ["delay p50", "delay p99"][number];
        let ratio = Target::RatioNearOne(ERRORS_US[number] / set_us);
        let figure = Figure::new(name, "µs", at(pointers[number]).times(1e-3));
        let figure = figure.against(0, Against::RatioAbove(set_us)).target(ratio);
        if HEADLINES.contains(&(delay_us, rate)) {
            let quantile = ["p50", "p99"][number];
            let what = format!("delay of {delay_us} µs, {rate} packets/s, {quantile}");
            return figure.headline(what, "set delay + a cable's own");
        }
        figure
    };
    let constant = at(pointers[0]).times(1e-3);
    let error = |name, pointer| {
        let above = at(pointer).times(1e-3).plus(-set_us);
        Figure::new(name, "µs", above).against(0, Against::Minus(constant))
    };
    vec![
        delay(0),
        delay(1),
        error("error p50", pointers[0]),
        error("error p99", pointers[1]),
        error("error p99.9", "/recv/delay_ns/p999"),
        Figure::new("CPUs used", "", at("/cpu")),
        Figure::new("lost", "", at("/recv/lost")),
    ]
}
