//! The commands against each other over loopback: counts, not times.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

/// A command with its arguments in one text.
fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-bench"));
    command.args(arguments.split_whitespace());
    command
}

/// A receiver that is bound, and its port. Its stderr stays open as long as it runs.
struct Receiver {
    child: Option<Child>,
    port: u16,
    _stderr: BufReader<ChildStderr>,
}

impl Receiver {
    fn start(arguments: &str) -> Self {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.strip_prefix("ready ").map(str::trim);
        let port = port.unwrap_or_else(|| panic!("not ready: {line}"));
        Self {
            port: port.parse().unwrap(),
            child: Some(child),
            _stderr: stderr,
        }
    }

    fn report(mut self) -> Value {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// A failed test leaves no receiver behind.
impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn report(arguments: &str) -> Value {
    let output = command(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn udp_at_a_rate_arrives_complete_in_both_families() {
    for host in ["127.0.0.1", "[::1]"] {
        let receiver = Receiver::start("udp-recv --port 0 --expect 200 --deadline 20");
        let to = format!("{host}:{}", receiver.port);
        let sent = report(&format!(
            "udp-send --to {to} --size 100 --rate 5000 --count 200"
        ));
        assert_eq!(
            (&sent["sent"], &sent["late_ns"]["count"]),
            (&200.into(), &200.into())
        );
        let got = receiver.report();
        assert_eq!(got["received"], 200);
        assert_eq!(got["bytes"], 20_000);
        assert_eq!((&got["lost"], &got["flows"]), (&0.into(), &1.into()));
        assert_eq!(got["delay_ns"]["count"], 200);
        assert_eq!(got["spacing_ns"]["count"], 199);
        assert_eq!(got["kernel_drops"], 0);
        assert_eq!(got["ended_by"], "expect");
    }
}

#[test]
fn udp_in_batches_is_accounted_for_exactly() {
    let receiver = Receiver::start("udp-recv --port 0 --idle 0.5 --deadline 20");
    let to = format!("127.0.0.1:{}", receiver.port);
    let sent = report(&format!(
        "udp-send --to {to} --size 18 --rate max --count 1000"
    ));
    assert_eq!(
        (&sent["sent"], &sent["late_ns"]),
        (&1000.into(), &Value::Null)
    );
    let got = receiver.report();
    let drops = got["kernel_drops"].as_u64().unwrap();
    assert_eq!(got["received"].as_u64().unwrap() + drops, 1000);
    assert_eq!(
        (&got["reordered"], &got["duplicates"]),
        (&0.into(), &0.into())
    );
    assert_eq!(got["ended_by"], "idle");
}

#[test]
fn small_payloads_have_numbers_but_no_delay() {
    let receiver = Receiver::start("udp-recv --port 0 --expect 10 --deadline 20");
    let to = format!("127.0.0.1:{}", receiver.port);
    report(&format!(
        "udp-send --to {to} --size 8 --rate max --count 10"
    ));
    let got = receiver.report();
    assert_eq!((&got["lost"], &got["delay_ns"]), (&0.into(), &Value::Null));
}

#[test]
fn a_receiver_without_traffic_ends_at_its_deadline() {
    let got = Receiver::start("udp-recv --port 0 --deadline 0.1 --expect 3").report();
    assert_eq!((&got["received"], &got["lost"]), (&0.into(), &3.into()));
    assert_eq!(got["ended_by"], "deadline");
}

#[test]
fn a_flood_is_counted_by_thread() {
    let receiver = Receiver::start("udp-recv --port 0 --idle 0.5 --deadline 20");
    let to = format!("127.0.0.1:{}", receiver.port);
    let sent = report(&format!(
        "flood --to {to} --threads 2 --size 32 --seconds 0.05"
    ));
    let got = receiver.report();
    assert_eq!(got["flows"], 2);
    let drops = got["kernel_drops"].as_u64().unwrap();
    let received = got["received"].as_u64().unwrap();
    assert_eq!(received + drops, sent["sent"].as_u64().unwrap());
}

#[test]
fn tcp_carries_every_byte_in_both_families() {
    for host in ["127.0.0.1", "[::1]"] {
        let receiver = Receiver::start("tcp-recv --port 0 --once");
        let to = format!("{host}:{}", receiver.port);
        let sent = report(&format!(
            "tcp-send --to {to} --bytes 3000001 --congestion reno"
        ));
        let got = receiver.report();
        assert_eq!(
            (&sent["bytes"], &got["bytes"]),
            (&3_000_001.into(), &3_000_001.into())
        );
        assert_eq!(sent["congestion"], "reno");
        assert!(sent["retransmits"].is_u64() && sent["min_rtt_us"].is_u64());
        assert!(got["rcv_ooopack"].is_u64() && got["counters"]["Tcp.RetransSegs"].is_i64());
    }
}

#[test]
fn tcp_receives_several_connections_and_ends_on_time() {
    let receiver = Receiver::start("tcp-recv --port 0 --connections 2 --seconds 20");
    let to = format!("127.0.0.1:{}", receiver.port);
    for _ in 0..2 {
        report(&format!("tcp-send --to {to} --seconds 0.05"));
    }
    let got = receiver.report();
    assert_eq!(got["connections"].as_array().unwrap().len(), 2);
    assert_eq!(got["connections"][0]["error"], Value::Null);

    let got = Receiver::start("tcp-recv --port 0 --seconds 0.1").report();
    assert_eq!(got["bytes"], 0);
}

#[test]
fn round_trips_come_back() {
    let receiver = Receiver::start("echo --port 0 --seconds 2");
    let to = format!("127.0.0.1:{}", receiver.port);
    let got = report(&format!(
        "rtt --to {to} --count 50 --interval 100 --size 64"
    ));
    assert_eq!((&got["received"], &got["lost"]), (&50.into(), &0.into()));
    assert_eq!(got["rtt_ns"]["count"], 50);
    assert_eq!(receiver.report()["echoed"], 50);
}

#[test]
fn pings_are_answered_in_both_families() {
    // A run's hosts allow echo sockets to everybody; the machine may not.
    let allowed = command("spin --to 127.0.0.1 --count 1").output().unwrap();
    if String::from_utf8_lossy(&allowed.stderr).contains("Permission denied") {
        eprintln!("note: net.ipv4.ping_group_range allows no echo sockets, so they are not tested");
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        let got = report(&format!("spin --to {host} --count 50 --interval 200"));
        assert_eq!((&got["sent"], &got["answered"]), (&50.into(), &50.into()));
        assert_eq!(got["duplicates"], 0);
        assert_eq!(got["rtt_ns"]["count"], 50);
        let most = |name: &str| got[name]["max"].as_i64().unwrap();
        assert!(most("rtt_floor_ns") <= most("rtt_ns"), "{got}");
        assert!(got["late_ns"]["min"].as_i64().unwrap() >= 0, "{got}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let exit = |arguments: &str| {
        let output = command(arguments).output().unwrap();
        assert!(output.stdout.is_empty());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), complaint)
    };
    let (code, complaint) = exit("tcp-send --to 127.0.0.1:1 --bytes 1");
    assert_eq!(code, Some(1));
    assert!(complaint.contains("127.0.0.1:1"), "{complaint}");
    let (code, complaint) = exit("frames --interface nosuch0");
    assert_eq!(code, Some(1));
    assert!(complaint.contains("nosuch0"), "{complaint}");
    let (code, _) = exit("udp-send --to x:1 --size 4 --rate 1 --count 1");
    assert_eq!(code, Some(2));
}
