//! What limits a host's CPU and memory.

mod census;
pub mod duty;
pub mod scope;
#[cfg(test)]
mod testing;
pub mod watchdog;
