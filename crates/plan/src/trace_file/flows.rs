//! Recorded flows in columns: `start_s`, `from`, `to`, `bytes` and, if there, `rate_bps`, in any
//! order.

use std::io::BufRead;

use super::TraceFault;
use super::csv::{cells, is_silent};
use super::lines::{Lines, column};
use super::number::Decimal;
use crate::text::error::{near_miss, shown};

const NAMES: [&str; 5] = ["start_s", "from", "to", "bytes", "rate_bps"];
/// How many of [`NAMES`], from the first on, a file must have.
const NEEDED: usize = 4;

/// The place of each of [`NAMES`] in a row.
type Order = [Option<usize>; NAMES.len()];

const HEADER: &str =
    "begin with a line that names the columns: `start_s`, `from`, `to` and `bytes`";

/// A row as it is written, its numbers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRow<'a> {
    /// When the flow starts, in nanoseconds.
    pub start_ns: u64,
    /// Who opens it.
    pub from: &'a str,
    /// The other end.
    pub to: &'a str,
    /// What it carries.
    pub bytes: u64,
    /// Its payload per second, in bits; `None` where the cell is empty or there is none.
    pub rate_bps: Option<u64>,
}

/// What is wrong with a row, and what to write.
type Wrong = (String, String);

/// What `take` makes of each row, in order of start, then of the file; at most `most` of them.
pub(super) fn parse<T>(
    input: impl BufRead,
    most: u64,
    mut take: impl FnMut(FlowRow<'_>) -> Result<T, Wrong>,
) -> Result<Vec<T>, TraceFault> {
    let mut lines = Lines::new(input);
    let order = header(&mut lines)?;
    let mut rows: Vec<(u64, T)> = Vec::new();
    while let Some(line) = lines.next_line()? {
        if is_silent(line) {
            continue;
        }
        let row = row(line, order).and_then(|row| {
            let start = row.start_ns;
            take(row)
                .map(|made| (start, made))
                .map_err(|wrong| (None, wrong))
        });
        match row {
            Ok(_) if rows.len() as u64 == most => {
                let message = format!("the file has more than {most} flows");
                return Err(lines.fault(message, "shorten it"));
            }
            Ok(row) => rows.push(row),
            Err((place, (message, hint))) => {
                let place = place.map_or(0, |byte| column(line, byte));
                return Err(lines.fault(message, hint).in_column(place));
            }
        }
    }
    if rows.is_empty() {
        let message = "there are no rows below the header";
        return Err(lines.fault(message, "write one flow on each line"));
    }
    rows.sort_by_key(|(start, _)| *start);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The places of the columns.
fn header<R: BufRead>(lines: &mut Lines<R>) -> Result<Order, TraceFault> {
    let line = loop {
        match lines.next_line()? {
            None => return Err(TraceFault::new("the file is empty", HEADER)),
            Some(line) if is_silent(line) => {}
            Some(line) => break line.to_vec(),
        }
    };
    let mut found = Order::default();
    for (index, (place, cell)) in cells(&line).enumerate() {
        let name = String::from_utf8_lossy(cell);
        let known = NAMES.iter().position(|known| *known == name);
        let problem = match known.map(|known| found[known].replace(index)) {
            Some(None) => continue,
            Some(Some(_)) => (format!("a second column `{name}`"), "remove one".to_owned()),
            None => {
                let hint = match near_miss(&name, NAMES) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => HEADER.to_owned(),
                };
                (format!("`{}` is not a column of flows", shown(&name)), hint)
            }
        };
        let fault = lines.fault(problem.0, problem.1);
        return Err(fault.in_column(column(&line, place)));
    }
    match found[..NEEDED].iter().position(Option::is_none) {
        None => Ok(found),
        Some(missing) => {
            let message = format!("there is no column `{}`", NAMES[missing]);
            Err(lines.fault(message, HEADER))
        }
    }
}

/// Reads a row; what is wrong comes with the place of its cell.
fn row(line: &[u8], order: Order) -> Result<FlowRow<'_>, (Option<usize>, Wrong)> {
    let mut values: [(usize, &[u8]); NAMES.len()] = [(0, &[]); NAMES.len()];
    let mut count = 0;
    for (index, cell) in cells(line).enumerate() {
        count += 1;
        if let Some(name) = order.iter().position(|place| *place == Some(index)) {
            values[name] = cell;
        }
    }
    let named = order.iter().flatten().count();
    if count != named {
        let message = format!("{count} cells where the header names {named}");
        return Err((
            None,
            (message, "write one value for each column".to_owned()),
        ));
    }
    let number = |index: usize, places: i32, hint: &str| {
        let (place, cell) = values[index];
        let wrong = |why: &str| {
            let message = format!("`{}` {why}", shown(&String::from_utf8_lossy(cell)));
            (Some(place), (message, hint.to_owned()))
        };
        let number = Decimal::parse(cell).map_err(wrong)?;
        number.shifted(places).ok_or_else(|| wrong("is too large"))
    };
    let text = |index: usize| {
        let (place, cell) = values[index];
        let wrong = || {
            let message = "this is not text in UTF-8".to_owned();
            (
                Some(place),
                (message, "write the name of a host".to_owned()),
            )
        };
        std::str::from_utf8(cell).map_err(|_| wrong())
    };
    Ok(FlowRow {
        start_ns: number(0, 9, "write seconds from 0 on, like `0.25`")?,
        from: text(1)?,
        to: text(2)?,
        bytes: number(3, 0, "write whole bytes, like `20000`")?,
        rate_bps: match values[4].1 {
            [] => None,
            _ => Some(number(4, 0, "write whole bits per second, like `10e6`")?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u64, String, u64)>, String> {
        let take = |row: FlowRow<'_>| {
            let ends = format!("{}>{}", row.from, row.to);
            Ok((row.start_ns, ends, row.bytes))
        };
        parse(text.as_bytes(), 3, take).map_err(|fault| fault.to_string())
    }

    #[test]
    fn flows_come_in_order_of_their_start() {
        let flows =
            read("# x\nto, from, bytes, start_s\nb,a,10,0.5\n\"c\" , a , 1e3, 0.000000001\n");
        let expected = vec![
            (1, "a>c".to_owned(), 1000),
            (500_000_000, "a>b".to_owned(), 10),
        ];
        assert_eq!(flows, Ok(expected));
    }

    #[test]
    fn flows_may_have_rates() {
        let text = "bytes,rate_bps,start_s,from,to\n7,5e6,0,a,b\n7,,1,a,b\n";
        let rates = parse(text.as_bytes(), 3, |row| Ok(row.rate_bps));
        assert_eq!(rates.ok(), Some(vec![Some(5_000_000), None]));
    }

    #[test]
    fn what_is_wrong_has_a_place_and_a_remedy() {
        let cases = [
            ("", " error: the file is empty"),
            ("start_s,from,to\n", "1: error: there is no column `bytes`"),
            (
                "start_s,from,to,byte\n",
                "1:17: error: `byte` is not a column",
            ),
            ("start_s,to,to,bytes\n", "1:12: error: a second column `to`"),
            ("start_s,from,to,bytes\n", "there are no rows"),
            ("start_s,from,to,bytes\n1,a,b\n", "2: error: 3 cells where"),
            (
                "start_s,from,to,bytes\n1,a,b,-3\n",
                "2:7: error: `-3` is negative",
            ),
            (
                "start_s,from,to,bytes\n1e99,a,b,3\n",
                "2:1: error: `1e99` is too large",
            ),
            (
                "start_s,from,to,bytes\n1,a,b,3\n1,a,b,3\n1,a,b,3\n1,a,b,3\n",
                "5: error: the file has more than 3",
            ),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(error.contains("\nhint: "), "{error}");
        }
    }
}
