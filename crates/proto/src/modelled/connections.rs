//! The state of modelled TCP connections, as `ss -ti` shows a kernel's.
//!
//! Costs nothing unless it is read: the figures are those that endpoints keep anyway.
//!
//! Left out: connections that are being opened, and those in TIME-WAIT, as in the samples of kernels;
//! a delivery rate, which endpoints do not keep.

use std::net::SocketAddr;

use longhaul_core::topology::NodeId;

use super::Traffic;
use super::side::Side;
use super::spec::Name;
use crate::tcp::{Algorithm, Info};

/// One end of a modelled connection that is open or being closed.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// The flow, by its place among all.
    pub flow: u32,
    /// The flow's name.
    pub name: Name,
    /// Which end.
    pub side: Side,
    /// Which of the flow's connections, from 0 on.
    pub number: u32,
    /// The host of this end.
    pub host: NodeId,
    /// Its address and port.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// Its congestion control.
    pub congestion: Algorithm,
    /// Windows, round trips, counters.
    pub info: Info,
}

impl Traffic {
    /// Shows `visit` every end held here of a connection that is open or being closed, in the order of
    /// host, flow, side and connection. Takes time for each end under way, and memory for 24 bytes.
    pub fn connections(&self, visit: &mut dyn FnMut(&Connection)) {
        let table = &self.context.table;
        // Which slot an end has depends on who else is held here; the order must not.
        let mut ends: Vec<_> = self.slots.connections().collect();
        ends.sort_unstable_by_key(|&(id, _)| id);
        for (id, end) in ends {
            let info = end.endpoint().info();
            if !info.state.is_connected() {
                continue;
            }
            let [own, remote] = table.sockets(id);
            visit(&Connection {
                flow: id.flow(),
                name: table.name(id.flow()),
                side: id.side(),
                number: id.connection(),
                host: own.node,
                local: SocketAddr::new(own.address, own.port),
                remote: SocketAddr::new(remote.address, remote.port),
                congestion: end.endpoint().congestion(),
                info,
            });
        }
    }
}

#[cfg(test)]
mod tests;
