//! Building blocks of the file's types: values with places, quantities, names, one or many.
//!
//! Each knows how it is decoded ([`super::decode`]) and how it looks in the JSON Schema.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use longhaul_core::Span;
use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit, Rate, UnitError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::decode::{AT, CHECKED, EITHER, LIST};
use super::resources::{ByteRate, CpuAmount, CpuSpeed};
use crate::text::error::{Faults, Pos};

/// A value with its place.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) at: Pos,
    pub(crate) value: T,
}

/// A quantity with its unit; read when it is used, so that every wrong one is reported.
#[derive(Debug, Clone)]
pub(crate) struct Quantity<T> {
    /// Apart, since most of the quantities that a link can have are absent.
    text: Box<At<String>>,
    kind: PhantomData<T>,
}

/// A map from names to values, in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct Named<T>(pub(crate) Vec<(At<String>, T)>);

/// Labels by their names.
pub(crate) type LabelsSpec = Named<At<String>>;

/// One text, or a list of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OneOrMany {
    /// Whether it was written as a list.
    pub(crate) listed: bool,
    pub(crate) items: Vec<At<String>>,
}

/// A value, or nothing where it had a problem that has been recorded.
#[derive(Debug, Clone)]
pub(crate) struct Checked<T>(pub(crate) Option<T>);

/// A value that is a lone text, or something longer.
#[derive(Debug, Clone)]
pub(crate) enum Either<S, L> {
    Short(S),
    Long(Box<L>),
}

/// The largest IP packet of a link in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mtu(pub(crate) u32);

impl FromStr for Mtu {
    type Err = UnitError;

    /// Bytes by definition, so that `9000` and `9000 B` are the same.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = text.strip_suffix('B').unwrap_or(text).trim_end();
        bytes.parse().map(Self).map_err(|_| UnitError {
            problem: format!(
                "`{}` is not a number of bytes",
                crate::text::error::shown(text)
            ),
            example: "1500",
        })
    }
}

/// A rate, or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateOrUnlimited(pub(crate) Option<Rate>);

impl FromStr for RateOrUnlimited {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            "unlimited" => Ok(Self(None)),
            rate => rate.parse().map(|rate| Self(Some(rate))),
        }
    }
}

/// The depth of a token bucket, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BurstOrNone(pub(crate) Option<Bytes>);

impl FromStr for BurstOrNone {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            NONE => Ok(Self(None)),
            size => size.parse().map(|size| Self(Some(size))),
        }
    }
}

/// For how long something fails; `true` is for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage(pub(crate) Option<Span>);

impl FromStr for Outage {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match (text.trim(), text.parse()) {
            ("true", _) => Ok(Self(None)),
            (_, Ok(span)) if span > Span::ZERO => Ok(Self(Some(span))),
            (other, _) => Err(UnitError {
                problem: format!(
                    "`{}` is not a duration of a failure",
                    crate::text::error::shown(other)
                ),
                example: "down: 2 s` or `down: true",
            }),
        }
    }
}

/// What a text says of a queue: its length, or the name of its discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueWord {
    Limit(QueueLimit),
    DropTail,
    Red,
    Codel,
    Pie,
    FqCodel,
}

impl FromStr for QueueWord {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            "drop_tail" => Ok(Self::DropTail),
            "red" => Ok(Self::Red),
            "codel" => Ok(Self::Codel),
            "pie" => Ok(Self::Pie),
            "fq_codel" => Ok(Self::FqCodel),
            name if name.starts_with(|c: char| c.is_ascii_alphabetic()) => Err(UnitError {
                problem: format!(
                    "`{}` is neither a length nor one of drop_tail, red, codel, pie, fq_codel",
                    crate::text::error::shown(name)
                ),
                example: "250 packets` or `codel",
            }),
            limit => limit.parse().map(Self::Limit),
        }
    }
}

/// The probability that a bit is wrong, `1e-9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitErrors(pub(crate) Probability);

impl FromStr for BitErrors {
    type Err = UnitError;

    /// A decimal number with an exponent, from 0 to 1, without unit; or per cent.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let fail = |problem: &str| UnitError {
            problem: format!("`{}` {problem}", crate::text::error::shown(text)),
            example: "1e-9",
        };
        if text.ends_with('%') {
            return text.parse().map(Self);
        }
        let no_number = || fail("is not a bit error rate");
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().map_err(|_| no_number())?;
        if number.starts_with('-') {
            return Err(fail("is negative, and a bit error rate cannot be"));
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        let decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !decimal || digits.len() > 18 || fraction.len() > 18 {
            return Err(no_number());
        }
        let value: u64 = digits.parse().map_err(|_| no_number())?;
        if value == 0 {
            return Ok(Self(Probability::NEVER));
        }
        // value · 10^-scale, exactly, or as near as a probability can be.
        let scale = (fraction.len() as i32).saturating_sub(exponent);
        let factor = |power: i32| 10u64.checked_pow(power.unsigned_abs());
        let probability = match scale {
            ..0 => None,
            0..=18 => factor(scale).and_then(|all| Probability::from_ratio(value, all)),
            _ => {
                let small = factor(scale - 18).map_or(0, |factor| value / factor);
                Probability::from_ratio(small, 1_000_000_000_000_000_000)
            }
        };
        match probability {
            None => Err(fail("is more than 1")),
            Some(p) if p.is_never() => Err(fail("is too small: the least is 1e-18")),
            Some(p) => Ok(Self(p)),
        }
    }
}

/// Takes a field's effect away where there is no better word for it.
pub(crate) const NONE: &str = "none";

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: FromStr<Err = UnitError>> Quantity<T> {
    pub(crate) fn at(&self) -> Pos {
        self.text.at
    }

    /// The quantity; `None` where it is wrong, which goes to `faults`.
    pub(crate) fn get(&self, faults: &mut Faults) -> Option<T> {
        match self.text.value.parse() {
            Ok(value) => Some(value),
            Err(UnitError { problem, example }) => {
                faults.add(self.text.at, problem, format!("write it like `{example}`"));
                None
            }
        }
    }
}

/// A visitor of the sequences that reserved newtype names give.
struct Parts<T, F>(F, PhantomData<T>);

macro_rules! visit_parts {
    ($self:ident, $seq:ident => $body:block, $target:ty, [$($generics:tt)*]) => {
        impl<'de, $($generics)*> Deserialize<'de> for $target {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_newtype_struct(Self::MARK, Parts((), PhantomData::<Self>))
            }
        }

        impl<'de, $($generics)*> Visitor<'de> for Parts<$target, ()> {
            type Value = $target;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_seq<A: SeqAccess<'de>>($self, mut $seq: A) -> Result<Self::Value, A::Error> $body
        }
    };
}

impl<T> At<T> {
    const MARK: &'static str = AT;
}

visit_parts!(self, seq => {
    let missing = || A::Error::custom("a value is missing");
    let at = Pos::unpack(seq.next_element()?.ok_or_else(missing)?);
    Ok(At { at, value: seq.next_element()?.ok_or_else(missing)? })
}, At<T>, [T: Deserialize<'de>]);

impl<T> Checked<T> {
    const MARK: &'static str = CHECKED;
}

visit_parts!(self, seq => { seq.next_element().map(Checked) }, Checked<T>, [T: Deserialize<'de>]);

impl<S, L> Either<S, L> {
    const MARK: &'static str = EITHER;
}

visit_parts!(self, seq => {
    let missing = || A::Error::custom("a value is missing");
    let short: bool = seq.next_element()?.ok_or_else(missing)?;
    Ok(if short {
        Either::Short(seq.next_element()?.ok_or_else(missing)?)
    } else {
        Either::Long(seq.next_element()?.ok_or_else(missing)?)
    })
}, Either<S, L>, [S: Deserialize<'de>, L: Deserialize<'de>]);

impl OneOrMany {
    const MARK: &'static str = LIST;
}

visit_parts!(self, seq => {
    let listed = seq.next_element()?.unwrap_or_default();
    let mut items = Vec::new();
    while let Some(item) = seq.next_element()? {
        items.push(item);
    }
    Ok(OneOrMany { listed, items })
}, OneOrMany, []);

impl<'de, T> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            text: Box::deserialize(deserializer)?,
            kind: PhantomData,
        })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor(PhantomData))
    }
}

struct NamedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
    type Value = Named<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of names to values (`name: …`)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Named(entries))
    }
}

/// Passes a type's schema through a wrapper that the file does not show.
macro_rules! same_schema {
    ($($wrapper:ident),*) => {$(
        impl<T: JsonSchema> JsonSchema for $wrapper<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }

            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    )*};
}

same_schema!(At, Checked);

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NamesOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": ["object", "null"], "additionalProperties": value })
    }
}

impl<S: JsonSchema, L: JsonSchema> JsonSchema for Either<S, L> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", S::schema_name(), L::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (short, long) = (
            generator.subschema_for::<S>(),
            generator.subschema_for::<L>(),
        );
        json_schema!({ "anyOf": [short, long] })
    }
}

/// In the JSON Schema, a text that may look like a number or a boolean.
pub(crate) struct Scalar;

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

impl JsonSchema for OneOrMany {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OneOrMany".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Scalar>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// The schema of a quantity: a text with a number and one of `units`.
macro_rules! quantity_schema {
    ($($type:ty: $schema:tt,)*) => {$(
        impl JsonSchema for Quantity<$type> {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

quantity_schema! {
    RateOrUnlimited: {
        "type": "string",
        "pattern": "^\\s*([0-9]*\\.?[0-9]+\\s*([kMGT]|[KMGT]i)?bit/s|unlimited)\\s*$",
        "examples": ["1 Gbit/s", "100 Mbit/s"]
    },
    BurstOrNone: {
        "type": "string",
        "pattern": "^\\s*([0-9]*\\.?[0-9]+\\s*([kMGT]|[KMGT]i)?B|none)\\s*$",
        "examples": ["16 kB"]
    },
    Outage: {
        "anyOf": [
            { "type": "string", "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*(ns|us|µs|ms|s|min|h)\\s*$" },
            { "const": true }
        ],
        "examples": ["2 s", true]
    },
    BitErrors: {
        "type": ["number", "string"],
        "pattern": "^\\s*[0-9]*\\.?[0-9]+([eE][-+]?[0-9]+|\\s*%)?\\s*$",
        "examples": [1e-9, "1e-9"]
    },
    QueueWord: {
        "type": "string",
        "pattern": "^\\s*([0-9]*\\.?[0-9]+\\s*(packets?|([kMGT]|[KMGT]i)?B|ns|us|µs|ms|s|min|h)|drop_tail|red|codel|pie|fq_codel)\\s*$",
        "examples": ["250 packets", "64 KiB", "20 ms", "codel"]
    },
    CpuAmount: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*(%|CPUs?)\\s*$",
        "examples": ["50 %", "2 CPUs"]
    },
    CpuSpeed: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*(ref|%)\\s*$",
        "examples": ["0.8 ref", "50 %"]
    },
    ByteRate: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*([kMG]|[KMG]i)?B/s\\s*$",
        "examples": ["20 MB/s"]
    },
    Rate: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*([kMGT]|[KMGT]i)?bit/s\\s*$",
        "examples": ["10 Mbit/s"]
    },
    Bytes: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*([kMGT]|[KMGT]i)?B\\s*$",
        "examples": ["4 MiB", "100 MB"]
    },
    Span: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*(ns|us|µs|ms|s|min|h)\\s*$",
        "examples": ["5 ms", "200 us", "30 s"]
    },
    Probability: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*%\\s*$",
        "examples": ["0.01 %"]
    },
    QueueLimit: {
        "type": "string",
        "pattern": "^\\s*[0-9]*\\.?[0-9]+\\s*(packets?|([kMGT]|[KMGT]i)?B|ns|us|µs|ms|s|min|h)\\s*$",
        "examples": ["250 packets", "64 KiB", "20 ms"]
    },
    Framing: { "type": "string", "enum": ["ip", "ethernet", "wire"] },
    Mtu: {
        "anyOf": [
            { "type": "integer", "minimum": 1280, "maximum": 9216 },
            { "type": "string", "pattern": "^\\s*[0-9]+\\s*B?\\s*$" }
        ],
        "examples": [1500, 9000]
    },
}
