//! Parameters as data: one table serves the experiment file, the command line, its help, the
//! JSON Schema and the documentation.
//!
//! A table lists [`Param`]s; [`read`] takes the map that a file or a command line holds, and
//! gives every parameter of the table its value or its default. Unknown names, wrong texts and
//! values out of range become faults that say what to write.

use longhaul_core::Span;
use longhaul_core::units::{QueueLimit, Rate, UnitError};
use serde_json::{Value as Json, json};

use crate::text::error::{Faults, Pos, near_miss, shown};
use crate::text::tree::{Node, Value};

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// A whole number between two.
    Whole(u64, u64),
    /// A plain number, above the first and up to the second.
    Number(f64, f64),
    /// `1 Gbit/s`.
    Rate,
    /// `5 ms`.
    Time,
    /// `250 packets` or `64 KiB`.
    Queue,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A parameter of a generator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it means, in a few words.
    pub about: &'static str,
    /// What it takes.
    pub form: Form,
    /// Its default as it would be written; empty where there is none, and then `about` says
    /// what holds.
    pub default: &'static str,
}

/// A value that fits its form.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Given {
    Whole(u64),
    Number(f64),
    Rate(Rate),
    Time(Span),
    Queue(QueueLimit),
    Choice(&'static str),
}

/// The values of a table's parameters.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    values: Vec<(&'static str, Given)>,
    /// The positions of the parameters that were given.
    places: Vec<(&'static str, Pos)>,
    /// The most links of a construction whose size is known only once it is made.
    pub(crate) most_links: usize,
}

/// Why a generator cannot make what its parameters ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The parameter to blame; empty for all of them.
    pub(crate) param: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Refusal {
    pub(crate) fn new(
        param: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            param,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Typed access. A table and the code that reads it belong together, so that a missing name or
/// another form is a bug in the program; the tests build every generator.
macro_rules! access {
    ($($(#[$doc:meta])* $method:ident: $variant:ident($type:ty),)*) => {$(
        $(#[$doc])*
        pub(crate) fn $method(&self, name: &str) -> Option<$type> {
            match self.get(name) {
                Some(Given::$variant(value)) => Some(value),
                _ => None,
            }
        }
    )*};
}

impl Args {
    fn get(&self, name: &str) -> Option<Given> {
        let found = self.values.iter().find(|(known, _)| *known == name);
        found.map(|(_, given)| *given)
    }

    access! {
        rate: Rate(Rate),
        time: Time(Span),
        queue: Queue(QueueLimit),
        choice: Choice(&'static str),
    }

    /// A whole number, 0 if absent.
    pub(crate) fn whole(&self, name: &str) -> usize {
        usize::try_from(self.maybe_whole(name).unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// A whole number that may be absent.
    pub(crate) fn maybe_whole(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Given::Whole(value)) => Some(value),
            _ => None,
        }
    }

    /// A plain number, 0 if absent.
    pub(crate) fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Given::Number(value)) => value,
            _ => 0.0,
        }
    }

    /// Where a parameter was given, or else `whole`.
    pub(crate) fn place(&self, name: &str, whole: Pos) -> Pos {
        let found = self.places.iter().find(|(known, _)| *known == name);
        found.map_or(whole, |(_, at)| *at)
    }
}

/// Reads the parameters of `table` from a map; `skipped` are its keys that mean something else.
/// What is wrong goes to `faults`, and then there is no answer.
pub(crate) fn read(
    node: &Node,
    table: &[Param],
    skipped: &[&str],
    faults: &mut Faults,
) -> Option<Args> {
    let empty = Vec::new();
    let entries = match &node.value {
        Value::Map(entries) => entries,
        Value::Empty => &empty,
        _ => {
            let hint = "write it like `{ kind: chain, routers: 3 }`";
            faults.add(node.at, "this should be a map of parameters", hint);
            return None;
        }
    };
    let mut args = Args {
        values: Vec::with_capacity(table.len()),
        places: Vec::new(),
        most_links: usize::MAX,
    };
    let mut whole = true;
    for (key, value) in entries {
        if skipped.contains(&key.text.as_str()) {
            continue;
        }
        let Some(param) = table.iter().find(|param| param.name == key.text) else {
            unknown(&key.text, key.at, table, faults);
            whole = false;
            continue;
        };
        let given = match &value.value {
            Value::Text { text, .. } => param.parse(text),
            _ => Err((
                format!("`{}` takes one value", param.name),
                format!("write it like `{}: {}`", param.name, param.example()),
            )),
        };
        match given {
            Ok(given) => {
                args.values.push((param.name, given));
                args.places.push((param.name, value.at));
            }
            Err((message, hint)) => {
                faults.add(value.at, message, hint);
                whole = false;
            }
        }
    }
    for param in table.iter().filter(|param| !param.default.is_empty()) {
        if args.get(param.name).is_none()
            && let Ok(given) = param.parse(param.default)
        {
            args.values.push((param.name, given));
        }
    }
    whole.then_some(args)
}

fn unknown(name: &str, at: Pos, table: &[Param], faults: &mut Faults) {
    let names: Vec<&str> = table.iter().map(|param| param.name).collect();
    let list = format!("the parameters here are {}", names.join(", "));
    let hint = match near_miss(name, names) {
        Some(meant) => format!("did you mean `{meant}`? {list}"),
        None => list,
    };
    faults.add(at, format!("unknown parameter `{}`", shown(name)), hint);
}

impl Param {
    /// A whole number from `min` to `max`.
    pub(crate) const fn whole(
        name: &'static str,
        about: &'static str,
        default: &'static str,
        (min, max): (u64, u64),
    ) -> Self {
        Self::new(name, about, Form::Whole(min, max), default)
    }

    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        form: Form,
        default: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            form,
            default,
        }
    }

    /// A text that would be right.
    pub fn example(&self) -> String {
        if !self.default.is_empty() {
            return self.default.to_owned();
        }
        match self.form {
            Form::Whole(min, _) => min.max(1).to_string(),
            Form::Number(_, max) => max.to_string(),
            Form::Rate => "1 Gbit/s".to_owned(),
            Form::Time => "5 ms".to_owned(),
            Form::Queue => "250 packets".to_owned(),
            Form::Choice(words) => words.first().copied().unwrap_or_default().to_owned(),
        }
    }

    /// Whether a text is one of its values.
    pub fn fits(&self, text: &str) -> bool {
        self.parse(text).is_ok()
    }

    /// The value of a text, or what is wrong with it and what to write.
    fn parse(&self, text: &str) -> Result<Given, (String, String)> {
        let name = self.name;
        let like = || format!("write it like `{name}: {}`", self.example());
        let unit = |error: UnitError| (error.problem, like());
        let text = text.trim();
        match self.form {
            Form::Whole(min, max) => {
                let number: u64 = text
                    .parse()
                    .map_err(|_| (format!("`{}` is not a whole number", shown(text)), like()))?;
                if !(min..=max).contains(&number) {
                    let message = format!("`{name}` is {number}, but must be {min} to {max}");
                    return Err((message, like()));
                }
                Ok(Given::Whole(number))
            }
            Form::Number(above, max) => {
                let plain = |c: char| c.is_ascii_digit() || c == '.';
                let number = text.parse::<f64>().ok().filter(|_| text.chars().all(plain));
                let number =
                    number.ok_or_else(|| (format!("`{}` is not a number", shown(text)), like()))?;
                if number <= above || number > max {
                    let message = format!(
                        "`{name}` is {number}, but must be above {above} and at most {max}"
                    );
                    return Err((message, like()));
                }
                Ok(Given::Number(number))
            }
            Form::Rate => text.parse().map(Given::Rate).map_err(unit),
            Form::Time => text.parse().map(Given::Time).map_err(unit),
            Form::Queue => text.parse().map(Given::Queue).map_err(unit),
            Form::Choice(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Given::Choice(word)),
                None => {
                    let message = format!("`{}` is not one of {}", shown(text), words.join(", "));
                    Err((message, like()))
                }
            },
        }
    }

    /// Its JSON Schema.
    pub(crate) fn schema(&self) -> Json {
        let unit = |pattern: &str| json!({ "type": "string", "pattern": pattern });
        let mut schema = match self.form {
            Form::Whole(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Form::Number(above, max) => {
                json!({ "type": "number", "exclusiveMinimum": above, "maximum": max })
            }
            Form::Rate => unit("^\\s*[0-9]*\\.?[0-9]+\\s*([kMGT]|[KMGT]i)?bit/s\\s*$"),
            Form::Time => unit("^\\s*[0-9]*\\.?[0-9]+\\s*(ns|us|µs|ms|s|min|h)\\s*$"),
            Form::Queue => unit("^\\s*[0-9]*\\.?[0-9]+\\s*(packets?|([kMGT]|[KMGT]i)?B)\\s*$"),
            Form::Choice(words) => json!({ "type": "string", "enum": words }),
        };
        let default = match self.default {
            "" => String::new(),
            default => format!(" Default: {default}."),
        };
        let mut about = self.about.chars();
        let first: String = about
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        schema["description"] = format!("{first}{}.{default}", about.as_str()).into();
        schema
    }
}
