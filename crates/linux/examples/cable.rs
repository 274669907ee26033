//! Two hosts joined by a bare forwarder: `ping` across it, once.
#![allow(clippy::disallowed_methods, missing_docs)]
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use longhaul_linux::packet_io::{Departure, PacketIo, RingConfig};
use longhaul_linux::sandbox::{Event, HostConfig, Sandbox, SandboxConfig, SpawnSpec, TcpConfig};

fn main() {
    let count: usize = std::env::args().nth(1).map_or(2, |n| n.parse().unwrap());
    let start = Instant::now();
    let gateway_mac = [2, 0x4c, 0x47, 0, 0, 1];
    let config = SandboxConfig { hosts_file: "10.0.0.1 a\n10.0.0.2 b\n".into(), gateway_mac, ..Default::default() };
    let mut sandbox = Sandbox::start(&config).unwrap();
    println!("sandbox {:?}", start.elapsed());
    let hosts: Vec<HostConfig> = (0..count as u32).map(|i| HostConfig {
        name: format!("h{i}"),
        mac: [2, 0x4c, 0x48, 0, (i >> 8) as u8, i as u8],
        ipv4: Ipv4Addr::from(0x0a00_0001 + i),
        ipv6: Ipv6Addr::from(0xfd00_0000_0000_0000_0000_0000_0000_0001 + u128::from(i)),
        mtu: 1500,
        tcp: TcpConfig { congestion: "cubic".into(), rmem_max: 8 << 20, wmem_max: 8 << 20, ecn: false },
        shaper: None,
    }).collect();
    sandbox.add_hosts(&hosts, |_| ()).unwrap();
    println!("hosts {:?}", start.elapsed());
    let mut ring = sandbox.open_ring(RingConfig::for_mtu(1500)).unwrap();
    println!("ring {:?}", start.elapsed());
    let out = std::io::stdout();
    let run = |sandbox: &mut Sandbox, command: &str| {
        let spec = SpawnSpec { host: 0, argv: vec!["sh".into(), "-c".into(), command.into()],
            env: vec![("PATH".into(), std::env::var("PATH").unwrap())], cwd: "/".into(), as_root: false };
        sandbox.spawn(&spec, [std::io::stdin().as_fd(), out.as_fd(), out.as_fd()]).unwrap();
    };
    run(&mut sandbox, "id; hostname; ip a; ip route; cat /etc/hosts; ps ax; mount | tail -7; ping -c 3 -i 0.01 b; ping -6 -c 2 fd00::2; ping -c 1 b; cat /proc/net/tcp | wc -l");
    let mut buffer = vec![0u8; 65536];
    loop {
        let mut next = None;
        if let Some(arrival) = ring.peek() {
            let n = arrival.frame.len();
            buffer[..n].copy_from_slice(arrival.frame);
            next = Some((arrival.host, n));
        }
        if let Some((host, n)) = next {
            ring.release();
            if buffer[0] & 1 == 0 && host < 2 {
                buffer[..6].copy_from_slice(&hosts[1 - host].mac);
                buffer[6..12].copy_from_slice(&gateway_mac);
                ring.send(&[Departure { host: 1 - host, vnet: Default::default(), frame: &buffer[..n] }]);
            } else { println!("other frame from {host}: {:02x?}", &buffer[..n.min(60)]); }
        }
        if let Some(event) = sandbox.poll_event().unwrap() {
            println!("{event:?}");
            if matches!(event, Event::Exited { .. }) { break; }
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    let t = Instant::now();
    println!("{:?}", &sandbox.counters().unwrap()[..2]);
    println!("counters {:?}", t.elapsed());
    let t = Instant::now();
    drop(ring);
    sandbox.shutdown().unwrap();
    println!("down {:?}", t.elapsed());
}
