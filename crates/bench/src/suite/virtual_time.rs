//! How fast modelled traffic runs where no clock holds it back, against ns-3.
//!
//! The same network, flows and TCP settings for both: 16 TCP CUBIC flows, starting one after the
//! other, through a chain of 12 links of a gigabit, and through a dumbbell (3 links); and a fat tree
//! ([`fat_tree`]). The unit is the packet-hop: a packet that has come out of a link, data and
//! acknowledgements alike. Both measure the time of their event loop alone. ns-3 simulates a shorter
//! time, since it is slower; speed does not depend on it. The chain is the one to compare: in the
//! dumbbell ns-3 spends most of its time on its own send buffers, not on events.
//!
//! Left out: whether the two agree on what TCP does; `goodput` shows that they carry the same.

use std::io;
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
}

const FLOWS: u32 = 16;
/// The network on the first screen.
const HEADLINE_HOPS: u32 = 12;

const NETWORKS: [Network; 2] = [
    Network {
        title: "16 TCP CUBIC flows, a chain of 12 gigabit links",
        hops: 12,
        seconds: [2, 20],
    },
    Network {
        title: "16 TCP CUBIC flows, a dumbbell of 3 gigabit links",
        hops: 3,
        seconds: [4, 60],
    },
];

/// A group for each network, and one for the fat tree.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let group = |network: &Network| {
        let seconds = network.seconds.map(|full| lab.seconds(full));
        let reference = reference(network.hops, seconds[0]);
        Group::new(network.title, [reference, chain(network, seconds[1])])
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

/// What `longhaul run` does with an experiment.
pub(super) fn own(name: String, figures: Vec<Figure>, experiment: String, threads: u32) -> Setup {
    let command =
        format!("longhaul run experiment.yaml --threads {threads}, a file that `--keep DIR` keeps");
    Setup::new(name, command, figures, move |lab| {
        run(lab, &experiment, threads)
    })
}

fn chain(network: &Network, seconds: u32) -> Setup {
    let mut speed = speed().against(0, Against::Ratio);
    if network.hops == HEADLINE_HOPS {
        speed = speed
            .target(Target::RatioAtLeast(50.0))
            .headline("virtual time, a chain of 12 links", "ns-3");
    }
    let figures = vec![speed, goodput().against(0, Against::Ratio)];
    let experiment = experiment(network.hops, seconds);
    own("longhaul run".to_owned(), figures, experiment, 1)
}

/// The network, flows and starts of `ns3_chain.cc`.
fn experiment(hops: u32, seconds: u32) -> String {
    let last = hops - 1;
    let routers: String = (1..=last)
        .map(|n| format!("    r{n}: {{ kind: router }}\n"))
        .collect();
    let link = |ends: String, delay: &str| {
        format!("    - {{ ends: [{ends}], rate: 1 Gbit/s, delay: {delay}, queue: 2500000 B }}\n")
    };
    let access = link("a, r1".to_owned(), "500 us") + &link(format!("b, r{last}"), "500 us");
    let shared: String = (1..last)
        .map(|n| link(format!("r{n}, r{}", n + 1), "900 us"))
        .collect();
    let flow = |n| {
        format!(
            "  f{n}: {{ from: a{n}, to: b{n}, congestion: cubic, start: {} ms, tcp: {{ rmem: 16 MiB, \
             wmem: 16 MiB }} }}\n",
            37 * n
        )
    };
    let flows: String = (0..FLOWS).map(flow).collect();
    format!(
        "clock: virtual\nduration: {seconds} s\ntopology:\n  nodes:\n    a: {{ count: {FLOWS} }}\n    \
         b: {{ count: {FLOWS} }}\n{routers}  links:\n{access}{shared}traffic:\n{flows}"
    )
}

fn run(lab: &Lab, experiment: &str, threads: u32) -> io::Result<Outcome> {
    let folder = lab.folder()?;
    let file = folder.join("experiment.yaml");
    std::fs::write(&file, experiment)?;
    let output = Command::new(&lab.longhaul)
        .arg("run")
        .arg(&file)
        .arg("--out")
        .arg(folder.join("run"))
        .args(["--json", "--threads", &threads.to_string()])
        .stdin(Stdio::null())
        .output()?;
    let failed = |what: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("{what} ({}): {}", output.status, said.trim()))
    };
    let summary: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(&format!("longhaul printed no summary, {error}")))?;
    if !output.status.success() {
        return Err(failed("the run failed"));
    }
    lab.done_with(&folder);
    figures_of(summary).ok_or_else(|| failed("the summary lacks hops, their speed or flows"))
}

fn figures_of(summary: Value) -> Option<Outcome> {
    let hops = summary.pointer("/packets/hops")?.as_f64()?;
    let hops_per_s = summary["hops_per_s"]
        .as_f64()
        .filter(|&speed| speed > 0.0)?;
    let flows = summary["flows"].as_array()?;
    let goodput_bps: f64 = flows
        .iter()
        .filter_map(|flow| flow["goodput_bps"].as_f64())
        .sum();
    Some(Outcome {
        data: json!({
            "hops": hops, "hops_per_s": hops_per_s, "wall_s": hops / hops_per_s,
            "goodput_bps": goodput_bps, "summary": summary,
        }),
        health: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_from_the_summary() {
        let summary = json!({
            "packets": { "hops": 3_000_000 }, "hops_per_s": 6e6,
            "flows": [{ "goodput_bps": 1e9 }, { "goodput_bps": 2e9 }],
        });
        let data = figures_of(summary).unwrap().data;
        assert_eq!(data["wall_s"].as_f64(), Some(0.5));
        assert_eq!(data["goodput_bps"].as_f64(), Some(3e9));
        let empty = json!({ "packets": { "hops": 0 }, "hops_per_s": 0.0, "flows": [] });
        assert!(figures_of(empty).is_none());
    }

    #[test]
    fn a_chain_has_as_many_links_on_a_path_as_it_says() {
        let text = experiment(12, 20);
        for line in [
            "    - { ends: [a, r1], rate: 1 Gbit/s, delay: 500 us, queue: 2500000 B }",
            "    - { ends: [r10, r11], rate: 1 Gbit/s, delay: 900 us, queue: 2500000 B }",
            "    - { ends: [b, r11], rate: 1 Gbit/s, delay: 500 us, queue: 2500000 B }",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert_eq!(text.matches("ends:").count(), 12);
        assert!(text.contains("f15: { from: a15, to: b15, congestion: cubic, start: 555 ms"));
    }
}
