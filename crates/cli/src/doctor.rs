//! `longhaul doctor`, and the same help where a run could not start.

use longhaul_linux::doctor::{self, Finding, State};

use crate::exit::Exit;
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Tries each step of setting up a run, in a sandbox that leaves nothing behind. Run it as the user
who will run experiments. The exit code is 1 if no run can work on this machine.";

/// Check what this machine lacks to run experiments, and print the remedies
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Exit {
    let findings = doctor::examine();
    let worst = findings
        .iter()
        .map(|finding| finding.state)
        .max()
        .unwrap_or(State::Ok);
    if args.json {
        style::print(&style::json(
            &serde_json::json!({ "state": worst, "findings": findings }),
        ));
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
