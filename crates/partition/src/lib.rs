//! Which core emulates what: partitions of a network over emulation cores.
//!
//! Purpose: spread the work of an experiment over cores so that few packets cross from one to
//! another, no core has much more to do than the others, and cores may run far ahead of each
//! other. After K. Yocum et al., "Toward Scaling Network Emulation using Topology Partitioning"
//! (MASCOTS 2003): expected traffic ([`matrix`]) becomes flows on pipes ([`flows`]), these a
//! weighted graph ([`graph`]), and a [`Partitioner`] splits its vertices. [`predict`] says what a
//! partition costs before anything runs, [`model`] is the paper's cost of one packet in closed
//! form, and [`saved`] keeps a partition in a file.
//!
//! The same topology, traffic, method, number of cores and seed give the same partition on every
//! machine: weights are computed in a fixed order with the four basic operations alone, and METIS
//! (C, by the crate `metis`) is built with its own random numbers.
//!
//! Left out: the engine that runs on several cores; moving pipes during a run.
#![forbid(unsafe_code)]

pub mod conservative;
pub mod costs;
pub mod flows;
pub mod graph;
pub mod lookahead;
pub mod matrix;
pub mod method;
pub mod model;
mod partition;
pub mod predict;
pub mod problem;
pub mod saved;
mod tree;

pub use method::Method;
pub use partition::{MAX_CORES, Partition, Partitioner};
