//! TCP (RFC 9293) as Linux speaks it, at the level of segments, without clock, input or output.
//!
//! Purpose: endpoints for modelled traffic. An [`Endpoint`] is one end of one connection; its
//! bytes are counted, not carried. Verbs: what happens goes in by [`Endpoint::handle_segment`]
//! and [`Endpoint::handle_timeout`], what follows comes out of [`Endpoint::poll_transmit`] (until
//! it gives `None`), [`Endpoint::poll_timeout`] and [`Endpoint::poll_event`]; the application's
//! side is [`Endpoint::write`], [`Endpoint::read`] and [`Endpoint::close`].
//!
//! Theory: `docs/tcp-model.md` says what is modelled, after which source, and what is left out.
//! Windows are counted in segments, as in Linux; sequence numbers have 64 bits, start at 0 and
//! never wrap ([`wire`] turns them into the 32 bits of a header and back). All arithmetic is of
//! integers or of IEEE operations that every machine rounds alike.
//!
//! Left out: payload, urgent data, keep-alives, path MTU changes, segmentation offload.

mod config;
pub mod congestion;
mod endpoint;
mod ranges;
mod receiver;
pub(crate) mod reset;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod state;
mod windowed;
pub mod wire;

pub use config::{Algorithm, Config, EcnMode};
pub use endpoint::Endpoint;
pub use rtt::RoundTrips;
pub use segment::{Ecn, Flags, Range, Sacks, Segment, SynOptions, Timestamps};
pub use state::{Event, Info, Phase, State};
