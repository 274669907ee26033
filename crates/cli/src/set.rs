//! `longhaul set LINK key=value …`: changes a link of a run that is under way.

use longhaul_lab::control::{Control, ControlError, Reply, Request};

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
Examples:
  longhaul set ga-gb delay='50 ms'             both directions of the link
  longhaul set 'ga>gb' rate='10 Mbit/s' loss='1 %'
  longhaul set ga-gb delay='{ normal: { mean: 5 ms, deviation: 1 ms } }' queue=codel
  longhaul set ga-gb rate=unlimited
  longhaul set ga-gb down                      the link fails …
  longhaul set ga-gb up                        … and comes back
  longhaul set ga down keep_queue=true         a router, with all its links
  longhaul set 'a*-ga' delay='5 ms'            all links whose names match
  longhaul set kind=backbone loss='1 %'        all links with this label

Fields and values are those of links in an experiment file, and changes affect packets as those of
events do (docs/format.md).";

/// Change a link of a run that is under way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The link x-y (both directions), the pipe 'x>y' (one), a router, or a set: 'x*-y', 'x>*', label=value, all
    link: String,
    /// What to change: fields with their new values, or `down` or `up`
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = word)]
    values: Vec<Word>,
    /// The run: its experiment's name or its folder; needed only if several are under way
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
}

/// What an argument says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Assign(String, String),
    Down,
    Up,
}

fn word(text: &str) -> Result<Word, String> {
    match text {
        "down" => Ok(Word::Down),
        "up" => Ok(Word::Up),
        _ => crate::experiment::pair(text)
            .map(|(key, value)| Word::Assign(key, value))
            .map_err(|_| "write it like `delay=5 ms`, `down` or `up`".to_owned()),
    }
}

pub(crate) fn main(args: &Args) -> Exit {
    let result = if args
        .values
        .iter()
        .any(|word| !matches!(word, Word::Assign(..)))
    {
        switch(args)
    } else {
        set(args)
    };
    match result {
        Ok(text) => {
            style::print(&text);
            Exit::Done
        }
        Err(Problem::Words(problem)) => {
            style::problem(problem);
            Exit::Wrong
        }
        Err(Problem::Control(error)) => {
            style::problem(&error);
            crate::exec::exit_of(&error)
        }
    }
}

/// Why nothing has changed.
enum Problem {
    Words(&'static str),
    Control(ControlError),
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

fn set(args: &Args) -> Result<String, Problem> {
    let values = args.values.iter().filter_map(|word| match word {
        Word::Assign(key, value) => Some((key.clone(), value.clone().into())),
        Word::Down | Word::Up => None,
    });
    let request = Request::Set {
        link: args.link.clone(),
        values: values.collect(),
    };
    match Control::connect(args.run.as_deref())?.ask(&request, &[])? {
        Reply::Set { pipes, at_s } => Ok(format!("{} changed at {at_s:.6} s\n", pipes.join(", "))),
        _ => Err(Problem::Words(NO_ANSWER)),
    }
}

const NO_ANSWER: &str = "unexpected answer from the run; is it one of another version of longhaul?";

/// `down` or `up`, of a link or else of a router.
fn switch(args: &Args) -> Result<String, Problem> {
    const ALONE: &str = "write `up` or `down` alone, or `down keep_queue=true`";
    let mut up = None;
    let mut keep_queue = false;
    for word in &args.values {
        match word {
            Word::Down | Word::Up if up.is_some() => return Err(Problem::Words(ALONE)),
            Word::Down => up = Some(false),
            Word::Up => up = Some(true),
            Word::Assign(key, value) if key == "keep_queue" && value == "true" => {
                keep_queue = true;
            }
            Word::Assign(..) => return Err(Problem::Words(ALONE)),
        }
    }
    let up = up == Some(true);
    if up && keep_queue {
        return Err(Problem::Words(ALONE));
    }
    let control = Control::connect(args.run.as_deref())?;
    let ask = |link: Option<String>, router: Option<String>| {
        let request = if up {
            Request::Up { link, router }
        } else {
            Request::Down {
                link,
                router,
                keep_queue,
            }
        };
        control.ask(&request, &[])
    };
    // A router's name is not a link's, unless somebody has called a link so.
    let answer = ask(Some(args.link.clone()), None).or_else(|refused| match refused {
        ControlError::Refused(_) => {
            ask(None, Some(args.link.clone())).map_err(|other| match other {
                ControlError::Refused(reason) if reason.contains("is a host") => {
                    ControlError::Refused(reason)
                }
                ControlError::Refused(_) => refused,
                other => other,
            })
        }
        other => Err(other),
    });
    let (pipes, at_s) = match answer? {
        Reply::Down { pipes, at_s } | Reply::Up { pipes, at_s } => (pipes, at_s),
        _ => return Err(Problem::Words(NO_ANSWER)),
    };
    let word = if up { "up" } else { "down" };
    Ok(if pipes.is_empty() {
        format!(
            "nothing changed: every pipe of `{}` was {word} already, or another failure keeps it down\n",
            args.link
        )
    } else {
        format!("{} {word} at {at_s:.6} s\n", pipes.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_assignments_or_switches() {
        let assign = |key: &str, value: &str| Ok(Word::Assign(key.to_owned(), value.to_owned()));
        assert_eq!(word("delay=5 ms"), assign("delay", "5 ms"));
        assert_eq!(
            word("loss={ one_in: 100 }"),
            assign("loss", "{ one_in: 100 }")
        );
        assert_eq!((word("down"), word("up")), (Ok(Word::Down), Ok(Word::Up)));
        assert!(word("delay").unwrap_err().contains("delay=5 ms"));
    }
}
