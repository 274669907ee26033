//! `longhaul capture LINK [FILTER]`: the packets of a link of a run that is under way.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::Span;
use longhaul_core::units::Bytes;
use longhaul_lab::control::{CapturePoint, CaptureRequest, Control, ControlError, Reply, Request};
use longhaul_linux::wait::termination_signals;
use longhaul_linux::wait_readable_or_unread;

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul capture ga-gb | wireshark -k -i -       watch a link live
  longhaul capture 'ga>gb' -w loss.pcapng dropped  what one direction drops, and why
  longhaul capture ga-gb tcp port 80 and host b0 --for '10 s' -w web.pcapng
  longhaul capture a0-ga --at entry | tshark -r -

The format is pcapng; times are experiment time in nanoseconds (t = 0 is 1970-01-01). A dropped
packet carries its cause as a comment. Filters are a subset of tcpdump's (docs/captures.md). The
capture ends with Ctrl-C, with the run, or when the reader of the output goes away.";

/// Capture the packets of a link of a run that is under way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The link x-y (both directions), the pipe 'x>y' (one), or a set: 'x*-y', 'x>*', label=value, all
    link: String,
    /// Which packets to capture, such as: tcp port 80 and host b0; all if absent
    filter: Vec<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Where in the pipe: entry (packets that reach it) or exit (packets that leave it or are dropped)
    #[arg(long, default_value = "exit", value_parser = point)]
    at: CapturePoint,
    /// Bytes to keep of each packet; all if absent
    #[arg(short, long, value_name = "BYTES")]
    snaplen: Option<u32>,
    /// Largest size of the capture, such as '100 MB'; 1 GB if absent
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<Bytes>,
    /// How long to capture, such as '10 s'; until Ctrl-C if absent
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    lasts: Option<Span>,
    /// The run: its experiment's name or its folder; needed only if several are under way
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
}

fn point(text: &str) -> Result<CapturePoint, String> {
    match text {
        "entry" => Ok(CapturePoint::Entry),
        "exit" => Ok(CapturePoint::Exit),
        _ => Err("write `entry` or `exit`".to_owned()),
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse::<Bytes>().map_err(|error| error.to_string())
}

fn span(text: &str) -> Result<Span, String> {
    text.parse::<Span>().map_err(|error| error.to_string())
}

pub(crate) fn main(args: &Args) -> Exit {
    let to = match destination(args.write.as_deref()) {
        Ok(to) => to,
        Err(problem) => {
            style::problem(&problem);
            return Exit::Wrong;
        }
    };
    match capture(args, &to) {
        Ok((packets, missed)) => {
            let missed = match missed {
                0 => String::new(),
                missed => format!(", {missed} more were missed"),
            };
            style::notice(format!("{packets} packets captured{missed}"));
            Exit::Done
        }
        // The run has ended: the packets written are whole, only the final statistics are missing.
        Err(ControlError::Ended) => {
            style::notice("the run has ended");
            Exit::Done
        }
        Err(error) => {
            style::problem(&error);
            crate::exec::exit_of(&error)
        }
    }
}

/// Where packets go. A capture holds payload, so a new file is readable by its owner alone.
fn destination(file: Option<&Path>) -> Result<OwnedFd, String> {
    let Some(path) = file else {
        if stdout().is_terminal() {
            return Err(
                "a capture is binary data, and standard output is a terminal: write it to a \
                        file with `-w FILE`, or show it with `| wireshark -k -i -`"
                    .to_owned(),
            );
        }
        let copy = stdout().as_fd().try_clone_to_owned();
        return copy.map_err(|error| format!("standard output: {error}"));
    };
    let open = |path: &Path| -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)
    };
    let file = open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(file.into())
}

/// Captures to the end; gives the packets that were captured and missed.
fn capture(args: &Args, to: &OwnedFd) -> Result<(u64, u64), ControlError> {
    let filter = args.filter.join(" ");
    let request = Request::Capture(CaptureRequest {
        link: args.link.clone(),
        at: args.at,
        filter: Some(filter).filter(|filter| !filter.is_empty()),
        snaplen: args.snaplen,
        size_bytes: args.size.map(|Bytes(bytes)| bytes),
    });
    let control = Control::connect(args.run.as_deref())?;
    let signals =
        termination_signals().map_err(|error| ControlError::Refused(error.to_string()))?;
    if let Reply::Capturing { pipes, at_s } = control.ask(&request, &[to.as_fd()])? {
        let pipes = pipes.join(", ");
        style::notice(format!("capturing {pipes} from {at_s:.3} s on"));
    }
    let lasts = args.lasts.map(|span| Duration::from_nanos(span.as_ns()));
    // The run sends nothing unasked, so a readable socket means that it has ended.
    let _ = wait_readable_or_unread(&[control.as_fd(), signals.as_fd()], to.as_fd(), lasts);
    match control.ask(&Request::EndCapture {}, &[]) {
        Ok(Reply::Captured { packets, missed }) => Ok((packets, missed)),
        Err(ControlError::Refused(reason)) => Err(ControlError::Refused(reason)),
        Ok(_) | Err(_) => Err(ControlError::Ended),
    }
}
