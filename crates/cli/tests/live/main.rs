//! Live tests: real programs in real namespaces, through the binary.
//!
//! Each test writes an experiment, runs `longhaul` on it and looks at what is left: exit code,
//! summary, logs, processes. They hold the promises that only a kernel can break: counters that
//! close, names that resolve, hosts that do not see one another, and nothing left behind after
//! any end.
//!
//! Rules: one run at a time; counters are exact; a set delay is a hard lower bound, and figures of
//! time are medians over several attempts, held to bounds that `tests/faults.sh` proves sharp, never
//! a maximum or a p99; those of `oracle.rs` are what the verdict itself grants; a run may be called unfaithful on a busy machine, so exit 0 and 3 are both
//! fine.
//! Random choices come from `LONGHAUL_SEED` if it is set, and the seed is printed.

// Tests wait for other processes, by the clock.
#![allow(clippy::disallowed_methods)]

#[cfg(debug_assertions)]
mod attempts;
mod calibrate;
mod cleanup;
mod control;
mod events;
// Release builds have no faults to plant.
#[cfg(debug_assertions)]
mod faults;
mod folder;
mod identity;
mod info;
mod isolation;
mod lab;
mod lan;
mod load;
mod modelled;
mod names;
mod network;
mod offload;
mod oracle;
mod outcome;
mod programs;
mod rates;
#[path = "../../../capture/tests/common/reader.rs"]
#[allow(dead_code)]
mod reader;
mod record;
mod resources;
mod scale;
#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../common/table.rs"]
#[allow(dead_code)]
mod table;
mod traces;
mod traffic;
mod tunnels;
mod user;
