//! How fast the engine is by itself: no clock, no kernel, no programs, one thread.
//!
//! Runs the examples `hops` and `scale` of the engine's crate, in the source tree that this program
//! was built from.

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
}

const SIZES: [Size; 2] = [
    Size {
        routers: 400,
        packets: 5_000,
        pipes: &["plain", "shaped", "jitter", "codel"],
    },
    Size {
        routers: 1_600,
        packets: 100_000,
        pipes: &["plain", "shaped"],
    },
];

/// Numbers of pipes that carry the same load each; the first is the reference of the others.
const PIPES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Makes the C library ask for large pages, as `longhaul` does for itself in virtual runs: only there
/// are networks so large.
const LARGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// A group for each size, and one for growth.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let sizes = if lab.quick { &SIZES[..1] } else { &SIZES[..] };
    let group = |size: &Size| {
        let title = format!(
            "the engine alone, one thread, a ring of {} routers, {} packets in flight",
            size.routers, size.packets
        );
        let setups: Vec<Setup> = size.pipes.iter().map(|pipes| setup(size, pipes)).collect();
        Group::new(title, setups)
    };
    let growth = if lab.quick { &PIPES[..2] } else { &PIPES[..] };
    let growth = Group::new(
        "the engine alone, one thread, a tree of more and more pipes, 5 packets in flight for each",
        growth.iter().map(|&pipes| scale(pipes)).collect::<Vec<_>>(),
    );
    sizes.iter().map(group).chain([growth]).collect()
}

/// One number of pipes: speed, and memory.
fn scale(pipes: u32) -> Setup {
    let best = Figure::new("best of 5", "M packet-hops/s", at("/best"));
    let packet = Figure::new("memory of a packet without its bytes", "B", at("/packet"));
    let figures = match pipes {
        _ if pipes == PIPES[0] => vec![best, packet],
        _ if Some(&pipes) == PIPES.last() => vec![
            best.against(0, Against::Ratio)
                .target(Target::RatioAtLeast(0.34))
                .headline("the engine with 1,000,000 pipes", "with 1,000 pipes"),
        ],
        _ => vec![best.against(0, Against::Ratio)],
    };
    let arguments = vec![pipes.to_string()];
    let command = format!(
        "{}={} cargo run --release -p longhaul-core --example scale {pipes}",
        LARGE_PAGES.0, LARGE_PAGES.1
    );
    Setup::new(format!("{pipes} pipes"), command, figures, move |_| {
        example("scale", &arguments, Some(LARGE_PAGES))
    })
}

fn setup(size: &Size, pipes: &str) -> Setup {
    let numbers = [size.routers, size.packets].map(|number| number.to_string());
    let arguments: Vec<String> = numbers.into_iter().chain([pipes.to_owned()]).collect();
    let best = Figure::new("best of 5", "M packet-hops/s", at("/best"));
    let figure = if pipes == size.pipes[0] {
        best
    } else {
        best.against(0, Against::Ratio)
    };
    let command = format!(
        "cargo run --release -p longhaul-core --example hops {}",
        arguments.join(" ")
    );
    Setup::new(format!("{pipes} pipes"), command, vec![figure], move |_| {
        example("hops", &arguments, None)
    })
}

fn example(
    name: &str,
    arguments: &[String],
    variable: Option<(&str, &str)>,
) -> io::Result<Outcome> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("cargo")
        .args(["run", "--release", "--quiet", "-p", "longhaul-core"])
        .args(["--example", name, "--"])
        .args(arguments)
        .envs(variable)
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
        data: json!({ "best": best, "packet": packet(&text), "output": text }),
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

/// The number of the line `a packet: N bytes, …`.
fn packet(text: &str) -> Value {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("a packet: "));
    let word = line.and_then(|line| line.split(' ').next());
    word.and_then(|word| word.parse::<u64>().ok())
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
        let text = "a packet: 64 bytes, and a slot of 192 for its headers\n";
        assert_eq!(packet(text), json!(64));
        assert_eq!(packet("nothing"), Value::Null);
    }
}
