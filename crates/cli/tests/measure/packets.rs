//! Single packets of pipes, held to the series of the same pipes.

use std::collections::HashMap;

use crate::{Row, Run, Scratch};

/// A packet's way through a pipe: arrival, service, departure.
fn times(row: &Row) -> [u64; 3] {
    ["arrival_ns", "service_ns", "departure_ns"].map(|column| row.whole(column))
}

/// Packets of each pipe in order of arrival.
fn by_pipe(run: &Run) -> HashMap<String, Vec<Row>> {
    let mut pipes: HashMap<String, Vec<Row>> = HashMap::new();
    let rows = run.rows("packets");
    assert!(rows.is_sorted_by_key(|row| row.whole("departure_ns")));
    for row in rows {
        let [arrival, service, departure] = times(&row);
        assert!(arrival <= service && service <= departure);
        let pipe = row.text("pipe").to_owned();
        pipes.entry(pipe).or_default().push(row);
    }
    for rows in pipes.values_mut() {
        rows.sort_by_key(|row| (times(row), row.text("fate").to_owned()));
    }
    pipes
}

#[test]
fn packets_are_served_in_order_and_are_those_of_the_pipe() {
    let scratch = Scratch::new("fifo");
    let run = scratch.run("packets: [{ link: all }], format: csv", &[]);
    let pipes = run.pipes();
    for (pipe, rows) in by_pipe(&run) {
        let with = |fate: &str| rows.iter().filter(|row| row.text("fate") == fate).count() as u64;
        let counted = |name: &str| pipes[&*pipe][name].as_u64().unwrap();
        // The copies that a pipe makes come out of it without having come to it.
        assert_eq!(
            with("out") + counted("duplicated"),
            counted("packets"),
            "{pipe}"
        );
        assert_eq!(with("queue"), counted("drops_queue"), "{pipe}");
        assert_eq!(with("loss"), counted("drops_loss"), "{pipe}");
        assert_eq!(with("link_down"), counted("drops_down"), "{pipe}");
        let out: Vec<[u64; 3]> = rows
            .iter()
            .filter(|row| row.text("fate") == "out")
            .map(times)
            .collect();
        for pair in out.windows(2) {
            assert!(pair[0][1] <= pair[1][1], "{pipe} serves in order: {pair:?}");
            assert!(
                pair[0][2] <= pair[1][2],
                "{pipe} delivers in order: {pair:?}"
            );
        }
    }
}

/// What the queue's series says of waits and departures is what the packets say.
#[test]
fn packets_say_what_the_series_says() {
    let scratch = Scratch::new("agree");
    let run = scratch.run(
        "every: 7 ms, of: pipes, packets: [{ link: all }], format: csv",
        &[],
    );
    let mut bins: HashMap<String, Vec<Row>> = HashMap::new();
    let rows = run.rows("pipes");
    let end = rows.iter().map(|row| row.whole("start_ns")).max().unwrap();
    // Packets that are still inside at the end have no rows.
    for row in rows {
        if row.whole("start_ns") + 3_000_000_000 < end {
            let pipe = row.text("pipe").to_owned();
            bins.entry(pipe).or_default().push(row);
        }
    }
    let packets = by_pipe(&run);
    let mut held = Vec::new();
    for (pipe, bins) in &bins {
        let counted = |name: &str| run.pipes()[&**pipe][name].as_u64().unwrap();
        // Copies have no rows of their own, and what a failure takes from the server has been served, too.
        if counted("duplicated") + counted("drops_down") == 0 {
            held.push(&**pipe);
            bins.iter().for_each(|bin| hold(bin, &packets[pipe]));
        }
    }
    // Its rate falls and rises again with packets in the queue, and starts that were known change.
    assert!(held.contains(&"a0>g") && held.len() > 3, "{held:?}");
}

/// Holds a bin of a pipe to the packets of that pipe.
fn hold(bin: &Row, packets: &[Row]) {
    let (from, width) = (bin.whole("start_ns"), bin.whole("width_ns"));
    let within = |time: u64| (from..from + width).contains(&time);
    let pipe = bin.text("pipe");
    let out = packets.iter().filter(|row| row.text("fate") == "out");
    let out = out.filter(|row| within(row.whole("departure_ns")));
    assert_eq!(
        out.count() as u64,
        bin.whole("packets"),
        "{pipe} from {from}"
    );
    let served = packets
        .iter()
        .filter(|row| matches!(row.text("fate"), "out" | "loss"));
    let waits = served.map(times).filter(|times| within(times[1]));
    let waits: Vec<u64> = waits
        .map(|[arrival, service, _]| service - arrival)
        .collect();
    assert_eq!(
        waits.len() as u64,
        bin.whole("served"),
        "{pipe} from {from}"
    );
    let longest = waits.iter().max().copied().unwrap_or(0);
    assert_eq!(longest, bin.whole("delay_max_ns"), "{pipe} from {from}");
    let mean = waits.iter().sum::<u64>() as f64 / waits.len().max(1) as f64;
    let reported = bin.real("delay_mean_ns");
    assert!(
        (mean - reported).abs() <= 1e-9 * mean,
        "{pipe} from {from}: {mean} and {reported}"
    );
}

#[test]
fn only_arrivals_within_the_window_are_followed() {
    let scratch = Scratch::new("window");
    let all = scratch.run("packets: [{ link: g-h }], format: csv", &[]);
    let some = scratch.run(
        "packets: [{ link: \"g>h\", from: 900 ms, for: 300 ms }, { link: g-h, from: 3 s, for: 1 s }], format: csv",
        &[],
    );
    let within = |row: &&Row| {
        let arrival = row.whole("arrival_ns") / 1_000_000;
        (3000..4000).contains(&arrival)
            || row.text("pipe") == "g>h" && (900..1200).contains(&arrival)
    };
    let key = |row: &Row| (row.text("pipe").to_owned(), times(row));
    let expected: Vec<_> = all.rows("packets").iter().filter(within).map(key).collect();
    let found: Vec<_> = some.rows("packets").iter().map(key).collect();
    assert!(expected.len() > 300);
    assert_eq!(found, expected);
}
