//! The supervisor's side of the control socket: callers, and their requests.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use longhaul_linux::channel::Channel;
use longhaul_linux::sandbox::{ProgramId, SandboxError, SpawnSpec};

use super::RunError;
use super::supervise::{Phase, Supervisor};
use crate::control::{Reply, Request, Status};
use crate::measure::CaptureId;

/// The most connections to the control socket at a time.
const CALLERS_MAX: usize = 64;
const SIGKILL: i32 = 9;

/// Somebody connected to the control socket.
pub(super) struct Caller {
    pub(super) channel: Channel,
    /// The program that it has started with `exec`, while it runs.
    pub(super) program: Option<ProgramId>,
    /// The capture that it has begun.
    pub(super) capture: Option<CaptureId>,
}

impl Supervisor<'_> {
    /// Accepts callers, up to [`CALLERS_MAX`].
    pub(super) fn accept(&mut self) {
        while let Ok(Some(channel)) = self.listener.accept() {
            if self.callers.len() < CALLERS_MAX {
                self.callers.push(Caller {
                    channel,
                    program: None,
                    capture: None,
                });
            } else {
                let reply = Reply::Error(
                    "the run has too many connections to its control socket; close one first"
                        .to_owned(),
                );
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

    /// Answers a caller; one that does not take its answers is hung up on, so that it holds up
    /// nobody.
    fn answer(&mut self, index: usize, reply: &Reply) -> Result<(), RunError> {
        match self.callers[index].channel.send(reply, &[]) {
            Ok(()) => Ok(()),
            Err(_) => self.hang_up(index),
        }
    }

    /// Forgets a caller; ends its capture and kills the program that it has started.
    fn hang_up(&mut self, index: usize) -> Result<(), RunError> {
        let _ = self.ask_for_end(index);
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
                time_s: self.core.now().time.as_s(),
                verdict: self.judge.state().name().to_owned(),
                hosts: self
                    .plan
                    .hosts
                    .iter()
                    .map(|host| host.name.clone())
                    .collect(),
            })),
            Request::Top { limit, by } => Ok(Reply::Top(Box::new(self.top(by, limit)))),
            Request::Hosts {} => Ok(Reply::Hosts(self.hosts_now())),
            Request::Set { link, values } => Ok(self.set(&link, &values)?),
            Request::Down {
                link,
                router,
                keep_queue,
            } => Ok(self.switch([link, router], false, keep_queue)?),
            Request::Up { link, router } => Ok(self.switch([link, router], true, false)?),
            Request::Get { link } => Ok(self.get(&link)),
            Request::Capture(request) => Ok(self.begin_capture(index, &request, fds)),
            Request::EndCapture {} => Ok(self.end_capture(index)),
            Request::Exec {
                host,
                argv,
                env,
                cwd,
                as_root,
            } => {
                let number = match self.plan.find_host(&host) {
                    Ok(number) => number,
                    Err(error) => return Ok(Reply::Error(error.to_string())),
                };
                let host = self.plan.hosts[number].name.clone();
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
                self.exec(index, &spec, fds)
            }
        }
    }

    /// Starts a program for a caller.
    fn exec(&mut self, index: usize, spec: &SpawnSpec, fds: &[OwnedFd]) -> Result<Reply, RunError> {
        if self.phase != Phase::Running || self.callers[index].program.is_some() {
            return Ok(Reply::Error("too late: the run is stopping".to_owned()));
        }
        let streams: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let Ok(streams) = <[BorrowedFd<'_>; 3]>::try_from(streams) else {
            return Ok(Reply::Error(
                "exec needs three file descriptors: standard input, output and error".to_owned(),
            ));
        };
        match self.sandbox.spawn(spec, streams) {
            Ok(id) => {
                self.callers[index].program = Some(id);
                Ok(Reply::Started {})
            }
            Err(SandboxError::Setup(reason)) => Ok(Reply::Error(reason)),
            Err(error) => Err(error.into()),
        }
    }
}
