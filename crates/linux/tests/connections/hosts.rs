//! Hosts of a sandbox, programs on them, and a network that delays.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longhaul_linux::connections::Connections;
use longhaul_linux::packet_io::{Ask, Departed, Departure, RingConfig, Rings, VnetHeader};
use longhaul_linux::sandbox::{
    HostConfig, NoAnswers, ProgramId, Sandbox, SandboxConfig, SandboxError, SpawnSpec, TcpConfig,
};
use longhaul_linux::wait_readable;

/// How long a packet takes from one host to another.
pub(super) const ONE_WAY: Duration = Duration::from_millis(10);
const MTU: u32 = 1500;
const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0xff, 0xff];
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Hosts {
    pub(super) sandbox: Sandbox,
    rings: Option<Rings>,
    program: PathBuf,
}

pub(super) fn address(host: usize, v6: bool) -> IpAddr {
    let number = host as u16 + 1;
    if v6 {
        return Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into();
    }
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low).into()
}

fn mac(host: usize) -> [u8; 6] {
    let [high, low] = (host as u16).to_be_bytes();
    [2, 0, 0, 0, high, low]
}

fn config(host: usize) -> HostConfig {
    let (IpAddr::V4(ipv4), IpAddr::V6(ipv6)) = (address(host, false), address(host, true)) else {
        unreachable!()
    };
    HostConfig {
        limits: longhaul_linux::resources::Limits::default(),
        machine_id: 0,
        memory: None,
        groups: Vec::new(),
        cpus: Vec::new(),
        name: format!("h{host}"),
        mac: mac(host),
        ipv4,
        ipv6,
        mtu: MTU,
        tcp: TcpConfig {
            congestion: "cubic".to_owned(),
            rmem_max: 4 << 20,
            wmem_max: 4 << 20,
            ecn: false,
        },
        shaper: None,
        segments: 1,
    }
}

impl Hosts {
    pub(super) fn start(count: usize, tcp_buckets: u32) -> Result<Self, SandboxError> {
        let program = std::env::current_exe().unwrap();
        let shared = SandboxConfig {
            hosts_file: "127.0.0.1\tlocalhost\n".to_owned(),
            visible: vec![program.parent().unwrap().to_owned()],
            gateway_mac: GATEWAY,
            tcp_buckets,
            ..SandboxConfig::default()
        };
        let mut sandbox = Sandbox::start(&shared, None::<NoAnswers>)?;
        let configs: Vec<_> = (0..count).map(config).collect();
        sandbox.add_hosts(&configs, |_| true)?;
        let rings = sandbox.open_rings(&[RingConfig::for_mtu(MTU)])?;
        Ok(Self {
            sandbox,
            rings: Some(rings),
            program,
        })
    }

    /// Lets a thread carry packets from now on.
    pub(super) fn carry_packets(mut self) -> Self {
        let rings = self.rings.take().unwrap();
        // Ends with the process.
        std::thread::spawn(|| carry(rings));
        self
    }

    /// Starts this file as a program.
    pub(super) fn program(&mut self, host: usize, words: &[&str]) -> File {
        let program = self.program.to_str().unwrap().to_owned();
        let argv = [&program, "program"]
            .into_iter()
            .chain(words.iter().copied());
        let argv: Vec<&str> = argv.collect();
        self.spawn(host, &argv).unwrap().1
    }

    fn spawn(&mut self, host: usize, argv: &[&str]) -> Result<(ProgramId, File), SandboxError> {
        let (reader, writer) = longhaul_linux::log_pipe().unwrap();
        let null: OwnedFd = File::open("/dev/null").unwrap().into();
        let spec = SpawnSpec {
            host,
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
            cwd: Path::new("/").to_owned(),
            as_root: false,
        };
        let errors = std::io::stderr();
        let streams = [null.as_fd(), writer.as_fd(), errors.as_fd()];
        Ok((self.sandbox.spawn(&spec, streams)?, reader))
    }

    /// What a program writes until its end; none where it is not there.
    pub(super) fn output(&mut self, host: usize, argv: &[&str]) -> Option<String> {
        let (_, mut pipe) = self.spawn(host, argv).ok()?;
        Some(read_until(&mut pipe, |_| false))
    }

    /// Waits for a condition.
    pub(super) fn until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "it takes too long");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn await_connections(&mut self) -> Connections {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while self.sandbox.poll_event().unwrap().is_some() {}
            if let Some(connections) = self.sandbox.poll_connections().unwrap() {
                return connections;
            }
            assert!(Instant::now() < deadline, "the dump takes too long");
            wait_readable(&[self.sandbox.as_fd()], Some(PATIENCE)).unwrap();
        }
    }
}

/// Reads what a program writes until it is enough or the program has ended.
pub(super) fn read_until(pipe: &mut File, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !is_enough(&text) {
        assert!(
            wait_readable(&[pipe.as_fd()], Some(PATIENCE)).unwrap()[0],
            "it is silent"
        );
        match pipe.read(&mut bytes).unwrap() {
            0 => break,
            read => text.push_str(std::str::from_utf8(&bytes[..read]).unwrap()),
        }
    }
    text
}

/// The host to which a frame is addressed.
fn receiver(frame: &[u8]) -> Option<usize> {
    let last = match frame.get(12..14)? {
        [0x08, 0x00] => frame.get(32..34)?,
        _ => frame.get(52..54)?,
    };
    let number = u16::from_be_bytes([last[0], last[1]]);
    usize::from(number).checked_sub(1)
}

fn carry(mut rings: Rings) {
    let mut waiting: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
    loop {
        let due = waiting.front().map(|(due, ..)| *due);
        let patience = due.map(|due| due.saturating_duration_since(Instant::now()));
        wait_readable(&[rings.readiness()], patience).unwrap();
        while let Some(arrival) = rings.peek() {
            if let Some(host) = receiver(arrival.frame) {
                let mut frame = arrival.frame.to_vec();
                frame[..6].copy_from_slice(&mac(host));
                waiting.push_back((Instant::now() + ONE_WAY, host, frame));
            }
            rings.release();
        }
        while let Some((due, host, frame)) = waiting.pop_front() {
            if due > Instant::now() {
                waiting.push_front((due, host, frame));
                break;
            }
            let departure = Departure {
                host,
                vnet: VnetHeader::default(),
                parts: [&frame, &[]],
            };
            rings.send(&[departure], Ask::Last, &mut [Departed::Unasked]);
        }
    }
}
