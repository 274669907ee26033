//! The entries `generate` and `import` of a topology.
//!
//! What they stand for is put into the file's tree before it is decoded
//! ([`crate::topology`]), so that here they have a schema and no values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

/// A generated topology: its kind and parameters.
#[derive(Debug)]
pub(crate) struct Generate;

/// A topology from a file in another format.
#[derive(Debug)]
pub(crate) struct Import;

macro_rules! unread {
    ($($type:ident: $schema:expr,)*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                // An object by construction.
                $schema.try_into().unwrap_or_default()
            }
        }
    )*};
}

unread! {
    Generate: crate::topology::generate::schema(),
    Import: crate::topology::import::schema(),
}
