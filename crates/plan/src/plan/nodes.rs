//! Nodes: names, groups, and what stands for several of them. A node with `count: n` stands for
//! NAME0 … NAME(n−1).
//!
//! Every name is a host name that all programs of the run resolve, so names follow the rules of
//! host names, and two that differ only in case are refused: resolvers do not tell them apart.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use longhaul_core::topology::NodeKind;

use crate::file::link::EndSpec;
use crate::file::spec::{Kind, NodeSpec, TopologySpec};
use crate::file::wrap::{At, Either};
use crate::limits::Limits;
use crate::names::{NAME_HINT, check_host_name, natural};
use crate::select::{self, ALL, Budget, Labels, SelectError, Universe, labels};
use crate::text::error::{Faults, Pos, shown};

/// A node of the network.
#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    /// The position of its name.
    pub(crate) at: Pos,
    /// Which entry of the file it comes from.
    pub(crate) entry: usize,
}

/// All nodes and groups.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// In the natural order of the names.
    pub(crate) list: Vec<NodeEntry>,
    /// By their numbers in `list`.
    pub(crate) labels: Labels<usize>,
    by_name: HashMap<String, usize>,
    /// The members of each group, as indices into `list`.
    groups: BTreeMap<String, Vec<usize>>,
    /// Names of entries with errors of their own: references to them are not reported again.
    wrong: Vec<String>,
    budget: Budget,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Named<'a> {
    One(usize),
    /// A group, or a set in the natural order of its names.
    Many(Cow<'a, [usize]>),
}

impl Named<'_> {
    pub(crate) fn members(&self) -> &[usize] {
        match self {
            Self::One(index) => std::slice::from_ref(index),
            Self::Many(members) => members,
        }
    }
}

/// The nodes that a set chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    Nodes,
    Hosts,
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

    /// The node or group of a name, or a set of nodes; one that stands for nothing goes to
    /// `faults`.
    pub(crate) fn resolve(
        &self,
        name: &At<String>,
        among: Among,
        faults: &mut Faults,
    ) -> Option<Named<'_>> {
        let text = name.value.as_str();
        let found = match (self.groups.get(text), self.find(text)) {
            (Some(members), _) => self
                .budget
                .take(members.len())
                .map(|()| Named::Many(Cow::Borrowed(members))),
            (None, Some(index)) => Ok(Named::One(index)),
            (None, None) if self.is_of_wrong_entry(text) => return None,
            (None, None) => self
                .set(text, among, faults.is_full())
                .map(|members| Named::Many(Cow::Owned(members))),
        };
        match found {
            Ok(named) => Some(named),
            // An entry with an error of its own may hold the members: no second error.
            Err(_) if select::is_set(text) && !self.wrong.is_empty() => None,
            Err(error) => {
                self.budget.refuse(name.at, error, faults);
                None
            }
        }
    }

    /// The nodes of one end of a link.
    pub(crate) fn resolve_end(&self, end: &EndSpec, faults: &mut Faults) -> Option<Named<'_>> {
        let list = match end {
            Either::Short(name) => return self.resolve(name, Among::Nodes, faults),
            Either::Long(list) => list,
        };
        let (mut members, mut seen) = (Vec::new(), HashSet::new());
        for item in &list.items {
            let named = self.resolve(item, Among::Nodes, faults)?;
            let new = named.members().iter().filter(|index| seen.insert(**index));
            members.extend(new);
        }
        Some(Named::Many(Cow::Owned(members)))
    }

    /// Whether an unknown name may be one of an entry that is wrong itself.
    fn is_of_wrong_entry(&self, name: &str) -> bool {
        let is_member = |wrong: &String| {
            let member = name.strip_prefix(wrong.as_str());
            member.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.wrong.iter().any(is_member)
    }

    /// The members of a set.
    fn set(&self, text: &str, among: Among, briefly: bool) -> Result<Vec<usize>, SelectError> {
        let set = match among {
            Among::Nodes if text != ALL => {
                select::find(&AllNodes(self), text, &self.budget, briefly)
            }
            _ => select::find(&Hosts(self), text, &self.budget, briefly),
        };
        set.map_err(|error| SelectError {
            remedy: match self.group_that_ends(text) {
                Some(last) => last,
                None => error.remedy,
            },
            ..error
        })
    }

    /// What to say of a name beyond the last one of a group.
    fn group_that_ends(&self, name: &str) -> Option<String> {
        let (group, members) = self.groups.iter().find(|(group, _)| {
            name.strip_prefix(group.as_str())
                .is_some_and(|rest| rest.parse::<u64>().is_ok())
        })?;
        let last = members.len() - 1;
        Some(format!("the group `{group}` ends at `{group}{last}`"))
    }

    /// The names of groups of some nodes.
    fn group_names(&self, fits: impl Fn(&NodeEntry) -> bool) -> impl Iterator<Item = &str> {
        let groups = self.groups.iter();
        let groups = groups.filter(move |(_, members)| {
            let first = members.first().and_then(|first| self.list.get(*first));
            first.is_some_and(&fits)
        });
        groups.map(|(name, _)| name.as_str())
    }
}

/// The nodes that sets of nodes choose among.
struct AllNodes<'a>(&'a Nodes);

impl Universe for AllNodes<'_> {
    type Id = usize;

    fn what(&self) -> [&'static str; 2] {
        ["node", "nodes"]
    }

    fn names(&self) -> Box<dyn Iterator<Item = (usize, &str)> + '_> {
        let all = self.0.list.iter().enumerate();
        Box::new(all.map(|(index, node)| (index, node.name.as_str())))
    }

    fn labels(&self) -> &Labels<usize> {
        &self.0.labels
    }

    fn has(&self, _: usize) -> bool {
        true
    }

    fn aliases(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.group_names(|_| true))
    }
}

/// The hosts that sets of hosts choose among.
struct Hosts<'a>(&'a Nodes);

fn is_host(node: &NodeEntry) -> bool {
    node.kind == NodeKind::Host
}

impl Universe for Hosts<'_> {
    type Id = usize;
    const STEMS: bool = true;

    fn what(&self) -> [&'static str; 2] {
        ["host", "hosts"]
    }

    fn names(&self) -> Box<dyn Iterator<Item = (usize, &str)> + '_> {
        let all = self.0.list.iter().enumerate();
        let hosts = all.filter(|(_, node)| is_host(node));
        Box::new(hosts.map(|(index, node)| (index, node.name.as_str())))
    }

    fn labels(&self) -> &Labels<usize> {
        &self.0.labels
    }

    fn has(&self, index: usize) -> bool {
        self.0.list.get(index).is_some_and(is_host)
    }

    fn aliases(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.group_names(is_host))
    }
}

/// Expands the groups of a file.
pub(crate) fn expand(spec: &TopologySpec, limits: &Limits, faults: &mut Faults) -> Nodes {
    let mut list = Vec::new();
    let mut wrong = Vec::new();
    let mut labelled = HashMap::new();
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
            let message = format!("a {kind} runs no programs, so `tcp` has no effect");
            faults.add(tcp.at, message, "remove `tcp`");
        }
        if let (Kind::Lan, Some(address)) = (node.kind, node.address.items.first()) {
            let message = "a lan has no address, since nothing is ever sent to it";
            faults.add(address.at, message, "remove `address`");
        }
        let before = faults.count();
        let labels = labels::read(node.labels.as_deref(), faults);
        if faults.count() > before {
            wrong.push(name.value.clone());
        }
        if !labels.is_empty() {
            labelled.insert(entry, labels);
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
        labels: labels_of(&list, &labelled),
        ..index(list, spec, faults)
    }
}

/// The nodes of the labels of each entry.
fn labels_of(list: &[NodeEntry], of_entry: &HashMap<usize, Vec<(&str, &str)>>) -> Labels<usize> {
    let mut labels = Labels::default();
    if of_entry.is_empty() {
        return labels;
    }
    for (index, node) in list.iter().enumerate() {
        for (key, value) in of_entry.get(&node.entry).into_iter().flatten() {
            labels.add(key, value, [index]);
        }
    }
    labels
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Host => "host",
        Kind::Router => "router",
        Kind::Lan => "lan",
    }
}

/// How many members a group has, `Some(None)` for a node that is not a group, `None` where that is
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
