//! How fast the engine is by itself: no clock, no kernel, no programs, one thread.
//!
//! Runs the example `hops` of the engine's crate, in the source tree that this program was
//! built from.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::figures::{Against, Figure, Outcome, Target, at};
use super::lab::Lab;
use super::{Group, Setup};

/// A network, and what its pipes do.
struct Size {
    routers: u32,
    /// In flight.
    packets: u32,
    /// As the example calls them; the first is the reference of the others.
    pipes: &'static [&'static str],
    /// Speed of the first, in millions of packet-hops per second.
    target: f64,
}

const SIZES: [Size; 2] = [
    Size {
        routers: 400,
        packets: 5_000,
        pipes: &["plain", "shaped", "jitter", "codel"],
        target: 30.0,
    },
    Size {
        routers: 1_600,
        packets: 100_000,
        pipes: &["plain", "shaped"],
        target: 25.0,
    },
];

/// A group for each size.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let sizes = if lab.quick { &SIZES[..1] } else { &SIZES[..] };
    let group = |size: &Size| Group {
        title: format!(
            "the engine alone, one thread, a ring of {} routers, {} packets in flight",
            size.routers, size.packets
        ),
        setups: size.pipes.iter().map(|pipes| setup(size, pipes)).collect(),
    };
    sizes.iter().map(group).collect()
}

fn setup(size: &Size, pipes: &str) -> Setup {
    let numbers = [size.routers, size.packets].map(|number| number.to_string());
    let arguments: Vec<String> = numbers.into_iter().chain([pipes.to_owned()]).collect();
    let best = Figure::new("best of 5", "M packet-hops/s", at("/best"));
    let is_first = pipes == size.pipes[0];
    Setup {
        name: format!("{pipes} pipes"),
        command: format!(
            "cargo run --release -p longhaul-core --example hops {}",
            arguments.join(" ")
        ),
        reference: false,
        run: Box::new(move |_| hops(&arguments)),
        figures: vec![if is_first {
            best.target(Target::AtLeast(size.target))
        } else {
            best.against(0, Against::Ratio)
        }],
    }
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
