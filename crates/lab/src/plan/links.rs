//! Links: ends, names and what each direction does.
//!
//! A link between a node and a group stands for one link per member, a link between two groups
//! for one per pair of members. Links are called `x-y` after their ends, further ones between
//! the same nodes `x-y#2` and so on in the order of the file; their pipes are `x>y` and `y>x`
//! (`x>y#2`). A link with a `name` has the pipes `name:x>y` and `name:y>x`.

use std::collections::HashMap;

use longhaul_core::params::{LossModel, PipeParams};
use longhaul_core::topology::Link;

use super::nodes::{NAME_HINT, Named, Nodes, check_name};
use super::{Defaults, MAX_LINKS};
use crate::file::error::{Faults, Pos, shown};
use crate::file::spec::{LinkSpec, TopologySpec};
use crate::file::wrap::At;

/// The links of a file.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) list: Vec<Link>,
    /// For the name of each link, the entry of the file that it comes from.
    pub(crate) origin: HashMap<String, usize>,
    /// How many unnamed links join two nodes, by their numbers.
    parallel: HashMap<(usize, usize), u32>,
}

/// What the links of one entry have in common.
struct Common<'a> {
    name: Option<&'a At<String>>,
    at: Pos,
    entry: usize,
    mtu: u32,
    params: [PipeParams; 2],
}

/// Expands and names the links of a file.
pub(crate) fn expand(
    spec: &TopologySpec,
    nodes: &Nodes,
    defaults: &Defaults,
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
            params: params(link, defaults, faults),
        };
        check_link_name(link, faults);
        let Some((pairs, grouped)) = pairs(link, nodes, faults) else {
            continue;
        };
        if links.list.len() + pairs.len() > MAX_LINKS {
            let message = format!("the experiment has more than {MAX_LINKS} links");
            faults.add(
                *at,
                message,
                format!("at most {MAX_LINKS} links are supported"),
            );
            break;
        }
        for (member, pair) in pairs.into_iter().enumerate() {
            links.add(&common, grouped.then_some(member), pair, nodes, faults);
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
            "a link has two ends, and here are {}",
            link.ends.value.len()
        );
        faults.add(link.ends.at, message, "write them like `ends: [a, b]`");
        return None;
    };
    let (first, second) = (nodes.resolve(x, faults), nodes.resolve(y, faults));
    let (first, second) = (first?, second?);
    if x.value == y.value {
        let message = format!("a link from `{}` to itself", shown(&x.value));
        faults.add(y.at, message, "name two different nodes");
        return None;
    }
    let (from, to) = (first.members(), second.members());
    let pairs: Vec<(usize, usize)> = match (first, second) {
        (Named::Group(_), Named::Group(_)) if from.len() != to.len() => {
            let message = format!(
                "groups are joined in pairs, but `{}` has {} nodes and `{}` has {}",
                x.value,
                from.len(),
                y.value,
                to.len()
            );
            faults.add(
                link.ends.at,
                message,
                "give both the same `count`, or join them by a router",
            );
            return None;
        }
        (Named::Group(_), Named::Group(_)) => {
            from.iter().copied().zip(to.iter().copied()).collect()
        }
        _ => from
            .iter()
            .flat_map(|x| to.iter().map(|y| (*x, *y)))
            .collect(),
    };
    if let Some((own, _)) = pairs.iter().find(|(x, y)| x == y) {
        let message = format!("a link from `{}` to itself", nodes.list[*own].name);
        faults.add(
            y.at,
            message,
            "a group is joined to a node that is not its member",
        );
        return None;
    }
    let grouped = [first, second]
        .iter()
        .any(|end| matches!(end, Named::Group(_)));
    Some((pairs, grouped))
}

/// What both directions do.
fn params(link: &LinkSpec, defaults: &Defaults, faults: &mut Faults) -> [PipeParams; 2] {
    macro_rules! read {
        ($from:expr, $field:ident) => {
            $from
                .$field
                .as_ref()
                .and_then(|quantity| quantity.get(faults))
        };
    }
    let forward = PipeParams {
        rate: read!(link, rate),
        delay: read!(link, delay).unwrap_or_default(),
        loss: LossModel::Independent(read!(link, loss).unwrap_or_default()),
        queue: read!(link, queue).unwrap_or_default(),
        framing: read!(link, framing).unwrap_or(defaults.framing),
        ..PipeParams::default()
    };
    let Some(back) = &link.back else {
        return [forward.clone(), forward];
    };
    let back = PipeParams {
        rate: read!(back, rate).or(forward.rate),
        delay: read!(back, delay).unwrap_or(forward.delay),
        loss: read!(back, loss).map_or(forward.loss.clone(), LossModel::Independent),
        queue: read!(back, queue).unwrap_or(forward.queue),
        ..forward.clone()
    };
    [forward, back]
}

impl Links {
    /// Adds one link; `member` is its number where it belongs to a group.
    fn add(
        &mut self,
        common: &Common<'_>,
        member: Option<usize>,
        (x, y): (usize, usize),
        nodes: &Nodes,
        faults: &mut Faults,
    ) {
        let ends = [nodes.list[x].name.clone(), nodes.list[y].name.clone()];
        let (name, pipe_names) = match common.name {
            Some(name) => {
                let number = member.map(|member| member.to_string()).unwrap_or_default();
                let name = format!("{}{number}", name.value);
                let pipe = |x: &str, y: &str| format!("{name}:{x}>{y}");
                let pipes = [pipe(&ends[0], &ends[1]), pipe(&ends[1], &ends[0])];
                (name, pipes)
            }
            None => {
                let count = self.parallel.entry((x.min(y), x.max(y))).or_default();
                *count += 1;
                let suffix = if *count > 1 {
                    format!("#{count}")
                } else {
                    String::new()
                };
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
            params: common.params.clone(),
        });
    }
}
