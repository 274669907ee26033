//! Overrides: `--set links.ga-gb.delay=5 ms` changes the tree before anything is checked.
//!
//! A path names fields with dots between them. An entry of a list is named by its number from
//! 0, a link also by its name. `links`, `nodes`, `generate` and `import` stand for
//! `topology.links` and so on. Names may hold dots themselves: the longest name that exists wins.
//!
//! A pattern of links or nodes changes all entries whose names are like it, and `all` all links;
//! what comes behind it is set for each. Labels are left out: a path ends at its first `=`.

use crate::select::glob::Glob;
use crate::select::{ALL, SelectError, existing, meant};
use crate::text::error::{Fault, Pos, shown};
use crate::text::tree::{self, Key, Node, Value};

/// Sets `path` to `value`; problems point into the text `path=value`, source `source`.
pub(crate) fn apply(root: &mut Node, path: &str, value: &str, source: u16) -> Result<(), Fault> {
    let value = parse_value(value, path.chars().count() as u32 + 1, source)?;
    let head = path.split('.').next().unwrap_or_default();
    let shorthand = matches!(head, "links" | "nodes" | "generate" | "import");
    let full = if shorthand {
        format!("topology.{path}")
    } else {
        path.to_owned()
    };
    let skipped = if shorthand { "topology.".len() } else { 0 };
    Setter {
        path: &full,
        skipped,
        source,
    }
    .set(root, 0, value)
}

/// Whether a path names what a generated or imported topology is made of.
pub(crate) fn shapes_topology(path: &str) -> bool {
    let short = path.strip_prefix("topology.").unwrap_or(path);
    let head = short.split('.').next().unwrap_or_default();
    // The clock says how large it may be.
    matches!(head, "seed" | "clock" | "topology" | "generate" | "import")
}

/// A value is taken as it is, unless it starts as YAML's lists, maps and quoted texts do.
pub(crate) fn parse_value(value: &str, shift: u32, source: u16) -> Result<Node, Fault> {
    if !value.trim_start().starts_with(['[', '{', '"', '\'']) {
        let text = value.trim().to_owned();
        let width = text.chars().count() as u32;
        let at = Pos {
            source,
            line: 1,
            column: shift + 1,
            width,
        };
        return Ok(Node {
            at,
            value: Value::Text { text, plain: true },
        });
    }
    let mut node = tree::parse(value, source).map_err(|mut fault| {
        fault.at.iter_mut().for_each(|at| moved(at, shift));
        fault
    })?;
    shift_all(&mut node, shift);
    Ok(node)
}

fn moved(at: &mut Pos, shift: u32) {
    if at.line == 1 {
        at.column += shift;
    }
}

fn shift_all(node: &mut Node, shift: u32) {
    moved(&mut node.at, shift);
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| shift_all(item, shift)),
        Value::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
            moved(&mut key.at, shift);
            shift_all(value, shift);
        }),
        Value::Empty | Value::Text { .. } => {}
    }
}

struct Setter<'a> {
    path: &'a str,
    /// How much of `path` the user did not write.
    skipped: usize,
    source: u16,
}

impl Setter<'_> {
    /// Sets what `path[done..]` names within `node`.
    fn set(&self, node: &mut Node, done: usize, value: Node) -> Result<(), Fault> {
        let rest = &self.path[done..];
        let segment = rest.split('.').next().unwrap_or_default();
        if segment.is_empty() {
            return Err(self.fault(done, 1, "a name is missing in this path".into()));
        }
        if node.value == Value::Empty {
            node.value = Value::Map(Vec::new());
        }
        match &mut node.value {
            Value::Map(entries) => self.set_in_map(entries, done, segment, value),
            Value::List(items) => self.set_in_list(items, done, segment, value),
            Value::Empty | Value::Text { .. } => {
                let before = self.path[..done].trim_end_matches('.');
                let message = format!(
                    "`{}` is a value and has no field `{segment}`",
                    shown(before)
                );
                Err(self.fault(done, segment.chars().count(), message))
            }
        }
    }

    fn set_in_map(
        &self,
        entries: &mut Vec<(Key, Node)>,
        done: usize,
        segment: &str,
        value: Node,
    ) -> Result<(), Fault> {
        let rest = &self.path[done..];
        let known = entries
            .iter()
            .enumerate()
            .filter(|(_, (key, _))| names(rest, &key.text));
        if let Some((index, _)) = known.max_by_key(|(_, (key, _))| key.text.len()) {
            let (key, node) = &mut entries[index];
            return self.enter(node, done + key.text.len(), value);
        }
        let parent = self.path[..done].trim_end_matches('.');
        let kind = match parent {
            "topology.nodes" => Some(["node", "nodes"]),
            "programs" => Some(["program", "programs"]),
            _ => None,
        };
        if let (Some(kind), true) = (kind, rest.len() > segment.len()) {
            let names: Vec<String> = entries.iter().map(|(key, _)| key.text.clone()).collect();
            let is_pattern = kind[0] == "node" && Glob::is_pattern(segment);
            let known = names.iter().map(String::as_str);
            if !is_pattern {
                return Err(self.unknown(done, segment, kind, known));
            }
            let like = self.like(done, segment, kind, known)?;
            let nodes = entries.iter_mut().map(|(_, node)| node);
            return self.enter_each(nodes, &like, done + segment.len(), &value);
        }
        let at = self.pos(done, segment.chars().count());
        let mut node = Node {
            at,
            value: Value::Empty,
        };
        self.enter(&mut node, done + segment.len(), value)?;
        entries.push((
            Key {
                at,
                text: segment.to_owned(),
            },
            node,
        ));
        Ok(())
    }

    fn set_in_list(
        &self,
        items: &mut [Node],
        done: usize,
        segment: &str,
        value: Node,
    ) -> Result<(), Fault> {
        let rest = &self.path[done..];
        if let Ok(index) = segment.parse::<usize>() {
            let (count, width) = (items.len(), segment.len());
            return match items.get_mut(index) {
                Some(item) => self.enter(item, done + segment.len(), value),
                None => {
                    let message =
                        format!("there is no entry {index}: the list has {count}, numbered from 0");
                    Err(self.fault(done, width, message))
                }
            };
        }
        if self.path[..done] != *"topology.links." {
            let message = format!("there is no entry `{}` in this list", shown(segment));
            let hint = "entries of a list are named by their number, starting at 0";
            return Err(self
                .fault(done, segment.chars().count(), message)
                .hint(hint));
        }
        let labels = link_names(items);
        let known = labels
            .iter()
            .enumerate()
            .filter(|(_, label)| names(rest, label));
        match known.max_by_key(|(_, label)| label.len()) {
            Some((index, label)) => self.enter(&mut items[index], done + label.len(), value),
            None => {
                const LINKS: [&str; 2] = ["link", "links"];
                let known = labels.iter().map(String::as_str);
                let named = known.clone().filter(|name| !name.is_empty());
                if segment != ALL && !Glob::is_pattern(segment) {
                    return Err(self.unknown(done, segment, LINKS, named));
                }
                let like = self.like(done, segment, LINKS, known)?;
                self.enter_each(items.iter_mut(), &like, done + segment.len(), &value)
            }
        }
    }

    /// Which of some names, by number, are like a pattern; at least one.
    fn like<'a>(
        &self,
        done: usize,
        pattern: &str,
        kind: [&str; 2],
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Vec<usize>, Fault> {
        let width = pattern.chars().count();
        let refuse = |e: SelectError| self.fault(done, width, e.problem).hint(e.remedy);
        let like: Vec<usize> = match pattern {
            ALL => (0..known.clone().count()).collect(),
            pattern => {
                let glob = Glob::parse(pattern).map_err(refuse)?;
                let fits = |name: &str| !name.is_empty() && glob.matches(name);
                let numbered = known.clone().enumerate();
                numbered
                    .filter(|(_, name)| fits(name))
                    .map(|(number, _)| number)
                    .collect()
            }
        };
        if like.is_empty() {
            let message = format!(
                "no {} has a name that matches `{}`",
                kind[0],
                shown(pattern)
            );
            return Err(self
                .fault(done, width, message)
                .hint(existing(kind, known.filter(|name| !name.is_empty()))));
        }
        Ok(like)
    }

    /// Goes on within those of `nodes` whose numbers are `chosen`, in order.
    fn enter_each<'n>(
        &self,
        nodes: impl Iterator<Item = &'n mut Node>,
        chosen: &[usize],
        end: usize,
        value: &Node,
    ) -> Result<(), Fault> {
        let size = value.size().saturating_mul(chosen.len());
        if size > tree::MAX_NODES {
            let message = format!("this sets more than {} values", tree::MAX_NODES);
            return Err(self
                .fault(0, 1, message)
                .hint("choose fewer links or nodes"));
        }
        let mut chosen = chosen.iter().copied().peekable();
        for (number, node) in nodes.enumerate() {
            if chosen.next_if_eq(&number).is_some() {
                self.enter(node, end, value.clone())?;
            }
        }
        Ok(())
    }

    /// Goes on within `node`, which `path[..end]` names, or replaces it at the path's end.
    fn enter(&self, node: &mut Node, end: usize, value: Node) -> Result<(), Fault> {
        if end == self.path.len() {
            *node = value;
            return Ok(());
        }
        self.set(node, end + 1, value)
    }

    fn unknown<'a>(
        &self,
        done: usize,
        segment: &str,
        kind: [&str; 2],
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Fault {
        let message = format!("there is no {} called `{}`", kind[0], shown(segment));
        let fault = self.fault(done, segment.chars().count(), message);
        let near = meant(segment, known.clone(), |name| format!("`{name}`"));
        fault.hint(near + &existing(kind, known))
    }

    fn fault(&self, done: usize, width: usize, message: String) -> Fault {
        Fault::new(message).at(self.pos(done, width))
    }

    /// The place of `path[done..]` in the text that the user wrote.
    fn pos(&self, done: usize, width: usize) -> Pos {
        let written = self.path[..done].get(self.skipped..).unwrap_or_default();
        let column = written.chars().count() as u32 + 1;
        Pos {
            source: self.source,
            line: 1,
            column,
            width: width as u32,
        }
    }
}

/// Whether the path `rest` begins with the whole name `name`.
fn names(rest: &str, name: &str) -> bool {
    rest.strip_prefix(name)
        .is_some_and(|after| after.is_empty() || after.starts_with('.'))
}

/// What the entries of `links` are called: their `name`, or their ends `x-y`, counted up where
/// several join the same two.
fn link_names(items: &[Node]) -> Vec<String> {
    let mut seen = std::collections::HashMap::new();
    let name = |item: &Node| {
        let Value::Map(fields) = &item.value else {
            return String::new();
        };
        let field = |name: &str| {
            fields
                .iter()
                .find(|(key, _)| key.text == name)
                .map(|(_, v)| &v.value)
        };
        if let Some(Value::Text { text, .. }) = field("name") {
            return text.clone();
        }
        let Some(Value::List(ends)) = field("ends") else {
            return String::new();
        };
        // A bundle takes as many numbers as it has links.
        let width = match field("bundle") {
            Some(Value::Text { text, .. }) => text.parse().unwrap_or(1),
            _ => 1u32,
        };
        // Ends that are lists give no name.
        let Some(ends) = ends.iter().map(text).collect::<Option<Vec<&str>>>() else {
            return String::new();
        };
        let mut pair = ends.clone();
        pair.sort_unstable();
        let count: &mut u32 = seen.entry(pair.join(">")).or_insert(0);
        let first = count.saturating_add(1);
        *count = count.saturating_add(width);
        match first {
            1 => ends.join("-"),
            n => format!("{}#{n}", ends.join("-")),
        }
    };
    items.iter().map(name).collect()
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text { text, .. } => Some(text),
        _ => None,
    }
}
