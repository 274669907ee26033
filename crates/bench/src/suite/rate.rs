//! Whether a link's rate is the one that was asked for, byte by byte, in each framing.
//!
//! The ideal is exact: of the bytes that a packet uses up on the link, the payload is what a
//! program gets. UDP here carries 1400 bytes in a packet of 1428; TCP 1448 in one of 1500
//! (40 bytes of headers and 12 of time stamps).

use super::emulated::Path;
use super::figures::{At, Figure, Target, at};
use super::lab::Lab;
use super::pair::Pair;
use super::place::Place;
use super::{Group, Setup};

/// Rates as the file says them, and in bits per second.
const RATES: [(&str, f64); 3] = [
    ("100 Mbit/s", 1e8),
    ("1 Gbit/s", 1e9),
    ("10 Gbit/s", FASTEST),
];
/// Here programs limit what comes: one framing, TCP alone, and the receiver's short reads that
/// show spacing in a setup of their own.
const FASTEST: f64 = 1e10;
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
            if framing != "ethernet" && (lab.quick && bits_per_s > 1e8 || bits_per_s >= FASTEST) {
                continue;
            }
            let path = Path {
                delay_ns: 100_000,
                rate: Some(rate),
                framing,
                ..Path::LINK
            };
            let mut add = |what: &str, pair: Pair, figures| {
                let name = format!("{what}, {rate} {framing}");
                let place = Place::Emulated(path.clone());
                setups.push(Setup::pair(name, place, &pair, figures));
            };
            let ideal = bits_per_s * TCP_PAYLOAD / (TCP_PACKET + more);
            let tcp = at("/recv/bps").times(1.0 / ideal);
            if bits_per_s >= FASTEST {
                let pair = Pair::tcp(lab.seconds(10));
                let goodput = shown(tcp, format!("TCP on a link of {rate}"));
                add("tcp", pair.clone(), [vec![goodput], order()].concat());
                add("tcp, stamped", pair.spaced(), spacing(TCP_SPACING));
                continue;
            }
            // Goodput is `pps` times the payload bits of a datagram.
            let ideal = bits_per_s * UDP_PAYLOAD / (UDP_PACKET + more);
            let udp = at("/recv/pps").times(UDP_PAYLOAD * 8.0 / ideal);
            let lost = vec![Figure::new("lost", "", at("/recv/lost"))];
            let [udp, tcp] = [(udp, "UDP"), (tcp, "TCP")].map(|(share, what)| {
                let is_shown = framing == "ethernet" && bits_per_s == 1e9;
                if is_shown {
                    shown(share, format!("{what} on a link of {rate}"))
                } else {
                    goodput(share)
                }
            });
            add(
                "udp",
                Pair::udp(1400, "max", lab.seconds(2), &["--batch", "64"]),
                [vec![udp], spacing(UDP_SPACING), lost].concat(),
            );
            // Ten seconds where the issue is whether a fast link keeps its rate.
            let seconds = if bits_per_s >= 1e9 { 10 } else { 3 };
            add(
                "tcp",
                Pair::tcp(lab.seconds(seconds)).spaced(),
                [vec![tcp], spacing(TCP_SPACING), order()].concat(),
            );
        }
        Group::new(
            format!("goodput on a link of {rate}, as a part of the ideal"),
            setups,
        )
    };
    RATES.into_iter().map(group).collect()
}

/// Where a receiver's report has quantiles of spacing.
const UDP_SPACING: [&str; 2] = ["/recv/spacing_ns/p50", "/recv/spacing_ns/p99"];
const TCP_SPACING: [&str; 2] = [
    "/recv/connections/0/spacing/segment_ns/p50",
    "/recv/connections/0/spacing/segment_ns/p99",
];

fn goodput(share: At) -> Figure {
    Figure::new("goodput / ideal", "", share).target(Target::NearOne(WITHIN))
}

/// The same with a row on the first screen.
fn shown(share: At, what: String) -> Figure {
    goodput(share).headline(what, "the link's rate, less headers")
}

fn spacing([p50, p99]: [&'static str; 2]) -> Vec<Figure> {
    let figure = |name, pointer| Figure::new(name, "µs", at(pointer).times(1e-3));
    vec![figure("spacing p50", p50), figure("spacing p99", p99)]
}

fn order() -> Vec<Figure> {
    vec![
        Figure::new("retransmits", "", at("/send/retransmits")),
        Figure::new("out of order", "", at("/recv/rcv_ooopack")),
    ]
}
