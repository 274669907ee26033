//! An emulation under any clock: the network, what the file has scheduled in it, and its modelled
//! hosts.
//!
//! [`Emulation`] reads no clock and knows no operating system. Whoever has a clock drives it: the
//! loop of the real clock in `longhaul-lab`, with programs' packets coming and going, and the loop
//! of the virtual one here ([`VirtualRun`]), which jumps to whatever comes next. Both put the same
//! things in the same order; what differs between them is when they look, and a page each.
#![forbid(unsafe_code)]

mod emulation;
mod endpoints;
mod hosts;
#[cfg(test)]
mod tests;
mod virtual_time;

pub use emulation::{Applied, Emulation, Look};
pub use hosts::{Delivered, Out};
pub use longhaul_proto::traffic::Error as TrafficError;
pub use virtual_time::{GRID, Outcome, Stop, VirtualRun};
