//! Any flows over any bad network: everything arrives once, and the width of steps is nobody's
//! business.

use longhaul_core::params::{LossModel, Reorder, Which};
use longhaul_core::topology::PipeParams;
use longhaul_core::units::{Probability, Rate};
use longhaul_core::{Span, Time};
use longhaul_proto::modelled::{
    Amount, Application, FlowSpec, IpVersion, Outcome, Peer, Transport,
};
use longhaul_proto::tcp::{Algorithm, Config};
use proptest::prelude::*;

use super::harness::{Net, dumbbell, flow, pipe, tcp};

/// A flow: its pair of hosts, kind, size, start, algorithm.
type Draft = (usize, u8, u64, u64, usize);

fn specs(net: &longhaul_core::Topology, drafts: &[Draft]) -> Vec<FlowSpec> {
    let spec = |(number, &(pair, kind, size, start_us, algorithm)): (usize, &Draft)| {
        let (a, b) = (format!("a{pair:03}"), format!("b{pair:03}"));
        let ends = if size.is_multiple_of(2) {
            [&a, &b]
        } else {
            [&b, &a]
        };
        let ends = ends.map(String::as_str);
        let (_, congestion) = Algorithm::ALL[algorithm];
        let config = Config {
            congestion,
            ..Config::default()
        };
        let rate = Rate::from_bits_per_s(200_000 + size).unwrap();
        let (transport, application) = match kind {
            0 => (
                tcp(config),
                Application::Bulk {
                    bytes: Some(size.into()),
                },
            ),
            1 | 2 => {
                let dialogue = Application::Requests {
                    requests: Some(1 + size % 4),
                    request: Amount::Exponential(300.0),
                    response: Amount::Exponential(8000.0),
                    think: Amount::Exponential(2e7),
                    new_connection: kind == 2,
                };
                (tcp(config), dialogue)
            }
            3 => (tcp(config), Application::Poisson { rate, bytes: None }),
            _ => {
                let ip = if size % 3 == 0 {
                    IpVersion::V6
                } else {
                    IpVersion::V4
                };
                let payload = 16 + (size % 1200) as u32;
                (
                    Transport::Udp { payload, ip },
                    Application::Poisson { rate, bytes: None },
                )
            }
        };
        let mut spec = flow(net, &format!("flow {number}"), ends, transport, application);
        spec.start = Time::from_ns(start_us * 1000);
        spec.stop = (kind > 2).then(|| spec.start + Span::from_ms(300));
        spec
    };
    drafts.iter().enumerate().map(spec).collect()
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let draft = (
        0..3_usize,
        0..5_u8,
        1..120_000_u64,
        0..200_000_u64,
        0..6_usize,
    );
    proptest::collection::vec(draft, 1..8)
}

fn bad(loss: u64, twice: u64, late: u64) -> PipeParams {
    let percent = |n| Probability::from_ratio(n, 100).unwrap();
    PipeParams {
        loss: LossModel::Independent(percent(loss)),
        duplicate: percent(twice),
        reorder: Some(Reorder {
            which: Which::Random(percent(late)),
            hold: Span::from_ms(3),
        }),
        ..pipe(20, Span::from_ms(4), 40_000)
    }
}

/// Everything that distinguishes a run.
fn outcome(net: &Net) -> String {
    let flows: Vec<_> = net.traffic.flows().collect();
    format!(
        "{flows:?} {:?} {:?}",
        net.engine.counters(),
        net.traffic.strays()
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_bytes_arrive_exactly_once_whatever_the_steps(
        drafts in drafts(),
        (loss, twice, late) in (0..8_u64, 0..8_u64, 0..8_u64),
        width_us in 1..999_u64,
        seed: u64,
    ) {
        let access = pipe(100, Span::from_ms(1), 1 << 20);
        let mut outcomes = Vec::new();
        for width in [Span::ZERO, Span::from_us(width_us)] {
            let topology = dumbbell(3, &access, &[bad(loss, twice, late)]);
            let specs = specs(&topology, &drafts);
            let mut net = Net::new(topology, specs, seed);
            net.width = width;
            net.run(Time::ZERO + Span::from_s(3000));
            for (result, draft) in net.traffic.flows().zip(&drafts) {
                prop_assert_eq!(result.outcome, Outcome::Finished, "{:?}", result);
                if draft.1 == 0 {
                    prop_assert_eq!(result.bytes, draft.2);
                }
                if let Some(figures) = result.requests {
                    prop_assert_eq!(figures.completed, 1 + draft.2 % 4);
                }
                if let Some(figures) = result.datagrams {
                    prop_assert!(figures.received <= figures.sent);
                }
            }
            prop_assert!(net.traffic.is_done());
            let counters = net.engine.counters();
            let came = counters.entered + counters.created;
            prop_assert_eq!(came, counters.delivered + counters.dropped.total());
            prop_assert_eq!((net.engine.inside(), net.engine.slots_in_use()), (0, 0));
            outcomes.push(outcome(&net));
        }
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }

    /// Nothing that comes in makes the traffic fall over.
    #[test]
    fn any_bytes_are_taken(
        packets in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..140), 0..3000_u32, any::<bool>()), 1..50),
    ) {
        let access = pipe(100, Span::from_ms(1), 1 << 20);
        let topology = dumbbell(1, &access, std::slice::from_ref(&access));
        let bulk = Application::Bulk { bytes: None };
        let spec = flow(&topology, "one", ["a000", "b000"], tcp(Config::default()), bulk);
        let Peer::Model(host) = spec.to else { unreachable!() };
        let mut traffic = Net::new(topology, vec![spec], 1).traffic;
        traffic.handle_timeout(Time::ZERO);
        let sound = traffic.poll_transmit().unwrap().headers.to_vec();
        for ((bytes, ip_len, is_like), number) in packets.into_iter().zip(1..) {
            let mut headers = bytes;
            if is_like {
                // Sound up to the transport header.
                let rest = headers.split_off(headers.len().min(38));
                headers = [&sound[..38], &rest].concat();
            }
            traffic.handle_packet(Time::from_ns(number), host, &headers, ip_len);
            while traffic.poll_transmit().is_some() {}
        }
    }
}
