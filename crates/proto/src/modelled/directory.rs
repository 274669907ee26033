//! Hosts by their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use longhaul_core::topology::NodeId;

use super::spec::Host;

/// See the module's first line.
#[derive(Debug)]
pub(super) struct Directory {
    /// Places of hosts in the order of their IPv4 addresses.
    v4: Vec<u32>,
    /// In the order of their IPv6 addresses.
    v6: Vec<u32>,
}

impl Directory {
    pub(super) fn new(hosts: &[Host]) -> Self {
        let sorted = |key: fn(&Host) -> u128| {
            let mut places: Vec<u32> = (0..hosts.len() as u32).collect();
            places.sort_by_key(|&place| key(&hosts[place as usize]));
            places
        };
        Self {
            v4: sorted(v4_of),
            v6: sorted(v6_of),
        }
    }

    /// The host of an address.
    pub(super) fn find(&self, hosts: &[Host], address: Address) -> Option<NodeId> {
        let (places, key): (_, fn(&Host) -> u128) = match address {
            Address::V4(_) => (&self.v4, v4_of),
            Address::V6(_) => (&self.v6, v6_of),
        };
        let key = |&place: &u32| key(&hosts[place as usize]);
        let at = places.binary_search_by_key(&address.number(), key).ok()?;
        Some(hosts[places[at] as usize].node)
    }
}

fn v4_of(host: &Host) -> u128 {
    host.ipv4.to_bits().into()
}

fn v6_of(host: &Host) -> u128 {
    host.ipv6.to_bits()
}

/// An address as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    V4(u32),
    V6(u128),
}

impl Address {
    pub(super) fn number(self) -> u128 {
        match self {
            Self::V4(address) => address.into(),
            Self::V6(address) => address,
        }
    }

    pub(super) fn ip(self) -> IpAddr {
        match self {
            Self::V4(address) => Ipv4Addr::from_bits(address).into(),
            Self::V6(address) => Ipv6Addr::from_bits(address).into(),
        }
    }

    /// The one that an IP header has at `at`.
    pub(super) fn read(ip: &[u8], is_v6: bool, at: usize) -> Option<Self> {
        let bytes = ip.get(at..)?;
        Some(if is_v6 {
            Self::V6(u128::from_be_bytes(*bytes.first_chunk()?))
        } else {
            Self::V4(u32::from_be_bytes(*bytes.first_chunk()?))
        })
    }
}
