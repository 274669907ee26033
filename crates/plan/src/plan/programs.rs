//! Programs: where each runs, with what words, and what must come first.
//!
//! A program on one host keeps its name; on a group, a set or a list it runs once per host as
//! `client@a0`. `after` names programs, and holds for all their instances.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use longhaul_core::Span;
use longhaul_core::topology::NodeKind;
use regex::bytes::RegexBuilder;

use super::nodes::{Among, Nodes};
use super::{HostPlan, MAX_PROGRAMS, ProgramPlan, Ready};
use crate::file::spec::{Program, User};
use crate::file::wrap::{At, Checked, Named, OneOrMany};
use crate::names::{NAME_HINT, check_name, natural};
use crate::text::error::{Faults, Pos, near_miss, shown};

/// The most pairs of a program and one that must come before it.
const MAX_DEPENDENCIES: usize = 1_000_000;
/// The memory that a compiled `log` expression may take.
const REGEX_BYTES: usize = 1 << 20;

/// A program of the file, checked by itself.
pub(crate) struct Draft<'a> {
    name: &'a At<String>,
    spec: &'a Program,
    /// The nodes that it runs on.
    on: Vec<usize>,
    /// Whether its instances carry their host's name.
    per_host: bool,
    argv: Vec<String>,
    timeout: Option<Span>,
    ready: Option<Ready>,
    /// The drafts that must come first.
    after: Vec<usize>,
}

/// Checks the programs of a file, each by itself and then their order.
pub(crate) fn expand<'a>(
    programs: &'a Named<Checked<Program>>,
    nodes: &Nodes,
    faults: &mut Faults,
) -> Vec<Draft<'a>> {
    let entries = programs
        .0
        .iter()
        .filter_map(|(name, spec)| Some((name, spec.0.as_ref()?)));
    let mut drafts: Vec<Draft<'a>> = Vec::new();
    let mut total = 0;
    for (name, spec) in entries {
        let draft = draft(name, spec, nodes, faults);
        total += draft.on.len();
        drafts.push(draft);
        // Stop expanding: the error is certain, and further instances would only take memory.
        if total > MAX_PROGRAMS {
            let message = format!("at least {total} programs, counting each host that one runs on");
            let hint = format!("at most {MAX_PROGRAMS} are supported");
            faults.add(name.at, message, hint);
            return drafts;
        }
    }
    drafts.sort_by(|a, b| natural(&a.name.value, &b.name.value));
    link_up(&mut drafts, faults);
    drafts
}

fn draft<'a>(
    name: &'a At<String>,
    spec: &'a Program,
    nodes: &Nodes,
    faults: &mut Faults,
) -> Draft<'a> {
    if let Err(problem) = check_name(&name.value) {
        let message = format!(
            "`{}` cannot be a program's name: {problem}",
            shown(&name.value)
        );
        faults.add(name.at, message, NAME_HINT);
    }
    check_env(spec, faults);
    let (on, per_host) = places(name, &spec.on, nodes, faults);
    Draft {
        name,
        spec,
        on,
        per_host,
        argv: words(name, &spec.run, faults),
        timeout: super::positive(
            spec.timeout.as_ref(),
            "a `timeout` of 0 s leaves a program no time to run",
            faults,
        ),
        ready: spec.ready.as_ref().and_then(|text| ready(text, faults)),
        after: Vec::new(),
    }
}

/// The hosts that a program runs on.
fn places(
    name: &At<String>,
    on: &OneOrMany,
    nodes: &Nodes,
    faults: &mut Faults,
) -> (Vec<usize>, bool) {
    let (mut places, mut seen) = (Vec::new(), HashSet::new());
    let mut per_host = on.listed;
    if on.items.is_empty() {
        let message = format!("`{}` has no host to run on", shown(&name.value));
        faults.add(name.at, message, "name a host or a group: `on: a`");
    }
    for item in &on.items {
        let Some(named) = nodes.resolve(item, Among::Hosts, faults) else {
            continue;
        };
        per_host |= matches!(named, super::nodes::Named::Many(_));
        for &index in named.members() {
            let node = &nodes.list[index];
            if node.kind != NodeKind::Host {
                let kind = match node.kind {
                    NodeKind::Lan => "lan",
                    _ => "router",
                };
                let message = format!("`{}` is a {kind}, and {kind}s run no programs", node.name);
                faults.add(item.at, message, "name a host, or make it `kind: host`");
                break;
            }
            // A host that several items name counts once.
            if seen.insert(index) {
                places.push(index);
            }
        }
    }
    places.sort_unstable();
    (places, per_host)
}

/// The command as words.
fn words(name: &At<String>, run: &OneOrMany, faults: &mut Faults) -> Vec<String> {
    let at = run.items.first().map_or(name.at, |item| item.at);
    let words: Vec<String> = match run.items.as_slice() {
        [text] if !run.listed => match shell_words::split(&text.value) {
            Ok(words) => words,
            Err(_) => {
                let message = format!("a quote in `{}` is not closed", shown(&text.value));
                let hint = "close it, or write `run` as a list of words: [echo, \"it's\"]";
                faults.add(at, message, hint);
                return Vec::new();
            }
        },
        items => items.iter().map(|item| item.value.clone()).collect(),
    };
    if words.first().is_none_or(String::is_empty) {
        faults.add(at, "`run` has no command", "write it like `run: iperf3 -s`");
    }
    if words.iter().any(|word| word.contains('\0')) {
        faults.add(at, "a command cannot hold NUL characters", "remove `\\0`");
    }
    words
}

fn check_env(spec: &Program, faults: &mut Faults) {
    for (name, value) in &spec.env.0 {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            let message = format!("`{}` cannot be an environment variable", shown(&name.value));
            faults.add(name.at, message, "write it like `env: { NAME: value }`");
        }
        if value.value.contains('\0') {
            faults.add(
                value.at,
                "a variable cannot hold NUL characters",
                "remove `\\0`",
            );
        }
    }
    if let Some(cwd) = &spec.cwd
        && (cwd.value.is_empty() || cwd.value.contains('\0'))
    {
        let message = format!("`{}` is not a path", shown(&cwd.value));
        faults.add(
            cwd.at,
            message,
            "write a path such as `/srv/data`, or leave it out",
        );
    }
}

/// `tcp PORT`, `log REGEX` or a time.
fn ready(text: &At<String>, faults: &mut Faults) -> Option<Ready> {
    let At { at, value } = text;
    let (kind, rest) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
    let rest = rest.trim();
    match kind {
        "tcp" => match rest.parse::<u16>() {
            Ok(port @ 1..) => Some(Ready::Tcp(port)),
            _ => {
                let message = format!("`{}` is not a TCP port", shown(rest));
                faults.add(
                    *at,
                    message,
                    "write a number from 1 to 65535, like `tcp 5201`",
                );
                None
            }
        },
        "log" => log(*at, rest, faults),
        _ => match value.parse::<Span>() {
            Ok(span) => Some(Ready::Delay(span)),
            Err(error) => {
                let digit = value.starts_with(|c: char| c.is_ascii_digit() || c == '-');
                let message = if digit {
                    error.problem
                } else {
                    format!(
                        "`{}` is not `tcp PORT`, `log REGEX` or a time",
                        shown(value)
                    )
                };
                let hint = "write it like `tcp 5201`, `log listening on` or `2 s`";
                faults.add(*at, message, hint);
                None
            }
        },
    }
}

fn log(at: Pos, pattern: &str, faults: &mut Faults) -> Option<Ready> {
    if pattern.is_empty() {
        faults.add(
            at,
            "`log` needs a regular expression",
            "write it like `log listening on`",
        );
        return None;
    }
    match RegexBuilder::new(pattern).size_limit(REGEX_BYTES).build() {
        Ok(regex) => Some(Ready::Log(regex)),
        Err(error) => {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            let message = format!(
                "`{}` is not a regular expression: {}",
                shown(pattern),
                shown(reason)
            );
            let hint = "write a backslash before ( [ { * + ? to match the character itself";
            faults.add(at, message, hint);
            None
        }
    }
}

/// Resolves `after`, and refuses what could never start.
fn link_up(drafts: &mut [Draft<'_>], faults: &mut Faults) {
    let index: HashMap<&str, usize> = drafts
        .iter()
        .enumerate()
        .map(|(i, draft)| (draft.name.value.as_str(), i))
        .collect();
    let mut all = Vec::with_capacity(drafts.len());
    let mut dependencies = 0;
    for draft in drafts.iter() {
        let mut after = Vec::new();
        for name in &draft.spec.after.items {
            let Some(&first) = index.get(name.value.as_str()) else {
                let message = format!("there is no program called `{}`", shown(&name.value));
                let near = near_miss(&name.value, index.keys().copied());
                let hint = near
                    .map_or("add it to `programs`, or correct the name".into(), |near| {
                        format!("did you mean `{near}`?")
                    });
                faults.add(name.at, message, hint);
                continue;
            };
            let before = &drafts[first];
            if before.spec.service && before.spec.ready.is_none() {
                let (late, early) = (&draft.name.value, &name.value);
                let message = format!("`{late}` waits for `{early}`, a service that never ends");
                let hint = format!("give `{early}` a `ready`, such as `ready: tcp 80`");
                faults.add(name.at, message, hint);
            }
            if !after.contains(&first) {
                dependencies += before.on.len() * draft.on.len();
                after.push(first);
            }
        }
        all.push(after);
    }
    if dependencies > MAX_DEPENDENCIES {
        let message = format!("`after` joins {dependencies} pairs of programs, counting each host");
        let hint =
            format!("at most {MAX_DEPENDENCIES} are supported; wait for a program on one host");
        faults.add(
            drafts
                .first()
                .map(|draft| draft.name.at)
                .unwrap_or_default(),
            message,
            hint,
        );
    }
    drafts
        .iter_mut()
        .zip(all)
        .for_each(|(draft, after)| draft.after = after);
    refuse_cycle(drafts, faults);
}

/// Programs that wait for one another would wait for ever.
fn refuse_cycle(drafts: &[Draft<'_>], faults: &mut Faults) {
    // Kahn's algorithm: remove programs that can start until none can; the rest are on cycles or
    // wait for one.
    let mut waits: Vec<usize> = drafts.iter().map(|draft| draft.after.len()).collect();
    let mut followers = vec![Vec::new(); drafts.len()];
    for (index, draft) in drafts.iter().enumerate() {
        draft
            .after
            .iter()
            .for_each(|first| followers[*first].push(index));
    }
    let mut open: Vec<usize> = (0..drafts.len())
        .filter(|index| waits[*index] == 0)
        .collect();
    while let Some(index) = open.pop() {
        for &follower in &followers[index] {
            waits[follower] -= 1;
            if waits[follower] == 0 {
                open.push(follower);
            }
        }
    }
    let Some(start) = (0..drafts.len()).find(|index| waits[*index] > 0) else {
        return;
    };
    // Every program left waits for another one left, so walking backwards must close a cycle.
    let before = |index: usize| drafts[index].after.iter().copied().find(|i| waits[*i] > 0);
    let mut path = vec![start];
    while let Some(next) = path.last().and_then(|last| before(*last)) {
        if let Some(first) = path.iter().position(|index| *index == next) {
            path.drain(..first);
            break;
        }
        path.push(next);
    }
    let Some(&first) = path.first() else { return };
    let names: Vec<&str> = path
        .iter()
        .chain([&first])
        .take(12)
        .map(|i| drafts[*i].name.value.as_str())
        .collect();
    let message = format!(
        "programs wait for each other in a circle: {}",
        names.join(" after ")
    );
    faults.add(drafts[first].name.at, message, "remove one `after`");
}

/// Makes the programs of the plan, in the order of their names and hosts.
pub(crate) fn lower(
    drafts: Vec<Draft<'_>>,
    nodes: &Nodes,
    hosts: &[HostPlan],
    warnings: &mut Vec<String>,
    faults: &Faults,
) -> Vec<ProgramPlan> {
    if !faults.is_empty() {
        return Vec::new();
    }
    warn(&drafts, warnings);
    let host_index: HashMap<&str, usize> = hosts
        .iter()
        .enumerate()
        .map(|(index, host)| (host.name.as_str(), index))
        .collect();
    let mut first = Vec::with_capacity(drafts.len());
    let mut total = 0;
    for draft in &drafts {
        first.push(total);
        total += draft.on.len();
    }
    let instances = |draft: usize| first[draft]..first[draft] + drafts[draft].on.len();
    let mut programs = Vec::with_capacity(total);
    for draft in &drafts {
        let after: Vec<usize> = draft
            .after
            .iter()
            .flat_map(|before| instances(*before))
            .collect();
        for &node in &draft.on {
            let host = nodes.list[node].name.as_str();
            let name = &draft.name.value;
            let env = draft
                .spec
                .env
                .0
                .iter()
                .map(|(k, v)| (k.value.clone(), v.value.clone()));
            programs.push(ProgramPlan {
                name: if draft.per_host {
                    format!("{name}@{host}")
                } else {
                    name.clone()
                },
                host: host_index.get(host).copied().unwrap_or_default(),
                argv: draft.argv.clone(),
                env: env.collect(),
                cwd: draft.spec.cwd.as_ref().map(|cwd| PathBuf::from(&cwd.value)),
                timeout: draft.timeout,
                as_root: draft.spec.user == User::Root,
                service: draft.spec.service,
                ready: draft.ready.clone(),
                after: after.clone(),
            });
        }
    }
    programs
}

fn warn(drafts: &[Draft<'_>], warnings: &mut Vec<String>) {
    const OPERATORS: [&str; 9] = ["|", "||", "&", "&&", ";", ">", ">>", "<", "2>&1"];
    for draft in drafts.iter().filter(|draft| !draft.spec.run.listed) {
        if let Some(word) = draft
            .argv
            .iter()
            .find(|word| OPERATORS.contains(&word.as_str()))
        {
            warnings.push(format!(
                "`{}` passes `{word}` to its program as an argument, since `run` is not a shell: use sh -c '…' if it should be one",
                draft.name.value
            ));
        }
    }
}
