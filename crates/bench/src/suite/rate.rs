//! Whether a link's rate is the one that was asked for, byte by byte, in each framing.
//!
//! The ideal is exact: of the bytes that a packet uses up on the link, the payload is what a
//! program gets. UDP here carries 1400 bytes in a packet of 1428; TCP 1448 in one of 1500
//! (40 bytes of headers and 12 of time stamps).

use super::emulated::Path;
use super::figures::{Figure, Target, at};
use super::lab::Lab;
use super::pair::{Pair, Place};
use super::{Group, Setup};

/// Rates as the file says them, and in bits per second.
const RATES: [(&str, f64); 2] = [("100 Mbit/s", 1e8), ("1 Gbit/s", 1e9)];
/// Framings, and the bytes that each counts beyond the IP packet.
const FRAMINGS: [(&str, f64); 3] = [("ethernet", 18.0), ("ip", 0.0), ("wire", 38.0)];
/// How far goodput may be from the ideal.
const WITHIN: f64 = 0.005;
const UDP_PAYLOAD: f64 = 1400.0;
const UDP_PACKET: f64 = 1428.0;
const TCP_PAYLOAD: f64 = 1448.0;
const TCP_PACKET: f64 = 1500.0;

/// One group per rate.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let group = |(rate, bits_per_s): (&'static str, f64)| {
        let mut setups = Vec::new();
        for (framing, more) in FRAMINGS {
            // A test of the suite needs each mechanism once.
            if lab.quick && framing != "ethernet" && bits_per_s > 1e8 {
                continue;
            }
            let path = Path {
                delay_ns: 100_000,
                rate: Some(rate),
                framing,
                ..Path::LINK
            };
            let place = Place::Emulated(path);
            let udp = Pair::udp(1400, "max", lab.seconds(2), &["--batch", "64"]);
            let ideal = bits_per_s * UDP_PAYLOAD / (UDP_PACKET + more);
            // Datagrams a second, each of so many bits.
            let share = at("/recv/pps").times(UDP_PAYLOAD * 8.0 / ideal);
            let name = format!("udp, {rate} {framing}");
            setups.push(Setup::pair(
                name,
                place.clone(),
                &udp,
                figures(share, false),
            ));
            let ideal = bits_per_s * TCP_PAYLOAD / (TCP_PACKET + more);
            let share = at("/recv/bps").times(1.0 / ideal);
            let name = format!("tcp, {rate} {framing}");
            let tcp = Pair::tcp(lab.seconds(3));
            setups.push(Setup::pair(name, place, &tcp, figures(share, true)));
        }
        Group {
            title: format!("goodput on a link of {rate}, as a part of the ideal"),
            setups,
        }
    };
    RATES.into_iter().map(group).collect()
}

fn figures(share: super::figures::At, tcp: bool) -> Vec<Figure> {
    let goodput = Figure::new("goodput / ideal", "", share).target(Target::NearOne(WITHIN));
    if tcp {
        vec![
            goodput,
            Figure::new("retransmits", "", at("/send/retransmits")),
            Figure::new("out of order", "", at("/recv/rcv_ooopack")),
        ]
    } else {
        vec![
            goodput,
            Figure::new("spacing p50", "µs", at("/recv/spacing_ns/p50").times(1e-3)),
            Figure::new("spacing p99", "µs", at("/recv/spacing_ns/p99").times(1e-3)),
            Figure::new("lost", "", at("/recv/lost")),
        ]
    }
}
