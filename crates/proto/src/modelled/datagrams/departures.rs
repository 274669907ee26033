//! When which datagram of a flow leaves, and how large it is: by its source, until its stop, and up
//! to its bytes, where it has any. The last one may be smaller than the others.

use longhaul_core::rng::Stream;
use longhaul_core::time::Time;

use crate::modelled::draws::Draws;
use crate::modelled::source::Source;
use crate::modelled::spec::MIN_PAYLOAD;
use crate::modelled::table::FlowTable;

/// See the module's first lines.
#[derive(Debug)]
pub(super) struct Departures {
    source: Source,
    stream: Stream,
    stop: Time,
    payload: u32,
    /// Payload in all.
    bytes: u64,
    /// How many have left.
    count: u64,
    /// When the last of them did; before the first one, the start.
    last: Time,
}

impl Departures {
    /// Those of a flow from `start` on; `None` where it does not send by the clock.
    pub(super) fn new(table: &FlowTable, flow: u32, draws: &Draws, start: Time) -> Option<Self> {
        let (kind, mut stream) = (table.kind(flow), draws.stream());
        Some(Self {
            source: Source::new(&kind.application, kind.segment, start, &mut stream)?,
            stream,
            stop: kind.stop.unwrap_or(Time::MAX),
            payload: kind.segment,
            bytes: if kind.application.is_bounded() {
                table.flow(flow).bytes
            } else {
                u64::MAX
            },
            count: 0,
            last: start,
        })
    }

    /// When the next one leaves, if there is one.
    pub(super) fn next(&self) -> Option<Time> {
        let next = self.source.next();
        let is_left = next < self.stop && self.payload_below(self.count) < self.bytes;
        is_left.then_some(next)
    }

    /// The next one leaves.
    pub(super) fn advance(&mut self) {
        self.last = self.source.next();
        self.count += 1;
        self.source.advance(&mut self.stream);
    }

    /// All leave that have left by `now`.
    pub(super) fn follow(&mut self, now: Time) {
        while self.next().is_some_and(|at| at <= now) {
            self.advance();
        }
    }

    /// How many have left.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// When the last one has left.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// Payload of those below `number`.
    pub(super) fn payload_below(&self, number: u64) -> u64 {
        number
            .saturating_mul(u64::from(self.payload))
            .min(self.bytes)
    }

    /// Payload that counts of one.
    pub(super) fn payload(&self, number: u64) -> u64 {
        self.payload_below(number + 1) - self.payload_below(number)
    }

    /// The length of one, which has room for its number and time.
    pub(super) fn len(&self, number: u64) -> u32 {
        u32::try_from(self.payload(number)).map_or(self.payload, |payload| payload.max(MIN_PAYLOAD))
    }
}
