//! How fast one TCP connection is, and whether its segments stay in order.

use super::direct::Cable;
use super::emulated::Path;
use super::figures::{Against, Figure, Target, at};
use super::lab::Lab;
use super::pair::Pair;
use super::place::Place;
use super::{Group, Setup};

/// MTU, the least goodput in Gbit/s over one hop and over twelve, and the delays in milliseconds.
type Kind = (u32, [Option<f64>; 2], &'static [u64]);
const KINDS: [Kind; 2] = [
    (1500, [Some(10.0), Some(8.0)], &[0, 10]),
    (9000, [Some(7.0), None], &[0]),
];

const USUAL_MTU: u32 = 1500;
/// Goodput over that of a cable with offloads on, which copies nothing and carries no single packet.
const OFFLOADED_SHARE: f64 = 0.9;

/// One group per MTU.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let group = |&(mtu, least, delays): &Kind| {
        let pair = Pair::tcp(lab.seconds(3));
        let mut setups: Vec<Setup> = Cable::kinds(mtu)
            .map(|cable| {
                let name = cable.words();
                Setup::pair(name, Place::Direct(cable), &pair, direct())
            })
            .into();
        for &delay_ms in delays {
            for (hops, least) in [1, 12].into_iter().zip(least) {
                let path = Path {
                    hops,
                    delay_ns: delay_ms * 1_000_000,
                    mtu,
                    ..Path::LINK
                };
                let name = path.words();
                let mut figures = emulated(least);
                if mtu == USUAL_MTU && hops == 1 && delay_ms == 0 {
                    // The second cable hands over super-packets, as the hosts here do.
                    let share = goodput().against(1, Against::Ratio);
                    figures.push(share.target(Target::RatioAtLeast(OFFLOADED_SHARE)));
                }
                setups.push(Setup::pair(name, Place::Emulated(path), &pair, figures));
            }
        }
        Group {
            title: format!("one TCP connection (cubic), MTU {mtu}"),
            setups,
        }
    };
    KINDS.iter().map(group).collect()
}

fn goodput() -> Figure {
    Figure::new("goodput", "Gbit/s", at("/recv/bps").times(1e-9))
}

fn direct() -> Vec<Figure> {
    vec![
        goodput(),
        Figure::new("out of order", "", at("/recv/rcv_ooopack")),
        Figure::new("retransmits", "", at("/send/retransmits")),
    ]
}

fn emulated(least: Option<f64>) -> Vec<Figure> {
    let goodput = goodput().against(0, Against::Ratio);
    let ms = |name, pointer| Figure::new(name, "ms", at(pointer).times(1e-6));
    let zero = |name, pointer| Figure::new(name, "", at(pointer)).target(Target::Zero);
    vec![
        match least {
            Some(least) => goodput.target(Target::AtLeast(least)),
            None => goodput,
        },
        zero("out of order", "/recv/rcv_ooopack"),
        zero("TCPOFOQueue", "/recv/counters/TcpExt.TCPOFOQueue"),
        zero("retransmits", "/send/retransmits"),
        Figure::new("of them in vain", "", at("/send/dsack_dups")),
        ms("longest stall", "/summary/verdict/stalls/longest_ns"),
        ms("taken by the hypervisor", "/summary/verdict/stolen_ns"),
        Figure::new("core busy", "", at("/busy")),
    ]
}
