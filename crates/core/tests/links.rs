//! Every mechanism of a link does what docs/links.md says, and docs/links.md says what it does.
//!
//! The figures are those of the example `links`, which also writes them into the page:
//! `make links`.

#[path = "links/mod.rs"]
mod links;

use links::table::Table;

/// All figures are as theory has them, and as the documentation has them.
fn check(table: fn() -> Table) {
    let table = table();
    let misses = table.misses();
    assert!(misses.is_empty(), "seed {}: {misses:#?}", links::line::SEED);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/links.md");
    let page = std::fs::read_to_string(path).expect("docs/links.md");
    let renewed = table.put_into(&page).expect("markers for this table");
    assert!(renewed == page, "`make links` writes:\n{}", table.block());
}

macro_rules! tests {
    ($($name:ident: $index:literal,)*) => {
        $(#[test]
        fn $name() {
            check(links::TABLES[$index]);
        })*

        #[test]
        fn every_table_has_a_test() {
            let tested = [$($index),*];
            assert_eq!(tested, std::array::from_fn(|index| index));
            assert_eq!(tested.len(), links::TABLES.len());
        }
    };
}

tests! {
    delays: 0,
    correlated_delays: 1,
    losses: 2,
    changed_packets: 3,
    even_gaps: 4,
    token_buckets: 5,
    bounded_queues: 6,
    waits: 7,
    codel: 8,
    other_disciplines: 9,
    traces: 10,
    traces_in_step: 11,
}
