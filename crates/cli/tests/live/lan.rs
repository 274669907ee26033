//! Lan segments: broadcast and multicast of real programs, and who hears them.

use crate::lab::Lab;
use crate::skip::skip;

/// `a`, `b`, `c` and a router on one segment, and `x` behind the router.
const SEGMENT: &str = "
topology:
  nodes: { a: {}, b: {}, c: {}, x: {}, r: { kind: router }, s: { kind: lan } }
  links:
    - { ends: [a, s], delay: 1 ms }
    - { ends: [b, s], delay: 1 ms }
    - { ends: [c, s], delay: 1 ms }
    - { ends: [r, s], delay: 1 ms }
    - { ends: [x, r], delay: 1 ms }
programs:
  b: { on: b, run: python3 $DIR/lan.py hear join, ready: log ready }
  c: { on: c, run: python3 $DIR/lan.py hear, ready: log ready }
  x: { on: x, run: python3 $DIR/lan.py hear join, ready: log ready }
  a: { on: a, run: python3 $DIR/lan.py say b c x, after: [b, c, x] }
";

#[test]
fn groups_are_heard_on_a_segment_and_not_beyond() {
    let lab = Lab::new();
    let outcome = lab.succeed(SEGMENT);
    let heard = |program: &str| {
        let log = outcome.log(&format!("{program}.out"));
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    if outcome.physical_drops() > 0 {
        // What the machine lost may be what would have been heard.
        skip("run it again: the machine lost packets");
        return;
    }
    // A segment lowers no TTL: 64 of what goes to one host, 1 of what goes to a group.
    let everybody = "everybody 64";
    let joined = [
        "end 64",
        "end 64",
        everybody,
        "ff02::4c48 1",
        "ff05::4c48 1",
        "group4 1",
        "ready",
    ];
    assert_eq!(heard("b"), joined, "{outcome}");
    assert_eq!(heard("c"), ["end 64", "end 64", everybody, "ready"]);
    // Behind the router: one hop, and nothing for groups.
    assert_eq!(heard("x"), ["end 63", "end 63", "ready"]);
    // The router has taken one copy at least of each.
    assert!(outcome.dropped_by("absorbed") >= 4, "{outcome}");
}
