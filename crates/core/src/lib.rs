//! The packet engine of Longhaul.
//!
//! Purpose: carry packets hop by hop over an emulated network, exactly and
//! deterministically. The crate does no input or output, reads no clock, blocks never and
//! holds no `unsafe`: time is an argument of every call, so a live run, a dilated run and a
//! run in virtual time drive the same code.
//!
//! Left out: the experiment file (`longhaul-plan`), protocol replies (`longhaul-proto`),
//! system calls (`longhaul-linux`).
#![forbid(unsafe_code)]

pub mod element;
pub mod engine;
pub mod observe;
pub mod parallel;
pub mod params;
mod pending;
mod pipe;
mod pool;
pub mod rng;
pub mod route;
pub mod segment;
mod special;
pub mod time;
pub mod topology;
pub mod trace;
pub mod units;
pub mod witness;

pub use engine::{Egress, Engine, EngineConfig, Modelled, Refused, host_mac};
pub use time::{Span, Time};
pub use topology::{NodeId, PipeId, Topology};

pub mod packet;
pub mod router;
