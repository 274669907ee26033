//! What the figures of a network on this machine depend on, beyond [`Machine`](crate::summary::Machine):
//! the parameters of hardware and software that eWAN's Tables I and II list of each cluster.
//!
//! Left out: what only root may read, such as memory modules, and what virtual machines invent.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Hardware and system parameters of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The distribution and its version; empty where unknown.
    pub os: String,
    /// Network interfaces. Runs do not use them; eWAN's figures are of such.
    pub interfaces: Vec<NetworkInterface>,
    /// The machine's default congestion control; hosts have the experiment's.
    pub congestion: String,
    /// Congestion controls that the kernel has now.
    pub congestion_available: Vec<String>,
    /// The machine's default queue discipline.
    pub qdisc: String,
    /// The most that a socket may ask for, in bytes: it bounds programs that set their buffers.
    pub socket_receive_max: Option<u64>,
    /// The same for sending.
    pub socket_send_max: Option<u64>,
}

/// A network interface that belongs to a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Its name.
    pub name: String,
    /// Its driver; empty where unknown.
    pub driver: String,
    /// What it is attached to, such as `pci` or `virtio`, with the PCI link's speed where it is known.
    pub bus: String,
    /// Its rate in Mbit/s; `None` where it has none, as virtual ones.
    pub mbit_per_s: Option<u64>,
}

impl Platform {
    /// That of this machine.
    pub fn read() -> Self {
        Self::below(Path::new("/"))
    }

    /// That of the machine whose files are below `root`.
    fn below(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let word = |path: &str| read(path).trim().to_owned();
        let number = |path: &str| word(path).parse().ok();
        let ipv4 = "proc/sys/net/ipv4";
        let available = read(&format!("{ipv4}/tcp_available_congestion_control"));
        Self {
            os: os_name(&read("etc/os-release")),
            interfaces: interfaces(&root.join("sys/class/net")),
            congestion: word(&format!("{ipv4}/tcp_congestion_control")),
            congestion_available: available.split_whitespace().map(str::to_owned).collect(),
            qdisc: word("proc/sys/net/core/default_qdisc"),
            socket_receive_max: number("proc/sys/net/core/rmem_max"),
            socket_send_max: number("proc/sys/net/core/wmem_max"),
        }
    }
}

/// `PRETTY_NAME` of os-release(5).
fn os_name(text: &str) -> String {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default()
        .trim_matches(['"', '\''])
        .to_owned()
}

/// The interfaces that belong to a device: no bridges, tunnels and veth cables.
fn interfaces(folder: &Path) -> Vec<NetworkInterface> {
    let mut interfaces: Vec<NetworkInterface> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| interface(&entry.path()))
        .collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    interfaces
}

fn interface(folder: &Path) -> Option<NetworkInterface> {
    let device = folder.join("device");
    let last = |link: &str| {
        let target = fs::read_link(device.join(link)).unwrap_or_default();
        let name = target.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let word = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if !device.exists() {
        return None;
    }
    // Only PCI Express devices have these files.
    let speed = word(&device.join("current_link_speed"));
    let width = word(&device.join("current_link_width"));
    let link = match (speed, width) {
        (Some(speed), Some(width)) => format!(", {speed}, {width} lanes"),
        _ => String::new(),
    };
    Some(NetworkInterface {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        driver: last("driver"),
        bus: format!("{}{link}", last("subsystem")),
        // Minus one stands for none.
        mbit_per_s: word(&folder.join("speed")).and_then(|speed| speed.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn interfaces_and_system_are_read_from_the_files_of_a_machine() {
        let root = std::env::temp_dir().join(format!("longhaul-platform-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/os-release", "ID=x\nPRETTY_NAME=\"Some Linux 12\"\n");
        write("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
        write(
            "proc/sys/net/ipv4/tcp_available_congestion_control",
            "reno cubic\n",
        );
        write("proc/sys/net/core/default_qdisc", "fq_codel\n");
        write("proc/sys/net/core/rmem_max", "212992\n");
        write(
            "sys/class/net/eth1/device/current_link_speed",
            "8.0 GT/s PCIe\n",
        );
        write("sys/class/net/eth1/device/current_link_width", "4\n");
        write("sys/class/net/eth1/speed", "10000\n");
        write("sys/class/net/eth0/device/nothing", "");
        write("sys/class/net/eth0/speed", "-1\n");
        write("sys/class/net/lo/speed", "");
        symlink(
            "/sys/bus/pci",
            root.join("sys/class/net/eth1/device/subsystem"),
        )
        .unwrap();
        symlink(
            "/x/drivers/ixgbe",
            root.join("sys/class/net/eth1/device/driver"),
        )
        .unwrap();
        let platform = Platform::below(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(platform.os, "Some Linux 12");
        assert_eq!(platform.congestion, "cubic");
        assert_eq!(platform.congestion_available, ["reno", "cubic"]);
        assert_eq!(platform.qdisc, "fq_codel");
        assert_eq!(
            (platform.socket_receive_max, platform.socket_send_max),
            (Some(212_992), None)
        );
        let [first, second] = platform.interfaces.try_into().unwrap();
        let bare = NetworkInterface {
            name: "eth0".to_owned(),
            ..NetworkInterface::default()
        };
        assert_eq!(first, bare);
        let full = NetworkInterface {
            name: "eth1".to_owned(),
            driver: "ixgbe".to_owned(),
            bus: "pci, 8.0 GT/s PCIe, 4 lanes".to_owned(),
            mbit_per_s: Some(10_000),
        };
        assert_eq!(second, full);
    }
}
