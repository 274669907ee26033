//! An emulation under any clock: the network, what the file has scheduled in it, and its modelled
//! hosts.
//!
//! [`Emulation`] reads no clock and depends on no operating system. A loop with a clock drives it: the
//! loop of the real clock in `longhaul-lab`, with programs' packets coming and going, and the loop
//! of the virtual one here ([`VirtualRun`]), which jumps to whatever comes next. Both put packets,
//! changes and timers in the same order; they differ in when they wake up.
#![forbid(unsafe_code)]

mod applied;
mod emulation;
mod endpoints;
mod hosts;
#[cfg(test)]
mod tests;
mod virtual_time;

pub use applied::{Applied, Known};
pub use emulation::{Emulation, PipeState};
pub use hosts::{Delivered, Out};
pub use virtual_time::{Clocks, GRID, Outcome, Stop, VirtualConfig, VirtualRun, Watch};
