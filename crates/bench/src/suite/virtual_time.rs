//! How fast modelled traffic runs where no clock holds it back, against ns-3.
//!
//! The same network, flows and TCP settings for both: 16 TCP CUBIC flows, starting one after the
//! other, through 12 links of a gigabit, and through a dumbbell (3 links); and a fat tree
//! ([`fat_tree`]). The unit is the packet-hop: a packet that has come out of a link, data and
//! acknowledgements alike. Both measure the time of their event loop alone. ns-3 simulates a shorter time, since it is slower; speed does not depend on it.
//!
//! Left out: whether the two agree on what TCP does; `goodput` shows that they carry the same.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::figures::{Against, Figure, Outcome, Target, at};
use super::lab::Lab;
use super::ns3::Ns3;
use super::{Group, Setup, fat_tree};

/// One network.
struct Network {
    title: &'static str,
    hops: u32,
    /// Simulated by ns-3 and by us, in seconds.
    seconds: [u32; 2],
    /// Our speed, in packet-hops per second.
    target: Option<f64>,
}

const FLOWS: u32 = 16;

const NETWORKS: [Network; 2] = [
    Network {
        title: "16 TCP CUBIC flows, a chain of 12 gigabit links",
        hops: 12,
        seconds: [2, 20],
        target: Some(15.0),
    },
    Network {
        title: "16 TCP CUBIC flows, a dumbbell of 3 gigabit links",
        hops: 3,
        seconds: [4, 60],
        target: None,
    },
];

/// A group for each network, and one for the fat tree.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let group = |network: &Network| {
        let seconds = network.seconds.map(|full| lab.seconds(full));
        Group {
            title: network.title.to_owned(),
            setups: vec![
                reference(network.hops, seconds[0]),
                own(network, seconds[1]),
            ],
        }
    };
    let chains = NETWORKS.iter().map(group);
    chains.chain([fat_tree::group(lab)]).collect()
}

/// Packet-hops over the time of the event loop.
pub(super) fn speed() -> Figure {
    Figure::new("speed", "M packet-hops/s", at("/hops_per_s").times(1e-6))
}

/// Payload that arrived over simulated time.
pub(super) fn goodput() -> Figure {
    Figure::new(
        "goodput of all flows",
        "Mbit/s",
        at("/goodput_bps").times(1e-6),
    )
}

fn reference(hops: u32, seconds: u32) -> Setup {
    let arguments = [("flows", FLOWS), ("hops", hops), ("seconds", seconds)]
        .map(|(name, value)| format!("--{name}={value}"));
    Ns3::find("ns3_chain").setup(arguments.into(), vec![speed(), goodput()])
}

fn own(network: &Network, seconds: u32) -> Setup {
    let arguments = [FLOWS, network.hops, seconds].map(|number| number.to_string());
    let mut figures = vec![
        speed()
            .against(0, Against::Ratio)
            .target(Target::RatioAtLeast(50.0)),
        goodput(),
    ];
    figures.extend(
        network
            .target
            .map(|target| speed().target(Target::AtLeast(target))),
    );
    Setup {
        name: "modelled traffic".to_owned(),
        command: format!(
            "cargo run --release -p longhaul-proto --example chain -- {}",
            arguments.join(" ")
        ),
        reference: false,
        run: Box::new(move |_| chain(&arguments)),
        figures,
    }
}

/// The example `chain`, in the source tree that this program was built from.
fn chain(arguments: &[String]) -> io::Result<Outcome> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("cargo")
        .args(["run", "--release", "--quiet", "-p", "longhaul-proto"])
        .args(["--example", "chain", "--"])
        .args(arguments)
        .current_dir(tree)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let data = figures_of(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("no figure: {}", said.trim()))
    })?;
    Ok(Outcome { data, health: None })
}

/// The sum of the lines `round N: … packet-hops/s, N hops in N s`, and `N Mbit/s of payload`.
fn figures_of(text: &str) -> Option<Value> {
    let number = |word: &str| word.parse::<f64>().ok();
    let round = |line: &str| {
        let (_, counted) = line.strip_prefix("round ")?.split_once(", ")?;
        let (hops, seconds) = counted.split_once(" hops in ")?;
        Some((number(hops)?, number(seconds.strip_suffix(" s")?)?))
    };
    let (hops, wall_s) = text
        .lines()
        .filter_map(round)
        .fold((0.0, 0.0), |(hops, seconds), one| {
            (hops + one.0, seconds + one.1)
        });
    let payload = |line: &str| number(line.split_once(" Mbit/s of payload")?.0);
    let goodput_mbps = text.lines().find_map(payload)?;
    (wall_s > 0.0).then(|| {
        json!({
            "hops": hops, "wall_s": wall_s, "hops_per_s": hops / wall_s,
            "goodput_bps": goodput_mbps * 1e6, "output": text,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_added_up() {
        let text = "round 1: 10.0 M packet-hops/s, 20000000 hops in 2.00 s\n\
                    round 2: 30.0 M packet-hops/s, 30000000 hops in 1.00 s\n\
                    953 Mbit/s of payload, 7 segments sent again\n";
        let figures = figures_of(text).unwrap();
        assert_eq!(figures["hops_per_s"].as_f64(), Some(5e7 / 3.0));
        assert_eq!(figures["goodput_bps"].as_f64(), Some(953e6));
        assert!(figures_of("nothing").is_none());
    }
}
