//! Packets that a host's shaper releases before their turn, where the host hands over super-packets.
//!
//! These are what its token bucket passes at once, a super-packet, and what has accumulated during a
//! stall of the machine. A real network card would keep these packets in its host's queue and drop
//! none, so the link gets that much room beside what its queue holds. This concerns live hosts and is
//! no property of the network, so pipes do not know it: [`EarlyRelease::lengthen`] lengthens a pipe's
//! queue, and the caller keeps the pipe's own parameters.
//!
//! Left out: links where packets wait for more than a constant rate. How much waits there is
//! unknown, so their hosts hand over packets one by one.

use longhaul_core::Span;
use longhaul_core::params::PipeParams;
use longhaul_core::units::{QueueLimit, Rate};

use crate::plan::bytes;

/// Bytes in each packet when what is released early is counted in packets.
const PACKET_BYTES: u64 = 1000;

/// How much a host's shaper releases before its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyRelease {
    /// As time at the link's rate.
    pub ahead: Span,
}

impl Default for EarlyRelease {
    /// A bucket of 2 ms, a super-packet of half a millisecond, and a short stall of the machine.
    fn default() -> Self {
        Self {
            ahead: Span::from_ms(5),
        }
    }
}

impl EarlyRelease {
    /// How many packets are released early to a link of this rate.
    pub fn packets(self, rate: Rate) -> u64 {
        self.bytes(rate) / PACKET_BYTES
    }

    fn bytes(self, rate: Rate) -> u64 {
        bytes(rate.bits_per_s(), self.ahead.as_ns())
    }

    /// The queue limit of a link behind such a shaper: the pipe's own, plus what may be released early
    /// where packets wait for the rate alone.
    pub fn queue_limit(self, params: &PipeParams) -> QueueLimit {
        let Some(rate) = params.rate.filter(|_| params.sends_steadily()) else {
            return params.queue;
        };
        match params.queue {
            QueueLimit::Packets(limit) => {
                let more = u32::try_from(self.packets(rate)).unwrap_or(u32::MAX);
                QueueLimit::Packets(limit.saturating_add(more))
            }
            QueueLimit::Bytes(limit) => QueueLimit::Bytes(limit.saturating_add(self.bytes(rate))),
            QueueLimit::Time(limit) => QueueLimit::Time(limit + self.ahead),
        }
    }

    /// A pipe behind such a shaper.
    pub fn lengthen(self, params: &PipeParams) -> PipeParams {
        PipeParams {
            queue: self.queue_limit(params),
            ..params.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::params::Discipline;
    use longhaul_core::units::Bytes;

    /// 8 Mbit/s for 5 ms are 5000 bytes, 5 packets.
    fn pipe(queue: QueueLimit) -> PipeParams {
        PipeParams {
            rate: Rate::from_bits_per_s(8_000_000),
            queue,
            ..PipeParams::default()
        }
    }

    #[test]
    fn the_queue_has_room_for_what_is_released_early() {
        let early = EarlyRelease::default();
        for (queue, room) in [
            (QueueLimit::Packets(2), QueueLimit::Packets(7)),
            (QueueLimit::Packets(u32::MAX), QueueLimit::Packets(u32::MAX)),
            (QueueLimit::Bytes(1000), QueueLimit::Bytes(6000)),
            (QueueLimit::Bytes(u64::MAX), QueueLimit::Bytes(u64::MAX)),
            (
                QueueLimit::Time(Span::from_ms(1)),
                QueueLimit::Time(Span::from_ms(6)),
            ),
        ] {
            let params = pipe(queue);
            let longer = early.lengthen(&params);
            assert_eq!(longer.queue, room);
            assert_eq!(
                PipeParams { queue, ..longer },
                params,
                "nothing else changes"
            );
            assert_eq!(lengthened_by_nothing(&params), params);
        }
    }

    fn lengthened_by_nothing(params: &PipeParams) -> PipeParams {
        let none = EarlyRelease { ahead: Span::ZERO };
        none.lengthen(params)
    }

    #[test]
    fn where_nobody_knows_what_waits_there_is_no_more_room() {
        let queue = QueueLimit::Packets(2);
        let burst = PipeParams {
            burst: Some(Bytes(500)),
            ..pipe(queue)
        };
        let managed = PipeParams {
            discipline: Discipline::CoDel(Default::default()),
            ..pipe(queue)
        };
        let unlimited = PipeParams {
            rate: None,
            ..pipe(queue)
        };
        for params in [burst, managed, unlimited] {
            assert_eq!(
                EarlyRelease::default().queue_limit(&params),
                queue,
                "{params:?}"
            );
        }
    }
}
