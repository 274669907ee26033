//! From a plan to a report: plan → run → report.
//!
//! A [`run`](mod@run) is one execution of a [plan](longhaul_plan::plan::Plan): with programs on
//! this machine, or in virtual time.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod compare;
pub mod connections;
pub mod control;
pub mod fidelity;
pub mod flows;
pub mod folder;
mod http;
pub mod info;
mod measure;
pub mod network;
pub mod noise;
mod pace;
pub mod partition;
pub mod report;
pub mod resources;
pub mod run;
pub mod saved;
pub mod sockets;
pub mod summary;
