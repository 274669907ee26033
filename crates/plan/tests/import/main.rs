//! Topologies from published formats: small files written by hand, real data where it is there
//! (in the folder that the variable `LONGHAUL_DATA` names), and hostile bytes.

mod common;
mod formats;
mod hostile;
mod published;
mod sets;
#[path = "../../../../tests/skip.rs"]
mod skip;
