//! The supervisor's side of the control socket: who calls, and what is done for them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::topology::{NodeKind, PipeId};
use longhaul_linux::channel::Channel;
use longhaul_linux::sandbox::{ProgramId, SandboxError, SpawnSpec};

use super::RunError;
use super::supervise::{Phase, Supervisor, card};
use crate::control::{self, Reply, Request, Status};
use crate::drive::Command;
use crate::nic::Limit;

/// The most connections to the control socket at a time.
const CALLERS_MAX: usize = 64;
/// How long the drive loop may take to answer a command.
const ANSWER: Duration = Duration::from_secs(1);
const SIGKILL: i32 = 9;

/// Somebody connected to the control socket.
pub(super) struct Caller {
    pub(super) channel: Channel,
    /// The program that it has started with `exec`, while it runs.
    pub(super) program: Option<ProgramId>,
}

impl Supervisor<'_> {
    /// Takes callers in, as many as there is room for.
    pub(super) fn accept(&mut self) {
        while let Ok(Some(channel)) = self.listener.accept() {
            if self.callers.len() < CALLERS_MAX {
                self.callers.push(Caller {
                    channel,
                    program: None,
                });
            } else {
                let reply = Reply::Error("the run has too many callers".to_owned());
                let _ = channel.send(&reply, &[]);
            }
        }
    }

    /// Serves one request of a caller.
    pub(super) fn serve(&mut self, index: usize) -> Result<(), RunError> {
        let message = self.callers[index].channel.receive::<Request>();
        let (request, fds) = match message {
            Ok(Some(message)) => message,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Other => {
                let reply = Reply::Error(format!("not a request: {error}"));
                return self.answer(index, &reply);
            }
            Ok(None) | Err(_) => return self.hang_up(index),
        };
        let reply = self.reply_to(index, request, &fds)?;
        self.answer(index, &reply)
    }

    /// A caller that does not take its answers is none.
    fn answer(&mut self, index: usize, reply: &Reply) -> Result<(), RunError> {
        match self.callers[index].channel.send(reply, &[]) {
            Ok(()) => Ok(()),
            Err(_) => self.hang_up(index),
        }
    }

    /// Forgets a caller, and ends the program that it has started.
    fn hang_up(&mut self, index: usize) -> Result<(), RunError> {
        let caller = self.callers.swap_remove(index);
        if let Some(id) = caller.program {
            self.sandbox.signal(id, SIGKILL)?;
        }
        Ok(())
    }

    fn reply_to(
        &mut self,
        index: usize,
        request: Request,
        fds: &[OwnedFd],
    ) -> Result<Reply, RunError> {
        match request {
            Request::Status {} => Ok(Reply::Status(Status {
                run: self.folder.path().to_owned(),
                experiment: self.plan.name.clone(),
                time_s: self.core.now().as_s(),
                verdict: self.judge.state().name().to_owned(),
                hosts: self
                    .plan
                    .hosts
                    .iter()
                    .map(|host| host.name.clone())
                    .collect(),
            })),
            Request::Set { link, values } => Ok(self.set(&link, &values)?),
            Request::Exec {
                host,
                argv,
                env,
                cwd,
                as_root,
            } => {
                let Some(number) = self.plan.hosts.iter().position(|h| h.name == host) else {
                    let names: Vec<&str> =
                        self.plan.hosts.iter().map(|h| h.name.as_str()).collect();
                    let topology = &self.plan.topology;
                    let problem = match topology.find(&host).map(|n| topology.node(n).kind) {
                        Some(NodeKind::Lan) => {
                            format!("`{host}` is a lan, and lans run no programs")
                        }
                        Some(_) => format!("`{host}` is a router, and routers run no programs"),
                        None => format!("there is no host `{host}`"),
                    };
                    return Ok(Reply::Error(format!(
                        "{problem}; the hosts are {}",
                        listed(&names)
                    )));
                };
                if self.phase != Phase::Running || self.callers[index].program.is_some() {
                    return Ok(Reply::Error(
                        "not now: the run is being wound up".to_owned(),
                    ));
                }
                let mut all = self.env.clone();
                all.push(("LONGHAUL_HOST".to_owned(), host.clone()));
                all.retain(|(key, _)| env.iter().all(|(other, _)| other != key));
                all.extend(env);
                let cwd = cwd.map_or(self.folder.host(&host), |cwd| self.experiment_dir.join(cwd));
                let spec = SpawnSpec {
                    host: number,
                    argv,
                    env: all,
                    cwd,
                    as_root,
                };
                let streams: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                let Ok(streams) = <[BorrowedFd<'_>; 3]>::try_from(streams) else {
                    return Ok(Reply::Error("exec needs three descriptors".to_owned()));
                };
                match self.sandbox.spawn(&spec, streams) {
                    Ok(id) => {
                        self.callers[index].program = Some(id);
                        Ok(Reply::Started {})
                    }
                    Err(SandboxError::Setup(reason)) => Ok(Reply::Error(reason)),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Changes a link or pipe, and the shaper of a host whose network card it is.
    fn set(
        &mut self,
        link: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<Reply, SandboxError> {
        let pipes = self.plan.topology.find_pipes(link);
        if pipes.is_empty() {
            let mut names: Vec<&str> = self
                .plan
                .topology
                .pipes()
                .iter()
                .map(|pipe| pipe.link.as_str())
                .collect();
            names.sort_unstable();
            names.dedup();
            return Ok(Reply::Error(format!(
                "there is no link or pipe `{link}`; the links are {}",
                listed(&names)
            )));
        }
        let now = |pipe: PipeId| {
            let planned = &self.plan.topology.pipe(pipe).params;
            self.params.get(&pipe).unwrap_or(planned)
        };
        let changes: Result<Vec<_>, String> = pipes
            .iter()
            .map(|&pipe| Ok((pipe, control::changed(now(pipe), values)?)))
            .collect();
        let changes = match changes {
            Ok(changes) => changes,
            Err(reason) => return Ok(Reply::Error(reason)),
        };
        let mut answers = Vec::new();
        for (pipe, params) in changes {
            let (done, answer) = sync_channel(1);
            let card_before = self.cards.get(&pipe).map(|&host| (host, self.card(host)));
            self.params.insert(pipe, params.clone());
            self.core.command(Command::Set { pipe, params, done });
            answers.push(answer);
            if let Some((host, before)) = card_before
                && let Err(SandboxError::Setup(reason)) = self.reshape(host, before)
            {
                return Ok(Reply::Error(reason));
            }
        }
        let mut at = Time::ZERO;
        for answer in answers {
            match answer.recv_timeout(ANSWER) {
                Ok(time) => at = at.max(time),
                Err(_) => return Ok(Reply::Error("the core does not answer".to_owned())),
            }
        }
        let pipes = pipes
            .iter()
            .map(|&pipe| self.plan.topology.pipe(pipe).name.clone())
            .collect();
        Ok(Reply::Set {
            pipes,
            at_s: at.as_s(),
        })
    }

    /// What limits the network card of a host now.
    fn card(&self, host: usize) -> Limit {
        card(self.plan, host, &self.params)
    }

    /// Changes the shaper of a host whose card was limited otherwise `before`.
    fn reshape(&mut self, host: usize, before: Limit) -> Result<(), SandboxError> {
        let now = self.card(host);
        if now == before {
            return Ok(());
        }
        let shaper = match now {
            Limit::Link(shaper) => {
                self.governor.remove(host);
                shaper
            }
            Limit::Machine => {
                let arrived = self.core.load.arrived(host);
                self.governor.add(host, self.plan.hosts[host].mtu, arrived)
            }
        };
        self.sandbox.set_shaper(host, shaper)
    }
}

/// Names for a message, the first of them where there are many.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 {
        format!("{shown} and {more} more")
    } else {
        shown
    }
}
