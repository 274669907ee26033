//! `flood`: as many datagrams as a machine can send, from several threads, to overload a path.

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::net;
use crate::pace;
use crate::stamp;
use crate::udp_send::{self, Errors, Limit, Sent};

/// Datagrams a system call.
const BATCH: usize = 64;

/// Send datagrams as fast as possible from several threads, for overload tests.
///
/// Each thread has a socket of its own and numbers its datagrams from 0: `udp-recv` tells
/// them apart.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to: an address or a name, like `10.0.0.2:5000`, `[fd00::2]:5000`, `b0:5000`.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Sending threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Payload bytes, at least 8.
    #[arg(long, value_name = "BYTES", value_parser = stamp::payload_size)]
    size: usize,
    /// Seconds in all.
    #[arg(long, value_name = "S", value_parser = pace::seconds)]
    seconds: Duration,
}

/// What was sent.
#[derive(Serialize)]
pub(crate) struct Report {
    sent: u64,
    bytes: u64,
    seconds: f64,
    pps: f64,
    threads: u16,
    errors: Errors,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let sockets: Vec<UdpSocket> = (0..options.threads)
        .map(|_| {
            let socket = net::connect_udp(&options.to)?;
            net::report_errors(&socket)?;
            Ok(socket)
        })
        .collect::<io::Result<_>>()?;
    let start = Instant::now();
    let limit = Limit {
        attempts: u64::MAX,
        until: Some(start + options.seconds),
    };
    let mut total = Sent::default();
    thread::scope(|scope| {
        let blast = |socket| udp_send::blast(socket, options.size, BATCH, limit);
        let threads: Vec<_> = sockets
            .iter()
            .map(|socket| scope.spawn(move || blast(socket)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let sent = thread
                .join()
                .map_err(|_| io::Error::other("a sending thread panicked"))??;
            total.add(&sent);
            io::Result::Ok(())
        })
    })?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Report {
        sent: total.datagrams,
        bytes: total.datagrams * options.size as u64,
        seconds,
        pps: total.datagrams as f64 / seconds,
        threads: options.threads,
        errors: total.errors,
    })
}
