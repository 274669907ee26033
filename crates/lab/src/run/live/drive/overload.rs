//! Sheds arrivals that the loop cannot serve in time.
//!
//! Theory: a flood must not delay packets that are already inside (Mogul and Ramakrishnan, *Eliminating
//! Receive Livelock*, 1997). So each turn of the loop reads a bounded batch, advances the engine to the clock
//! however many more frames wait in the receive rings, and sends every due packet, before it reads again. Two
//! rules decide which frames of the batch are shed:
//!
//! - **Stale.** A frame that would leave its first pipe later than the tolerance is shed once the loop's
//!   [`Patience`] is used up. Patience exists because a stall of the machine is not a flood: the loop may
//!   catch up with it.
//! - **Unaffordable.** A packet costs the loop most when it leaves, a path's delay after it was admitted, so
//!   staleness shows an overload too late. From the first frame shed on, datagrams are therefore admitted at
//!   the rate at which the loop serves them: every frame books the cost of reading it, every admitted frame
//!   also the cost of sending it later (virtual scheduling, ITU-T I.371). A frame is shed if the loop is
//!   booked further ahead than the tolerance. TCP books too but is never refused here, because backpressure
//!   slows its senders.
//!
//! All times are machine time. Left out: packets whose paths differ in cost; one average over the last tenths
//! of a second serves for all.

use std::time::Duration;

use longhaul_linux::clock::MachineTime;

/// Distinguishes a stall from a flood: after a stall the first stale frame is older than this at once, in a
/// flood frames become stale little by little.
pub(super) const STALL: Duration = Duration::from_millis(1);
/// How much of each second the loop may spend catching up before it sheds datagrams. With it, 99 in
/// 100 of those admitted are in time.
const PATIENCE: Duration = Duration::from_millis(5);
/// The same for TCP: backpressure needs a few samples, 20 ms apart, to slow its senders.
const PATIENCE_TCP: Duration = Duration::from_millis(100);
/// Upper bound of the time for catching up with stalls.
const CATCH_UP_MAX: Duration = Duration::from_millis(200);

/// Percent of the loop's time that may be booked. Evenly spaced work could use all of it; the rest
/// drains the backlog that a burst or a stall has left.
const UTILISATION: u64 = 95;
/// Costs are learnt over intervals of this length: hundreds of packets at any rate worth shedding at.
const INTERVAL: Duration = Duration::from_millis(10);
/// An interval's cost has a weight of one in this many in the moving average, because a stall makes a
/// single interval far too dear.
const WEIGHT: u64 = 8;

/// Decides which frames are shed.
#[derive(Debug)]
pub(super) struct Overload {
    tolerance: Duration,
    /// For datagrams, and for TCP.
    patience: [Patience; 2],
    /// Admission at the learned service rate, while frames are being shed.
    service: Option<Service>,
    /// Frames shed in this second of the machine.
    shed: u64,
    /// When the current part of a turn, reading or sending, began.
    part_began: MachineTime,
}

/// A frame at the head of the receive rings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// When it arrived.
    pub(super) arrived: MachineTime,
    /// How late it would leave its first pipe.
    pub(super) stale: Duration,
    pub(super) is_tcp: bool,
}

impl Overload {
    /// For a loop that begins now and may be late by `tolerance`.
    pub(super) fn new(tolerance: Duration, now: MachineTime) -> Self {
        Self {
            tolerance,
            patience: [PATIENCE, PATIENCE_TCP].map(Patience::new),
            service: None,
            shed: 0,
            part_began: now,
        }
    }

    /// A second of the machine has begun.
    pub(super) fn renew(&mut self) {
        self.patience.iter_mut().for_each(Patience::renew);
        if std::mem::take(&mut self.shed) == 0 {
            self.service = None;
        }
    }

    /// No stale frame waits.
    pub(super) fn caught_up(&mut self) {
        self.patience.iter_mut().for_each(Patience::caught_up);
    }

    /// Whether a frame that is read now must be shed; the cost of reading it is booked either way.
    pub(super) fn sheds(&mut self, frame: Waiting, now: MachineTime) -> bool {
        let patience = &mut self.patience[usize::from(frame.is_tcp)];
        let is_stale = frame.stale > self.tolerance && patience.is_over(frame.stale, now);
        // An admitted frame leaves after all work booked before it, and may do so this late.
        let ahead = frame.arrived + self.tolerance;
        let may_refuse = !frame.is_tcp;
        let is_booked = |service: &Service| may_refuse && service.booked_until > ahead;
        let sheds = is_stale || self.service.as_ref().is_some_and(is_booked);
        if sheds {
            self.shed += 1;
            self.service.get_or_insert_with(|| Service::begin(now));
        }
        if let Some(service) = &mut self.service {
            service.book(frame.arrived, !sheds);
        }
        sheds
    }

    /// Whether costs are being learnt: only then must the loop call [`has_read`](Self::has_read),
    /// which takes another reading of the clock.
    pub(super) const fn is_learning(&self) -> bool {
        self.service.is_some()
    }

    /// The loop has read its batch, and goes on with what is inside.
    pub(super) fn has_read(&mut self, now: MachineTime) {
        let took = now.since(self.part_began);
        self.part_began = now;
        if let Some(service) = &mut self.service {
            service.reading += took;
        }
    }

    /// A send call has ended: how many packets it sent, and how late the first of them was.
    pub(super) fn sent(&mut self, packets: u32, lateness: Duration, now: MachineTime) {
        if let Some(service) = &mut self.service {
            service.sent += packets;
            if lateness > self.tolerance {
                // The loop is this far behind with packets whose sending is not, or no longer,
                // booked: they leave before anything that is admitted now.
                service.booked_until = service.booked_until.max(now + lateness);
            }
        }
    }

    /// A turn is over.
    pub(super) fn turned(&mut self, now: MachineTime) {
        let took = now.since(self.part_began);
        self.part_began = now;
        if let Some(service) = &mut self.service {
            service.sending += took;
            service.learn(now);
        }
    }

    /// The loop has waited until now.
    pub(super) const fn has_waited(&mut self, now: MachineTime) {
        self.part_began = now;
    }
}

/// What the loop's work costs, and until when the loop is booked.
#[derive(Debug)]
struct Service {
    booked_until: MachineTime,
    /// The average cost of reading a frame and of sending a packet; `None` before the first interval.
    read_cost: Option<Duration>,
    send_cost: Option<Duration>,
    /// The interval being measured: when it began, how long the loop has spent reading and sending, and
    /// how many frames it has read and packets it has sent.
    began: MachineTime,
    reading: Duration,
    sending: Duration,
    read: u32,
    sent: u32,
}

impl Service {
    const fn begin(now: MachineTime) -> Self {
        Self {
            booked_until: now,
            read_cost: None,
            send_cost: None,
            began: now,
            reading: Duration::ZERO,
            sending: Duration::ZERO,
            read: 0,
            sent: 0,
        }
    }

    fn book(&mut self, arrived: MachineTime, enters: bool) {
        self.read += 1;
        let mut cost = self.read_cost.unwrap_or_default();
        if enters {
            cost += self.send_cost.unwrap_or_default();
        }
        let books = Duration::from_nanos(nanos(cost) * 100 / UTILISATION);
        // Not before the arrival: time in which the loop was idle is not saved up for a burst.
        self.booked_until = self.booked_until.max(arrived) + books;
    }

    fn learn(&mut self, now: MachineTime) {
        if now.since(self.began) < INTERVAL {
            return;
        }
        average(&mut self.read_cost, self.reading, self.read);
        average(&mut self.send_cost, self.sending, self.sent);
        self.began = now;
        (self.reading, self.sending) = (Duration::ZERO, Duration::ZERO);
        (self.read, self.sent) = (0, 0);
    }
}

/// Updates a moving average with the mean of an interval.
fn average(cost: &mut Option<Duration>, took: Duration, count: u32) {
    if let Some(mean) = nanos(took).checked_div(count.into()) {
        let known = cost.map_or(mean, nanos);
        *cost = Some(Duration::from_nanos(known - known / WEIGHT + mean / WEIGHT));
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How long the loop may go on admitting stale frames, in each second, before it sheds them.
#[derive(Debug)]
pub(super) struct Patience {
    a_second: Duration,
    allowance: Duration,
    behind_since: Option<MachineTime>,
    /// Whether a stall has extended the allowance in this second. That happens once at most: what one
    /// stall does not use is left for the next, and in a flood, too, frames are old at once now and then.
    is_extended: bool,
}

impl Patience {
    /// For a loop that is in time, and may be behind for `a_second` of each second.
    pub(super) fn new(a_second: Duration) -> Self {
        Self {
            a_second,
            allowance: a_second,
            behind_since: None,
            is_extended: false,
        }
    }

    /// A new second has begun.
    pub(super) fn renew(&mut self) {
        self.allowance = self.a_second;
        self.is_extended = false;
    }

    /// Nothing stale is left.
    pub(super) fn caught_up(&mut self) {
        self.behind_since = None;
    }

    /// Whether a stale frame of this age must be shed.
    pub(super) fn is_over(&mut self, age: Duration, now: MachineTime) -> bool {
        let since = *self.behind_since.get_or_insert_with(|| {
            // The loop gets twice the length of a stall to catch up with it.
            if age > STALL && !self.is_extended {
                self.is_extended = true;
                self.allowance = (self.allowance + age + age).min(CATCH_UP_MAX);
            }
            now
        });
        let over = now.since(since) > self.allowance;
        if over {
            // Used up for this second: whenever the loop is behind again, it sheds at once.
            self.allowance = Duration::ZERO;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Duration = us(200);
    const START: MachineTime = MachineTime::from_ns(1 << 40);

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn overload() -> Overload {
        Overload::new(TOLERANCE, START)
    }

    /// A frame that is read now, with this staleness.
    fn frame(stale: Duration, is_tcp: bool, now: MachineTime) -> Waiting {
        Waiting {
            arrived: now,
            stale,
            is_tcp,
        }
    }

    #[test]
    fn a_flood_is_shed_once_patience_is_spent() {
        for (is_tcp, patience) in [(false, PATIENCE), (true, PATIENCE_TCP)] {
            let mut overload = overload();
            let mut sheds = |stale, now| overload.sheds(frame(stale, is_tcp, now), now);
            assert!(!sheds(us(300), START));
            assert!(!sheds(us(300), START + patience));
            assert!(!sheds(us(200), START + patience + us(1)), "in time");
            assert!(sheds(us(201), START + patience + us(1)));
            // Of this second's patience nothing is left.
            overload.caught_up();
            let again = START + patience + us(100);
            let mut sheds = |now| overload.sheds(frame(us(300), is_tcp, now), now);
            assert!(!sheds(again) && sheds(again + us(1)));
            overload.caught_up();
            overload.renew();
            let mut sheds = |now| overload.sheds(frame(us(300), is_tcp, now), now);
            assert!(!sheds(again) && !sheds(again + patience));
        }
    }

    #[test]
    fn a_stall_may_be_made_good_in_twice_its_length() {
        let mut overload = overload();
        let mut sheds = |stale, now| overload.sheds(frame(stale, false, now), now);
        assert!(!sheds(us(3_000), START));
        assert!(!sheds(us(300), START + us(11_000)));
        assert!(sheds(us(300), START + us(11_001)));
    }

    /// Reads `reads` frames and sends `sends` packets in one interval; returns when that is done.
    fn work(overload: &mut Overload, now: MachineTime, reads: u32, sends: u32) -> MachineTime {
        let (read, sent) = (now + us(2) * reads, now + us(2) * reads + us(18) * sends);
        overload.has_waited(now);
        for _ in 0..reads {
            overload.sheds(frame(Duration::ZERO, false, now), now);
        }
        overload.has_read(read);
        overload.sent(sends, Duration::ZERO, sent);
        overload.turned(sent);
        sent
    }

    #[test]
    fn what_enters_is_what_the_loop_serves() {
        let mut overload = overload();
        overload.service = Some(Service::begin(START));
        let mut now = START;
        for _ in 0..2 {
            now = work(&mut overload, now, 600, 500);
        }
        let service = overload.service.as_ref().expect("it began");
        assert_eq!(
            (service.read_cost, service.send_cost),
            (Some(us(2)), Some(us(18)))
        );
        // A second with 100,000 datagrams: reading takes 0.2 s, and 0.95 s may be booked.
        now = now + Duration::from_secs(10);
        let mut entered = 0;
        for number in 0..100_000 {
            let arrived = now + us(10) * number;
            entered += u32::from(!overload.sheds(frame(Duration::ZERO, false, arrived), arrived));
        }
        assert!((41_000..=42_000).contains(&entered), "{entered}");
        // TCP is not refused, though the loop is booked.
        let arrived = now + us(1_000_000);
        assert!(!overload.sheds(frame(Duration::ZERO, true, arrived), arrived));
    }

    #[test]
    fn what_is_late_is_sent_before_more_enters() {
        let mut overload = overload();
        overload.service = Some(Service::begin(START));
        overload.sent(1, us(5_000), START);
        let mut sheds = |now| overload.sheds(frame(Duration::ZERO, false, now), now);
        assert!(sheds(START + us(4_799)));
        assert!(!sheds(START + us(4_800)));
    }

    #[test]
    fn it_ends_after_a_second_in_which_nothing_was_shed() {
        let mut overload = overload();
        overload.sheds(frame(us(300), false, START), START);
        let later = START + us(6_000);
        assert!(overload.sheds(frame(us(300), false, later), later));
        overload.renew();
        assert!(overload.is_learning());
        overload.renew();
        assert!(!overload.is_learning());
    }
}
