//! From what the file says of measurements to [`Measure`].

use longhaul_core::units::Bytes;
use longhaul_core::{PipeId, Span, Time};

use super::network::Network;
use crate::file::measure::{CaptureSpec, FormatSpec, MeasureSpec, PacketsSpec, PointSpec};
use crate::file::wrap::{At, Either, OneOrMany, Quantity};
use crate::limits::RunClock;
use crate::measure::{
    Bins, CAPTURE_BYTES, Capture, ChosenBy, DISK_BYTES, Format, Measure, Point, SNAPLEN, Timeline,
};
use crate::select::Budget;
use crate::text::error::{Faults, near_miss, shown};

/// The narrowest and the widest bin.
const WIDTHS: std::ops::RangeInclusive<Span> = Span::from_ms(1)..=Span::from_s(3600);
const EVERY: Span = Span::from_s(1);
/// The most pipes that may be captured, or followed packet by packet, in all.
const WATCHED_MAX: usize = 10_000;
/// The least that series and captures may be given on disk.
const BYTES_MIN: u64 = 1_000_000;
const SERIES: [&str; 3] = ["pipes", "flows", "core"];

/// Lowers what is measured.
pub(crate) fn lower(
    spec: Option<&MeasureSpec>,
    network: &Network<'_>,
    faults: &mut Faults,
) -> Measure {
    let Some(spec) = spec else {
        return Measure::default();
    };
    let names = Names {
        network,
        budget: Budget::default(),
    };
    let mut watched = 0;
    let captures = spec.capture.iter().filter_map(|entry| {
        let capture = match entry.0.as_ref()? {
            Either::Short(name) => names.capture_all(name, faults),
            Either::Long(spec) => names.capture(&spec.value, faults),
        }?;
        watched += capture.pipes.len();
        Some(capture)
    });
    let captures: Vec<Capture> = captures.collect();
    let timelines = spec.packets.iter().filter_map(|entry| {
        let timeline = names.timeline(entry.0.as_ref()?, faults)?;
        watched += timeline.pipes.len();
        Some(timeline)
    });
    let timelines: Vec<Timeline> = timelines.collect();
    if watched > WATCHED_MAX
        && let Some(at) = spec.first_watched()
    {
        let message =
            format!("{watched} pipes to be captured or followed, and {WATCHED_MAX} at most");
        faults.add(at, message, "name fewer links");
    }
    Measure {
        bins: names.bins(spec, faults),
        connections: width(spec.connections.as_ref(), "connections", faults),
        hosts: width(spec.hosts.as_ref(), "hosts", faults),
        format: match spec.format {
            Some(FormatSpec::Csv) => Format::Csv,
            Some(FormatSpec::Parquet) | None => Format::Parquet,
        },
        disk_bytes: bytes(spec.disk.as_ref(), "disk", DISK_BYTES, faults),
        captures,
        timelines,
    }
}

/// The warning that the measurements deserve, if any.
pub(crate) fn warning(measure: &Measure, clock: RunClock) -> Option<String> {
    (clock == RunClock::Virtual && measure.hosts.is_some()).then(|| {
        "`measure.hosts` has no effect: no program runs on hosts in virtual time".to_owned()
    })
}

impl MeasureSpec {
    /// Where the first pipe is named that is captured or followed.
    fn first_watched(&self) -> Option<crate::text::error::Pos> {
        let captures = self.capture.iter().filter_map(|entry| match &entry.0 {
            Some(Either::Short(name)) => Some(name.at),
            Some(Either::Long(spec)) => Some(spec.at),
            None => None,
        });
        let packets = self.packets.iter().filter_map(|entry| entry.0.as_ref());
        captures.chain(packets.map(|spec| spec.at)).next()
    }
}

/// What names in the file stand for.
struct Names<'a> {
    network: &'a Network<'a>,
    budget: Budget,
}

impl Names<'_> {
    /// The pipes of some names, sorted, each once; nothing where a name has a problem.
    fn pipes(&self, names: &OneOrMany, faults: &mut Faults) -> Option<Vec<PipeId>> {
        let (mut pipes, mut whole) = (Vec::new(), true);
        for name in &names.items {
            match self
                .network
                .pipes(&name.value, &self.budget, faults.is_full())
            {
                Ok(found) => pipes.extend(found),
                Err(error) => {
                    self.budget.refuse(name.at, error, faults);
                    whole = false;
                }
            }
        }
        pipes.sort_unstable();
        pipes.dedup();
        whole.then_some(pipes)
    }

    fn bins(&self, spec: &MeasureSpec, faults: &mut Faults) -> Option<Bins> {
        let named = !spec.links.items.is_empty();
        if spec.every.is_none() && spec.of.items.is_empty() && !named {
            return None;
        }
        let every = match &spec.every {
            Some(_) => width(spec.every.as_ref(), "every", faults),
            None => Some(EVERY),
        };
        let mut wanted = [spec.of.items.is_empty(); SERIES.len()];
        for word in &spec.of.items {
            match SERIES.iter().position(|series| *series == word.value) {
                Some(number) => wanted[number] = true,
                None => {
                    let message = format!("`{}` is not a series", shown(&word.value));
                    let list = "write `pipes`, `flows` or `core`; `connections` and `hosts` are \
                                fields with intervals of their own";
                    let hint = match near_miss(&word.value, SERIES) {
                        Some(meant) => format!("did you mean `{meant}`? {list}"),
                        None => list.to_owned(),
                    };
                    faults.add(word.at, message, hint);
                }
            }
        }
        let [pipes, flows, core] = wanted;
        let all = || (0..self.network.topology.pipes().len() as u32).map(PipeId);
        let pipes = match (pipes, named) {
            (true, true) => self.pipes(&spec.links, faults)?,
            (true, false) => all().collect(),
            (false, false) => Vec::new(),
            (false, true) => {
                let at = spec.links.items[0].at;
                let message = "`links` chooses pipes to measure, but `of` leaves out `pipes`";
                faults.add(at, message, "add `pipes` to `of`, or remove `links`");
                return None;
            }
        };
        Some(Bins {
            every: every?,
            pipes,
            flows,
            core,
        })
    }

    /// A capture of which nothing but the link is said.
    fn capture_all(&self, name: &At<String>, faults: &mut Faults) -> Option<Capture> {
        let names = OneOrMany {
            listed: false,
            items: vec![name.clone()],
        };
        Some(Capture {
            name: name.value.clone(),
            pipes: self.pipes(&names, faults)?,
            point: Point::Exit,
            filter: None,
            snaplen: SNAPLEN,
            size: CAPTURE_BYTES,
        })
    }

    fn capture(&self, spec: &CaptureSpec, faults: &mut Faults) -> Option<Capture> {
        let pipes = self.pipes(&spec.link, faults);
        let snaplen = match &spec.snaplen {
            None => Some(SNAPLEN),
            Some(snaplen) => snaplen.get(faults).and_then(|Bytes(bytes)| {
                let fits = u32::try_from(bytes)
                    .ok()
                    .filter(|n| (1..=SNAPLEN).contains(n));
                if fits.is_none() {
                    let message = format!("a `snaplen` of {bytes} B");
                    let hint =
                        format!("write 1 B to {SNAPLEN} B, or leave it out for all of a packet");
                    faults.add(snaplen.at(), message, hint);
                }
                fits
            }),
        };
        let filter = match &spec.filter {
            None => Some(None),
            Some(filter) => match ChosenBy::parse(&filter.value, self.network.topology) {
                Ok(filter) => Some(Some(filter)),
                Err(error) => {
                    let message = format!("filter, column {}: {}", error.column, error.message);
                    faults.add(filter.at, message, error.hint);
                    None
                }
            },
        };
        let size = bytes(spec.size.as_ref(), "size", CAPTURE_BYTES, faults);
        let names = spec.link.items.iter().map(|name| name.value.as_str());
        Some(Capture {
            name: names.collect::<Vec<_>>().join("+"),
            pipes: pipes?,
            point: match spec.at {
                PointSpec::Entry => Point::Entry,
                PointSpec::Exit => Point::Exit,
            },
            filter: filter?,
            snaplen: snaplen?,
            size,
        })
    }

    fn timeline(&self, spec: &At<PacketsSpec>, faults: &mut Faults) -> Option<Timeline> {
        let PacketsSpec { link, from, lasts } = &spec.value;
        let pipes = self.pipes(link, faults);
        let from = match from {
            Some(from) => from.get(faults),
            None => Some(Span::ZERO),
        };
        let lasts = match lasts {
            Some(lasts) => super::pipe::positive(lasts, "for", faults).map(Some),
            None => Some(None),
        };
        let from = Time::ZERO + from?;
        let until = lasts?.map_or(Time::MAX, |lasts| from + lasts);
        Some(Timeline {
            pipes: pipes?,
            from,
            until,
        })
    }
}

/// A width or interval within bounds.
fn width(field: Option<&Quantity<Span>>, name: &str, faults: &mut Faults) -> Option<Span> {
    let field = field?;
    let span = field.get(faults)?;
    if !WIDTHS.contains(&span) {
        let (least, most) = WIDTHS.into_inner();
        let message = format!("`{name}` is {span}, but must be {least} to {most}");
        faults.add(
            field.at(),
            message,
            format!("write it like `{name}: 10 ms`"),
        );
        return None;
    }
    Some(span)
}

/// A size on disk.
fn bytes(field: Option<&Quantity<Bytes>>, name: &str, default: u64, faults: &mut Faults) -> u64 {
    let Some(field) = field else {
        return default;
    };
    match field.get(faults) {
        Some(Bytes(bytes)) if bytes >= BYTES_MIN => bytes,
        Some(Bytes(bytes)) => {
            let message = format!("`{name}` is {bytes} B, below the minimum of 1 MB");
            faults.add(field.at(), message, format!("write it like `{name}: 2 GB`"));
            default
        }
        None => default,
    }
}
