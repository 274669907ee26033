//! Which series a page shows. What it shows of their columns is declared with these
//! ([`columns`](crate::measure::columns)).

use std::sync::LazyLock;

use super::rollup::{Spec, Times};
use crate::measure::columns::Declared;
use crate::measure::rows;
use crate::run::SECONDS;

const BINS: Times = Times::Bins(rows::START.name, rows::WIDTH.name);
const OF_SECONDS: Times = Times::Seconds("second");

/// The most pipes of a page.
pub(super) const PIPES_MAX: usize = 20_000;

/// Pipes in bins, where they are measured.
pub(super) static PIPES: LazyLock<Spec> =
    LazyLock::new(|| spec("pipes", BINS, rows::PIPES, (PIPES_MAX, "bytes")));

/// Pipes second by second, of every run: a part of the same columns.
pub(super) static PIPE_SECONDS: LazyLock<Spec> = LazyLock::new(|| Spec {
    file: "pipes.csv",
    ..spec(
        "pipe_seconds",
        OF_SECONDS,
        rows::PIPES,
        (PIPES_MAX, "bytes"),
    )
});

/// All others.
pub(super) static OTHERS: LazyLock<[Spec; 5]> = LazyLock::new(|| {
    let instants = Times::Instants(rows::INSTANT.name);
    [
        Spec {
            file: "seconds.csv",
            ..spec("seconds", OF_SECONDS, SECONDS, (1, "packets"))
        },
        spec("core", BINS, rows::CORE, (1, "entered")),
        spec("flows", BINS, rows::FLOWS, (300, "sent_bytes")),
        spec(
            "connections",
            instants,
            rows::CONNECTIONS,
            (200, "acked_bytes"),
        ),
        spec("hosts", BINS, rows::HOSTS, (500, "cpu_ns")),
    ]
});

/// A series whose file has its name: of the most things by the sum of a column.
fn spec(
    name: &'static str,
    times: Times,
    columns: Declared,
    (most, rank): (usize, &'static str),
) -> Spec {
    Spec {
        name,
        file: name,
        times,
        keys: Spec::keys_of(columns),
        metrics: Spec::metrics_of(columns),
        most,
        rank,
    }
}

/// The figures of a series that are worth rows of full resolution: those that say that packets were lost or late.
pub(super) fn alarms(series: &str) -> &'static [&'static str] {
    match series {
        "pipes" => &["drops_queue", "drops_loss", "drops_down"],
        "flows" => &["dropped"],
        "core" => &["lateness_max"],
        _ => &[],
    }
}

/// All of them, those of bins before those of seconds.
fn all() -> impl Iterator<Item = &'static Spec> {
    let pipes: [&Spec; 2] = [&PIPES, &PIPE_SECONDS];
    pipes.into_iter().chain(&*OTHERS)
}

/// The series of a name.
pub(super) fn find(name: &str) -> Option<&'static Spec> {
    all().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::columns::Take;

    #[test]
    fn what_a_series_is_ranked_and_weighted_by_is_a_column_of_it() {
        for (name, columns) in [
            ("pipes", rows::PIPES),
            ("pipe_seconds", rows::PIPES),
            ("seconds", SECONDS),
            ("core", rows::CORE),
            ("flows", rows::FLOWS),
            ("connections", rows::CONNECTIONS),
            ("hosts", rows::HOSTS),
        ] {
            let spec = find(name).unwrap();
            let is_column = |name: &str| columns.iter().any(|column| column.name == name);
            let figures: Vec<_> = spec.metrics.iter().map(|metric| metric.name).collect();
            for metric in &spec.metrics {
                let same = figures.iter().filter(|name| **name == metric.name);
                assert_eq!(same.count(), 1, "{name}: {}", metric.name);
                if let Take::Weighted(by) = metric.take {
                    assert!(is_column(by), "{name}: {by}");
                }
            }
            assert!(is_column(spec.rank), "{name}: {}", spec.rank);
            assert!(
                alarms(name).iter().all(|alarm| figures.contains(alarm)),
                "{name}: {figures:?}"
            );
        }
        assert_eq!(all().count(), 7);
        // The page takes them apart in this order.
        let keys = &find("connections").unwrap().keys;
        assert_eq!(keys[..5], ["host", "port", "peer", "peer_port", "flow"]);
        let keys = &find("flows").unwrap().keys;
        assert_eq!(*keys, ["from", "to", "protocol", "from_port", "to_port"]);
    }
}
