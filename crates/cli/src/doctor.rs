//! `longhaul doctor`, and the same help where a run could not start.

use std::io::{IsTerminal, Write};

use longhaul_core::Span;
use longhaul_lab::noise::Noise;
use longhaul_linux::doctor::{self, Finding, State};

use crate::exit::Exit;
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Tries each step of setting up a run, in a sandbox that leaves nothing behind. Then it watches for
two seconds how often the machine takes CPUs from threads that want to run: nothing else should
run meanwhile. Run it as the user who will run experiments. The exit code is 1 if no run can work
on this machine.";

/// The share of time for which the machine stalls is about the share of late packets of a steady flow.
/// A faithful run has at most this.
const STALLED_SHARE_MAX: f64 = longhaul_lab::fidelity::FAITHFUL_LATE_SHARE;
/// The longest time to watch.
const WATCH_MAX: Span = Span::from_s(60);

/// Check what this machine lacks to run experiments, and print the remedies
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Watch the machine's noise for this long, at most a minute; 0 s leaves that out
    #[arg(long, value_name = "TIME", default_value = "2 s", value_parser = watch_time)]
    noise: Span,
}

fn watch_time(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if span > WATCH_MAX {
        return Err("write at most `1 min`".to_owned());
    }
    Ok(span)
}

pub(crate) fn main(args: &Args) -> Exit {
    let mut findings = doctor::examine();
    let noise = (args.noise > Span::ZERO).then(|| watch(args.noise));
    findings.extend(noise.as_ref().map(finding));
    let worst = findings
        .iter()
        .map(|finding| finding.state)
        .max()
        .unwrap_or(State::Ok);
    if args.json {
        style::print(&style::json(&serde_json::json!({
            "state": worst,
            "findings": findings,
            "noise": noise.and_then(Result::ok),
        })));
    } else {
        let style = Style::stdout();
        let list: String = findings
            .iter()
            .map(|finding| line(finding, style))
            .collect();
        style::print(&format!("{list}\n{}\n", conclusion(worst)));
    }
    if worst == State::Failed {
        Exit::Failed
    } else {
        Exit::Done
    }
}

/// Measures the machine's noise, with a line on a terminal until it is done. The line is written once:
/// a terminal that draws while the machine is watched would be part of what is seen.
fn watch(span: Span) -> std::io::Result<Noise> {
    let mut stderr = std::io::stderr();
    let shows = stderr.is_terminal() && !style::is_dumb();
    if shows {
        let _ = write!(
            stderr,
            "watching the machine's noise for {} …",
            style::span(span)
        );
        let _ = stderr.flush();
    }
    let noise = Noise::measure(span);
    if shows {
        let _ = write!(stderr, "\r\x1b[K");
    }
    noise
}

fn finding(noise: &std::io::Result<Noise>) -> Finding {
    let (state, detail, remedy) = match noise {
        Ok(noise) if noise.stalled_share() > STALLED_SHARE_MAX => {
            (State::Warning, noise_in_words(noise), Some(NOISY))
        }
        Ok(noise) => (State::Ok, noise_in_words(noise), None),
        Err(error) => (
            State::Warning,
            format!("the machine could not be watched: {error}"),
            Some("Let this process use its CPUs, or leave this out with --noise '0 s'."),
        ),
    };
    Finding {
        name: "noise",
        state,
        detail,
        remedy: remedy.map(str::to_owned),
    }
}

const NOISY: &str =
    "Runs may be degraded: the verdict counts what is late meanwhile. End other programs;
on a virtual machine ask for CPUs of its own. `longhaul calibrate` watches for longer,
and verdicts then say whether a run was noisier than the machine is by itself.";

/// Stalls a minute, the longest, what the hypervisor took, and for how long that was watched.
fn noise_in_words(noise: &Noise) -> String {
    let worst = noise.worst();
    let watched = match noise.cpus.as_slice() {
        [one] => format!("CPU {}", one.cpu),
        more => {
            let cpus: Vec<String> = more.iter().map(|cpu| cpu.cpu.to_string()).collect();
            format!("each of CPUs {}", cpus.join(" and "))
        }
    };
    let longest = match worst.count {
        0 => String::new(),
        _ => format!(
            ", {} at most, {:.2} % of the time",
            style::measured(noise.longest_ns()),
            100.0 * noise.stalled_share()
        ),
    };
    format!(
        "{:.0} stalls over {} a minute ({:.0} of {} or more){longest}; its hypervisor took {}; \
         watched for {:.1} s, {watched}",
        noise.per_minute(worst.count),
        style::measured(noise.threshold_ns),
        noise.per_minute(worst.long),
        style::measured(noise.long_ns),
        style::measured(noise.stolen_ns),
        noise.seconds,
    )
}

const fn conclusion(worst: State) -> &'static str {
    match worst {
        State::Ok => "This machine can run experiments.",
        State::Warning => "This machine can run experiments, with the limits described above.",
        State::Failed => {
            "This machine cannot run experiments until the failures above are remedied."
        }
    }
}

fn line(finding: &Finding, style: Style) -> String {
    let state = match finding.state {
        State::Ok => style.good("ok     "),
        State::Warning => style.doubtful("warning"),
        State::Failed => style.bad("failed "),
    };
    let mut text = format!(
        "{state}  {}: {}\n",
        style.bold(finding.name),
        finding.detail
    );
    for remedy in finding.remedy.iter().flat_map(|remedy| remedy.lines()) {
        // Not indented by more than that: whole lines are copied into a shell.
        text.push_str(&format!("    {remedy}\n"));
    }
    text
}

/// After a run that could not be set up: what is wrong with the machine, on standard error.
pub(crate) fn explain_failure() {
    let failed = doctor::examine()
        .into_iter()
        .filter(|finding| finding.state != State::Ok);
    let style = Style::stderr();
    for finding in failed {
        style::notice(format_args!("\n{}", line(&finding, style).trim_end()));
    }
}
