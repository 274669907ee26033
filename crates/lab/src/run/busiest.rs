//! The busiest pipes of a run under way, by what the caller asks for.
//!
//! Measuring a queue's backlog means walking the queue, at the expense of the loop that drives it. So the backlog
//! of a bounded number of pipes is measured: of the first in the requested order, or, for the order by backlog, of
//! those with the highest utilisation, since a queue grows where a pipe is always sending. A pipe that is down
//! has a backlog without sending, and may be missed there.

use std::cmp::Reverse;

use longhaul_core::PipeId;
use longhaul_plan::plan::Plan;

use crate::control::{Order, PipeLoad};

/// The most pipes of an answer.
const PIPES_MAX: usize = 1000;

/// What a pipe has done over a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) pipe: PipeId,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) drops: u64,
    /// The part of the time that it spent sending.
    pub(super) busy: f64,
    /// Its rate at present.
    pub(super) rate_bps: Option<u64>,
}

impl Work {
    fn utilisation(&self) -> Option<f64> {
        self.rate_bps.map(|_| self.busy)
    }
}

/// The first `limit` pipes in an order. `backlogs` reports how many bytes wait in at most `candidates`
/// pipes, if it can.
pub(super) fn busiest(
    plan: &Plan,
    mut list: Vec<Work>,
    (by, limit): (Order, usize),
    candidates: usize,
    backlogs: impl FnOnce(Vec<PipeId>) -> Option<Vec<u64>>,
) -> Vec<PipeLoad> {
    let limit = limit.min(PIPES_MAX);
    let used = |work: &Work| work.utilisation().unwrap_or(0.0);
    let by_bytes = |work: &Work| (Reverse(work.bytes), work.pipe);
    match by {
        Order::Rate => list.sort_by_key(by_bytes),
        Order::Drops => list.sort_by_key(|work| (Reverse(work.drops), by_bytes(work))),
        Order::Utilisation | Order::Backlog => list.sort_by(|a, b| {
            let order = used(b).total_cmp(&used(a));
            order.then_with(|| by_bytes(a).cmp(&by_bytes(b)))
        }),
    }
    list.truncate(match by {
        Order::Backlog => limit.max(candidates),
        _ => limit,
    });
    let candidates = list.iter().take(candidates).map(|work| work.pipe).collect();
    let known = backlogs(candidates).unwrap_or_default().into_iter();
    let known = known.map(Some).chain(std::iter::repeat(None));
    let mut list: Vec<(Work, Option<u64>)> = list.into_iter().zip(known).collect();
    if by == Order::Backlog {
        // Stable: equal ones stay in the order of their utilisation, unknown ones come last.
        list.sort_by_key(|(_, backlog)| Reverse(*backlog));
        list.truncate(limit);
    }
    let load = |(work, backlog_bytes): (Work, Option<u64>)| PipeLoad {
        name: plan.topology.pipe(work.pipe).name.clone(),
        packets: work.packets,
        bytes: work.bytes,
        utilisation: work.utilisation(),
        drops: work.drops,
        rate_bps: work.rate_bps,
        backlog_bytes,
    };
    list.into_iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = "topology:\n  nodes: { a: {}, b: {}, r: { kind: router } }\n  links:\n    \
            - { ends: [a, r], rate: 1 Mbit/s }\n    - { ends: [r, b], rate: 1 Mbit/s }\n\
            programs: { p: { on: a, run: 'true' } }\n";
        Plan::from_text(text, "pipes.yaml").expect("a valid file")
    }

    #[test]
    fn pipes_come_in_the_order_that_is_asked_for() {
        let plan = plan();
        // Of four pipes one carries most, one drops most, one sends all the time, one has the longest queue.
        let rows = [(900, 0, 0.1), (10, 9, 0.2), (20, 1, 1.0), (30, 0, 0.9)];
        let waits = [1, 2, 3, 4];
        let list = || {
            let work = |(pipe, (bytes, drops, busy)): (u32, (u64, u64, f64))| Work {
                pipe: PipeId(pipe),
                packets: 1,
                bytes,
                drops,
                busy,
                rate_bps: (pipe != 0).then_some(8),
            };
            (0..).zip(rows).map(work).collect::<Vec<_>>()
        };
        let names = |by, limit, candidates| {
            let mut asked = 0;
            let found = busiest(&plan, list(), (by, limit), candidates, |pipes| {
                asked = pipes.len();
                Some(pipes.iter().map(|pipe| waits[pipe.index()]).collect())
            });
            assert!(asked <= candidates);
            let number = |load: &PipeLoad| {
                let pipes = plan.topology.pipes();
                pipes
                    .iter()
                    .position(|pipe| pipe.name == load.name)
                    .unwrap()
            };
            found
                .iter()
                .map(|load| (number(load), load.backlog_bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Order::Rate, 2, 9), [(0, Some(1)), (3, Some(4))]);
        assert_eq!(names(Order::Drops, 2, 9), [(1, Some(2)), (2, Some(3))]);
        assert_eq!(names(Order::Utilisation, 2, 1), [(2, Some(3)), (3, None)]);
        assert_eq!(names(Order::Backlog, 1, 9), [(3, Some(4))]);
        // Pipes whose backlog was not measured come last.
        assert_eq!(
            names(Order::Backlog, 3, 2),
            [(3, Some(4)), (2, Some(3)), (1, None)]
        );
        let silent = busiest(&plan, list(), (Order::Backlog, 9), 9, |_| None);
        assert!(silent.len() == 4 && silent.iter().all(|load| load.backlog_bytes.is_none()));
        assert_eq!(silent[0].rate_bps, Some(8));
        assert!(silent[3].utilisation.is_none() && silent[3].rate_bps.is_none());
    }
}
