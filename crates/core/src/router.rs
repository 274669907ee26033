//! The interface between forwarding and a router's control plane.
//!
//! The engine forwards; writing replies is protocol work. So it *punts* the rare packets that need a reply
//! or fragments to a [`Responder`] (`longhaul-proto` has the real one), together with the reason. The call
//! is synchronous: a reply leaves its router at the time of the packet that it answers.

use crate::topology::Node;

/// Why a router punts a packet to its control plane instead of forwarding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PuntReason {
    /// The packet is addressed to the router: it answers an echo request and refuses the rest.
    Local,
    /// TTL or hop limit ran out.
    HopLimit,
    /// The packet exceeds the next pipe's MTU (in bytes of IP) and must not be fragmented.
    TooBig {
        /// The next pipe's MTU.
        mtu: u32,
    },
    /// No node has the destination's address, or no path leads there.
    NoRoute,
}

/// Writes the packets that routers originate.
///
/// Frames are whole Ethernet frames without FCS, with every header edit already applied.
pub trait Responder: Send {
    /// Writes the answer of `router` to `frame` into `reply` and returns its length; `None`
    /// where the standards ask for silence (RFC 1812 §4.3.2.7, RFC 4443 §2.4 e).
    fn respond(
        &mut self,
        router: &Node,
        reason: PuntReason,
        frame: &[u8],
        reply: &mut [u8],
    ) -> Option<usize>;

    /// Writes fragment number `index` of the IPv4 packet in `frame` for a pipe of `mtu` bytes
    /// into `out` and returns its length; `None` past the last fragment.
    fn fragment(&mut self, frame: &[u8], mtu: u32, index: u32, out: &mut [u8]) -> Option<usize>;
}

/// A responder that never answers and never fragments.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Responder for Silent {
    fn respond(&mut self, _: &Node, _: PuntReason, _: &[u8], _: &mut [u8]) -> Option<usize> {
        None
    }

    fn fragment(&mut self, _: &[u8], _: u32, _: u32, _: &mut [u8]) -> Option<usize> {
        None
    }
}
