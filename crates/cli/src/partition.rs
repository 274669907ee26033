//! `longhaul partition FILE`: which core would emulate what, and what that is expected to cost.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use longhaul_core::{Span, Topology};
use longhaul_lab::calibrate::MachineCosts;
use longhaul_lab::partition::{By, Network, Weighing};
use longhaul_linux::{clock, cpu};
use longhaul_partition::costs::Costs;
use longhaul_partition::predict::Prediction;
use longhaul_partition::saved::{MAX_BYTES, Saved};
use longhaul_partition::{MAX_CORES, Method, Partition};
use longhaul_plan::elements::Elements;
use longhaul_plan::plan::Plan;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::experiment::{self, Overrides, pair};
use crate::style::{self, Style};

const EXAMPLES: &str = "\
Examples:
  longhaul partition wan.yaml --cores 4                    all methods side by side
  longhaul partition wan.yaml --cores 4 --method best --save wan.partition.json
  longhaul partition wan.yaml --cores 8 --method metis --json | jq .efficiency
  longhaul topology draw wan.yaml --cores 4 -o wan.svg     the same as a picture

The exit code is 2 if the file is wrong, else 0. docs/partition.md explains methods and figures.";

/// Cores that are listed one by one.
const ROWS: u16 = 32;

/// Split the network of an experiment over cores and print the predicted loads
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The experiment file
    file: PathBuf,
    /// The number of cores
    #[arg(long, value_name = "N", value_parser = cores())]
    cores: u16,
    /// The method; without it, all methods are shown side by side
    #[arg(long, value_name = "METHOD", value_parser = methods())]
    method: Option<String>,
    /// The seed of the methods' random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What is assigned to cores: nodes with all pipes that leave them (as in runs), links with both
    /// their pipes (as in the paper), or single pipes
    #[arg(long, value_name = "WHAT", default_value = "node", value_parser = PossibleValuesParser::new(["node", "link", "pipe"]))]
    by: String,
    /// The weights that `metis` and `best` use: traffic expected from the file, or the paper's
    /// conservative weights, which assume nothing about traffic
    #[arg(long, value_name = "WEIGHTS", default_value = "expected", value_parser = PossibleValuesParser::new(["expected", "conservative"]))]
    weights: String,
    /// The costs of work: those of this machine, measured by `longhaul calibrate`, built-in ones of
    /// threads, or those of the paper's cores; default: this machine's if it is calibrated, else those
    /// of threads
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(["machine", "threads", "paper"]))]
    costs: Option<String>,
    /// Write the partition to a file: that of --method, or of `best`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Override a field of the file, such as links.a-b.delay='5 ms'; may be repeated
    #[arg(long, value_name = "PATH=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Print JSON: an object for one method, a list for all
    #[arg(long)]
    json: bool,
}

/// What work costs, and the name of that.
struct Chosen {
    costs: Costs,
    name: &'static str,
}

impl Args {
    /// The costs that were asked for; an error where this machine's are not known.
    fn costs(&self) -> Result<Chosen, String> {
        let chosen = |costs, name| Ok(Chosen { costs, name });
        let machine = || MachineCosts::known();
        match self.costs.as_deref() {
            Some("paper") => chosen(Costs::PAPER, "paper"),
            Some("threads") => chosen(Costs::THREADS, "threads"),
            Some(_) => match machine() {
                MachineCosts::Measured(costs) => chosen(costs, "machine"),
                MachineCosts::BuiltIn(why) => Err(format!(
                    "the costs of this machine are unknown: {why}; run `longhaul calibrate`"
                )),
            },
            None => {
                let known = machine();
                if let MachineCosts::BuiltIn(why) = &known {
                    note(&format!(
                        "built-in costs are used, since {why}: run `longhaul calibrate`"
                    ));
                }
                chosen(known.costs(), known.name())
            }
        }
    }
}

/// Numbers of cores on the command line.
pub(crate) fn cores() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(MAX_CORES))
}

/// Names of methods on the command line.
pub(crate) fn methods() -> PossibleValuesParser {
    PossibleValuesParser::new(Method::ALL.map(Method::name))
}

pub(crate) fn main(args: &Args, elements: &Elements) -> Exit {
    let overrides = Overrides {
        set: args.set.clone(),
        ..Overrides::default()
    };
    let plan = match experiment::load(&args.file, &overrides, elements) {
        Ok(experiment) => experiment.plan,
        Err(errors) => {
            style::notice(errors);
            return Exit::Wrong;
        }
    };
    let by = match args.by.as_str() {
        "link" => By::Link,
        "pipe" => By::Pipe,
        _ => By::Node,
    };
    let by_node = by == By::Node;
    if !by_node && args.save.is_some() {
        style::problem("--save is for runs, and runs assign nodes: leave out `--by`");
        return Exit::Wrong;
    }
    let Chosen { costs, name } = match args.costs() {
        Ok(chosen) => chosen,
        Err(problem) => {
            style::problem(problem);
            return Exit::Wrong;
        }
    };
    let weighing = Weighing {
        costs,
        conservative: args.weights == "conservative",
    };
    let network = Network::weighed(&plan, by, weighing);
    notes(&network, args.cores);
    let chosen = args.method.as_deref().and_then(Method::find);
    let methods = chosen.map_or(Method::ALL.to_vec(), |method| vec![method]);
    let found = methods.iter().map(|&method| {
        if by_node {
            Some(Found::by_node(&network, method, args))
        } else {
            Found::by_pipe(&network, method, args)
        }
    });
    let Some(found) = found.collect::<Option<Vec<Found>>>() else {
        style::problem(
            "this network is too large to assign links or pipes, as it has too many pairs of \
             neighbouring pipes: leave out `--by`",
        );
        return Exit::Wrong;
    };
    if args.json {
        let list: Vec<Value> = found.iter().map(|found| found.json(name)).collect();
        let value = match &list[..] {
            [one] if chosen.is_some() => one.clone(),
            _ => Value::Array(list),
        };
        style::print(&style::json(&value));
    } else if let (Some(_), [one]) = (chosen, &found[..]) {
        style::print(&(one.text(&plan.topology) + &by_costs(name)));
    } else {
        style::print(&(table(&found) + &by_costs(name)));
    }
    match (
        &args.save,
        found.last().and_then(|last| last.partition.as_ref()),
    ) {
        (Some(file), Some(partition)) => {
            let method = chosen.unwrap_or(Method::Best).name();
            save(
                file,
                &Saved::new(&plan.topology, partition, method, args.seed),
            )
        }
        _ => Exit::Done,
    }
}

/// Says what was assumed and what cannot be as asked for.
fn notes(network: &Network<'_>, cores: u16) {
    let cpus = cpu::allowed().map_or(0, |cpus| cpus.len());
    let too_many = (cpus > 0 && usize::from(cores) > cpus).then(|| {
        let (cores, cpus) = (
            style::number(cores.into(), "core"),
            style::number(cpus, "CPU"),
        );
        format!("{cores} would share the {cpus} of this machine")
    });
    let limits = network.limits(cores);
    let all = network.notes.iter().chain(&limits).chain(&too_many);
    all.for_each(|text| note(text));
}

fn note(text: &str) {
    let label = Style::stderr().doubtful("note:");
    style::notice(format_args!("{label} {}", style::clean(text)));
}

fn save(file: &Path, saved: &Saved) -> Exit {
    match std::fs::write(file, saved.to_json()) {
        Ok(()) => Exit::Done,
        Err(error) => {
            style::problem(format_args!("{}: {error}", file.display()));
            Exit::Failed
        }
    }
}

/// Reads a saved partition of a plan's network.
pub(crate) fn read(file: &Path, plan: &Plan) -> Result<Partition, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| named(&error))?;
    let read = opened.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| named(&error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(named(
            &"the file is too large to be a saved partition; make one with `longhaul partition --save`",
        ));
    }
    let saved = Saved::from_json(&text).map_err(|error| named(&error))?;
    let network = Network::of(plan);
    let partition = saved.partition(&plan.topology, network.least_delays());
    partition.map_err(|error| named(&error))
}

/// What a method found.
struct Found {
    method: Method,
    cores: u16,
    partition: Option<Partition>,
    prediction: Prediction,
    seconds: f64,
}

impl Found {
    fn by_node(network: &Network<'_>, method: Method, args: &Args) -> Self {
        let started = clock::monotonic_ns();
        let partition = network.split(method, args.cores, args.seed);
        let seconds = since(started);
        Self {
            method,
            cores: args.cores,
            prediction: network.predict(&partition),
            partition: Some(partition),
            seconds,
        }
    }

    fn by_pipe(network: &Network<'_>, method: Method, args: &Args) -> Option<Self> {
        let started = clock::monotonic_ns();
        let owner = network.split_pipes(method, args.cores, args.seed)?;
        let seconds = since(started);
        Some(Self {
            method,
            cores: args.cores,
            partition: None,
            prediction: network.predict_pipes(args.cores, &owner)?,
            seconds,
        })
    }

    fn json(&self, costs: &str) -> Value {
        let found = &self.prediction;
        json!({
            "method": self.method.name(),
            "cores": self.cores,
            "costs": costs,
            "efficiency": found.efficiency,
            "load": { "max": found.max_load(), "mean": found.mean_load() },
            "cut_pipes": found.cut_pipes,
            "lookahead_ns": found.look_ahead.map(Span::as_ns),
            "seconds": self.seconds,
        })
    }

    fn row(&self) -> Vec<String> {
        let found = &self.prediction;
        let mean = found.mean_load();
        vec![
            self.method.name().to_owned(),
            format!("{:.3}", found.efficiency),
            format!("{:.4}", found.max_load()),
            format!("{mean:.4}"),
            above(found.max_load(), mean),
            style::grouped(found.cut_pipes as u64),
            look_ahead(found),
            format!("{:.3} s", self.seconds),
        ]
    }

    /// The result with a line for each core.
    fn text(&self, topology: &Topology) -> String {
        let mut text = table(std::slice::from_ref(self));
        let Some(partition) = &self.partition else {
            return text;
        };
        let mut nodes = vec![0u64; usize::from(self.cores)];
        let mut pipes = nodes.clone();
        for &owner in &partition.owner {
            nodes[usize::from(owner)] += 1;
        }
        for pipe in topology.pipes() {
            pipes[usize::from(partition.of(pipe.from))] += 1;
        }
        let head = ["core", "nodes", "pipes", "load"]
            .map(str::to_owned)
            .to_vec();
        let row = |core: u16| {
            let at = usize::from(core);
            vec![
                core.to_string(),
                style::grouped(nodes[at]),
                style::grouped(pipes[at]),
                format!("{:.4}", self.prediction.loads[at]),
            ]
        };
        let rows = (0..self.cores.min(ROWS)).map(row);
        text.push('\n');
        text.push_str(&style::table(
            &std::iter::once(head).chain(rows).collect::<Vec<_>>(),
        ));
        if self.cores > ROWS {
            let more = self.cores - ROWS;
            text.push_str(&format!("  … and {more} more (all with --save)\n"));
        }
        text
    }
}

/// Methods side by side.
fn table(found: &[Found]) -> String {
    let head = [
        "method",
        "efficiency",
        "max load",
        "mean load",
        "above mean",
        "cut pipes",
        "look-ahead",
        "took",
    ];
    let head = head.map(str::to_owned).to_vec();
    let rows = found.iter().map(Found::row);
    style::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// The line that says which costs the loads are based on.
fn by_costs(name: &str) -> String {
    let costs = match name {
        "machine" => "measured on this machine",
        "paper" => "of the paper's cores",
        _ => "built in for threads",
    };
    format!("\nLoads are based on the costs {costs}.\n")
}

/// By how much the busiest core has more than the mean.
fn above(max: f64, mean: f64) -> String {
    if mean > 0.0 {
        format!("{:.1} %", (max / mean - 1.0) * 100.0)
    } else {
        "-".to_owned()
    }
}

fn look_ahead(found: &Prediction) -> String {
    found.look_ahead.map_or("-".to_owned(), style::span)
}

fn since(started: u64) -> f64 {
    clock::monotonic_ns().saturating_sub(started) as f64 / 1e9
}
