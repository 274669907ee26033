//! Topologies by name: each family is a small file with a table of parameters, a formula for
//! its size and a construction.
//!
//! The same family, parameters and seed give the same topology on every machine: random draws
//! come from a stream of the seed and the family's name, and no platform floating-point function
//! takes part. Every topology is connected; a random one that comes out in pieces is joined, and
//! a note says so.
//!
//! Left out: topologies that are measured rather than made (they are imported).

mod barabasi_albert;
mod chain;
mod clusters;
mod draw;
mod dumbbell;
mod fat_tree;
mod fishbone;
mod internet;
mod mesh;
mod ring;
mod star;
mod tree;
mod waxman;

use serde_json::{Value as Json, json};

use super::args::{self, Args, Form, Param, Refusal};
use super::{Sketch, SketchPipe};
use crate::limits::{Limits, MOST_HOSTS, MOST_ROUTERS, RunClock};
use crate::text::error::{Errors, Fault, Faults, Pos, Sources, near_miss, shown};
use crate::text::tree::{Key, Node, Value};

/// The families of topologies, in the order in which they are listed.
pub const FAMILIES: &[Family] = &[
    chain::FAMILY,
    star::FAMILY,
    ring::FAMILY,
    mesh::FAMILY,
    dumbbell::FAMILY,
    fishbone::FAMILY,
    tree::FAMILY,
    fat_tree::FAMILY,
    clusters::FAMILY,
    waxman::FAMILY,
    barabasi_albert::FAMILY,
    internet::FAMILY,
];

/// A family of topologies.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// What `kind` calls it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its own parameters.
    own: &'static [Param],
    /// What its links are by default.
    links: LinkDefaults,
    /// Whether draws make it, so that it has a `seed`.
    random: bool,
    /// How large it becomes. The links of a random family are an upper bound, or its expectation
    /// is checked by the construction.
    size: fn(&Args) -> Size,
    build: fn(&Args, u64, &mut Sketch) -> Result<(), Refusal>,
}

/// What the links of a family are where its parameters do not say.
#[derive(Debug, Clone, Copy)]
struct LinkDefaults {
    /// Rate and delay between routers; an empty delay is made by the family.
    router: (&'static str, &'static str),
    /// Rate and delay of core links, for families that have them. An empty one is as between
    /// routers.
    core: Option<(&'static str, &'static str)>,
    /// Rate and delay of the hosts' links. An empty rate is as between routers.
    access: (&'static str, &'static str),
}

impl LinkDefaults {
    const PLAIN: Self = Self {
        router: ("1 Gbit/s", "1 ms"),
        core: None,
        access: ("", "100 us"),
    };
}

/// How many nodes and links a topology has; saturating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Routers.
    pub routers: u64,
    /// Hosts.
    pub hosts: u64,
    /// Links, or the most that there can be.
    pub links: u64,
}

/// The three kinds of links that a family has.
#[derive(Debug, Clone, Copy)]
struct Pipes {
    router: SketchPipe,
    core: SketchPipe,
    access: SketchPipe,
}

impl Pipes {
    fn of(args: &Args) -> Self {
        let queue = args.queue("queue");
        let pipe = |tier: &str, other: SketchPipe| SketchPipe {
            rate: args.rate(&format!("{tier}rate")).or(other.rate),
            delay: args.time(&format!("{tier}delay")).unwrap_or(other.delay),
            loss: None,
            queue,
        };
        let router = pipe("", SketchPipe::default());
        Self {
            router,
            core: pipe("core_", router),
            access: pipe("access_", router),
        }
    }
}

/// The parameter `hosts` of most families.
const fn hosts(about: &'static str, default: &'static str) -> Param {
    Param::whole("hosts", about, default, (0, MOST_HOSTS as u64))
}

/// The parameter `routers` of most families.
const fn routers(about: &'static str, default: &'static str, min: u64) -> Param {
    Param::whole("routers", about, default, (min, MOST_ROUTERS as u64))
}

impl Family {
    /// The family of a name; `fat-tree` is `fat_tree`.
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = name.replace('-', "_");
        FAMILIES.iter().find(|family| family.name == name)
    }

    /// All its parameters: its own first, then those of links and the seed.
    pub fn params(&self) -> Vec<Param> {
        let mut params = self.own.to_vec();
        let mut add =
            |name, about, form, default| params.push(Param::new(name, about, form, default));
        let links = &self.links;
        add(
            "rate",
            "rate of links between routers",
            Form::Rate,
            links.router.0,
        );
        let about = match links.router.1 {
            "" => "delay of links between routers; absent: by their length",
            _ => "delay of links between routers",
        };
        add("delay", about, Form::Time, links.router.1);
        if let Some((rate, delay)) = links.core {
            let about = match rate {
                "" => "rate of core links; absent: as `rate`",
                _ => "rate of core links",
            };
            add("core_rate", about, Form::Rate, rate);
            let about = match delay {
                "" => "delay of core links; absent: as `delay`",
                _ => "delay of core links",
            };
            add("core_delay", about, Form::Time, delay);
        }
        let about = match links.access.0 {
            "" => "rate of hosts' links; absent: as `rate`",
            _ => "rate of hosts' links",
        };
        add("access_rate", about, Form::Rate, links.access.0);
        add(
            "access_delay",
            "delay of hosts' links",
            Form::Time,
            links.access.1,
        );
        add(
            "queue",
            "queue of every link; absent: the file's default",
            Form::Queue,
            "",
        );
        if self.random {
            let form = Form::Whole(0, u64::MAX);
            add(
                "seed",
                "the seed of its random draws; absent: the experiment's",
                form,
                "",
            );
        }
        params
    }

    /// The topology of these parameters.
    fn make(&self, args: &Args, seed: u64, limits: &Limits) -> Result<Sketch, Refusal> {
        self.check_size((self.size)(args), limits)?;
        let mut sketch = Sketch {
            title: self.name.replace('_', "-"),
            ..Sketch::default()
        };
        let seed = args.maybe_whole("seed").unwrap_or(seed);
        for param in self.own {
            let value = args
                .maybe_whole(param.name)
                .map(|number| number.to_string());
            if let Some(value) = value.or(args.choice(param.name).map(str::to_owned)) {
                sketch
                    .title
                    .push_str(&format!(", {} {value}", param.name.replace('_', " ")));
            }
        }
        if self.random {
            sketch.title.push_str(&format!(", seed {seed}"));
        }
        (self.build)(args, seed, &mut sketch)?;
        Ok(sketch)
    }

    fn check_size(&self, size: Size, limits: &Limits) -> Result<(), Refusal> {
        let all = [
            (size.routers, limits.routers, "routers"),
            (size.hosts, limits.hosts, "hosts"),
            (size.links, limits.links, "links"),
        ];
        for (count, limit, what) in all {
            if count > limit as u64 {
                let message =
                    format!("this would be {count} {what}: at most {limit} are supported");
                let counts = self
                    .own
                    .iter()
                    .filter(|p| matches!(p.form, Form::Whole(..)));
                let names: Vec<_> = counts.map(|param| format!("`{}`", param.name)).collect();
                let more = match limits.clock {
                    RunClock::Real => "; an experiment with `clock: virtual` may have more",
                    RunClock::Virtual => "",
                };
                let hint = format!("make {} smaller{more}", names.join(" or "));
                return Err(Refusal::new("", message, hint));
            }
        }
        Ok(())
    }

    /// Its JSON Schema.
    fn schema(&self) -> Json {
        let mut fields = serde_json::Map::new();
        let name = json!({ "const": self.name, "description": self.about });
        fields.insert("kind".to_owned(), name);
        for param in self.params() {
            fields.insert(param.name.to_owned(), param.schema());
        }
        json!({
            "type": "object", "title": self.name, "description": self.about,
            "properties": fields, "required": ["kind"], "additionalProperties": false,
        })
    }
}

/// The JSON Schema of `topology: generate`.
pub(crate) fn schema() -> Json {
    let kinds: Vec<Json> = FAMILIES.iter().map(Family::schema).collect();
    json!({ "description": "A generated topology: its kind and parameters.", "oneOf": kinds })
}

/// The sketch that a `generate` entry asks for, no larger than `limits`; problems go to `faults`.
pub(crate) fn from_tree(
    node: &Node,
    seed: u64,
    limits: &Limits,
    faults: &mut Faults,
) -> Option<Sketch> {
    let kind = match &node.value {
        Value::Map(entries) => entries.iter().find(|(key, _)| key.text == "kind"),
        _ => None,
    };
    let Some((_, kind)) = kind else {
        faults.add(
            node.at,
            "`kind` is missing",
            format!("add `kind: …`: {}", kinds()),
        );
        return None;
    };
    let name = match &kind.value {
        Value::Text { text, .. } => text.as_str(),
        _ => "",
    };
    let Some(family) = Family::find(name) else {
        let hint = match near_miss(name, FAMILIES.iter().map(|family| family.name)) {
            Some(meant) => format!("did you mean `{meant}`? {}", kinds()),
            None => kinds(),
        };
        faults.add(
            kind.at,
            format!("`{}` is not a kind of topology", shown(name)),
            hint,
        );
        return None;
    };
    let mut args = args::read(node, &family.params(), &["kind"], faults)?;
    args.most_links = limits.links;
    match family.make(&args, seed, limits) {
        Ok(sketch) => Some(sketch),
        Err(refusal) => {
            let at = args.place(refusal.param, node.at);
            faults.add(at, refusal.message, refusal.hint);
            None
        }
    }
}

fn kinds() -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    format!("the kinds are {}", names.join(", "))
}

/// The topology of a kind with parameters as texts, as a command line gives them, for any clock;
/// `seed` holds where they have none.
///
/// ```
/// use longhaul_plan::topology::generate;
///
/// let routers = [("routers".to_owned(), "5".to_owned())];
/// let ring = generate::sketch("ring", &routers, 1)?;
/// assert_eq!((ring.nodes.len(), ring.links.len()), (10, 10));
/// # Ok::<(), longhaul_plan::file::Errors>(())
/// ```
///
/// # Errors
/// An unknown kind or parameter, a value that does not fit, or a topology that is too large,
/// each with what to write instead.
pub fn sketch(kind: &str, params: &[(String, String)], seed: u64) -> Result<Sketch, Errors> {
    let (node, sources) = tree_of(kind, params);
    let mut faults = Faults::default();
    if let Some((name, _)) = params
        .iter()
        .enumerate()
        .find(|(index, (name, _))| params[..*index].iter().any(|(other, _)| other == name))
        .map(|(_, pair)| pair)
    {
        faults.push(Fault::new(format!("`{}` is given twice", shown(name))).hint("leave one out"));
        return Err(sources.explain(faults));
    }
    let limits = Limits::of(RunClock::Real);
    match from_tree(&node, seed, &limits, &mut faults) {
        Some(sketch) => Ok(sketch),
        None => Err(sources.explain(faults)),
    }
}

/// Parameters of a command line as the tree that a file would hold; each is a source of its own.
fn tree_of(kind: &str, params: &[(String, String)]) -> (Node, Sources) {
    let text = |text: &str, at: Pos| Node {
        at,
        value: Value::Text {
            text: text.to_owned(),
            plain: true,
        },
    };
    let pos = |source: usize, column: usize, width: usize| Pos {
        source: u16::try_from(source).unwrap_or(0),
        line: 1,
        column: column as u32,
        width: width as u32,
    };
    let whole = pos(0, 1, kind.chars().count());
    let mut entries = vec![(
        Key {
            at: whole,
            text: "kind".to_owned(),
        },
        text(kind, whole),
    )];
    let mut list = vec![("kind".to_owned(), kind.to_owned())];
    for (name, value) in params.iter().take(usize::from(u16::MAX) - 1) {
        let (source, width) = (list.len(), name.chars().count());
        let key = Key {
            at: pos(source, 1, width),
            text: name.clone(),
        };
        let at = pos(source, width + 2, value.chars().count());
        entries.push((key, text(value, at)));
        list.push(("parameter".to_owned(), format!("{name}={value}")));
    }
    let node = Node {
        at: whole,
        value: Value::Map(entries),
    };
    (node, Sources { list })
}

/// Gives `count` hosts `h0`, `h1` … to the nodes `to`, as evenly as can be.
fn spread(sketch: &mut Sketch, count: usize, to: &[usize], pipe: SketchPipe) {
    spread_named(sketch, "h", count, to, pipe);
}

/// Gives `count` hosts, called `stem` and a number, to the nodes `to`, as evenly as can be.
fn spread_named(sketch: &mut Sketch, stem: &str, count: usize, to: &[usize], pipe: SketchPipe) {
    for n in 0..count {
        let host = sketch.add_host(format!("{stem}{n}"));
        // Neighbouring hosts share a router: the n-th of them goes to n/count of the way.
        sketch.add_link(host, to[n * to.len() / count], pipe);
    }
}

/// Positions of generated nodes.
mod shape {
    use std::f64::consts::TAU;

    /// The `index`-th of `count` places on a circle, clockwise from the top, one apart.
    pub(super) fn circle(index: usize, count: usize) -> (f64, f64) {
        let radius = (count as f64 / TAU).max(1.0);
        let angle = TAU * (0.25 - index as f64 / count.max(1) as f64);
        (radius * libm::cos(angle), radius * libm::sin(angle))
    }

    /// The `index`-th of `count` places in a row that winds where it is long.
    pub(super) fn row(index: usize, count: usize) -> (f64, f64) {
        let mut width = 12;
        while width * width < 4 * count {
            width += 1;
        }
        if count <= 16 {
            width = 16;
        }
        let (line, place) = (index / width, index % width);
        let place = if line % 2 == 0 {
            place
        } else {
            width - 1 - place
        };
        (place as f64, -2.0 * line as f64)
    }
}

#[cfg(test)]
mod tests;
