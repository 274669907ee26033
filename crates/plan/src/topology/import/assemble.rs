//! From the graph of a file to a sketch: what is dropped, paired, placed, named and assumed.
//!
//! Every step that changes or assumes something leaves a note; nothing is corrected silently.

use std::collections::{HashMap, VecDeque};

use longhaul_core::Span;
use longhaul_core::units::Rate;

use super::geo;
use super::graph::{Edge, Graph};
use super::options::{Component, Hosts, HostsOn, ImportOptions};
use super::text::{Flaw, Tally};
use crate::limits::{MAX_HOSTS, MAX_LINKS};
use crate::topology::{Kind, Names, Sketch, SketchLink, SketchNode, SketchPipe, Tier};

/// The longest stem of a host's name, so that its number has room.
const MAX_STEM: usize = Names::MAX - 12;

/// Makes a sketch of a graph.
pub(super) fn assemble(mut graph: Graph, options: &ImportOptions) -> Result<Sketch, Flaw> {
    if graph.nodes.is_empty() {
        return Err(Flaw::whole(
            "there are no nodes in this file",
            "check that the file is whole, and that `format` is what it holds",
        ));
    }
    drop_loops(&mut graph);
    let mut links = pair(&mut graph);
    connect(&mut graph, &mut links, options.component)?;
    if links.len() > MAX_LINKS {
        return Err(Flaw::whole(
            format!("the network has more than {MAX_LINKS} links"),
            format!("at most {MAX_LINKS} links are supported: import a part of the network"),
        ));
    }
    let mut names = Names::default();
    name(&mut graph, &mut names);
    place(&mut graph, &links);
    let mut sketch = Sketch {
        title: graph.title.take().unwrap_or_default(),
        geographic: graph.geographic,
        ..Sketch::default()
    };
    for (number, node) in graph.nodes.iter().enumerate() {
        let tier = match node.stub {
            Some(false) => Tier::Core,
            _ => Tier::Edge,
        };
        let router = sketch.add_router(graph.called(number), tier, node.position);
        sketch.nodes[router].labels.clone_from(&node.labels);
    }
    join(&mut graph, &links, options, &mut sketch);
    sketch.notes = std::mem::take(&mut graph.notes);
    add_hosts(&graph, options, &mut names, &mut sketch)?;
    Ok(sketch)
}

/// A link of the sketch: an edge, and the edge that is its other direction.
struct Link {
    edge: Edge,
    back: Option<Edge>,
}

fn drop_loops(graph: &mut Graph) {
    let mut loops = Tally::default();
    for edge in graph
        .edges
        .iter()
        .filter(|edge| edge.ends[0] == edge.ends[1])
    {
        loops.add(|| graph.called(edge.ends[0]));
    }
    graph.edges.retain(|edge| edge.ends[0] != edge.ends[1]);
    let what = (
        "edge leads from a node to itself",
        "edges lead from a node to itself",
    );
    graph.note(&loops, what, "left out");
}

/// Makes links of edges: undirected ones as they are, directed ones with the first free one that
/// leads the other way.
fn pair(graph: &mut Graph) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::with_capacity(graph.edges.len());
    let mut open: HashMap<[usize; 2], VecDeque<usize>> = HashMap::new();
    for edge in std::mem::take(&mut graph.edges) {
        if !edge.directed {
            links.push(Link { edge, back: None });
            continue;
        }
        let [from, to] = edge.ends;
        let other = open.get_mut(&[to, from]).and_then(VecDeque::pop_front);
        match other {
            Some(other) => links[other].back = Some(edge),
            None => {
                open.entry([from, to]).or_default().push_back(links.len());
                links.push(Link { edge, back: None });
            }
        }
    }
    let mut single = Tally::default();
    for link in links
        .iter()
        .filter(|link| link.edge.directed && link.back.is_none())
    {
        single.add(|| graph.between(link.edge.ends));
    }
    let what = (
        "directed edge has none that leads back",
        "directed edges have none that leads back",
    );
    graph.note(&single, what, "taken as the same both ways");
    links
}

/// Refuses a network that is not connected, or keeps its largest part.
fn connect(graph: &mut Graph, links: &mut Vec<Link>, component: Component) -> Result<(), Flaw> {
    let mut shape = Sketch::default();
    shape
        .nodes
        .resize_with(graph.nodes.len(), SketchNode::default);
    for link in links.iter() {
        let [a, b] = link.edge.ends;
        shape.add_link(a, b, SketchPipe::default());
    }
    let (of, count) = shape.components();
    if count == 1 {
        return Ok(());
    }
    let mut sizes = vec![0; count];
    of.iter().for_each(|part| sizes[*part] += 1);
    let largest = (0..count)
        .rev()
        .max_by_key(|part| sizes[*part])
        .unwrap_or(0);
    let outside = of.iter().position(|part| *part != largest).unwrap_or(0);
    if component == Component::All {
        let message = format!(
            "the network is not connected: it has {count} parts, and `{}` is not in the largest \
             one of {} nodes",
            crate::text::error::shown(&graph.called(outside)),
            sizes[largest]
        );
        let hint = "write `component: largest` to import only that part, or add the missing links";
        return Err(Flaw::at(graph.nodes[outside].at, message, hint));
    }
    let mut left_out = Tally::default();
    let mut number = vec![usize::MAX; of.len()];
    let mut kept = 0;
    for (node, part) in of.iter().enumerate() {
        if *part == largest {
            number[node] = kept;
            kept += 1;
        } else {
            left_out.add(|| graph.called(node));
        }
    }
    let what = (
        "node is not in the largest connected part",
        "nodes are not in the largest connected part",
    );
    graph.note(
        &left_out,
        what,
        "left out with their links (`component: largest`)",
    );
    let mut node = 0..;
    graph
        .nodes
        .retain(|_| node.next().is_some_and(|node| of[node] == largest));
    links.retain(|link| of[link.edge.ends[0]] == largest);
    for link in links {
        for edge in std::iter::once(&mut link.edge).chain(&mut link.back) {
            edge.ends = edge.ends.map(|end| number[end]);
        }
    }
    Ok(())
}

/// Places nodes without coordinates in the middle of two or more neighbours that have them.
fn place(graph: &mut Graph, links: &[Link]) {
    if !graph.geographic {
        return;
    }
    let mut off = Tally::default();
    for node in 0..graph.nodes.len() {
        if graph.nodes[node]
            .position
            .is_some_and(|at| !geo::is_on_earth(at))
        {
            off.add(|| graph.called(node));
            graph.nodes[node].position = None;
        }
    }
    let what = (
        "node has coordinates that are not on Earth",
        "nodes have coordinates that are not on Earth",
    );
    graph.note(&off, what, "taken as missing");
    let mut placed = Tally::default();
    for (node, middle) in middles(graph, links) {
        placed.add(|| graph.called(node));
        graph.nodes[node].position = Some(middle);
    }
    let what = ("node has no coordinates", "nodes have no coordinates");
    let rest = "placed in the middle of the neighbours that have them";
    graph.note(&placed, what, rest);
}

/// The middle of the places of a node's neighbours, for all nodes that have no place of their
/// own and at least two neighbours that have one.
fn middles(graph: &Graph, links: &[Link]) -> Vec<(usize, geo::Position)> {
    let mut around: HashMap<usize, Vec<usize>> = HashMap::new();
    for link in links {
        let [a, b] = link.edge.ends;
        for (lost, known) in [(a, b), (b, a)] {
            if graph.nodes[lost].position.is_none() && graph.nodes[known].position.is_some() {
                around.entry(lost).or_default().push(known);
            }
        }
    }
    let mut found: Vec<_> = around
        .into_iter()
        .filter_map(|(node, mut known)| {
            known.sort_unstable();
            known.dedup();
            let places: Vec<_> = known
                .iter()
                .filter_map(|n| graph.nodes[*n].position)
                .collect();
            let middle = geo::middle(&places).filter(|_| places.len() > 1)?;
            Some((node, middle))
        })
        .collect();
    found.sort_unstable_by_key(|(node, _)| *node);
    found
}

/// Makes the labels valid names of an experiment file.
fn name(graph: &mut Graph, names: &mut Names) {
    let (mut changed, mut twice) = (Tally::default(), Tally::default());
    let mut seen: HashMap<String, u32> = HashMap::new();
    for number in 0..graph.nodes.len() {
        let label = graph.called(number);
        let name = names.take(&label, &format!("node{number}"));
        let times = seen.entry(label.to_lowercase()).or_default();
        *times += 1;
        let example = || format!("`{label}` is {name}");
        if *times > 1 {
            twice.add(example);
        } else if name != label {
            changed.add(example);
        }
        graph.nodes[number].label = Some(name);
    }
    let what = ("label is not a host name", "labels are not host names");
    graph.note(
        &changed,
        what,
        "characters that cannot be in one were replaced",
    );
    let what = ("label occurs again", "labels occur again");
    graph.note(&twice, what, "a number was added");
}

/// Adds the links with what is known about them, and says what is not.
fn join(graph: &mut Graph, links: &[Link], options: &ImportOptions, sketch: &mut Sketch) {
    let mut assumed = Assumed::default();
    for link in links {
        let ends = link.edge.ends;
        let distance = match ends.map(|end| graph.nodes[end].position) {
            [Some(a), Some(b)] if graph.geographic => Some(geo::distance_m(a, b)),
            _ => None,
        };
        let mut pipe = |edge: &Edge| SketchPipe {
            rate: edge.rate.or(options.rate),
            delay: edge
                .delay
                .unwrap_or_else(|| assumed.delay(graph, ends, distance, options)),
            loss: edge.loss.filter(|loss| !loss.is_never()),
            queue: None,
        };
        let forward = pipe(&link.edge);
        let back = link.back.as_ref().map(&mut pipe);
        if link.edge.rate.is_none() {
            assumed.rates.add(|| graph.between(ends));
        }
        sketch.links.push(SketchLink {
            ends,
            name: None,
            label: link.edge.label.clone(),
            labels: link.edge.labels.clone(),
            forward,
            back: back.filter(|back| *back != forward),
        });
    }
    assumed.note(graph, options);
}

/// How often something about a link was not in the file.
#[derive(Default)]
struct Assumed {
    delays: Tally,
    near: Tally,
    rates: Tally,
}

impl Assumed {
    fn delay(
        &mut self,
        graph: &Graph,
        ends: [usize; 2],
        distance_m: Option<f64>,
        options: &ImportOptions,
    ) -> Span {
        let example = || graph.between(ends);
        let Some(distance_m) = distance_m else {
            self.delays.add(example);
            return options.default_delay;
        };
        let delay = geo::delay(distance_m, options.speed.fraction());
        if delay < options.min_delay {
            self.near.add(example);
            return options.min_delay;
        }
        delay
    }

    fn note(&self, graph: &mut Graph, options: &ImportOptions) {
        let what = (
            "link has neither a delay nor a distance",
            "links have neither a delay nor a distance",
        );
        let rest = format!("taken as {} (`default_delay`)", options.default_delay);
        graph.note(&self.delays, what, rest);
        let what = ("link is very short", "links are very short");
        let rest = format!("the delay is {} (`min_delay`)", options.min_delay);
        graph.note(&self.near, what, rest);
        let what = (
            "link has no rate in the file",
            "links have no rate in the file",
        );
        let rest = match options.rate {
            Some(rate) => format!("taken as {rate} (`rate`)"),
            None => "unlimited, which `rate` changes".to_owned(),
        };
        graph.note(&self.rates, what, rest);
    }
}

/// Adds the hosts: `x-h0`, `x-h1` and so on at the node `x`.
fn add_hosts(
    graph: &Graph,
    options: &ImportOptions,
    names: &mut Names,
    sketch: &mut Sketch,
) -> Result<(), Flaw> {
    let neighbours = neighbours(sketch);
    let stub = |node: usize| graph.nodes[node].stub.unwrap_or(neighbours[node] < 2);
    let places: Vec<usize> = (0..graph.nodes.len())
        .filter(|node| options.hosts_on == HostsOn::All || stub(*node))
        .collect();
    let at = |place: usize| match options.hosts {
        Hosts::PerNode(per) => per,
        // The first ⌈n·(i+1)/m⌉ hosts are at the first i + 1 of m places.
        Hosts::InAll(all) => {
            let until = |i: usize| all.saturating_mul(i).div_ceil(places.len());
            until(place + 1) - until(place)
        }
    };
    let total = match options.hosts {
        Hosts::PerNode(per) => per.saturating_mul(places.len()),
        Hosts::InAll(all) => all,
    };
    if total > MAX_HOSTS || total + sketch.links.len() > MAX_LINKS {
        return Err(Flaw::whole(
            format!("{total} hosts are too many for this network"),
            format!(
                "at most {MAX_HOSTS} hosts and {MAX_LINKS} links are supported: write, for \
                 example, `hosts: 100 in all`"
            ),
        ));
    }
    if places.is_empty() && total > 0 {
        return Err(no_stubs());
    }
    for (place, node) in places.iter().copied().enumerate() {
        let mut stem = sketch.nodes[node].name.clone();
        stem.truncate(MAX_STEM);
        let rates = graph.nodes[node]
            .access
            .map(|rate| options.access_rate.or(rate));
        for number in 0..at(place) {
            let name = names.take(&format!("{stem}-h{number}"), "host");
            let host = sketch.add_node(SketchNode {
                name,
                kind: Kind::Host,
                position: sketch.nodes[node].position,
                tier: Tier::Access,
                // Sets of hosts choose by where they are.
                labels: graph.nodes[node].labels.clone(),
            });
            add_access(sketch, [host, node], rates, options.access_delay);
        }
    }
    Ok(())
}

fn no_stubs() -> Flaw {
    Flaw::whole(
        "no node is a stub, so there is no place for hosts",
        "write `hosts_on: all`",
    )
}

/// The link of a host; `rates` are those from it and to it.
fn add_access(sketch: &mut Sketch, ends: [usize; 2], rates: [Option<Rate>; 2], delay: Span) {
    let [forward, back] = rates.map(|rate| SketchPipe {
        rate,
        delay,
        ..SketchPipe::default()
    });
    sketch.links.push(SketchLink {
        ends,
        forward,
        back: (back != forward).then_some(back),
        ..SketchLink::default()
    });
}

/// How many neighbours each node has; parallel links lead to one.
fn neighbours(sketch: &Sketch) -> Vec<usize> {
    let mut pairs: Vec<[usize; 2]> = sketch.links.iter().map(|link| link.ends).collect();
    pairs.iter_mut().for_each(|pair| pair.sort_unstable());
    pairs.sort_unstable();
    pairs.dedup();
    let mut count = vec![0; sketch.nodes.len()];
    pairs.iter().flatten().for_each(|end| count[*end] += 1);
    count
}
