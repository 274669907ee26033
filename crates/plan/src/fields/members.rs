//! What has a member for each row of the table: types and functions that name all fields.

/// Defines them.
macro_rules! members {
    ({ $($of_direction:tt)* } { $($of_link:tt)* }) => {
        members! { $($of_direction)* $($of_link)* }
    };
    ($(
        $(#[doc = $meaning:literal])+
        $field:ident: $written:ty => $value:ty, default $default:literal $row:tt
    )*) => {
        /// The rows by the names of their fields.
        mod rows {
            use super::*;

            $(pub(super) const fn $field() -> Row<$written, $value> {
                Row $row
            })*
        }

        /// All rows, in the order in which fields are listed.
        pub static FIELDS: &[Field] = &[$(Field {
            name: stringify!($field),
            form: rows::$field().form,
            default: $default,
            meaning: concat!($($meaning),+).trim_ascii(),
            ramp: match &rows::$field().ramp {
                Some(ramp) => Some(ramp.takes),
                None => None,
            },
            show: rows::$field().show,
            changes: |patch| patch.$field.is_some(),
            refuses: |patch| {
                let to = patch.$field.as_ref()?;
                match &rows::$field().ramp {
                    Some(ramp) => (ramp.refuses)(to),
                    None => Some(stringify!($field)),
                }
            },
            lacks: |params| (rows::$field().ramp.as_ref()?.lacks)(params),
        }),*];

        /// Changes of a pipe's parameters; what is `None` stays as it is, and `Some(None)` takes a
        /// field's effect away.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Patch {
            $($(#[doc = $meaning])+ pub $field: Option<$value>,)*
        }

        impl Patch {
            /// `params` with the changes.
            pub fn apply(&self, params: &PipeParams) -> PipeParams {
                let mut changed = params.clone();
                $(if let Some(value) = self.$field.clone() {
                    (rows::$field().put)(value, &mut changed);
                })*
                changed
            }

            /// The values on the way from `params` to these.
            pub(crate) fn between(&self, line: Line, params: &PipeParams) -> Self {
                Self {
                    $($field: match (&self.$field, &rows::$field().ramp) {
                        (Some(to), Some(ramp)) => Some((ramp.between)(line, params, to)),
                        _ => None,
                    },)*
                }
            }
        }

        /// What a file or a command writes about one direction of a link; `None` where it writes
        /// nothing.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Wishes<'a> {
            $(pub(crate) $field: Option<&'a $written>,)*
        }

        impl Wishes<'_> {
            /// Whether nothing is written.
            pub(crate) fn is_empty(&self) -> bool {
                true $(&& self.$field.is_none())*
            }

            /// What they change.
            pub(crate) fn read(&self, by: &mut Reading<'_>) -> Patch {
                Patch {
                    $($field: self.$field.and_then(|written| (rows::$field().read)(written, by)),)*
                }
            }
        }
    };
}
pub(super) use members;
