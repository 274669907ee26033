//! What the kernel counted in this network namespace while a receiver ran.
//!
//! `/proc/net/snmp` and `/proc/net/netstat` hold pairs of lines, names above values;
//! `/proc/net/snmp6` one name and value a line. TCP's counters cover both address families,
//! UDP's have IPv6 twins. A counter that this kernel lacks is left out.

use std::collections::BTreeMap;
use std::fs;

/// Counters reported, as protocol and name.
const PAIRED: [(&str, &str); 12] = [
    ("Tcp", "RetransSegs"),
    ("Tcp", "InErrs"),
    ("Tcp", "InCsumErrors"),
    ("Tcp", "OutRsts"),
    ("TcpExt", "TCPOFOQueue"),
    ("TcpExt", "TCPSACKReorder"),
    ("TcpExt", "TCPTimeouts"),
    ("Udp", "InErrors"),
    ("Udp", "InCsumErrors"),
    ("Udp", "RcvbufErrors"),
    ("Ip", "InHdrErrors"),
    ("Ip", "InDiscards"),
];
const SINGLE: [(&str, &str); 3] = [
    ("Udp6InErrors", "Udp6.InErrors"),
    ("Udp6InCsumErrors", "Udp6.InCsumErrors"),
    ("Udp6RcvbufErrors", "Udp6.RcvbufErrors"),
];

/// Counter values by name, `Protocol.Counter`.
pub(crate) type Counters = BTreeMap<String, i64>;

/// The counters now.
pub(crate) fn read() -> Counters {
    let text = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let mut counters = paired(&(text("snmp") + &text("netstat")));
    counters.extend(single(&text("snmp6")));
    counters
}

/// How much each counter has grown since `before`.
pub(crate) fn since(before: &Counters) -> Counters {
    let mut counters = read();
    for (name, value) in &mut counters {
        *value -= before.get(name).copied().unwrap_or(0);
    }
    counters
}

fn paired(text: &str) -> Counters {
    let mut counters = Counters::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (mut names, mut values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
        let (Some(protocol), Some(_)) = (names.next(), values.next()) else {
            continue;
        };
        let protocol = protocol.trim_end_matches(':');
        for (name, value) in names.zip(values) {
            if let (true, Ok(value)) = (PAIRED.contains(&(protocol, name)), value.parse()) {
                counters.insert(format!("{protocol}.{name}"), value);
            }
        }
    }
    counters
}

fn single(text: &str) -> Counters {
    let value_of = |line: &str| -> Option<(String, i64)> {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let (_, ours) = SINGLE.iter().find(|(theirs, _)| *theirs == name)?;
        Some(((*ours).to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(value_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_named_counters_out_of_pairs() {
        let text = "Tcp: RtoMin RetransSegs OutRsts\nTcp: 200 7 3\nUdp: InErrors\nUdp: 4\n";
        let expected = [
            ("Tcp.RetransSegs", 7),
            ("Tcp.OutRsts", 3),
            ("Udp.InErrors", 4),
        ];
        let expected: Counters = expected.map(|(name, n)| (name.to_owned(), n)).into();
        assert_eq!(paired(text), expected);
    }

    #[test]
    fn picks_named_counters_out_of_lines() {
        let text = "Ip6InReceives  12\nUdp6RcvbufErrors     \t 5\n";
        assert_eq!(single(text), [("Udp6.RcvbufErrors".to_owned(), 5)].into());
    }

    #[test]
    fn broken_text_yields_nothing() {
        assert!(paired("Tcp:\n\nTcp: RetransSegs\nTcp: x\n").is_empty());
        assert!(single("Udp6InErrors\nUdp6InErrors x").is_empty());
    }

    #[test]
    fn this_machine_has_them() {
        assert!(read().contains_key("Tcp.RetransSegs"));
    }
}
