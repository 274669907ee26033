//! An end of a flow knows only what has come to its host: single cases of what ends do when packets
//! between them are lost, late or refused.

use std::sync::Arc;

use longhaul_core::units::Rate;
use longhaul_core::{NodeId, Span, Time};
use longhaul_proto::modelled::{
    Application, FIRST_PORT, FlowSpec, IpVersion, Outcome, Peer, Side, Traffic, Transport,
};
use longhaul_proto::tcp::Config;

use super::shares::{hasty, part};
use super::wires::{Packet, Wires, hosts};

fn bulk(config: Config, bytes: Option<u64>) -> FlowSpec {
    FlowSpec {
        name: "one".into(),
        from: NodeId(0),
        to: Peer::Model(NodeId(1)),
        transport: Transport::Tcp(Arc::new(config), IpVersion::V4),
        application: Application::Bulk {
            bytes: bytes.map(Into::into),
        },
        start: Time::ZERO,
        stop: None,
        series: false,
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// Both ends apart, 5 ms each way, but for what host 1 sends between two times.
fn mute(spec: FlowSpec, from: Time, to: Time) -> Wires {
    let delays = move |packet: &mut Packet| {
        if packet.from.0 == 1 && (from..to).contains(&packet.at) {
            Vec::new()
        } else {
            vec![Span::from_ms(5)]
        }
    };
    Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays))
}

#[test]
fn a_client_that_gives_up_leaves_its_server_waiting() {
    let mut wires = mute(bulk(hasty(), None), at(100), Time::MAX);
    wires.run(at(600_000));
    let [client, server] = [Side::Opener, Side::Acceptor].map(|side| part(&wires, side));
    assert_eq!(client.outcome, Outcome::TimedOut);
    assert!(client.finish > Some(at(400)), "{client:?}");
    // No packet has shown it.
    assert_eq!((server.outcome, server.finish), (Outcome::Running, None));
    assert!(server.bytes > 0);
    let result = &wires.results()[0];
    assert_eq!(
        (result.outcome, result.finish),
        (Outcome::TimedOut, client.finish)
    );
    assert_eq!(result.bytes, server.bytes);
    assert_eq!((wires.progress(), wires.next()), ((1, 1), None));
}

#[test]
fn a_server_that_never_had_a_connection_listens_again_when_it_is_reset() {
    let config = Config {
        syn_retries: 1,
        synack_retries: 5,
        ..Config::default()
    };
    // The client hears none of the first SYN-ACKs, and gives up after its SYNs at 0 and 1 s.
    let mut wires = mute(bulk(config, None), Time::ZERO, at(5000));
    wires.run(at(6000));
    let [client, server] = [Side::Opener, Side::Acceptor].map(|side| part(&wires, side));
    assert_eq!(
        (client.outcome, client.finish),
        (Outcome::TimedOut, Some(at(3000)))
    );
    assert_eq!((server.outcome, server.finish), (Outcome::Running, None));
    wires.run(at(60_000));
    // The first SYN-ACK that arrives is answered with a reset, and no other is sent: the server
    // listens again, which says nothing of the flow.
    let sent = wires.sent[1].iter().filter(|sent| sent.at >= at(5000));
    assert_eq!((sent.count(), wires.next()), (1, None));
    let server = part(&wires, Side::Acceptor);
    assert_eq!((server.outcome, server.finish), (Outcome::Running, None));
    let result = &wires.results()[0];
    assert_eq!(
        (result.outcome, result.finish),
        (Outcome::TimedOut, Some(at(3000)))
    );
    let strays = wires.strays();
    assert_eq!((strays.unknown, strays.answered), (1, 1));
}

/// Its port still takes connections.
#[test]
fn a_server_that_listens_again_takes_a_connection() {
    let config = Config {
        syn_retries: 6,
        synack_retries: 0,
        ..Config::default()
    };
    // The server gives up 1 s after its SYN-ACK, which is lost. The client's second SYN, of 1 s, comes
    // 100 ms behind that.
    let delays = |packet: &mut Packet| match (packet.from.0, packet.number) {
        (1, 0) => Vec::new(),
        (0, 1) => vec![Span::from_ms(105)],
        _ => vec![Span::from_ms(5)],
    };
    let spec = bulk(config, Some(5000));
    let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
    wires.run(at(60_000));
    assert_eq!(wires.sent[1][1].at, at(1105));
    let result = &wires.results()[0];
    assert_eq!((result.outcome, result.bytes), (Outcome::Finished, 5000));
}

/// Its request is acknowledged, so that nothing is left to send again; then the network is cut.
#[test]
fn a_client_that_hears_no_more_gives_up_after_its_server() {
    let patience = hasty().longest_silence();
    assert_eq!(patience, Span::from_s(600));
    // With delayed acknowledgements, the client's last timer is that of one of these.
    let cuts = [
        (40, true, 16, 10),
        (24, true, 16, 10),
        (24, true, 0, 9),
        (40, false, 16, 10),
    ];
    for (cut, is_cut_for_good, quickack, initcwnd) in cuts {
        let cut = at(cut);
        let config = Config {
            quickack,
            initcwnd,
            ..hasty()
        };
        let spec = requests(config, [100, 10_000_000], Span::from_s(1000));
        let mended = if is_cut_for_good { Time::MAX } else { at(1500) };
        let mut wires = mute(spec, cut, mended);
        let heard = wires_heard(&mut wires, cut);
        wires.run(heard + patience - Span::from_ns(1));
        assert_eq!(part(&wires, Side::Opener).outcome, Outcome::Running);
        let server = part(&wires, Side::Acceptor).outcome;
        assert_eq!(
            server,
            if is_cut_for_good {
                Outcome::TimedOut
            } else {
                Outcome::Running
            }
        );
        wires.run(heard + patience + Span::from_s(1));
        let client = part(&wires, Side::Opener);
        if is_cut_for_good {
            let ended = (client.outcome, client.finish);
            assert_eq!(ended, (Outcome::TimedOut, Some(heard + patience)));
            assert_eq!((wires.progress(), wires.next()), ((1, 1), None));
        } else {
            assert_eq!(client.outcome, Outcome::Running, "the server sends again");
        }
    }
}

/// When the client heard its server last, where that is mute from `cut` on.
fn wires_heard(wires: &mut Wires, cut: Time) -> Time {
    wires.run(cut);
    let sent = wires.sent[1].iter().map(|sent| sent.at);
    sent.filter(|sent| *sent < cut).max().expect("a segment") + Span::from_ms(5)
}

#[test]
fn a_server_that_closes_before_its_response_is_out_fails_the_flow() {
    let spec = requests(Config::default(), [100, 10_000_000], Span::ZERO);
    let mut forged = false;
    let delays = move |packet: &mut Packet| {
        // One segment of the response arrives as one without payload, and as the last one.
        let is_response = packet.from.0 == 1 && packet.at >= at(40);
        if is_response && !forged {
            let words = &packet.headers[34 + 12..34 + 14];
            let length_and_fin = u16::from_be_bytes([words[0], 0x11]);
            packet.set_word(16, 12, length_and_fin);
            forged = true;
        }
        vec![Span::from_ms(5)]
    };
    let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
    wires.run(at(60_000));
    let client = part(&wires, Side::Opener);
    assert_eq!(client.outcome, Outcome::Reset);
    assert!(client.finish < Some(at(100)), "{:?}", client.finish);
    assert_eq!(wires.results()[0].outcome, Outcome::Reset);
    assert_eq!(wires.next(), None, "nobody sends any more");
}

/// The client gives up, and later what it sent arrives: what has been said of the flow stands.
#[test]
fn what_is_said_of_a_flow_stands() {
    // The handshake and the first segment pass; all others take 900 s, and no acknowledgement gets
    // through.
    let delays = |packet: &mut Packet| match (packet.from.0, packet.at > at(8)) {
        (0, _) if packet.number > 1 => vec![Span::from_s(900)],
        (1, true) => Vec::new(),
        _ => vec![Span::from_ms(5)],
    };
    let spec = bulk(hasty(), Some(5000));
    let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
    wires.run(at(800_000));
    let client = part(&wires, Side::Opener).finish.expect("an end");
    let said = |wires: &Wires| (wires.results()[0].outcome, wires.results()[0].finish);
    assert_eq!(said(&wires), (Outcome::TimedOut, Some(client)));
    wires.run(at(2_000_000));
    let server = part(&wires, Side::Acceptor);
    assert_eq!((server.outcome, server.bytes), (Outcome::Finished, 5000));
    assert!(server.finish > Some(at(900_000)));
    assert_eq!(said(&wires), (Outcome::TimedOut, Some(client)));
}

/// A copy that comes when its number is no longer remembered is no reason to wait for fewer.
#[test]
fn old_copies_do_not_stand_for_what_is_lost() {
    let rate = Rate::from_bits_per_s(8_000_000).unwrap();
    let bytes = Some(3_000_000);
    let spec = FlowSpec {
        transport: Transport::Udp {
            payload: 1000,
            ip: IpVersion::V4,
        },
        application: Application::Constant { rate, bytes },
        ..bulk(Config::default(), None)
    };
    // Number 7 is lost, and number 3 comes once more 2 s later; the last one leaves at 2.999 s.
    let delays = |packet: &mut Packet| match packet.number {
        7 => Vec::new(),
        3 => vec![Span::from_ms(5), Span::from_s(2)],
        _ => vec![Span::from_ms(5)],
    };
    let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
    wires.run(at(12_990));
    assert_eq!(wires.awaited(), 1);
    wires.run(at(13_000));
    assert_eq!(wires.awaited(), 0);
    let results = wires.results();
    let figures = results[0].datagrams.as_ref().expect("datagrams");
    assert_eq!(
        (figures.sent, figures.received, figures.reordered),
        (3000, 3000, 1)
    );
}

fn requests(config: Config, [request, response]: [u64; 2], think: Span) -> FlowSpec {
    let mut spec = bulk(config, None);
    spec.application = Application::Requests {
        requests: None,
        request: request.into(),
        response: response.into(),
        think: think.into(),
        new_connection: true,
    };
    spec
}

/// A client that somebody has reset is gone; its server hears of that by what it sends itself.
#[test]
fn a_server_that_sends_to_a_client_which_was_reset_is_reset() {
    let spec = requests(Config::default(), [100, 10_000_000], Span::ZERO);
    let mut forged = false;
    let delays = move |packet: &mut Packet| {
        // One segment of the response arrives as a reset, with the number that is awaited.
        if packet.from.0 == 1 && packet.at >= at(40) && !forged {
            let words = &packet.headers[34 + 12..34 + 14];
            let length_and_reset = u16::from_be_bytes([words[0], 0x14]);
            packet.set_word(16, 12, length_and_reset);
            forged = true;
        }
        vec![Span::from_ms(5)]
    };
    let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
    wires.run(at(44));
    assert_eq!(part(&wires, Side::Opener).outcome, Outcome::Running);
    wires.run(at(60_000));
    let [client, server] = [Side::Opener, Side::Acceptor].map(|side| part(&wires, side));
    assert_eq!(
        (client.outcome, server.outcome),
        (Outcome::Reset, Outcome::Reset)
    );
    // The next segment, to the client's host and back.
    let (client, server) = (client.finish.unwrap(), server.finish.unwrap());
    assert!(
        client >= at(45) && server > client && server < at(65),
        "{client:?} {server:?}"
    );
    assert!(wires.results()[0].bytes < 1_000_000);
    assert_eq!(wires.next(), None, "nobody sends any more");
}

/// The client has its response and asks anew; that its last word on the old connection is lost for
/// ever concerns the server alone.
#[test]
fn a_connection_that_dies_behind_its_response_is_nothing_to_its_flow() {
    // The handshake and the request get through; then the first FIN too, or not even that, so that
    // the server does not know that its response has arrived.
    for (cut, server_says) in [(25, Outcome::Running), (15, Outcome::TimedOut)] {
        let spec = requests(hasty(), [100, 1000], Span::from_s(20));
        let delays = move |packet: &mut Packet| {
            let is_first = packet.from.0 == 0 && packet.port() == FIRST_PORT;
            if is_first && packet.at > at(cut) {
                Vec::new()
            } else {
                vec![Span::from_ms(5)]
            }
        };
        let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
        wires.run(at(19_000));
        // It sends again, and gives up.
        let sent = wires.sent[1].len();
        assert!(sent > 5, "{sent}");
        for (ms, completed) in [(19_000, 1), (50_000, 3)] {
            wires.run(at(ms));
            let [client, server] = [Side::Opener, Side::Acceptor].map(|side| part(&wires, side));
            assert_eq!(
                (client.outcome, server.outcome),
                (Outcome::Running, server_says)
            );
            assert_eq!(client.requests.unwrap().completed, completed);
            assert_eq!(wires.results()[0].outcome, Outcome::Running);
        }
    }
}

/// A receiver knows what can have been sent.
#[test]
fn datagrams_that_were_never_sent_are_not_counted() {
    let flow = |gaps: fn(Rate) -> Application| FlowSpec {
        transport: Transport::Udp {
            payload: 1000,
            ip: IpVersion::V4,
        },
        application: gaps(Rate::from_bits_per_s(800_000).unwrap()),
        ..bulk(Config::default(), None)
    };
    let sources: [fn(Rate) -> Application; 2] = [
        |rate| Application::Constant { rate, bytes: None },
        |rate| Application::Poisson { rate, bytes: None },
    ];
    for gaps in sources {
        let mut spec = flow(gaps);
        spec.stop = Some(at(1000));
        // Of every third, the number is that of the next one.
        let delays = |packet: &mut Packet| {
            if packet.number.is_multiple_of(3) {
                packet.set_word(6, 8 + 6, packet.number as u16 + 1);
            }
            vec![Span::from_us(10)]
        };
        let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
        wires.run(at(60_000));
        let result = &wires.results()[0];
        let figures = result.datagrams.as_ref().unwrap();
        let forged = figures.sent.div_ceil(3);
        assert!(figures.sent > 50);
        // None comes early: the next one is sent much more than 10 us later, but for few.
        assert!(figures.received <= figures.sent - forged + 2, "{figures:?}");
        assert!(figures.duplicates <= 2, "{figures:?}");
        // And as some are missing, the flow lasts 10 s longer.
        assert_eq!(result.outcome, Outcome::Finished);
        assert_eq!(wires.strays().damaged, 0);
    }
}

/// The last acknowledgement is lost, and its end is gone: its host answers the FIN that comes again.
#[test]
fn a_fin_that_comes_again_is_acknowledged_without_an_end() {
    for ip in [IpVersion::V4, IpVersion::V6] {
        let mut spec = bulk(Config::default(), Some(1000));
        spec.transport = Transport::Tcp(Arc::new(Config::default()), ip);
        // SYN, the acknowledgement of the SYN-ACK with data and FIN, that of the server's FIN.
        let mut lost = 0;
        let delays = move |packet: &mut Packet| {
            let is_last = packet.from.0 == 0 && packet.at >= at(20);
            lost += u64::from(is_last);
            if is_last && lost <= 2 {
                Vec::new()
            } else {
                vec![Span::from_ms(5)]
            }
        };
        let mut wires = Wires::new(vec![spec], 1, vec![0, 1], Box::new(delays));
        wires.run(at(60_000));
        let result = &wires.results()[0];
        assert_eq!((result.outcome, result.bytes), (Outcome::Finished, 1000));
        let late: Vec<_> = wires.sent[0]
            .iter()
            .filter(|sent| sent.at >= at(20))
            .collect();
        // One that is lost from the end, one more from the host, and one that arrives.
        assert_eq!(late.len(), 3, "{late:?}");
        let strays = wires.strays();
        assert_eq!((strays.unknown, strays.answered), (2, 2));
        // The server has heard it, and does not send its FIN a fourth time.
        let fins = wires.sent[1].iter().filter(|sent| sent.at >= at(15));
        assert_eq!(fins.count(), 3);
        assert_eq!(wires.next(), None);
        assert_eq!(part(&wires, Side::Acceptor).outcome, Outcome::Finished);
    }
}

/// Which of two ends was made first, and so has the lower slot, does not show in what they do.
#[test]
fn timers_at_one_time_follow_host_flow_and_side() {
    let rate = Rate::from_bits_per_s(800_000).unwrap();
    let flow = |name: &str, from: u32, to: u32, start_ms: u64| FlowSpec {
        name: name.into(),
        from: NodeId(from),
        to: Peer::Model(NodeId(to)),
        transport: Transport::Udp {
            payload: 1000,
            ip: IpVersion::V4,
        },
        application: Application::Constant { rate, bytes: None },
        start: at(start_ms),
        stop: None,
        series: false,
    };
    // One datagram every 10 ms each, all at the same times from 40 ms on.
    for starts in [[10, 20, 30, 40], [40, 30, 20, 10], [30, 10, 40, 20], [0; 4]] {
        let ends = [(2, 0), (1, 0), (2, 1), (1, 2)];
        let flows = ends.iter().zip(starts).zip(["a", "b", "c", "d"]);
        let flows = flows.map(|((&(from, to), start), name)| flow(name, from, to, start));
        let mut traffic = Traffic::new(hosts(3), flows, 1).unwrap();
        let mut sent = Vec::new();
        for ms in (0..=60).step_by(10) {
            traffic.handle_timeout(at(ms));
            while let Some(packet) = traffic.poll_transmit() {
                assert_eq!(packet.at, at(ms));
                sent.push((ms, packet.host.0, packet.to.0));
            }
        }
        // Where all begin together, also as they begin.
        let from = if starts == [0; 4] { 0 } else { 50 };
        for ms in (from..=60).step_by(10) {
            let of_now = sent.iter().filter(|sent| sent.0 == ms);
            let of_now: Vec<_> = of_now.map(|&(_, host, to)| (host, to)).collect();
            assert_eq!(of_now, [(1, 0), (1, 2), (2, 0), (2, 1)], "{starts:?}");
        }
    }
}
