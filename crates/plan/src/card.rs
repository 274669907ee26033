//! The network cards of hosts that hand over super-packets.
//!
//! Such a card hands packets to its link before their turn: what its bucket lets through at once, a
//! super-packet, and what was on its way while the machine stood still. A real card would keep them
//! waiting in its host and drop none, so they may wait in the link beside what its queue holds.
//! That is about live hosts and says nothing of the network, so pipes do not know it:
//! [`Card::before`] makes a pipe's queue longer, and whoever does that keeps what the pipe was
//! like.
//!
//! Left out: links that do more than wait for a constant rate; nobody knows what waits there, and
//! their hosts hand over packets one by one.

use longhaul_core::Span;
use longhaul_core::params::PipeParams;
use longhaul_core::units::{QueueLimit, Rate};

use crate::plan::bytes;

/// What a card hands over before its turn is counted in packets of so many bytes.
const PACKET_BYTES: u64 = 1000;

/// A network card that hands over packets before their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// So much, as time at the link's rate.
    pub ahead: Span,
}

impl Default for Card {
    /// A bucket of 2 ms, a super-packet of half a millisecond, and a short stop of the machine.
    fn default() -> Self {
        Self {
            ahead: Span::from_ms(5),
        }
    }
}

impl Card {
    /// How many packets it hands over before their turn to a link of this rate.
    pub fn packets(self, rate: Rate) -> u64 {
        self.bytes(rate) / PACKET_BYTES
    }

    fn bytes(self, rate: Rate) -> u64 {
        bytes(rate.bits_per_s(), self.ahead.as_ns())
    }

    /// What may wait for a link behind this card: the queue, and where packets wait for the rate
    /// alone what the card may hand over before its turn.
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
