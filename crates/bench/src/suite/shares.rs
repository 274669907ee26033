//! Whether hosts have the shares of a CPU that they ask for, and what one, ten and eighty of them get.
//!
//! Each host runs one program that wants all the time, and says which part of it it had. As root control groups keep
//! hosts to their shares, else a duty cycle; the summary says which. Packets cross the network meanwhile only
//! from a probe, so that the verdict has something to judge.

use serde_json::{Value, json};

use super::emulated;
use super::figures::{Figure, Outcome, Target, at};
use super::lab::Lab;
use super::{Group, Setup};

/// Percent of a CPU that a single host asks for.
const ALONE: [f64; 5] = [5.0, 10.0, 25.0, 50.0, 75.0];
/// Hosts that ask for 80 % of a CPU together.
const TOGETHER: [u32; 3] = [1, 10, 80];
const TOGETHER_PERCENT: f64 = 80.0;
/// How long each program wants all, in seconds.
const SECONDS: u32 = 10;
/// How far a share may be from what was asked.
const NEAR: f64 = 0.03;

/// Single hosts, and many.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let seconds = lab.seconds(SECONDS);
    let alone = ALONE.map(|percent| setup(1, percent, seconds));
    let together = TOGETHER.map(|hosts| setup(hosts, TOGETHER_PERCENT / f64::from(hosts), seconds));
    let group = |title: &str, setups: Vec<Setup>| Group {
        title: title.to_owned(),
        setups,
    };
    vec![
        group("one host with a share of a CPU", alone.into()),
        group("hosts that share 80 % of a CPU", together.into()),
    ]
}

fn setup(hosts: u32, percent: f64, seconds: u32) -> Setup {
    Setup {
        name: match hosts {
            1 => format!("{percent} %"),
            _ => format!("{hosts} hosts of {percent} %"),
        },
        command: format!(
            "longhaul run with `cpu: {percent} %` on {hosts} host(s), each with a program that wants all for {seconds} s"
        ),
        reference: false,
        run: Box::new(move |lab| {
            let folder = lab.folder()?;
            let run = emulated::run(lab, &folder, &experiment(hosts, percent, seconds))?;
            let mut had = Vec::new();
            for number in 0..hosts {
                let path = folder.join(format!("run/logs/spin@h{number}.out"));
                let path = if path.exists() {
                    path
                } else {
                    folder.join("run/logs/spin.out")
                };
                let text = std::fs::read_to_string(&path)?;
                let share: f64 = text.trim().parse().map_err(std::io::Error::other)?;
                had.push(share * 100.0 / percent);
            }
            lab.done_with(&folder);
            had.sort_by(f64::total_cmp);
            let mean = had.iter().sum::<f64>() / had.len() as f64;
            Ok(Outcome {
                data: json!({
                    "mean": mean, "least": had.first(), "most": had.last(),
                    "by": by(&run.summary), "summary": run.summary,
                }),
                health: Some(run.health),
            })
        }),
        figures: vec![
            Figure::new("had / asked, mean", "", at("/mean")).target(Target::NearOne(NEAR)),
            Figure::new("least", "", at("/least")),
            Figure::new("most", "", at("/most")),
        ],
    }
}

/// By what hosts were kept to their shares.
fn by(summary: &Value) -> Value {
    summary
        .pointer("/resources/cpu")
        .cloned()
        .unwrap_or_default()
}

fn experiment(hosts: u32, percent: f64, seconds: u32) -> String {
    // What starting the interpreter has used does not count.
    let spin = format!(
        "import time\nbegan, used = time.monotonic(), time.process_time()\n\
         while time.monotonic() - began < {seconds}:\n    sum(range(1000))\n\
         print((time.process_time() - used) / (time.monotonic() - began))\n"
    );
    let run = serde_json::to_string(&["python3", "-c", &spin]).expect("texts");
    format!(
        "name: shares\nduration: {} s\ntopology:\n  nodes:\n    h: {{ count: {hosts}, cpu: {percent} % }}\n    \
         probe: {{}}\n    hub: {{ kind: router }}\n  links:\n    - {{ ends: [h, hub], delay: 1 ms }}\n    \
         - {{ ends: [probe, hub], delay: 1 ms }}\nprograms:\n  spin: {{ on: h, run: {run} }}\n  \
         ping: {{ on: probe, run: ping -q -i 0.05 -w {seconds} h0 }}\n",
        3 * seconds + 10
    )
}
