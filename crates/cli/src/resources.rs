//! Resources as `check` shows them: what each host has, on which CPUs, and what enforces it.

use longhaul_lab::resources::{Allotment, Facts, HostShare, Misfit};
use longhaul_lab::run;
use longhaul_linux::cpu;
use longhaul_plan::plan::{Plan, RunClock};
use serde_json::{Value, json};

use crate::style;

/// Hosts that are shown; `--json` shows all.
const ROWS: usize = 40;

/// The resources that hosts of `plan` would have on this machine; `None` where none asks for any.
///
/// # Errors
/// The machine does not have it.
pub(crate) fn allotment(plan: &Plan) -> Result<Option<Allotment>, Misfit> {
    let asks = plan.hosts.iter().any(|host| !host.resources.is_empty());
    if !asks || plan.clock != RunClock::Real {
        return Ok(None);
    }
    let facts = Facts::of(plan, Facts::likely_cpus(), &run::default_out(plan));
    Allotment::of(plan, facts, false).map(Some)
}

/// What hosts that ask for something have.
pub(crate) fn section(plan: &Plan, allotment: &Allotment) -> String {
    let hosts = plan.hosts.iter().zip(&allotment.hosts);
    let asking: Vec<_> = hosts
        .filter(|(_, share)| !share.limits.is_empty())
        .collect();
    let rows = asking.iter().take(ROWS).map(|(host, share)| {
        let limits = share.limits;
        let quota = limits.cpu.map_or(String::new(), |cpu| {
            format!("{} % of a CPU", f64::from(cpu.quota) / 10.0)
        });
        let memory = limits.memory.map_or(String::new(), style::bytes);
        vec![host.name.clone(), quota, on(share), memory, disk(share)]
    });
    let mut text = style::table(&rows.collect::<Vec<_>>());
    if asking.len() > ROWS {
        text.push_str(&format!(
            "  … and {} more (all with --json)\n",
            asking.len() - ROWS
        ));
    }
    let facts = &allotment.facts;
    let [mut cpu, mut memory, mut disk] = [false; 3];
    for (_, share) in &asking {
        cpu |= share.limits.cpu.is_some();
        memory |= share.limits.memory.is_some();
        disk |= share.limits.disk.is_some();
    }
    let means = [
        (cpu, "CPU time", &facts.support.cpu),
        (memory, "memory", &facts.support.memory),
        (disk, "disk I/O", &facts.support.disk),
    ];
    for (wanted, what, means) in means {
        if let (true, Ok(means)) = (wanted, means) {
            text.push_str(&format!("  {what} is limited by {means}\n"));
        }
    }
    if let Some(speed) = facts.speed {
        text.push_str(&format!(
            "  a CPU of this machine has a speed of {speed:.2} ref\n"
        ));
    }
    text
}

/// The CPUs of a host.
fn on(share: &HostShare) -> String {
    match share.cpus.as_slice() {
        [] => String::new(),
        [one] => format!("on CPU {one}"),
        several => format!("on CPUs {}", cpu::list(several)),
    }
}

fn disk(share: &HostShare) -> String {
    let Some(disk) = share.limits.disk else {
        return String::new();
    };
    let rate =
        |what: &str, rate: Option<u64>| rate.map(|rate| format!("{what} {}/s", style::bytes(rate)));
    let iops = disk.iops.map(|iops| format!("{iops} operations/s"));
    let parts = [rate("reads", disk.read), rate("writes", disk.write), iops];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(crate) fn as_json(plan: &Plan, allotment: &Allotment) -> Value {
    let hosts = plan.hosts.iter().zip(&allotment.hosts);
    let hosts = hosts
        .filter(|(_, share)| !share.limits.is_empty())
        .map(|(host, share)| {
            let limits = share.limits;
            json!({
                "name": host.name,
                "cpu": limits.cpu.map(|cpu| json!({
                    "quota": f64::from(cpu.quota) / 1_000.0, "count": cpu.count, "cpus": share.cpus,
                })),
                "memory_bytes": limits.memory,
                "disk": limits.disk.map(|disk| json!({
                    "read_bps": disk.read, "write_bps": disk.write, "iops": disk.iops,
                })),
            })
        });
    let facts = &allotment.facts;
    let means = |means: &Result<longhaul_linux::resources::Means, _>| {
        means.as_ref().ok().map(|means| means.name())
    };
    json!({
        "program_cpus": facts.cpus,
        "machine_ref": facts.speed,
        "cpu": means(&facts.support.cpu),
        "memory": means(&facts.support.memory),
        "disk": means(&facts.support.disk),
        "hosts": hosts.collect::<Vec<_>>(),
    })
}
