//! A sketch as an experiment file: the text that a person reads and changes, and the tree that
//! `generate` and `import` put into their file. Both are made of the same
//! entries, so that both mean the same.
//!
//! In a text, hosts NAME0 … NAME(n−1) become a group, and links that join all of a group one
//! entry; in a tree every link is an entry, so that an override can change it by its name.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::{Kind, Sketch, SketchLabels, SketchLink, SketchPipe};
use crate::text::error::Pos;
use crate::text::tree::{Key, Node, Value};

/// The fields of an entry, with their values as they are written.
type Fields = Vec<(&'static str, String)>;

/// A node or a group.
struct NodeEntry {
    name: String,
    fields: Fields,
    labels: SketchLabels,
    position: Option<[String; 2]>,
}

/// A link, or the links of a group.
struct LinkEntry<'a> {
    ends: [&'a str; 2],
    fields: Fields,
    back: Fields,
    labels: SketchLabels,
    label: Option<&'a str>,
}

/// A run of nodes that is written as a group.
struct Group {
    stem: String,
    first: usize,
    count: usize,
}

/// The experiment file of a sketch.
///
/// The text parses unchanged, if the sketch is one that a plan accepts; programs are to be
/// added by whoever uses it.
pub fn text(sketch: &Sketch) -> String {
    let mut text = String::new();
    let mut comment = |line: &str| {
        let _ = writeln!(text, "# {}", one_line(line));
    };
    if !sketch.title.is_empty() {
        comment(&sketch.title);
    }
    sketch
        .notes
        .iter()
        .for_each(|note| comment(&format!("note: {note}")));
    let groups = groups(sketch);
    text.push_str("topology:\n  nodes:");
    let nodes = nodes(sketch, &groups);
    if nodes.is_empty() {
        text.push_str(" {}");
    }
    text.push('\n');
    for node in &nodes {
        let mut fields = flow(&node.fields);
        fields.extend(flow_labels(&node.labels));
        if let Some([x, y]) = &node.position {
            fields.push(format!("position: [{x}, {y}]"));
        }
        let _ = writeln!(
            text,
            "    {}: {{ {} }}",
            quoted(&node.name),
            fields.join(", ")
        );
    }
    let links = links(sketch, &groups);
    if !links.is_empty() {
        text.push_str("  links:\n");
    }
    for link in &links {
        let [a, b] = link.ends.map(quoted);
        let mut fields = vec![format!("ends: [{a}, {b}]")];
        fields.extend(flow(&link.fields));
        fields.extend(flow_labels(&link.labels));
        if !link.back.is_empty() {
            fields.push(format!("back: {{ {} }}", flow(&link.back).join(", ")));
        }
        let label = link
            .label
            .map_or(String::new(), |label| format!("  # {}", one_line(label)));
        let _ = writeln!(text, "    - {{ {} }}{label}", fields.join(", "));
    }
    text
}

fn flow(fields: &Fields) -> Vec<String> {
    fields
        .iter()
        .map(|(name, value)| format!("{name}: {}", quoted(value)))
        .collect()
}

fn flow_labels(labels: &SketchLabels) -> Option<String> {
    let labels = labels.as_ref()?.iter();
    let each = labels.map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)));
    Some(format!(
        "labels: {{ {} }}",
        each.collect::<Vec<_>>().join(", ")
    ))
}

/// The nodes and links of a sketch as the file's tree holds them, all at the place `at`.
pub(crate) fn tree(sketch: &Sketch, at: Pos) -> (Vec<(Key, Node)>, Vec<Node>) {
    let node = |value| Node { at, value };
    let scalar = |text: &str| {
        node(Value::Text {
            text: text.to_owned(),
            plain: true,
        })
    };
    let key = |text: &str| Key {
        at,
        text: text.to_owned(),
    };
    let list = |texts: [&str; 2]| node(Value::List(texts.map(scalar).into()));
    let map = |fields: &Fields| -> Vec<(Key, Node)> {
        fields
            .iter()
            .map(|(name, value)| (key(name), scalar(value)))
            .collect()
    };
    let labelled = |labels: &SketchLabels| -> Option<(Key, Node)> {
        let labels = labels.as_ref()?.iter();
        let labels = labels.map(|(name, value)| (key(name), scalar(value)));
        Some((key("labels"), node(Value::Map(labels.collect()))))
    };
    let nodes = nodes(sketch, &[]).into_iter().map(|entry| {
        let mut fields = map(&entry.fields);
        fields.extend(labelled(&entry.labels));
        if let Some([x, y]) = &entry.position {
            fields.push((key("position"), list([x, y])));
        }
        (key(&entry.name), node(Value::Map(fields)))
    });
    // One by one: there may be a million.
    let links = sketch.links.iter().map(|link| {
        let entry = link_entry(link, link.ends.map(|end| &*sketch.nodes[end].name));
        let mut fields = vec![(key("ends"), list(entry.ends))];
        fields.extend(map(&entry.fields));
        fields.extend(labelled(&entry.labels));
        if !entry.back.is_empty() {
            fields.push((key("back"), node(Value::Map(map(&entry.back)))));
        }
        node(Value::Map(fields))
    });
    (nodes.collect(), links.collect())
}

/// The runs of nodes that can be groups: alike but for the number at the end of their names,
/// from 0 on, and without positions.
fn groups(sketch: &Sketch) -> Vec<Group> {
    let taken: HashSet<&str> = sketch.nodes.iter().map(|node| &*node.name).collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    while at < sketch.nodes.len() {
        let first = &sketch.nodes[at];
        let stem = first.name.strip_suffix('0').unwrap_or_default();
        let member = |(n, node): &(usize, &super::SketchNode)| {
            node.kind == first.kind
                && node.position.is_none()
                && node.labels == first.labels
                && node.name.strip_prefix(stem) == Some(&*n.to_string())
        };
        let plain = stem.ends_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let named = plain && crate::names::check_host_name(stem).is_ok();
        let good = named && !taken.contains(stem);
        let count = if good {
            sketch.nodes[at..]
                .iter()
                .enumerate()
                .take_while(member)
                .count()
        } else {
            0
        };
        // Names of groups are unique: a further run with this stem stays single nodes.
        if count > 1 && groups.iter().all(|group| group.stem != stem) {
            groups.push(Group {
                stem: stem.to_owned(),
                first: at,
                count,
            });
            at += count;
        } else {
            at += 1;
        }
    }
    groups
}

fn nodes(sketch: &Sketch, groups: &[Group]) -> Vec<NodeEntry> {
    let mut entries = Vec::new();
    let mut groups = groups.iter().peekable();
    let stretch = sketch.stretch();
    let mut at = 0;
    while let Some(node) = sketch.nodes.get(at) {
        let kind = match node.kind {
            Kind::Host => "host",
            Kind::Router => "router",
            Kind::Lan => "lan",
        };
        let mut fields = vec![("kind", kind.to_owned())];
        let group = groups.next_if(|group| group.first == at);
        if let Some(group) = group {
            fields.push(("count", group.count.to_string()));
        }
        let position = node
            .position
            .filter(|(x, y)| x.is_finite() && y.is_finite());
        entries.push(NodeEntry {
            name: group.map_or_else(|| node.name.clone(), |group| group.stem.clone()),
            fields,
            labels: node.labels.clone(),
            position: position.map(|(x, y)| [short(x * stretch), short(y)]),
        });
        at += group.map_or(1, |group| group.count);
    }
    entries
}

fn links<'a>(sketch: &'a Sketch, groups: &'a [Group]) -> Vec<LinkEntry<'a>> {
    let starts: HashMap<usize, &Group> = groups.iter().map(|group| (group.first, group)).collect();
    let name = |node: usize| sketch.nodes[node].name.as_str();
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(link) = sketch.links.get(at) {
        let [a, b] = link.ends;
        let rest = &sketch.links[at..];
        let whole = starts
            .get(&a)
            .and_then(|group| Some((*group, join(rest, group, &starts)?)));
        let ends = match whole {
            Some((group, Some(other))) => [&*group.stem, &*other.stem],
            Some((group, None)) => [&*group.stem, name(b)],
            None => [name(a), name(b)],
        };
        entries.push(link_entry(link, ends));
        at += whole.map_or(1, |(group, _)| group.count);
    }
    entries
}

fn link_entry<'a>(link: &'a SketchLink, ends: [&'a str; 2]) -> LinkEntry<'a> {
    let mut fields = pipe(&link.forward);
    if let Some(name) = &link.name {
        fields.insert(0, ("name", name.clone()));
    }
    let back = link.back.as_ref();
    LinkEntry {
        ends,
        fields,
        back: back.map_or_else(Vec::new, |back| back_fields(&link.forward, back)),
        labels: link.labels.clone(),
        label: link.label.as_deref(),
    }
}

/// Whether the first of `links` join all of `group`: to one node, or in pairs to all of another
/// group, which is given.
fn join<'a>(
    links: &[SketchLink],
    group: &Group,
    starts: &HashMap<usize, &'a Group>,
) -> Option<Option<&'a Group>> {
    let links = links.get(..group.count)?;
    let first = &links[0];
    let alike = |(n, link): (usize, &SketchLink)| {
        link.ends[0] == group.first + n
            && link.name.is_none()
            && (link.forward, link.back) == (first.forward, first.back)
            && (&link.label, &link.labels) == (&first.label, &first.labels)
    };
    if !links.iter().enumerate().all(alike) {
        return None;
    }
    let target = first.ends[1];
    if links.iter().all(|link| link.ends[1] == target) {
        // A link within the group does not count: a whole group cannot be joined to its own member.
        let own = (group.first..group.first + group.count).contains(&target);
        return (!own).then_some(None);
    }
    let other = starts
        .get(&target)
        .filter(|other| other.count == group.count)?;
    let mut pairs = links.iter().enumerate();
    pairs
        .all(|(n, link)| link.ends[1] == target + n)
        .then_some(Some(*other))
}

fn pipe(pipe: &SketchPipe) -> Fields {
    let mut fields = Vec::new();
    fields.extend(pipe.rate.map(|rate| ("rate", rate.to_string())));
    if pipe.delay != longhaul_core::Span::ZERO {
        fields.push(("delay", pipe.delay.to_string()));
    }
    fields.extend(pipe.loss.map(|loss| ("loss", loss.to_string())));
    fields.extend(pipe.queue.map(|queue| ("queue", queue.to_string())));
    fields
}

/// What differs on the way back. What `back` leaves open cannot be said where `forward` does say
/// it: then it is as forward.
fn back_fields(forward: &SketchPipe, back: &SketchPipe) -> Fields {
    let mut fields = Vec::new();
    if back.rate != forward.rate {
        fields.extend(back.rate.map(|rate| ("rate", rate.to_string())));
    }
    if back.delay != forward.delay {
        fields.push(("delay", back.delay.to_string()));
    }
    if back.loss != forward.loss {
        fields.push(("loss", back.loss.unwrap_or_default().to_string()));
    }
    if back.queue != forward.queue {
        fields.push(("queue", back.queue.unwrap_or_default().to_string()));
    }
    fields
}

/// A coordinate to a thousandth, without zeros at the end.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// A scalar of a flow map, in quotes where YAML would take it for something else.
fn quoted(text: &str) -> String {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let special = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_. %/".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if starts && !special && text.chars().all(plain) {
        text.to_owned()
    } else {
        // JSON's strings are YAML's.
        serde_json::Value::from(text).to_string()
    }
}

/// A comment: no line break, nothing that steers a terminal.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let clean = |c: char| if breaks(c) { ' ' } else { c };
    let text: String = text.chars().take(200).map(clean).collect();
    text.trim().to_owned()
}
