//! Nodes: names and groups. A node with `count: n` stands for NAME0 … NAME(n−1).
//!
//! Every name is a host name that all programs of the run resolve, so names follow the rules of
//! host names, and two that differ only in case are refused: resolvers do not tell them apart.

use std::collections::HashMap;

use longhaul_core::topology::NodeKind;

use crate::file::spec::{Kind, NodeSpec, TopologySpec};
use crate::file::wrap::At;
use crate::limits::Limits;
use crate::names::{NAME_HINT, check_host_name, natural};
use crate::text::error::{Faults, Pos, near_miss, shown};

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
