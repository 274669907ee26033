//! `longhaul load …`: the programs that calibration runs on its hosts. Hidden, since they are of
//! no use to anybody else; each prints one line of JSON at its end.

use std::fmt::Display;
use std::io;

use longhaul_lab::calibrate::load::{self, TcpSink, UdpSink};
use serde_json::json;

use crate::exit::Exit;
use crate::style;

/// The programs that calibration runs on its hosts
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, clap::Subcommand)]
enum Program {
    /// Send datagrams
    UdpSend {
        #[arg(long)]
        to: String,
        #[arg(long)]
        size: usize,
        #[arg(long)]
        seconds: f64,
        /// Datagrams per second; as many as possible if absent
        #[arg(long)]
        rate: Option<u64>,
    },
    /// Receive datagrams until stopped
    UdpSink {
        #[arg(long)]
        port: u16,
    },
    /// Send over a connection
    TcpSend {
        #[arg(long)]
        to: String,
        #[arg(long)]
        seconds: f64,
    },
    /// Accept one connection, and read it to its end
    TcpSink {
        #[arg(long)]
        port: u16,
    },
    /// Do nothing for a while
    Idle {
        #[arg(long)]
        seconds: f64,
    },
}

pub(crate) fn main(args: &Args) -> Exit {
    match run(&args.program) {
        Ok(()) => Exit::Done,
        Err(error) => {
            style::problem(error);
            Exit::Failed
        }
    }
}

fn run(program: &Program) -> io::Result<()> {
    let ready = || style::print("ready\n");
    match program {
        Program::UdpSend {
            to,
            size,
            seconds,
            rate,
        } => say(json!(load::send_udp(to, *size, *rate, *seconds)?)),
        Program::UdpSink { port } => {
            let sink = UdpSink::bind(*port)?;
            ready();
            return Err(sink.run());
        }
        Program::TcpSend { to, seconds } => load::send_tcp(to, *seconds)?,
        Program::TcpSink { port } => {
            let sink = TcpSink::bind(*port)?;
            ready();
            say(json!(sink.run()?));
        }
        Program::Idle { seconds } => load::idle(*seconds),
    }
    Ok(())
}

fn say(line: impl Display) {
    style::print(&format!("{line}\n"));
}
