//! What a live run writes down: captures that callers ask for, series of hosts and connections, and what is left
//! of them where a run is killed or its disk is full.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use crate::lab::{Lab, Run, have, signal};
use crate::outcome::{Outcome, number};
use crate::reader::{self, Packet};
use crate::table::{parts, rows};

/// The frame check sequence, which pipes count and captures lack.
const FCS: u64 = 4;
/// How long something may take that takes milliseconds on a machine that is not busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A path whose second hop is slower than its first and loses packets; a program that sends on demand.
const PATH: &str = "
topology:
  nodes: { a: {}, g: { kind: router }, b: {} }
  links:
    - { ends: [a, g], rate: 1 Gbit/s, delay: 1 ms, mtu: 9000 B }
    - { ends: [g, b], rate: $RATE, delay: 2 ms, loss: 2 %, queue: 30 packets, mtu: 9000 B }
programs:
  drain: { on: b, run: python3 $DIR/record.py drain, ready: log ready, service: true }
  send: { on: a, run: python3 $DIR/record.py datagrams b $ROUNDS, after: drain }
";

fn path(rate: &str, rounds: &str) -> String {
    PATH.replace("$RATE", rate).replace("$ROUNDS", rounds)
}

/// Lets the program that sends begin its next round.
fn go(run: &mut Run<'_>, round: usize) {
    run.wait_for("send.out", &format!("waits for go-{round}"));
    fs::write(run.out().join(format!("hosts/a/go-{round}")), "").unwrap();
}

/// `longhaul capture` under way.
struct Capture {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Capture {
    /// Begins one, and waits until it says so.
    fn begin(lab: &Lab, run: &Run<'_>, arguments: &[&str]) -> Self {
        let folder = run.out().to_str().unwrap();
        let mut command = lab.longhaul(&[&["capture", "--run", folder], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starting longhaul");
        let stdout = child.stdout.take();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        assert!(said.contains("capturing "), "{said}");
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Reads along to the end, on a thread of its own.
    fn read(&mut self) -> JoinHandle<Vec<u8>> {
        let mut stdout = self.stdout.take().expect("not read yet");
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }

    /// Its exit code, once it has ended by itself, and what it has said since it began.
    fn wait(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the capture does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pipe<'a>(outcome: &'a Outcome, name: &str) -> &'a Value {
    let mut pipes = outcome.summary["pipes"].as_array().unwrap().iter();
    pipes.find(|pipe| pipe["name"] == name).expect("a pipe")
}

fn comment(packet: &Packet) -> &str {
    packet.options.text(1)
}

/// The interface of a pipe.
fn interface_of(file: &reader::File, pipe: &str) -> usize {
    let mut interfaces = file.interfaces.iter();
    let found = interfaces.position(|interface| interface.options.text(2) == pipe);
    found.expect("an interface of the pipe")
}

/// Holds a whole capture to the counters of a pipe, all of which it has seen.
fn hold_counters(bytes: &[u8], outcome: &Outcome, name: &str) {
    let file = reader::read(bytes);
    assert_eq!(file.rest, 0, "it is whole");
    assert!(file.packets.is_sorted_by_key(|packet| packet.time));
    let interface = interface_of(&file, name);
    let own: Vec<&Packet> = file
        .packets
        .iter()
        .filter(|packet| packet.interface == interface)
        .collect();
    let with = |text: &str| -> Vec<&Packet> {
        let own = own.iter().copied();
        own.filter(|packet| comment(packet) == text).collect()
    };
    let counted = |field: &str| number(&pipe(outcome, name)[field]);
    assert_eq!(with("").len() as u64, counted("packets"), "{outcome}");
    for (cause, field) in [
        ("queue", "drops_queue"),
        ("loss", "drops_loss"),
        ("link_down", "drops_down"),
    ] {
        let dropped = with(&format!("dropped: {cause}")).len() as u64;
        assert_eq!(dropped, counted(field), "{cause}");
    }
    let length: u64 = with("")
        .iter()
        .map(|packet| u64::from(packet.len) + FCS)
        .sum();
    assert_eq!(length, counted("bytes"));
    let statistics = file.statistics.iter();
    let mut statistics = statistics.filter(|statistics| statistics.interface == interface);
    let options = &statistics.next().expect("statistics at its end").options;
    assert_eq!(options.u64(4), Some(own.len() as u64), "isb_ifrecv");
    assert_eq!(options.u64(5), Some(0), "isb_ifdrop");
    // The capture began within the run, and not after its first packet.
    let start = options.time(2).expect("isb_starttime");
    assert!(start > 0 && start <= own[0].time);
}

#[test]
fn a_capture_of_a_live_run_has_what_the_pipe_counts() {
    if !have("python3") {
        return;
    }
    let lab = Lab::new();
    let mut run = lab.start(&path("8 Mbit/s", "1500x900x200"));
    run.wait_for("send.out", "waits for go-0");
    let file = lab.dir().join("g-b.pcapng");
    let to_file = Capture::begin(&lab, &run, &["g-b", "-w", file.to_str().unwrap()]);
    let mut to_stdout = Capture::begin(&lab, &run, &["g>b"]);
    let chosen = ["g>b", "udp", "and", "dropped", "queue"];
    let mut refused = Capture::begin(&lab, &run, &chosen);
    let mut gone = Capture::begin(&lab, &run, &["all"]);
    go(&mut run, 0);
    // A reader that goes away ends its capture, and nothing else.
    drop(gone.stdout.take());
    let (code, said) = gone.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(!run.has_ended());
    let readers = [&mut to_stdout, &mut refused].map(Capture::read);
    let outcome = run.wait().succeeded();
    // They have seen the end.
    let [bytes, refused_bytes] = readers.map(|reader| reader.join().unwrap());
    for capture in [to_file, to_stdout, refused] {
        let (code, said) = capture.wait();
        assert_eq!(code, Some(0), "{said}");
    }
    assert!(
        number(&pipe(&outcome, "g>b")["drops_queue"]) > 100,
        "{outcome}"
    );
    assert!(number(&pipe(&outcome, "g>b")["drops_loss"]) > 0);
    hold_counters(&bytes, &outcome, "g>b");
    hold_counters(&fs::read(&file).unwrap(), &outcome, "g>b");
    let refused = reader::read(&refused_bytes).packets;
    let expected = number(&pipe(&outcome, "g>b")["drops_queue"]);
    assert_eq!(refused.len() as u64, expected);
    assert!(
        refused
            .iter()
            .all(|packet| comment(packet) == "dropped: queue")
    );
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads packets");
}

/// The run goes on, what waits for the reader is bounded, and what it has missed is counted.
#[test]
fn a_reader_that_stops_reading_holds_up_nothing() {
    if !have("python3") {
        return;
    }
    let lab = Lab::new();
    // 35 MB, of which 16 MiB may wait.
    let mut run = lab.start(&path("1 Gbit/s", "4000x8800x100 20x8800x1000"));
    run.wait_for("send.out", "waits for go-0");
    let mut capture = Capture::begin(&lab, &run, &["g>b"]);
    go(&mut run, 0);
    run.wait_for("send.out", "sent 0");
    // Nobody has read a byte, and the program has gone on.
    run.wait_for("send.out", "waits for go-1");
    std::thread::sleep(Duration::from_millis(300));
    let mut stdout = capture.stdout.take().unwrap();
    let mut bytes = vec![0; 16 << 20];
    stdout.read_exact(&mut bytes).unwrap();
    std::thread::sleep(Duration::from_millis(200)); // the rest waits in the pipe
    go(&mut run, 1);
    stdout.read_to_end(&mut bytes).unwrap();
    let outcome = run.wait().succeeded();
    let file = reader::read(&bytes);
    let counter = |field: &str| number(&pipe(&outcome, "g>b")[field]);
    let all = counter("packets") + counter("drops");
    assert!(all > 3000, "{outcome}");
    let options = &file.statistics[0].options;
    assert_eq!(options.u64(4), Some(all), "isb_ifrecv");
    let missed = options.u64(5).expect("isb_ifdrop");
    assert_eq!(file.packets.len() as u64 + missed, all);
    assert!(missed > 500, "{missed} of {all}");
    assert!(bytes.len() < 20 << 20, "{} bytes", bytes.len());
    // The next packet says how many were missed before it.
    let counted: u64 = file
        .packets
        .iter()
        .filter_map(|packet| packet.options.u64(4))
        .sum();
    assert_eq!(counted, missed, "epb_dropcount");
    let (code, said) = capture.wait();
    assert_eq!(code, Some(0), "{said}");
}

/// Connections of two kernels, of the model, and what hosts use.
#[test]
fn hosts_and_connections_have_series() {
    if !have("python3") {
        return;
    }
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { h: { count: 4 }, g: { kind: router } }
  links: [ { ends: [h, g], rate: 40 Mbit/s, delay: 5 ms, queue: 200 packets } ]
programs:
  serve: { on: h1, run: python3 $DIR/record.py serve, ready: log ready }
  send: { on: h0, run: python3 $DIR/record.py send h1 4000000, after: serve }
  burn: { on: h2, run: python3 $DIR/record.py burn 0.6 }
traffic:
  bulk: { from: h3, to: h2, bytes: 3 MB }
measure: { connections: 30 ms, hosts: 200 ms, format: csv }
",
    );
    let connections = rows(outcome.out(), "connections");
    // A modelled sender closes as soon as all is handed to TCP.
    for (host, peer, flow) in [("h0", "h1", ""), ("h3", "h2", "bulk/0")] {
        let own = connections.iter().filter(|row| {
            (row.text("host"), row.text("peer"), row.text("flow")) == (host, peer, flow)
                && matches!(row.text("state"), "ESTABLISHED" | "FIN-WAIT-1")
        });
        let own: Vec<_> = own.collect();
        assert!(
            own.len() >= 5,
            "{host}: {} rows of {connections:?}",
            own.len()
        );
        let id = own[0].text("id");
        assert!(own.iter().all(|row| row.text("id") == id), "one connection");
        let times = own.iter().map(|row| row.whole("time_ns"));
        assert!(times.is_sorted(), "{host}");
        let acked = own.iter().map(|row| row.whole("acked_bytes"));
        assert!(acked.clone().is_sorted() && acked.max() > Some(100_000));
        let mss = own[0].whole("mss");
        assert!((500..1500).contains(&mss), "a segment of {mss}");
        let windows = own.iter().map(|row| row.whole("cwnd_bytes"));
        assert!(windows.max() >= Some(20 * mss), "the window has grown");
        for row in own.iter().filter(|row| !row.text("srtt_ns").is_empty()) {
            // Two links there and back: 20 ms, and at most what the queues hold, 60 ms each.
            let srtt = row.whole("srtt_ns");
            assert!((20_000_000..400_000_000).contains(&srtt), "{row:?}");
            assert!(row.whole("min_rtt_ns") >= 20_000_000, "{row:?}");
        }
    }
    // Both ends of a program's connection.
    let mut ends = connections.iter().filter(|row| row.text("host") == "h1");
    assert!(ends.any(|row| row.text("peer") == "h0" && row.text("port") == "5000"));
    let hosts = rows(outcome.out(), "hosts");
    let cpu_ns = |host: &str| {
        let own = hosts.iter().filter(|row| row.text("host") == host);
        own.map(|row| row.whole("cpu_ns")).sum::<u64>()
    };
    let text = outcome.log("burn.out");
    let burnt: f64 = text.trim().strip_prefix("burnt ").unwrap().parse().unwrap();
    let reported = cpu_ns("h2") as f64 / 1e9;
    assert!(
        reported > 0.95 * burnt && reported < burnt + 0.3,
        "{reported} of {burnt} s"
    );
    assert!(cpu_ns("h3") < 100_000_000, "nothing runs there");
    for pair in hosts
        .windows(2)
        .filter(|pair| pair[0].text("host") == pair[1].text("host"))
    {
        let end = pair[0].whole("start_ns") + pair[0].whole("width_ns");
        assert_eq!(end, pair[1].whole("start_ns"), "rows lie behind each other");
    }
}

/// Ends a run midway, with the signal that nobody can catch.
fn killed(lab: &Lab, format: &str) -> PathBuf {
    let mut run = lab.start(&format!(
        "{}measure: {{ every: 1 ms, disk: 1 MB, format: {format}, capture: [g-b] }}\n",
        path("100 Mbit/s", "100000x500x1000")
    ));
    go(&mut run, 0);
    let begun = Instant::now();
    // A part of 500 rows is full after half a second.
    while parts(run.out(), "core").len() < 2 {
        assert!(
            begun.elapsed() < PATIENCE && !run.has_ended(),
            "{}",
            run.said()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(run.pid(), "KILL");
    let out = run.out().to_owned();
    let outcome = run.wait();
    assert_eq!(outcome.code, 128 + 9);
    out
}

#[test]
fn what_a_killed_run_has_written_can_be_read() {
    if !have("python3") {
        return;
    }
    let lab = Lab::new();
    let csv = killed(&lab, "csv");
    let parquet = killed(&lab, "parquet");
    for series in ["core", "pipes"] {
        assert!(rows(&csv, series).len() >= 500, "{series}");
        let mut count = 0;
        for part in parts(&parquet, series) {
            let reader = SerializedFileReader::new(File::open(&part).unwrap());
            let reader = reader.unwrap_or_else(|e| panic!("{}: {e}", part.display()));
            for row in reader.get_row_iter(None).unwrap() {
                row.unwrap();
                count += 1;
            }
        }
        assert!(count >= 500, "{series}: {count}");
    }
    for out in [csv, parquet] {
        let file = reader::read(&fs::read(out.join("captures/g-b.pcapng")).unwrap());
        assert!(file.packets.len() > 100 && file.packets.is_sorted_by_key(|p| p.time));
        assert!(!out.join(".reserve").exists());
    }
}

/// Measuring fills a small disk, and nothing else suffers.
#[test]
fn a_full_disk_ends_measuring_and_not_the_run() {
    if !have("python3") || !have("unshare") {
        return;
    }
    let lab = Lab::new();
    let text = format!(
        "name: full\n{}measure: {{ every: 1 ms, capture: [all] }}\n",
        path("1 Gbit/s", "1200x8800x1000")
    );
    let file = lab.write("full.yaml", &text);
    let (disk, kept) = (lab.dir().join("disk"), lab.dir().join("kept"));
    fs::create_dir(&disk).unwrap();
    // 10 MB, of which 4 MiB are for results; the captures would take 20 MB.
    let script = format!(
        "mount -t tmpfs -o size=10m none {disk} || exit 99; \
         (until [ -d {disk}/run/hosts/a ]; do sleep 0.05; done; touch {disk}/run/hosts/a/go-0) & \
         {longhaul} run {file} --out {disk}/run --json --quiet; code=$?; wait; \
         cp -r {disk}/run {kept}; exit $code",
        disk = disk.display(),
        kept = kept.display(),
        file = file.display(),
        longhaul = env!("CARGO_BIN_EXE_longhaul"),
    );
    let unshare = [
        "--user",
        "--map-root-user",
        "--mount",
        "bash",
        "-c",
        &script,
    ];
    let output = Command::new("unshare").args(unshare).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let outcome = Outcome::new(
        output.status,
        String::from_utf8(output.stdout).unwrap(),
        said.to_string(),
        kept,
    );
    let outcome = outcome.succeeded();
    assert!(outcome.log("send.out").contains("sent 0"), "{outcome}");
    assert!(number(&pipe(&outcome, "a>g")["packets"]) > 1000);
    let warnings = outcome.summary["warnings"].to_string();
    for part in [
        "series end at ",
        "(the capture of all) is incomplete, since it could not be written: ",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    let capture = fs::read(outcome.out().join("captures/all.pcapng")).unwrap();
    let packets = reader::read(&capture).packets.len();
    assert!(packets > 100, "{packets} packets up to the cut");
    assert!(outcome.out().join("report.html").exists());
}
