//! One execution of a plan, with programs on this machine ([`live`]) or in virtual time
//! ([`virtual_time`]), up to its summary and its report.

mod attempts;
mod busiest;
mod context;
mod ledger;
mod linux_machine;
mod live;
pub mod virtual_time;

use std::path::{Path, PathBuf};

use longhaul_plan::plan::{Plan, RunClock};

pub use attempts::{Attempts, run_until};
pub use context::{Cores, Observer, Progress, RunError, RunOptions};
pub(crate) use context::{RunStart, io_error};
pub(crate) use ledger::SECONDS;
pub use live::ring_configs;

use crate::folder::RunFolder;
use crate::network::NetworkFile;
use crate::report::Extent;
use crate::summary::Summary;
use linux_machine::LinuxMachine;

/// Runs a plan and returns its summary, which is also in the run folder.
///
/// Call it while the process has one thread.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    let begun = RunStart::now();
    let mut machine = LinuxMachine::default();
    let resources = match plan.clock {
        RunClock::Real => Some(live::MachineResources::choose(plan, options)?),
        RunClock::Virtual => {
            virtual_time::memory::Needs::of(plan).check(&machine)?;
            None
        }
    };
    let folder = RunFolder::create(&options.out, &options.experiment_text, options.force)?;
    // A drawing is worth no run.
    let _ = folder.write("network.json", &NetworkFile::of(plan).to_json());
    let result = match &resources {
        Some(resources) => live::run(plan, options, (&folder, resources), observer, begun),
        None => {
            let cores = &options.cores;
            virtual_time::run(plan, &folder, observer, &mut machine, (cores, begun))
        }
    };
    match result {
        Ok(summary) => Ok(write_down(summary, &folder, begun)),
        Err(error) => {
            if matches!(error, RunError::Sandbox(_)) {
                folder.abandon();
            }
            Err(error)
        }
    }
}

/// Writes the summary and the report.
fn write_down(mut summary: Summary, folder: &RunFolder, begun: RunStart) -> Summary {
    summary.wall_s = begun.passed().as_secs_f64();
    summary.cpu_s = begun.used().as_secs_f64();
    // A folder that cannot be written any more must not cost the result.
    let text = summary.to_json();
    if let Err(error) = folder.write("summary.json", &text) {
        summary.error.get_or_insert(error.to_string());
    }
    let report = crate::report::html(folder.path(), Some(&text), &Extent::at_end());
    if let Err(error) = folder.write("report.html", &report) {
        summary.error.get_or_insert(error.to_string());
    }
    summary
}

/// The default place of run folders, below the working folder.
pub fn default_out(plan: &Plan) -> PathBuf {
    RunFolder::next_free(Path::new("longhaul-runs"), &plan.name)
}
