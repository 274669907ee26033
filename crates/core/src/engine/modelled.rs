//! Modelled packets: real headers, and a payload of zeros that is not stored.
//!
//! Purpose: endpoints that are models send and receive packets like all others, which queues, marks,
//! hashes, routers and real hosts treat as they would a packet on a wire. Only the bytes of the headers are
//! stored, so a packet in a queue takes its descriptor ([`PACKET_BYTES`](super::PACKET_BYTES)) and a slot
//! of [`MODELLED_SLOT`] bytes, whatever its length.
//!
//! A router that quotes or fragments a packet needs all of it, so the whole packet is built for that call.
//! What the router writes is a modelled packet again, cut behind its last byte that is not zero. Zeros add
//! nothing to a checksum (RFC 1071), so all checksums are those of the whole packet.
//!
//! Left out: modelled packets for groups.

use super::{Egress, Engine, Refused};
use crate::packet::{self, Destination, FrameError, Headers};
use crate::packet::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN};
use crate::pool::{MAX_FRAME_LEN, MAX_PACKET_LEN};
use crate::router::Responder;
use crate::time::Time;
use crate::topology::{NodeId, Topology};

/// A slot ([`EngineConfig::slot_size`](super::EngineConfig::slot_size)) that holds the headers of
/// every modelled packet: Ethernet, IPv6 and TCP with all its options, and an error message about
/// such a packet.
pub const MODELLED_SLOT: usize = 192;

/// A packet given by its first bytes; the rest are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modelled<'a> {
    /// The host or router that it goes to, which has the destination address.
    pub to: NodeId,
    /// The first bytes of the frame: Ethernet and IP headers at least, all checksums right.
    pub headers: &'a [u8],
    /// Length of the IP packet.
    pub ip_len: u32,
}

/// Buffers for whole packets, allocated when first needed.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    cause: Vec<u8>,
    made: Vec<u8>,
}

impl Engine {
    /// Takes a packet without its payload that a host sent at `stamp`. As [`Engine::arrive`], except that
    /// the header checksum is not verified.
    ///
    /// # Errors
    /// If the headers contradict `ip_len`, are truncated or longer than a slot, or if `ip_len` is above
    /// 65,535.
    #[inline]
    pub fn arrive_modelled(
        &mut self,
        host: NodeId,
        stamp: Time,
        packet: &Modelled<'_>,
    ) -> Result<(), Refused> {
        let Some(headers) = read(packet) else {
            return Err(self.refuse(FrameError::Malformed));
        };
        if packet.headers.len() > self.pool.slot_size() || packet.ip_len > MAX_PACKET_LEN {
            return Err(self.too_long());
        }
        debug_assert_eq!(self.find(headers.destination), packet.to.0);
        let index = self.take_slot(stamp)?;
        self.pool.describe(index, &headers, packet.to.0);
        self.pool.write_head(index, packet.headers);
        self.inject(host, index, stamp);
        Ok(())
    }

    /// How many zeros follow [`Engine::frame`] of a polled packet.
    pub fn zeros(&self, egress: &Egress) -> u32 {
        egress.len - self.frame(egress).len() as u32
    }

    /// Has the responder write packet `new` in answer to the modelled packet `index`, whose edits are
    /// applied; `None`, with the slot freed, if it stays silent.
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
        made.resize(MAX_FRAME_LEN, 0);
        let written = write(self.responder.as_mut(), &self.topology, &cause, &mut made);
        let new = self.finish_made(new, written.and_then(|len| made.get(..len)));
        self.scratch = Scratch { cause, made };
        new
    }

    fn finish_made(&mut self, new: u32, frame: Option<&[u8]>) -> Option<u32> {
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

/// The headers of a modelled packet; `None` if it is not a sound one.
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
