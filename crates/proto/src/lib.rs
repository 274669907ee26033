//! Protocol models of Longhaul, without input or output.
//!
//! Purpose: what routers say ([`RouterReplies`]), TCP endpoints ([`tcp`]) and
//! modelled traffic made of them ([`modelled`]), and what the name service of a run answers ([`names`]).
//! Every model takes what arrives (and, where it needs it, the time) as arguments and returns
//! what leaves, so that the same code serves a live run and a run in virtual time. What arrives
//! is hostile: each length is checked, and what is not sound gets no answer.
//!
//! Left out: forwarding (`longhaul-core`), sockets (`longhaul-linux`).
#![forbid(unsafe_code)]

mod fragment;
mod icmp;
mod ip;
pub mod modelled;
pub mod names;
mod router;
pub mod tcp;
mod udp;

pub use router::RouterReplies;
