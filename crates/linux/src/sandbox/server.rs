//! The sandbox's own process: makes hosts and cables, starts programs, reaps, counts.
//!
//! One thread, one loop, process 1 of its PID namespace. It holds no state that results need,
//! because everything in it ends when it or its parent dies.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, Rlimit, Signal, kill_process, kill_process_group, setsid};
use rustix::thread::set_name;

use super::boot::{InitContext, Sysctl};
use super::dump::{HostDiag, Round};
use super::service::{Answers, Service};
use super::usage::Tasks;
use super::warden::{self, Killing, Warden};
use super::{
    Answer, Event, Exit, HostConfig, HostCounters, HostUsage, ProgramId, Request, SandboxConfig,
    Shaper, Traffic, Usage,
};
use super::{boot, launch, steering, usage};
use crate::channel::Channel;
use crate::cpu;
use crate::netlink::{self, Netlink, VethPair};
use crate::packet_io;
use crate::sys::{self, Fork};

/// The interface group of all cables, so that one request deletes them.
const CABLES: u32 = 0x4c48;
/// Turns merging off: no two segments together are shorter than this (`skb_gro_receive`).
const GRO_MAX_SIZE: u32 = 1;

/// Why a host is not there: somebody has killed its init.
const DIED: &str = "its init process died during boot";

/// The sandbox's main function. Never returns: the process ends here.
pub(super) fn main<A: Answers>(channel: Channel, uid: u32, gid: u32, answers: Option<A>) -> ! {
    set_name(c"longhaul-box").ok();
    // Away from the terminal: Ctrl-C is for the run, which ends us in good order.
    setsid().ok();
    sys::reset_signals();
    let code = match serve(&channel, uid, gid, answers) {
        Ok(()) => 0,
        Err(error) => {
            let _ = channel.send(&Answer::Failed(error), &[]);
            1
        }
    };
    sys::exit_now(code)
}

/// A host as the sandbox knows it.
pub(super) struct Host {
    /// Its init. We are its parent, so nothing else gets its number until we reap it.
    pub(super) pid: i32,
    pub(super) alive: bool,
    /// As it was made, but for `offload`: whether it hands over super-packets now.
    pub(super) config: HostConfig,
    /// Frames that were lost when its shaper was changed.
    lost: u64,
    /// What the core's end of its cable had dropped when it stopped handing over super-packets;
    /// until then the host's own end counts the same drops.
    counted: u64,
    pub(super) diag: HostDiag,
}

/// All state of the sandbox.
pub(super) struct Server {
    pub(super) config: SandboxConfig,
    /// Programs' and the core's.
    all_cpus: Vec<usize>,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) hosts: Vec<Host>,
    pub(super) open_files: Rlimit,
    netlink: Netlink,
    /// The mask of the CPU that all super-packets are steered to; `None` without steering.
    steering: Option<String>,
    programs: HashMap<i32, usize>,
    /// Whether there has been a program at all.
    launched: bool,
    tasks: Tasks,
    /// Imposes limits without control groups, where there are such limits.
    warden: Option<Warden>,
    /// The dump of connections that is under way.
    pub(super) round: Option<Round>,
    /// Parameters that hosts have from this namespace, whose TCP table is another one.
    pinned: Vec<Sysctl>,
    service: Option<Service>,
}

fn serve<A: Answers>(
    channel: &Channel,
    uid: u32,
    gid: u32,
    answers: Option<A>,
) -> Result<(), String> {
    let children = sys::signalfd(&[libc::SIGCHLD]).map_err(|e| format!("signalfd: {e}"))?;
    let ended = |e: io::Error| format!("sandbox channel: {e}");
    let Some((Request::Begin(config), _)) = channel.receive().map_err(ended)? else {
        return Ok(());
    };
    crate::resources::duty::without_stop_signals();
    crate::exit_cleanup::arm(&config.remove).map_err(|e| format!("binding to the run: {e}"))?;
    let mut server = Server::set_up(config, uid, gid)?;
    let inquiries = answers.map(|answers| server.start_service(answers));
    let inquiries = inquiries.transpose()?;
    let begun = Answer::Begun {
        steers: server.steering.is_some(),
    };
    let fds: Vec<_> = inquiries.iter().map(AsFd::as_fd).collect();
    channel.send(&begun, &fds).map_err(ended)?;
    drop(inquiries);
    loop {
        // A dump queries one host per turn, so that a request waits for one host at most.
        let patience = server.round.is_some().then_some(Duration::ZERO);
        let mut fds = vec![channel.as_fd(), children.as_fd()];
        fds.extend(server.warden.as_ref().map(Warden::as_fd));
        let ready = sys::wait_readable(&fds, patience);
        let ready = ready.map_err(|e| format!("poll: {e}"))?;
        // What the warden has killed is reported before the ends of those processes.
        if ready.get(2) == Some(&true) {
            for event in server.listen() {
                channel.send(&Answer::Event(event), &[]).map_err(ended)?;
            }
        }
        if let Some((dumped, file)) = server.dump_next() {
            channel.send(&dumped, &[file.as_fd()]).map_err(ended)?;
        }
        if ready[1] {
            sys::drain(children.as_fd());
            for event in server.reap() {
                channel.send(&Answer::Event(event), &[]).map_err(ended)?;
            }
        }
        if !ready[0] {
            continue;
        }
        let Some((request, fds)) = channel.receive::<Request>().map_err(ended)? else {
            crate::exit_cleanup::run();
        };
        let last = matches!(request, Request::Shutdown);
        let (answer, fds) = server
            .answer(request, fds)
            .unwrap_or_else(|m| (Answer::Failed(m), None));
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        channel.send(&answer, &fds).map_err(ended)?;
        if last {
            return Ok(());
        }
    }
}

impl Server {
    fn set_up(config: SandboxConfig, uid: u32, gid: u32) -> Result<Self, String> {
        let step = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
        sys::make_mounts_private().map_err(step("making mounts private"))?;
        boot::mount_proc().map_err(step("mounting /proc for the sandbox"))?;
        boot::bind_names(&config.hosts_file, config.domain.as_deref())
            .map_err(step("giving hosts their names"))?;
        // A kernel without the parameter (before Linux 6.1) gives hosts the machine's table.
        let buckets = config.tcp_buckets;
        let own_tables =
            buckets > 0 && sys::write_file(boot::CHILD_TABLES, &buckets.to_string()).is_ok();
        let pinned = own_tables.then(boot::of_table_size).unwrap_or_default();
        // The core's end of a cable is not a host: it has no addresses and sends no packets of its
        // own.
        sys::write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
        let steering = config.offload.then(|| {
            let write = |mask: &str| sys::write_file(steering::DEFAULT_MASK, mask);
            steering::first_mask(&config.cpus, write)
        });
        let all_cpus = cpu::allowed().map_err(step("asking for CPUs"))?;
        let open_files =
            sys::raise_open_files().map_err(step("raising the limit of open files"))?;
        let netlink = Netlink::open().map_err(step("opening netlink"))?;
        let (hosts, programs) = (Vec::new(), HashMap::new());
        let tasks = Tasks::default();
        let launched = false;
        Ok(Self {
            config,
            all_cpus,
            uid,
            gid,
            hosts,
            open_files,
            netlink,
            steering: steering.flatten(),
            programs,
            launched,
            tasks,
            warden: None,
            round: None,
            pinned,
            service: None,
        })
    }

    /// Starts the process that serves hosts; returns the run's end of its channel.
    fn start_service(&mut self, answers: impl Answers) -> Result<OwnedFd, String> {
        let (service, inquiries) =
            Service::fork(answers).map_err(|e| format!("starting the hosts' services: {e}"))?;
        self.service = Some(service);
        Ok(inquiries)
    }

    fn answer(
        &mut self,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        let answer = match request {
            Request::Begin(_) => return Err("the sandbox has begun already".to_owned()),
            Request::AddHosts(hosts) => {
                self.add_hosts(&hosts)?;
                Answer::Done
            }
            Request::Guard => {
                self.guard()?;
                Answer::Done
            }
            Request::OpenRing(config) => {
                let socket = packet_io::open(config).map_err(|e| format!("packet ring: {e}"))?;
                return Ok((Answer::Ring, Some(socket)));
            }
            Request::OpenSender { offload } => {
                let socket = packet_io::open_sender(offload);
                let socket = socket.map_err(|e| format!("packet socket: {e}"))?;
                return Ok((Answer::Ring, Some(socket)));
            }
            Request::Spawn(spec) => {
                let host = spec.host;
                let pid = launch::launch(self, &spec, &fds)?;
                self.programs.insert(pid, host);
                self.launched = true;
                self.hosts[host].diag.launched = true;
                Answer::Spawned(ProgramId(pid))
            }
            Request::Signal { id, signal } => {
                // A group that we started and have not yet reaped.
                if self.programs.contains_key(&id.0)
                    && let (Some(group), Some(signal)) =
                        (Pid::from_raw(id.0), Signal::from_named_raw(signal))
                {
                    kill_process_group(group, signal).ok();
                }
                Answer::Done
            }
            Request::Listening { host, port } => {
                Answer::Listening(usage::listening(self.host(host)?.pid, port))
            }
            Request::Counters => Answer::Counters(self.counters()),
            Request::Usage => Answer::Usage(self.usage()),
            Request::Connections => {
                self.begin_round()
                    .map_err(|e| format!("connections: {e}"))?;
                Answer::Done
            }
            Request::TcpCounters => {
                let hosts = self.hosts.iter().map(|host| host.pid);
                Answer::TcpCounters(usage::tcp_counters(hosts))
            }
            Request::SetShaper { host, shaper } => {
                self.set_shaper(host, shaper)?;
                Answer::Done
            }
            Request::OpenSteering { host } => {
                let file = steering::open(self.host(host)?.pid).ok();
                return Ok((Answer::Steering, file.map(Into::into)));
            }
            Request::Shutdown => {
                self.warden = None;
                self.end_hosts();
                self.netlink.request(netlink::delete_group(CABLES)).ok();
                Answer::Done
            }
        };
        Ok((answer, None))
    }

    /// Binds this process and the hosts from number `first` on to `cpus`; does nothing where the
    /// list is empty.
    fn bind(&self, first: usize, cpus: &[usize]) -> io::Result<()> {
        if cpus.is_empty() {
            return Ok(());
        }
        let alive = self.hosts[first..].iter().filter(|host| host.alive);
        let service = self.service.as_ref().map(|service| service.pid);
        let mut threads = alive.map(|host| host.pid).chain(service).chain([0]);
        threads.try_for_each(|thread| cpu::pin_thread(thread, cpus))
    }

    /// Ends all hosts, on all CPUs: the core, which had one for itself, has ended.
    fn end_hosts(&self) {
        // If that is refused, it only takes longer.
        self.bind(0, &self.all_cpus).ok();
        for host in self.hosts.iter().filter(|host| host.alive) {
            // The number is our child's until we reap it.
            if let Some(init) = Pid::from_raw(host.pid) {
                kill_process(init, Signal::KILL).ok();
            }
        }
    }

    pub(super) fn host(&self, host: usize) -> Result<&Host, String> {
        let host = self.hosts.get(host).ok_or("there is no such host")?;
        if host.alive {
            Ok(host)
        } else {
            Err(format!("host {} has died", host.config.name))
        }
    }

    /// Forks the inits first, so that they set up their mounts while we lay cables, then waits for
    /// all. On all CPUs: there is no core yet.
    fn add_hosts(&mut self, configs: &[HostConfig]) -> Result<(), String> {
        let first = self.hosts.len();
        let binding = |e: io::Error| format!("choosing CPUs: {e}");
        self.bind(first, &self.all_cpus).map_err(binding)?;
        let mut booting = Vec::with_capacity(configs.len());
        for config in configs {
            let failed = |e: io::Error| format!("host {}: {e}", config.name);
            booting.push(self.fork_host(config).map_err(failed)?);
        }
        for ((config, (_, go)), number) in configs.iter().zip(&mut booting).zip(first..) {
            let failed = |e: io::Error| match e.raw_os_error() {
                Some(libc::ESRCH | libc::EPIPE) => format!("host {}: {DIED}", config.name),
                _ => format!("host {}: making its cable: {e}", config.name),
            };
            self.lay_cable(config, number).map_err(failed)?;
            go.write_all(b"!").map_err(failed)?;
        }
        for (config, (mut report, go)) in configs.iter().zip(booting) {
            drop(go);
            let mut text = String::new();
            report
                .read_to_string(&mut text)
                .map_err(|e| format!("host {}: {e}", config.name))?;
            if text != "up" {
                let text = if text.is_empty() { DIED } else { &text };
                return Err(format!("host {}: {text}", config.name));
            }
        }
        self.bind(first, &self.config.cpus).map_err(binding)
    }

    fn fork_host(&mut self, config: &HostConfig) -> io::Result<(PipeReader, PipeWriter)> {
        let (go_read, go_write) = io::pipe()?;
        let (report_read, report_write) = io::pipe()?;
        let flags = libc::CLONE_NEWNET
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC;
        // SAFETY: the sandbox has one thread.
        match unsafe { sys::fork(flags) }? {
            Fork::Child => {
                drop((go_write, report_read));
                let context = InitContext {
                    number: self.hosts.len(),
                    shared: &self.config,
                    pinned: &self.pinned,
                    feed: self.service.as_ref().map(|service| &service.feed),
                };
                boot::main(config, &context, go_read, report_write)
            }
            Fork::Parent { pid, .. } => {
                self.hosts.push(Host {
                    pid,
                    alive: true,
                    config: config.clone(),
                    lost: 0,
                    counted: 0,
                    diag: HostDiag::default(),
                });
                Ok((report_read, go_write))
            }
        }
    }

    /// Interface numbers follow host numbers, so that the ring needs no table.
    fn lay_cable(&mut self, config: &HostConfig, number: usize) -> io::Result<()> {
        let name = format!("h{number}");
        if let Some(mask) = &self.steering {
            // The kernel reads the mask when it makes the interface. A cable that carries only
            // single packets needs no steering for order, and so keeps a queue of its own instead
            // of sharing one CPU's with all hosts.
            let mask = if config.offloads() { mask } else { "0" };
            sys::write_file(steering::DEFAULT_MASK, mask)?;
        }
        self.netlink.request(netlink::new_veth(&VethPair {
            index: packet_io::interface_of(number),
            name: &name,
            group: CABLES,
            mtu: config.mtu,
            gro_max_size: GRO_MAX_SIZE,
            peer_name: boot::INTERFACE,
            peer_pid: self.hosts[number].pid,
            peer_mac: config.mac,
            peer_gso_max_segs: config.segments,
        }))?;
        // On the core's end this switches veth to NAPI, and so to a single queue that keeps order.
        crate::ethtool::set_receive_offload(&name, true)
    }

    fn set_shaper(&mut self, host: usize, shaper: Shaper) -> Result<(), String> {
        let Host { pid, config, .. } = self.host(host)?;
        // Never switched back on: switching takes long, and behind a link super-packets gain
        // little.
        let stops = config.offloads() && shaper.traffic == Traffic::Packets;
        let lost = launch::inside_network_of(*pid, || {
            if stops {
                boot::stop_offload(config)?;
            }
            boot::apply_shaper(&shaper)
        });
        let failed = |e: io::Error| format!("changing the shaper of {}: {e}", config.name);
        let lost = lost.map_err(failed)?;
        if stops {
            let cables = usage::cable_drops().into_iter();
            let own = cables.filter(|(number, _)| *number == host);
            self.hosts[host].counted = own.map(|(_, drops)| drops.received).sum();
            self.hosts[host].config.segments = 1;
        }
        self.hosts[host].lost += lost;
        Ok(())
    }

    fn counters(&mut self) -> Vec<HostCounters> {
        let hosts = &self.hosts;
        let count = |host: &Host| HostCounters {
            to_core_dropped: usage::to_core_dropped(host.pid) + host.lost,
            ..HostCounters::default()
        };
        let mut counters: Vec<HostCounters> = hosts.iter().map(count).collect();
        let says_full = packet_io::says_full();
        for (number, drops) in usage::cable_drops() {
            let (Some(counter), Some(host)) = (counters.get_mut(number), hosts.get(number)) else {
                continue;
            };
            if !host.config.offloads() {
                counter.to_core_dropped += drops.received.saturating_sub(host.counted);
            }
            if !says_full {
                counter.from_core_dropped = drops.sent;
            }
        }
        for (counter, usage) in counters.iter_mut().zip(self.scan_tasks(false)) {
            counter.run_wait_ns = usage.run_wait_ns;
            counter.cpu_ns = usage.cpu_ns;
            counter.processes = usage.processes;
            counter.tasks = usage.tasks;
        }
        counters
    }

    /// Reads every task of the sandbox, so it skips the work until the first program has been
    /// launched; what a program leaves behind counts after its end.
    fn scan_tasks(&mut self, memory: bool) -> Vec<HostUsage> {
        if self.launched {
            let inits = self.hosts.iter().map(|host| host.pid);
            self.tasks.scan(inits, memory)
        } else {
            vec![HostUsage::default(); self.hosts.len()]
        }
    }

    /// Starts the warden for limits that no control groups impose.
    fn guard(&mut self) -> Result<(), String> {
        let cpus = match self.config.cpus.len() {
            0 => self.all_cpus.len(),
            cpus => cpus,
        };
        let warden = Warden::start(&self.hosts, cpus);
        self.warden = warden.map_err(|e| format!("limiting hosts' resources: {e}"))?;
        Ok(())
    }

    /// A program was killed: waits a moment for the warden to report whether it did that.
    fn ask_warden(&mut self) -> Vec<Event> {
        const MOMENT: Duration = Duration::from_millis(50);
        let said = self
            .warden
            .as_ref()
            .map(|w| sys::wait_readable(&[w.as_fd()], Some(MOMENT)));
        match said {
            Some(Ok(ready)) if ready[0] => self.listen(),
            _ => Vec::new(),
        }
    }

    /// What the warden has done.
    fn listen(&mut self) -> Vec<Event> {
        let killings = self.warden.as_mut().map_or(Vec::new(), Warden::listen);
        let event = |Killing { host, pid }| Event::OutOfMemory {
            host,
            id: ProgramId(pid),
        };
        killings.into_iter().map(event).collect()
    }

    fn usage(&mut self) -> Usage {
        let before = cpu::own_cpu_ns();
        let hosts = self.scan_tasks(true);
        let cost = Duration::from_nanos(cpu::own_cpu_ns() - before);
        Usage { hosts, cost }
    }

    fn reap(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(ended) = sys::reap() {
            if self
                .warden
                .as_ref()
                .is_some_and(|warden| warden.pid == ended.pid)
            {
                events.extend(self.listen());
                self.warden = None;
                warden::release(&self.hosts);
                events.push(Event::WardenDied);
            } else if self.programs.remove(&ended.pid).is_some() {
                if libc::WIFSIGNALED(ended.status) && libc::WTERMSIG(ended.status) == libc::SIGKILL
                {
                    events.extend(self.ask_warden());
                }
                let exit = if libc::WIFSIGNALED(ended.status) {
                    Exit::Signal(libc::WTERMSIG(ended.status))
                } else {
                    Exit::Code(libc::WEXITSTATUS(ended.status))
                };
                events.push(Event::Exited {
                    id: ProgramId(ended.pid),
                    exit,
                    cpu: ended.cpu,
                });
            } else if self.service.as_ref().is_some_and(|s| s.pid == ended.pid) {
                self.service = None;
                events.push(Event::ServiceDied);
            } else if let Some(host) = self
                .hosts
                .iter()
                .position(|h| h.alive && h.pid == ended.pid)
            {
                self.hosts[host].alive = false;
                self.hosts[host].diag = HostDiag::default();
                events.push(Event::HostDied { host });
            }
        }
        events
    }
}
