//! An ordinary user without a home and without any environment but `PATH`.
//!
//! Where the tests run as root this is `nobody`, with a copy of the binary; else it is the user
//! who runs them.

use std::os::unix::fs::MetadataExt;

use crate::cleanup::kill_at_random;
use crate::info::check_inside;
use crate::isolation::check_isolation;
use crate::lab::Lab;
use crate::names::check_names;
use crate::network::check_one_pipe;

#[test]
fn an_ordinary_user_gets_the_same_network() {
    let lab = Lab::unprivileged();
    check_one_pipe(&lab, "1 ms", 1_000_000);
    check_isolation(&lab);
    check_names(&lab);
    check_inside(&lab);
}

#[test]
fn an_ordinary_users_programs_stay_that_users() {
    let lab = Lab::unprivileged();
    let outcome = lab.succeed(
        "
topology: { nodes: { a: {}, b: {} }, links: [ { ends: [a, b] } ] }
programs:
  who: { on: a, run: sh -c 'id -u; touch made' }
  root: { on: b, as: root, run: sh -c 'id -u; ip link show eth0 >/dev/null 2>&1; touch made' }
",
    );
    let user = std::fs::metadata(lab.dir()).unwrap().uid();
    assert_eq!(outcome.log("who.out"), format!("{user}\n"));
    assert_eq!(outcome.log("root.out"), "0\n");
    for made in [
        "hosts/a/made",
        "hosts/b/made",
        "summary.json",
        "logs/who.out",
    ] {
        let owner = std::fs::metadata(outcome.out().join(made))
            .expect(made)
            .uid();
        assert_eq!(owner, user, "{made}");
    }
}

#[test]
fn an_ordinary_users_killed_runs_leave_nothing() {
    kill_at_random(&Lab::unprivileged(), 20);
}
