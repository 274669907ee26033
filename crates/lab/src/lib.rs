//! From an experiment file to a report: file → plan → run → report.
//!
//! Only this crate knows the file's format ([`file`]); a [`plan`] is the file checked against
//! nothing but itself and lowered to numbers; a [`run`](mod@run) is one execution of it.
#![forbid(unsafe_code)]

pub mod assign;
pub mod calibrate;
pub mod clock;
pub mod compare;
pub mod control;
pub mod described;
pub mod drive;
pub mod elements;
mod endpoints;
#[cfg(debug_assertions)]
mod faults;
pub mod fidelity;
pub mod file;
pub mod flows;
pub mod folder;
mod governor;
mod logs;
mod nic;
pub mod patch;
pub mod plan;
mod programs;
pub mod report;
pub mod run;
pub mod schedule;
mod series;
pub mod simulate;
pub mod sockets;
mod steering;
pub mod summary;
pub mod topology;
pub mod trace_file;
pub mod traffic;
mod trim;
