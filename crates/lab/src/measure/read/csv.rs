//! Parts in CSV, of which no value is quoted: line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::{BATCH, Batch, Columns, LINE_MAX, Pool, Take};

/// What a column of the file is asked for as.
#[derive(Debug, Clone, Copy)]
enum Role {
    Number(usize),
    Text(usize),
}

pub(super) fn part(
    file: File,
    columns: &Columns<'_>,
    pool: &mut Pool,
    take: Take<'_>,
) -> io::Result<Option<String>> {
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut line = String::new();
    let mut next = |line: &mut String| {
        line.clear();
        let read = (&mut reader).take(LINE_MAX).read_line(line);
        read.map(|read| read > 0)
    };
    next(&mut line)?;
    let roles: Vec<Vec<Role>> = line
        .trim_end()
        .split(',')
        .map(|name| roles_of(name, columns))
        .collect();
    if roles.iter().all(Vec::is_empty) {
        return Err(io::Error::other("its header line is not the expected one"));
    }
    let mut batch = Batch::new(columns);
    let mut bad = 0_u64;
    while next(&mut line)? {
        let Some(text) = line.strip_suffix('\n') else {
            // The last line of a run that was killed.
            bad += 1;
            continue;
        };
        bad += u64::from(!add(&mut batch, text.trim_end_matches('\r'), &roles, pool));
        if batch.rows == BATCH {
            if !take(&batch, pool) {
                return Ok(None);
            }
            batch = Batch::new(columns);
        }
    }
    if batch.rows > 0 {
        take(&batch, pool);
    }
    Ok((bad > 0).then(|| match bad {
        1 => "has a malformed line, which is left out".to_owned(),
        bad => format!("has {bad} malformed lines, which are left out"),
    }))
}

fn roles_of(name: &str, columns: &Columns<'_>) -> Vec<Role> {
    let place = |names: &[&str]| names.iter().position(|wanted| *wanted == name);
    let number = place(columns.numbers).map(Role::Number);
    let text = place(columns.texts).map(Role::Text);
    number.into_iter().chain(text).collect()
}

/// Adds a row, unless the line makes no sense.
fn add(batch: &mut Batch, line: &str, roles: &[Vec<Role>], pool: &mut Pool) -> bool {
    if line.split(',').count() != roles.len() {
        return false;
    }
    let numbers = |value: &str| match value {
        "" => Some(f64::NAN),
        value => value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite()),
    };
    let asked = || line.split(',').zip(roles);
    let is_number = |(value, roles): (&str, &Vec<Role>)| {
        let wanted = roles.iter().any(|role| matches!(role, Role::Number(_)));
        !wanted || numbers(value).is_some()
    };
    if !asked().all(is_number) {
        return false;
    }
    for (value, roles) in asked() {
        for role in roles {
            match *role {
                Role::Number(at) => batch.numbers[at].push(numbers(value).unwrap_or(f64::NAN)),
                Role::Text(at) => batch.texts[at].push(pool.number(value)),
            }
        }
    }
    batch.rows += 1;
    fill(batch, pool);
    true
}

/// Gives columns that the file lacks a value.
fn fill(batch: &mut Batch, pool: &mut Pool) {
    let rows = batch.rows;
    for column in &mut batch.numbers {
        column.resize(rows, f64::NAN);
    }
    for column in &mut batch.texts {
        if column.len() < rows {
            column.resize(rows, pool.number(""));
        }
    }
}
