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
//!
//! What the loop carries is the machine's affair, so costs and bookings are machine time; packets
//! are late, and inside, in the experiment's.

use std::time::Duration;

use longhaul_core::Span;
use longhaul_linux::clock::MachineTime;

use crate::pace::Pace;

/// Percent of the time for which the loop may be booked: at first, at least, at most.
const SHARE_START: u64 = 95;
const SHARE_MIN: u64 = 80;
const SHARE_MAX: u64 = 130;
/// After each measure it is more or less by so much, as packets were in time or late.
const SHARE_UP: u64 = 1;
const SHARE_DOWN: u64 = 10;
/// What is learnt is learnt over so much time at least, and at most.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);
/// Excess is mild up to so many of a million frames.
const MILD: u64 = 200_000;
/// Of a new measure this part is believed: a stall of the machine makes one of them far too high.
const PART: u64 = 8;
/// One packet in so many may be later than the tolerance.
const LATE_ONE_IN: u64 = 200;

/// What the loop may take, while it is overloaded.
#[derive(Debug)]
pub(super) struct Admission {
    pace: Pace,
    /// No more than few packets should be later.
    tolerance: Span,
    /// The loop is booked no further ahead than that.
    ahead_max: Duration,
    /// While there is overload.
    measure: Option<Measure>,
    /// What an arrival costs, as far as that is known.
    cost: Option<Duration>,
    share: u64,
    booked_until: MachineTime,
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
    began: MachineTime,
    /// How long the loop had been busy then.
    busy: Duration,
    /// Frames, and work.
    shed: u64,
    entered: u64,
    taken: u64,
    left: u64,
    /// Of them, later than is tolerated.
    late: u64,
}

impl Measure {
    fn begin(now: MachineTime, busy: Duration) -> Self {
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
    pub(super) fn new(tolerance: Span, pace: Pace) -> Self {
        Self {
            pace,
            tolerance,
            ahead_max: pace.duration(tolerance),
            measure: None,
            cost: None,
            share: SHARE_START,
            booked_until: pace.begin().at,
            inside: Span::ZERO,
            excess: 0,
            refuses: false,
        }
    }

    /// A frame was shed; the loop has been busy for so long since t = 0.
    pub(super) fn shed(&mut self, now: MachineTime, busy: Duration) {
        let measure = self.measure.get_or_insert(Measure::begin(now, busy));
        measure.shed += 1;
    }

    /// Whether an arrival may be taken that came then.
    pub(super) fn admits(&self, came: MachineTime) -> bool {
        !self.refuses || self.booked_until <= came + self.ahead_max
    }

    /// An arrival was taken that came then and is so many times the work of a short one.
    pub(super) fn take(&mut self, came: MachineTime, work: u64) {
        let Some(measure) = &mut self.measure else {
            return;
        };
        measure.entered += 1;
        measure.taken += work;
        if let Some(cost) = self.cost {
            let books = Duration::from_nanos(nanos(cost) * work * 100 / self.share);
            self.booked_until = self.booked_until.max(came) + books;
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
    pub(super) fn learn(&mut self, now: MachineTime, busy: Duration) {
        let Some(measure) = &mut self.measure else {
            return;
        };
        let length = self.pace.duration(self.inside).clamp(SHORTEST, LONGEST);
        if now.since(measure.began) < length || measure.taken == 0 {
            return;
        }
        let cost = nanos(busy.saturating_sub(measure.busy)) / measure.taken;
        let known = self.cost.map_or(cost, nanos);
        self.cost = Some(Duration::from_nanos(known - known / PART + cost / PART));
        self.share = match measure.late * LATE_ONE_IN > measure.left {
            true => (self.share - SHARE_DOWN).max(SHARE_MIN),
            false => (self.share + SHARE_UP).min(SHARE_MAX),
        };
        let excess = measure.shed * 1_000_000 / (measure.shed + measure.entered);
        self.excess = self.excess - self.excess / PART + excess / PART;
        self.refuses |= self.excess > MILD;
        *measure = Measure::begin(now, busy);
    }

    /// A second of the machine is over.
    pub(super) fn renew(&mut self) {
        if self.excess <= MILD {
            self.measure = None;
            self.excess = 0;
            self.refuses = false;
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Dilation;

    /// As long as is tolerated, by the machine's clock.
    const TOLERANCE: Duration = Duration::from_micros(200);
    /// What would be read so late is shed in any case.
    const OLD: Duration = Duration::from_micros(400);
    /// What is true of the machine is so however slowly experiment time passes.
    const FACTORS: [u32; 2] = [1, 10];

    fn pace(factor: u32) -> Pace {
        Pace::new(MachineTime::from_ns(1 << 40), Dilation::by(factor))
    }

    /// A loop that has one arrival after the other, evenly, and pays for each that it takes.
    struct Loop {
        admission: Admission,
        pace: Pace,
        now: MachineTime,
        /// When it has done all that it has taken, and how long that takes.
        done: MachineTime,
        work: Duration,
    }

    impl Loop {
        fn new(factor: u32) -> Self {
            let pace = pace(factor);
            Self {
                admission: Admission::new(pace.span(TOLERANCE), pace),
                pace,
                now: pace.begin().at,
                done: pace.begin().at,
                work: Duration::ZERO,
            }
        }

        fn busy(&self) -> Duration {
            self.work.saturating_sub(self.done.since(self.now))
        }

        /// For a second; which part of it the loop was busy, and the mean lateness.
        fn go_on(&mut self, gap: Duration, cost: Duration) -> (f64, Duration) {
            let (began, busy) = (self.now, self.busy());
            let (mut lateness, mut taken) = (Duration::ZERO, 0);
            while self.now.since(began) < Duration::from_secs(1) {
                self.now = self.now + gap;
                let is_old = self.done.since(self.now) > OLD;
                if !is_old && self.admission.admits(self.now) {
                    self.admission.take(self.now, 1);
                    self.work += cost;
                    self.done = self.done.max(self.now) + cost;
                    let late = self.done.since(self.now);
                    self.admission.left(self.pace.span(late), Span::ZERO);
                    lateness += late;
                    taken += 1;
                } else {
                    self.admission.shed(self.now, self.busy());
                }
                self.admission.learn(self.now, self.busy());
            }
            self.admission.renew();
            let busy = self.busy().saturating_sub(busy).as_secs_f64();
            let load = busy / self.now.since(began).as_secs_f64();
            (load, lateness / taken)
        }
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn an_overloaded_loop_is_busy_and_little_late_whatever_an_arrival_costs() {
        for (gap, cost) in [(5, 10), (5, 7), (1, 50), (20, 35)] {
            let (gap, cost) = (us(gap), us(cost));
            for factor in FACTORS {
                let mut overloaded = Loop::new(factor);
                overloaded.go_on(gap, cost);
                let (load, late) = overloaded.go_on(gap, cost);
                assert!(load > 0.9, "{gap:?} apart, {cost:?} each: load {load}");
                assert!(late < TOLERANCE, "{gap:?} apart, {cost:?} each: {late:?}");
            }
        }
    }

    #[test]
    fn it_follows_a_cost_that_changes() {
        for factor in FACTORS {
            let mut overloaded = Loop::new(factor);
            for cost in [10, 20, 7] {
                overloaded.go_on(us(5), us(cost));
                let (load, late) = overloaded.go_on(us(5), us(cost));
                assert!(load > 0.9 && late < TOLERANCE, "{cost}: {load}, {late:?}");
            }
        }
    }

    #[test]
    fn mild_excess_is_left_to_age() {
        for factor in FACTORS {
            let mut mild = Loop::new(factor);
            let (gap, cost) = (Duration::from_nanos(10_000), Duration::from_nanos(10_500));
            mild.go_on(gap, cost);
            let (load, _) = mild.go_on(gap, cost);
            assert!(!mild.admission.refuses && load > 0.99, "load {load}");
        }
    }

    #[test]
    fn what_the_loop_carries_is_all_taken() {
        for factor in FACTORS {
            let mut calm = Loop::new(factor);
            let (gap, cost) = (us(10), us(8));
            calm.admission.shed(calm.now, Duration::ZERO);
            calm.go_on(gap, cost);
            calm.admission.shed(calm.now, calm.busy());
            let before = calm.work;
            calm.go_on(gap, cost);
            assert_eq!(calm.work.saturating_sub(before), us(800_000));
        }
    }

    #[test]
    fn it_ends_when_the_excess_does() {
        for factor in FACTORS {
            let mut busy = Loop::new(factor);
            busy.go_on(us(5), us(10));
            assert!(busy.admission.refuses);
            busy.go_on(us(10), us(5));
            assert!(!busy.admission.refuses && busy.admission.measure.is_none());
        }
    }

    /// Packets are inside for 100 ms of the machine in any case.
    #[test]
    fn it_measures_for_as_long_as_packets_are_inside() {
        for (factor, path_delay) in [(1, Span::from_ms(100)), (10, Span::from_ms(10))] {
            let pace = pace(factor);
            let mut admission = Admission::new(pace.span(TOLERANCE), pace);
            let begin = pace.begin().at;
            admission.left(Span::ZERO, path_delay);
            admission.shed(begin, Duration::ZERO);
            admission.take(begin, 1);
            admission.learn(begin + us(99_000), us(1_000));
            assert_eq!(admission.cost, None);
            admission.learn(begin + us(100_000), us(2_000));
            assert_eq!(admission.cost, Some(us(2_000)));
        }
    }
}
