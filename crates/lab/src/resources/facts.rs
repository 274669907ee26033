//! What this machine has for the programs of hosts.

use std::path::Path;

use longhaul_linux::resources::{Device, NoDevice, Support};
use longhaul_linux::{cpu, memory};
use longhaul_plan::plan::{CpuTime, Plan};

use super::reference;
use crate::calibrate::{self, Known};

/// The machine's resources, and the means to limit hosts to less.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The CPUs of programs.
    pub cpus: Vec<usize>,
    /// Memory in bytes, and what of it is free.
    pub memory: [u64; 2],
    /// The speed of one of its CPUs, in `ref`; none where nobody asks.
    pub speed: Option<f64>,
    /// The means that limit hosts to their resources.
    pub support: Support,
    /// The disk of the run folder.
    pub device: Result<Device, NoDevice>,
}

impl Facts {
    /// Those of this machine, for a plan whose run folder will be `out`. The speed of its CPUs is
    /// that of its calibration, or is measured now where the plan asks for it.
    pub fn of(plan: &Plan, cpus: Vec<usize>, out: &Path) -> Self {
        Self {
            cpus,
            memory: [
                memory::total_bytes().unwrap_or(u64::MAX),
                memory::available_bytes().unwrap_or(u64::MAX),
            ],
            speed: asks_for_speed(plan).then(speed),
            support: Support::find(),
            device: Device::of(out),
        }
    }

    /// The CPUs that programs have where the core takes one of its own, before it has taken any:
    /// all but the last.
    pub fn likely_cpus() -> Vec<usize> {
        let mut cpus = cpu::allowed().unwrap_or_default();
        if cpus.len() > 1 {
            cpus.pop();
        }
        cpus
    }
}

fn asks_for_speed(plan: &Plan) -> bool {
    plan.hosts.iter().any(|host| {
        let time = host.resources.cpu.map(|cpu| cpu.time);
        matches!(time, Some(CpuTime::OfReference(_)))
    })
}

/// The speed of a CPU of this machine: as it was calibrated, or as it is now.
fn speed() -> f64 {
    let calibrated = match calibrate::known() {
        Known::Calibrated(calibration) => calibration.reference,
        Known::Nothing | Known::Stale(_) => None,
    };
    calibrated.unwrap_or_else(reference::measure)
}
