//! Network cards of hosts that hand over super-packets.
//!
//! Such a card hands packets to its link ahead of their turn: what its token bucket passes at once,
//! a super-packet, and what has accumulated during a stall of the machine. A real card would keep
//! these packets in its host's queue and drop none, so the link gets that much room beside what its
//! queue holds. This concerns live hosts and is no property of the network, so pipes do not know
//! it: [`Card::before`] lengthens a pipe's queue, and the caller keeps the pipe's own parameters.
//!
//! Left out: links where packets wait for more than a constant rate. How much waits there is
//! unknown, so their hosts hand over packets one by one.

use longhaul_core::Span;
use longhaul_core::params::PipeParams;
use longhaul_core::units::{QueueLimit, Rate};

use crate::plan::bytes;

/// Bytes in each packet when what a card hands over early is counted in packets.
const PACKET_BYTES: u64 = 1000;

/// A network card that hands over packets ahead of their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// How much it hands over early, as time at the link's rate.
    pub ahead: Span,
}

impl Default for Card {
    /// A bucket of 2 ms, a super-packet of half a millisecond, and a short stall of the machine.
    fn default() -> Self {
        Self {
            ahead: Span::from_ms(5),
        }
    }
}

impl Card {
    /// How many packets it hands over early to a link of this rate.
    pub fn packets(self, rate: Rate) -> u64 {
        self.bytes(rate) / PACKET_BYTES
    }

    fn bytes(self, rate: Rate) -> u64 {
        bytes(rate.bits_per_s(), self.ahead.as_ns())
    }

    /// The queue limit of a link behind this card: the pipe's own, plus what the card may hand over
    /// early where packets wait for the rate alone.
    pub fn room(self, params: &PipeParams) -> QueueLimit {
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

    /// A pipe behind this card.
    pub fn before(self, params: &PipeParams) -> PipeParams {
        PipeParams {
            queue: self.room(params),
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
    fn a_card_makes_room_for_what_it_hands_over() {
        let card = Card::default();
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
            let before = card.before(&params);
            assert_eq!(before.queue, room);
            assert_eq!(
                PipeParams { queue, ..before },
                params,
                "nothing else changes"
            );
            assert_eq!(before_nothing(&params), params);
        }
    }

    fn before_nothing(params: &PipeParams) -> PipeParams {
        let none = Card { ahead: Span::ZERO };
        none.before(params)
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
            assert_eq!(Card::default().room(&params), queue, "{params:?}");
        }
    }
}
