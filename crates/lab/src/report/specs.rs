//! Which series a page shows, and what it takes of their columns (docs/series.md, docs/summary.md).

use super::rollup::{Metric, Spec, Take, Times};

const fn metric(name: &'static str, column: &'static str, take: Take) -> Metric {
    Metric { name, column, take }
}

const BINS: Times = Times::Bins("start_ns", "width_ns");
const BITS: Take = Take::Rate(8.0);
const EACH: Take = Take::Rate(1.0);
/// Nanoseconds of work as a share of time.
const SHARE: Take = Take::Rate(1e-9);

const PIPE: &[Metric] = &[
    metric("rate", "bytes", BITS),
    metric("packets", "packets", EACH),
    metric("busy", "busy_ns", SHARE),
    metric("queue", "queue_mean", Take::Level),
    metric("queue_max", "queue_max", Take::Most),
    metric("delay", "delay_mean_ns", Take::Weighted("served")),
    metric("delay_max", "delay_max_ns", Take::Most),
    metric("drops_queue", "drops_queue", Take::Sum),
    metric("drops_loss", "drops_loss", Take::Sum),
    metric("drops_down", "drops_down", Take::Sum),
    metric("marked", "marked", Take::Sum),
];

/// The pipes of a network with so many, at most.
pub(super) const PIPES_MAX: usize = 20_000;

/// Pipes in bins, where they are measured.
pub(super) const PIPES: Spec = Spec {
    name: "pipes",
    file: "pipes",
    times: BINS,
    keys: &["pipe"],
    metrics: PIPE,
    most: PIPES_MAX,
    rank: "bytes",
};

/// Pipes second by second, of every run.
pub(super) const PIPE_SECONDS: Spec = Spec {
    name: "pipe_seconds",
    file: "pipes.csv",
    times: Times::Seconds("second"),
    ..PIPES
};

/// All others.
pub(super) const OTHERS: [Spec; 5] = [
    Spec {
        name: "seconds",
        file: "seconds.csv",
        times: Times::Seconds("second"),
        keys: &[],
        metrics: &[
            metric("packets", "packets", EACH),
            metric("late", "late", Take::Sum),
            metric("late_stall", "late_stall", Take::Sum),
            metric("late_overload", "late_overload", Take::Sum),
            metric("late_other", "late_other", Take::Sum),
            metric("episodes", "episodes", Take::Sum),
            metric("lateness_p50", "lateness_p50_ns", Take::Most),
            metric("lateness_p99", "lateness_p99_ns", Take::Most),
            metric("lateness_p999", "lateness_p999_ns", Take::Most),
            metric("lateness_max", "lateness_max_ns", Take::Most),
            metric("physical_drops", "physical_drops", Take::Sum),
            metric("inside", "inside", Take::Last),
            metric("busy", "core_busy", Take::Level),
            metric("wait", "core_wait_ns", SHARE),
            metric("stalls", "stalls", Take::Sum),
            metric("stalled", "stalled_ns", Take::Sum),
            metric("stall_max", "core_stall_ns", Take::Most),
            metric("stolen", "stolen_ns", Take::Sum),
        ],
        most: 1,
        rank: "packets",
    },
    Spec {
        name: "core",
        file: "core",
        times: BINS,
        keys: &[],
        metrics: &[
            metric("entered", "entered", EACH),
            metric("delivered", "delivered", EACH),
            metric("dropped", "dropped", Take::Sum),
            metric("hops", "hops", EACH),
            metric("inside", "inside", Take::Last),
            metric("busy", "busy_ns", SHARE),
            metric("left", "left", Take::Sum),
            metric("late", "late", Take::Sum),
            metric("lateness", "lateness_mean_ns", Take::Weighted("left")),
            metric("lateness_max", "lateness_max_ns", Take::Most),
            metric("drops_shed", "drops_shed", Take::Sum),
            metric("drops_pool", "drops_pool", Take::Sum),
            metric("drops_send", "drops_send", Take::Sum),
        ],
        most: 1,
        rank: "entered",
    },
    Spec {
        name: "flows",
        file: "flows",
        times: BINS,
        keys: &["from", "to", "protocol", "from_port", "to_port"],
        metrics: &[
            metric("sent", "sent_bytes", BITS),
            metric("rate", "received_bytes", BITS),
            metric("dropped", "dropped", Take::Sum),
            metric("delay", "delay_mean_ns", Take::Weighted("received")),
            metric("delay_max", "delay_max_ns", Take::Most),
        ],
        most: 300,
        rank: "sent_bytes",
    },
    Spec {
        name: "connections",
        file: "connections",
        times: Times::Instants("time_ns"),
        keys: &[
            "host",
            "port",
            "peer",
            "peer_port",
            "flow",
            "id",
            "congestion",
        ],
        metrics: &[
            metric("cwnd", "cwnd_bytes", Take::Sample),
            metric("ssthresh", "ssthresh_bytes", Take::Last),
            metric("srtt", "srtt_ns", Take::Sample),
            metric("min_rtt", "min_rtt_ns", Take::Last),
            metric("delivery", "delivery_bps", Take::Sample),
            metric("in_flight", "in_flight_packets", Take::Sample),
            metric("lost", "lost_packets", Take::Most),
            metric("retransmitted", "retransmitted_packets", Take::Last),
        ],
        most: 200,
        rank: "acked_bytes",
    },
    Spec {
        name: "hosts",
        file: "hosts",
        times: BINS,
        keys: &["host"],
        metrics: &[
            metric("cpu", "cpu_ns", SHARE),
            metric("wait", "wait_ns", SHARE),
            metric("memory", "memory_bytes", Take::Last),
            metric("tasks", "tasks", Take::Last),
        ],
        most: 500,
        rank: "cpu_ns",
    },
];

/// The figures of a series that are worth rows of full resolution: those that say that packets were lost or late.
pub(super) fn alarms(series: &str) -> &'static [&'static str] {
    match series {
        "pipes" => &["drops_queue", "drops_loss", "drops_down"],
        "flows" => &["dropped"],
        "core" => &["lateness_max"],
        _ => &[],
    }
}

/// The series of a name.
pub(super) fn find(name: &str) -> Option<&'static Spec> {
    const PAIR: [Spec; 2] = [PIPES, PIPE_SECONDS];
    let all = PAIR.iter().chain(&OTHERS);
    let mut all = all.filter(|spec| spec.name == name);
    all.next()
}
