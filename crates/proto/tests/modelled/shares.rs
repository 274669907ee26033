//! The hosts of a run, spread over several `Traffic`s: who holds which end changes nothing. Single
//! cases are in `ends.rs`.

use std::sync::Arc;

use longhaul_core::rng::Stream;
use longhaul_core::units::Rate;
use longhaul_core::{NodeId, Span, Time};
use longhaul_proto::modelled::{
    Amount, Application, FlowSpec, IpVersion, Part, Peer, Side, Transport,
};
use longhaul_proto::tcp::Config;
use proptest::prelude::*;

use super::wires::{Delays, Packet, Wires};

const HOSTS: u32 = 5;

/// A configuration that gives up soon.
pub(crate) fn hasty() -> Config {
    Config {
        syn_retries: 2,
        synack_retries: 2,
        retries2: 3,
        ..Config::default()
    }
}

/// A flow: its hosts, what it does, a size, its start in hundredths of a second.
type Draft = (u32, u32, u8, u64, u64);

fn spec(number: usize, &(from, to, kind, size, start): &Draft) -> FlowSpec {
    // Many short transfers, whose places others take over, and many datagrams at the same times.
    let (kind, size) = match kind {
        ..10 => (kind, size),
        10..14 => (0, size / 50 + 1),
        _ => (5, size),
    };
    // Round, so that much happens at the same times.
    let rate = Rate::from_bits_per_s(800_000).unwrap();
    let dialogue = |new_connection| Application::Requests {
        requests: (!size.is_multiple_of(5)).then_some(1 + size % 6),
        request: Amount::Exponential(2000.0),
        response: Amount::Exponential(9000.0),
        think: Amount::Exponential(2e7),
        new_connection,
    };
    let bytes = (!size.is_multiple_of(3)).then_some(size);
    let application = match kind {
        0 => Application::Bulk {
            bytes: Some(size.into()),
        },
        1 => Application::Bulk {
            bytes: Some(Amount::Exponential(20_000.0)),
        },
        2 | 3 => dialogue(kind == 3),
        4 | 5 => Application::Constant { rate, bytes },
        6 | 7 => Application::Poisson { rate, bytes },
        _ => Application::OnOff {
            rate,
            bytes,
            on: Amount::Exponential(3e7),
            off: Span::from_ms(20).into(),
        },
    };
    let ip = match size % 2 {
        0 => IpVersion::V4,
        _ => IpVersion::V6,
    };
    let is_tcp = kind < 4 || kind.is_multiple_of(2);
    let to = NodeId((from + 1 + to % (HOSTS - 1)) % HOSTS);
    let start = Time::ZERO + Span::from_ms(10 * start);
    FlowSpec {
        name: format!("flow {number}").as_str().into(),
        from: NodeId(from),
        to: if is_tcp && size.is_multiple_of(11) {
            Peer::Program(to, 80)
        } else {
            Peer::Model(to)
        },
        transport: if is_tcp {
            Transport::Tcp(Arc::new(hasty()), ip)
        } else {
            Transport::Udp { payload: 1000, ip }
        },
        application,
        start,
        stop: (!size.is_multiple_of(7)).then_some(start + Span::from_ms(400)),
        series: size.is_multiple_of(2),
    }
}

/// Delays of whole milliseconds, fixed for each pair of hosts; of the packets of a host, some are
/// lost, some come twice, whatever else happens. Nothing passes between two of the hosts.
fn delays(seed: u64, (loss, twice): (u64, u64)) -> Delays {
    let draw = move |name: &str| Stream::new(seed, name).draw();
    Box::new(move |packet: &mut Packet| {
        let Packet { from, to, .. } = &*packet;
        let way = Span::from_ms(1 + draw(&format!("{from:?}>{to:?}")) % 4);
        let luck = draw(&format!("{from:?} {}", packet.number)) % 100;
        if (from.0.min(to.0), from.0.max(to.0)) == (1, 3) || luck < loss {
            return Vec::new();
        }
        if luck < loss + twice {
            vec![way, way + Span::from_ms(2)]
        } else {
            vec![way]
        }
    })
}

/// Everything that distinguishes a run, at several times of it.
fn outcome(wires: &mut Wires) -> Vec<String> {
    let times = [50, 200, 500, 1500, 20_000, 1_000_000];
    let mut record = Vec::new();
    for ms in times {
        wires.run(Time::ZERO + Span::from_ms(ms));
        record.push(format!(
            "{:?} {:?} {:?} {:?}",
            wires.results(),
            wires.strays(),
            wires.awaited(),
            wires.progress()
        ));
    }
    record.extend(wires.sent.iter().flatten().map(|sent| format!("{sent:?}")));
    record
}

pub(crate) fn part<'a>(wires: &'a Wires, side: Side) -> Part<'a> {
    let mut parts = wires.shares.iter().flat_map(|share| share.parts());
    parts
        .find(|part| (part.flow, part.side) == (0, side))
        .expect("an end")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However the hosts are spread, and in whatever windows the shares go on: the same packets at
    /// the same times, byte by byte, and the same results.
    #[test]
    fn who_holds_which_end_changes_nothing(
        drafts in prop::collection::vec(
            (0..HOSTS, 0..HOSTS, 0..18_u8, 1..60_000_u64, 0..30_u64), 1..32),
        owner in prop::collection::vec(0..4_usize, HOSTS as usize),
        width_us in 0..1000_u64,
        bad in (0..25_u64, 0..10_u64),
        seed: u64,
    ) {
        let specs: Vec<FlowSpec> =
            drafts.iter().enumerate().map(|(n, draft)| spec(n, draft)).collect();
        let alone = vec![0; HOSTS as usize];
        let mut one = Wires::new(specs.clone(), seed, alone, delays(seed, bad));
        let expected = outcome(&mut one);
        let mut many = Wires::new(specs.clone(), seed, owner, delays(seed, bad));
        many.width = Span::from_us(width_us);
        prop_assert_eq!(&outcome(&mut many), &expected);
        // What ends by itself has ended, and each flow that is over is counted.
        prop_assert_eq!(many.awaited(), 0);
        let (over, all) = many.progress();
        prop_assert_eq!(all, specs.len());
        let finished = many.results().iter().filter(|flow| flow.finish.is_some()).count();
        prop_assert!(over <= finished, "{over} {finished}");
    }
}
