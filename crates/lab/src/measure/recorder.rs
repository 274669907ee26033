//! The recorder's thread: turns samples into rows, rows into parts, captured packets into files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::MachineTime;
use longhaul_plan::measure::{Capture, Format};
use longhaul_plan::plan::Plan;

use super::capture::{CaptureFile, CaptureId, Captured, Wanted};
use super::columns::Declared;
use super::files::{self, Headline};
use super::parts::Parts;
use super::reserve::{self, Reserve};
use super::rows::{self, HostRow, Names};
use super::sample::Sample;
use super::sampler::{Sampler, Wait};
use super::setup::Setup;
use crate::connections::Connection;
use crate::folder::RunFolder;
use crate::summary::{CaptureSummary, SeriesSummary};

/// Samples in flight between the loop and the thread.
const SAMPLES: usize = 4;
/// The most samples of hosts and connections that wait for the thread.
const HOST_SAMPLES: usize = 16;
/// How long a run that ends waits for readers of captures.
const DELIVERY: Duration = Duration::from_secs(2);
/// How often the thread checks for parts that have to be saved.
const SAVE_CHECK: Duration = Duration::from_millis(500);

/// The messages to the thread.
pub(super) enum Message {
    Sample(Box<Sample>),
    /// A capture begins that the file knew nothing of.
    Capture(CaptureId, Box<CaptureFile>),
    /// A capture ends, once what has been recorded so far is in it.
    EndCapture(CaptureId, SyncSender<Captured>),
    Hosts(Vec<HostRow>),
    Connections(Vec<(Time, Connection)>),
}

/// The loop's way to the thread, and the samples that come back empty.
pub(crate) struct ToRecorder {
    messages: Sender<Message>,
    empties: Receiver<Box<Sample>>,
}

impl ToRecorder {
    /// Without a thread: there is no sample to be filled.
    #[cfg(test)]
    pub(super) fn to_nobody() -> Self {
        Self {
            messages: channel().0,
            empties: channel().1,
        }
    }

    /// A sample to be filled; `None` where the thread is behind and the loop does not wait for it.
    pub(super) fn empty_sample(&self, wait: Wait) -> Option<Box<Sample>> {
        match wait {
            Wait::Yes => self.empties.recv().ok(),
            Wait::No => self.empties.try_recv().ok(),
        }
    }

    /// Hands over a sample. The number of samples bounds the queue to the thread.
    pub(super) fn send(&self, sample: Box<Sample>) {
        let _ = self.messages.send(Message::Sample(sample));
    }
}

/// What has been written down.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Each series that has rows.
    pub(crate) series: Vec<SeriesSummary>,
    /// Each capture.
    pub(crate) captures: Vec<CaptureSummary>,
    /// What is worth knowing.
    pub(crate) warnings: Vec<String>,
}

/// Whoever writes down what a run measures.
pub(crate) struct Recorder {
    setup: Arc<Setup>,
    messages: Sender<Message>,
    thread: Option<JoinHandle<Outcome>>,
    headline: Headline,
    captures_seen: CaptureId,
    /// Samples of hosts that wait for the thread, and those for which there was no room.
    host_samples_waiting: Arc<AtomicUsize>,
    host_samples_left_out: u64,
}

impl Recorder {
    /// Starts the thread, and gives the loop's side of it.
    pub(crate) fn start(plan: &Plan, folder: &RunFolder) -> io::Result<(Self, Sampler)> {
        let setup = Arc::new(Setup::of(plan));
        let (messages, inbox) = channel();
        let (returns, empties) = channel();
        for _ in 0..SAMPLES {
            let _ = returns.send(Box::default());
        }
        let headline = Headline::of(plan);
        let host_samples_waiting = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&host_samples_waiting);
        let mut scribe = Scribe::new(plan, folder, Arc::clone(&setup), (returns, waiting));
        for (number, capture) in (0..).zip(&plan.measure.captures) {
            scribe.open_capture(number, capture, &headline, plan, folder);
        }
        let thread = std::thread::Builder::new().name("longhaul-recorder".to_owned());
        let thread = thread.spawn(move || scribe.run(&inbox))?;
        let to = ToRecorder {
            messages: messages.clone(),
            empties,
        };
        let recorder = Self {
            captures_seen: plan.measure.captures.len() as CaptureId,
            setup: Arc::clone(&setup),
            messages,
            thread: Some(thread),
            headline,
            host_samples_waiting,
            host_samples_left_out: 0,
        };
        Ok((recorder, Sampler::new(setup, to)))
    }

    /// Begins a capture that a caller asks for; returns its number, and what the loop has to record.
    pub(crate) fn begin_capture(
        &mut self,
        capture: &Capture,
        open: impl FnOnce(&Headline) -> io::Result<CaptureFile>,
    ) -> io::Result<(CaptureId, Arc<Wanted>)> {
        let file = open(&self.headline)?;
        let number = self.captures_seen;
        self.captures_seen += 1;
        let _ = self.messages.send(Message::Capture(number, Box::new(file)));
        self.setup.drain();
        Ok((number, Wanted::of(capture)))
    }

    /// How often the sampling interval has doubled, so that series stay within their room on disk.
    pub(crate) fn doublings(&self) -> u32 {
        self.setup.doublings()
    }

    /// Ends such a capture; its totals are sent to the receiver.
    pub(crate) fn end_capture(&self, number: CaptureId) -> Receiver<Captured> {
        let (done, answer) = sync_channel(1);
        let _ = self.messages.send(Message::EndCapture(number, done));
        answer
    }

    /// What hosts have used.
    pub(crate) fn hosts(&mut self, rows: Vec<HostRow>) {
        self.send_host_sample(Message::Hosts(rows));
    }

    /// TCP connections, and when each was as it is.
    pub(crate) fn connections(&mut self, rows: Vec<(Time, Connection)>) {
        self.send_host_sample(Message::Connections(rows));
    }

    /// Hands over a sample of hosts, or drops it where a slow disk holds up the thread and its queue is full.
    fn send_host_sample(&mut self, sample: Message) {
        if self.host_samples_waiting.load(Ordering::Relaxed) >= HOST_SAMPLES {
            self.host_samples_left_out += 1;
            return;
        }
        self.host_samples_waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.messages.send(sample);
    }

    /// Waits until everything is written. The loop's side must be gone.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.messages = channel().0; // the thread ends when nobody can send to it
        let thread = self.thread.take();
        let outcome = thread.and_then(|thread| thread.join().ok());
        let mut outcome = outcome.unwrap_or_else(|| Outcome {
            warnings: vec!["the thread that writes series ended early, so series may be incomplete; please report this".to_owned()],
            ..Outcome::default()
        });
        if self.host_samples_left_out > 0 {
            let warning = format!(
                "{} samples of hosts and TCP connections are missing from the series: the disk was too slow",
                self.host_samples_left_out
            );
            outcome.warnings.push(warning);
        }
        outcome
    }
}

/// A series under way.
struct Series {
    name: &'static str,
    parts: Parts,
}

/// A capture under way.
struct Open {
    number: CaptureId,
    file: CaptureFile,
    /// Who waits for its end.
    ending: Option<SyncSender<Captured>>,
}

/// The thread's own.
struct Scribe {
    setup: Arc<Setup>,
    returns: Sender<Box<Sample>>,
    host_samples_waiting: Arc<AtomicUsize>,
    names: Names,
    series: Vec<Series>,
    /// What all series may take on disk, and what of that is for packets.
    disk_bytes: u64,
    packets_bytes: u64,
    every: Option<Span>,
    /// How often bins have doubled their width.
    doublings: u32,
    captures: Vec<Open>,
    passages_missed: u64,
    latest: Time,
    /// Whether nothing more is written to series.
    ended: bool,
    /// Whether something has found no room.
    disk_is_full: bool,
    /// Room for the results of the run, until something finds none.
    reserve: Option<Reserve>,
    outcome: Outcome,
}

/// Series by number.
const ALL: [(&str, Declared); 6] = [
    ("pipes", rows::PIPES),
    ("flows", rows::FLOWS),
    ("core", rows::CORE),
    ("packets", rows::PACKETS),
    ("hosts", rows::HOSTS),
    ("connections", rows::CONNECTIONS),
];
const PIPES: usize = 0;
const FLOWS: usize = 1;
const CORE: usize = 2;
const PACKETS: usize = 3;
const HOSTS: usize = 4;
const CONNECTIONS: usize = 5;

impl Scribe {
    fn new(
        plan: &Plan,
        folder: &RunFolder,
        setup: Arc<Setup>,
        (returns, host_samples_waiting): (Sender<Box<Sample>>, Arc<AtomicUsize>),
    ) -> Self {
        let format = plan.measure.format;
        let mut outcome = Outcome::default();
        if format == Format::Parquet && !cfg!(feature = "parquet") {
            let note = "this build has no Parquet: series are CSV";
            outcome.warnings.push(note.to_owned());
        }
        let series = ALL.map(|(name, columns)| Series {
            name,
            parts: Parts::new(
                folder.series(name),
                (format, plan.measure.disk_bytes),
                columns,
            ),
        });
        Self {
            names: Names::new(Arc::clone(&plan.topology)),
            every: setup.every,
            setup,
            returns,
            host_samples_waiting,
            series: series.into(),
            disk_bytes: plan.measure.disk_bytes,
            packets_bytes: if plan.measure.timelines.is_empty() {
                0
            } else {
                plan.measure.disk_bytes / 2 // wider bins cannot make up for packets
            },
            doublings: 0,
            captures: Vec::new(),
            passages_missed: 0,
            latest: Time::ZERO,
            ended: false,
            disk_is_full: false,
            reserve: if plan.measure.writes() {
                Reserve::new(folder.path()).ok()
            } else {
                None
            },
            outcome,
        }
    }

    /// Opens the file of a capture that the plan asks for.
    fn open_capture(
        &mut self,
        number: CaptureId,
        capture: &Capture,
        headline: &Headline,
        plan: &Plan,
        folder: &RunFolder,
    ) {
        match files::open(capture, headline, plan, folder) {
            Ok(file) => self.captures.push(Open {
                number,
                file,
                ending: None,
            }),
            Err(error) => {
                let name = &capture.name;
                let warning = format!("the capture of {name} could not be made: {error}");
                self.outcome.warnings.push(warning);
                self.setup.end_capture(number);
            }
        }
    }

    fn run(mut self, inbox: &Receiver<Message>) -> Outcome {
        loop {
            match inbox.recv_timeout(SAVE_CHECK) {
                Ok(Message::Sample(sample)) => self.take(sample),
                Ok(Message::Capture(number, file)) => self.captures.push(Open {
                    number,
                    file: *file,
                    ending: None,
                }),
                Ok(Message::EndCapture(number, done)) => {
                    let mut captures = self.captures.iter_mut();
                    if let Some(open) = captures.find(|open| open.number == number) {
                        open.ending = Some(done);
                    }
                }
                Ok(Message::Hosts(hosts)) => {
                    self.host_samples_waiting.fetch_sub(1, Ordering::Relaxed);
                    rows::hosts(self.series[HOSTS].parts.table(), &hosts, &self.names);
                }
                Ok(Message::Connections(list)) => {
                    self.host_samples_waiting.fetch_sub(1, Ordering::Relaxed);
                    let table = self.series[CONNECTIONS].parts.table();
                    rows::connections(table, &list, &self.names);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            self.save(|parts| parts.save(MachineTime::now()));
            self.give_way();
        }
    }

    /// Once the disk is full, ends everything that is measured into files, and frees the reserved room for the
    /// results.
    fn give_way(&mut self) {
        let mut failed = self.captures.iter().filter_map(|open| open.file.failed());
        let is_full = self.disk_is_full || failed.any(reserve::is_full);
        if is_full && self.reserve.take().is_some() {
            let captures = self.captures.iter_mut();
            captures.for_each(|open| open.file.give_up());
            self.end("the disk is full");
        }
    }

    fn take(&mut self, mut sample: Box<Sample>) {
        self.latest = self.latest.max(sample.until);
        let bin = (sample.start, sample.until);
        let (names, series) = (&self.names, &mut self.series);
        rows::pipes(series[PIPES].parts.table(), &mut sample.pipes, bin, names);
        let flows = (&mut sample.flows, &sample.others);
        rows::flows(series[FLOWS].parts.table(), flows, bin, names);
        if let Some(core) = &sample.core {
            rows::core(series[CORE].parts.table(), core, bin);
        }
        let packets = &mut series[PACKETS].parts;
        if packets.reckoned() >= self.packets_bytes {
            sample.passages_missed += sample.passages.len() as u64;
            sample.passages.clear();
        }
        rows::packets(packets.table(), &mut sample.passages, names);
        let connections = series[CONNECTIONS].parts.table();
        // Each core has reported its own hosts.
        sample
            .connections
            .sort_by_key(|(_, of)| (of.host, of.local, of.remote, of.id));
        rows::connections(connections, &sample.connections, names);
        self.passages_missed += sample.passages_missed;
        for open in &mut self.captures {
            let own = sample
                .chunks
                .extract_if(.., |chunk| chunk.capture == open.number);
            open.file.add(own.collect(), sample.until);
        }
        self.end_captures();
        sample.clear();
        sample.doublings = self.doublings;
        let _ = self.returns.send(sample);
    }

    /// Ends captures that somebody wants ended, or that cannot be written any more. Whoever reads along
    /// sees the end of the file when the capture is gone.
    fn end_captures(&mut self) {
        let latest = self.latest;
        self.captures.retain_mut(|open| {
            if open.ending.is_some() || open.file.failed().is_some() {
                self.setup.end_capture(open.number);
            }
            let Some(done) = open.ending.take() else {
                return true;
            };
            open.file.finish(latest);
            let _ = done.send(open.file.captured());
            false
        });
    }

    /// Saves all series, and sees to what they may take on disk.
    fn save(&mut self, save: impl Fn(&mut Parts) -> io::Result<()>) {
        if !self.ended {
            self.save_all(save);
            let parts = self.series.iter().map(|series| &series.parts);
            let total: u64 = parts.map(Parts::reckoned).sum();
            let total = total - self.series[PACKETS].parts.reckoned();
            let room = self.disk_bytes - self.packets_bytes;
            if total >= room && !self.ended {
                self.save_all(Parts::finish);
                let why = format!(
                    "`measure.disk` allows only {} bytes; give it more, or measure less",
                    self.disk_bytes
                );
                self.end(&why);
            }
            self.widen(total, room);
        }
        if self.ended {
            let all = self.series.iter_mut();
            all.for_each(|series| series.parts.forget());
        }
    }

    fn save_all(&mut self, save: impl Fn(&mut Parts) -> io::Result<()>) {
        for number in 0..self.series.len() {
            let series = &mut self.series[number];
            if let Err(error) = save(&mut series.parts) {
                let why = format!("series/{} could not be written: {error}", series.name);
                self.disk_is_full |= reserve::is_full(&error);
                return self.end(&why);
            }
        }
    }

    /// Nothing more is written to series.
    fn end(&mut self, why: &str) {
        if !self.ended {
            let at = self.latest.as_s();
            let warning = format!("series end at {at} s of experiment time: {why}");
            self.outcome.warnings.push(warning);
            self.ended = true;
        }
    }

    /// Bins double their width when half of the room is used, again at two thirds, three quarters, four fifths and
    /// so on. Each step lasts longer than the one before, because the rate of rows halves while the room of a step
    /// shrinks by less. If each step had half of the remaining room, all would last equally long, and measuring
    /// would end after some 10 of them.
    fn widen(&mut self, total: u64, room: u64) {
        let left = room.saturating_sub(total).max(1);
        let wanted = u32::try_from(total / left).unwrap_or(u32::MAX);
        let before = self.doublings;
        self.doublings = before.max(wanted);
        if wanted > before && !self.ended {
            self.setup.set_doublings(wanted);
            let bins = self.every.map(|every| {
                let width = rows::widened(every, wanted);
                format!("bins are {width} wide instead of {every}, ")
            });
            let times = 1_u64 << wanted.min(40);
            let host_samples = if self.setup.samples_hosts {
                &*format!("hosts and TCP connections are sampled {times} times less often, ")
            } else {
                ""
            };
            let warning = format!(
                "from {} s of experiment time on, {}{host_samples}to keep the series within `measure.disk`",
                self.latest.as_s(),
                bins.unwrap_or_default()
            );
            self.outcome.warnings.push(warning);
        }
    }

    fn finish(mut self) -> Outcome {
        self.save(Parts::finish);
        self.give_way();
        if self.passages_missed > 0 {
            let missed = self.passages_missed;
            let warning = format!(
                "series/packets lacks {missed} packets: choose a shorter `for` or a larger `measure.disk`"
            );
            self.outcome.warnings.push(warning);
        }
        for series in &self.series {
            if series.parts.rows() > 0 {
                self.outcome.series.push(SeriesSummary {
                    name: series.name.to_owned(),
                    rows: series.parts.rows(),
                    bytes: series.parts.bytes(),
                });
            }
        }
        let mut deliveries = Vec::new();
        for Open { mut file, .. } in self.captures {
            file.finish(self.latest);
            self.outcome.warnings.extend(file.warning());
            self.outcome.captures.extend(file.summary());
            deliveries.extend(file.close());
        }
        // The process that ends takes along what its readers have not got by then.
        let until = MachineTime::now() + DELIVERY;
        for delivery in deliveries {
            delivery.wait(until.since(MachineTime::now()));
        }
        self.outcome
    }
}
