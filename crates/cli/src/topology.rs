//! `longhaul topology generate|import|draw`: networks by name, from files, and as pictures.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser};
use longhaul_lab::calibrate::MachineCosts;
use longhaul_lab::partition::Network;
use longhaul_partition::Method;
use longhaul_plan::elements::Elements;
use longhaul_plan::plan::Plan;
use longhaul_plan::topology::generate::{self, FAMILIES};
use longhaul_plan::topology::import::{self, ImportOptions};
use longhaul_plan::topology::{Form, Sketch, SketchNode, draw, spell};

use crate::exit::Exit;
use crate::experiment::{self, Overrides, pair};
use crate::partition;
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Examples:
  longhaul topology generate tree degree=4 height=2 > tree.yaml
  longhaul topology generate waxman routers=30 rate='10 Gbit/s' --seed 7 > wan.yaml
  longhaul topology import Abilene.gml rate='1 Gbit/s' > abilene.yaml
  longhaul topology draw wan.yaml -o wan.svg
  longhaul topology draw wan.yaml --cores 4 -o wan-on-4-cores.svg

In an experiment file, `topology: { generate: { kind: tree, degree: 4 } }` stands for what
`generate` prints, and `topology: { import: { file: Abilene.gml } }` for what `import` prints.";

/// Generate, import and draw topologies
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(Generate),
    Import(Import),
    Draw(Draw),
}

/// Generate a topology and print it as an experiment file
#[derive(Debug, clap::Args)]
#[command(after_help = kinds(false), after_long_help = kinds(true))]
struct Generate {
    /// The kind of topology
    #[arg(value_parser = PossibleValuesParser::new(names()), hide_possible_values = true)]
    kind: String,
    /// Its parameters; --help lists those of each kind
    #[arg(value_name = "KEY=VALUE", value_parser = parameter)]
    values: Vec<(String, String)>,
    /// The seed of random kinds
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Read a topology in another format and print it as an experiment file
#[derive(Debug, clap::Args)]
#[command(after_help = options())]
struct Import {
    /// The file: GML, GraphML, Rocketfuel, BRITE, Inet, CAIDA AS relationships, or a matrix of times
    file: PathBuf,
    /// Options, as listed below
    #[arg(value_name = "KEY=VALUE", value_parser = parameter)]
    values: Vec<(String, String)>,
}

/// Draw the topology of a file as an SVG image
#[derive(Debug, clap::Args)]
struct Draw {
    /// An experiment file (.yaml, .yml), or a file that can be imported
    file: PathBuf,
    /// Write the image to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Colour nodes by the core that would own them if the network were split over N cores
    #[arg(long, value_name = "N", value_parser = partition::cores(), conflicts_with = "partition")]
    cores: Option<u16>,
    /// The method that splits the network
    #[arg(long, value_name = "METHOD", default_value = "best", value_parser = partition::methods(), requires = "cores")]
    method: String,
    /// Colour nodes by the core that owns them in this file of `longhaul partition --save`
    #[arg(long, value_name = "FILE")]
    partition: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

pub(crate) fn main(args: &Args, elements: &Elements) -> Exit {
    match &args.command {
        Command::Generate(args) => match generate::sketch(&args.kind, &args.values, args.seed) {
            Ok(sketch) => spelled(&sketch),
            Err(errors) => wrong(errors),
        },
        Command::Import(args) => match imported(args) {
            Ok(sketch) => spelled(&sketch),
            Err(error) => wrong(error),
        },
        Command::Draw(args) => match to_draw(args, elements) {
            Ok(sketch) => drawn(&sketch, args),
            Err(error) => wrong(error),
        },
    }
}

fn imported(args: &Import) -> Result<Sketch, String> {
    let mut options = ImportOptions::default();
    for (key, value) in &args.values {
        let wrong = |(message, hint)| format!("{key}={value}: error: {message}\nhint: {hint}");
        options.set(key, value).map_err(wrong)?;
    }
    import::read(&args.file, &options).map_err(|error| error.to_string())
}

/// The topology of an experiment file, or of what can be imported, by the end of its name; with
/// the owners of its nodes where they are asked for.
fn to_draw(args: &Draw, elements: &Elements) -> Result<Sketch, String> {
    let list = args.overrides.list();
    let yaml = |path: &Path| {
        let end = path.extension().unwrap_or_default().to_ascii_lowercase();
        end == "yaml" || end == "yml"
    };
    if yaml(&args.file) || !list.is_empty() {
        let loaded = experiment::load(&args.file, &args.overrides, elements);
        let plan = loaded.map_err(|errors| errors.to_string())?.plan;
        let mut sketch = longhaul_plan::plan::of_plan(&plan);
        add_owners(&mut sketch, &plan, args)?;
        return Ok(sketch);
    }
    let imported = import::read(&args.file, &ImportOptions::default());
    let mut sketch = imported.map_err(|error| error.to_string())?;
    if args.cores.is_some() || args.partition.is_some() {
        let name = args.file.display().to_string();
        let plan = Plan::from_text(&spell::text(&sketch), &name);
        add_owners(
            &mut sketch,
            &plan.map_err(|errors| errors.to_string())?,
            args,
        )?;
    }
    Ok(sketch)
}

/// Says which core owns each node of a plan's sketch, where the command line asks for it.
fn add_owners(sketch: &mut Sketch, plan: &Plan, args: &Draw) -> Result<(), String> {
    let partition = match (&args.partition, args.cores) {
        (Some(file), _) => partition::read(file, plan)?,
        (None, Some(cores)) => {
            let method = Method::find(&args.method).unwrap_or(Method::Best);
            Network::with_costs(plan, MachineCosts::known().costs()).split(method, cores, 1)
        }
        (None, None) => return Ok(()),
    };
    let owner = |node: &SketchNode| plan.topology.find(&node.name).map(|id| partition.of(id));
    let owners: Option<Vec<u16>> = sketch.nodes.iter().map(owner).collect();
    sketch.owners =
        owners.ok_or("the drawing has a node that the plan does not have; please report this")?;
    Ok(())
}

fn wrong(errors: impl std::fmt::Display) -> Exit {
    style::notice(errors);
    Exit::Wrong
}

fn notes(sketch: &Sketch) {
    for note in &sketch.notes {
        style::notice(format_args!(
            "{} {}",
            Style::stderr().doubtful("note:"),
            style::clean(note)
        ));
    }
}

fn spelled(sketch: &Sketch) -> Exit {
    notes(sketch);
    style::print(&spell::text(sketch));
    Exit::Done
}

fn drawn(sketch: &Sketch, args: &Draw) -> Exit {
    notes(sketch);
    let image = draw::svg(sketch);
    let Some(output) = &args.output else {
        style::print(&image);
        return Exit::Done;
    };
    match std::fs::write(output, image) {
        Ok(()) => Exit::Done,
        Err(error) => {
            style::problem(format_args!("{}: {error}", output.display()));
            Exit::Failed
        }
    }
}

/// A parameter and its value.
fn parameter(text: &str) -> Result<(String, String), String> {
    pair(text).map_err(|_| "write it like `routers=5`".to_owned())
}

fn names() -> impl Iterator<Item = PossibleValue> {
    FAMILIES.iter().map(|family| {
        let value = PossibleValue::new(family.name).help(family.about);
        match family.name {
            "fat_tree" => value.alias("fat-tree"),
            "barabasi_albert" => value.alias("barabasi-albert"),
            _ => value,
        }
    })
}

/// The kinds; with `all`, their parameters too.
fn kinds(all: bool) -> String {
    let mut text = String::from("Kinds:\n");
    for family in FAMILIES {
        text.push_str(&hanging(&format!("  {}: ", family.name), family.about));
        if !all {
            continue;
        }
        for param in family.params() {
            let default = match param.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let range = match param.form {
                Form::Whole(min, max) if max < u64::MAX => format!(", {min} to {max}"),
                Form::Number(above, max) => format!(", above {above}, at most {max}"),
                Form::Choice(words) => format!(": {}", words.join(", ")),
                _ => String::new(),
            };
            let head = format!("      {:12}  ", param.name);
            text.push_str(&hanging(&head, &format!("{}{range}{default}", param.about)));
        }
        text.push('\n');
    }
    text.push_str(if all {
        "docs/topologies.md describes them."
    } else {
        "--help lists their parameters."
    });
    text
}

/// `head` and `text`, wrapped to lines of 98 columns, indented to the beginning of `text`.
fn hanging(head: &str, text: &str) -> String {
    const COLUMNS: usize = 98;
    let indent = head.chars().count();
    let mut wrapped = head.to_owned();
    let mut column = indent;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > indent {
            if column + 1 + width > COLUMNS {
                wrapped.push_str(&format!("\n{:indent$}", ""));
                column = indent;
            } else {
                wrapped.push(' ');
                column += 1;
            }
        }
        wrapped.push_str(word);
        column += width;
    }
    wrapped.push('\n');
    wrapped
}

/// The options of `import`.
fn options() -> String {
    let mut text = String::from("Options as KEY=VALUE:\n");
    for param in import::PARAMS {
        text.push_str(&hanging(&format!("  {:13}  ", param.name), param.about));
    }
    text.push_str("\ndocs/importing.md describes them.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_descriptions_are_wrapped_below_their_beginning() {
        let wrapped = hanging("  k  ", &"word ".repeat(30));
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  k  word word") && lines[0].len() <= 98);
        assert!(lines[1].starts_with("     word word"), "{wrapped}");
        for text in [kinds(true), options()] {
            assert!(text.lines().all(|line| line.chars().count() <= 98));
        }
    }

    #[test]
    fn the_help_names_every_parameter_of_every_kind() {
        let (short, long) = (kinds(false), kinds(true));
        for family in FAMILIES {
            assert!(
                short.contains(&format!("  {}: ", family.name)),
                "{}",
                family.name
            );
            let part = long.split(&format!("  {}: ", family.name)).nth(1).unwrap();
            for param in family.params() {
                assert!(
                    part.contains(&format!("      {} ", param.name)),
                    "{}",
                    param.name
                );
            }
        }
    }
}
