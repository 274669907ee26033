//! Captures: which packets to record, and the file that other tools read.
//!
//! Purpose: a [`Filter`] chooses among the packets that a [`Witness`] of the engine sees, and a
//! [`Writer`] puts them into a pcapng file. Both take a [`Packet`]; neither allocates for one.
//! docs/captures.md describes the file and the language.
//!
//! Left out: threads, files and clocks (they are the caller's), reading captures.
//!
//! [`Witness`]: longhaul_core::witness::Witness
#![forbid(unsafe_code)]

mod block;
mod drops;
pub mod filter;
mod packet;
pub mod writer;

pub use drops::{drop_comment, drop_name};
pub use filter::{Filter, FilterError};
pub use packet::Packet;
pub use writer::{Direction, Interface, Limits, Section, Writer};
