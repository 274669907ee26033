//! `longhaul traffic sink|bulk|…`: what modelled flows do, with the sockets of a real host.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use longhaul_core::Span;
use longhaul_core::units::Bytes;
use longhaul_lab::sockets::sink::Sink;
use longhaul_lab::sockets::stream::{self, Target};
use longhaul_lab::sockets::{self, Flow, Origin, PORT, Series, Stop};
use longhaul_linux::wait::{take_signal, termination_signals};
use longhaul_linux::wait_readable;
use serde_json::json;

use crate::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul traffic sink                                   on the receiving host
  longhaul traffic bulk b --bytes '100 MB' --congestion cubic
  longhaul traffic bulk b --for '20 s' --series cwnd.csv

Each prints one JSON document with its flows; docs/traffic.md describes them.";

/// Send and take traffic with real sockets, as modelled traffic does without
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sink(SinkArgs),
    Bulk(BulkArgs),
}

/// Take whatever comes, answer requests, and count, until ended
#[derive(Debug, clap::Args)]
struct SinkArgs {
    /// Port for connections; without any port both kinds at 5400
    #[arg(long, value_name = "PORT")]
    tcp: Option<u16>,
    /// Port for datagrams
    #[arg(long, value_name = "PORT")]
    udp: Option<u16>,
    /// End when nothing has come for so long after something has
    #[arg(long, value_name = "TIME")]
    idle: Option<Span>,
}

/// Where flows go, and when they end.
#[derive(Debug, clap::Args)]
struct Common {
    /// The receiving host: a name or an address
    host: String,
    /// The sink's port
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// End after so long
    #[arg(long = "for", value_name = "TIME")]
    until: Option<Span>,
    /// What the flow is called in the result
    #[arg(long, value_name = "NAME", default_value = "flow")]
    name: String,
}

/// Send over one TCP connection, as fast as it goes
#[derive(Debug, clap::Args)]
struct BulkArgs {
    #[command(flatten)]
    common: Common,
    /// How much, like '100 MB'; without, as much as goes until --for
    #[arg(long, value_name = "SIZE", required_unless_present = "until")]
    bytes: Option<Bytes>,
    /// Congestion control, as the kernel calls it; the host's own without
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Write congestion window, threshold, round trip and progress to this file, as CSV
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// How often
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10 ms",
        requires = "series"
    )]
    every: Span,
}

pub(crate) fn main(args: &Args) -> Exit {
    let done = match &args.command {
        Command::Sink(args) => sink(args),
        Command::Bulk(args) => bulk(args),
    };
    done.unwrap_or_else(|error| {
        style::problem(error);
        Exit::Failed
    })
}

fn sink(args: &SinkArgs) -> std::io::Result<Exit> {
    let (tcp, udp) = match (args.tcp, args.udp) {
        (None, None) => (Some(PORT), Some(PORT)),
        chosen => chosen,
    };
    let sink = Sink::bind(tcp, udp)?;
    let (tcp, udp) = sink.ports();
    let shown = |kind, port: Option<u16>| port.map(|port| format!(" {kind} {port}"));
    let ports = [shown("tcp", tcp), shown("udp", udp)];
    style::tell(format_args!(
        "ready{}",
        ports.into_iter().flatten().collect::<String>()
    ));
    let report = until_ended(|stop| sink.serve(args.idle, stop))??;
    style::print(&style::json(&json!(report)));
    Ok(Exit::Done)
}

fn bulk(args: &BulkArgs) -> std::io::Result<Exit> {
    let common = &args.common;
    let target = Target {
        name: common.name.clone(),
        addresses: sockets::resolve(&common.host, common.port)?,
        congestion: args.congestion.clone(),
    };
    let series = args
        .series
        .as_ref()
        .map(|path| Series::create(path, args.every));
    let mut series = series.transpose()?;
    let bytes = args.bytes.map(|bytes| bytes.0);
    let flow = until_ended(|stop| {
        stream::bulk(
            &target,
            bytes,
            common.until,
            series.as_mut(),
            Origin::now(),
            stop,
        )
    })??;
    Ok(told(vec![flow]))
}

/// Prints flows; whether all of them came to their end.
fn told(flows: Vec<Flow>) -> Exit {
    for flow in &flows {
        if let Some(problem) = &flow.problem {
            style::problem(format_args!("{}: {problem}", flow.name));
        }
    }
    style::print(&style::json(&json!({ "flows": flows })));
    match flows.iter().all(|flow| flow.problem.is_none()) {
        true => Exit::Done,
        false => Exit::Failed,
    }
}

/// Runs `work`, which is told to stop where a signal asks this program to end.
fn until_ended<T: Send>(work: impl FnOnce(&Stop) -> T + Send) -> std::io::Result<T> {
    /// How long the watcher may take to see that the work is done.
    const TICK: Duration = Duration::from_millis(50);
    // Before any other thread, so that all of them have the signals blocked.
    let signals = termination_signals()?;
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| work(&stop));
        while !working.is_finished() {
            wait_readable(&[std::os::fd::AsFd::as_fd(&signals)], Some(TICK))?;
            if take_signal(std::os::fd::AsFd::as_fd(&signals)).is_some() {
                stop.set();
            }
        }
        working
            .join()
            .map_err(|_| std::io::Error::other("a thread of this program panicked"))
    })
}
