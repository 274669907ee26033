//! Hardware, system and bandwidth end to end of this machine, as eWAN's Tables I to III have them of its
//! clusters, as text and as Markdown.

use longhaul_core::units::Rate;
use longhaul_lab::calibrate::{Calibration, Carried, EndToEnd, NetworkInterface, Platform};

use crate::style;

/// A table: its title, and its rows, of which the first is the head.
pub(super) struct Table {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Vec<String>>,
}

/// The tables of a calibration.
pub(super) fn all(calibration: &Calibration) -> Vec<Table> {
    let none = Platform::default();
    let platform = calibration.platform.as_ref().unwrap_or(&none);
    let mut tables = vec![
        Table {
            title: "hardware",
            rows: named(hardware(calibration, platform)),
        },
        Table {
            title: "system",
            rows: named(system(calibration, platform)),
        },
    ];
    if !calibration.end_to_end.is_empty() {
        tables.push(Table {
            title: "bandwidth end to end",
            rows: end_to_end(&calibration.end_to_end),
        });
    }
    tables
}

/// The tables as Markdown, with the version that measured them.
pub(super) fn markdown(calibration: &Calibration) -> String {
    let mut text = format!("Longhaul {}\n", calibration.version);
    for table in all(calibration) {
        let [head, body @ ..] = table.rows.as_slice() else {
            continue;
        };
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = format!("|{}\n", "---|".repeat(head.len()));
        text.push_str(&format!("\n### {}\n\n{}{rule}", table.title, line(head)));
        text.extend(body.iter().map(line));
    }
    text
}

fn named(rows: Vec<(&str, String)>) -> Vec<Vec<String>> {
    let head = ("parameter", "value".to_owned());
    let row = |(name, value): (&str, String)| vec![name.to_owned(), style::clean(&value)];
    std::iter::once(head).chain(rows).map(row).collect()
}

fn or(text: &str, otherwise: &str) -> String {
    let text = if text.is_empty() { otherwise } else { text };
    text.to_owned()
}

fn yes(set: Option<bool>) -> String {
    match set {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
    .to_owned()
}

fn hardware<'a>(calibration: &Calibration, platform: &Platform) -> Vec<(&'a str, String)> {
    let machine = &calibration.machine;
    let speed = calibration.reference;
    let mut rows = vec![
        ("processor", or(&machine.processor, "unknown")),
        ("CPUs", machine.cpus.to_string()),
        (
            "a CPU's speed",
            speed.map_or("unknown".to_owned(), |speed| format!("{speed:.2} ref")),
        ),
        ("hyper-threads", yes(machine.hyper_threads)),
        (
            "frequency governor",
            machine
                .frequency_governor
                .clone()
                .unwrap_or("none".to_owned()),
        ),
        ("memory", style::bytes(machine.memory_bytes)),
        ("virtual machine", yes(Some(machine.virtual_machine))),
    ];
    rows.extend(
        platform
            .interfaces
            .iter()
            .map(|one| ("network interface", interface(one))),
    );
    if platform.interfaces.is_empty() {
        rows.push(("network interface", "none".to_owned()));
    }
    // In the place of a cluster's switch.
    rows.push(("between hosts", "veth cables and the core".to_owned()));
    rows
}

fn interface(one: &NetworkInterface) -> String {
    let rate = one
        .mbit_per_s
        .map(|mbit| format!(", {}", rate(mbit as f64 * 1e6)));
    format!(
        "{}: {}, {}{}",
        one.name,
        or(&one.driver, "unknown driver"),
        or(&one.bus, "unknown bus"),
        rate.unwrap_or_default()
    )
}

fn system<'a>(calibration: &Calibration, platform: &Platform) -> Vec<(&'a str, String)> {
    let machine = &calibration.machine;
    let core = machine
        .core_cpu
        .map_or("shared with programs".to_owned(), |cpu| {
            format!("CPU {cpu}, {}", machine.core_scheduling)
        });
    let bytes = |most: Option<u64>| most.map_or("unknown".to_owned(), style::bytes);
    vec![
        ("system", or(&platform.os, "unknown")),
        ("kernel", machine.kernel.clone()),
        ("clock source", machine.clock_source.clone()),
        ("core", core),
        (
            "traffic control",
            format!(
                "longhaul {}; hosts' interfaces: htb or tbf; the machine's default: {}",
                calibration.version,
                or(&platform.qdisc, "unknown")
            ),
        ),
        ("load", format!("longhaul traffic {}", calibration.version)),
        (
            "congestion control",
            format!(
                "hosts: cubic; the machine's default: {}, of {}",
                or(&platform.congestion, "unknown"),
                or(&platform.congestion_available.join(" "), "unknown")
            ),
        ),
        (
            "socket buffers at most",
            format!(
                "{} to receive, {} to send, where a program sets them",
                bytes(platform.socket_receive_max),
                bytes(platform.socket_send_max)
            ),
        ),
        ("load before", format!("{:.2}", machine.load_before)),
    ]
}

/// A rate to a megabit: more digits would only pretend.
pub(super) fn rate(bits_per_s: f64) -> String {
    let mbits = (bits_per_s / 1e6).round() as u64;
    style::rate(Rate::from_bits_per_s((mbits * 1_000_000).max(1))).into_owned()
}

fn end_to_end(ways: &[EndToEnd]) -> Vec<Vec<String>> {
    let head = ["way", "TCP", "verdict", "UDP", "of it lost", "verdict"];
    let state = |carried: &Carried| carried.state.map_or("-", |state| state.name()).to_owned();
    let row = |way: &EndToEnd| {
        vec![
            way.way.name(),
            rate(way.tcp.bits_per_s),
            state(&way.tcp),
            rate(way.udp.bits_per_s),
            format!("{:.2} %", 100.0 * way.udp.lost_share()),
            state(&way.udp),
        ]
    };
    let head = head.map(str::to_owned).to_vec();
    std::iter::once(head).chain(ways.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_lab::calibrate::Way;
    use longhaul_lab::fidelity::State;

    fn carried(bits_per_s: f64, state: Option<State>) -> Carried {
        Carried {
            sent_bytes: 1000,
            bytes: 990,
            seconds: 1.0,
            bits_per_s,
            physical_drops: 0,
            state,
        }
    }

    #[test]
    fn ways_are_rows() {
        let ways = [
            (Way::PlainCable, None),
            (Way::SecondAddress, None),
            (Way::Hops(12), Some(State::Faithful)),
        ]
        .map(|(way, state)| EndToEnd {
            way,
            tcp: carried(9.414e8, state),
            udp: carried(9.57e8, state),
        });
        let rows = end_to_end(&ways);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[1][..3], ["plain cable", "941 Mbit/s", "-"]);
        assert_eq!(
            rows[3],
            [
                "12 hops",
                "941 Mbit/s",
                "faithful",
                "957 Mbit/s",
                "1.00 %",
                "faithful"
            ]
        );
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    }

    #[test]
    fn an_interface_without_a_rate_has_none() {
        let mut one = NetworkInterface {
            name: "eth0".to_owned(),
            driver: "virtio_net".to_owned(),
            bus: "virtio".to_owned(),
            mbit_per_s: None,
        };
        assert_eq!(interface(&one), "eth0: virtio_net, virtio");
        one.mbit_per_s = Some(10_000);
        assert_eq!(interface(&one), "eth0: virtio_net, virtio, 10 Gbit/s");
    }
}
