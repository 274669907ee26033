//! Senders and a sink in one process, over loopback.

use std::io::Write;
use std::net::Shutdown;

use super::*;
use crate::sockets::stream::{self, Exchange, Target};
use crate::sockets::{Series, datagrams, resolve};

/// Runs `work` against a sink; what both came to.
fn with_sink<T>(work: impl FnOnce(u16, u16) -> T) -> (T, Report) {
    let sink = Sink::bind(Some(0), Some(0)).unwrap();
    let (tcp, udp) = sink.ports();
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| sink.serve(None, &stop).unwrap());
        let done = work(tcp.unwrap(), udp.unwrap());
        stop.set();
        (done, serving.join().unwrap())
    })
}

fn target(port: u16) -> Target {
    Target {
        name: "t".to_owned(),
        addresses: resolve("127.0.0.1", port).unwrap(),
        congestion: Some("reno".to_owned()),
    }
}

fn exchange(request: u64, response: u64) -> Exchange {
    Exchange {
        request,
        response,
        think: Span::from_ns(1),
    }
}

#[test]
fn a_bulk_transfer_arrives_whole() {
    let folder = std::env::temp_dir().join(format!("longhaul-series-{}", std::process::id()));
    for bytes in [0, 1, 19, 20, 21, 3_000_000] {
        let mut series = Series::create(&folder, Span::from_ms(1)).unwrap();
        let (sent, got) = with_sink(|tcp, _| {
            let (origin, stop) = (Origin::now(), Stop::default());
            stream::bulk(
                &target(tcp),
                Some(bytes),
                None,
                Some(&mut series),
                origin,
                &stop,
            )
            .unwrap()
        });
        assert_eq!((sent.bytes, &sent.problem), (bytes, &None));
        assert!(sent.finish_s.unwrap() > sent.start_s);
        assert_eq!(sent.congestion.as_deref(), Some("reno"));
        let rtt = sent.rtt_ns.unwrap();
        assert!(rtt.mean <= rtt.max, "{rtt:?}");
        let [flow] = got.flows.try_into().unwrap();
        assert_eq!((flow.bytes, flow.problem), (bytes, None));
        assert_eq!((flow.from, flow.to), (sent.from, sent.to));
        let text = std::fs::read_to_string(&folder).unwrap();
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert!(
            columns.len() >= 2 && columns.iter().all(|&n| n == 7),
            "{text}"
        );
        let last = text
            .lines()
            .last()
            .unwrap()
            .split(',')
            .nth(5)
            .unwrap()
            .to_owned();
        // The SYN, and with all acknowledged the FIN, count in the kernel's number.
        let acked: u64 = last.parse().unwrap();
        assert!((bytes..=bytes + 2).contains(&acked), "{acked} of {bytes}");
    }
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn a_transfer_without_end_is_ended() {
    let (sent, got) = with_sink(|tcp, _| {
        let (origin, stop) = (Origin::now(), Stop::default());
        stream::bulk(
            &target(tcp),
            None,
            Some(Span::from_ms(20)),
            None,
            origin,
            &stop,
        )
        .unwrap()
    });
    assert!(sent.bytes > 0 && sent.finish_s.is_some(), "{sent:?}");
    assert_eq!(got.flows[0].bytes, sent.bytes);
}

#[test]
fn what_is_stopped_says_so() {
    let (sent, _) = with_sink(|tcp, _| {
        let (origin, stop) = (Origin::now(), Stop::default());
        std::thread::scope(|scope| {
            let sending = scope
                .spawn(|| stream::bulk(&target(tcp), None, None, None, origin, &stop).unwrap());
            stop.set();
            sending.join().unwrap()
        })
    });
    assert!(sent.failed && sent.finish_s.is_none());
    assert!(sent.problem.unwrap().contains("stopped by a signal"));
}

#[test]
fn requests_are_answered_in_full() {
    let exchanges = [
        exchange(20, 1),
        exchange(400_000, 700_001),
        exchange(21, 300_000),
    ];
    let total: u64 = exchanges.iter().map(|one| one.request).sum();
    let answered: u64 = exchanges.iter().map(|one| one.response).sum();
    for fresh in [false, true] {
        let (flow, got) = with_sink(|tcp, _| {
            let (origin, stop) = (Origin::now(), Stop::default());
            let exchanges = exchanges.into_iter();
            stream::requests(&target(tcp), exchanges, fresh, None, origin, &stop).unwrap()
        });
        assert_eq!(flow.problem, None);
        assert_eq!(flow.bytes, total + answered);
        assert_eq!(flow.exchanges.unwrap().count, 3);
        assert_eq!(got.flows.len(), if fresh { 3 } else { 1 });
        assert_eq!(got.flows.iter().map(|flow| flow.bytes).sum::<u64>(), total);
        assert!(got.flows.iter().all(|flow| flow.problem.is_none()));
    }
}

#[test]
fn a_request_that_breaks_off_is_a_problem() {
    let (_, got) = with_sink(|tcp, _| {
        let mut stream = TcpStream::connect(("127.0.0.1", tcp)).unwrap();
        stream
            .write_all(b"LHRQ\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\x01")
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // The sink closes when it has seen the end.
        assert_eq!(std::io::Read::read(&mut stream, &mut [0]).unwrap(), 0);
    });
    assert_eq!(got.flows[0].bytes, 20);
    assert!(got.flows[0].problem.is_some() && got.flows[0].finish_s.is_none());
}

#[test]
fn datagrams_are_counted_by_their_sender() {
    let sizes = [0, 1, 1400, 9000];
    let (sent, got) = with_sink(|_, udp| {
        let addresses = resolve("127.0.0.1", udp).unwrap();
        let departures = sizes.map(|size| (Span::from_us(u64::from(size)), size));
        let (origin, stop) = (Origin::now(), Stop::default());
        let send = || {
            let departures = departures.into_iter();
            datagrams::send("d", &addresses, departures, None, origin, &stop).unwrap()
        };
        // Over loopback a datagram is in the socket before its send call has returned.
        [send(), send()]
    });
    assert_eq!(got.flows.len(), 2);
    for (sent, got) in sent.iter().zip(&got.flows) {
        assert_eq!(
            (sent.bytes, sent.packets, sent.refused),
            (10_401, Some(4), Some(0))
        );
        assert_eq!((got.bytes, got.packets), (10_401, Some(4)));
        assert_eq!(got.from.rsplit(':').next(), sent.from.rsplit(':').next());
    }
}

#[test]
fn a_sink_that_was_used_ends_when_it_is_idle() {
    let sink = Sink::bind(None, Some(0)).unwrap();
    let addresses = resolve("127.0.0.1", sink.ports().1.unwrap()).unwrap();
    let (origin, stop) = (Origin::now(), Stop::default());
    let departures = [(Span::ZERO, 5)].into_iter();
    datagrams::send("d", &addresses, departures, None, origin, &stop).unwrap();
    let report = sink.serve(Some(Span::from_ms(1)), &stop).unwrap();
    assert_eq!((report.flows.len(), report.unlisted), (1, 0));
    assert_eq!(report.flows[0].bytes, 5);
}
