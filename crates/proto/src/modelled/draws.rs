//! What a flow draws, by the number of its connection and of its request.
//!
//! Theory: both ends of a dialogue must agree how long request n and its response are, and no packet
//! carries that. So both have the random stream that the run's seed and the flow's name start, in
//! which each draw has a fixed position: four when a connection opens (an initial sequence number
//! and a seed for each end), then for each request those of its size, its response's size and the
//! think time after it; fixed amounts need no draw. An end skips draws that are not its own, so that
//! it gets the same values whatever the other end has drawn, in whatever order.
//!
//! Sources and the sizes of bulk transfers follow the first connection's four, at the opener alone;
//! of datagrams, both ends have the source, from the beginning of the stream on.

use longhaul_core::rng::Stream;
use longhaul_core::time::Span;

use super::kind::Kind;
use super::side::Side;
use super::spec::Amount;

/// What a connection draws when it opens.
const OF_A_CONNECTION: u64 = 4;

/// See the module's first lines.
#[derive(Debug, Clone)]
pub(super) struct Draws(Stream);

/// What an end draws when its connection opens.
#[derive(Debug)]
pub(super) struct Opening {
    /// Its first sequence number.
    pub(super) number: u32,
    /// For algorithms that draw.
    pub(super) seed: u64,
    /// What comes behind.
    pub(super) rest: Stream,
}

/// Bytes of a request and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) request: u64,
    pub(super) response: u64,
}

impl Draws {
    /// Those of the flow called `name` in a run of `seed`.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        Self(Stream::new(seed, name))
    }

    /// All of them.
    pub(super) fn stream(&self) -> Stream {
        self.0.clone()
    }

    fn behind(&self, draws: u64) -> Stream {
        let mut stream = self.stream();
        stream.skip(draws);
        stream
    }

    /// What the end on `side` draws for a connection.
    pub(super) fn opening(&self, kind: &Kind, connection: u32, side: Side) -> Opening {
        let between = OF_A_CONNECTION + draws_of_exchange(kind);
        let mut rest = self.behind(between.wrapping_mul(connection.into()));
        let numbers = [rest.draw() as u32, rest.draw() as u32];
        let seeds = [rest.draw(), rest.draw()];
        Opening {
            number: numbers[side as usize],
            seed: seeds[side as usize],
            rest,
        }
    }

    /// The stream before the exchange `number` of a dialogue.
    fn before(&self, kind: &Kind, number: u64) -> Stream {
        let connections = if kind.has_connection_each() {
            number.wrapping_add(1)
        } else {
            1
        };
        let opened = OF_A_CONNECTION.wrapping_mul(connections);
        self.behind(opened.wrapping_add(draws_of_exchange(kind).wrapping_mul(number)))
    }

    /// The exchange `number` of a dialogue.
    pub(super) fn exchange(&self, kind: &Kind, number: u64) -> Exchange {
        let [request, response, _] = kind.exchange();
        let mut stream = self.before(kind, number);
        Exchange {
            request: request.draw(&mut stream).max(1),
            response: response.draw(&mut stream).max(1),
        }
    }

    /// The thought behind it.
    pub(super) fn think(&self, kind: &Kind, number: u64) -> Span {
        let [request, response, think] = kind.exchange();
        let mut stream = self.before(kind, number);
        stream.skip([request, response].map(draws_of).iter().sum());
        Span::from_ns(think.draw(&mut stream))
    }
}

fn draws_of(amount: &Amount) -> u64 {
    u64::from(!matches!(amount, Amount::Fixed(_)))
}

fn draws_of_exchange(kind: &Kind) -> u64 {
    kind.exchange().map(draws_of).iter().sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul_core::time::Time;
    use longhaul_core::topology::NodeId;
    use proptest::prelude::*;

    use super::*;
    use crate::modelled::spec::{Application, FlowSpec, IpVersion, Peer, Transport};
    use crate::tcp::Config;

    fn dialogue(amounts: [Amount; 3], new_connection: bool) -> Kind {
        let [request, response, think] = amounts;
        let spec = FlowSpec {
            name: "x".into(),
            from: NodeId(0),
            to: Peer::Model(NodeId(1)),
            transport: Transport::Tcp(Arc::new(Config::default()), IpVersion::V4),
            application: Application::Requests {
                requests: None,
                request,
                response,
                think,
                new_connection,
            },
            start: Time::ZERO,
            stop: None,
            series: false,
        };
        Kind::of(&spec).0
    }

    fn amount() -> impl Strategy<Value = Amount> {
        prop_oneof![
            (1..9000_u64).prop_map(Amount::Fixed),
            (1.0..1e6).prop_map(Amount::Exponential),
        ]
    }

    proptest! {
        /// An exchange drawn by its number is the one that drawing all in sequence gives, as
        /// `longhaul traffic` does; and likewise for what connections draw.
        #[test]
        fn draws_by_number_are_those_in_turn(
            amounts in [amount(), amount(), amount()],
            new_connection: bool,
            seed: u64,
            order in prop::collection::vec(0..40_u64, 1..40),
        ) {
            let kind = dialogue(amounts.clone(), new_connection);
            let mut stream = Stream::new(seed, "x");
            let (mut openings, mut exchanges) = (Vec::new(), Vec::new());
            for number in 0..40 {
                if number == 0 || new_connection {
                    openings.push([(); 4].map(|()| stream.draw()));
                }
                let [request, response, think] = [0, 1, 2].map(|n| amounts[n].draw(&mut stream));
                let (request, response) = (request.max(1), response.max(1));
                exchanges.push((Exchange { request, response }, Span::from_ns(think)));
            }
            let ends = [(); 2].map(|()| Draws::new(seed, "x"));
            for number in order {
                let drawn = |draws: &Draws| (draws.exchange(&kind, number), draws.think(&kind, number));
                let [one, other] = ends.each_ref().map(drawn);
                prop_assert_eq!(one, exchanges[number as usize]);
                prop_assert_eq!(one, other);
                let connection = number % openings.len() as u64;
                let drawn = openings[connection as usize];
                for (side, draws) in Side::BOTH.into_iter().zip(&ends) {
                    let opening = draws.opening(&kind, connection as u32, side);
                    prop_assert_eq!(opening.number, drawn[side as usize] as u32);
                    prop_assert_eq!(opening.seed, drawn[2 + side as usize]);
                }
            }
        }
    }
}
