//! Traffic generators and receivers that measure an emulated network from inside its hosts.
//!
//! Each command is an ordinary program that knows nothing of the emulator: it runs in a
//! virtual host, or on loopback, and prints one JSON object when it ends. One-way delays need
//! no clock synchronisation, since all hosts of a machine share its clock: the sender writes
//! the time into the datagram, and the receiver subtracts it from the kernel's own stamp.
//! Receivers print `ready PORT` to stderr once they are bound.
//!
//! Left out: what the figures mean. Whoever runs these programs judges; for the emulator itself
//! that is the command `suite`, which runs the others over its links.

#![allow(
    clippy::disallowed_methods,
    reason = "these are ordinary programs inside virtual hosts: reading clocks and sleeping is their job"
)]

mod counters;
mod echo;
mod flood;
mod frames;
mod model;
mod net;
mod pace;
mod sequence;
mod spacing;
mod spin;
mod stamp;
mod suite;
mod summary;
mod tcp;
mod tcp_info;
mod udp_batch;
mod udp_recv;
mod udp_send;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

/// Traffic generators and receivers for measuring an emulated network from inside its hosts.
///
/// Every command prints exactly one JSON object on stdout when it ends. Errors go to stderr
/// with exit code 1, a wrong command line with exit code 2.
#[derive(Parser)]
#[command(name = "longhaul-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    UdpSend(udp_send::Options),
    UdpRecv(udp_recv::Options),
    TcpSend(tcp::SendOptions),
    TcpRecv(tcp::RecvOptions),
    Echo(echo::EchoOptions),
    Rtt(echo::RttOptions),
    Spin(spin::Options),
    Flood(flood::Options),
    TcpModel(model::Options),
    Frames(frames::Options),
    Suite(suite::Options),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok((report, complete)) => {
            println!("{report}");
            if complete {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("longhaul-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What to print, and whether all that was asked for was done.
fn run(command: Command) -> io::Result<(String, bool)> {
    let report = match command {
        Command::UdpSend(options) => json(&udp_send::run(&options)?),
        Command::UdpRecv(options) => json(&udp_recv::run(&options)?),
        Command::TcpSend(options) => json(&tcp::send(&options)?),
        Command::TcpRecv(options) => json(&tcp::receive(&options)?),
        Command::Echo(options) => json(&echo::echo(&options)?),
        Command::Rtt(options) => json(&echo::rtt(&options)?),
        Command::Spin(options) => json(&spin::run(&options)?),
        Command::Flood(options) => json(&flood::run(&options)?),
        Command::TcpModel(options) => json(&model::run(&options)?),
        Command::Frames(options) => json(&frames::run(&options)?),
        Command::Suite(options) => return suite::run(&options),
    };
    Ok((report?, true))
}

fn json(report: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(report).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
