//! The tree to typed values, by serde, with the place of every problem.
//!
//! Types that want more than serde can carry ask for it with a reserved newtype name: [`AT`]
//! hands over the place before the value, [`LIST`] makes a list of a lone item, [`EITHER`] says
//! whether a value is a text, [`CHECKED`] records a problem and goes on, so that one run reports
//! the problems of all nodes, links and programs.

use std::cell::RefCell;
use std::fmt::Display;

use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::text::error::{Fault, Faults, Pos, near_miss, shown};
use crate::text::tree::{Key, Node, Value};

/// Newtype name: a sequence of the packed place and the value.
pub(crate) const AT: &str = "$at";
/// Newtype name: a sequence of the items, led by whether they were written as a list.
pub(crate) const LIST: &str = "$list";
/// Newtype name: a sequence of whether the value is a lone text (or nothing), and the value.
pub(crate) const EITHER: &str = "$either";
/// Newtype name: a sequence of the value, or of nothing where it has a problem.
pub(crate) const CHECKED: &str = "$checked";

/// Reads a value from `node`; problems go to `faults`.
pub(crate) fn decode<T: de::DeserializeOwned>(node: &Node, faults: &mut Faults) -> Option<T> {
    let sink = RefCell::new(std::mem::take(faults));
    let result = T::deserialize(Decoder {
        node,
        faults: &sink,
    });
    *faults = sink.into_inner();
    result.map_err(|fault| faults.push(fault)).ok()
}

impl Pos {
    /// As one number, the only way through serde's data model that costs nothing.
    fn pack(self) -> u128 {
        let [source, line] = [u128::from(self.source), u128::from(self.line)];
        source << 96 | line << 64 | u128::from(self.column) << 32 | u128::from(self.width)
    }

    /// The inverse of `pack`.
    pub(crate) fn unpack(packed: u128) -> Self {
        let part = |shift: u32| (packed >> shift) as u32;
        Self {
            source: part(96) as u16,
            line: part(64),
            column: part(32),
            width: part(0),
        }
    }
}

impl std::error::Error for Fault {}

impl Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Map => "a map".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Unit => "empty".to_owned(),
            Unexpected::Str(text) => format!("`{}`", shown(text)),
            Unexpected::UnitVariant => "the word alone".to_owned(),
            other => other.to_string(),
        };
        let expected = match expected.to_string().as_str() {
            "a string" => "a text".to_owned(),
            "a sequence" => "a list (`[a, b]`)".to_owned(),
            "newtype variant" => "a word with its value (`{ word: … }`)".to_owned(),
            other => other.to_owned(),
        };
        Self::new(format!("this should be {expected}, but it is {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let list = format!("the fields here are {}", known.join(", "));
        let hint = match near_miss(field, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`? {list}"),
            None => list,
        };
        Self::new(format!("unknown field `{}`", shown(field))).hint(hint)
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        let fault = Self::new(format!(
            "`{}` is not one of {}",
            shown(variant),
            known.join(", ")
        ));
        match near_miss(variant, known.iter().copied()) {
            Some(meant) => fault.hint(format!("did you mean `{meant}`?")),
            None => fault.hint(format!("write it like `{}`", known.first().unwrap_or(&""))),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing")).hint(format!("add `{field}: …` here"))
    }
}

#[derive(Clone, Copy)]
struct Decoder<'de> {
    node: &'de Node,
    faults: &'de RefCell<Faults>,
}

impl<'de> Decoder<'de> {
    fn with(self, node: &'de Node) -> Self {
        Self { node, ..self }
    }

    fn unexpected(self) -> Unexpected<'de> {
        match &self.node.value {
            Value::Empty => Unexpected::Unit,
            Value::Text { text, .. } => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        }
    }

    fn refuse<T>(self, expected: &dyn Expected) -> Result<T, Fault> {
        Err(de::Error::invalid_type(self.unexpected(), expected))
    }

    fn plain(self) -> Option<&'de str> {
        match &self.node.value {
            Value::Text { text, plain: true } => Some(text),
            _ => None,
        }
    }

    fn items(self) -> Option<&'de [Node]> {
        match &self.node.value {
            Value::List(items) => Some(items),
            Value::Empty => Some(&[]),
            _ => None,
        }
    }

    fn entries<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Map(entries) => visitor.visit_map(Entries {
                rest: entries,
                value: None,
                decoder: self,
            }),
            Value::Empty => visitor.visit_map(Entries {
                rest: &[],
                value: None,
                decoder: self,
            }),
            _ => self.refuse(&visitor),
        }
    }

    fn newtype<V: Visitor<'de>>(self, name: &str, visitor: V) -> Result<V::Value, Fault> {
        match name {
            AT => visitor.visit_seq(Placed {
                at: Some(self.node.at),
                value: Some(self),
            }),
            LIST => {
                let items = match &self.node.value {
                    Value::List(items) => items.as_slice(),
                    _ => std::slice::from_ref(self.node),
                };
                let listed = matches!(self.node.value, Value::List(_));
                visitor.visit_seq(Items {
                    listed: Some(listed),
                    rest: items,
                    decoder: self,
                })
            }
            EITHER => visitor.visit_seq(Items {
                listed: Some(matches!(self.node.value, Value::Text { .. } | Value::Empty)),
                rest: std::slice::from_ref(self.node),
                decoder: self,
            }),
            CHECKED => visitor.visit_seq(Caught {
                decoder: Some(self),
            }),
            _ => visitor.visit_newtype_struct(self),
        }
    }
}

/// Gives every method the place of its node for problems that have none yet.
macro_rules! placed {
    ($($method:ident($self:ident, $visitor:ident $(, $arg:ident: $type:ty)*) $body:block)*) => {
        $(fn $method<V: Visitor<'de>>($self $(, $arg: $type)*, $visitor: V) -> Result<V::Value, Fault> {
            let result = $body;
            result.map_err(|fault: Fault| fault.at($self.node.at))
        })*
    };
}

impl<'de> Deserializer<'de> for Decoder<'de> {
    type Error = Fault;

    placed! {
        deserialize_any(self, visitor) {
            match &self.node.value {
                Value::Empty => visitor.visit_unit(),
                Value::Text { text, .. } => visitor.visit_borrowed_str(text),
                Value::List(_) => self.deserialize_seq(visitor),
                Value::Map(_) => self.deserialize_map(visitor),
            }
        }
        deserialize_str(self, visitor) {
            match &self.node.value {
                Value::Text { text, .. } => visitor.visit_borrowed_str(text),
                _ => self.refuse(&visitor),
            }
        }
        deserialize_bool(self, visitor) {
            match self.plain() {
                Some("true") => visitor.visit_bool(true),
                Some("false") => visitor.visit_bool(false),
                _ => self.refuse(&"`true` or `false`"),
            }
        }
        deserialize_u64(self, visitor) {
            match self.plain().map(str::parse) {
                Some(Ok(number)) => visitor.visit_u64(number),
                _ => self.refuse(&"a whole number (0, 1, 2, …)"),
            }
        }
        deserialize_u32(self, visitor) {
            match self.plain().map(str::parse) {
                Some(Ok(number)) => visitor.visit_u32(number),
                _ => self.refuse(&"a whole number (0, 1, 2, …)"),
            }
        }
        deserialize_seq(self, visitor) {
            match self.items() {
                Some(rest) => visitor.visit_seq(Items { listed: None, rest, decoder: self }),
                None => self.refuse(&visitor),
            }
        }
        deserialize_map(self, visitor) {
            self.entries(visitor)
        }
        deserialize_struct(self, visitor, _name: &'static str, _fields: &'static [&'static str]) {
            self.entries(visitor)
        }
        deserialize_newtype_struct(self, visitor, name: &'static str) {
            self.newtype(name, visitor)
        }
        deserialize_option(self, visitor) {
            visitor.visit_some(self)
        }
        deserialize_enum(self, visitor, _name: &'static str, _variants: &'static [&'static str]) {
            match &self.node.value {
                Value::Text { text, .. } => visitor.visit_enum(text.as_str().into_deserializer()),
                Value::Map(entries) if entries.len() == 1 => {
                    let (key, value) = &entries[0];
                    visitor.visit_enum(Variant { key, value: self.with(value) })
                }
                _ => self.refuse(&visitor),
            }
        }
        deserialize_ignored_any(self, visitor) {
            visitor.visit_unit()
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct identifier
    }
}

struct KeyDecoder<'de>(&'de Key);

impl<'de> Deserializer<'de> for KeyDecoder<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor
            .visit_borrowed_str(&self.0.text)
            .map_err(|fault: Fault| fault.at(self.0.at))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match name {
            AT => visitor.visit_seq(Placed {
                at: Some(self.0.at),
                value: Some(self),
            }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Entries<'de> {
    rest: &'de [(Key, Node)],
    value: Option<&'de Node>,
    decoder: Decoder<'de>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(((key, value), rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        (self.rest, self.value) = (rest, Some(value));
        seed.deserialize(KeyDecoder(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let value = self
            .value
            .take()
            .ok_or_else(|| Fault::new("a key without a value"))?;
        seed.deserialize(self.decoder.with(value))
    }
}

struct Items<'de> {
    listed: Option<bool>,
    rest: &'de [Node],
    decoder: Decoder<'de>,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        if let Some(listed) = self.listed.take() {
            return seed.deserialize(listed.into_deserializer()).map(Some);
        }
        let Some((item, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        seed.deserialize(self.decoder.with(item)).map(Some)
    }
}

/// A place, then the value there.
struct Placed<D> {
    at: Option<Pos>,
    value: Option<D>,
}

impl<'de, D: Deserializer<'de, Error = Fault>> de::SeqAccess<'de> for Placed<D> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        if let Some(at) = self.at.take() {
            return seed.deserialize(at.pack().into_deserializer()).map(Some);
        }
        self.value
            .take()
            .map(|value| seed.deserialize(value))
            .transpose()
    }
}

/// One value, or none where it has a problem; the problem is recorded.
struct Caught<'de> {
    decoder: Option<Decoder<'de>>,
}

impl<'de> de::SeqAccess<'de> for Caught<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(decoder) = self.decoder.take() else {
            return Ok(None);
        };
        match seed.deserialize(decoder) {
            Ok(value) => Ok(Some(value)),
            Err(fault) => {
                decoder.faults.borrow_mut().push(fault);
                Ok(None)
            }
        }
    }
}

/// A variant with its value, written `{ variant: value }`.
struct Variant<'de> {
    key: &'de Key,
    value: Decoder<'de>,
}

impl<'de> de::EnumAccess<'de> for Variant<'de> {
    type Error = Fault;
    type Variant = Decoder<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Decoder<'de>), Fault> {
        Ok((seed.deserialize(KeyDecoder(self.key))?, self.value))
    }
}

impl<'de> de::VariantAccess<'de> for Decoder<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Err(Fault::new("this takes no value").at(self.node.at))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }
}
