//! RED: random early detection, Floyd and Jacobson, IEEE/ACM Transactions on Networking 1 (1993).
//!
//! Theory: an exponentially weighted average of the queue separates lasting from passing congestion.
//! Each packet that comes is a sample; time without a queue counts as many empty samples as
//! packets of mean size could have been sent in it (§4). Between `min` and `max` the probability
//! rises from 0 to `probability`, and is raised with each packet that passes so that drops are
//! spread evenly: p / (1 − count·p) (§8). Between `max` and `2·max` it rises to 1 ("gentle", S.
//! Floyd, "Recommendation on using the gentle variant of RED", 2000), and beyond all is dropped.
//!
//! The queue is measured in the unit of its bound: packets, bytes, or nanoseconds to wait. The
//! probability is the same for packets of all sizes (RFC 7141 §2.2). With `ecn` capable packets
//! are marked where the average is below `max`, and dropped above it (RFC 3168 §7).

use super::fifo::Fifo;
use super::{Admission, Ahead, Item};
use crate::params;
use crate::rng::Stream;
use crate::time::Time;
use crate::units::{Probability, QueueLimit};

impl params::Red {
    /// What S. Floyd recommends ("RED: Discussions of setting parameters", 1997): `max` is three
    /// times `min`, 10 % at `max`, a weight of 2^-9 (0.002); and as in Linux's `tc`, `max` is a
    /// quarter of the queue's bound.
    pub fn for_limit(limit: QueueLimit) -> Self {
        let bound = match limit {
            QueueLimit::Packets(packets) => u64::from(packets),
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Time(span) => span.as_ns(),
        };
        let min = (bound / 12).max(1);
        Self {
            min,
            max: (bound / 4).max(min + 1),
            probability: Probability::from_ratio(1, 10).unwrap_or_default(),
            weight_log2: 9,
            ecn: false,
        }
    }
}

/// A queue under RED.
#[derive(Debug)]
pub(super) struct Red {
    pub(super) params: params::Red,
    mean: MeanSize,
    average: f64,
    /// Packets that passed since the last drop while the average was above `min`; −1 where there
    /// was none.
    count: i64,
    /// Since when the queue has been empty without having been counted in the average.
    empty_since: Time,
}

impl Red {
    pub(super) fn new(params: params::Red) -> Self {
        Self {
            params,
            mean: MeanSize::default(),
            average: 0.0,
            count: -1,
            empty_since: Time::ZERO,
        }
    }

    pub(super) fn admit(
        &mut self,
        now: Time,
        item: &Item,
        ahead: Ahead,
        random: &mut Stream,
    ) -> Admission {
        self.mean.see(item.bytes);
        self.sample(now, ahead);
        let hit = self.hits(random);
        let marks = self.params.ecn && item.ecn_capable && self.average < self.params.max as f64;
        if hit && !marks {
            return Admission::Early;
        }
        if !ahead.has_room(item.bytes) {
            self.count = 0;
            return Admission::Full;
        }
        if hit {
            Admission::Marked
        } else {
            Admission::In
        }
    }

    pub(super) fn dequeue(&mut self, now: Time, fifo: &mut Fifo) -> Option<Item> {
        let item = fifo.pop()?;
        if fifo.len() == 0 {
            self.empty_since = now;
        }
        Some(item)
    }

    /// Takes the queue that a packet meets into the average.
    fn sample(&mut self, now: Time, ahead: Ahead) {
        let weight = 1.0 / (1u64 << self.params.weight_log2.min(63)) as f64;
        if ahead.packets > 0 {
            let bytes = ahead.bytes as f64;
            let queue = match ahead.limit {
                QueueLimit::Packets(_) => ahead.packets as f64,
                QueueLimit::Bytes(_) => bytes,
                QueueLimit::Time(_) => ahead.drain.wait_ns(bytes),
            };
            self.average += weight * (queue - self.average);
            return;
        }
        let empty = now.since(self.empty_since).as_ns() as f64;
        self.empty_since = now;
        if empty > 0.0 {
            // At an unlimited rate any number of packets could have been sent.
            let samples = ahead.drain.rate.map_or(f64::INFINITY, |rate| {
                empty * rate.bits_per_s() as f64 / (8e9 * self.mean.bytes())
            });
            self.average *= libm::pow(1.0 - weight, samples);
        }
    }

    /// Whether the next packet is one to mark or drop.
    fn hits(&mut self, random: &mut Stream) -> bool {
        let (min, max) = (self.params.min as f64, self.params.max as f64);
        let (average, at_max) = (self.average, self.params.probability.as_f64());
        if average < min {
            self.count = -1;
            return false;
        }
        let base = if average < max {
            at_max * (average - min) / (max - min)
        } else if average < 2.0 * max {
            at_max + (1.0 - at_max) * (average - max) / max
        } else {
            1.0
        };
        self.count += 1;
        let spread = 1.0 - self.count as f64 * base;
        let hit = base > 0.0 && (spread <= base || unit(random) < base / spread);
        if hit {
            self.count = 0;
        }
        hit
    }
}

/// The mean size of packets, smoothed over some hundred of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MeanSize(Option<f64>);

impl MeanSize {
    /// Takes in a packet.
    pub(super) fn see(&mut self, bytes: u32) {
        let bytes = f64::from(bytes);
        let mean = self.0.unwrap_or(bytes);
        self.0 = Some(mean + (bytes - mean) / 64.0);
    }

    /// The mean; 0 before the first packet.
    pub(super) fn bytes(self) -> f64 {
        self.0.unwrap_or(0.0)
    }
}

/// Uniform in [0, 1), in steps of 2^-53.
pub(super) fn unit(random: &mut Stream) -> f64 {
    (random.draw() >> 11) as f64 / (1u64 << 53) as f64
}
