//! Which end of which flow.

use longhaul_core::topology::NodeId;

/// The end of a flow at its `from` or at its `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// It opens the connections, or sends the datagrams.
    Opener,
    /// It accepts the connections, or receives the datagrams.
    Acceptor,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Opener, Self::Acceptor];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Opener => Self::Acceptor,
            Self::Acceptor => Self::Opener,
        }
    }
}

/// An end of one connection of a flow, or of its datagrams. There is one of a kind in a run, and
/// their order (host, flow, side, connection) is the same whoever holds which of them: at equal
/// times, timers follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndId {
    host: NodeId,
    flow: u32,
    /// The side, times 2^31, and the connection.
    last: u32,
}

/// The bit of the side. Connections are numbered below it: 2^31 of one flow, one after the other, take
/// more than 6 hours of experiment time at 10 us each.
const SIDE: u32 = 1 << 31;

impl EndId {
    pub(super) fn new(host: NodeId, flow: u32, side: Side, connection: u32) -> Self {
        let side = match side {
            Side::Opener => 0,
            Side::Acceptor => SIDE,
        };
        Self {
            host,
            flow,
            last: side | (connection % SIDE),
        }
    }

    pub(super) const fn flow(self) -> u32 {
        self.flow
    }

    pub(super) const fn side(self) -> Side {
        match self.last & SIDE {
            0 => Side::Opener,
            _ => Side::Acceptor,
        }
    }

    /// Which of the flow's connections.
    pub(super) const fn connection(self) -> u32 {
        self.last % SIDE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_in_the_order_of_host_flow_side_and_connection() {
        let mut ends = Vec::new();
        for host in [0, 7, u32::MAX] {
            for flow in [0, 1, u32::MAX] {
                for side in Side::BOTH {
                    for connection in [0, 5] {
                        let end = EndId::new(NodeId(host), flow, side, connection);
                        assert_eq!((end.flow(), end.side()), (flow, side));
                        assert_eq!(end.connection(), connection);
                        ends.push(end);
                    }
                }
            }
        }
        assert!(ends.is_sorted_by(|a, b| a < b));
    }
}
