//! The reference: two network namespaces joined by a plain veth cable, made without root.
//!
//! Programs, addresses, TCP settings and CPUs are those of an emulated run; only the emulator
//! is missing. Three kinds, since each answers another question: without offloads, as on the
//! emulated hosts; with offloads, which a cable that carries single packets cannot have; and
//! without pinning, where the second CPU may help that otherwise is the core's.
//!
//! `unshare` makes the namespaces, `ip` and `ethtool` the cable. Both namespaces are held by a
//! process that waits for the end of its input, so they go when this program does.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::{Lab, tool};
use super::pair::Pair;

/// How much longer than asked for programs may take.
const GRACE: Duration = Duration::from_secs(30);
/// How often running programs are polled.
const POLL: Duration = Duration::from_millis(5);
/// What holds a namespace: says that it is there and waits.
const HOLDER: &str = "echo up; exec cat";

/// Makes this namespace into a host like those of a run. `$1` is its number, `$2` the other's,
/// `$3` whether offloads stay on.
const HOST: &str = r#"
set -e
ip link set lo up
echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6
echo "4096 131072 4194304" > /proc/sys/net/ipv4/tcp_rmem
echo "4096 16384 4194304" > /proc/sys/net/ipv4/tcp_wmem
echo 0 > /proc/sys/net/ipv4/tcp_ecn
echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save
[ "$3" = on ] || ethtool -K eth0 tx off > /dev/null
ip link set eth0 up
ip address add "10.0.0.$1/32" dev eth0
ip neighbour replace "10.0.0.$2" lladdr "02:00:00:00:00:0$2" dev eth0 nud permanent
ip route replace "10.0.0.$2/32" dev eth0 src "10.0.0.$1" congctl cubic
"#;

/// A plain cable.
#[derive(Clone)]
pub(crate) struct Cable {
    /// The largest IP packet.
    pub(crate) mtu: u32,
    /// Whether its ends pass on checksums and super-packets unfinished.
    pub(crate) offloads: bool,
    /// Whether programs have only the CPUs that they have in an emulated run.
    pub(crate) pinned: bool,
}

impl Cable {
    /// Like an emulated host's: without offloads, programs pinned.
    pub(crate) const PLAIN: Self = Self {
        mtu: 1500,
        offloads: false,
        pinned: true,
    };

    /// The three kinds for one MTU, the plain one first.
    pub(crate) fn kinds(mtu: u32) -> [Self; 3] {
        let plain = Self { mtu, ..Self::PLAIN };
        let offloads = Self {
            offloads: true,
            ..plain
        };
        let free = Self {
            pinned: false,
            ..plain
        };
        [plain, offloads, free]
    }

    /// It in a few words.
    pub(crate) fn words(&self) -> String {
        let offloads = if self.offloads { "on" } else { "off" };
        let cpus = if self.pinned { "pinned" } else { "all CPUs" };
        format!("direct veth, offloads {offloads}, {cpus}, MTU {}", self.mtu)
    }

    /// Runs a pair over it once: what the receiver and the sender printed.
    pub(crate) fn run(&self, lab: &Lab, pair: &Pair) -> io::Result<(Value, Value)> {
        let folder = lab.folder()?;
        let hosts = Hosts::new(self)?;
        let until = Instant::now() + Duration::from_secs(pair.seconds.into()) + GRACE;
        let start = |holder: &Holder, name: &str, words: &[String]| -> io::Result<Running> {
            let mut command = holder.enter();
            if self.pinned && !lab.cpus.is_empty() {
                let cpus: Vec<String> = lab.cpus.iter().map(usize::to_string).collect();
                command.args(["taskset", "-c", &cpus.join(",")]);
            }
            command.arg(&lab.bench).args(words);
            Running::start(command, &folder, name)
        };
        let mut receiver = start(&hosts.b, "recv", &pair.receiver)?;
        receiver.await_ready(until)?;
        let mut sender = start(&hosts.a, "send", &pair.sender_to("10.0.0.2"))?;
        let sent = sender.finish(until)?;
        let received = receiver.finish(until)?;
        lab.done_with(&folder);
        Ok((received, sent))
    }
}

/// Two namespaces with a cable between them.
struct Hosts {
    a: Holder,
    b: Holder,
}

impl Hosts {
    fn new(cable: &Cable) -> io::Result<Self> {
        let mut outer = tool("unshare");
        outer.args(["--user", "--map-root-user", "--net", "sh", "-c", HOLDER]);
        let a = Holder::start(outer)?;
        let mut inner = a.enter();
        inner.args(["unshare", "--net", "sh", "-c", HOLDER]);
        let b = Holder::start(inner)?;
        let mtu = cable.mtu.to_string();
        let peer = b.child.id().to_string();
        let mut link = a.enter();
        link.args(["ip", "link", "add", "eth0", "mtu", &mtu]);
        link.args(["address", "02:00:00:00:00:01", "type", "veth"]);
        link.args(["peer", "name", "eth0", "mtu", &mtu]);
        link.args(["address", "02:00:00:00:00:02", "netns", &peer]);
        succeed(link)?;
        let offloads = if cable.offloads { "on" } else { "off" };
        for (holder, own, other) in [(&a, "1", "2"), (&b, "2", "1")] {
            let mut host = holder.enter();
            host.args(["sh", "-c", HOST, "host", own, other, offloads]);
            succeed(host)?;
        }
        Ok(Self { a, b })
    }
}

/// A process that holds a network namespace for as long as this value lives.
struct Holder {
    child: Child,
}

impl Holder {
    /// Starts it and waits until its namespace is there.
    fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn()?;
        let mut holder = Self { child };
        let mut line = String::new();
        if let Some(stdout) = holder.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line == "up\n" {
            return Ok(holder);
        }
        let text = holder.child.stderr.take().map(io::read_to_string);
        let text = text.transpose()?.unwrap_or_default();
        let problem = format!("no network namespace without root: {}", text.trim());
        Err(io::Error::other(problem))
    }

    /// The start of a command that runs in the namespace.
    fn enter(&self) -> Command {
        let mut command = tool("nsenter");
        let pid = self.child.id().to_string();
        command.args([
            "--target",
            &pid,
            "--user",
            "--net",
            "--preserve-credentials",
        ]);
        command
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that has to succeed.
fn succeed(mut command: Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "setting up the cable: {}",
        text.trim()
    )))
}

/// A program under way, with its output in files; killed when dropped.
struct Running {
    child: Child,
    name: String,
    out: std::path::PathBuf,
    err: std::path::PathBuf,
}

impl Running {
    fn start(mut command: Command, folder: &Path, name: &str) -> io::Result<Self> {
        let out = folder.join(format!("{name}.out"));
        let err = folder.join(format!("{name}.err"));
        command.stdin(Stdio::null());
        command
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        Ok(Self {
            child: command.spawn()?,
            name: name.to_owned(),
            out,
            err,
        })
    }

    /// Waits for the line `ready`.
    fn await_ready(&mut self, until: Instant) -> io::Result<()> {
        while !fs::read_to_string(&self.err)?.contains("ready") {
            if self.child.try_wait()?.is_some() || Instant::now() > until {
                return Err(self.failed("never became ready"));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for its end and reads what it printed.
    fn finish(&mut self, until: Instant) -> io::Result<Value> {
        let status: ExitStatus = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > until => return Err(self.failed("took too long")),
                None => thread::sleep(POLL),
            }
        };
        if !status.success() {
            return Err(self.failed("failed"));
        }
        serde_json::from_slice(&fs::read(&self.out)?)
            .map_err(|error| self.failed(&format!("printed no JSON, {error}")))
    }

    fn failed(&self, what: &str) -> io::Error {
        let text = fs::read_to_string(&self.err).unwrap_or_default();
        io::Error::other(format!("{} {what}: {}", self.name, text.trim()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
