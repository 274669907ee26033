//! The placement of a run: a CPU for the core, the others for programs.

use longhaul_linux::cpu::{self, CoreCpu};

use crate::summary::{self, CoreFacts, Machine};

/// The CPUs of the core and of programs.
pub(super) struct Placement {
    pub(super) core: Option<CoreCpu>,
    pub(super) programs: Vec<usize>,
    all: Vec<usize>,
}

/// The CPUs that a thread had before a run.
pub(super) struct PriorCpus(Vec<usize>);

impl Drop for PriorCpus {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            // If that is refused, the next run has only the CPUs of this one's programs.
            let _ = cpu::pin(&self.0);
        }
    }
}

impl Placement {
    pub(super) fn choose() -> Self {
        let all = cpu::allowed().unwrap_or_default();
        let core = cpu::claim_core_cpu();
        let is_core = |cpu: &usize| core.as_ref().is_some_and(|core| core.cpu == *cpu);
        let programs = match &core {
            Some(_) => all.iter().copied().filter(|cpu| !is_core(cpu)).collect(),
            None => Vec::new(),
        };
        Self {
            core,
            programs,
            all,
        }
    }

    /// The CPUs of programs: all there are where the core has none of its own.
    pub(super) fn for_programs(&self) -> &[usize] {
        match self.programs.as_slice() {
            [] => &self.all,
            programs => programs,
        }
    }

    /// Guard: gives the calling thread its CPUs back when dropped, since another run may follow.
    pub(super) fn restore_later(&self) -> PriorCpus {
        PriorCpus(self.all.clone())
    }

    pub(super) fn machine(&self, core: CoreFacts) -> Machine {
        summary::machine(core, self.programs.clone(), self.all.len())
    }
}
