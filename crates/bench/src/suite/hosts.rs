//! How long many hosts take to come up and to go away.
//!
//! A star whose programs only sleep for a moment. Set-up and tear-down are the emulator's own
//! figures; what else its process takes, from its start to its end, is a figure too. The reference is
//! what a script of a network lab does first: a shell that makes as many network namespaces, one after
//! another, with a veth pair in each, and nothing else.

use std::io;
use std::time::Instant;

use serde_json::json;

use super::emulated;
use super::figures::{Against, Figure, Outcome, Target, at};
use super::lab::{Lab, tool};
use super::{Group, Setup};

const COUNTS: [u32; 2] = [500, 1000];
/// The count on the first screen.
const HEADLINE: u32 = 500;

/// One group for each count.
pub(crate) fn groups(lab: &Lab) -> Vec<Group> {
    let counts = if lab.quick { &COUNTS[..1] } else { &COUNTS[..] };
    let group = |&count: &u32| {
        Group::new(
            format!("a star of {count} hosts"),
            [shell(count), own(count)],
        )
    };
    counts.iter().map(group).collect()
}

fn set_up() -> Figure {
    Figure::new("set-up", "s", at("/setup_s"))
}

/// The shell's namespaces.
fn shell(count: u32) -> Setup {
    let script = format!(
        "for n in $(seq {count}); do unshare --net ip link add name a type veth peer name b; done"
    );
    let command = format!("unshare --user --map-root-user --net sh -c '{script}'");
    let name = format!("a shell's {count} namespaces");
    let setup = Setup::new(name, command, vec![set_up()], move |_| {
        let mut unshare = tool("unshare");
        unshare.args(["--user", "--map-root-user", "--net", "sh", "-ec", &script]);
        let started = Instant::now();
        let output = unshare.output()?;
        let setup_s = started.elapsed().as_secs_f64();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(said.trim().to_owned()));
        }
        Ok(Outcome {
            data: json!({ "setup_s": setup_s }),
            health: None,
        })
    });
    Setup {
        reference: true,
        ..setup
    }
}

fn own(count: u32) -> Setup {
    let mut set_up = set_up()
        .against(0, Against::Ratio)
        .target(Target::RatioAtMost(1.0));
    if count == HEADLINE {
        set_up = set_up.headline(format!("set-up of {count} hosts"), "a shell's namespaces");
    }
    let figures = vec![
        set_up,
        Figure::new("tear-down", "s", at("/teardown_s")),
        Figure::new("planning and results", "s", at("/rest_s")),
        Figure::new("whole process", "s", at("/wall_s")),
    ];
    let command = format!("longhaul run on a star of {count} hosts, `sleep 0.2` on the first");
    Setup::new(format!("{count} hosts"), command, figures, move |lab| {
        let folder = lab.folder()?;
        let run = emulated::run(lab, &folder, &star(count))?;
        lab.done_with(&folder);
        let part = |name: &str| run.summary[name].as_f64().unwrap_or(f64::NAN);
        let rest_s = run.wall_s - part("simulated_s") - part("setup_s") - part("teardown_s");
        Ok(Outcome {
            data: json!({
                "setup_s": part("setup_s"), "teardown_s": part("teardown_s"),
                "rest_s": rest_s, "wall_s": run.wall_s, "summary": run.summary,
            }),
            health: Some(run.health),
        })
    })
}

fn star(count: u32) -> String {
    format!(
        "name: hosts\nduration: 60 s\ntopology:\n  nodes:\n    h: {{ count: {count} }}\n    \
         hub: {{ kind: router }}\n  links:\n    - {{ ends: [h, hub], delay: 1 ms }}\n\
         programs:\n  idle: {{ on: h0, run: sleep 0.2 }}\n"
    )
}
