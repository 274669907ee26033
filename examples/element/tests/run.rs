//! The example is built, knows its element, and does with packets what the element says.

// The test waits for another process.
#![allow(clippy::disallowed_methods)]

use std::process::{Command, Output};

const EXPERIMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/experiment.yaml");

fn example(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-element"));
    command
        .args(arguments)
        .output()
        .expect("starting the example")
}

#[test]
fn check_knows_the_element() {
    let output = example(&["check", EXPERIMENT]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("element every-third"),
        "{text}"
    );
    let wrong = example(&[
        "check",
        EXPERIMENT,
        "--set",
        "links.a-b.element=every-thrid",
    ]);
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(text.contains("did you mean `every-third`?"), "{text}");
}

/// With datagrams from a script, since `ping` may not be installed.
#[test]
fn every_third_packet_is_lost() {
    let folder = std::env::temp_dir().join(format!("longhaul-element-{}", std::process::id()));
    let out = folder.to_str().expect("a UTF-8 path");
    // Sixty datagrams, and time for them to come out.
    let send = "python3 -c 'import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                [s.sendto(bytes(100), (\"10.0.0.2\", 9)) for _ in range(60)]; time.sleep(0.3)'";
    let run = format!("programs.ping.run={send}");
    let output = example(&[
        "run", EXPERIMENT, "--out", out, "--json", "--quiet", "--set", &run,
    ]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    std::fs::remove_dir_all(&folder).expect("removing the run folder");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{summary}");
    let pipe = |name: &str| {
        let pipes = summary["pipes"].as_array().expect("pipes");
        pipes
            .iter()
            .find(|pipe| pipe["name"] == name)
            .expect("the pipe")
            .clone()
    };
    let (lost, passed) = (
        pipe("a>b")["drops_loss"].as_u64(),
        pipe("a>b")["packets"].as_u64(),
    );
    let (lost, passed) = (lost.unwrap(), passed.unwrap());
    assert!(passed + lost >= 60, "all were sent: {passed} + {lost}");
    assert_eq!(lost, (passed + lost) / 3, "every third of them");
    assert_eq!(pipe("b>a")["drops_loss"], 0);
}
