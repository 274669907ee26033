//! How exact delays are: one packet at a time, at three delays and four rates.
//!
//! error = (receiving kernel's stamp − sender's stamp) − set delay − constant part. The constant
//! part is what any cable takes, from the sender's stamp through its send call to the
//! receiving kernel's stamp: the median over the direct cable at the same rate in the same
//! round. Senders spin before each packet; stamps are the kernel's, so a receiver that shares
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
/// Below this rate the core sleeps between packets, and should take no more than half a CPU.
const IDLE_RATE: u32 = 5_000;

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
    Group {
        title: format!("one-way delay error, 64 B, {rate} packets/s, over the direct cable's p50"),
        setups,
    }
}

fn figures(delay_us: u32, rate: u32) -> Vec<Figure> {
    let constant = at("/recv/delay_ns/p50").times(1e-3);
    let error = |name, pointer| {
        let above = at(pointer).times(1e-3).plus(-f64::from(delay_us));
        Figure::new(name, "µs", above).against(0, Against::Minus(constant))
    };
    let cpu = Figure::new("CPUs used", "", at("/cpu"));
    vec![
        error("error p50", "/recv/delay_ns/p50").target(Target::AtMost(5.0)),
        error("error p99", "/recv/delay_ns/p99").target(Target::AtMost(100.0)),
        error("error p99.9", "/recv/delay_ns/p999"),
        if rate < IDLE_RATE {
            cpu.target(Target::AtMost(0.5))
        } else {
            cpu
        },
        Figure::new("lost", "", at("/recv/lost")),
    ]
}
