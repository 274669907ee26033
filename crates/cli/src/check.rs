//! `longhaul check FILE`: what a file means, without touching the machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use longhaul_core::topology::{Balance, NodeKind, Pipe};
use longhaul_core::{Span, Time};
use longhaul_lab::resources::{Allotment, Misfit};
use longhaul_plan::described;
use longhaul_plan::elements::Elements;
use longhaul_plan::plan::{HostPlan, Plan, Ready, RunClock};
use longhaul_plan::schedule::Event;
use serde_json::{Value, json};

use crate::demands::Outlook;
use crate::exit::Exit;
use crate::experiment::{self, Overrides};
use crate::paths::{self, Path, Paths, TABLE_HOSTS};
use crate::style::{self, Style};
use crate::{flow_groups, labels, memory, resources};

const EXAMPLES: &str = "\
Examples:
  longhaul check wan.yaml
  longhaul check wan.yaml --routes --set links.a-b.delay='20 ms'
  longhaul check wan.yaml --json | jq .memory
  longhaul check --schema > experiment.schema.json

The exit code is 2 if the file is wrong, else 0, with or without warnings.";

/// Rows of a list that are shown; `--json` shows all.
const ROWS: usize = 40;

/// Check an experiment file and print what it means, without running it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The experiment file
    #[arg(required_unless_present = "schema")]
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of experiment files instead, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Print every path between hosts, pipe by pipe
    #[arg(long)]
    routes: bool,
}

pub(crate) fn main(args: &Args, elements: &Elements) -> Exit {
    let Some(file) = args.file.as_ref().filter(|_| !args.schema) else {
        style::print(&style::json(&longhaul_plan::file::schema()));
        return Exit::Done;
    };
    let plan = match experiment::load(file, &args.overrides, elements) {
        Ok(experiment) => experiment.plan,
        Err(errors) => {
            style::notice(errors);
            return Exit::Wrong;
        }
    };
    let hosts: Vec<_> = plan.hosts.iter().map(|host| host.node).collect();
    let paths = Paths::find(&plan.topology, &hosts);
    let outlook = Outlook::of(&plan);
    let ahead = match Ahead::of(&plan, outlook) {
        Ok(ahead) => ahead,
        Err(misfit) => {
            style::problem(misfit);
            return Exit::Wrong;
        }
    };
    if args.json {
        style::print(&style::json(&as_json(&plan, &paths, &ahead, args.routes)));
    } else {
        style::print(&as_text(&plan, &paths, &ahead, args.routes));
    }
    Exit::Done
}

/// What the plan needs of this machine.
struct Ahead {
    outlook: Outlook,
    resources: Option<Allotment>,
}

impl Ahead {
    fn of(plan: &Plan, outlook: Outlook) -> Result<Self, Misfit> {
        Ok(Self {
            outlook,
            resources: resources::allotment(plan)?,
        })
    }
}

fn as_text(plan: &Plan, paths: &Paths, ahead: &Ahead, routes: bool) -> String {
    let Ahead { outlook, resources } = ahead;
    let style = Style::stdout();
    let of_kind = |kind| {
        let nodes = plan.topology.nodes().iter();
        nodes.filter(|node| node.kind == kind).count()
    };
    let lans = match of_kind(NodeKind::Lan) {
        0 => String::new(),
        lans => format!(", {}", style::number(lans, "lan")),
    };
    let flows = match plan.traffic.flows {
        0 => String::new(),
        1 => ", 1 modelled flow".to_owned(),
        flows => format!(", {} modelled flows", style::grouped(flows)),
    };
    let mut text = format!(
        "{}: {}, {}{lans}, {}, {}{flows}; {}seed {}{}\n",
        style.bold(&plan.name),
        style::number(plan.hosts.len(), "host"),
        style::number(of_kind(NodeKind::Router), "router"),
        style::number(plan.topology.pipes().len() / 2, "link"),
        style::number(plan.programs.len(), "program"),
        match plan.clock {
            RunClock::Real => "",
            RunClock::Virtual => "virtual time, ",
        },
        plan.seed,
        plan.duration
            .map_or(String::new(), |d| format!("; at most {}", style::span(d))),
    );
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(text, "\n{}\n{body}", style.bold(title));
        }
    };
    section("hosts", hosts(plan));
    let resources = resources.as_ref();
    let lines = resources.map(|allotment| resources::section(plan, allotment));
    section("resources", lines.unwrap_or_default());
    section("labels", labels::section(plan));
    section("pipes", pipes(plan));
    section("path delays, one way", delays(plan, paths));
    section("bottleneck rates", rates(plan, paths));
    if routes {
        section("routes", route_list(plan, paths));
    }
    section("programs", programs(plan));
    section("events", events(plan));
    section("traffic", flow_groups::section(plan));
    section("memory", memory::section(plan));
    let demands = outlook.line().map(|line| format!("  {line}\n"));
    section("demands", demands.unwrap_or_default());
    let ahead = outlook.warnings();
    let warnings = plan
        .warnings
        .iter()
        .chain(&ahead)
        .chain(resources.map_or([].as_slice(), |allotment| &allotment.notes))
        .map(|w| format!("  {} {w}\n", style.doubtful("!")));
    section("warnings", warnings.collect());
    text
}

/// The first rows of a list as a table, and how many more there are.
fn listed(rows: impl ExactSizeIterator<Item = Vec<String>>) -> String {
    let more = rows.len().saturating_sub(ROWS);
    let table = style::table(&rows.take(ROWS).collect::<Vec<_>>());
    if more > 0 {
        format!("{table}  … and {more} more (all with --json)\n")
    } else {
        table
    }
}

fn hosts(plan: &Plan) -> String {
    listed(plan.hosts.iter().map(|host| {
        let node = plan.topology.node(host.node);
        let (v4, v6) = (node.ipv4.to_string(), node.ipv6.to_string());
        vec![
            host.name.clone(),
            v4,
            v6,
            format!("mtu {}", host.mtu),
            host.tcp.congestion.clone(),
        ]
    }))
}

fn pipes(plan: &Plan) -> String {
    listed(plan.topology.pipes().iter().map(|pipe| {
        let all = described::fields(&pipe.params);
        let value = |name| all.iter().find(|(field, _)| *field == name);
        let value = |name| value(name).map_or("", |(_, value)| value.as_str());
        let mut more: Vec<String> = described::unusual(&pipe.params)
            .into_iter()
            .filter(|(field, _)| !["rate", "delay", "queue"].contains(field))
            .map(|(field, value)| format!("{field} {value}"))
            .collect();
        if pipe.balance != Balance::First {
            more.push(format!("balance {}", balance(pipe.balance)));
        }
        vec![
            pipe.name.clone(),
            style::rate(pipe.params.rate).into_owned(),
            // A constant delay is written like all other times here.
            match pipe.params.jitter {
                None => style::span(pipe.params.delay),
                Some(_) => value("delay").to_owned(),
            },
            format!("queue {}", value("queue")),
            style::clean(&more.join("; ")),
        ]
    }))
}

/// Which of several equally short ways packets take, as the file says it.
fn balance(balance: Balance) -> &'static str {
    match balance {
        Balance::First => "first",
        Balance::Flow => "flow",
        Balance::RoundRobin => "round_robin",
    }
}

/// What happens when.
fn events(plan: &Plan) -> String {
    listed(plan.schedule.events.iter().map(|event| {
        let again = match (event.every, event.times) {
            (Some(every), Some(times)) => format!("every {every}, {times} times"),
            (Some(every), None) => format!("every {every}"),
            _ => String::new(),
        };
        let at = style::span(event.at.since(Time::ZERO));
        vec![format!("at {at}"), style::clean(&event.text), again]
    }))
}

fn name(plan: &Plan, node: longhaul_core::NodeId) -> &str {
    &plan.topology.node(node).name
}

fn delays(plan: &Plan, paths: &Paths) -> String {
    if paths.hosts.len() <= TABLE_HOSTS && paths.complete {
        return square(plan, paths, |path| style::span(path.delay));
    }
    spread(
        plan,
        paths,
        |path| path.delay,
        |path| style::span(path.delay),
    )
}

fn rates(plan: &Plan, paths: &Paths) -> String {
    let mut all: Vec<u64> = paths
        .list
        .iter()
        .map(|path| paths::bits(path.rate))
        .collect();
    all.sort_unstable();
    all.dedup();
    if let ([_], Some(path)) = (all.as_slice(), paths.list.first()) {
        return format!("  {} on every path\n", style::rate(path.rate));
    }
    if paths.hosts.len() <= TABLE_HOSTS && paths.complete {
        return square(plan, paths, |path| style::rate(path.rate).into_owned());
    }
    spread(
        plan,
        paths,
        |path| paths::bits(path.rate),
        |path| style::rate(path.rate).into_owned(),
    )
}

/// A table from each host (row) to each host (column).
fn square(plan: &Plan, paths: &Paths, cell: impl Fn(&Path) -> String) -> String {
    if paths.list.is_empty() {
        return String::new();
    }
    let name = |node: &longhaul_core::NodeId| name(plan, *node).to_owned();
    let head = std::iter::once("from \\ to".to_owned()).chain(paths.hosts.iter().map(name));
    let mut rows = vec![head.collect::<Vec<_>>()];
    for from in &paths.hosts {
        let cells = paths
            .hosts
            .iter()
            .map(|to| paths.get(*from, *to).map_or("-".to_owned(), &cell));
        rows.push(std::iter::once(name(from)).chain(cells).collect());
    }
    style::table(&rows)
}

/// The smallest, the median and the largest.
fn spread<K: Ord>(
    plan: &Plan,
    paths: &Paths,
    key: impl Fn(&Path) -> K,
    cell: impl Fn(&Path) -> String,
) -> String {
    let Some(three) = paths.spread(key) else {
        return String::new();
    };
    let row = |(label, path): (&str, &Path)| {
        let pair = format!("{} to {}", name(plan, path.from), name(plan, path.to));
        vec![label.to_owned(), cell(path), pair]
    };
    let labels = ["smallest", "median", "largest"];
    let rows: Vec<_> = labels.into_iter().zip(three).map(row).collect();
    let of = if paths.complete { "all" } else { "a sample of" };
    format!(
        "{}  over {of} {}\n",
        style::table(&rows),
        style::number(paths.hosts.len(), "host")
    )
}

fn route_list(plan: &Plan, paths: &Paths) -> String {
    let row = |path: &Path| {
        let pipes = path
            .pipes
            .iter()
            .map(|pipe| plan.topology.pipe(*pipe).name.as_str());
        vec![
            format!("{} to {}", name(plan, path.from), name(plan, path.to)),
            style::span(path.delay),
            style::rate(path.rate).into_owned(),
            pipes.collect::<Vec<_>>().join("  "),
        ]
    };
    style::table(&paths.list.iter().map(row).collect::<Vec<_>>())
}

fn programs(plan: &Plan) -> String {
    listed(plan.programs.iter().map(|program| {
        let ready = match &program.ready {
            Some(Ready::Tcp(port)) => Some(format!("ready: tcp {port}")),
            Some(Ready::Log(regex)) => Some(format!("ready: log {}", regex.as_str())),
            Some(Ready::Delay(span)) => Some(format!("ready: {}", style::span(*span))),
            None => None,
        };
        let after = program
            .after
            .iter()
            .map(|&index| plan.programs[index].name.as_str());
        let after = after.collect::<Vec<_>>().join(", ");
        let notes = [
            ready,
            (!after.is_empty()).then(|| format!("after {after}")),
            program.service.then(|| "service".to_owned()),
        ];
        let command: String = program.argv.join(" ").chars().take(60).collect();
        vec![
            program.name.clone(),
            format!("on {}", plan.hosts[program.host].name),
            style::clean(&command),
            style::clean(&notes.into_iter().flatten().collect::<Vec<_>>().join("; ")),
        ]
    }))
}

fn as_json(plan: &Plan, paths: &Paths, ahead: &Ahead, routes: bool) -> Value {
    let Ahead { outlook, resources } = ahead;
    let notes = resources
        .as_ref()
        .map_or(&[][..], |allotment| &allotment.notes);
    let topology = &plan.topology;
    let seconds = |span: Option<Span>| span.map(Span::as_s);
    let routers = topology
        .nodes()
        .iter()
        .filter(|node| node.kind == NodeKind::Router);
    let programs = plan.programs.iter().map(|program| {
        let after = program
            .after
            .iter()
            .map(|&index| plan.programs[index].name.as_str());
        json!({
            "name": program.name, "host": plan.hosts[program.host].name, "argv": program.argv,
            "service": program.service, "timeout_s": seconds(program.timeout),
            "after": after.collect::<Vec<_>>(),
        })
    });
    let full = routes || paths.hosts.len() <= TABLE_HOSTS;
    let list = paths
        .list
        .iter()
        .filter(|_| full)
        .map(|path| path_json(plan, path, routes));
    let delay = paths
        .spread(|path| path.delay)
        .map(|three| three.map(|p| p.delay.as_ns()));
    let delay = delay.map(|[min, median, max]| json!({ "min": min, "median": median, "max": max }));
    json!({
        "name": plan.name, "clock": plan.clock.name(), "seed": plan.seed, "duration_s": seconds(plan.duration),
        "tolerance_ns": plan.tolerance.as_ns(),
        "hosts": hosts_json(plan),
        "routers": routers
            .map(|node| json!({ "name": node.name, "ipv4": node.ipv4, "ipv6": node.ipv6 }))
            .collect::<Vec<_>>(),
        "lans": topology
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Lan)
            .map(|node| &node.name)
            .collect::<Vec<_>>(),
        "pipes": topology.pipes().iter().map(|pipe| pipe_json(plan, pipe)).collect::<Vec<_>>(),
        "labels": labels::as_json(plan),
        "programs": programs.collect::<Vec<_>>(),
        "path_delay_ns": delay,
        "paths_complete": paths.complete && full,
        "paths": list.collect::<Vec<_>>(),
        "traffic": flow_groups::as_json(plan),
        "flows": plan.traffic.flows,
        "memory": memory::as_json(plan),
        "events": events_json(plan),
        "convergence_s": plan.schedule.convergence.as_s(),
        "demands": outlook.json(),
        "resources": resources.as_ref().map(|allotment| resources::as_json(plan, allotment)),
        "warnings": plan
            .warnings
            .iter()
            .cloned()
            .chain(outlook.warnings())
            .chain(notes.iter().cloned())
            .collect::<Vec<_>>(),
    })
}

fn hosts_json(plan: &Plan) -> Vec<Value> {
    let host = |host: &HostPlan| {
        let node = plan.topology.node(host.node);
        json!({
            "name": host.name, "ipv4": node.ipv4, "ipv6": node.ipv6, "mtu": host.mtu,
            "tcp": {
                "congestion": host.tcp.congestion, "ecn": host.tcp.ecn,
                "rmem_max": host.tcp.rmem_max, "wmem_max": host.tcp.wmem_max,
            },
        })
    };
    plan.hosts.iter().map(host).collect()
}

fn events_json(plan: &Plan) -> Vec<Value> {
    let event = |event: &Event| {
        json!({
            "at_s": event.at.as_s(), "event": event.text,
            "every_s": event.every.map(Span::as_s), "times": event.times,
        })
    };
    plan.schedule.events.iter().map(event).collect()
}

fn pipe_json(plan: &Plan, pipe: &Pipe) -> Value {
    let params = &pipe.params;
    let unusual: BTreeMap<_, _> = described::unusual(params).into_iter().collect();
    json!({
        "name": pipe.name, "link": pipe.link,
        "from": name(plan, pipe.from), "to": name(plan, pipe.to), "mtu": pipe.mtu,
        "rate_bps": params.rate.map(|rate| rate.bits_per_s()),
        "delay_ns": params.delay.as_ns(), "loss": params.loss.mean(),
        "queue": params.queue.to_string(), "framing": params.framing.to_string(),
        "balance": balance(pipe.balance), "params": unusual,
    })
}

fn path_json(plan: &Plan, path: &Path, routes: bool) -> Value {
    let pipes = || {
        path.pipes
            .iter()
            .map(|pipe| plan.topology.pipe(*pipe).name.as_str())
    };
    let mut value = json!({
        "from": name(plan, path.from), "to": name(plan, path.to), "hops": path.pipes.len(),
        "delay_ns": path.delay.as_ns(), "rate_bps": path.rate.map(|rate| rate.bits_per_s()),
    });
    if routes {
        value["pipes"] = pipes().collect();
    }
    value
}
