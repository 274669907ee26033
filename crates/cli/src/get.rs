//! `longhaul get LINK`: the parameters and counters of a link of a run that is under way.

use longhaul_lab::control::{Control, PipeNow, Reply, Request};

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul get ga-gb                           both directions of the link
  longhaul get 'ga>*'                          all pipes that leave a node
  longhaul get 'ga>gb' --json | jq .waiting_packets";

/// Show parameters, queue and counters of a link of a run that is under way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The link x-y (both directions), the pipe 'x>y' (one), or a set: 'x*-y', 'x>*', label=value, all
    link: String,
    /// The run: its experiment's name or its folder; needed only if several are under way
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Exit {
    let request = Request::Get {
        link: args.link.clone(),
    };
    let ask = || Control::connect(args.run.as_deref())?.ask(&request, &[]);
    match ask() {
        Ok(Reply::Get { pipes, at_s }) if args.json => {
            let json = serde_json::json!({ "at_s": at_s, "pipes": pipes });
            style::print(&style::json(&json));
            Exit::Done
        }
        Ok(Reply::Get { pipes, at_s }) => {
            let text: String = pipes.iter().map(shown).collect();
            style::print(&format!("at {at_s:.6} s\n{text}"));
            Exit::Done
        }
        Ok(_) => {
            style::problem(
                "unexpected answer from the run; is it one of another version of longhaul?",
            );
            Exit::Failed
        }
        Err(error) => {
            style::problem(&error);
            crate::exec::exit_of(&error)
        }
    }
}

/// A pipe: its parameters, its queue, and what has become of its packets.
fn shown(pipe: &PipeNow) -> String {
    let counts = &pipe.counters;
    let mut rows = vec![(
        "state".to_owned(),
        if pipe.up { "up" } else { "down" }.to_owned(),
    )];
    rows.extend(pipe.params.clone());
    rows.push((
        "waiting".to_owned(),
        format!(
            "{}, {}",
            style::number(pipe.waiting_packets as usize, "packet"),
            style::bytes(pipe.waiting_bytes)
        ),
    ));
    let all = [
        ("packets", counts.packets),
        ("dropped, queue", counts.drops_queue),
        ("dropped, loss", counts.drops_loss),
        ("dropped, link down", counts.drops_down),
        ("marked", counts.marked),
        ("duplicated", counts.duplicated),
        ("corrupted", counts.corrupted),
        ("reordered", counts.reordered),
    ];
    let shown = all.iter().filter(|(name, n)| *n > 0 || *name == "packets");
    rows.extend(shown.map(|(name, n)| ((*name).to_owned(), style::grouped(*n))));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![name, style::clean(&value)])
        .collect();
    format!("{}\n{}", pipe.name, style::table(&rows))
}
