//! What a run's last whole second was like, for whoever watches it.

use longhaul_core::observe::PipeCounters;

use super::supervise::Supervisor;
use crate::control::{PipeLoad, SecondNow, Top};
use crate::run::ledger::Report;
use crate::summary::PipeCounts;

/// The most pipes that an answer tells of.
const PIPES_MAX: usize = 1000;

impl Supervisor<'_> {
    /// Packets delivered in the last second.
    pub(super) fn delivered(&self) -> u64 {
        let delivered =
            |report: &Option<Report>| report.as_ref().map_or(0, |r| r.network.counters.delivered);
        delivered(&self.latest).saturating_sub(delivered(&self.before))
    }

    /// The last second, and its busiest pipes.
    pub(super) fn top(&self, pipes: usize) -> Top {
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
            pipes: self.busiest(pipes.min(PIPES_MAX)),
        }
    }

    /// The pipes with the most bytes in the last second, of those that had any packet.
    fn busiest(&self, most: usize) -> Vec<PipeLoad> {
        let Some(report) = &self.latest else {
            return Vec::new();
        };
        let none = PipeCounters::default();
        let pipes = report.network.pipes.iter().enumerate().map(|(index, now)| {
            let before = self
                .before
                .as_ref()
                .and_then(|r| r.network.pipes.get(index));
            (index, now, before.unwrap_or(&none))
        });
        let mut busy: Vec<_> = pipes.filter(|(_, now, before)| now != before).collect();
        let bytes = |now: &PipeCounters, before: &PipeCounters| now.bytes - before.bytes;
        busy.sort_by_key(|(index, now, before)| (u64::MAX - bytes(now, before), *index));
        busy.truncate(most);
        let load = |(index, now, before): (usize, &PipeCounters, &PipeCounters)| {
            let pipe = &self.plan.topology.pipes()[index];
            let drops = |counters| PipeCounts::from(counters).drops;
            PipeLoad {
                name: pipe.name.clone(),
                packets: now.packets - before.packets,
                bytes: bytes(now, before),
                utilisation: pipe
                    .params
                    .rate
                    .map(|_| (now.busy_ns - before.busy_ns) as f64 / 1e9),
                drops: drops(now) - drops(before),
            }
        };
        busy.into_iter().map(load).collect()
    }
}
