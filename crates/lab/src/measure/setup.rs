//! State shared by the loop, the recorder's thread, and the callers that start captures.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::{PipeId, Span};
use longhaul_plan::measure::Timeline;
use longhaul_plan::plan::Plan;

use super::capture::{CaptureId, Wanted};

/// What is measured.
#[derive(Debug)]
pub(super) struct Setup {
    /// The width of bins before any widening, where there are any.
    pub(super) every: Option<Span>,
    /// The interval at which modelled TCP connections are sampled.
    pub(super) connections: Option<Span>,
    pub(super) pipes: Vec<PipeId>,
    pub(super) flows: bool,
    pub(super) core: bool,
    pub(super) timelines: Arc<[Timeline]>,
    /// Those of the file; their numbers come first.
    pub(super) captures: Vec<Arc<Wanted>>,
    /// Whether packets are taken away between bins, too.
    drains: AtomicBool,
    /// Captures that nobody reads any more.
    ended: Mutex<BTreeSet<CaptureId>>,
    any_ended: AtomicBool,
    /// How often bins, and sampling intervals, have doubled: for the supervisor, to which no samples come back.
    doublings: AtomicU32,
    /// Whether hosts or connections are sampled.
    pub(super) samples_hosts: bool,
}

impl Setup {
    pub(super) fn of(plan: &Plan) -> Self {
        let measure = &plan.measure;
        let bins = measure.bins.as_ref();
        let wanted = measure.captures.iter().map(Wanted::of);
        let drains = !measure.captures.is_empty() || !measure.timelines.is_empty();
        Self {
            every: bins.map(|bins| bins.every),
            connections: measure.connections.filter(|_| plan.traffic.flows > 0),
            pipes: bins.map_or_else(Vec::new, |bins| bins.pipes.clone()),
            flows: bins.is_some_and(|bins| bins.flows),
            core: bins.is_some_and(|bins| bins.core),
            timelines: measure.timelines.clone().into(),
            captures: wanted.collect(),
            drains: AtomicBool::new(drains),
            ended: Mutex::default(),
            any_ended: AtomicBool::new(false),
            doublings: AtomicU32::new(0),
            samples_hosts: measure.connections.is_some() || measure.hosts.is_some(),
        }
    }

    /// From now on packets are taken away between bins.
    pub(super) fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
    }

    pub(super) fn drains(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    pub(super) fn doublings(&self) -> u32 {
        self.doublings.load(Ordering::Relaxed)
    }

    pub(super) fn set_doublings(&self, doublings: u32) {
        self.doublings.store(doublings, Ordering::Relaxed);
    }

    /// Nobody reads a capture any more.
    pub(super) fn end_capture(&self, capture: CaptureId) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.insert(capture);
        self.any_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn any_has_ended(&self) -> bool {
        self.any_ended.load(Ordering::Relaxed)
    }

    pub(super) fn has_ended(&self, capture: CaptureId) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.contains(&capture)
    }
}
