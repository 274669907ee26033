//! What a run writes down as it goes on: series with bins, captures, packets one by one.
//!
//! The loop that drives the network takes a [`Sample`](sample::Sample) at each edge of a bin, when every event
//! before the edge is done and none after it has begun, and hands it to the thread of the [`Recorder`], which
//! turns samples into rows and writes them. A live loop never waits for that thread: while no empty sample is
//! free, the bin stays open and becomes wider, so sums stay exact. A virtual loop waits, so that its series do
//! not depend on the machine.
//!
//! **Bounds.** Four samples are in flight at most; a sample's flows, packets and captured bytes are bounded, and
//! those beyond are counted. A series keeps its unsaved rows in memory ([`parts`]). On disk, all series together
//! take what `measure.disk` says: bins double in width when half of it is used, again at two thirds, three
//! quarters and so on. Single packets, which wider bins do not reduce, have half of it, and are only counted
//! beyond. A full disk ends all measuring, and leaves room for the results of the run ([`reserve`]).
//!
//! Left out: rows of each second, which [the ledger](crate::run) writes, and what they mean for the verdict.

mod capture;
pub(crate) mod columns;
mod encode;
mod files;
mod flows;
mod outlet;
mod parts;
pub(crate) mod read;
mod recorder;
mod reserve;
pub(crate) mod rows;
mod sample;
mod sampler;
mod setup;
mod timeline;

pub(crate) use capture::{CaptureId, Captured, Wanted};
pub(crate) use files::stream;
pub(crate) use recorder::{Outcome, Recorder};
pub(crate) use rows::HostRow;
pub(crate) use sample::CoreBin;
pub(crate) use sampler::{Sampler, Wait};
