//! Time series of a run: one row per second, and one per second and busy pipe.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use longhaul_core::observe::PipeCounters;
use longhaul_linux::clock::MachineTime;

use super::Network;
use crate::fidelity::Second;
use crate::folder::RunFolder;

/// The files `series/seconds.csv` and `series/pipes.csv`, written as the run goes on.
#[derive(Debug)]
pub(crate) struct Series {
    seconds: BufWriter<File>,
    pipes: BufWriter<File>,
    names: Vec<String>,
    before: Vec<PipeCounters>,
    /// When what was buffered was last written out.
    flushed: MachineTime,
}

/// How long rows may stay in memory, which a kill would lose; a virtual run has thousands meanwhile.
const UNSAVED: Duration = Duration::from_secs(1);

impl Series {
    /// Begins both files. `names` are the pipes', by number.
    pub(crate) fn create(folder: &RunFolder, names: Vec<String>) -> io::Result<Self> {
        let open = |name: &str| File::create(folder.series(name)).map(BufWriter::new);
        let (mut seconds, mut pipes) = (open("seconds.csv")?, open("pipes.csv")?);
        writeln!(
            seconds,
            "second,packets,late,late_stall,late_overload,late_other,episodes,lateness_p50_ns,lateness_p99_ns,lateness_p999_ns,lateness_max_ns,\
             physical_drops,inside,core_busy,core_wait_ns,core_load,\
             stalls,stalled_ns,core_stall_ns,stolen_ns"
        )?;
        writeln!(
            pipes,
            "second,pipe,packets,bytes,drops_queue,drops_loss,drops_down,marked,busy_ns"
        )?;
        let before = vec![PipeCounters::default(); names.len()];
        Ok(Self {
            seconds,
            pipes,
            names,
            before,
            flushed: MachineTime::now(),
        })
    }

    /// Adds a second.
    pub(crate) fn add(&mut self, second: &Second, network: &Network) -> io::Result<()> {
        let l = &second.lateness;
        writeln!(
            self.seconds,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{:.3},{},{:.3},{},{},{},{}",
            second.number,
            second.shares.packets,
            second.shares.late,
            second.by_cause.stall,
            second.by_cause.overload,
            second.by_cause.other,
            second.shares.episodes,
            l.p50,
            l.p99,
            l.p999,
            l.max,
            second.drops.total(),
            network.inside,
            second.core_busy,
            second.core_wait.as_nanos(),
            second.core_load,
            second.stalls.count,
            second.stalls.total_ns,
            second.stalls.longest_ns,
            second.stolen.as_nanos(),
        )?;
        for ((name, now), before) in self.names.iter().zip(&network.pipes).zip(&mut self.before) {
            if now != before {
                writeln!(
                    self.pipes,
                    "{},{name},{},{},{},{},{},{},{}",
                    second.number,
                    now.packets - before.packets,
                    now.bytes - before.bytes,
                    now.drops_queue - before.drops_queue,
                    now.drops_loss - before.drops_loss,
                    now.drops_down - before.drops_down,
                    now.marked - before.marked,
                    now.busy_ns - before.busy_ns,
                )?;
                *before = *now;
            }
        }
        let now = MachineTime::now();
        if now.since(self.flushed) >= UNSAVED {
            self.flushed = now;
            self.seconds.flush()?;
            self.pipes.flush()?;
        }
        Ok(())
    }

    /// Writes out what is still buffered.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.seconds.flush()?;
        self.pipes.flush()
    }
}
