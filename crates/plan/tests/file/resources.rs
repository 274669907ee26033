//! Resources of hosts: every form, and what it means.

use longhaul_plan::plan::{CpuTime, Cpus, Disk, Plan, Resources};

/// The resources of a host with these fields.
fn resources(fields: &str) -> Resources {
    let text = format!("topology: {{ nodes: {{ a: {{ {fields} }} }} }}");
    let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{fields}: {e}"));
    *plan.hosts[0].resources
}

#[test]
fn every_form_of_a_cpu_is_read() {
    let machine = |count, all| Cpus {
        count,
        time: CpuTime::OfMachine(all),
    };
    let reference = |count, all| Cpus {
        count,
        time: CpuTime::OfReference(all),
    };
    for (text, cpus, shown) in [
        ("50 %", machine(1, 500), "50 %"),
        ("12.5%", machine(1, 125), "12.5 %"),
        ("100 %", machine(1, 1000), "1 CPU"),
        ("1 CPU", machine(1, 1000), "1 CPU"),
        ("2 CPUs", machine(2, 2000), "2 CPUs"),
        ("0.5 CPUs", machine(1, 500), "50 %"),
        ("1.5 CPUs", machine(2, 1500), "1.5 CPUs"),
        ("{ count: 2 }", machine(2, 2000), "2 CPUs"),
        ("{ speed: 30 % }", machine(1, 300), "30 %"),
        (
            "{ count: 4, speed: 25 % }",
            machine(4, 1000),
            "{ count: 4, speed: 25 % }",
        ),
        (
            "{ count: 2, speed: 0.8 ref }",
            reference(2, 1600),
            "{ count: 2, speed: 0.8 ref }",
        ),
    ] {
        let read = resources(&format!("cpu: {text}")).cpu.expect(text);
        assert_eq!(read, cpus, "{text}");
        assert_eq!(read.to_string(), shown, "{text}");
    }
}

#[test]
fn memory_and_disk_are_read_in_bytes() {
    let read = resources("memory: 64 MiB, disk: { read: 20 MB/s, write: 1 MiB/s, iops: 200 }");
    let expected = Resources {
        cpu: None,
        memory: Some(64 << 20),
        disk: Some(Disk {
            read: Some(20_000_000),
            write: Some(1 << 20),
            iops: Some(200),
        }),
    };
    assert_eq!(read, expected);
    assert!(resources("").is_empty());
}

#[test]
fn a_group_has_them_member_by_member_and_virtual_runs_say_that_they_have_none() {
    let text = "
topology:
  nodes: { a: { count: 2, cpu: 30 % }, b: {}, r: { kind: router } }
  links: [{ ends: [a, r] }, { ends: [b, r] }]
";
    let plan = Plan::from_text(text, "f.yaml").unwrap();
    let quotas: Vec<_> = plan
        .hosts
        .iter()
        .map(|host| host.resources.cpu.map(|cpu| cpu.time))
        .collect();
    let third = Some(CpuTime::OfMachine(300));
    assert_eq!(quotas, [third, third, None]);
    let said = |plan: &Plan| plan.warnings.iter().any(|w| w.contains("`cpu`, `memory`"));
    assert!(!said(&plan), "{:?}", plan.warnings);
    let plan = Plan::from_text(&format!("clock: virtual\n{text}"), "f.yaml").unwrap();
    assert!(said(&plan), "{:?}", plan.warnings);
}
