//! `longhaul hosts`: which hosts a run has, and what they do.

use longhaul_lab::control::{Control, ControlError, Reply, Request};
use longhaul_lab::info::{AskedDisk, HostNow, HostsNow, Load};
use longhaul_linux::cpu;

use crate::exit::Exit;
use crate::style;

const EXAMPLES: &str = "\
A host is busy while a process runs on it. USED is the CPU time of its processes in the last
second: 1.00 is one whole CPU, and 100 % all that the host may use.

Programs on hosts get the same data: `curl --unix-socket $LONGHAUL_INFO http://localhost/hosts`.

Examples:
  longhaul hosts                               hosts of the only run under way
  longhaul hosts --run two-clusters
  longhaul hosts --json | jq -r '.hosts[] | select(.load.busy | not) | .name'";

/// List the hosts of a run that is under way: addresses, CPUs, programs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: its experiment's name or its folder; needed only if several are under way
    #[arg(long, value_name = "NAME|DIR")]
    run: Option<String>,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Exit {
    match ask(args.run.as_deref()) {
        Ok(hosts) => {
            style::print(&if args.json {
                style::json(&serde_json::json!(hosts))
            } else {
                table(&hosts)
            });
            Exit::Done
        }
        Err(error) => {
            style::problem(&error);
            crate::exec::exit_of(&error)
        }
    }
}

fn ask(run: Option<&str>) -> Result<HostsNow, ControlError> {
    match Control::connect(run)?.ask(&Request::Hosts {}, &[])? {
        Reply::Hosts(hosts) => Ok(hosts),
        _ => Err(ControlError::Ended),
    }
}

/// A column: its heading, and its cell for a host.
type Column = (&'static str, fn(&HostNow) -> Option<String>);

/// A line for each host. Columns that would be empty are left out.
fn table(hosts: &HostsNow) -> String {
    let columns: [Column; 9] = [
        ("HOST", |host| Some(host.name.clone())),
        ("IPV4", |host| Some(host.ipv4.to_string())),
        ("IPV6", |host| Some(host.ipv6.to_string())),
        ("CPU", |host| {
            Some(host.resources.cpu.as_ref()?.text.clone())
        }),
        ("MEMORY", |host| {
            Some(style::bytes(host.resources.memory_bytes?))
        }),
        ("DISK", |host| host.resources.disk.as_ref().map(disk)),
        ("ON", |host| Some(cpu::list(&host.place.as_ref()?.cpus))),
        ("USED", |host| Some(used(host.load.as_ref()?))),
        ("PROGRAMS", |host| Some(programs(host.load.as_ref()?))),
    ];
    let mut rows: Vec<Vec<String>> = vec![Vec::new(); hosts.hosts.len() + 1];
    for (head, cell) in columns {
        let cells: Vec<_> = hosts.hosts.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let all = std::iter::once(head.to_owned());
            let cells = cells
                .into_iter()
                .map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            for (row, cell) in rows.iter_mut().zip(all.chain(cells)) {
                row.push(cell);
            }
        }
    }
    style::table(&rows)
}

fn disk(disk: &AskedDisk) -> String {
    let rate = |rate: Option<u64>, what| Some(format!("{what} {}/s", style::bytes(rate?)));
    let parts = [
        rate(disk.read_bytes_per_s, "read"),
        rate(disk.write_bytes_per_s, "write"),
        disk.iops
            .map(|iops| format!("{} IOPS", style::grouped(iops.into()))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn used(load: &Load) -> String {
    match load.share_used {
        Some(share) => format!("{:.2} ({})", load.cpus_used, style::percent(share)),
        None => format!("{:.2}", load.cpus_used),
    }
}

fn programs(load: &Load) -> String {
    match load.programs.as_slice() {
        [] if load.busy => "busy".to_owned(),
        [] => "free".to_owned(),
        programs => style::clean(&programs.join(", ")),
    }
}
