//! Whether hosts have the shares of a CPU that they ask for, and what one, ten and eighty of them get.
//!
//! Each host runs one program that wants all the time, and says which part of it it had. As root control groups keep
//! hosts to their shares, else a duty cycle; the summary says which. Packets cross the network meanwhile only
//! from a probe, so that the verdict has something to judge.
//!
//! Then what shares do to round trips: one program asks, another on a host with a share answers, alone or
//! beside a program that wants all.

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
/// Shares of the host that asks, and of the one that answers.
const TALKERS: [&str; 2] = ["40 %", "50 %"];
/// Questions a second.
const QUESTIONS: u32 = 2000;
const A_SECOND: u32 = 200;
/// How far a share may be from what was asked.
const NEAR: f64 = 0.03;
/// What the first screen shows: hosts, and percent of a CPU.
const HEADLINES: [(u32, f64); 2] = [(1, 10.0), (10, 8.0)];

/// Single hosts, and many.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let seconds = lab.seconds(SECONDS);
    let alone = ALONE.map(|percent| setup(1, percent, seconds));
    let together = TOGETHER.map(|hosts| setup(hosts, TOGETHER_PERCENT / f64::from(hosts), seconds));
    let questions = if lab.quick { A_SECOND } else { QUESTIONS };
    let talks = [(false, false), (false, true), (true, false), (true, true)];
    let talks = talks.map(|(busy, shares)| talk(busy, shares, questions));
    vec![
        Group::new("one host with a share of a CPU", alone),
        Group::new("hosts that share 80 % of a CPU", together),
        Group::new("round trips between hosts with shares", talks),
    ]
}

/// Round trips over a link of 1 ms, with shares or without.
fn talk(busy: bool, shares: bool, questions: u32) -> Setup {
    let beside = if busy {
        "beside a busy program"
    } else {
        "alone"
    };
    let with = if shares { "with shares" } else { "without" };
    let [asks, answers] = TALKERS.map(|share| {
        if shares {
            format!("{{ cpu: {share} }}")
        } else {
            "{}".to_owned()
        }
    });
    let python =
        |program: String| serde_json::to_string(&["python3", "-c", &program]).expect("texts");
    let answer = python(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 7))\n\
         while True:\n    d, a = s.recvfrom(64)\n    s.sendto(d, a)\n"
            .to_owned(),
    );
    let ask = python(format!(
        "import json, socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(1)\n\
         s.connect(('b', 7))\nall, lost = [], 0\n\
         for n in range({questions}):\n    began = time.monotonic()\n    s.send(b'?')\n    try:\n        s.recv(64)\n        \
         all.append((time.monotonic() - began) * 1e3)\n    except OSError:\n        lost += 1\n    \
         time.sleep(1 / {A_SECOND})\n\
         all.sort()\nprint(json.dumps({{'p50': all[len(all) // 2], 'p99': all[len(all) * 99 // 100], 'lost': lost}}))\n"
    ));
    let spin = if busy {
        "  spin: { on: b, run: [python3, -c, 'while True: pass'], service: true }\n"
    } else {
        ""
    };
    let experiment = format!(
        "name: talk\nduration: {} s\ntopology:\n  nodes: {{ a: {asks}, b: {answers} }}\n  \
         links: [ {{ ends: [a, b], delay: 1 ms }} ]\nprograms:\n  \
         answer: {{ on: b, run: {answer}, ready: 1 s, service: true }}\n{spin}  ask: {{ on: a, run: {ask}, after: answer }}\n",
        questions / A_SECOND * 4 + 20
    );
    let ms = |name, pointer| Figure::new(name, "ms", at(pointer));
    let command = format!(
        "longhaul run with {questions} questions and answers over 1 ms, hosts {with} of {} and {}",
        TALKERS[0], TALKERS[1]
    );
    let figures = vec![
        ms("median", "/trips/p50"),
        ms("p99", "/trips/p99"),
        Figure::new("lost", "", at("/trips/lost")),
    ];
    Setup::new(format!("{beside}, {with}"), command, figures, move |lab| {
        let folder = lab.folder()?;
        let run = emulated::run(lab, &folder, &experiment)?;
        let text = std::fs::read_to_string(folder.join("run/logs/ask.out"))?;
        let trips: Value = serde_json::from_str(&text)?;
        lab.done_with(&folder);
        Ok(Outcome {
            data: json!({ "trips": trips, "by": by(&run.summary), "summary": run.summary }),
            health: Some(run.health),
        })
    })
}

fn setup(hosts: u32, percent: f64, seconds: u32) -> Setup {
    let name = match hosts {
        1 => format!("{percent} %"),
        _ => format!("{hosts} hosts of {percent} %"),
    };
    let command = format!(
        "longhaul run with `cpu: {percent} %` on {hosts} host(s), each with a program that wants all for {seconds} s"
    );
    let mut mean = Figure::new("had / asked, mean", "", at("/mean")).target(Target::NearOne(NEAR));
    if HEADLINES.contains(&(hosts, percent)) {
        mean = mean.headline(format!("CPU time, {name}"), "the share asked for");
    }
    let figures = vec![
        mean,
        Figure::new("least", "", at("/least")),
        Figure::new("most", "", at("/most")),
    ];
    Setup::new(name, command, figures, move |lab| {
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
    })
}

/// The means that kept hosts to their shares.
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
        3 * seconds + 30
    )
}
