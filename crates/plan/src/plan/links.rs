//! Links: ends, names and what each direction does.
//!
//! A link between a node and a group stands for one link per member, a link between two groups for one per pair of
//! members; sets of nodes are like groups. Links are called `x-y` after their ends, further ones between the same nodes
//! `x-y#2` and so on in the order of the file; their pipes are `x>y` and `y>x` (`x>y#2`). A link with a `name` has the
//! pipes `name:x>y` and `name:y>x`. A bundle is a number of parallel links, named the same way; those with a `name` are
//! `name`, `name#2` and so on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use longhaul_core::params::{ParamError, PipeParams};
use longhaul_core::topology::{Balance, Link, PipeId, Topology};

use super::Defaults;
use super::nodes::{Named, Nodes};
use super::pipe::{self, Context};
use crate::file::link::{BalanceSpec, EndSpec, LinkSpec};
use crate::file::spec::TopologySpec;
use crate::file::wrap::{At, Either};
use crate::limits::Limits;
use crate::names::{NAME_HINT, check_name};
use crate::select::{Labels, labels};
use crate::text::error::{Faults, Pos, shown};

/// The links of a file.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) list: Vec<Link>,
    /// For the name of each link, the entry of the file that it comes from.
    pub(crate) origin: HashMap<String, usize>,
    /// For what each entry of the file is called (`x-y` by its ends, groups included, or its
    /// `name`), its number; of several alike the first.
    entries: HashMap<String, usize>,
    /// The `labels` of entries that have some.
    labelled: HashMap<usize, Vec<(String, String)>>,
    /// How many unnamed links join two nodes, by their numbers.
    parallel: HashMap<(usize, usize), u32>,
}

/// What the links of one entry have in common.
struct Common<'a> {
    name: Option<&'a At<String>>,
    at: Pos,
    entry: usize,
    mtu: u32,
    bundle: u32,
    balance: Balance,
    params: [Arc<PipeParams>; 2],
}

/// Expands and names the links of a file.
pub(crate) fn expand(
    spec: &TopologySpec,
    nodes: &Nodes,
    (defaults, limits): (&Defaults, &Limits),
    context: &Context<'_>,
    faults: &mut Faults,
) -> Links {
    let mut links = Links::default();
    for (entry, link) in spec.links.iter().enumerate() {
        let Some(At { at, value: link }) = &link.0 else {
            continue;
        };
        let common = Common {
            name: link.name.as_ref(),
            at: *at,
            entry,
            mtu: super::mtu(link.mtu.as_ref(), faults).unwrap_or(defaults.mtu),
            bundle: bundle(link, faults),
            balance: balance(link),
            params: params(*at, link, defaults, context, faults),
        };
        check_link_name(link, faults);
        if let Some(name) = entry_name(link, nodes) {
            links.entries.entry(name).or_insert(entry);
        }
        let labels = labels::read(link.labels.as_deref(), faults).into_iter();
        let labels: Vec<_> = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        if !labels.is_empty() {
            links.labelled.insert(entry, labels);
        }
        let Some((pairs, grouped)) = pairs(link, nodes, faults) else {
            continue;
        };
        let wanted = pairs.len().saturating_mul(common.bundle as usize);
        if links.list.len().saturating_add(wanted) > limits.links {
            let most = limits.links;
            let message = format!("the experiment has more than {most} links");
            faults.add(*at, message, limits.hint(most, "links"));
            break;
        }
        for (member, pair) in pairs.into_iter().enumerate() {
            for number in 1..=common.bundle {
                let member = grouped.then_some(member);
                links.add(&common, member, number, pair, nodes, faults);
            }
        }
    }
    links
}

fn check_link_name(link: &LinkSpec, faults: &mut Faults) {
    let Some(name) = &link.name else { return };
    if let Err(problem) = check_name(&name.value) {
        let message = format!(
            "`{}` cannot be a link's name: {problem}",
            shown(&name.value)
        );
        faults.add(name.at, message, NAME_HINT);
    }
}

/// The pairs of nodes that a link joins, and whether a group is among its ends.
fn pairs(
    link: &LinkSpec,
    nodes: &Nodes,
    faults: &mut Faults,
) -> Option<(Vec<(usize, usize)>, bool)> {
    let [x, y] = link.ends.value.as_slice() else {
        let message = format!(
            "a link has two ends, but this one has {}",
            link.ends.value.len()
        );
        faults.add(link.ends.at, message, "write them like `ends: [a, b]`");
        return None;
    };
    let (first, second) = (nodes.resolve_end(x, faults), nodes.resolve_end(y, faults));
    let (first, second) = (first?, second?);
    let ([x_text, y_text], [x_at, y_at]) = ([x, y].map(text_of), [x, y].map(at_of));
    for (end, at) in [(&first, x_at), (&second, y_at)] {
        if end.members().is_empty() {
            faults.add(
                at.unwrap_or(link.ends.at),
                "this end has no nodes",
                END_HINT,
            );
            return None;
        }
    }
    let y_at = y_at.unwrap_or(link.ends.at);
    if x_text == y_text {
        let message = format!("a link from `{}` to itself", shown(&x_text));
        faults.add(y_at, message, "name two different nodes");
        return None;
    }
    let (from, to) = (first.members(), second.members());
    let pairs: Vec<(usize, usize)> = match (&first, &second) {
        (Named::Many(_), Named::Many(_)) if from.len() != to.len() => {
            let message = format!(
                "groups are joined in pairs, but `{}` has {} nodes and `{}` has {}",
                shown(&x_text),
                from.len(),
                shown(&y_text),
                to.len()
            );
            faults.add(
                link.ends.at,
                message,
                "give both the same `count`, or join them by a router",
            );
            return None;
        }
        (Named::Many(_), Named::Many(_)) => from.iter().copied().zip(to.iter().copied()).collect(),
        _ => from
            .iter()
            .flat_map(|x| to.iter().map(|y| (*x, *y)))
            .collect(),
    };
    if let Some((own, _)) = pairs.iter().find(|(x, y)| x == y) {
        let message = format!("a link from `{}` to itself", nodes.list[*own].name);
        faults.add(
            y_at,
            message,
            "a group is joined to a node that is not its member",
        );
        return None;
    }
    let grouped = [&first, &second]
        .iter()
        .any(|end| matches!(end, Named::Many(_)));
    Some((pairs, grouped))
}

const END_HINT: &str = "name a node: `ends: [a, b]`";

/// An end as the file has it.
fn text_of(end: &EndSpec) -> String {
    match end {
        Either::Short(name) => name.value.clone(),
        Either::Long(list) => {
            let names: Vec<&str> = list.items.iter().map(|item| item.value.as_str()).collect();
            format!("[{}]", names.join(", "))
        }
    }
}

/// The position of an end; an empty list has none.
fn at_of(end: &EndSpec) -> Option<Pos> {
    match end {
        Either::Short(name) => Some(name.at),
        Either::Long(list) => list.items.first().map(|item| item.at),
    }
}

/// What an entry is called where it stands for several links: not after sets, since such a name
/// would be a pattern.
fn entry_name(link: &LinkSpec, nodes: &Nodes) -> Option<String> {
    match (&link.name, link.ends.value.as_slice()) {
        (Some(name), _) => Some(name.value.clone()),
        (None, [Either::Short(x), Either::Short(y)])
            if [x, y].iter().all(|end| nodes.is_known(&end.value)) =>
        {
            Some(format!("{}-{}", x.value, y.value))
        }
        _ => None,
    }
}

/// How many parallel links an entry stands for.
fn bundle(link: &LinkSpec, faults: &mut Faults) -> u32 {
    let Some(bundle) = &link.bundle else { return 1 };
    if bundle.value == 0 {
        faults.add(bundle.at, "a bundle of 0 links", "write a number from 1");
    }
    bundle.value
}

/// Which of several equally short ways packets take.
fn balance(link: &LinkSpec) -> Balance {
    match link.balance {
        Some(BalanceSpec::First) => Balance::First,
        Some(BalanceSpec::Flow) => Balance::Flow,
        Some(BalanceSpec::RoundRobin) => Balance::RoundRobin,
        None if link.bundle.as_ref().is_some_and(|bundle| bundle.value > 1) => Balance::Flow,
        None => Balance::First,
    }
}

/// What both directions do.
fn params(
    at: Pos,
    link: &LinkSpec,
    defaults: &Defaults,
    context: &Context<'_>,
    faults: &mut Faults,
) -> [Arc<PipeParams>; 2] {
    let start = PipeParams {
        framing: defaults.framing,
        ..PipeParams::default()
    };
    let before = faults.count();
    let forward = pipe::patch(&link.wishes(), start.framing, context, faults).apply(&start);
    let back = link.back.as_ref().map_or_else(
        || forward.clone(),
        |back| pipe::patch(&back.wishes(), forward.framing, context, faults).apply(&forward),
    );
    // Checks that combine fields run only where each field alone is right; otherwise they would
    // report the same problem twice.
    if faults.count() == before {
        for params in [&forward, &back] {
            if let Err(ParamError { problem, remedy }) = params.validate() {
                faults.add(at, problem, remedy);
                break;
            }
        }
    }
    // All links of the entry share them.
    let forward = Arc::new(forward);
    if back == *forward {
        return [Arc::clone(&forward), forward];
    }
    [forward, Arc::new(back)]
}

impl Links {
    /// The labels of links, each by its first pipe.
    pub(crate) fn labels(&self, topology: &Topology) -> Labels<PipeId> {
        let mut labels = Labels::default();
        if self.labelled.is_empty() {
            return labels;
        }
        let pipes = topology.pipes().iter().zip((0..).map(PipeId));
        for (pipe, id) in pipes.filter(|(pipe, id)| *id < pipe.back) {
            let of_entry = self.origin.get(&pipe.link);
            let of_entry = of_entry.and_then(|entry| self.labelled.get(entry));
            for (key, value) in of_entry.into_iter().flatten() {
                labels.add(key, value, [id]);
            }
        }
        labels
    }

    /// The pipes of each entry whose name is not a link's own.
    pub(crate) fn groups(&self, topology: &Topology) -> BTreeMap<String, Vec<PipeId>> {
        let several = self.entries.iter();
        let several = several.filter(|(name, _)| !self.origin.contains_key(*name));
        let mut of_entry: HashMap<usize, (&String, Vec<PipeId>)> = several
            .map(|(name, entry)| (*entry, (name, Vec::new())))
            .collect();
        for (pipe, number) in topology.pipes().iter().zip(0..) {
            let entry = self.origin.get(&pipe.link);
            if let Some((_, pipes)) = entry.and_then(|entry| of_entry.get_mut(entry)) {
                pipes.push(PipeId(number));
            }
        }
        of_entry
            .into_values()
            .map(|(name, pipes)| (name.clone(), pipes))
            .collect()
    }

    /// Adds one link; `member` is its number where it belongs to a group, `number` its place in
    /// its bundle, from 1.
    fn add(
        &mut self,
        common: &Common<'_>,
        member: Option<usize>,
        number: u32,
        (x, y): (usize, usize),
        nodes: &Nodes,
        faults: &mut Faults,
    ) {
        let ends = [nodes.list[x].name.clone(), nodes.list[y].name.clone()];
        let (name, pipe_names) = match common.name {
            Some(name) => {
                let member = member.map(|member| member.to_string()).unwrap_or_default();
                let name = format!("{}{member}{}", name.value, counted(number));
                let pipe = |x: &str, y: &str| format!("{name}:{x}>{y}");
                let pipes = [pipe(&ends[0], &ends[1]), pipe(&ends[1], &ends[0])];
                (name, pipes)
            }
            None => {
                let count = self.parallel.entry((x.min(y), x.max(y))).or_default();
                *count += 1;
                let suffix = counted(*count);
                let [x, y] = &ends;
                (
                    format!("{x}-{y}{suffix}"),
                    [format!("{x}>{y}{suffix}"), format!("{y}>{x}{suffix}")],
                )
            }
        };
        if self.origin.insert(name.clone(), common.entry).is_some() {
            let at = common.name.map_or(common.at, |name| name.at);
            let message = format!("two links are called `{name}`");
            faults.add(at, message, "give one of them another `name`");
        }
        self.list.push(Link {
            name,
            ends,
            pipe_names,
            mtu: common.mtu,
            balance: common.balance,
            params: common.params.clone(),
        });
    }
}

/// The suffix of parallel links: nothing for the first, then `#2` and so on.
fn counted(number: u32) -> String {
    match number {
        1 => String::new(),
        number => format!("#{number}"),
    }
}
