//! YAML text to a tree of texts, lists and maps, each with its place.
//!
//! Scalars keep the text of the file: `8080`, `1.10` and `no` mean what the field
//! that takes them says, not what YAML would guess. Aliases and merge keys are expanded, within
//! a budget; duplicate keys, unknown tags and several documents are refused.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error as YamlError, Location, NonFiniteFloatPolicy, Spanned};

use super::error::{Fault, Pos, shown};

/// Maps and lists within one another. The format itself needs six.
const MAX_DEPTH: usize = 32;
/// Texts, lists and maps: a quarter of a gigabyte of memory at most.
pub(crate) const MAX_NODES: usize = 4_000_000;
/// Texts, lists and maps that aliases may add.
const MAX_ALIASED: usize = 200_000;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Pos,
    pub(crate) value: Value,
}

/// The value there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Empty,
    /// A scalar; `plain` where it has no quotes.
    Text { text: String, plain: bool },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// The key of a map's entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) at: Pos,
    pub(crate) text: String,
}

impl Node {
    /// How many texts, lists and maps it is of.
    pub(crate) fn size(&self) -> usize {
        match &self.value {
            Value::Empty | Value::Text { .. } => 1,
            Value::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|(_, node)| node.size()).sum::<usize>(),
        }
    }
}

/// Parses `text`, which is source number `source`.
pub(crate) fn parse(text: &str, source: u16) -> Result<Node, Fault> {
    let raw: RawNode =
        serde_saphyr::from_str_with_options(text, options()).map_err(|e| explain(&e, source))?;
    Ok(Reader { text, source }.node(raw))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH + 1,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_buffered_comment_events: 100_000,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIASED,
            max_replay_stack_depth: MAX_DEPTH,
        },
        emit_comments: false,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

struct RawNode(Spanned<RawValue>);

enum RawValue {
    Empty,
    Text(String),
    /// A number or a boolean: its text is taken from the source.
    Resolved,
    List(Vec<RawNode>),
    Map(Vec<(Spanned<String>, RawNode)>),
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Empty)
    }

    fn visit_none<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Empty)
    }

    fn visit_bool<E>(self, _: bool) -> Result<RawValue, E> {
        Ok(RawValue::Resolved)
    }

    fn visit_i64<E>(self, _: i64) -> Result<RawValue, E> {
        Ok(RawValue::Resolved)
    }

    fn visit_u64<E>(self, _: u64) -> Result<RawValue, E> {
        Ok(RawValue::Resolved)
    }

    fn visit_f64<E>(self, _: f64) -> Result<RawValue, E> {
        Ok(RawValue::Resolved)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawValue, E> {
        Ok(RawValue::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<RawValue, E> {
        Ok(RawValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if key.value.is_empty() {
                return Err(A::Error::custom("a key is empty"));
            }
            entries.push((key, map.next_value()?));
        }
        Ok(RawValue::Map(entries))
    }
}

/// Gives the raw tree its places.
struct Reader<'a> {
    text: &'a str,
    source: u16,
}

impl Reader<'_> {
    fn node(&self, RawNode(raw): RawNode) -> Node {
        let at = self.pos(raw.defined);
        let source = self.slice(raw.defined);
        let value = match raw.value {
            RawValue::Empty => Value::Empty,
            RawValue::Text(text) => {
                let plain = !source.starts_with(['"', '\'', '|', '>']);
                Value::Text { text, plain }
            }
            RawValue::Resolved => Value::Text {
                text: source.trim().to_owned(),
                plain: true,
            },
            RawValue::List(list) => {
                Value::List(list.into_iter().map(|item| self.node(item)).collect())
            }
            RawValue::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| {
                    (
                        Key {
                            at: self.pos(key.defined),
                            text: key.value,
                        },
                        self.node(value),
                    )
                });
                Value::Map(entries.collect())
            }
        };
        // A list or a map starts where its first item does: one caret is enough.
        let width = match &value {
            Value::List(_) | Value::Map(_) | Value::Empty => 1,
            Value::Text { .. } => at.width,
        };
        Node {
            at: Pos { width, ..at },
            value,
        }
    }

    fn pos(&self, location: Location) -> Pos {
        let width = u32::try_from(location.span().len()).unwrap_or(1);
        Pos {
            width,
            ..place(location, self.source)
        }
    }

    /// The text as the source has it; empty where the parser does not know.
    fn slice(&self, location: Location) -> &str {
        let span = location.span();
        let range = span
            .byte_offset()
            .zip(span.byte_len())
            .and_then(|(start, len)| {
                let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
                self.text.get(start..start.checked_add(len)?)
            });
        range.unwrap_or_default()
    }
}

fn place(location: Location, source: u16) -> Pos {
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Pos {
        source,
        line: number(location.line()),
        column: number(location.column()),
        width: 1,
    }
}

/// A parser's error in the words of this program.
fn explain(error: &YamlError, source: u16) -> Fault {
    let fault = match error.without_snippet() {
        YamlError::AliasError { error, .. } => Fault {
            at: None,
            ..explain(error, source)
        },
        YamlError::DuplicateMappingKey { key, .. } => {
            let key = key
                .as_deref()
                .map_or("a key".to_owned(), |key| format!("`{}`", shown(key)));
            Fault::new(format!("{key} appears twice in this map")).hint("keep one of the two")
        }
        YamlError::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => too_deep(),
        YamlError::Budget {
            breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. },
            ..
        } => Fault::new(format!("the file holds more than {MAX_NODES} values"))
            .hint("groups (`count`) describe the same with fewer"),
        YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. }
        | YamlError::Budget { .. } => Fault::new(format!(
            "anchors and aliases expand to more than {MAX_ALIASED} values"
        ))
        .hint("write the values out, or use groups (`count`)"),
        YamlError::UnknownAnchor { .. } => Fault::new("this alias is not defined").hint(
            "a `*` begins an alias: write patterns of names in quotes, like \"*-h0\"; \
                 or define what is meant with `&`, before it",
        ),
        YamlError::MultipleDocuments { .. } => Fault::new("the file holds more than one document")
            .hint("one file describes one experiment; remove what follows `---`"),
        other => {
            let message = first_line(&other.to_string());
            if message.contains("recursion limit") {
                too_deep()
            } else {
                Fault::new(format!("this is not YAML: {message}"))
                    .hint("check indentation, brackets and quotes near here")
            }
        }
    };
    match error.location() {
        Some(location) => fault.at(place(location, source)),
        None => fault,
    }
}

fn too_deep() -> Fault {
    Fault::new(format!(
        "lists and maps are nested more than {MAX_DEPTH} levels deep"
    ))
    .hint("an experiment needs at most six levels")
}

/// The parser's words without the position, which messages show separately.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    line.chars().take(200).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(node: &Node) -> (&str, bool) {
        match &node.value {
            Value::Text { text, plain } => (text, *plain),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scalars_keep_their_spelling_and_their_place() {
        let tree = parse(
            "a: 0x10\nb: [1.10, no, \"true\", 'é', true, .inf]\nc:\n5: x\n",
            0,
        )
        .unwrap();
        let Value::Map(entries) = &tree.value else {
            panic!()
        };
        assert_eq!(text(&entries[0].1), ("0x10", true));
        let Value::List(items) = &entries[1].1.value else {
            panic!()
        };
        let texts: Vec<_> = items.iter().map(text).collect();
        let expected = [
            ("1.10", true),
            ("no", true),
            ("true", false),
            ("é", false),
            ("true", true),
            (".inf", true),
        ];
        assert_eq!(texts, expected);
        assert_eq!(
            items[4].at,
            Pos {
                source: 0,
                line: 2,
                column: 28,
                width: 4
            }
        );
        assert_eq!(entries[2].1.value, Value::Empty);
        assert_eq!(entries[3].0.text, "5");
    }

    #[test]
    fn aliases_and_merges_point_at_their_definition() {
        let tree = parse("a: &x { rate: 5 }\nb: { <<: *x, delay: 1 }\nc: *x\n", 0).unwrap();
        let Value::Map(entries) = &tree.value else {
            panic!()
        };
        let Value::Map(b) = &entries[1].1.value else {
            panic!()
        };
        let (key, rate) = b.iter().find(|(key, _)| key.text == "rate").unwrap();
        assert_eq!((key.at.line, text(rate)), (1, ("5", true)));
        assert_eq!(
            rate.at,
            Pos {
                source: 0,
                line: 1,
                column: 15,
                width: 1
            }
        );
    }
}
