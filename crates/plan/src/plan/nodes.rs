//! Nodes: names and groups. A node with `count: n` stands for NAME0 … NAME(n−1).
//!
//! Every name is a host name that all programs of the run resolve, so names follow the rules of
//! host names, and two that differ only in case are refused: resolvers do not tell them apart.

use std::cmp::Ordering;
use std::collections::HashMap;

use longhaul_core::topology::NodeKind;

use super::clock::Limits;
use crate::file::error::{Faults, Pos, near_miss, shown};
use crate::file::spec::{Kind, NodeSpec, TopologySpec};
use crate::file::wrap::At;

/// What names look like.
pub(crate) const NAME_HINT: &str =
    "names have letters, digits, `-`, `_` and `.`, such as `a`, `gateway-2`, `eu.west`";

/// A node of the network.
#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    /// Where its name stands.
    pub(crate) at: Pos,
    /// Which entry of the file it comes from.
    pub(crate) entry: usize,
}

/// All nodes and groups.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// In the natural order of the names.
    pub(crate) list: Vec<NodeEntry>,
    by_name: HashMap<String, usize>,
    /// The members of each group, as indices into `list`.
    groups: HashMap<String, Vec<usize>>,
    /// The names of entries that are wrong themselves: what refers to them is not.
    wrong: Vec<String>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named<'a> {
    One(usize),
    Group(&'a [usize]),
}

impl Named<'_> {
    pub(crate) fn members(&self) -> &[usize] {
        match self {
            Self::One(index) => std::slice::from_ref(index),
            Self::Group(members) => members,
        }
    }
}

impl Nodes {
    /// The node of a name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Whether a name is that of a node or group.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.groups.contains_key(name) || self.by_name.contains_key(name)
    }

    /// The node or group of a name; an unknown one goes to `faults`.
    pub(crate) fn resolve(&self, name: &At<String>, faults: &mut Faults) -> Option<Named<'_>> {
        if let Some(members) = self.groups.get(&name.value) {
            return Some(Named::Group(members));
        }
        if let Some(index) = self.find(&name.value) {
            return Some(Named::One(index));
        }
        let members = |wrong: &String| {
            let member = name.value.strip_prefix(wrong.as_str());
            member.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if self.wrong.iter().any(members) {
            return None;
        }
        let message = format!("there is no node called `{}`", shown(&name.value));
        faults.add(
            name.at,
            message,
            self.suggest(&name.value, faults.is_full()),
        );
        None
    }

    fn suggest(&self, name: &str, hurry: bool) -> String {
        let known = || {
            let groups = self.groups.keys().map(String::as_str);
            groups.chain(self.list.iter().map(|node| node.name.as_str()))
        };
        if hurry {
            return String::new();
        }
        let group = self.groups.iter().find(|(group, _)| {
            name.strip_prefix(group.as_str())
                .is_some_and(|rest| rest.parse::<u64>().is_ok())
        });
        if let Some((group, members)) = group {
            return format!("the group `{group}` ends at `{group}{}`", members.len() - 1);
        }
        match near_miss(name, known()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "add it to `topology: nodes`, or correct the name".to_owned(),
        }
    }
}

/// Expands the groups of a file.
pub(crate) fn expand(spec: &TopologySpec, limits: &Limits, faults: &mut Faults) -> Nodes {
    let mut list = Vec::new();
    let mut wrong = Vec::new();
    let mut totals = [0; 3];
    for (entry, (name, node)) in spec.nodes.0.iter().enumerate() {
        let Some(node) = &node.0 else {
            wrong.push(name.value.clone());
            continue;
        };
        if let Err(problem) = check_host_name(&name.value) {
            let message = format!(
                "`{}` cannot be a node's name: {problem}",
                shown(&name.value)
            );
            faults.add(name.at, message, NAME_HINT);
        }
        if let (Kind::Router | Kind::Lan, Some(tcp)) = (node.kind, &node.tcp) {
            let kind = kind_name(node.kind);
            let message = format!("a {kind} runs no programs: its TCP has no effect");
            faults.add(tcp.at, message, "remove `tcp`");
        }
        if let (Kind::Lan, Some(address)) = (node.kind, node.address.items.first()) {
            let message = "a lan has no address: nothing is ever sent to it";
            faults.add(address.at, message, "remove `address`");
        }
        let Some(count) = count(name.at, node, totals, limits, faults) else {
            wrong.push(name.value.clone());
            continue;
        };
        totals[node.kind as usize] += count.unwrap_or(1);
        let kind = match node.kind {
            Kind::Host => NodeKind::Host,
            Kind::Router => NodeKind::Router,
            Kind::Lan => NodeKind::Lan,
        };
        let one = |name: String, at: Pos| NodeEntry {
            name,
            kind,
            at,
            entry,
        };
        match count {
            None => list.push(one(name.value.clone(), name.at)),
            Some(n) => list.extend((0..n).map(|i| one(format!("{}{i}", name.value), name.at))),
        }
    }
    list.sort_by(|a, b| natural(&a.name, &b.name));
    Nodes {
        wrong,
        ..index(list, spec, faults)
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Host => "host",
        Kind::Router => "router",
        Kind::Lan => "lan",
    }
}

/// How many members a group has, `Some(None)` for a node that is no group, `None` where that is
/// wrong; `totals` are the nodes of each kind so far.
fn count(
    at: Pos,
    node: &NodeSpec,
    totals: [usize; 3],
    limits: &Limits,
    faults: &mut Faults,
) -> Option<Option<usize>> {
    let (kind, total) = (kind_name(node.kind), totals[node.kind as usize]);
    let limit = match node.kind {
        Kind::Host => limits.hosts,
        Kind::Router | Kind::Lan => limits.routers,
    };
    let asked = node.count.as_ref().map(|count| count.value as usize);
    let at = node.count.as_ref().map_or(at, |count| count.at);
    if asked == Some(0) {
        faults.add(
            at,
            "a group of 0 nodes",
            "write at least `count: 1`, or remove the node",
        );
        return None;
    }
    if total + asked.unwrap_or(1) > limit {
        let message = format!("the experiment has more than {limit} {kind}s");
        faults.add(at, message, limits.hint(limit, &format!("{kind}s")));
        return None;
    }
    Some(asked)
}

/// Makes the tables of names; two nodes of one name go to `faults`.
fn index(list: Vec<NodeEntry>, spec: &TopologySpec, faults: &mut Faults) -> Nodes {
    let mut nodes = Nodes::default();
    let mut folded: HashMap<String, usize> = HashMap::with_capacity(list.len());
    let entries = &spec.nodes.0;
    for (index, node) in list.iter().enumerate() {
        let (key, spec) = &entries[node.entry];
        if spec.0.as_ref().is_some_and(|spec| spec.count.is_some()) {
            nodes
                .groups
                .entry(key.value.clone())
                .or_default()
                .push(index);
        }
        nodes.by_name.entry(node.name.clone()).or_insert(index);
        if let Some(other) = folded.insert(node.name.to_lowercase(), index) {
            let (a, b) = (&list[other], node);
            let late = if (a.at.line, a.at.column) > (b.at.line, b.at.column) {
                a
            } else {
                b
            };
            let message = if a.name == b.name {
                format!("two nodes are called `{}`", a.name)
            } else {
                format!(
                    "`{}` and `{}` differ only in case, as host names must not",
                    a.name, b.name
                )
            };
            let from = |node: &NodeEntry| shown(&entries[node.entry].0.value);
            let hint = format!("they come from `{}` and `{}`: rename one", from(a), from(b));
            faults.add(late.at, message, hint);
        }
    }
    for (group, _) in entries
        .iter()
        .filter(|(name, _)| nodes.groups.contains_key(&name.value))
    {
        if nodes.by_name.contains_key(&group.value) {
            let message = format!("`{0}` is a group and a member of another one", group.value);
            faults.add(group.at, message, "rename one of the two");
        }
    }
    nodes.list = list;
    nodes
}

/// Why a text cannot be a name.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > 60 {
        return Err("it has more than 60 characters");
    }
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    {
        return Err("it has characters that names cannot have");
    }
    if name.starts_with(['-', '.']) || name.ends_with(['-', '.']) || name.contains("..") {
        return Err("`-` and `.` stand only between other characters");
    }
    Ok(())
}

/// Why a name cannot be that of a host or router, which programs resolve.
pub(crate) fn check_host_name(name: &str) -> Result<(), &'static str> {
    check_name(name)?;
    let number = |label: &str| match label.strip_prefix("0x").or(label.strip_prefix("0X")) {
        Some(hex) => !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => label.chars().all(|c| c.is_ascii_digit()),
    };
    if name.split('.').all(number) {
        return Err("programs would take it for an address");
    }
    let taken = ["localhost", "ip6-localhost", "ip6-loopback"];
    if taken.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
        return Err("every host calls itself so");
    }
    Ok(())
}

/// The natural order of names: numbers within them by value, so that `a2` comes before `a10`.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a, b);
    while let (Some(c), Some(d)) = (x.chars().next(), y.chars().next()) {
        let order = if c.is_ascii_digit() && d.is_ascii_digit() {
            let (m, n) = (digits(&mut x), digits(&mut y));
            m.len().cmp(&n.len()).then_with(|| m.cmp(n))
        } else {
            (x, y) = (&x[c.len_utf8()..], &y[d.len_utf8()..]);
            c.cmp(&d)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// Takes the digits off the front of `text`; without leading zeros.
fn digits<'a>(text: &mut &'a str) -> &'a str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    *text = rest;
    number.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_value() {
        let mut names = ["a10", "a2", "b1", "a", "a02", "a1-x", "a1"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "a1", "a1-x", "a02", "a2", "a10", "b1"]);
    }

    #[test]
    fn names_are_host_names() {
        for good in ["a", "gateway-2", "eu.west", "_x", "A9", "dead.beef", "0xz"] {
            assert_eq!(check_host_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(61);
        let bad = [
            "",
            "a b",
            "a>b",
            "a#2",
            "a@b",
            "a/b",
            "é",
            "-a",
            "a.",
            "a..b",
            "10.0.0.1",
            "7",
            "0x7f",
            "localhost",
            &long,
        ];
        for bad in bad {
            assert!(check_host_name(bad).is_err(), "{bad}");
        }
    }
}
