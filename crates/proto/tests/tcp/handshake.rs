//! Opening and closing.

use std::sync::Arc;

use longhaul_core::time::{Span, Time};
use longhaul_proto::tcp::{Algorithm, Config, Endpoint, Event, Flags, Segment, State};

use crate::sim::{Bottleneck, Impairment, Sim, in_ms, ms, s, unlimited};

fn events(end: &mut Endpoint) -> Vec<Event> {
    std::iter::from_fn(|| end.poll_event()).collect()
}

#[test]
fn a_connection_opens_carries_and_closes_on_both_sides() {
    let mut sim = Sim::new(Bottleneck::default());
    let config = unlimited(Algorithm::Cubic);
    let flow = sim.flow(&config, Span::from_ms(10), Time::ZERO);
    assert_eq!(flow.a.write(100_000), 100_000);
    flow.a.close();
    sim.log = Some(Vec::new());
    sim.run(ms(9));
    assert_eq!(sim.flows[0].a.state(), State::SynSent);
    assert_eq!(sim.flows[0].b.state(), State::SynReceived);
    sim.run(ms(200));
    let flow = &mut sim.flows[0];
    assert_eq!(flow.b.info().received, 100_000);
    assert_eq!(flow.a.info().acknowledged, 100_000);
    assert_eq!(
        (flow.a.state(), flow.b.state()),
        (State::FinWait2, State::CloseWait)
    );
    assert_eq!(events(&mut flow.b), [Event::Connected, Event::PeerClosed]);
    flow.b.close();
    sim.run(ms(300));
    let flow = &mut sim.flows[0];
    assert_eq!(
        (flow.a.state(), flow.b.state()),
        (State::TimeWait, State::Closed)
    );
    assert_eq!(events(&mut flow.b), [Event::Closed]);
    sim.run(s(62));
    let flow = &mut sim.flows[0];
    assert_eq!(flow.a.state(), State::Closed);
    assert_eq!(
        events(&mut flow.a),
        [Event::Connected, Event::PeerClosed, Event::Closed]
    );
    assert_eq!(flow.a.poll_timeout(), None);
    let log = sim.log.take().unwrap();
    let syn = log[0].2;
    assert_eq!((syn.flags, syn.header_len()), (Flags::SYN, 40));
    // A buffer of 2^30 bytes needs a shift of 15; 14 is the most.
    assert_eq!(syn.syn.and_then(|options| options.window_scale), Some(14));
    assert_eq!(log[1].2.flags, Flags::SYN.with(Flags::ACK));
    let full = log.iter().map(|(_, _, segment)| segment.len).max();
    assert_eq!(full, Some(1448));
}

#[test]
fn both_may_open_at_once_and_close_at_once() {
    let config = Arc::new(Config::default());
    let (mut a, mut b) = (
        Endpoint::connect(Time::ZERO, config.clone(), 1),
        Endpoint::connect(Time::ZERO, config, 2),
    );
    exchange(&mut a, &mut b, ms(1));
    assert_eq!(
        (a.state(), b.state()),
        (State::Established, State::Established)
    );
    a.close();
    b.close();
    exchange(&mut a, &mut b, ms(2));
    assert_eq!((a.state(), b.state()), (State::TimeWait, State::TimeWait));
}

/// Hands all over, each side's segments at once, until both are quiet.
fn exchange(a: &mut Endpoint, b: &mut Endpoint, now: Time) {
    for _ in 0..20 {
        let from_a: Vec<Segment> = std::iter::from_fn(|| a.poll_transmit(now)).collect();
        let from_b: Vec<Segment> = std::iter::from_fn(|| b.poll_transmit(now)).collect();
        from_a
            .iter()
            .for_each(|segment| b.handle_segment(now, segment));
        from_b
            .iter()
            .for_each(|segment| a.handle_segment(now, segment));
    }
}

/// Linux: `tcp_syn_retries` 6 after 1 s and doubling, so that it gives up after 127 s.
#[test]
fn an_unanswered_syn_is_repeated_six_times() {
    let mut sim = Sim::new(Bottleneck::default());
    sim.rule = Box::new(|_, _, _, _| Impairment::Drop);
    sim.log = Some(Vec::new());
    sim.flow(&Config::default(), Span::from_ms(10), Time::ZERO);
    sim.run(s(200));
    let times: Vec<f64> = sim
        .log
        .take()
        .unwrap()
        .iter()
        .map(|(at, _, _)| in_ms(*at))
        .collect();
    let doubled = [0.0, 1e3, 3e3, 7e3, 15e3, 31e3, 63e3];
    assert_eq!(times, doubled);
    assert_eq!(
        events(&mut sim.flows[0].a),
        [Event::TimedOut, Event::Closed]
    );
}

#[test]
fn a_closed_port_refuses_and_a_reset_ends() {
    let config = Arc::new(Config::default());
    let mut a = Endpoint::connect(Time::ZERO, config.clone(), 1);
    let mut closed = Endpoint::listen(config.clone(), 1);
    closed.close();
    exchange(&mut a, &mut closed, ms(1));
    assert_eq!(events(&mut a), [Event::Reset, Event::Closed]);

    let mut a = Endpoint::connect(Time::ZERO, config.clone(), 1);
    let mut b = Endpoint::listen(config, 1);
    exchange(&mut a, &mut b, ms(1));
    // One beside the number awaited only provokes an acknowledgement (RFC 5961 §3.2).
    let beside = Segment {
        seq: 2,
        flags: Flags::RST,
        ..Segment::default()
    };
    b.handle_segment(ms(2), &beside);
    assert_eq!(b.state(), State::Established);
    assert!(
        b.poll_transmit(ms(2))
            .is_some_and(|s| s.flags == Flags::ACK)
    );
    a.abort();
    exchange(&mut a, &mut b, ms(3));
    assert_eq!(
        events(&mut b),
        [Event::Connected, Event::Reset, Event::Closed]
    );
}

#[test]
fn options_hold_only_where_both_have_them() {
    let config = |sack, timestamps, window_scaling| {
        Arc::new(Config {
            sack,
            timestamps,
            window_scaling,
            ..Config::default()
        })
    };
    let mut a = Endpoint::connect(Time::ZERO, config(true, true, true), 1);
    let mut b = Endpoint::listen(config(false, false, false), 1);
    exchange(&mut a, &mut b, ms(1));
    a.write(5000);
    let data = a.poll_transmit(ms(2)).unwrap();
    assert_eq!((data.len, data.timestamps), (1460, None));
    b.handle_segment(ms(2), &Segment { seq: 2000, ..data });
    let ack = b.poll_transmit(ms(2)).unwrap();
    assert!(ack.sacks.is_empty());
    assert!(ack.window <= 0xffff);
}

/// A million endpoints are to fit into 8 GiB with what they hold besides.
#[test]
fn an_idle_endpoint_is_small() {
    let size = std::mem::size_of::<Endpoint>();
    println!("{size} bytes");
    assert!(size <= 568, "{size}");
}
