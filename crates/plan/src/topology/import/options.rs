//! The parameters of an import: the fields of `topology: { import: … }`, and the same as
//! `key=value` on the command line. One table ([`PARAMS`]) serves both, the JSON Schema, help and
//! documentation.

use std::str::FromStr;

use longhaul_core::Span;
use longhaul_core::units::{Rate, UnitError};
use serde_json::{Value as Json, json};

use crate::text::error::{near_miss, shown};

/// A parameter of an import.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportParam {
    /// Its name.
    pub name: &'static str,
    /// What it means, and its default.
    pub about: &'static str,
    form: Form,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Rate,
    Time,
    Words(&'static [&'static str]),
    /// Text of this pattern, or a number.
    Text(&'static str),
}

const fn param(name: &'static str, form: Form, about: &'static str) -> ImportParam {
    ImportParam { name, about, form }
}

/// All parameters but `file`.
pub const PARAMS: &[ImportParam] = &[
    param(
        "format",
        Form::Words(Format::WORDS),
        "The file's format. Default: what its content looks like, else what its name ends in.",
    ),
    param(
        "rate",
        Form::Rate,
        "Rate of links for which the file names none. Default: unlimited.",
    ),
    param(
        "default_delay",
        Form::Time,
        "Delay of links for which the file gives neither a delay nor the coordinates of both ends. \
         Default: 5 ms, about 1,000 km of fibre.",
    ),
    param(
        "min_delay",
        Form::Time,
        "The least delay derived from a distance, since nodes of one city are not at one point. \
         Default: 10 us.",
    ),
    param(
        "speed",
        Form::Text(r"^\s*[0-9.]+\s*(/\s*[0-9.]+|%)?\s*$"),
        "The speed of signals as a fraction of the speed of light, for delays derived from distances. \
         Default: 2/3, as in fibre.",
    ),
    param(
        "unit",
        Form::Time,
        "What 1 means in numbers without a unit. Default: 1 ms, except for Rocketfuel's weights and Inet's lengths, which are not taken as delays without it.",
    ),
    param(
        "times",
        Form::Words(Times::WORDS),
        "Whether a matrix holds round-trip or one-way times. Default: round_trip.",
    ),
    param(
        "rows",
        Form::Text(r"^\s*[0-9]+\s*$"),
        "The number of rows of a matrix to read, from the first. Default: all.",
    ),
    param(
        "hosts",
        Form::Text(r"^\s*[0-9]+(\s+(per\s+node|in\s+all))?\s*$"),
        "Hosts to add: `2 per node`, or `20 in all`, spread evenly. Default: 1 per node.",
    ),
    param(
        "hosts_on",
        Form::Words(HostsOn::WORDS),
        "Which nodes get hosts: all, or only stubs, which carry no transit traffic. \
         Default: all.",
    ),
    param(
        "access_rate",
        Form::Rate,
        "Rate of hosts' links, in both directions. Default: what the file says of hosts at the node, else unlimited.",
    ),
    param(
        "access_delay",
        Form::Time,
        "Delay of hosts' links. Default: none.",
    ),
    param(
        "component",
        Form::Words(Component::WORDS),
        "Which part of a network that is not connected to import: all, which must be connected, \
         or largest. Default: all.",
    ),
];

/// The JSON Schema of `topology: { import: … }`.
pub(crate) fn schema() -> Json {
    let file = "The file, relative to the folder of the experiment file.";
    let mut properties = serde_json::Map::new();
    properties.insert(
        "file".to_owned(),
        json!({ "type": "string", "description": file }),
    );
    for param in PARAMS {
        let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
        let mut schema = match param.form {
            Form::Rate => pattern(r"^\s*[0-9]*\.?[0-9]+\s*([kMGT]|[KMGT]i)?bit/s\s*$"),
            Form::Time => pattern(r"^\s*[0-9]*\.?[0-9]+\s*(ns|us|µs|ms|s|min|h)\s*$"),
            Form::Words(words) => json!({ "type": "string", "enum": words }),
            Form::Text(text) => json!({ "type": ["string", "number"], "pattern": text }),
        };
        schema["description"] = param.about.into();
        properties.insert(param.name.to_owned(), schema);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": ["file"],
        "additionalProperties": false,
    })
}

/// How to import a file; the defaults are those of `topology: { import: … }`.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// The file's format; found out where absent.
    pub format: Option<Format>,
    /// Rate of links for which the file names none; unlimited if absent.
    pub rate: Option<Rate>,
    /// Delay of links for which the file gives none: 5 ms, about 1,000 km of fibre.
    pub default_delay: Span,
    /// The least delay that a distance gives: 10 us.
    pub min_delay: Span,
    /// The speed of signals, for delays from distances.
    pub speed: Speed,
    /// What 1 means in numbers without a unit; the format's own if absent.
    pub unit: Option<Span>,
    /// What a matrix holds.
    pub times: Times,
    /// How many rows of a matrix to take; all if absent.
    pub rows: Option<Count>,
    /// How many hosts to add.
    pub hosts: Hosts,
    /// To which nodes.
    pub hosts_on: HostsOn,
    /// Rate of the links of hosts; what the file says, else unlimited, if absent.
    pub access_rate: Option<Rate>,
    /// Delay of the links of hosts.
    pub access_delay: Span,
    /// What to do with a network that is not connected.
    pub component: Component,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            format: None,
            rate: None,
            default_delay: Span::from_ms(5),
            min_delay: Span::from_us(10),
            speed: Speed::default(),
            unit: None,
            times: Times::default(),
            rows: None,
            hosts: Hosts::default(),
            hosts_on: HostsOn::default(),
            access_rate: None,
            access_delay: Span::ZERO,
            component: Component::default(),
        }
    }
}

macro_rules! options {
    ($($key:ident $kind:tt,)*) => {
        impl ImportOptions {
            /// Sets a parameter to what a file or a command line says.
            ///
            /// # Errors
            /// What is wrong and what to write: the key is not one of [`PARAMS`], or the value is
            /// not one of the key's.
            pub fn set(&mut self, key: &str, value: &str) -> Result<(), (String, String)> {
                let wrong = |e: UnitError| (e.problem, format!("write it like `{}`", e.example));
                match key {
                    $(stringify!($key) => {
                        let value = value.parse().map_err(wrong)?;
                        self.$key = options!(@$kind value);
                    })*
                    _ => return Err(unknown(key)),
                }
                Ok(())
            }
        }
    };
    (@one $value:ident) => { $value };
    (@maybe $value:ident) => { Some($value) };
}

options! {
    format maybe,
    rate maybe,
    default_delay one,
    min_delay one,
    speed one,
    unit maybe,
    times one,
    rows maybe,
    hosts one,
    hosts_on one,
    access_rate maybe,
    access_delay one,
    component one,
}

fn unknown(key: &str) -> (String, String) {
    let names = PARAMS.iter().map(|param| param.name);
    let all = names.clone().collect::<Vec<_>>().join(", ");
    let all = format!("the parameters of an import are file, {all}");
    let hint = match near_miss(key, names) {
        Some(meant) => format!("did you mean `{meant}`? {all}"),
        None => all,
    };
    (format!("unknown parameter `{}`", shown(key)), hint)
}

/// A type with a value for each of some words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$word_doc:meta])* $word:ident $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name { $($(#[$word_doc])* $word,)* }

        impl $name {
            const WORDS: &'static [&'static str] = &[$($text),*];
        }

        impl FromStr for $name {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                match text.trim() {
                    $($text => Ok(Self::$word),)*
                    other => Err(UnitError {
                        problem: format!(
                            "`{}` is not {} (those are {})", shown(other), $what, Self::WORDS.join(", ")
                        ),
                        example: Self::WORDS[0],
                    }),
                }
            }
        }
    )*};
}

words! {
    /// A format that can be imported.
    Format, "a format" {
        /// GML, as the Internet Topology Zoo and Shadow use it.
        #[default]
        Gml "gml",
        /// GraphML, as the Internet Topology Zoo uses it.
        GraphMl "graphml",
        /// Rocketfuel's `weights.intra` and `latencies.intra`: two cities and a number.
        RocketfuelLinks "rocketfuel",
        /// Rocketfuel's maps of routers, `.cch`.
        RocketfuelMap "cch",
        /// What BRITE writes.
        Brite "brite",
        /// What Inet-3.0 writes.
        Inet "inet",
        /// CAIDA's relationships of autonomous systems, serial-1 and serial-2.
        Caida "caida",
        /// A square of times between all pairs.
        Matrix "matrix",
    }

    /// What the numbers of a matrix are.
    Times, "what a matrix holds" {
        /// There and back; each way takes half.
        #[default]
        RoundTrip "round_trip",
        /// From the row's host to the column's.
        OneWay "one_way",
    }

    /// Which nodes get hosts.
    HostsOn, "where hosts can be" {
        /// All.
        #[default]
        All "all",
        /// Those that carry nobody else's traffic: autonomous systems without customers, and
        /// elsewhere nodes with a single neighbour.
        Stubs "stubs",
    }

    /// Which part of a network to import.
    Component, "a part of a network" {
        /// All of it; it must be connected.
        #[default]
        All "all",
        /// The largest connected part; of equals, that of the file's first node.
        Largest "largest",
    }
}

/// How many hosts an import adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// A number of hosts at each node: `2 per node`, or just `2`.
    PerNode(usize),
    /// A number of hosts in all, spread evenly over the nodes in the order of the file:
    /// `20 in all`.
    InAll(usize),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::PerNode(1)
    }
}

impl FromStr for Hosts {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let (number, kind) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let kind = kind.split_whitespace().collect::<Vec<_>>().join(" ");
        match (number.parse(), &*kind) {
            (Ok(hosts), "" | "per node") => Ok(Self::PerNode(hosts)),
            (Ok(hosts), "in all") => Ok(Self::InAll(hosts)),
            _ => Err(UnitError {
                problem: format!("`{}` is not a number of hosts", shown(text)),
                example: "1 per node` or `20 in all",
            }),
        }
    }
}

/// The speed of signals as a part of the speed of light, above 0 and at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(f64);

impl Speed {
    /// As a number.
    pub fn fraction(self) -> f64 {
        self.0
    }
}

impl Default for Speed {
    /// 2/3, as in fibre with its index of refraction of about 1.5.
    fn default() -> Self {
        Self(2.0 / 3.0)
    }
}

impl FromStr for Speed {
    type Err = UnitError;

    /// `2/3`, `0.67` or `67 %`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let speed = if let Some((a, b)) = text.split_once('/') {
            number(a).zip(number(b)).map(|(a, b)| a / b)
        } else if let Some(percent) = text.trim().strip_suffix('%') {
            number(percent).map(|percent| percent / 100.0)
        } else {
            number(text)
        };
        // Below a thousandth it is not a speed of a signal but a typing error.
        match speed {
            Some(speed) if (0.001..=1.0).contains(&speed) => Ok(Self(speed)),
            _ => Err(UnitError {
                problem: format!(
                    "`{}` is not a fraction of the speed of light, from 0.001 to 1",
                    shown(text)
                ),
                example: "2/3",
            }),
        }
    }
}

/// A number of rows, at least 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub usize);

impl FromStr for Count {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim().parse() {
            Ok(count) if count >= 2 => Ok(Self(count)),
            _ => Err(UnitError {
                problem: format!("`{}` is not a number of rows, from 2 on", shown(text)),
                example: "50",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_people_write_them() {
        let mut options = ImportOptions::default();
        let set = [
            ("format", "cch"),
            ("rate", "1 Gbit/s"),
            ("default_delay", "1 ms"),
            ("speed", "50 %"),
            ("times", "one_way"),
            ("rows", "20"),
            ("hosts", "20 in all"),
            ("hosts_on", "stubs"),
            ("component", "largest"),
        ];
        for (key, value) in set {
            options.set(key, value).unwrap();
        }
        let expected = ImportOptions {
            format: Some(Format::RocketfuelMap),
            rate: Rate::from_bits_per_s(1_000_000_000),
            default_delay: Span::from_ms(1),
            speed: Speed(0.5),
            times: Times::OneWay,
            rows: Some(Count(20)),
            hosts: Hosts::InAll(20),
            hosts_on: HostsOn::Stubs,
            component: Component::Largest,
            ..ImportOptions::default()
        };
        assert_eq!(options, expected);
        assert_eq!("2 per node".parse(), Ok(Hosts::PerNode(2)));
        assert_eq!("0".parse(), Ok(Hosts::PerNode(0)));
        assert_eq!("2/3".parse(), Ok(Speed::default()));
    }

    #[test]
    fn wrong_options_are_named_with_what_to_write() {
        let wrong = [
            ("rat", "1 Gbit/s", "did you mean `rate`?"),
            ("colour", "red", "are file, format, rate"),
            ("rate", "1", "no unit"),
            ("speed", "2", "2/3"),
            ("speed", "1/0", "2/3"),
            ("hosts", "many", "1 per node"),
            ("hosts", "-1", "1 per node"),
            ("rows", "1", "from 2 on"),
            ("format", "png", "gml, graphml"),
        ];
        for (key, value, part) in wrong {
            let (message, hint) = ImportOptions::default().set(key, value).unwrap_err();
            assert!(
                format!("{message}; {hint}").contains(part),
                "{key}={value}: {message}"
            );
        }
    }

    #[test]
    fn the_table_has_every_parameter_and_no_other() {
        for param in PARAMS {
            let (message, _) = ImportOptions::default().set(param.name, "?").unwrap_err();
            assert!(!message.contains("unknown"), "{}", param.name);
        }
        let fields = format!("{:?}", ImportOptions::default());
        assert_eq!(fields.matches(": ").count(), PARAMS.len(), "{fields}");
        assert_eq!(
            schema()["properties"].as_object().unwrap().len(),
            PARAMS.len() + 1
        );
    }
}
