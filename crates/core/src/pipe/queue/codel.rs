//! CoDel: controlled delay, RFC 8289.
//!
//! Theory: what matters is how long packets wait, not how many. When the sojourn time has been above
//! `target` for a whole `interval`, there is a standing queue; packets are then dropped as their service
//! would start, the k-th one `interval / √k` after the one
//! before, until a packet has waited less than `target` (§4, pseudo-code in §5). The square root
//! is that of IEEE 754, correctly rounded and so the same everywhere.
//!
//! Where the text leaves a choice: MAXPACKET is the largest packet that has come so far. With
//! `ecn` a packet of a capable sender is marked where it would have been dropped, and goes on.
//! What finds no room at entry is dropped as by drop-tail.

use super::fifo::Fifo;
use super::{Admission, Ahead, Dropped, Item};
use crate::params;
use crate::time::{Span, Time};

/// A queue under CoDel.
#[derive(Debug)]
pub(super) struct CoDel {
    pub(super) params: params::CoDel,
    control: Control,
    largest: u32,
}

/// The state machine, without the packets; names as in RFC 8289 §5.
#[derive(Debug, Clone, Default)]
pub(super) struct Control {
    /// When the delay will have been above target for an interval.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CoDel {
    pub(super) fn new(params: params::CoDel) -> Self {
        Self {
            params,
            control: Control::default(),
            largest: 0,
        }
    }

    pub(super) fn admit(&mut self, item: &Item, ahead: Ahead) -> Admission {
        self.largest = self.largest.max(item.bytes);
        ahead.or_full(item.bytes, Admission::In)
    }

    pub(super) fn dequeue(
        &mut self,
        now: Time,
        fifo: &mut Fifo,
        on_drop: &mut impl FnMut(Dropped),
    ) -> Option<(Item, bool)> {
        let mut pop = || fifo.pop().map(|item| (item, fifo.bytes()));
        self.control
            .dequeue(&self.params, now, self.largest, &mut pop, on_drop)
    }
}

impl Control {
    /// The packet to serve at `now`, and whether it is to be marked: `deque` of §5. `pop` takes
    /// the first packet of the line and returns the bytes that stay behind it.
    pub(super) fn dequeue(
        &mut self,
        params: &params::CoDel,
        now: Time,
        largest: u32,
        pop: &mut impl FnMut() -> Option<(Item, u64)>,
        on_drop: &mut impl FnMut(Dropped),
    ) -> Option<(Item, bool)> {
        let mut next = |control: &mut Self| control.judge(params, now, largest, pop());
        let marks = |item: &Item| params.ecn && item.ecn_capable;
        let (mut item, mut ok_to_drop) = next(self)?;
        if !self.dropping && ok_to_drop {
            self.start_dropping(params.interval, now);
            if marks(&item) {
                return Some((item, true));
            }
            on_drop(Dropped { item, early: true });
            // This one goes out, whatever its delay.
            return next(self).map(|(item, _)| (item, false));
        }
        self.dropping &= ok_to_drop;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if marks(&item) {
                self.drop_next = control_law(self.drop_next, params.interval, self.count);
                return Some((item, true));
            }
            on_drop(Dropped { item, early: true });
            (item, ok_to_drop) = next(self)?;
            if ok_to_drop {
                self.drop_next = control_law(self.drop_next, params.interval, self.count);
            } else {
                self.dropping = false;
            }
        }
        Some((item, false))
    }

    /// Whether a packet may be dropped: `dodequeue` of §5.
    fn judge(
        &mut self,
        params: &params::CoDel,
        now: Time,
        largest: u32,
        popped: Option<(Item, u64)>,
    ) -> Option<(Item, bool)> {
        let Some((item, left)) = popped else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        if now.since(item.entered) < params.target || left <= u64::from(largest) {
            self.first_above = None;
            return Some((item, false));
        }
        let ok_to_drop = self.first_above.is_some_and(|time| now >= time);
        self.first_above.get_or_insert(now + params.interval);
        Some((item, ok_to_drop))
    }

    /// Starts a run of drops: as fast as the last one ended, where that was not long ago.
    fn start_dropping(&mut self, interval: Span, now: Time) {
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next).as_ns() < interval.as_ns().saturating_mul(16);
        self.dropping = true;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = control_law(now, interval, self.count);
        self.last_count = self.count;
    }
}

/// When to drop next: an interval over the root of the count after `time`.
fn control_law(time: Time, interval: Span, count: u32) -> Time {
    let ns = interval.as_ns() as f64 / f64::from(count).sqrt();
    time + Span::from_ns(ns as u64)
}
