//! What every mechanism of a link does, beside what it should do, as Markdown tables.
//!
//! `cargo run --release -p longhaul-core --example links` prints them;
//! `… --example links -- --write-docs docs/links.md` puts them between the markers of that page.
//! All is virtual time from a fixed seed: the tables are the same on every machine.

#[path = "../tests/links/mod.rs"]
mod links;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = match arguments.as_slice() {
        [] => None,
        [option, path] if option == "--write-docs" => Some(path),
        _ => {
            eprintln!("usage: links [--write-docs FILE]");
            return ExitCode::from(2);
        }
    };
    let mut page = path.map(|path| std::fs::read_to_string(path).expect("a page"));
    let mut missed = false;
    for measure in links::TABLES {
        let table = measure();
        for miss in table.misses() {
            missed = true;
            eprintln!("off: {miss}");
        }
        match &mut page {
            None => println!("{}\n", table.block()),
            Some(page) => *page = table.put_into(page).expect("markers for every table"),
        }
    }
    if let (Some(path), Some(page)) = (path, page) {
        std::fs::write(path, page).expect("a page that can be written");
    }
    ExitCode::from(u8::from(missed))
}
