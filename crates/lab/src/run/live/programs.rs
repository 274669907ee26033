//! The programs of an experiment: start order, readiness, time-outs, ends.
//!
//! A state machine per program, driven by the run's main thread: it starts programs whose
//! conditions are met, asks whether running ones are ready, ends those that have run too long, and
//! at the end of the run stops the others, first with SIGTERM, then with SIGKILL.
//!
//! Times of the experiment file (readiness, time-outs) are experiment time; the grace for ending is
//! machine time.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::MachineTime;
use longhaul_linux::sandbox::{Exit, INFO_SOCKET, ProgramId, Sandbox, SandboxError, SpawnSpec};

use crate::folder::RunFolder;
use crate::pace::Now;
use crate::run::live::logs::LogStream;
use longhaul_plan::plan::{Plan, ProgramPlan, Ready};

/// How long a program may take to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// The state of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for others.
    Waiting,
    /// It runs; `ready` says whether others may rely on it.
    Running {
        /// As the sandbox knows it.
        id: ProgramId,
        /// When it was started.
        since: Time,
        /// Whether it counts as ready.
        ready: bool,
        /// When SIGTERM was sent, if it was.
        stopping: Option<MachineTime>,
    },
    /// It has ended.
    Ended {
        /// How.
        exit: Exit,
        /// Whether it had been ready.
        was_ready: bool,
    },
    /// It could not be started, or never had a chance to.
    Failed(String),
}

/// Why a program was ended before its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The run was over.
    Run,
    /// Its own time-out.
    Timeout,
}

/// A program and its state.
#[derive(Debug)]
pub(crate) struct Program {
    plan: ProgramPlan,
    /// The name of its host.
    pub host: String,
    /// Its state.
    pub state: State,
    /// Who ended it, if not itself.
    pub ended_by: Option<EndedBy>,
    /// Why the kernel has ended it.
    killed_for: Option<String>,
    /// When it was started.
    pub started: Option<Time>,
    /// When it ended.
    pub finished: Option<Time>,
    /// CPU time of it and its children.
    pub cpu: Duration,
    output: Vec<LogStream>,
    matched: bool,
}

impl Program {
    /// Its name, `client` or `client@a0`.
    pub(crate) fn name(&self) -> &str {
        &self.plan.name
    }

    /// The number of its host.
    pub(crate) const fn host_number(&self) -> usize {
        self.plan.host
    }

    /// Whether it is stopped at the run's end as a matter of course.
    pub(crate) const fn is_service(&self) -> bool {
        self.plan.service
    }

    /// The code that a shell would show; `None` for one that never ran.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Ended { exit, .. } => Some(exit.code()),
            _ => None,
        }
    }

    /// Bytes of its logs that were thrown away.
    pub(crate) fn log_discarded(&self) -> u64 {
        self.output.iter().map(LogStream::discarded).sum()
    }

    /// What went wrong with it, in words; `None` where nothing did.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.ended_by == Some(EndedBy::Run) && self.plan.service {
            return None;
        }
        if let State::Failed(reason) = &self.state {
            return Some(reason.clone());
        }
        if let Some(why) = &self.killed_for {
            return Some(why.clone());
        }
        match (self.ended_by, &self.state) {
            (Some(EndedBy::Timeout), _) => Some("it ran longer than its `timeout`".to_owned()),
            (Some(EndedBy::Run), _) => {
                Some("it was still running at the end of the run".to_owned())
            }
            (
                None,
                State::Ended {
                    exit: Exit::Code(0),
                    ..
                },
            ) => None,
            (
                None,
                State::Ended {
                    exit: Exit::Code(code),
                    ..
                },
            ) => Some(format!("it exited with code {code}")),
            (
                None,
                State::Ended {
                    exit: Exit::Signal(signal),
                    ..
                },
            ) => Some(format!("it was killed by signal {signal}")),
            (None, _) => Some("it never ended".to_owned()),
        }
    }

    /// Copies its output into its logs and looks for its ready line.
    fn pump(&mut self) -> io::Result<()> {
        let pattern = match &self.plan.ready {
            Some(Ready::Log(pattern)) if !self.matched => Some(pattern),
            _ => None,
        };
        for stream in &mut self.output {
            self.matched |= stream.pump(pattern)?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        match &self.state {
            State::Running { ready, .. } => *ready,
            // A program without a readiness condition is ready once it has ended well.
            State::Ended { exit, was_ready } => {
                *was_ready || (self.plan.ready.is_none() && *exit == Exit::Code(0))
            }
            State::Waiting | State::Failed(_) => false,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Ended { .. } | State::Failed(_))
    }
}

/// All programs of a run.
#[derive(Debug)]
pub(crate) struct Programs {
    list: Vec<Program>,
    by_id: HashMap<ProgramId, usize>,
    env: Vec<(String, String)>,
    null: File,
    experiment_dir: PathBuf,
    /// The error of a log that could not be written, until it is taken.
    trouble: Option<io::Error>,
}

impl Programs {
    /// The programs of a plan, none started yet.
    pub(crate) fn new(plan: &Plan, folder: &RunFolder, experiment_dir: &Path) -> io::Result<Self> {
        let program = |program: &ProgramPlan| Program {
            plan: program.clone(),
            host: plan.hosts[program.host].name.clone(),
            state: State::Waiting,
            ended_by: None,
            killed_for: None,
            started: None,
            finished: None,
            cpu: Duration::ZERO,
            output: Vec::new(),
            matched: false,
        };
        Ok(Self {
            list: plan.programs.iter().map(program).collect(),
            by_id: HashMap::new(),
            env: run_environment(plan, folder, experiment_dir),
            null: File::open("/dev/null")?,
            experiment_dir: experiment_dir.to_owned(),
            trouble: None,
        })
    }

    /// All of them, in the order of the plan.
    pub(crate) fn list(&self) -> &[Program] {
        &self.list
    }

    /// How many have ended, and how many there are.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (
            self.list.iter().filter(|program| program.is_over()).count(),
            self.list.len(),
        )
    }

    /// Whether nothing but services is left.
    pub(crate) fn are_done(&self) -> bool {
        self.list
            .iter()
            .all(|program| program.is_over() || program.is_service())
    }

    /// The descriptors of all output that may still come.
    pub(crate) fn readiness(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.list
            .iter()
            .flat_map(|p| &p.output)
            .filter_map(LogStream::readiness)
    }

    /// Copies output into the logs.
    pub(crate) fn pump(&mut self) -> io::Result<()> {
        match self.trouble.take() {
            Some(error) => Err(error),
            None => self.list.iter_mut().try_for_each(Program::pump),
        }
    }

    /// Starts programs that may start, checks whether running ones are ready, ends those past their
    /// time-out.
    pub(crate) fn tick(
        &mut self,
        now: Now,
        sandbox: &mut Sandbox,
        folder: &RunFolder,
    ) -> Result<(), SandboxError> {
        for index in 0..self.list.len() {
            match self.list[index].state.clone() {
                State::Waiting => self.try_start(index, now.time, sandbox, folder)?,
                State::Running {
                    id,
                    since,
                    ready,
                    stopping,
                } => {
                    let running = now.time.since(since);
                    if !ready && self.became_ready(index, running, sandbox)? {
                        self.list[index].state = State::Running {
                            id,
                            since,
                            ready: true,
                            stopping,
                        };
                    }
                    let timeout = self.list[index].plan.timeout;
                    if stopping.is_none() && timeout.is_some_and(|t| running >= t) {
                        self.stop(index, EndedBy::Timeout, now.at, sandbox)?;
                    }
                    if stopping.is_some_and(|since| now.at.since(since) >= GRACE) {
                        sandbox.signal(id, SIGKILL)?;
                    }
                }
                State::Ended { .. } | State::Failed(_) => {}
            }
        }
        Ok(())
    }

    fn try_start(
        &mut self,
        index: usize,
        now: Time,
        sandbox: &mut Sandbox,
        folder: &RunFolder,
    ) -> Result<(), SandboxError> {
        let after = &self.list[index].plan.after;
        let hopeless = after.iter().find(|&&other| {
            let other = &self.list[other];
            other.is_over() && !other.is_ready()
        });
        if let Some(&other) = hopeless {
            let other = &self.list[other];
            let why = other
                .failure()
                .unwrap_or_else(|| "it ended before it was ready".to_owned());
            let reason = format!(
                "not started: `{}`, which it waits for, failed: {why}",
                other.name()
            );
            self.list[index].state = State::Failed(reason);
            return Ok(());
        }
        if !after.iter().all(|&other| self.list[other].is_ready()) {
            return Ok(());
        }
        match self.start(index, sandbox, folder) {
            Ok(id) => {
                self.by_id.insert(id, index);
                let ready = self.list[index].plan.ready.is_none() && self.list[index].is_service();
                let program = &mut self.list[index];
                program.started = Some(now);
                program.state = State::Running {
                    id,
                    since: now,
                    ready,
                    stopping: None,
                };
            }
            Err(SandboxError::Setup(reason)) => self.list[index].state = State::Failed(reason),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn start(
        &mut self,
        index: usize,
        sandbox: &mut Sandbox,
        folder: &RunFolder,
    ) -> Result<ProgramId, SandboxError> {
        let plan = &self.list[index].plan;
        let setup = |e: io::Error| SandboxError::Setup(format!("its log: {e}"));
        let (out, out_end) = LogStream::create(&folder.log(&plan.name, "out")).map_err(setup)?;
        let (err, err_end) = LogStream::create(&folder.log(&plan.name, "err")).map_err(setup)?;
        let cwd = match &plan.cwd {
            Some(cwd) => self.experiment_dir.join(cwd),
            None => folder.host(&self.list[index].host),
        };
        let host_env = [
            ("LONGHAUL_HOST", self.list[index].host.as_str()),
            ("LONGHAUL_PROGRAM", plan.name.as_str()),
        ];
        let mut env = self.env.clone();
        let more = host_env.map(|(key, value)| (key.to_owned(), value.to_owned()));
        for (key, value) in more.into_iter().chain(plan.env.iter().cloned()) {
            env.retain(|(other, _)| *other != key);
            env.push((key, value));
        }
        let spec = SpawnSpec {
            host: plan.host,
            argv: plan.argv.clone(),
            env,
            cwd,
            as_root: plan.as_root,
        };
        let id = sandbox.spawn(&spec, [self.null.as_fd(), out_end.as_fd(), err_end.as_fd()])?;
        self.list[index].output = vec![out, err];
        Ok(id)
    }

    fn became_ready(
        &self,
        index: usize,
        running: Span,
        sandbox: &mut Sandbox,
    ) -> Result<bool, SandboxError> {
        let program = &self.list[index];
        match &program.plan.ready {
            None => Ok(false),
            Some(Ready::Tcp(port)) => sandbox.listening(program.plan.host, *port),
            Some(Ready::Log(_)) => Ok(program.matched),
            Some(Ready::Delay(delay)) => Ok(running >= *delay),
        }
    }

    /// The host of a program that runs and is not being ended; none of any other process.
    pub(crate) fn host_of(&self, id: ProgramId) -> Option<usize> {
        let program = &self.list[*self.by_id.get(&id)?];
        program.ended_by.is_none().then_some(program.plan.host)
    }

    /// Why the kernel has ended a program.
    pub(crate) fn killed_for(&mut self, id: ProgramId, why: String) {
        if let Some(index) = self.by_id.get(&id) {
            self.list[*index].killed_for = Some(why);
        }
    }

    /// Takes note of an end; false when the process is not one of these programs.
    pub(crate) fn ended(&mut self, id: ProgramId, exit: Exit, cpu: Duration, now: Time) -> bool {
        let Some(index) = self.by_id.remove(&id) else {
            return false;
        };
        let program = &mut self.list[index];
        // Its last output is still in its pipes.
        if let Err(error) = program.pump() {
            self.trouble.get_or_insert(error);
        }
        let was_ready = program.is_ready() || program.matched;
        program.state = State::Ended { exit, was_ready };
        program.finished = Some(now);
        program.cpu = cpu;
        true
    }

    /// Begins to end everything that still runs, and nothing more is started.
    pub(crate) fn stop_all(
        &mut self,
        now: MachineTime,
        sandbox: &mut Sandbox,
    ) -> Result<(), SandboxError> {
        for index in 0..self.list.len() {
            match self.list[index].state {
                State::Waiting => {
                    let reason = "not started: the run ended first".to_owned();
                    self.list[index].state = State::Failed(reason);
                    self.list[index].ended_by = Some(EndedBy::Run);
                }
                State::Running { stopping: None, .. } => {
                    self.stop(index, EndedBy::Run, now, sandbox)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn stop(
        &mut self,
        index: usize,
        by: EndedBy,
        now: MachineTime,
        sandbox: &mut Sandbox,
    ) -> Result<(), SandboxError> {
        let program = &mut self.list[index];
        if let State::Running { id, stopping, .. } = &mut program.state {
            *stopping = Some(now);
            program.ended_by = Some(by);
            sandbox.signal(*id, SIGTERM)?;
        }
        Ok(())
    }

    /// Whether anything still runs.
    pub(crate) fn any_running(&self) -> bool {
        self.list
            .iter()
            .any(|program| matches!(program.state, State::Running { .. }))
    }
}

/// What every program finds in its environment: the caller's, and the run.
pub(crate) fn run_environment(
    plan: &Plan,
    folder: &RunFolder,
    experiment_dir: &Path,
) -> Vec<(String, String)> {
    let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    let path = |path: &Path| path.display().to_string();
    let ours = [
        ("LONGHAUL_EXPERIMENT", plan.name.clone()),
        ("LONGHAUL_SEED", plan.seed.to_string()),
        ("LONGHAUL_RUN", path(folder.path())),
        ("LONGHAUL_DIR", path(experiment_dir)),
        ("LONGHAUL_HOSTS", hosts.join(" ")),
        ("LONGHAUL_HOSTFILE", path(&folder.hostfile())),
        ("LONGHAUL_INFO", INFO_SOCKET.to_owned()),
    ];
    let inherited = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| !key.starts_with("LONGHAUL_"));
    inherited
        .chain(ours.map(|(key, value)| (key.to_owned(), value)))
        .collect()
}
