//! What a program gets end to end: TCP and UDP from one host to another over ways of growing length,
//! as eWAN's Table III has it of its clusters' interfaces.
//!
//! Theory: the first two ways have no emulator. A plain cable shows what the kernel's network stack and
//! the programs can do on this machine; the second addresses of the same interfaces show whether
//! addresses cost anything, as eWAN asked of its virtual interfaces. Then one and twelve hops of an
//! emulated path whose rates are no limit: the difference to the cable is the emulator's. UDP is
//! offered at what a gigabit link carries, as in eWAN's tests, so that its figures compare with theirs.
//!
//! The programs are those of `longhaul traffic`, the same on every way and on the same CPUs: those that
//! a run leaves to programs. So nothing has to be installed.
//!
//! Left out: the highest rate of UDP (`throughput` of the calibration), and delays, which the core's
//! lateness covers.

use std::io;
use std::time::Duration;

use longhaul_linux::cable::{End, PlainCable};
use longhaul_linux::cpu;
use longhaul_linux::sandbox::TcpConfig;
use serde::{Deserialize, Serialize};

use super::CalibrateError;
use super::cable_program::Program;
use super::trial::{self, Bench, SELF};
use crate::fidelity::State;

/// Payload of a datagram that fills an Ethernet frame.
const DATAGRAM: u32 = 1472;
/// Payload that a gigabit link carries in such datagrams: 1472 of each 1538 bytes on the wire.
const GIGABIT_PAYLOAD: &str = "957 Mbit/s";
/// A sink ends once it has received something and then nothing for this long.
const QUIET: &str = "300 ms";
/// A program that has not ended so long after it should have is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How long a sink may take until it is ready: a start takes milliseconds, on a busy machine more.
const READY_WITHIN: Duration = Duration::from_secs(10);
const MTU: u32 = 1500;

/// What is between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A cable, and nothing else.
    PlainCable,
    /// The same cable, to the second address of its far end.
    SecondAddress,
    /// So many hops of the emulator.
    Hops(u32),
}

impl Way {
    /// All, in order of length.
    pub(super) const ALL: [Self; 4] = [
        Self::PlainCable,
        Self::SecondAddress,
        Self::Hops(1),
        Self::Hops(12),
    ];

    /// For people.
    pub fn name(self) -> String {
        match self {
            Self::PlainCable => "plain cable".to_owned(),
            Self::SecondAddress => "plain cable, second address of the interface".to_owned(),
            Self::Hops(1) => "1 hop".to_owned(),
            Self::Hops(n) => format!("{n} hops"),
        }
    }
}

/// The bandwidth of one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndToEnd {
    /// Between which hosts.
    pub way: Way,
    /// One TCP connection.
    pub tcp: Carried,
    /// Datagrams at the rate of a gigabit link.
    pub udp: Carried,
}

/// Payload that went from one host to the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Payload that was sent.
    pub sent_bytes: u64,
    /// Payload that arrived.
    pub bytes: u64,
    /// Between the first and the last arrival.
    pub seconds: f64,
    /// `bytes` over `seconds`, in bit/s.
    pub bits_per_s: f64,
    /// Packets that the machine lost on an emulated way; 0 on a cable, where nobody counts them.
    pub physical_drops: u64,
    /// The verdict; `None` without an emulator.
    pub state: Option<State>,
}

impl Carried {
    /// The part of what was sent that did not arrive.
    pub fn lost_share(&self) -> f64 {
        let lost = self.sent_bytes.saturating_sub(self.bytes);
        lost as f64 / self.sent_bytes.max(1) as f64
    }

    fn of(sent: &Flow, received: &Flow) -> Self {
        Self {
            sent_bytes: sent.bytes,
            bytes: received.bytes,
            seconds: received.completion_s.unwrap_or(0.0),
            bits_per_s: received.goodput_bps,
            physical_drops: 0,
            state: None,
        }
    }
}

/// What a program of `longhaul traffic` prints, as far as it is needed here.
#[derive(Debug, Deserialize)]
pub(super) struct Output {
    flows: Vec<Flow>,
}

#[derive(Debug, Deserialize)]
struct Flow {
    bytes: u64,
    completion_s: Option<f64>,
    goodput_bps: f64,
}

impl Output {
    /// Its one flow.
    fn flow(self, who: &str) -> Result<Flow, CalibrateError> {
        let count = self.flows.len();
        let only = self.flows.into_iter().next().filter(|_| count == 1);
        only.ok_or_else(|| CalibrateError::Failed(format!("{who} had {count} flows, not one")))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

/// The sink's command line, after the program's own name.
fn sink() -> [&'static str; 4] {
    ["traffic", "sink", "--idle", QUIET]
}

/// The sender's.
fn sender(protocol: Protocol, to: &str, seconds: f64) -> Vec<String> {
    let span = format!("{} ms", (seconds * 1e3).round());
    let packet = format!("{DATAGRAM} B");
    let words: &[&str] = match protocol {
        Protocol::Tcp => &["traffic", "bulk", to, "--for", &span],
        Protocol::Udp => &[
            "traffic",
            "constant",
            to,
            "--for",
            &span,
            "--rate",
            GIGABIT_PAYLOAD,
            "--packet",
            &packet,
        ],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Measures one way for `seconds` with each protocol.
pub(super) fn measure(bench: &Bench, way: Way, seconds: f64) -> Result<EndToEnd, CalibrateError> {
    let carry = |protocol| match way {
        Way::PlainCable => over_cable(bench, 0, protocol, seconds),
        Way::SecondAddress => over_cable(bench, 1, protocol, seconds),
        Way::Hops(hops) => over_hops(bench, hops, protocol, seconds),
    };
    Ok(EndToEnd {
        way,
        tcp: carry(Protocol::Tcp)?,
        udp: carry(Protocol::Udp)?,
    })
}

fn over_hops(
    bench: &Bench,
    hops: u32,
    protocol: Protocol,
    seconds: f64,
) -> Result<Carried, CalibrateError> {
    let send = sender(protocol, "b", seconds);
    let send: Vec<&str> = send.iter().map(String::as_str).collect();
    let trial = bench.run(&trial::traffic((hops, MTU), &sink(), &send, seconds))?;
    let [sent, received] = ["send", "sink"].map(|name| trial.output::<Output>(name)?.flow(name));
    let verdict = &trial.summary.verdict;
    Ok(Carried {
        physical_drops: verdict.physical_drops,
        state: Some(verdict.state),
        ..Carried::of(&sent?, &received?)
    })
}

/// Sends over a cable to the address of this number.
fn over_cable(
    bench: &Bench,
    address: usize,
    protocol: Protocol,
    seconds: f64,
) -> Result<Carried, CalibrateError> {
    let cable = PlainCable::lay(MTU, &tcp()).map_err(|error| CalibrateError::Run(error.into()))?;
    let failed = |error: io::Error| CalibrateError::Failed(format!("over a plain cable: {error}"));
    let cpus = bench.program_cpus();
    let to = End::B.addresses()[address].to_string();
    let start = |end, words: &[String]| {
        let mut command = cable.command(end, SELF, &cpus).map_err(failed)?;
        command.args(words);
        Program::start(command, bench.interrupt())
    };
    let mut sink = start(End::B, &sink().map(str::to_owned))?;
    sink.await_ready(READY_WITHIN)?;
    let span = Duration::from_secs_f64(seconds) + GRACE;
    let sent: Output = start(End::A, &sender(protocol, &to, seconds))?.finish(span)?;
    let received: Output = sink.finish(GRACE)?;
    Ok(Carried::of(
        &sent.flow("the sender")?,
        &received.flow("the sink")?,
    ))
}

/// The TCP settings of a run's hosts, for a path without delay.
fn tcp() -> TcpConfig {
    const BUFFER_MAX: u64 = 4 << 20;
    TcpConfig {
        congestion: "cubic".to_owned(),
        rmem_max: BUFFER_MAX,
        wmem_max: BUFFER_MAX,
        ecn: false,
    }
}

/// The CPUs that a run leaves to programs, of all that there are.
pub(super) fn for_programs(cpus: &[usize]) -> Vec<usize> {
    let core = cpu::claim_core_cpu().map(|core| core.cpu);
    let of_programs = |cpu: &&usize| Some(**cpu) != core;
    cpus.iter().filter(of_programs).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(bytes: u64) -> Flow {
        Flow {
            bytes,
            completion_s: Some(2.0),
            goodput_bps: bytes as f64 * 4.0,
        }
    }

    #[test]
    fn what_did_not_arrive_was_lost() {
        let carried = Carried::of(&flow(1000), &flow(900));
        assert!((carried.lost_share() - 0.1).abs() < 1e-12);
        assert_eq!((carried.bits_per_s, carried.seconds), (3600.0, 2.0));
        // A cut-off sender may not know of all that it sent.
        assert_eq!(Carried::of(&flow(900), &flow(1000)).lost_share(), 0.0);
        assert_eq!(Carried::of(&flow(0), &flow(0)).lost_share(), 0.0);
    }

    #[test]
    fn a_result_is_of_one_flow() {
        let only = |text: &str| serde_json::from_str::<Output>(text).unwrap().flow("it");
        let one = r#"{"bytes": 5, "completion_s": null, "goodput_bps": 1.5, "name": "x"}"#;
        assert_eq!(only(&format!(r#"{{"flows": [{one}]}}"#)).unwrap().bytes, 5);
        assert!(only(r#"{"flows": []}"#).is_err());
        assert!(only(&format!(r#"{{"flows": [{one}, {one}]}}"#)).is_err());
    }

    #[test]
    fn a_gigabit_link_carries_what_is_offered() {
        let rate: longhaul_core::units::Rate = GIGABIT_PAYLOAD.parse().unwrap();
        // Preamble, header, checksum and gap are 38 bytes; IPv4 and UDP 28.
        let payload = 1e9 * f64::from(DATAGRAM) / f64::from(DATAGRAM + 28 + 38);
        assert!((rate.bits_per_s() as f64 / payload - 1.0).abs() < 1e-3);
    }
}
