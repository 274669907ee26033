//! How fast modelled traffic runs where no clock holds it back, against ns-3.
//!
//! The same network, flows and TCP settings for both: 16 TCP CUBIC flows through 12 links of a
//! gigabit, and through a dumbbell (3 links). The unit is the packet-hop: a packet that has come
//! out of a link, data and acknowledgements alike. Both measure the time of their event loop
//! alone. ns-3 simulates a shorter time, since it is slower; speed does not depend on it.
//!
//! Left out: whether the two agree on what TCP does; `goodput` shows that they carry the same.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use serde_json::{Value, json};

use super::figures::{Against, Figure, Outcome, Target, at};
use super::lab::Lab;
use super::ns3::Ns3;
use super::{Group, Setup};

/// One network.
struct Network {
    title: &'static str,
    hops: u32,
    /// Simulated by ns-3 and by us, in seconds.
    seconds: [f64; 2],
    /// Our speed, in packet-hops per second.
    target: Option<f64>,
}

const FLOWS: u32 = 16;
/// Of each link.
const DELAY_US: u32 = 1000;

const NETWORKS: [Network; 2] = [
    Network {
        title: "16 TCP CUBIC flows, a chain of 12 gigabit links",
        hops: 12,
        seconds: [1.2, 20.0],
        target: Some(15.0),
    },
    Network {
        title: "16 TCP CUBIC flows, a dumbbell of 3 gigabit links",
        hops: 3,
        seconds: [2.5, 60.0],
        target: None,
    },
];

/// A group for each network.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let ns3 = Rc::new(Ns3::find());
    let group = |network: &Network| {
        let seconds = network
            .seconds
            .map(|s| if lab.quick { s / 20.0 } else { s });
        Group {
            title: network.title.to_owned(),
            setups: vec![
                reference(&ns3, arguments(network.hops, seconds[0])),
                own(network, arguments(network.hops, seconds[1])),
            ],
        }
    };
    NETWORKS.iter().map(group).collect()
}

/// What both programs take.
fn arguments(hops: u32, seconds: f64) -> Vec<String> {
    vec![
        format!("--flows={FLOWS}"),
        format!("--hops={hops}"),
        format!("--seconds={seconds}"),
        format!("--delay-us={DELAY_US}"),
    ]
}

fn speed() -> Figure {
    Figure::new("speed", "M packet-hops/s", at("/hops_per_s").times(1e-6))
}

fn goodput() -> Figure {
    Figure::new(
        "goodput of all flows",
        "Mbit/s",
        at("/goodput_bps").times(1e-6),
    )
}

fn reference(ns3: &Rc<Ns3>, arguments: Vec<String>) -> Setup {
    let missing = ns3.missing();
    let ns3 = Rc::clone(ns3);
    Setup {
        name: missing.map_or("ns-3".to_owned(), |what| format!("ns-3: {what}")),
        command: format!("ns3_chain {}", arguments.join(" ")),
        reference: false,
        run: Box::new(move |lab| match ns3.missing() {
            Some(what) => Ok(Outcome {
                data: json!({ "missing": what }),
                health: None,
            }),
            None => ns3.run(lab, &arguments),
        }),
        figures: vec![speed(), goodput()],
    }
}

fn own(network: &Network, arguments: Vec<String>) -> Setup {
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
    let data: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("no figure, {error}: {}", said.trim()))
    })?;
    Ok(Outcome { data, health: None })
}
