//! How fast the engine is by itself: no clock, no kernel, no programs, one thread.
//!
//! Runs the example `hops` of the engine's crate, in the source tree that this program was
//! built from.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::figures::{Figure, Outcome, at};
use super::lab::Lab;
use super::{Group, Setup};

/// Routers and packets in flight.
const SIZES: [(u32, u32); 2] = [(400, 5_000), (1_600, 100_000)];

/// One group of all sizes.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let sizes = if lab.quick { &SIZES[..1] } else { &SIZES[..] };
    let setup = |&(routers, packets): &(u32, u32)| {
        let arguments = [routers.to_string(), packets.to_string()];
        Setup {
            name: format!("ring of {routers} routers, {packets} packets in flight"),
            command: format!(
                "cargo run --release -p longhaul-core --example hops {}",
                arguments.join(" ")
            ),
            reference: false,
            run: Box::new(move |_| hops(&arguments)),
            figures: vec![Figure::new("best of 5", "M packet-hops/s", at("/best"))],
        }
    };
    vec![Group {
        title: "the engine alone, one thread".to_owned(),
        setups: sizes.iter().map(setup).collect(),
    }]
}

fn hops(arguments: &[String]) -> io::Result<Outcome> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("cargo")
        .args(["run", "--release", "--quiet", "-p", "longhaul-core"])
        .args(["--example", "hops", "--"])
        .args(arguments)
        .current_dir(tree)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let best = best(&text);
    if best.is_null() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("no figure: {}", stderr.trim())));
    }
    Ok(Outcome {
        data: json!({ "best": best, "output": text }),
        health: None,
    })
}

/// The number of the line `best: N M packet-hops/s`.
fn best(text: &str) -> Value {
    let line = text.lines().find_map(|line| line.strip_prefix("best: "));
    let word = line.and_then(|line| line.split(' ').next());
    word.and_then(|word| word.parse::<f64>().ok())
        .map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_line_is_read() {
        let text = "round 0: 7.0 M packet-hops/s\nbest: 7.5 M packet-hops/s\n";
        assert_eq!(best(text), json!(7.5));
        assert_eq!(best("nothing"), Value::Null);
    }
}
