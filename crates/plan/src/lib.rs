//! From text to numbers: an experiment file, checked against nothing but itself, becomes a plan.
//!
//! Only this crate knows the file's format ([`file`]). [`topology`] makes networks by name and
//! reads them from other formats; [`mod@plan`] lowers all of it to ids and numbers: nodes and
//! pipes, programs, a [`schedule`] of changes ([`mod@patch`]) and modelled flows ([`flow_groups`]).
//! The same file means the same on every machine, so nothing here knows an operating system; it
//! reads files that an experiment names, and nothing else.
#![forbid(unsafe_code)]

pub mod assign;
pub mod described;
pub mod early_release;
pub mod elements;
pub mod fields;
pub mod file;
pub mod flow_groups;
pub mod limits;
pub mod measure;
mod names;
pub mod patch;
pub mod plan;
pub mod schedule;
pub mod select;
mod text;
pub mod topology;
pub mod trace_file;
