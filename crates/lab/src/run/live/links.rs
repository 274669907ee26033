//! Changes of links while the run is under way: by callers' requests, and by the file's schedule.
//!
//! The drive loop changes the links and reports it; the supervisor follows, because only it can
//! change hosts' shapers, which have the rates of their links.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use longhaul_core::params::{ParamError, PipeParams};
use longhaul_core::topology::PipeId;
use longhaul_emulation::{Applied, PipeState};
use longhaul_linux::sandbox::SandboxError;
use serde_json::Value;

use super::govern::{lengths, seen};
use super::supervise::Supervisor;
use crate::control::{PipeNow, Reply};
use crate::run::live::bottleneck::{self, Bottleneck};
use crate::run::live::drive::Command;
use crate::summary::PipeCounts;
use longhaul_plan::{assign, described};

/// How long the drive loop may take to answer a command.
const ANSWER: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    /// Changes a link, and the shapers of hosts whose NIC it is.
    pub(super) fn set(
        &mut self,
        link: &str,
        values: &BTreeMap<String, Value>,
    ) -> Result<Reply, SandboxError> {
        let pipes = match self.find(link) {
            Ok(pipes) => pipes,
            Err(refusal) => return Ok(refusal),
        };
        self.follow_calmly()?;
        let patch = match self.read(&pipes, values) {
            Ok(patch) => Arc::new(patch),
            Err(reason) => return Ok(Reply::Error(reason)),
        };
        let (done, answer) = sync_channel(1);
        self.core.command(Command::Set {
            pipes: pipes.clone(),
            patch,
            done,
        });
        let Some(at) = wait(&answer) else {
            return Ok(silence());
        };
        match self.follow() {
            Ok(()) => {}
            Err(SandboxError::Setup(reason)) => return Ok(Reply::Error(reason)),
            Err(error) => return Err(error),
        }
        Ok(Reply::Set {
            pipes: self.names(&pipes),
            at_s: at.as_s(),
        })
    }

    /// The patch that `values` make, if it is possible for all `pipes`.
    fn read(
        &self,
        pipes: &[PipeId],
        values: &BTreeMap<String, Value>,
    ) -> Result<longhaul_plan::patch::Patch, String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let values = values.iter().map(|(key, value)| (key.clone(), text(value)));
        let values: Vec<(String, String)> = values.collect();
        let present: Vec<PipeParams> = pipes.iter().map(|pipe| self.present(*pipe)).collect();
        let framing = present
            .first()
            .map(|params| params.framing)
            .unwrap_or_default();
        let (folder, elements) = (&self.experiment_dir, &self.plan.elements);
        let patch = assign::patch(&values, framing, folder, elements);
        let patch = patch.map_err(|errors| errors.to_string())?;
        for params in &present {
            let changed = patch.apply(params).validate();
            changed.map_err(|ParamError { problem, remedy }| format!("{problem}: {remedy}"))?;
        }
        Ok(patch)
    }

    /// Takes a link or router down, or brings it up.
    pub(super) fn switch(
        &mut self,
        [link, router]: [Option<String>; 2],
        up: bool,
        keep_queue: bool,
    ) -> Result<Reply, SandboxError> {
        let found = match (link, router) {
            (Some(link), None) => self.find(&link),
            (None, Some(router)) => self.find_routers(&router),
            _ => Err(Reply::Error(
                "name a link or a router, one of the two".to_owned(),
            )),
        };
        let pipes = match found {
            Ok(pipes) => pipes,
            Err(refusal) => return Ok(refusal),
        };
        let (done, answer) = sync_channel(1);
        self.core.command(Command::Switch {
            pipes,
            up,
            keep_queue,
            done,
        });
        let Some((at, pipes)) = wait(&answer) else {
            return Ok(silence());
        };
        self.follow_calmly()?;
        let (pipes, at_s) = (self.names(&pipes), at.as_s());
        Ok(if up {
            Reply::Up { pipes, at_s }
        } else {
            Reply::Down { pipes, at_s }
        })
    }

    /// What a link is like at present.
    pub(super) fn get(&self, link: &str) -> Reply {
        let pipes = match self.find(link) {
            Ok(pipes) => pipes,
            Err(refusal) => return refusal,
        };
        let (done, answer) = sync_channel(1);
        self.core.command(Command::ReadState { pipes, done });
        match wait(&answer) {
            Some((at, states)) => Reply::Get {
                pipes: states.iter().map(|state| self.shown(state)).collect(),
                at_s: at.as_s(),
            },
            None => silence(),
        }
    }

    /// How many bytes wait in pipes' queues, if the loop answers.
    pub(super) fn backlogs(&self, pipes: Vec<PipeId>) -> Option<Vec<u64>> {
        if pipes.is_empty() {
            return Some(Vec::new());
        }
        let (done, answer) = sync_channel(1);
        self.core.command(Command::ReadState { pipes, done });
        let (_, states) = wait(&answer)?;
        Some(states.iter().map(|state| state.waiting.1).collect())
    }

    fn shown(&self, state: &PipeState) -> PipeNow {
        let pipe = self.plan.topology.pipe(state.pipe);
        let params = described::unusual(&state.params).into_iter();
        PipeNow {
            name: pipe.name.clone(),
            link: pipe.link.clone(),
            up: state.up,
            rate_bps: state.params.rate.map(|rate| rate.bits_per_s()),
            delay_ns: state.params.delay.as_ns(),
            loss: state.params.loss.mean(),
            params: params
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            waiting_packets: state.waiting.0,
            waiting_bytes: state.waiting.1,
            counters: PipeCounts::from(&state.counters),
        }
    }

    /// The pipes of a name or set, or why there are none.
    fn find(&self, link: &str) -> Result<Vec<PipeId>, Reply> {
        let found = self.plan.find_pipes(link);
        found.map_err(|error| Reply::Error(error.to_string()))
    }

    fn find_routers(&self, router: &str) -> Result<Vec<PipeId>, Reply> {
        let found = self.plan.pipes_of_routers(router);
        found.map_err(|error| Reply::Error(error.to_string()))
    }

    pub(super) fn names(&self, pipes: &[PipeId]) -> Vec<String> {
        let name = |pipe: &PipeId| self.plan.topology.pipe(*pipe).name.clone();
        pipes.iter().map(name).collect()
    }

    /// The parameters of a pipe, as far as the loop has reported.
    fn present(&self, pipe: PipeId) -> PipeParams {
        self.known.params(&self.plan.topology, pipe).clone()
    }

    /// Takes note of the changes that the loop has made, and lets shapers follow.
    pub(super) fn follow(&mut self) -> Result<(), SandboxError> {
        let mut before = HashMap::new();
        while let Ok(applied) = self.core.applied.try_recv() {
            for (host, bottleneck) in self.bottlenecks(applied.params.keys().copied()) {
                before.entry(host).or_insert(bottleneck);
            }
            self.take_applied(applied);
        }
        self.reshape(before)
    }

    /// The same, except that a host that has died is not a failure: an event of its own reports it.
    pub(super) fn follow_calmly(&mut self) -> Result<(), SandboxError> {
        match self.follow() {
            Err(SandboxError::Setup(_)) => Ok(()),
            followed => followed,
        }
    }

    pub(super) fn take_applied(&mut self, applied: Applied) {
        self.ledger.note(&applied);
        self.known.take(applied);
    }

    /// The bottlenecks of the hosts that these pipes leave.
    fn bottlenecks(&self, pipes: impl Iterator<Item = PipeId>) -> HashMap<usize, Bottleneck> {
        let hosts = pipes.filter_map(|pipe| self.host_of_nic.get(&pipe).copied());
        hosts.map(|host| (host, self.bottleneck(host))).collect()
    }

    /// The bottleneck of a host now.
    fn bottleneck(&self, host: usize) -> Bottleneck {
        bottleneck::of_host(self.plan, &self.plan.hosts[host], &self.known, self.offload)
    }

    /// Changes the shapers of hosts whose bottleneck is no longer the one in `before`.
    fn reshape(&mut self, before: HashMap<usize, Bottleneck>) -> Result<(), SandboxError> {
        for (host, before) in before {
            let now = self.bottleneck(host);
            if now == before {
                continue;
            }
            let lengths = lengths(self.plan, host, self.offload);
            let seen = seen(&self.core.load, self.core.pace, host);
            let shaper = self.backpressure.follow(host, now, lengths, seen);
            self.sandbox.set_shaper(host, shaper)?;
        }
        Ok(())
    }
}

fn wait<T>(answer: &Receiver<T>) -> Option<T> {
    answer.recv_timeout(ANSWER).ok()
}

/// The reply when the drive loop does not answer.
fn silence() -> Reply {
    Reply::Error("the core did not answer in time: is this machine overloaded?".to_owned())
}
