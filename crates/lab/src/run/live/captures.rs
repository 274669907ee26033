//! Captures that callers ask for: packets of a run under way, written to the caller's descriptor.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use longhaul_plan::measure::{CAPTURE_BYTES, Capture, ChosenBy, Point, SNAPLEN};

use super::supervise::Supervisor;
use crate::control::{CapturePoint, CaptureRequest, Reply};
use crate::measure::{Captured, stream};
use crate::run::live::drive::Command;

/// The most captures of callers at a time.
const CAPTURES_MAX: usize = 16;
/// How long the end of a capture may take.
const END: Duration = Duration::from_secs(2);

impl Supervisor<'_> {
    /// Begins a capture for a caller, who has sent where it goes.
    pub(super) fn begin_capture(
        &mut self,
        index: usize,
        request: &CaptureRequest,
        fds: &[OwnedFd],
    ) -> Reply {
        let refused = |reason: &str| Reply::Error(reason.to_owned());
        let under_way = self
            .callers
            .iter()
            .filter(|caller| caller.capture.is_some());
        if under_way.count() >= CAPTURES_MAX {
            return refused("too many captures at once: end one first");
        }
        if self.callers[index].capture.is_some() {
            return refused("this connection has a capture already");
        }
        let Some(to) = fds.first().and_then(|fd| fd.try_clone().ok()) else {
            return refused("a capture needs a file descriptor to write to");
        };
        let capture = match self.wanted(request) {
            Ok(capture) => capture,
            Err(reason) => return Reply::Error(reason),
        };
        let begun = self.recorder.begin_capture(&capture, |headline| {
            stream(&capture, headline, self.plan, to)
        });
        let (number, wanted) = match begun {
            Ok(begun) => begun,
            Err(error) => return Reply::Error(format!("the capture cannot begin: {error}")),
        };
        self.callers[index].capture = Some(number);
        let (done, answer) = sync_channel(1);
        self.core.command(Command::Capture {
            number,
            wanted,
            done,
        });
        match answer.recv_timeout(END) {
            Ok(at) => Reply::Capturing {
                pipes: self.names(&capture.pipes),
                at_s: at.as_s(),
            },
            Err(_) => refused("the core did not answer in time: is this machine overloaded?"),
        }
    }

    fn wanted(&self, request: &CaptureRequest) -> Result<Capture, String> {
        let pipes = self.plan.find_pipes(&request.link);
        let pipes = pipes.map_err(|error| error.to_string())?;
        let filter = request.filter.as_ref();
        let filter = filter.map(|text| ChosenBy::parse(text, &self.plan.topology));
        let filter = filter.transpose().map_err(|error| error.to_string())?;
        let snaplen = request.snaplen.unwrap_or(SNAPLEN);
        if !(1..=SNAPLEN).contains(&snaplen) {
            return Err(format!(
                "a snaplen of {snaplen} B is impossible: write 1 to {SNAPLEN}"
            ));
        }
        Ok(Capture {
            name: request.link.clone(),
            pipes,
            point: match request.at {
                CapturePoint::Entry => Point::Entry,
                CapturePoint::Exit => Point::Exit,
            },
            filter,
            snaplen,
            size: request.size_bytes.unwrap_or(CAPTURE_BYTES),
        })
    }

    /// Ends a caller's capture, and says what is in it.
    pub(super) fn end_capture(&mut self, index: usize) -> Reply {
        let Some(captured) = self.ask_for_end(index) else {
            return Reply::Error("this connection has no capture".to_owned());
        };
        match captured.recv_timeout(END) {
            Ok(Captured { packets, missed }) => Reply::Captured { packets, missed },
            Err(_) => Reply::Error("the end of the capture could not be written".to_owned()),
        }
    }

    /// Ends a caller's capture, if it has one.
    pub(super) fn ask_for_end(&mut self, index: usize) -> Option<Receiver<Captured>> {
        let number = self.callers[index].capture.take()?;
        Some(self.recorder.end_capture(number))
    }
}
