//! Setups through the emulator: an experiment file, `longhaul run`, its summary and its logs.

use std::fs;
use std::io;
use std::path::Path as FilePath;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::figures::{Health, Outcome};
use super::lab::Lab;
use super::memory::Watch;
use super::pair::{self, Pair};

/// How much longer than its sender a run may take, in seconds.
const GRACE: u32 = 12;

/// A chain of links from host `a` to host `b`, alike in both directions.
#[derive(Clone)]
pub(crate) struct Path {
    /// Links, with a router between each two.
    pub(crate) hops: u32,
    /// One way over the whole chain, in nanoseconds.
    pub(crate) delay_ns: u64,
    /// The rate of each link, as the file says it; unlimited without.
    pub(crate) rate: Option<&'static str>,
    /// Which bytes count.
    pub(crate) framing: &'static str,
    /// The largest IP packet.
    pub(crate) mtu: u32,
    /// Further fields of each link, as the file has them, from a comma on.
    pub(crate) more: &'static str,
}

impl Path {
    /// One unlimited link without delay.
    pub(crate) const LINK: Self = Self {
        hops: 1,
        delay_ns: 0,
        rate: None,
        framing: "ethernet",
        mtu: 1500,
        more: "",
    };

    /// Runs a pair over it once.
    pub(crate) fn run(&self, lab: &Lab, pair: &Pair) -> io::Result<Outcome> {
        let folder = lab.folder()?;
        let text = self.experiment(&lab.bench.to_string_lossy(), pair);
        let run = run(lab, &folder, &text)?;
        let log = |name: &str| -> io::Result<Value> {
            let path = folder.join(format!("run/logs/{name}.out"));
            let text = fs::read(&path)?;
            serde_json::from_slice(&text)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
        };
        let (receiver, sender) = (log("recv")?, log("send")?);
        let mut health = run.health;
        let lost = dropped(&run.summary) + health.physical_drops;
        health
            .problems
            .extend(pair::open_sum(&sender, &receiver, lost));
        health.problems.extend(other_cpus(lab, &run.summary));
        // The core idles before and after: its load is that of the time with traffic.
        let seconds = number(&receiver, "/seconds").max(1e-9);
        let core_s = number(&run.summary, "/cores/0/busy") * number(&run.summary, "/simulated_s");
        let busy = core_s / seconds;
        let cpu = number(&run.summary, "/cpu_s") / seconds;
        lab.done_with(&folder);
        Ok(Outcome {
            data: json!({
                "recv": receiver, "send": sender, "summary": run.summary, "busy": busy, "cpu": cpu,
                "wall_s": run.wall_s, "memory": run.memory, "experiment": text,
            }),
            health: Some(health),
        })
    }

    /// The experiment file.
    fn experiment(&self, bench: &str, pair: &Pair) -> String {
        let argv = |words: &[String]| {
            let words = std::iter::once(bench).chain(words.iter().map(String::as_str));
            serde_json::to_string(&words.collect::<Vec<_>>()).expect("texts")
        };
        let node = |number: u32| match number {
            0 => "a".to_owned(),
            n if n == self.hops => "b".to_owned(),
            n => format!("r{n}"),
        };
        let routers = (1..self.hops).map(|n| format!("    {}: {{ kind: router }}\n", node(n)));
        let rate = self
            .rate
            .map_or(String::new(), |rate| format!(", rate: {rate}"));
        let links = (0..self.hops).map(|n| {
            let delay = self.delay_ns / u64::from(self.hops);
            let (from, to) = (node(n), node(n + 1));
            format!(
                "    - {{ ends: [{from}, {to}], delay: {delay} ns{rate}{} }}\n",
                self.more
            )
        });
        format!(
            "name: bench\nduration: {duration} s\nmtu: {mtu}\nframing: {framing}\n\
             topology:\n  nodes:\n    a: {{}}\n    b: {{}}\n{routers}  links:\n{links}\
             programs:\n  \
             recv: {{ on: b, run: {receiver}, ready: log ^ready }}\n  \
             send: {{ on: a, run: {sender}, after: recv }}\n",
            duration = pair.seconds + GRACE,
            mtu = self.mtu,
            framing = self.framing,
            routers = routers.collect::<String>(),
            links = links.collect::<String>(),
            receiver = argv(&pair.receiver),
            sender = argv(&pair.sender_to("b")),
        )
    }

    /// It in a few words.
    pub(crate) fn words(&self) -> String {
        let hops = match self.hops {
            1 => "1 hop".to_owned(),
            n => format!("{n} hops"),
        };
        let delay = match self.delay_ns {
            0 => String::new(),
            ns if ns % 1_000_000 == 0 => format!(", {} ms", ns / 1_000_000),
            ns => format!(", {} µs", ns / 1_000),
        };
        let rate = self
            .rate
            .map_or(String::new(), |rate| format!(", {rate} {}", self.framing));
        format!(
            "emulated, {hops}{delay}{rate}{}, MTU {}",
            self.more, self.mtu
        )
    }
}

/// One run of the emulator.
pub(crate) struct Run {
    /// Its summary.
    pub(crate) summary: Value,
    /// The emulator's own verdict.
    pub(crate) health: Health,
    /// From before the start of the process until after its end.
    pub(crate) wall_s: f64,
    /// Resident bytes of its processes, second by second.
    pub(crate) memory: Vec<u64>,
}

/// Runs an experiment with the run folder `folder/run`.
pub(crate) fn run(lab: &Lab, folder: &FilePath, experiment: &str) -> io::Result<Run> {
    let file = folder.join("experiment.yaml");
    fs::write(&file, experiment)?;
    let started = Instant::now();
    let child = Command::new(&lab.longhaul)
        .arg("run")
        .arg(&file)
        .arg("--out")
        .arg(folder.join("run"))
        .args(["--force", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let watch = Watch::new(child.id());
    let output = child.wait_with_output()?;
    let memory = watch.seen();
    let wall_s = started.elapsed().as_secs_f64();
    let failed = |what: &str| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let message = format!("{what} ({}): {}", output.status, stderr.trim());
        io::Error::other(message)
    };
    // Exit code 3 is a run that was not faithful: its figures count like any others.
    let summary: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(&format!("longhaul printed no summary, {error}")))?;
    if !matches!(output.status.code(), Some(0 | 3)) {
        return Err(io::Error::other(failures(&summary)));
    }
    let health = health(&summary)
        .ok_or_else(|| failed("the summary lacks its verdict or its packet counts"))?;
    Ok(Run {
        summary,
        health,
        wall_s,
        memory,
    })
}

/// What the summary names as gone wrong.
fn failures(summary: &Value) -> String {
    let programs = summary["programs"].as_array().into_iter().flatten();
    let failures = programs.filter_map(|program| {
        let failure = program["failure"].as_str()?;
        let name = program["name"].as_str().unwrap_or("?");
        Some(format!("{name}: {failure}"))
    });
    let own = summary["error"].as_str().map(str::to_owned);
    let all: Vec<String> = own.into_iter().chain(failures).collect();
    let verdict = summary.pointer("/verdict/reasons");
    let reasons = verdict.filter(|reasons| reasons.as_array().is_some_and(|all| !all.is_empty()));
    let reasons = reasons.map_or(String::new(), |reasons| format!("; verdict: {reasons}"));
    format!("the run failed: {}{reasons}", all.join("; "))
}

fn health(summary: &Value) -> Option<Health> {
    let verdict = summary.get("verdict")?;
    let us = |quantile: &str| Some(verdict["lateness_ns"][quantile].as_f64()? / 1e3);
    let reasons = verdict["reasons"].as_array().into_iter().flatten();
    let mut problems = Vec::new();
    let packets = |name: &str| summary["packets"][name].as_u64();
    let came = packets("entered")? + packets("created")?;
    let went = packets("delivered")? + dropped(summary) + packets("inside")?;
    if came != went {
        problems.push(format!(
            "entered + created {came}, but delivered + dropped + inside {went}"
        ));
    }
    Some(Health {
        verdict: verdict["state"].as_str()?.to_owned(),
        reasons: reasons
            .filter_map(|reason| Some(reason.as_str()?.to_owned()))
            .collect(),
        lateness_us: [us("p50")?, us("p99")?, us("p999")?],
        physical_drops: verdict["physical_drops"].as_u64()?,
        problems,
    })
}

/// Whether programs had other CPUs than in direct runs, because another run held the core's.
fn other_cpus(lab: &Lab, summary: &Value) -> Option<String> {
    let theirs = summary.pointer("/machine/program_cpus")?;
    (*theirs != json!(lab.cpus))
        .then(|| format!("programs had CPUs {theirs}, in direct runs {:?}", lab.cpus))
}

/// Packets that the emulated network dropped, by whatever cause.
fn dropped(summary: &Value) -> u64 {
    let causes = summary["packets"]["dropped"].as_object();
    causes
        .into_iter()
        .flat_map(|causes| causes.values())
        .filter_map(Value::as_u64)
        .sum()
}

fn number(value: &Value, pointer: &str) -> f64 {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_a_router_between_each_two_links() {
        let path = Path {
            hops: 3,
            delay_ns: 3_000,
            rate: Some("1 Gbit/s"),
            ..Path::LINK
        };
        let text = path.experiment("/bench", &Pair::tcp(1));
        for line in [
            "    r1: { kind: router }",
            "    - { ends: [a, r1], delay: 1000 ns, rate: 1 Gbit/s }",
            "    - { ends: [r1, r2], delay: 1000 ns, rate: 1 Gbit/s }",
            "    - { ends: [r2, b], delay: 1000 ns, rate: 1 Gbit/s }",
            r#"  send: { on: a, run: ["/bench","tcp-send","--to","b:5000","--seconds","1"], after: recv }"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("r3"));
    }

    #[test]
    fn sums_that_do_not_close_are_named() {
        let summary = |delivered: u64| {
            json!({
                "verdict": { "state": "faithful", "reasons": [], "physical_drops": 0,
                    "lateness_ns": { "p50": 1000, "p99": 2000, "p999": 3000 } },
                "packets": { "entered": 10, "created": 1, "delivered": delivered, "inside": 1,
                    "dropped": { "queue": 2, "loss": 1 } },
            })
        };
        let open = |delivered| health(&summary(delivered)).unwrap().problems.len();
        assert_eq!((open(7), open(8)), (0, 1));
        assert_eq!(health(&summary(7)).unwrap().lateness_us, [1.0, 2.0, 3.0]);
        assert!(health(&json!({})).is_none());
    }
}
