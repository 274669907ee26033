//! Modelled packets: their headers are real, their payload is zeros that nobody stores.
//!
//! Purpose: endpoints that are models send and receive packets like all others, which queues,
//! marks, hashes, routers and real hosts see as what they would be on a wire. Only the bytes that
//! a header has are kept, so that a packet in a queue costs its descriptor
//! ([`PACKET_BYTES`](super::PACKET_BYTES)) and a slot of [`MODELLED_SLOT`] bytes, whatever its length.
//!
//! What does need a whole packet (a router that quotes or splits it) gets one, made for the
//! occasion; and what it writes is a modelled packet again, cut behind its last byte that is not
//! zero. Zeros add nothing to a checksum (RFC 1071), so all checksums are those of the whole.
//!
//! Left out: modelled packets for groups.

use super::{Egress, Engine, Refused};
use crate::packet::{self, Destination, Headers, Refusal};
use crate::packet::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN};
use crate::pool::{LONGEST_FRAME, LONGEST_PACKET};
use crate::router::Responder;
use crate::time::Time;
use crate::topology::{NodeId, Topology};

/// A slot ([`EngineConfig::slot_size`](super::EngineConfig::slot_size)) that holds the headers of
/// every modelled packet: Ethernet, IPv6 and TCP with all its options, and an error message about
/// such a packet.
pub const MODELLED_SLOT: usize = 192;

/// A packet of which only the first bytes are given; the rest are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modelled<'a> {
    /// The host or router that it goes to, which has the destination address.
    pub to: NodeId,
    /// The first bytes of the frame: Ethernet and IP headers at least, all checksums right.
    pub headers: &'a [u8],
    /// Length of the IP packet.
    pub ip_len: u32,
}

/// Room for whole packets; taken when one is needed first.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    cause: Vec<u8>,
    made: Vec<u8>,
}

impl Engine {
    /// A packet without its payload arrives from a host, stamped `stamp`. As
    /// [`Engine::arrive`], but for the checksum, which is believed.
    ///
    /// # Errors
    /// Where the headers contradict `ip_len`, are cut, or are longer than a slot, and where `ip_len`
    /// is more than 65535.
    #[inline]
    pub fn arrive_modelled(
        &mut self,
        host: NodeId,
        stamp: Time,
        packet: &Modelled<'_>,
    ) -> Result<(), Refused> {
        let Some(headers) = read(packet) else {
            return Err(self.refuse(Refusal::Malformed));
        };
        if packet.headers.len() > self.pool.slot_size() || packet.ip_len > LONGEST_PACKET {
            return Err(self.too_long());
        }
        debug_assert_eq!(self.find(headers.destination), packet.to.0);
        let index = self.take(stamp)?;
        self.pool.describe(index, &headers, packet.to.0);
        self.pool.write_head(index, packet.headers);
        self.set_out(host, index, stamp);
        Ok(())
    }

    /// How many zeros follow [`Engine::frame`] of a polled packet.
    pub fn zeros(&self, egress: &Egress) -> u32 {
        egress.len - self.frame(egress).len() as u32
    }

    /// Has the responder write packet `new` because of the modelled packet `index`, whose edits
    /// are applied; `None`, and the slot is free again, where it stays silent.
    #[cold]
    pub(super) fn make_modelled(
        &mut self,
        index: u32,
        new: u32,
        write: impl FnOnce(&mut dyn Responder, &Topology, &[u8], &mut [u8]) -> Option<usize>,
    ) -> Option<u32> {
        let Scratch {
            mut cause,
            mut made,
        } = std::mem::take(&mut self.scratch);
        cause.clear();
        cause.extend_from_slice(self.pool.frame(index));
        cause.resize(self.pool.frame_len(index), 0);
        made.resize(LONGEST_FRAME, 0);
        let written = write(self.responder.as_mut(), &self.topology, &cause, &mut made);
        let new = self.keep_made(new, written.and_then(|len| made.get(..len)));
        self.scratch = Scratch { cause, made };
        new
    }

    fn keep_made(&mut self, new: u32, frame: Option<&[u8]>) -> Option<u32> {
        let sound = frame.and_then(|frame| Some((frame, packet::parse(frame).ok()?)));
        if let Some((frame, headers)) = sound {
            let frame = &frame[..ETHERNET_LEN + headers.ip_len as usize];
            let behind = frame.iter().rposition(|&byte| byte != 0);
            let stored = behind.map_or(0, |last| last + 1).max(header_len(frame));
            if stored <= self.pool.slot_size() {
                self.describe_made(new, &headers);
                self.pool.write_head(new, &frame[..stored]);
                return Some(new);
            }
        }
        self.pool.release(new);
        None
    }
}

/// Length of the Ethernet and IP headers of a frame that has passed [`packet::parse`].
fn header_len(frame: &[u8]) -> usize {
    if frame[12..14] == ETHERTYPE_IPV6.to_be_bytes() {
        return ETHERNET_LEN + IPV6_LEN;
    }
    ETHERNET_LEN + usize::from(frame[ETHERNET_LEN] & 0x0f) * 4
}

/// What forwarding needs to know of a modelled packet; `None` where it is none.
#[inline]
fn read(packet: &Modelled<'_>) -> Option<Headers> {
    let (ethernet, ip) = packet.headers.split_first_chunk::<ETHERNET_LEN>()?;
    let ip_len = packet.ip_len;
    if (ethernet[0] | ethernet[6]) & 1 == 1 || ip.len() > ip_len as usize {
        return None;
    }
    let headers = match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ETHERTYPE_IPV4 => {
            let fixed = ip.first_chunk::<IPV4_LEN>()?;
            let is_whole = ip.len() >= usize::from(fixed[0] & 0x0f) * 4;
            let says = u32::from(u16::from_be_bytes([fixed[2], fixed[3]]));
            let is_sound = fixed[0] >> 4 == 4 && fixed[0] & 0x0f >= 5 && is_whole;
            let to = *fixed.last_chunk::<4>()?;
            (is_sound && says == ip_len).then_some(Headers {
                destination: Destination::V4(to.into()),
                hop_limit: fixed[8],
                ip_len,
                may_fragment: fixed[6] & 0x40 == 0,
            })
        }
        ETHERTYPE_IPV6 => {
            let fixed = ip.first_chunk::<IPV6_LEN>()?;
            let says = IPV6_LEN as u32 + u32::from(u16::from_be_bytes([fixed[4], fixed[5]]));
            let to = *fixed.last_chunk::<16>()?;
            (fixed[0] >> 4 == 6 && says == ip_len).then_some(Headers {
                destination: Destination::V6(to.into()),
                hop_limit: fixed[7],
                ip_len,
                may_fragment: false,
            })
        }
        _ => None,
    }?;
    (headers.hop_limit > 0).then_some(headers)
}
