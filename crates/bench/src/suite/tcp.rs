//! How fast one TCP connection is, and whether its segments stay in order.

use super::direct::Cable;
use super::emulated::Path;
use super::figures::{Against, Figure, Target, at};
use super::lab::Lab;
use super::pair::Pair;
use super::place::Place;
use super::{Group, Setup};

/// MTU, the least goodput over one hop and over twelve in relation to a cable without offloads, and the
/// delays in milliseconds.
type Kind = (u32, [Option<f64>; 2], &'static [u64]);
const KINDS: [Kind; 2] = [
    (1500, [Some(1.1), Some(0.9)], &[0, 10]),
    (9000, [Some(0.7), None], &[0]),
];
const HOPS: [u32; 2] = [1, 12];

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
            for (hops, least) in HOPS.into_iter().zip(least) {
                let path = Path {
                    hops,
                    delay_ns: delay_ms * 1_000_000,
                    mtu,
                    ..Path::LINK
                };
                let name = path.words();
                let what = format!(
                    "TCP, MTU {mtu}, {hops} hop{}",
                    if hops == 1 { "" } else { "s" }
                );
                let shown = (delay_ms == 0).then_some(what.as_str());
                let figures = emulated(least, shown);
                setups.push(Setup::pair(name, Place::Emulated(path), &pair, figures));
            }
        }
        Group::new(format!("one TCP connection (cubic), MTU {mtu}"), setups)
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

/// Beside the cable without offloads and beside the one with them. The latter copies nothing and carries
/// no single packet, which is out of reach from user space: no target.
fn emulated(least: Option<f64>, headline: Option<&str>) -> Vec<Figure> {
    let mut plain = goodput().against(0, Against::Ratio);
    let mut offloaded = goodput().against(1, Against::Ratio);
    if let Some(least) = least {
        plain = plain.target(Target::RatioAtLeast(least));
    }
    if let Some(what) = headline {
        plain = plain.headline(what, "cable without offloads");
        offloaded = offloaded.headline(what, "cable with offloads");
    }
    let ms = |name, pointer| Figure::new(name, "ms", at(pointer).times(1e-6));
    let zero = |name, pointer| Figure::new(name, "", at(pointer)).target(Target::Zero);
    vec![
        plain,
        offloaded,
        zero("out of order", "/recv/rcv_ooopack"),
        zero("TCPOFOQueue", "/recv/counters/TcpExt.TCPOFOQueue"),
        zero("retransmits", "/send/retransmits"),
        Figure::new("of them in vain", "", at("/send/dsack_dups")),
        ms("longest stall", "/summary/verdict/stalls/longest_ns"),
        ms("taken by the hypervisor", "/summary/verdict/stolen_ns"),
        Figure::new("core busy", "", at("/busy")),
    ]
}
