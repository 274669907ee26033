//! Counters: what became of every packet.
//!
//! The sum is exact after every call into the engine:
//! `entered + created + imported = delivered + dropped.total() + exported + inside`, where nothing is
//! imported or exported by an engine over a whole network. Counters are plain numbers next
//! to what they count; an observer takes copies and differences. All count packets of at most
//! one MTU.
//!
//! Left out: histograms of lateness and staleness (the drive loop knows them, the engine cannot).

use crate::witness::PacketEvent;

/// What became of all packets together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames that entered from hosts.
    pub entered: u64,
    /// Packets that routers made (replies, and fragments less the packets that they replace),
    /// and duplicates that pipes made.
    pub created: u64,
    /// Packets that reached their host, whether or not they have been polled yet.
    pub delivered: u64,
    /// Packet-hops: packets that came out of a pipe.
    pub hops: u64,
    /// Packets that ended inside the network, by cause.
    pub dropped: Dropped,
    /// Frames that never entered, by cause; of a super-packet, its segments as far as they are known.
    pub refused: RefusedFrames,
    /// Packets lost for want of a free slot: physical drops. At the ingress they count nowhere
    /// else; a reply, fragment or duplicate that found no slot never existed.
    pub pool_exhausted: u64,
    /// Replies that a router's rate limit suppressed.
    pub replies_suppressed: u64,
    /// Packets that came over from other cores, into pipes that lead here.
    pub imported: u64,
    /// Packets that went over to other cores, out of pipes that lead there.
    pub exported: u64,
}

impl Counters {
    /// Adds those of another part of the network.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            entered,
            created,
            delivered,
            hops,
            dropped,
            refused,
            pool_exhausted,
            replies_suppressed,
            imported,
            exported,
        } = other;
        self.entered += entered;
        self.created += created;
        self.delivered += delivered;
        self.hops += hops;
        self.dropped.merge(dropped);
        self.refused.merge(refused);
        self.pool_exhausted += pool_exhausted;
        self.replies_suppressed += replies_suppressed;
        self.imported += imported;
        self.exported += exported;
    }
}

/// Packets that ended inside the network, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// The queue was full, or its discipline chose to drop.
    pub queue: u64,
    /// A pipe's loss: by its model, a trace, bit errors or an element.
    pub loss: u64,
    /// The link was down, or went down.
    pub link_down: u64,
    /// TTL or hop limit ran out.
    pub hop_limit: u64,
    /// No node has the address, or no path leads there.
    pub no_route: u64,
    /// Larger than the next pipe's MTU, and not to be fragmented.
    pub too_big: u64,
    /// Came to a host that it was not for.
    pub misdelivered: u64,
    /// Was for a router, which took it (and may have answered).
    pub absorbed: u64,
}

impl Dropped {
    /// Counts a packet that ended; events that end no packet count nowhere.
    #[inline]
    pub(crate) const fn count(&mut self, event: PacketEvent) {
        let count = match event {
            PacketEvent::Queue => &mut self.queue,
            PacketEvent::Loss => &mut self.loss,
            PacketEvent::LinkDown => &mut self.link_down,
            PacketEvent::HopLimit => &mut self.hop_limit,
            PacketEvent::NoRoute => &mut self.no_route,
            PacketEvent::TooBig => &mut self.too_big,
            PacketEvent::Misdelivered => &mut self.misdelivered,
            PacketEvent::Absorbed => &mut self.absorbed,
            PacketEvent::In | PacketEvent::Served | PacketEvent::Over | PacketEvent::Out => return,
            PacketEvent::Marked | PacketEvent::Corrupted => return,
            PacketEvent::Entered | PacketEvent::Delivered => return,
        };
        *count += 1;
    }

    /// All causes together.
    pub const fn total(&self) -> u64 {
        self.queue
            + self.loss
            + self.link_down
            + self.hop_limit
            + self.no_route
            + self.too_big
            + self.misdelivered
            + self.absorbed
    }

    /// Adds those of another part of the network.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            queue,
            loss,
            link_down,
            hop_limit,
            no_route,
            too_big,
            misdelivered,
            absorbed,
        } = other;
        self.queue += queue;
        self.loss += loss;
        self.link_down += link_down;
        self.hop_limit += hop_limit;
        self.no_route += no_route;
        self.too_big += too_big;
        self.misdelivered += misdelivered;
        self.absorbed += absorbed;
    }
}

/// Frames that never entered, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusedFrames {
    /// Truncated or contradictory headers.
    pub malformed: u64,
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Multicast or broadcast.
    pub multicast: u64,
    /// Longer than a slot of the pool.
    pub too_long: u64,
}

impl RefusedFrames {
    /// Adds those of another part of the network.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            malformed,
            not_ip,
            multicast,
            too_long,
        } = other;
        self.malformed += malformed;
        self.not_ip += not_ip;
        self.multicast += multicast;
        self.too_long += too_long;
    }
}

/// What a pipe's queue was like between two readings. The packet in service does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueUse {
    /// Waiting packets, integrated over time: over the time between the readings, their mean number.
    pub packet_ns: u64,
    /// Most packets that waited at once.
    pub most: u32,
    /// Packets whose service began.
    pub served: u64,
    /// How long these had waited, in all.
    pub wait_ns: u64,
    /// The longest of these waits.
    pub longest_ns: u64,
}

/// What became of the packets of one pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PipeCounters {
    /// Packets that came out.
    pub packets: u64,
    /// Their bytes, as the pipe's framing counts them.
    pub bytes: u64,
    /// Packets that found the queue full, or that its discipline chose to drop.
    pub drops_queue: u64,
    /// Of those, the ones that the discipline chose although there was room.
    pub drops_early: u64,
    /// Packets lost by the model, a trace, bit errors or an element.
    pub drops_loss: u64,
    /// Packets lost because the link was down or went down.
    pub drops_down: u64,
    /// Packets that the discipline marked (ECN) instead of dropping them.
    pub marked: u64,
    /// Packets that were made as duplicates.
    pub duplicated: u64,
    /// Packets with a bit that was flipped.
    pub corrupted: u64,
    /// Packets that came out after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Nanoseconds spent sending; over a length of time, the utilisation.
    pub busy_ns: u64,
}

impl PipeCounters {
    /// What has been counted since it was as `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            drops_queue: self.drops_queue - before.drops_queue,
            drops_early: self.drops_early - before.drops_early,
            drops_loss: self.drops_loss - before.drops_loss,
            drops_down: self.drops_down - before.drops_down,
            marked: self.marked - before.marked,
            duplicated: self.duplicated - before.duplicated,
            corrupted: self.corrupted - before.corrupted,
            reordered: self.reordered - before.reordered,
            // A changed rate takes back what the packet in service was thought to take.
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
        }
    }

    /// Adds what became of the packets of the same pipe elsewhere.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            packets,
            bytes,
            drops_queue,
            drops_early,
            drops_loss,
            drops_down,
            marked,
            duplicated,
            corrupted,
            reordered,
            busy_ns,
        } = other;
        self.packets += packets;
        self.bytes += bytes;
        self.drops_queue += drops_queue;
        self.drops_early += drops_early;
        self.drops_loss += drops_loss;
        self.drops_down += drops_down;
        self.marked += marked;
        self.duplicated += duplicated;
        self.corrupted += corrupted;
        self.reordered += reordered;
        self.busy_ns += busy_ns;
    }
}
