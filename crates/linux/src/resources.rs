//! What limits a host's CPU and memory.

pub mod duty;
pub mod scope;
pub mod watchdog;
