//! Time series of a run: one row per second, and one per second and busy pipe.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use longhaul_core::observe::PipeCounters;
use longhaul_linux::clock::MachineTime;

use super::Network;
use crate::fidelity::Second;
use crate::folder::RunFolder;
use crate::measure::columns::Kind::{Real, Whole};
use crate::measure::columns::{Declared, EACH, SHARE, Take, column};

/// The columns of `series/seconds.csv`.
pub(crate) const SECONDS: Declared = &[
    column("second", Whole),
    column("packets", Whole).shown("packets", EACH),
    column("late", Whole).shown("late", Take::Sum),
    column("late_stall", Whole).shown("late_stall", Take::Sum),
    column("late_overload", Whole).shown("late_overload", Take::Sum),
    column("late_other", Whole).shown("late_other", Take::Sum),
    column("episodes", Whole).shown("episodes", Take::Sum),
    column("lateness_p50_ns", Whole).shown("lateness_p50", Take::Most),
    column("lateness_p99_ns", Whole).shown("lateness_p99", Take::Most),
    column("lateness_p999_ns", Whole).shown("lateness_p999", Take::Most),
    column("lateness_max_ns", Whole).shown("lateness_max", Take::Most),
    column("physical_drops", Whole).shown("physical_drops", Take::Sum),
    column("inside", Whole).shown("inside", Take::Last),
    column("core_busy", Real).shown("busy", Take::Level),
    column("core_wait_ns", Whole).shown("wait", SHARE),
    column("core_load", Real),
    column("stalls", Whole).shown("stalls", Take::Sum),
    column("stalled_ns", Whole).shown("stalled", Take::Sum),
    column("core_stall_ns", Whole).shown("stall_max", Take::Most),
    column("stolen_ns", Whole).shown("stolen", Take::Sum),
];

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
        let columns: Vec<_> = SECONDS.iter().map(|column| column.name).collect();
        writeln!(seconds, "{}", columns.join(","))?;
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
