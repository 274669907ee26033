//! A fault that the verdict must report and not refuse: a core that stalls, as virtual machines do.
//!
//! `tests/faults.sh` plants the others from outside, where the tests about them must fail.

use crate::lab::{Lab, Run};
use crate::network::one_pipe;
use crate::outcome::number;

#[test]
fn a_stalled_core_is_reported() {
    let lab = Lab::new();
    let file = lab.write("stall.yaml", &one_pipe("1 ms"));
    let out = lab.dir().join("run");
    let [file, folder] = [&file, &out].map(|path| path.to_str().expect("a UTF-8 path"));
    let mut command = lab.longhaul(&["run", file, "--out", folder, "--json"]);
    command.env("LONGHAUL_FAULT", "stall:5ms/100ms");
    let outcome = Run::spawn(&lab, command, out.clone(), 0).wait().succeeded();
    let verdict = &outcome.summary["verdict"];
    assert_ne!(verdict["state"], "faithful", "{outcome}");
    // What came at the beginning of a stall waits for its end; one packet in twenty meets one.
    let lateness = |quantile: &str| number(&verdict["lateness_ns"][quantile]);
    assert!(lateness("p99") >= 3_000_000, "{outcome}");
    assert!(lateness("p50") < 1_000_000, "{outcome}");
    // The verdict says what it was.
    let [late, stalls] = [&verdict["by_cause"]["stall"], &verdict["stalls"]["count"]].map(number);
    assert!(late > 0 && stalls > 5, "{outcome}");
    let share = verdict["late_share"].as_f64().expect("a share");
    assert!((0.02..0.2).contains(&share), "{outcome}");
    let reasons = verdict["reasons"].as_array().expect("reasons");
    let says =
        |reason: &serde_json::Value| reason.as_str().is_some_and(|it| it.contains("stalled"));
    assert!(reasons.iter().any(says), "{outcome}");
}
