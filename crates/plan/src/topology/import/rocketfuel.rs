//! Rocketfuel's maps of Internet service providers (Spring, Mahajan, Wetherall, "Measuring ISP
//! Topologies with Rocketfuel", SIGCOMM 2002).
//!
//! `weights.intra` and `latencies.intra` (Mahajan et al., "Inferring Link Weights using
//! End-to-End Measurements", IMW 2002) have lines of two places and a number: a latency in
//! milliseconds, or a weight for routing, which is not a delay unless the option `unit` says so.
//! A place is a city with an optional number of a router. Each direction has a line.
//!
//! `.cch` files have a line for each router:
//! `uid @location [+] [bb] (neighbours) [&externals] -> <uid> … {-euid} … =name[!] rN`. Routers
//! of other networks (negative numbers) are left out, and delays are not known.

use longhaul_core::Span;

use super::graph::{Edge, Graph, Node};
use super::options::ImportOptions;
use super::text::{Flaw, Piece, Tally, lines};
use crate::text::error::shown;

/// Reads `weights.intra` or `latencies.intra`; the file's `name` decides which.
pub(super) fn read_links(text: &str, name: &str, options: &ImportOptions) -> Result<Graph, Flaw> {
    let mut graph = Graph::default();
    let latencies = name.to_ascii_lowercase().contains("latenc");
    let unit = options.unit.or(latencies.then_some(Span::from_ms(1)));
    for line in lines(text) {
        let fields: Vec<Piece<'_>> = line.fields().take(4).collect();
        let [from, to, number] = fields[..] else {
            let message = format!("this line has {} fields instead of 3", fields.len());
            let hint = "each line has two places and a number: `Paris,+France Bern,+Swiss 4.5`";
            return Err(line.flaw(message, hint));
        };
        let edge = Edge {
            at: line.at,
            ends: [place(&mut graph, from)?, place(&mut graph, to)?],
            directed: true,
            delay: unit.map(|unit| number.delay(unit)).transpose()?,
            label: unit
                .is_none()
                .then(|| format!("weight {}", shown(number.text))),
            ..Edge::default()
        };
        if edge.delay.is_none() {
            number.number("a weight")?;
        }
        graph.add_edge(edge)?;
    }
    if unit.is_none() {
        let note = "the numbers are weights for routing, not delays: `unit: 1 ms` takes them for \
                    milliseconds";
        graph.notes.push(note.to_owned());
    }
    Ok(graph)
}

/// The node of a place such as `New+York,+NY4`.
fn place(graph: &mut Graph, place: Piece<'_>) -> Result<usize, Flaw> {
    let node = graph.node(place)?;
    graph.nodes[node].label = Some(place.text.replace('+', " ").replace(", ", ","));
    Ok(node)
}

/// Reads a map of routers.
pub(super) fn read_map(text: &str) -> Result<Graph, Flaw> {
    let mut graph = Graph::default();
    let (mut outside, mut lost) = (Tally::default(), Tally::default());
    let mut links: Vec<(usize, Piece<'_>)> = Vec::new();
    for line in lines(text) {
        let mut fields = line.fields();
        let Some(uid) = fields.next() else { continue };
        if uid.text.starts_with('-') {
            outside.add(|| uid.text.to_owned());
            continue;
        }
        uid.whole("the number of a router")?;
        let location = fields.next().filter(|field| field.text.starts_with('@'));
        let Some(location) = location else {
            let hint = "lines are like `12 @Seattle,+WA bb (2) -> <3> <7> =name r0`";
            return Err(uid.flaw("this router has no place", hint));
        };
        let city = location.text[1..].replace('+', " ").replace(", ", ",");
        let node = Node {
            at: uid.at,
            label: Some(format!("{city}-{}", uid.text)),
            ..Node::default()
        };
        let number = graph.add_node(uid.text, node)?;
        let ends = fields.skip_while(|field| field.text != "->").skip(1);
        for end in ends.filter(|field| field.text.starts_with('<')) {
            let Some(id) = end.text[1..].strip_suffix('>') else {
                let hint = "neighbours are like `<3>`; the line may be cut off";
                return Err(end.flaw("this neighbour is not closed", hint));
            };
            let piece = Piece {
                at: end.at + 1,
                text: id,
            };
            piece.whole("the number of a router")?;
            links.push((number, piece));
        }
    }
    for (from, to) in links {
        // The maps that are trimmed by distance name routers that they do not hold.
        let Ok(to_node) = graph.known(to) else {
            lost.add(|| to.text.to_owned());
            continue;
        };
        graph.add_edge(Edge {
            at: to.at,
            ends: [from, to_node],
            directed: true,
            ..Edge::default()
        })?;
    }
    let what = (
        "router is of another network",
        "routers are of other networks",
    );
    graph.note(&outside, what, "left out");
    let what = (
        "link leads to a router that is not in the file",
        "links lead to routers that are not in the file",
    );
    graph.note(&lost, what, "left out");
    Ok(graph)
}
