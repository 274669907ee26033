//! What became of modelled flows: one line each in `flows.csv`, the first of them and a summary
//! of each entry of the file in `summary.json`.
//!
//! Percentiles are exact: the nearest rank of all completion times of an entry. Jain's index is
//! that of the goodputs of its flows, (Σx)² / (n·Σx²): 1 where all are equal, 1/n where one has
//! all (Jain, Chiu and Hawe, DEC-TR-301, 1984).
//!
//! Left out: how flows come about (`traffic`), and charts of them (`report`).

mod results;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use longhaul_core::{Span, Time};
use longhaul_proto::modelled::WindowPoint;
use serde::{Deserialize, Serialize};

use crate::folder::RunFolder;
pub(crate) use results::write_down;

/// So many flows are in `summary.json`; all are in `flows.csv`.
pub const FLOWS_MAX: usize = 10_000;

/// What is known of a flow at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FlowRecord {
    /// Payload that arrived.
    pub bytes: u64,
    /// When it started.
    pub start: Time,
    /// When all of its payload had arrived; `None` where that has not happened.
    pub finish: Option<Time>,
    /// Data segments that were sent again.
    pub retransmissions: u64,
    /// The smallest, the mean and the largest round trip.
    pub round_trip: Option<[Span; 3]>,
    /// Whether it gave up.
    pub failed: bool,
    /// Of requests and responses.
    pub requests: Option<RequestSummary>,
    /// Of datagrams.
    pub datagrams: Option<DatagramSummary>,
}

impl FlowRecord {
    /// How long it took.
    pub fn completion(&self) -> Option<Span> {
        self.finish.map(|finish| finish.since(self.start))
    }

    /// Payload over time in bits per second; of a flow without end, until `end`.
    pub fn goodput_bps(&self, end: Time) -> f64 {
        let finish = self.finish.unwrap_or(end);
        8.0 * finish.since(self.start).per_second(self.bytes)
    }
}

/// One modelled flow as `summary.json` holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// The host that opened it.
    pub from: String,
    /// The other end.
    pub to: String,
    /// `tcp` or `udp`.
    pub model: String,
    /// Payload that arrived.
    pub bytes: u64,
    /// When it started, in experiment time.
    pub start_s: f64,
    /// When all of its payload had arrived; `null` where that has not happened.
    pub finish_s: Option<f64>,
    /// From the one to the other.
    pub completion_s: Option<f64>,
    /// Payload over time; of a flow without finish, until the end of the run.
    pub goodput_bps: f64,
    /// Data segments that were sent again.
    pub retransmissions: u64,
    /// Round trips; `null` without a sample.
    pub rtt_ns: Option<RoundTrips>,
    /// Whether it gave up.
    pub failed: bool,
    /// Of requests and responses; else `null`.
    pub requests: Option<RequestSummary>,
    /// Of datagrams; else `null`.
    pub datagrams: Option<DatagramSummary>,
}

/// Requests and responses of a flow. Times are from a request to the end of its response.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RequestSummary {
    pub completed: u64,
    pub min_s: Option<f64>,
    pub mean_s: Option<f64>,
    pub max_s: Option<f64>,
}

/// Datagrams of a flow, as its receiver saw them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct DatagramSummary {
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub delay_min_s: Option<f64>,
    pub delay_mean_s: Option<f64>,
    pub delay_max_s: Option<f64>,
    pub jitter_s: f64,
    /// ICMP errors that the sender got; earlier versions did not count them.
    #[serde(default)]
    pub errors: u64,
}

/// Round trips of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RoundTrips {
    pub min: u64,
    pub mean: u64,
    pub max: u64,
}

/// All flows of an entry of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// The entry's name.
    pub name: String,
    /// Its flows that started.
    pub flows: u64,
    /// Those that finished.
    pub finished: u64,
    /// Those that gave up.
    pub failed: u64,
    /// Payload of all that arrived.
    pub bytes: u64,
    /// Data segments that were sent again.
    pub retransmissions: u64,
    /// Completion times; `null` where none finished.
    pub completion_s: Option<Percentiles>,
    /// The mean of the goodputs.
    pub goodput_bps: f64,
    /// Jain's index of the goodputs; `null` with no flow, or none that got anything.
    pub jain: Option<f64>,
}

/// The spread of a set of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Percentiles {
    /// By the nearest rank; `None` of no values. Sorts them.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |part: f64| {
            values[((values.len() as f64 * part).ceil() as usize).clamp(1, last + 1) - 1]
        };
        Some(Self {
            min: values[0],
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: values[last],
        })
    }
}

/// What `summary.json` holds of flows.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// The first of them.
    pub(crate) list: Vec<FlowSummary>,
    /// How many there were in all.
    pub(crate) seen: u64,
    /// Each entry of the file.
    pub(crate) groups: Vec<GroupSummary>,
}

/// Gathers flows and writes them down.
pub(crate) struct FlowWriter {
    csv: BufWriter<File>,
    /// Where the series of flows goes, which is begun with the first of them.
    series: (PathBuf, Option<BufWriter<File>>),
    end: Time,
    flows: Flows,
    open: Option<OpenGroup>,
}

/// An entry whose flows are still coming.
struct OpenGroup {
    summary: GroupSummary,
    completions: Vec<f64>,
    sum: f64,
    squares: f64,
}

impl FlowWriter {
    /// Begins `flows.csv` of a run that ended at `end`.
    pub(crate) fn create(folder: &RunFolder, end: Time) -> io::Result<Self> {
        let mut csv = BufWriter::new(File::create(folder.flows())?);
        writeln!(
            csv,
            "flow,from,to,model,bytes,start_s,finish_s,completion_s,goodput_bps,retransmissions,\
             rtt_min_ns,rtt_mean_ns,rtt_max_ns,failed,requests,request_min_s,request_mean_s,\
             request_max_s,sent,received,lost,duplicates,reordered,delay_min_s,delay_mean_s,\
             delay_max_s,jitter_s,errors"
        )?;
        Ok(Self {
            csv,
            series: (folder.series("flows.csv"), None),
            end,
            flows: Flows::default(),
            open: None,
        })
    }

    /// Writes down the congestion window of a flow, change by change.
    pub(crate) fn add_series(&mut self, name: &str, points: &[WindowPoint]) -> io::Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        let (path, file) = &mut self.series;
        let file = match file {
            Some(file) => file,
            None => {
                let mut new = BufWriter::new(File::create(&*path)?);
                writeln!(new, "time_s,flow,cwnd,ssthresh")?;
                file.insert(new)
            }
        };
        for point in points {
            let (at, cwnd) = (point.at.as_s(), point.cwnd);
            match point.ssthresh {
                // No threshold has been set.
                u32::MAX => writeln!(file, "{at},{name},{cwnd},")?,
                ssthresh => writeln!(file, "{at},{name},{cwnd},{ssthresh}")?,
            }
        }
        Ok(())
    }

    /// Adds a flow of the entry `group`; flows of an entry come together.
    pub(crate) fn add(
        &mut self,
        group: &str,
        [name, from, to]: [String; 3],
        model: &str,
        record: &FlowRecord,
    ) -> io::Result<()> {
        let goodput = record.goodput_bps(self.end);
        self.count(group, record, goodput);
        self.flows.seen += 1;
        let flow = FlowSummary {
            name,
            from,
            to,
            model: model.to_owned(),
            bytes: record.bytes,
            start_s: record.start.as_s(),
            finish_s: record.finish.map(Time::as_s),
            completion_s: record.completion().map(Span::as_s),
            goodput_bps: goodput,
            retransmissions: record.retransmissions,
            rtt_ns: record.round_trip.map(|[min, mean, max]| RoundTrips {
                min: min.as_ns(),
                mean: mean.as_ns(),
                max: max.as_ns(),
            }),
            failed: record.failed,
            requests: record.requests,
            datagrams: record.datagrams,
        };
        self.write(&flow)?;
        if self.flows.list.len() < FLOWS_MAX {
            self.flows.list.push(flow);
        }
        Ok(())
    }

    fn write(&mut self, flow: &FlowSummary) -> io::Result<()> {
        let some = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let rtt = flow.rtt_ns;
        let trip = |pick: fn(&RoundTrips) -> u64| {
            rtt.as_ref()
                .map_or(String::new(), |rtt| pick(rtt).to_string())
        };
        write!(
            self.csv,
            "{},{},{},{},{},{},{},{},{:.0},{},{},{},{},{}",
            flow.name,
            flow.from,
            flow.to,
            flow.model,
            flow.bytes,
            flow.start_s,
            some(flow.finish_s),
            some(flow.completion_s),
            flow.goodput_bps,
            flow.retransmissions,
            trip(|rtt| rtt.min),
            trip(|rtt| rtt.mean),
            trip(|rtt| rtt.max),
            flow.failed,
        )?;
        match &flow.requests {
            Some(of) => {
                let times = [of.min_s, of.mean_s, of.max_s].map(some);
                write!(self.csv, ",{},{}", of.completed, times.join(","))?;
            }
            None => write!(self.csv, ",,,,")?,
        }
        match &flow.datagrams {
            Some(of) => {
                let counts = [of.sent, of.received, of.lost, of.duplicates, of.reordered];
                let counts = counts.map(|count| count.to_string()).join(",");
                let delays = [of.delay_min_s, of.delay_mean_s, of.delay_max_s].map(some);
                let (jitter, errors) = (of.jitter_s, of.errors);
                writeln!(self.csv, ",{counts},{},{jitter},{errors}", delays.join(","))
            }
            None => writeln!(self.csv, ",,,,,,,,,,"),
        }
    }

    fn count(&mut self, group: &str, record: &FlowRecord, goodput: f64) {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.summary.name != group)
        {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| OpenGroup::new(group));
        let summary = &mut open.summary;
        summary.flows += 1;
        summary.finished += u64::from(record.finish.is_some());
        summary.failed += u64::from(record.failed);
        summary.bytes += record.bytes;
        summary.retransmissions += record.retransmissions;
        open.completions.extend(record.completion().map(Span::as_s));
        open.sum += goodput;
        open.squares += goodput * goodput;
    }

    fn close(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let flows = open.summary.flows as f64;
        open.summary.completion_s = Percentiles::of(&mut open.completions);
        open.summary.goodput_bps = open.sum / flows;
        let jain = open.sum * open.sum / (flows * open.squares);
        open.summary.jain = Some(jain).filter(|jain| jain.is_finite());
        self.flows.groups.push(open.summary);
    }

    /// Writes out what is still buffered.
    pub(crate) fn finish(mut self) -> io::Result<Flows> {
        self.close();
        if let Some(file) = &mut self.series.1 {
            file.flush()?;
        }
        self.csv.flush()?;
        Ok(self.flows)
    }
}

impl OpenGroup {
    fn new(name: &str) -> Self {
        Self {
            summary: GroupSummary {
                name: name.to_owned(),
                flows: 0,
                finished: 0,
                failed: 0,
                bytes: 0,
                retransmissions: 0,
                completion_s: None,
                goodput_bps: 0.0,
                jain: None,
            },
            completions: Vec::new(),
            sum: 0.0,
            squares: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_ranks() {
        let mut values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let all = Percentiles::of(&mut values).unwrap();
        let expected = Percentiles {
            min: 1.0,
            mean: 500.5,
            p50: 500.0,
            p90: 900.0,
            p99: 990.0,
            p999: 999.0,
            max: 1000.0,
        };
        assert_eq!(all, expected);
        assert_eq!(Percentiles::of(&mut []), None);
        assert_eq!(
            Percentiles::of(&mut [7.0]).map(|p| (p.p50, p.max)),
            Some((7.0, 7.0))
        );
    }

    #[test]
    fn entries_are_summed_up() {
        let path = std::env::temp_dir().join(format!("longhaul-flows-{}", std::process::id()));
        let folder = RunFolder::create(&path, "", true).unwrap();
        let mut writer = FlowWriter::create(&folder, Time::from_ns(4_000_000_000)).unwrap();
        let flow = |bytes, finish: Option<u64>| FlowRecord {
            bytes,
            start: Time::from_ns(1_000_000_000),
            finish: finish.map(|s| Time::from_ns(s * 1_000_000_000)),
            ..FlowRecord::default()
        };
        let name = || ["f", "a", "b"].map(str::to_owned);
        writer.add("x", name(), "tcp", &flow(300, Some(2))).unwrap();
        writer.add("x", name(), "tcp", &flow(300, None)).unwrap();
        writer.add("y", name(), "udp", &flow(0, None)).unwrap();
        let flows = writer.finish().unwrap();
        let lines = std::fs::read_to_string(folder.flows()).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let [x, y] = flows.groups.as_slice() else {
            panic!("two entries")
        };
        assert_eq!((x.flows, x.finished, x.bytes), (2, 1, 600));
        // 2400 and 800 bit/s: (3200)² / (2·(5.76 + 0.64)·10⁶).
        assert_eq!(x.jain, Some(0.8));
        assert_eq!(x.completion_s.unwrap().max, 1.0);
        assert_eq!((y.flows, y.jain), (1, None));
        assert_eq!(lines.lines().count(), 4);
        assert!(
            lines.contains("f,a,b,tcp,300,1,2,1,2400,0,,,,false,,"),
            "{lines}"
        );
    }
}
