//! `report` of runs in every state.

use std::fs;

use serde_json::Value;

use crate::pty::Terminal;
use crate::{Scratch, assert_plain, text};

#[path = "../../../../tests/mutate.rs"]
#[allow(dead_code)]
mod mutate;

/// The most lines of a report.
const LINES: usize = 40;

#[test]
fn a_run_is_reported_as_at_its_end() {
    let scratch = Scratch::new("end");
    let said = scratch.run();
    for part in [
        "verdict    faithful",
        "queue full",
        "bulk: 3 of 3 finished",
        "g>h",
        "captures/g-h.pcapng",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for run in [
        &["report"][..],
        &["report", "small"],
        &["report", "longhaul-runs/small/summary.json"],
    ] {
        let output = scratch.longhaul(run);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), said.clone()),
            "{run:?}"
        );
    }
    assert_plain(&said, &scratch.0);
    let output = scratch.longhaul(&["report", "--json"]);
    let file = fs::read_to_string(scratch.path("longhaul-runs/small/summary.json")).unwrap();
    assert_eq!(text(&output.stdout), file);
    // A folder that has been moved is shown where it is.
    fs::rename(scratch.path("longhaul-runs/small"), scratch.path("moved")).unwrap();
    let output = scratch.longhaul(&["report", "moved"]);
    let report = format!("{}/report.html", scratch.path("moved"));
    assert!(text(&output.stdout).contains(&report), "{output:?}");
    let output = scratch.longhaul(&["report"]);
    assert!(
        output.status.code() == Some(2) && output.stdout.is_empty(),
        "{output:?}"
    );
}

#[test]
fn a_terminal_gets_colours_unless_it_wants_none() {
    let scratch = Scratch::new("report");
    scratch.run();
    for (command, coloured) in [
        ("longhaul report", true),
        ("NO_COLOR=1 longhaul report", false),
    ] {
        let mut terminal = Terminal::start(&scratch, (80, 160), command);
        assert_eq!(terminal.end(), 0);
        assert_eq!(text(&terminal.bytes).contains("\x1b[1;32m"), coloured);
    }
}

#[test]
fn a_run_under_way_or_cut_off_is_shown_with_what_it_has_left() {
    let scratch = Scratch::new("cut-off");
    let run = scratch.begin();
    let report = || {
        let output = scratch.longhaul(&["report"]);
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, said, problem) = report();
    assert!(
        code == Some(1) && said.contains("small: under way"),
        "{said}{problem}"
    );
    drop(run); // by SIGKILL
    let (code, said, problem) = report();
    assert!(
        code == Some(1) && said.contains("small: cut off"),
        "{said}{problem}"
    );
    assert!(
        problem.contains("the run was killed before its end"),
        "{problem}"
    );
    let output = scratch.longhaul(&["report", "--json"]);
    assert!(
        output.status.code() == Some(1) && output.stdout.is_empty(),
        "{output:?}"
    );
    let other = scratch.longhaul(&["compare", "small", "small"]);
    assert!(other.status.code() == Some(2), "{other:?}");
}

#[test]
fn damaged_and_hostile_summaries_are_refused_or_shown_on_one_plain_screen() {
    let scratch = Scratch::new("hostile");
    scratch.run();
    let path = scratch.path("longhaul-runs/small/summary.json");
    let whole: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let values = mutate::count(&whole) as u32;
    let mut shown = 0;
    // Each kind of change at places spread over the whole file, and two at a time.
    for number in 0..120u32 {
        let change = |step: u32| ((number * step) % values, (number % 24) as u8);
        let bytes: &[mutate::Change] = match number % 10 {
            0 => &[(number * 977, 0)],
            5 => &[(number * 977, 13)],
            _ => &[],
        };
        fs::write(
            &path,
            mutate::mutate(&whole, &[change(37), change(101)], bytes),
        )
        .unwrap();
        for json in [false, true] {
            let args = if json {
                &["report", "--json"][..]
            } else {
                &["report"]
            };
            let output = scratch.longhaul(args);
            let (said, problem) = (text(&output.stdout), text(&output.stderr));
            assert!(
                matches!(output.status.code(), Some(0 | 2)),
                "{number}: {output:?}"
            );
            assert_plain(&said, &scratch.0);
            assert_plain(&problem, &scratch.0);
            assert!(json || said.lines().count() <= LINES, "{number}: {said}");
            shown += u32::from(!json && output.status.success());
        }
    }
    assert!(shown > 20, "{shown} of 120 were shown");
}
