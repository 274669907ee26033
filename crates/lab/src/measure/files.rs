//! The files of captures: their names, and what they say of themselves.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use longhaul_capture::{Direction, Interface, Limits, Section, Writer};
use longhaul_core::PipeId;
use longhaul_linux::clock::realtime_ns;
use longhaul_plan::measure::{Capture, Point};
use longhaul_plan::plan::{Plan, RunClock};

use super::capture::{CaptureFile, Destination};
use super::outlet::Outlet;
use crate::folder::RunFolder;
use crate::summary::{CoreFacts, machine};

/// What all files of a run say of themselves.
#[derive(Debug, Clone)]
pub(crate) struct Headline {
    comment: String,
    hardware: String,
    os: String,
}

impl Headline {
    /// Of a run that is about to begin.
    pub(super) fn of(plan: &Plan) -> Self {
        // A virtual run's file does not depend on when it was made.
        let began = match plan.clock {
            RunClock::Virtual => String::new(),
            _ => {
                let now = realtime_ns();
                let (s, ms) = (now / 1_000_000_000, now / 1_000_000 % 1000);
                format!(" The run began {s}.{ms:03} s after that by the machine's clock.")
            }
        };
        let machine = machine(CoreFacts::default(), Vec::new(), 0);
        let payload = match plan.traffic.flows {
            0 => "",
            _ => " The payload of modelled packets is zeros.",
        };
        Self {
            comment: format!(
                "Experiment {}, seed {}. Times are experiment time: t = 0 is \
                 1970-01-01T00:00:00Z.{began}{payload}",
                plan.name, plan.seed
            ),
            hardware: machine.processor,
            os: format!("Linux {}", machine.kernel),
        }
    }
}

/// Opens the file of a capture.
pub(super) fn open(
    capture: &Capture,
    headline: &Headline,
    plan: &Plan,
    folder: &RunFolder,
) -> io::Result<CaptureFile> {
    let (path, name) = free_path(folder, &capture.name)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600) // packets may hold passwords
        .open(&path)?;
    let to = Destination::File(name);
    make(capture, headline, plan, (Box::new(file), to))
}

/// A capture that goes to a reader, who may come to a stop or go away.
pub(crate) fn stream(
    capture: &Capture,
    headline: &Headline,
    plan: &Plan,
    to: OwnedFd,
) -> io::Result<CaptureFile> {
    let (outlet, writer) = Outlet::new(to)?;
    let to = Destination::Reader(outlet);
    make(capture, headline, plan, (Box::new(writer), to))
}

fn make(
    capture: &Capture,
    headline: &Headline,
    plan: &Plan,
    (out, to): (Box<dyn Write + Send>, Destination),
) -> io::Result<CaptureFile> {
    let section = Section {
        hardware: &headline.hardware,
        os: &headline.os,
        application: concat!("Longhaul ", env!("CARGO_PKG_VERSION")),
        comment: &headline.comment,
    };
    let topology = &plan.topology;
    let (end, direction) = match capture.point {
        Point::Entry => ("entry", Direction::Outbound),
        Point::Exit => ("exit", Direction::Inbound),
    };
    let descriptions: Vec<String> = capture
        .pipes
        .iter()
        .map(|&pipe| format!("{end} of {}", topology.pipe(pipe).name))
        .collect();
    let filter = capture.filter.as_ref();
    let filter = filter.map_or("", |filter| filter.text.as_str());
    let interface = |(&pipe, description): (&PipeId, &'_ String)| (pipe, description.clone());
    let interfaces: Vec<(PipeId, String)> = capture
        .pipes
        .iter()
        .zip(&descriptions)
        .map(interface)
        .collect();
    let interfaces: Vec<Interface<'_>> = interfaces
        .iter()
        .map(|(pipe, description)| Interface {
            name: &topology.pipe(*pipe).name,
            description,
            filter,
            bits_per_s: topology
                .pipe(*pipe)
                .params
                .rate
                .map(|rate| rate.bits_per_s()),
            direction: Some(direction),
        })
        .collect();
    let names = topology.nodes().iter().flat_map(|node| {
        let addresses: [IpAddr; 2] = [node.ipv4.into(), node.ipv6.into()];
        addresses.map(|address| (address, &*node.name))
    });
    let limits = Limits {
        snaplen: capture.snaplen,
        file: capture.size,
    };
    let writer = Writer::new(out, limits, &section, &interfaces, names)?;
    let (links, pipes) = (&capture.name, &capture.pipes);
    Ok(CaptureFile::new(writer, links, to, pipes))
}

/// A path for a capture of such links that no other has, and its name below the run folder.
fn free_path(folder: &RunFolder, links: &str) -> io::Result<(PathBuf, String)> {
    let base = folder.path().join("captures");
    fs::create_dir_all(&base)?;
    let safe = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-_.+#".contains(c) => c.to_string(),
        '>' => "-to-".to_owned(),
        _ => "_".to_owned(),
    };
    let stem: String = links.chars().take(60).map(safe).collect();
    let names = std::iter::once(format!("{stem}.pcapng"));
    let more = (2..10_000).map(|number| format!("{stem}-{number}.pcapng"));
    let free = names.chain(more).find(|name| !base.join(name).exists());
    let name = free.ok_or_else(|| io::Error::other("too many captures of one name"))?;
    Ok((base.join(&name), format!("captures/{name}")))
}
