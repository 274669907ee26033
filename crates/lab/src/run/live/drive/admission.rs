//! How much may enter while far more arrives than the loop carries.
//!
//! Age alone sheds too late and then too much: a packet that has been taken costs the loop for as
//! long as it is inside, so the core swings between a network that is too full and one that is
//! nearly empty. From the first frame that was shed for its age, the loop therefore learns what an
//! arrival costs it and how many packets leave late. Theory: each arrival that is taken books the
//! loop for its cost (the virtual scheduling of ITU-T I.371's GCRA), and one that finds it booked
//! for longer than is tolerated is shed. The cost is busy time over arrivals taken, with all that
//! the loop does beside them included. For which share of the time it may be booked, the packets
//! that leave decide: full batches cost less, so a loop that is a little late carries more. All is
//! measured over no less time than packets are inside, or the loop would answer arrivals that it
//! has not paid for yet.
//!
//! While the excess is mild, age decides alone: it carries a few percent more, later. Only frames
//! that nothing else holds back are refused; others book all the same. Left out: refusing costs
//! something as well, and that is counted as the cost of arrivals.

use longhaul_core::{Span, Time};

/// Percent of the time for which the loop may be booked: at first, at least, at most.
const SHARE_START: u64 = 95;
const SHARE_MIN: u64 = 80;
const SHARE_MAX: u64 = 130;
/// After each measure it is more or less by so much, as packets were in time or late.
const SHARE_UP: u64 = 1;
const SHARE_DOWN: u64 = 10;
/// What is learnt is learnt over so much time at least, and at most.
const SHORTEST: Span = Span::from_ms(10);
const LONGEST: Span = Span::from_s(1);
/// Excess is mild up to so many of a million frames.
const MILD: u64 = 200_000;
/// Of a new measure this part is believed: a stall of the machine makes one of them far too high.
const PART: u64 = 8;
/// One of so many packets may be later than is tolerated.
const FEW: u64 = 200;

/// What the loop may take, while it is overloaded.
#[derive(Debug)]
pub(super) struct Admission {
    /// No more than few packets should be later, and the loop is booked no further ahead.
    tolerance: Span,
    /// While there is overload.
    measure: Option<Measure>,
    /// What an arrival costs, as far as that is known.
    cost: Option<Span>,
    share: u64,
    booked_until: Time,
    /// The longest delay of a path that a packet has taken.
    inside: Span,
    /// Of a million frames so many were shed of late.
    excess: u64,
    /// Whether that was more than mild in this second.
    refuses: bool,
}

/// What is being measured.
#[derive(Debug)]
struct Measure {
    began: Time,
    /// How long the loop had been busy then.
    busy: Span,
    /// Frames, and work.
    shed: u64,
    entered: u64,
    taken: u64,
    left: u64,
    /// Of them, later than is tolerated.
    late: u64,
}

impl Measure {
    fn begin(now: Time, busy: Span) -> Self {
        Self {
            began: now,
            busy,
            shed: 0,
            entered: 0,
            taken: 0,
            left: 0,
            late: 0,
        }
    }
}

impl Admission {
    /// Of a loop whose packets should not be later than is tolerated, but for few.
    pub(super) fn new(tolerance: Span) -> Self {
        Self {
            tolerance,
            measure: None,
            cost: None,
            share: SHARE_START,
            booked_until: Time::ZERO,
            inside: Span::ZERO,
            excess: 0,
            refuses: false,
        }
    }

    /// A frame was shed; the loop has been busy for so long since t = 0.
    pub(super) fn shed(&mut self, now: Time, busy: Span) {
        let measure = self.measure.get_or_insert(Measure::begin(now, busy));
        measure.shed += 1;
    }

    /// Whether an arrival may be taken.
    pub(super) fn admits(&self, stamp: Time) -> bool {
        !self.refuses || self.booked_until <= stamp + self.tolerance
    }

    /// An arrival was taken that is so many times the work of a short one.
    pub(super) fn take(&mut self, stamp: Time, work: u64) {
        let Some(measure) = &mut self.measure else {
            return;
        };
        measure.entered += 1;
        measure.taken += work;
        if let Some(cost) = self.cost {
            let books = Span::from_ns(cost.as_ns() * work * 100 / self.share);
            self.booked_until = self.booked_until.max(stamp) + books;
        }
    }

    /// A packet left, so late, whose path has this delay.
    pub(super) fn left(&mut self, lateness: Span, path_delay: Span) {
        self.inside = self.inside.max(path_delay);
        if let Some(measure) = &mut self.measure {
            measure.left += 1;
            measure.late += u64::from(lateness > self.tolerance);
        }
    }

    /// A turn is over; the loop has been busy for so long since t = 0.
    pub(super) fn learn(&mut self, now: Time, busy: Span) {
        let Some(measure) = &mut self.measure else {
            return;
        };
        let length = self.inside.clamp(SHORTEST, LONGEST);
        if now.since(measure.began) < length || measure.taken == 0 {
            return;
        }
        let cost = busy.saturating_sub(measure.busy).as_ns() / measure.taken;
        let known = self.cost.map_or(cost, Span::as_ns);
        self.cost = Some(Span::from_ns(known - known / PART + cost / PART));
        self.share = match measure.late * FEW > measure.left {
            true => (self.share - SHARE_DOWN).max(SHARE_MIN),
            false => (self.share + SHARE_UP).min(SHARE_MAX),
        };
        let excess = measure.shed * 1_000_000 / (measure.shed + measure.entered);
        self.excess = self.excess - self.excess / PART + excess / PART;
        self.refuses |= self.excess > MILD;
        *measure = Measure::begin(now, busy);
    }

    /// A second is over.
    pub(super) fn renew(&mut self) {
        if self.excess <= MILD {
            self.measure = None;
            self.excess = 0;
            self.refuses = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Span = Span::from_us(200);
    /// What would be read so late is shed in any case.
    const OLD: Span = Span::from_us(400);

    /// A loop that has one arrival after the other, evenly, and pays for each that it takes.
    struct Loop {
        admission: Admission,
        now: Time,
        /// When it has done all that it has taken, and how long that takes.
        done: Time,
        work: Span,
    }

    impl Loop {
        fn new() -> Self {
            Self {
                admission: Admission::new(TOLERANCE),
                now: Time::ZERO,
                done: Time::ZERO,
                work: Span::ZERO,
            }
        }

        fn busy(&self) -> Span {
            self.work.saturating_sub(self.done.since(self.now))
        }

        /// For a second; which part of it the loop was busy, and the mean lateness.
        fn go_on(&mut self, gap: Span, cost: Span) -> (f64, Span) {
            let (began, busy) = (self.now, self.busy());
            let (mut lateness, mut taken) = (0, 0);
            while self.now.since(began) < Span::from_s(1) {
                self.now += gap;
                let is_old = self.done.since(self.now) > OLD;
                if !is_old && self.admission.admits(self.now) {
                    self.admission.take(self.now, 1);
                    self.work += cost;
                    self.done = self.done.max(self.now) + cost;
                    let late = self.done.since(self.now);
                    self.admission.left(late, Span::ZERO);
                    lateness += late.as_ns();
                    taken += 1;
                } else {
                    self.admission.shed(self.now, self.busy());
                }
                self.admission.learn(self.now, self.busy());
            }
            self.admission.renew();
            let busy = self.busy().saturating_sub(busy).as_s();
            let load = busy / self.now.since(began).as_s();
            (load, Span::from_ns(lateness / taken))
        }
    }

    #[test]
    fn an_overloaded_loop_is_busy_and_little_late_whatever_an_arrival_costs() {
        for (gap, cost) in [(5, 10), (5, 7), (1, 50), (20, 35)] {
            let (gap, cost) = (Span::from_us(gap), Span::from_us(cost));
            let mut overloaded = Loop::new();
            overloaded.go_on(gap, cost);
            let (load, late) = overloaded.go_on(gap, cost);
            assert!(load > 0.9, "{gap:?} apart, {cost:?} each: load {load}");
            assert!(late < TOLERANCE, "{gap:?} apart, {cost:?} each: {late:?}");
        }
    }

    #[test]
    fn it_follows_a_cost_that_changes() {
        let gap = Span::from_us(5);
        let mut overloaded = Loop::new();
        for cost in [10, 20, 7] {
            overloaded.go_on(gap, Span::from_us(cost));
            let (load, late) = overloaded.go_on(gap, Span::from_us(cost));
            assert!(load > 0.9 && late < TOLERANCE, "{cost}: {load}, {late:?}");
        }
    }

    #[test]
    fn mild_excess_is_left_to_age() {
        let mut mild = Loop::new();
        let (gap, cost) = (Span::from_ns(10_000), Span::from_ns(10_500));
        mild.go_on(gap, cost);
        let (load, _) = mild.go_on(gap, cost);
        assert!(!mild.admission.refuses && load > 0.99, "load {load}");
    }

    #[test]
    fn what_the_loop_carries_is_all_taken() {
        let mut calm = Loop::new();
        let (gap, cost) = (Span::from_us(10), Span::from_us(8));
        calm.admission.shed(Time::ZERO, Span::ZERO);
        calm.go_on(gap, cost);
        calm.admission.shed(calm.now, calm.busy());
        let before = calm.work;
        calm.go_on(gap, cost);
        assert_eq!(calm.work.saturating_sub(before), Span::from_ms(800));
    }

    #[test]
    fn it_ends_when_the_excess_does() {
        let mut busy = Loop::new();
        busy.go_on(Span::from_us(5), Span::from_us(10));
        assert!(busy.admission.refuses);
        let (gap, cost) = (Span::from_us(10), Span::from_us(5));
        busy.go_on(gap, cost);
        assert!(!busy.admission.refuses && busy.admission.measure.is_none());
    }

    #[test]
    fn it_measures_for_as_long_as_packets_are_inside() {
        let mut admission = Admission::new(TOLERANCE);
        admission.left(Span::ZERO, Span::from_ms(100));
        admission.shed(Time::ZERO, Span::ZERO);
        admission.take(Time::ZERO, 1);
        admission.learn(Time::ZERO + Span::from_ms(99), Span::from_ms(1));
        assert_eq!(admission.cost, None);
        admission.learn(Time::ZERO + Span::from_ms(100), Span::from_ms(2));
        assert_eq!(admission.cost, Some(Span::from_ms(2)));
    }
}
