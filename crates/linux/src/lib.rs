//! Everything of Longhaul that talks to the Linux kernel.
//!
//! Purpose: the only crate with system calls and `unsafe`. It makes a run's namespaces and
//! hosts ([`sandbox`]), and plain cables to compare them with ([`cable`]), carries packets between hosts
//! and the engine ([`packet_io`]), waits to the microsecond ([`wait`]), reads clocks ([`clock`]), asks
//! kernels for their TCP connections ([`connections`]), knows CPUs ([`cpu`], [`core_thread`]) and memory
//! ([`memory`]), limits what hosts have of both ([`resources`]), and removes folders of dead processes
//! ([`locked_folder`]).
//!
//! System calls are those of `rustix`, at the place of use. What it lacks goes through `libc`, with a
//! proof for each `unsafe`: signals, `clone3`, `exec`, packet sockets and their rings, batches of
//! messages, ioctls. Neither sees the other's errors: `rustix` leaves `errno` alone.
//!
//! Left out: what the packets mean (`longhaul-core`) and what a run is (`longhaul-lab`).
// The one crate that may read clocks.
#![allow(clippy::disallowed_methods)]

pub mod cable;
pub mod channel;
pub mod clock;
pub mod connections;
pub mod core_thread;
pub mod cpu;
pub mod doctor;
mod epoll;
mod ethtool;
mod exit_cleanup;
mod groups;
pub mod locked_folder;
pub mod memory;
mod netlink;
pub mod packet_io;
mod procfs;
pub mod real_time;
pub mod resources;
pub mod sandbox;
pub mod socket;
mod sys;
mod threads;
pub mod wait;

pub use sys::{
    log_pipe, raise_open_files, user_and_group, wait_readable, wait_readable_or_unread,
    wait_writable,
};
