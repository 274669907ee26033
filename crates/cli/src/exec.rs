//! `longhaul exec HOST -- CMD`: a program on a host of a run that is under way.

use std::io::{stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;

use longhaul_lab::control::{Control, ControlError, Reply, Request};

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul exec a0 -- ping -c 3 b0
  longhaul exec a0 -- sh                       a shell on the host
  longhaul exec b1 --run two-clusters --root -- tcpdump -ni eth0

The program uses the standard input, output and error of this command, which exits with the
program's exit code. If this command is ended (Ctrl-C), the program is ended too.";

/// Variables that say how to talk to the user, who may sit at another terminal than the run's.
const PASSED: [&str; 6] = [
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
];

/// Run a program on a host of a run that is under way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The host: its name, or a pattern or label that only one host has, such as role=server
    host: String,
    /// The run: its experiment's name or its folder; needed only if several are under way
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
    /// Run as root within the run's namespaces instead of as your own user
    #[arg(long)]
    root: bool,
    /// A variable for the program's environment; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::experiment::pair)]
    env: Vec<(String, String)>,
    /// The program's working folder; the host's own if absent
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Exit {
    let passed = PASSED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let env = passed.filter(|(name, _)| args.env.iter().all(|(other, _)| other != name));
    let request = Request::Exec {
        host: args.host.clone(),
        argv: args.command.clone(),
        env: env.chain(args.env.iter().cloned()).collect(),
        // Relative to the user's folder, not to the one that the run was started in.
        cwd: args
            .cwd
            .as_ref()
            .map(|cwd| std::path::absolute(cwd).unwrap_or_else(|_| cwd.clone())),
        as_root: args.root,
    };
    let started = match start(args, &request) {
        Ok(started) => started,
        Err(error) => {
            style::problem(&error);
            return exit_of(&error);
        }
    };
    match wait(started) {
        Ok(code) => Exit::Program(code),
        Err(error) => {
            style::problem(&error);
            Exit::Failed
        }
    }
}

/// Asks the run to start the program with our standard streams.
fn start(args: &Args, request: &Request) -> Result<(Control, Reply), ControlError> {
    let control = Control::connect(args.run.as_deref())?;
    let (stdin, stdout, stderr) = (stdin(), stdout(), stderr());
    let reply = control.ask(request, &[stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
    Ok((control, reply))
}

/// Waits until the program has ended.
fn wait((control, mut reply): (Control, Reply)) -> Result<i32, ControlError> {
    loop {
        if let Reply::Exited { code } = reply {
            return Ok(code);
        }
        reply = control.next()?;
    }
}

/// The code for a run that cannot be asked, or that refuses: naming what does not exist is the
/// command line's mistake.
pub(crate) fn exit_of(error: &ControlError) -> Exit {
    match error {
        ControlError::Io { .. } | ControlError::Ended => Exit::Failed,
        ControlError::NoRun
        | ControlError::Several(_)
        | ControlError::Unknown { .. }
        | ControlError::Refused(_) => Exit::Wrong,
    }
}
