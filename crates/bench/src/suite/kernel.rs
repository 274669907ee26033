//! Whether the TCP model does what the kernel's TCP does: one bulk flow over the same link.
//!
//! The kernel's flow is `longhaul traffic bulk` on an emulated host, behind a fast link to a
//! router, so that the queue that fills is the emulated one; the model's is `tcp-model`. The
//! kernel's figure is only as good as the run's verdict, which is quoted below the table.
//! `experiments/tcp-models` draws the windows of both.
//!
//! Left out: flows that share a link.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::emulated;
use super::figures::{Against, Figure, Outcome, Target, at};
use super::lab::Lab;
use super::{Group, Setup};

const ALGORITHMS: [&str; 3] = ["reno", "cubic", "bbr"];
/// Packets that may wait: one bandwidth-delay product of 100 Mbit/s and 20 ms, and a quarter.
const QUEUES: [u32; 2] = [165, 41];
const SECONDS: u32 = 15;
/// The tolerated difference between the model and the kernel, whichever is slower.
const TOLERANCE: f64 = 0.05;
/// The same for what BBR sends again over the queue of `PROBED` packets, which each of its probes overflows: some 80
/// times in a run. Elsewhere few overflows make the whole figure, so that a ratio says little.
const AGAIN: f64 = 0.15;
const PROBED: u32 = 41;

/// A group for each queue.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let seconds = lab.seconds(SECONDS);
    let group = |queue: u32| {
        let pairs = ALGORITHMS.into_iter().enumerate();
        let setups = pairs.flat_map(|(number, name)| {
            let reference = 2 * number;
            [
                kernel(name, queue, seconds),
                model(name, queue, seconds, reference),
            ]
        });
        Group::new(
            format!(
                "one TCP flow, 100 Mbit/s, round trip 20 ms, a queue of {queue} packets, \
                 {seconds} s: the kernel and the model"
            ),
            setups.collect::<Vec<_>>(),
        )
    };
    QUEUES.map(group).into()
}

fn figures() -> [Figure; 2] {
    [
        Figure::new("goodput", "Mbit/s", at("/goodput_bps").times(1e-6)),
        Figure::new("sent again", "", at("/retransmissions")),
    ]
}

fn kernel(name: &'static str, queue: u32, seconds: u32) -> Setup {
    let command = format!("longhaul traffic bulk b --for '{seconds} s' --congestion {name}");
    let figures = figures().into();
    Setup::new(format!("{name}, kernel"), command, figures, move |lab| {
        live(lab, &experiment(name, queue, seconds))
    })
}

fn model(name: &'static str, queue: u32, seconds: u32, reference: usize) -> Setup {
    let arguments = [
        "tcp-model".to_owned(),
        format!("--congestion={name}"),
        format!("--queue={queue} packets"),
        format!("--for={seconds} s"),
    ];
    let [goodput, again] = figures();
    let mut goodput = goodput
        .against(reference, Against::Ratio)
        .target(Target::RatioNearOne(TOLERANCE));
    if queue == QUEUES[0] {
        goodput = goodput.headline(format!("the TCP model, {name}"), "the kernel's TCP");
    }
    let mut again = again.against(reference, Against::Ratio);
    if name == "bbr" && queue == PROBED {
        again = again.target(Target::RatioNearOne(AGAIN));
    }
    let command = format!("longhaul-bench {}", arguments.join(" "));
    let figures = vec![goodput, again];
    Setup::new(format!("{name}, model"), command, figures, move |lab| {
        let output = Command::new(&lab.bench)
            .args(&arguments)
            .stdin(Stdio::null())
            .output()?;
        let data = serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("no figure, {error}: {}", said.trim()))
        })?;
        Ok(Outcome { data, health: None })
    })
}

/// Runs the experiment; its flow as the sender saw it, but with the sink's bytes and time.
fn live(lab: &Lab, experiment: &str) -> io::Result<Outcome> {
    let folder = lab.folder()?;
    let run = emulated::run(lab, &folder, experiment)?;
    let log = |name: &str| -> io::Result<Value> {
        let text = fs::read(folder.join(format!("run/logs/{name}.out")))?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    };
    let (sender, sink) = (log("bulk")?, log("sink")?);
    let flow = &sender["flows"][0];
    let flows = sink["flows"].as_array().into_iter().flatten();
    let arrived = flows
        .filter(|other| other["from"] == flow["from"])
        .find_map(|other| Some((other["bytes"].as_f64()?, other["goodput_bps"].as_f64()?)));
    let Some((bytes, goodput_bps)) = arrived else {
        return Err(io::Error::other("the sink has not seen the flow"));
    };
    lab.done_with(&folder);
    Ok(Outcome {
        data: json!({
            "bytes": bytes, "goodput_bps": goodput_bps,
            "retransmissions": flow["retransmissions"], "flow": flow, "summary": run.summary,
        }),
        health: Some(run.health),
    })
}

/// Packets go out one by one, as the model's do: super-packets are bursts to a queue of 41 packets.
fn experiment(name: &str, queue: u32, seconds: u32) -> String {
    format!(
        "name: kernel\nduration: {} s\noffload: false\ntcp: {{ congestion: {name} }}\ntopology:\n  \
         nodes: {{ a: {{}}, r: {{ kind: router }}, b: {{}} }}\n  links:\n    \
         - {{ ends: [a, r], rate: 1 Gbit/s }}\n    \
         - {{ ends: [r, b], rate: 100 Mbit/s, delay: 10 ms, queue: {queue} packets }}\n\
         programs:\n  \
         sink: {{ on: b, run: /proc/self/exe traffic sink, ready: tcp 5400, service: true }}\n  \
         bulk: {{ on: a, run: /proc/self/exe traffic bulk b --for '{seconds} s', after: sink }}\n",
        seconds + 10
    )
}
