//! `longhaul traffic sink|bulk|requests|constant|poisson|on-off`: what modelled flows do, with the
//! sockets of a real host.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Subcommand;
use longhaul_core::Span;
use longhaul_core::units::{Bytes, Rate};
use longhaul_lab::sockets::draws::{self, Draw, Gaps, Source};
use longhaul_lab::sockets::sink::Sink;
use longhaul_lab::sockets::stream::{self, Target};
use longhaul_lab::sockets::{self, Flow, Origin, PORT, Series, Stop, datagrams};
use longhaul_linux::wait::{take_signal, termination_signals};
use longhaul_linux::wait_readable;
use serde_json::json;

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul traffic sink                                   on the receiving host
  longhaul traffic bulk b --bytes '100 MB' --congestion cubic
  longhaul traffic bulk b --for '20 s' --series cwnd.csv
  longhaul traffic requests b --request '300 B' --response '{ exponential: 50 kB }' --requests 9
  longhaul traffic constant b --rate '10 Mbit/s' --packet '1400 B' --for '10 s'
  longhaul traffic on-off b --rate '10 Mbit/s' --on '{ exponential: 200 ms }' --off '1 s'

SIZES and TIMES are quantities (10 kB, 5 ms) or distributions as in `traffic` of an experiment
file, such as { exponential: 5 ms } or { pareto: { mean: 50 kB, shape: 1.2 } }.
Each command prints a JSON document with its flows (docs/traffic.md).";

/// Send and receive traffic over real sockets, in the patterns of modelled traffic
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
    Requests(RequestArgs),
    Constant(DatagramArgs),
    Poisson(PoissonArgs),
    OnOff(OnOffArgs),
}

/// Receive all traffic, answer requests and count bytes, until stopped
#[derive(Debug, clap::Args)]
struct SinkArgs {
    /// TCP port; without --tcp and --udp, both listen on port 5400
    #[arg(long, value_name = "PORT")]
    tcp: Option<u16>,
    /// UDP port
    #[arg(long, value_name = "PORT")]
    udp: Option<u16>,
    /// Stop when nothing has arrived for this long after the last arrival
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
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME")]
    until: Option<Span>,
    /// The flows' name; random draws depend on it, on the two hosts and on the seed
    #[arg(long, value_name = "NAME", default_value = "flow")]
    name: String,
    /// The number of flows, all at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    flows: u64,
    /// The seed of all random draws
    #[arg(long, value_name = "N", env = "LONGHAUL_SEED", default_value_t = 1)]
    seed: u64,
    /// This host's name
    #[arg(
        long,
        value_name = "HOST",
        env = "LONGHAUL_HOST",
        default_value = "localhost"
    )]
    from: String,
}

/// Send over TCP as fast as possible
#[derive(Debug, clap::Args)]
struct BulkArgs {
    #[command(flatten)]
    common: Common,
    /// Payload of each flow; if absent, it sends until --for has passed
    #[arg(long, value_name = "SIZES", value_parser = Draw::size, required_unless_present = "until")]
    bytes: Option<Draw>,
    /// Congestion control, by the kernel's name; the host's default if absent
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Write congestion window, threshold, round trip and progress to this file, as CSV
    #[arg(long, value_name = "FILE", conflicts_with = "flows")]
    series: Option<PathBuf>,
    /// Sampling interval of --series
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10 ms",
        requires = "series"
    )]
    every: Span,
}

/// Send requests over TCP and wait for the responses
#[derive(Debug, clap::Args)]
struct RequestArgs {
    #[command(flatten)]
    common: Common,
    /// Size of requests, at least 20 B
    #[arg(long, value_name = "SIZES", value_parser = Draw::size)]
    request: Draw,
    /// Size of responses
    #[arg(long, value_name = "SIZES", value_parser = Draw::size)]
    response: Draw,
    /// Time from a response to the next request
    #[arg(long, value_name = "TIMES", value_parser = Draw::time, default_value = "0 s")]
    think: Draw,
    /// Number of requests of each flow; if absent, it sends them until --for has passed
    #[arg(long, value_name = "N", required_unless_present = "until")]
    requests: Option<u64>,
    /// Whether all requests of a flow share a connection (keep), or each opens one (new)
    #[arg(long, value_name = "HOW", default_value = "keep", value_parser = ["keep", "new"])]
    connection: String,
    /// Congestion control, by the kernel's name; the host's default if absent
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
}

/// Send datagrams at equal intervals
#[derive(Debug, clap::Args)]
struct DatagramArgs {
    #[command(flatten)]
    common: Common,
    /// Payload per second, like '10 Mbit/s'
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Payload of each datagram
    #[arg(long, value_name = "SIZE", default_value = "1400 B", value_parser = packet)]
    packet: u32,
    /// Payload of each flow; if absent, it sends until --for has passed or it is stopped
    #[arg(long, value_name = "SIZES", value_parser = Draw::size)]
    bytes: Option<Draw>,
}

/// Send datagrams at random, independent times (Poisson)
#[derive(Debug, clap::Args)]
struct PoissonArgs {
    #[command(flatten)]
    datagrams: DatagramArgs,
}

/// Alternate between sending datagrams at equal intervals and silence
#[derive(Debug, clap::Args)]
struct OnOffArgs {
    #[command(flatten)]
    datagrams: DatagramArgs,
    /// How long it sends at a time
    #[arg(long, value_name = "TIMES", value_parser = Draw::time)]
    on: Draw,
    /// How long it is silent in between
    #[arg(long, value_name = "TIMES", value_parser = Draw::time)]
    off: Draw,
}

/// The payload of a datagram.
fn packet(text: &str) -> Result<u32, String> {
    let Bytes(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    let fits = u32::try_from(bytes).ok();
    fits.filter(|size| (1..=datagrams::PAYLOAD_MAX).contains(size))
        .ok_or_else(|| format!("write a size from 1 B to {} B", datagrams::PAYLOAD_MAX))
}

impl Common {
    fn source(&self) -> Source {
        Source {
            seed: self.seed,
            name: self.name.clone(),
            from: self.from.clone(),
            to: self.host.clone(),
        }
    }

    /// What flow `number` is called.
    fn flow_name(&self, number: u64) -> String {
        match self.flows {
            1 => self.name.clone(),
            _ => format!("{}#{}", self.name, number + 1),
        }
    }

    fn target(&self, number: u64, congestion: Option<&String>) -> std::io::Result<Target> {
        Ok(Target {
            name: self.flow_name(number),
            addresses: sockets::resolve(&self.host, self.port)?,
            congestion: congestion.cloned(),
        })
    }

    /// What each flow carries.
    fn sizes(&self, draw: Option<&Draw>) -> Vec<Option<u64>> {
        let sizes = draw.map(|draw| self.source().sizes(draw, self.flows));
        let none = || vec![None; self.flows as usize];
        sizes.map_or_else(none, |sizes| sizes.into_iter().map(Some).collect())
    }

    /// Runs all flows at once, each in a thread of its own, and prints their results.
    fn run(
        &self,
        flow: impl Fn(u64, Origin, &Stop) -> std::io::Result<Flow> + Sync + Send,
    ) -> std::io::Result<Exit> {
        let origin = Origin::now();
        let flows = until_ended(|stop| {
            std::thread::scope(|scope| {
                let flow = &flow;
                let start = |number| scope.spawn(move || flow(number, origin, stop));
                let threads: Vec<_> = (0..self.flows).map(start).collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, std::io::Result<Flow>>| {
                    let panicked =
                        |_| std::io::Error::other("a flow's thread panicked; please report this");
                    thread.join().map_err(panicked)?
                };
                threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
            })
        })??;
        Ok(print_flows(&flows))
    }
}

pub(crate) fn main(args: &Args) -> Exit {
    let done = match &args.command {
        Command::Sink(args) => sink(args),
        Command::Bulk(args) => bulk(args),
        Command::Requests(args) => requests(args),
        Command::Constant(args) => send(args, &Gaps::Even(args.rate)),
        Command::Poisson(PoissonArgs { datagrams }) => {
            send(datagrams, &Gaps::Poisson(datagrams.rate))
        }
        Command::OnOff(OnOffArgs { datagrams, on, off }) => {
            let gaps = Gaps::OnOff(datagrams.rate, on.clone(), off.clone());
            send(datagrams, &gaps)
        }
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
    style::notice(format_args!(
        "ready{}",
        ports.into_iter().flatten().collect::<String>()
    ));
    let report = until_ended(|stop| sink.serve(args.idle, stop))??;
    style::print(&style::json(&json!(report)));
    Ok(Exit::Done)
}

fn bulk(args: &BulkArgs) -> std::io::Result<Exit> {
    let common = &args.common;
    let series = args
        .series
        .as_ref()
        .map(|path| Series::create(path, args.every));
    let series = Mutex::new(series.transpose()?);
    let sizes = common.sizes(args.bytes.as_ref());
    common.run(|number, origin, stop| {
        let target = common.target(number, args.congestion.as_ref())?;
        // There is one flow where there is a series.
        let mut series = series.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bytes = sizes[number as usize];
        stream::bulk(&target, bytes, common.until, series.as_mut(), origin, stop)
    })
}

fn requests(args: &RequestArgs) -> std::io::Result<Exit> {
    let common = &args.common;
    common.run(|number, origin, stop| {
        let target = common.target(number, args.congestion.as_ref())?;
        let draws = [&args.request, &args.response, &args.think].map(Draw::clone);
        let fresh = args.connection == "new";
        let stream = common.source().of_flow(number);
        let exchanges = draws::exchanges(draws, args.requests, fresh, stream);
        stream::requests(&target, exchanges, fresh, common.until, origin, stop)
    })
}

fn send(args: &DatagramArgs, gaps: &Gaps) -> std::io::Result<Exit> {
    let common = &args.common;
    let sizes = common.sizes(args.bytes.as_ref());
    common.run(|number, origin, stop| {
        let stream = common.source().of_flow(number);
        let departures = draws::departures(gaps, args.packet, sizes[number as usize], stream);
        let addresses = sockets::resolve(&common.host, common.port)?;
        let name = common.flow_name(number);
        datagrams::send(&name, &addresses, departures, common.until, origin, stop)
    })
}

/// Prints flows; whether all of them came to their end.
fn print_flows(flows: &[Flow]) -> Exit {
    for flow in flows {
        if let Some(problem) = &flow.problem {
            style::problem(format_args!("{}: {problem}", flow.name));
        }
    }
    style::print(&style::json(&json!({ "flows": flows })));
    if flows.iter().all(|flow| flow.problem.is_none()) {
        Exit::Done
    } else {
        Exit::Failed
    }
}

/// Runs `work`, which is asked to stop where a signal asks this program to end.
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
        working.join().map_err(|_| {
            std::io::Error::other("a thread of this program panicked; please report this")
        })
    })
}
