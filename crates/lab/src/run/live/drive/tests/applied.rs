//! Changes are reported, however late the listener takes them.

use std::sync::mpsc::sync_channel;

use longhaul_core::{PipeId, Span, Time};
use longhaul_emulation::Known;

use super::every_ms;
use super::harness::Setup;
use crate::run::live::drive::Command;

#[test]
fn changes_are_reported_to_a_listener_at_the_end() {
    let events = "
routing: { convergence: 100 ms }
events:
  - { at: 1 s, link: a-g, down: 500 ms }
  - { at: 2 s, link: c-g, set: { delay: 9 ms } }
  - { at: 3 s, link: b-g, down: true }
";
    let setup = Setup {
        plan: Setup::plan(events),
        ..Setup::new(every_ms(4), Span::from_s(5))
    };
    let topology = setup.plan.topology.clone();
    let run = setup.run();
    // One found room; all that came later waited together.
    assert_eq!(run.applied.len(), 2);
    let begun: Vec<_> = run
        .applied
        .iter()
        .flat_map(|applied| applied.begun.clone())
        .collect();
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    assert_eq!(begun, [(at(1000), 0), (at(2000), 1), (at(3000), 2)]);
    let mut known = Known::default();
    run.applied
        .into_iter()
        .for_each(|applied| known.take(applied));
    let pipes = topology.pipes().iter().zip(0..);
    for (pipe, number) in pipes {
        let id = PipeId(number);
        assert_eq!(known.is_up(id), pipe.link != "b-g", "{}", pipe.name);
        let delay = match pipe.link.as_str() {
            "c-g" => Span::from_ms(9),
            _ => pipe.params.delay,
        };
        assert_eq!(known.params(&topology, id).delay, delay, "{}", pipe.name);
    }
    assert_eq!(known.rerouted(), Some(at(3100)));
}

#[test]
fn what_a_caller_switches_is_reported() {
    let plan = Setup::plan("");
    let pipes = plan.find_pipes("a-g").expect("a link");
    let (done, answer) = sync_channel(1);
    let (again, nothing) = sync_channel(1);
    let down = |pipes: &[PipeId], done| Command::Switch {
        pipes: pipes.to_vec(),
        up: false,
        keep_queue: false,
        done,
    };
    let asked = vec![down(&pipes, done), down(&pipes, again)];
    let setup = Setup {
        asked,
        ..Setup::new(every_ms(1), Span::from_s(2))
    };
    let run = setup.run();
    let (_, changed) = answer.try_recv().expect("an answer");
    assert_eq!((changed, pipes.len()), (pipes.clone(), 2));
    let (_, changed) = nothing.try_recv().expect("an answer");
    assert_eq!(changed, []);
    // Routes follow a second later.
    let first = &run.applied[0];
    assert!(pipes.iter().all(|pipe| !first.up[pipe]) && first.rerouted.is_none());
    assert!(run.applied[1].up.is_empty() && run.applied[1].rerouted.is_some());
    assert_eq!(run.delivered, 0);
}
