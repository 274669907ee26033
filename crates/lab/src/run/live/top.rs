//! The last whole second of a run, for `longhaul top`.

use longhaul_core::PipeId;
use longhaul_core::observe::PipeCounters;

use super::supervise::Supervisor;
use crate::control::{Order, PipeLoad, SecondNow, Top};
use crate::run::busiest::{Work, busiest};
use crate::run::ledger::Report;
use crate::summary::PipeCounts;

/// The most pipes whose queues the loop inspects for an answer: with 1000 packets in each, that takes less
/// than a millisecond.
const BACKLOGS_MAX: usize = 32;

impl Supervisor<'_> {
    /// Packets delivered in the last second.
    pub(super) fn delivered(&self) -> u64 {
        let delivered =
            |report: &Option<Report>| report.as_ref().map_or(0, |r| r.network.counters.delivered);
        delivered(&self.latest).saturating_sub(delivered(&self.before))
    }

    /// The last second, and its busiest pipes.
    pub(super) fn top(&self, by: Order, limit: usize) -> Top {
        let second = self.latest.as_ref().map(|report| {
            let second = &report.second;
            SecondNow {
                number: second.number,
                packets: self.delivered(),
                late: second.shares.late,
                lateness_ns: second.lateness,
                physical_drops: second.drops,
                inside: report.network.inside,
                core_load: second.core_load,
                headroom: second.headroom(),
                core_busy: second.core_busy,
            }
        });
        Top {
            experiment: self.plan.name.clone(),
            time_s: self.core.now().time.as_s(),
            duration_s: self.plan.duration.map(|duration| duration.as_s()),
            verdict: self.judge.state().name().to_owned(),
            reasons: self.judge.reasons_so_far(),
            second,
            simulation: None,
            pipes: self.busiest(by, limit),
        }
    }

    /// The busiest pipes in the last second, of those that had any packet.
    fn busiest(&self, by: Order, limit: usize) -> Vec<PipeLoad> {
        let Some(report) = &self.latest else {
            return Vec::new();
        };
        let none = PipeCounters::default();
        let pipes = (0..).map(PipeId).zip(&report.network.pipes);
        let pipes = pipes.map(|(pipe, now)| {
            let before = self.before.as_ref();
            let before = before.and_then(|r| r.network.pipes.get(pipe.index()));
            (pipe, now, before.unwrap_or(&none))
        });
        let busy = pipes.filter(|(_, now, before)| now != before);
        let drops = |counters: &PipeCounters| PipeCounts::from(counters).drops;
        let work = busy.map(|(pipe, now, before)| Work {
            pipe,
            packets: now.packets - before.packets,
            bytes: now.bytes - before.bytes,
            drops: drops(now) - drops(before),
            busy: (now.busy_ns - before.busy_ns) as f64 / 1e9,
            rate_bps: {
                let params = self.known.changed(pipe);
                let params = params.unwrap_or(&self.plan.topology.pipe(pipe).params);
                params.rate.map(|rate| rate.bits_per_s())
            },
        });
        let backlogs = |pipes| self.backlogs(pipes);
        busiest(
            self.plan,
            work.collect(),
            (by, limit),
            BACKLOGS_MAX,
            backlogs,
        )
    }
}
