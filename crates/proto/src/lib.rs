//! Protocol models of Longhaul, without input or output.
//!
//! Purpose: what routers say. Every model takes bytes (and, where it needs one, the time) as
//! arguments and returns bytes, so that the same code serves a live run and a run in virtual
//! time. Bytes are hostile: each length is checked, and what is not sound gets no answer.
//!
//! Left out: forwarding (`longhaul-core`), sockets (`longhaul-linux`).
#![forbid(unsafe_code)]

mod fragment;
mod icmp;
mod ip;
mod router;
mod tcp;
mod udp;

pub use router::RouterReplies;
