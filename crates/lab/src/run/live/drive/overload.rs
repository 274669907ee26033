//! What the loop sheds when more arrives than it carries.
//!
//! Theory: a flood must not delay what is inside (Mogul and Ramakrishnan, *Eliminating Receive Livelock*,
//! 1997). So each turn of the loop reads a bounded batch, advances the engine to the clock whatever still
//! waits at the door, and sends all that is due, before it reads again. Two rules say which frames of the
//! batch are shed:
//!
//! - **Stale.** A frame that would leave its first pipe later than is tolerated is shed once the
//!   loop's [`Patience`] is spent. Patience is there because a stall of the machine is no flood: the loop
//!   may make it good.
//! - **Unaffordable.** A packet costs the loop most when it leaves, a path's delay after it was let in.
//!   Age sees that too late, so from the first frame shed on, datagrams enter at the rate at which the
//!   loop serves: each frame books what reading it costs, and each that enters what sending it will
//!   cost (the virtual scheduling of ITU-T I.371). A frame that finds the loop booked for longer than is
//!   tolerated is shed. TCP books and is never refused here, since its senders are held back.
//!
//! All of it is the machine's time. Left out: that packets take paths of different cost; the mean of the
//! last tenths of a second serves for all.

use std::time::Duration;

use longhaul_linux::clock::MachineTime;

/// A stall of the machine makes the first stale frame older than this at once; in a flood frames
/// become stale little by little.
pub(super) const STALL: Duration = Duration::from_millis(1);
/// How much of each second the loop may spend catching up before it sheds datagrams: of those that
/// enter, 99 in 100 are then in time.
const PATIENCE: Duration = Duration::from_millis(5);
/// The same for TCP: holding its senders back takes a few looks, of 20 ms each.
const PATIENCE_TCP: Duration = Duration::from_millis(100);
/// The most time for catching up with stalls.
const CATCH_UP_MAX: Duration = Duration::from_millis(200);

/// Percent of the loop's time that may be booked. Evenly spaced work would fit whole; the rest drains
/// what a burst or a stall has left behind.
const UTILISATION: u64 = 95;
/// Costs are learnt over so much time: hundreds of packets at any speed worth shedding at.
const INTERVAL: Duration = Duration::from_millis(10);
/// The part of a new cost that is believed, one in so many: a stall makes one interval far too dear.
const WEIGHT: u64 = 8;

/// Which frames are shed.
#[derive(Debug)]
pub(super) struct Overload {
    tolerance: Duration,
    /// With datagrams, and with TCP.
    patience: [Patience; 2],
    /// While frames are being shed.
    service: Option<Service>,
    /// Frames shed in this second of the machine.
    shed: u64,
    /// When the present part of a turn began.
    part_began: MachineTime,
}

/// A frame at the door.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// When it came.
    pub(super) came: MachineTime,
    /// How late it would leave its first pipe.
    pub(super) stale: Duration,
    pub(super) is_tcp: bool,
}

impl Overload {
    /// Of a loop that begins now and may be late by `tolerance`.
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

    /// Nothing stale waits.
    pub(super) fn caught_up(&mut self) {
        self.patience.iter_mut().for_each(Patience::caught_up);
    }

    /// Whether a frame that is read now is to be shed; it is booked either way.
    pub(super) fn sheds(&mut self, frame: Waiting, now: MachineTime) -> bool {
        let patience = &mut self.patience[usize::from(frame.is_tcp)];
        let is_stale = frame.stale > self.tolerance && patience.is_over(frame.stale, now);
        let ahead = frame.came + self.tolerance;
        let may_refuse = !frame.is_tcp;
        let is_booked = |service: &Service| may_refuse && service.booked_until > ahead;
        let sheds = is_stale || self.service.as_ref().is_some_and(is_booked);
        if sheds {
            self.shed += 1;
            self.service.get_or_insert_with(|| Service::begin(now));
        }
        if let Some(service) = &mut self.service {
            service.book(frame.came, !sheds);
        }
        sheds
    }

    /// Whether costs are being learnt: the loop then tells when it has read its batch.
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
                // What is due and unsent is work that nobody has booked.
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

/// What the loop's work costs, and until when it is booked.
#[derive(Debug)]
struct Service {
    booked_until: MachineTime,
    /// What reading a frame, and sending a packet, costs; nothing where that is not known yet.
    read_cost: Option<Duration>,
    send_cost: Option<Duration>,
    /// The interval that is being measured: since when, how long the loop was at it, how many.
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

    fn book(&mut self, came: MachineTime, enters: bool) {
        self.read += 1;
        let mut cost = self.read_cost.unwrap_or_default();
        if enters {
            cost += self.send_cost.unwrap_or_default();
        }
        let books = Duration::from_nanos(nanos(cost) * 100 / UTILISATION);
        self.booked_until = self.booked_until.max(came) + books;
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

/// Takes the mean of an interval into a cost.
fn average(cost: &mut Option<Duration>, took: Duration, count: u32) {
    if let Some(mean) = nanos(took).checked_div(count.into()) {
        let known = cost.map_or(mean, nanos);
        *cost = Some(Duration::from_nanos(known - known / WEIGHT + mean / WEIGHT));
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How long the loop may go on taking stale frames before it sheds them.
#[derive(Debug)]
pub(super) struct Patience {
    a_second: Duration,
    allowance: Duration,
    behind_since: Option<MachineTime>,
    /// Whether a stall has made it longer in this second. Once is enough, since what is not used up stays for
    /// the next one; in a flood frames also get old at once now and then.
    is_extended: bool,
}

impl Patience {
    /// Of a loop that has not fallen behind, and may for so much of each second.
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

    /// Whether a stale frame of this age is to be shed.
    pub(super) fn is_over(&mut self, age: Duration, now: MachineTime) -> bool {
        let since = *self.behind_since.get_or_insert_with(|| {
            if age > STALL && !self.is_extended {
                self.is_extended = true;
                self.allowance = (self.allowance + age + age).min(CATCH_UP_MAX);
            }
            now
        });
        let over = now.since(since) > self.allowance;
        if over {
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

    /// A frame that is read now, stale by so much.
    fn frame(stale: Duration, is_tcp: bool, now: MachineTime) -> Waiting {
        Waiting {
            came: now,
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

    /// Reads and sends for one interval: so many frames and packets, and so long for each.
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
            let came = now + us(10) * number;
            entered += u32::from(!overload.sheds(frame(Duration::ZERO, false, came), came));
        }
        assert!((41_000..=42_000).contains(&entered), "{entered}");
        // TCP is not refused, though the loop is booked.
        let came = now + us(1_000_000);
        assert!(!overload.sheds(frame(Duration::ZERO, true, came), came));
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
