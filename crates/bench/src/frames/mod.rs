//! `frames`: malformed and random Ethernet frames, to test that an emulator survives them.
//!
//! The kinds take turns; what is random in them comes from the seed alone, so a crash can be
//! repeated. Frames under 14 bytes are left out: Linux sends none.

mod craft;
mod packet;
mod socket;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use crate::pace::Pacer;
use craft::{Craft, Ends, Kind};
use socket::RawSocket;

/// Send malformed and random Ethernet frames out of an interface; needs CAP_NET_RAW.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The interface, like `eth0`.
    #[arg(long, value_name = "NAME")]
    interface: String,
    /// Frames in all; the kinds take turns.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// Where the randomness begins; the same seed sends the same frames.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Frames a second. Default: as fast as possible.
    #[arg(long, value_name = "PPS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Address that the IP packets go to; once for IPv4, once for IPv6.
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<IpAddr>,
    /// MAC address that the frames go to. Default: the interface's first IPv4 neighbour, or
    /// broadcast.
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    dst_mac: Option<[u8; 6]>,
    /// Only these kinds.
    #[arg(long, value_name = "KIND", value_enum)]
    only: Vec<Kind>,
}

/// What was sent.
#[derive(Serialize)]
pub(crate) struct Report {
    sent: u64,
    /// Frames that the kernel refused.
    refused: u64,
    seconds: f64,
    /// Frames sent, by kind.
    kinds: BTreeMap<String, u64>,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let socket = RawSocket::open(&options.interface)?;
    let mut craft = Craft::new(options.seed, ends(options, &socket));
    let kinds = if options.only.is_empty() {
        Kind::value_variants()
    } else {
        &options.only
    };
    let mut pacer = options.rate.map(|rate| Pacer::rate(rate, false));
    let start = Instant::now();
    let mut report = Report {
        sent: 0,
        refused: 0,
        seconds: 0.0,
        kinds: kinds.iter().map(|kind| (kind.name(), 0)).collect(),
    };
    for (index, &kind) in (0..options.count).zip(kinds.iter().cycle()) {
        if let Some(pacer) = &mut pacer {
            pacer.wait(index);
        }
        match socket.send(&craft.frame(kind)) {
            Ok(()) => {
                report.sent += 1;
                *report.kinds.entry(kind.name()).or_default() += 1;
            }
            Err(error) if gone(&error) => return Err(error),
            Err(_) => report.refused += 1,
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Whether the interface itself went away or down.
fn gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(code, Some(libc::ENXIO | libc::ENODEV | libc::ENETDOWN))
}

/// The addresses to write into the frames.
fn ends(options: &Options, socket: &RawSocket) -> Ends {
    let mut ends = Ends {
        src_mac: socket.mac,
        dst_mac: options
            .dst_mac
            .or_else(|| neighbour(&options.interface))
            .unwrap_or([0xff; 6]),
        // Addresses for documentation: routed nowhere.
        v4: [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)],
        v6: [1, 2].map(|host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)),
    };
    for &to in &options.to {
        match (to, source_for(to)) {
            (IpAddr::V4(to), Some(IpAddr::V4(from))) => ends.v4 = [from, to],
            (IpAddr::V6(to), Some(IpAddr::V6(from))) => ends.v6 = [from, to],
            (IpAddr::V4(to), _) => ends.v4[1] = to,
            (IpAddr::V6(to), _) => ends.v6[1] = to,
        }
    }
    ends
}

/// The address that this host would send from.
fn source_for(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The first resolved IPv4 neighbour on an interface: in a virtual host, its gateway.
fn neighbour(interface: &str) -> Option<[u8; 6]> {
    let table = std::fs::read_to_string("/proc/net/arp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (&mac, &device) = (fields.get(3)?, fields.get(5)?);
        let mac = parse_mac(mac).ok()?;
        (device == interface && mac != [0; 6]).then_some(mac)
    })
}

fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let mut parts = text.split(':');
    let mut mac = [0; 6];
    let parsed = mac.iter_mut().try_for_each(|byte| {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
        Some(())
    });
    match (parsed, parts.next()) {
        (Some(()), None) => Ok(mac),
        _ => Err("write a MAC address like 02:00:00:00:00:01".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_parse() {
        assert_eq!(parse_mac("02:00:00:0a:ff:01"), Ok([2, 0, 0, 10, 255, 1]));
        for text in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "0g:0:0:0:0:0"] {
            assert!(parse_mac(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sources_follow_routes() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(source_for(loopback), Some(loopback));
    }
}
