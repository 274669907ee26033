//! Translates offload state between the kernel's form (virtio-net headers) and the engine's.

use longhaul_core::packet::ETHERTYPE_IPV6;
use longhaul_core::segment::{Kind, Offload, Partial};
use longhaul_linux::packet_io::VnetHeader;

/// The offload work still to be done on a frame from a host; `None` for a kind that the run's hosts
/// have switched off.
pub(super) fn from_kernel(vnet: &VnetHeader) -> Option<Offload> {
    let partial = vnet.flags & VnetHeader::NEEDS_CSUM != 0;
    let kind = match vnet.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_NONE => Kind::Whole,
        VnetHeader::GSO_TCPV4 | VnetHeader::GSO_TCPV6 => Kind::Tcp,
        VnetHeader::GSO_UDP_L4 => Kind::Udp,
        _ => return None,
    };
    Some(Offload {
        kind,
        size: vnet.gso_size,
        checksum: partial.then_some(Partial {
            start: vnet.csum_start,
            offset: vnet.csum_offset,
        }),
        ..Offload::default()
    })
}

/// The same for a frame to a host, whose headers are at the front of `frame`.
pub(super) fn to_kernel(offload: &Offload, frame: &[u8]) -> VnetHeader {
    let Some(Partial { start, offset }) = offload.checksum else {
        return VnetHeader::default();
    };
    let is_ipv6 = frame.get(12..14) == Some(&ETHERTYPE_IPV6.to_be_bytes());
    let kind = match (offload.kind, is_ipv6) {
        (Kind::Whole, _) => VnetHeader::GSO_NONE,
        (Kind::Tcp, false) => VnetHeader::GSO_TCPV4,
        (Kind::Tcp, true) => VnetHeader::GSO_TCPV6,
        (Kind::Udp, _) => VnetHeader::GSO_UDP_L4,
    };
    let ecn = if offload.cwr { VnetHeader::GSO_ECN } else { 0 };
    VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: kind | ecn,
        hdr_len: offload.headers,
        gso_size: offload.size,
        csum_start: start,
        csum_offset: offset,
    }
}
