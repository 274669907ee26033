//! How long many hosts take to come up and to go away.
//!
//! A star whose programs only sleep for a moment. Set-up and tear-down are the emulator's own
//! figures; what else its process takes, from its start to its end, is a figure too.

use serde_json::json;

use super::emulated;
use super::figures::{Figure, Outcome, Target, at};
use super::lab::Lab;
use super::{Group, Setup};

const COUNTS: [u32; 2] = [500, 1000];
/// The targets are for this many hosts; more just have to work.
const TARGET_COUNT: u32 = 500;

/// One group of both sizes.
pub(crate) fn groups(_lab: &Lab) -> Vec<Group> {
    let targeted = |count: u32, figure: Figure, most: f64| match count {
        TARGET_COUNT => figure.target(Target::AtMost(most)),
        _ => figure,
    };
    let setup = |count: u32| Setup {
        name: format!("{count} hosts"),
        command: format!("longhaul run on a star of {count} hosts, `sleep 0.2` on the first"),
        reference: false,
        run: Box::new(move |lab| {
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
        }),
        figures: vec![
            targeted(count, Figure::new("set-up", "s", at("/setup_s")), 1.5),
            targeted(count, Figure::new("tear-down", "s", at("/teardown_s")), 0.5),
            Figure::new("planning and results", "s", at("/rest_s")),
            Figure::new("whole process", "s", at("/wall_s")),
        ],
    };
    vec![Group {
        title: "a star of hosts".to_owned(),
        setups: COUNTS.map(setup).into(),
    }]
}

fn star(count: u32) -> String {
    format!(
        "name: hosts\nduration: 60 s\ntopology:\n  nodes:\n    h: {{ count: {count} }}\n    \
         hub: {{ kind: router }}\n  links:\n    - {{ ends: [h, hub], delay: 1 ms }}\n\
         programs:\n  idle: {{ on: h0, run: sleep 0.2 }}\n"
    )
}
