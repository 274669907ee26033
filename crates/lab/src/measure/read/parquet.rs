//! Parts in Parquet, without Arrow: column by column of each row group.

use std::fs::File;
use std::io;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::{Batch, Columns, Pool, Take};

/// Writers make parts of some hundred thousand rows at most.
const ROWS_MAX: usize = 1 << 24;

pub(super) fn part(
    file: File,
    columns: &Columns<'_>,
    pool: &mut Pool,
    take: Take<'_>,
) -> io::Result<()> {
    let reader = SerializedFileReader::new(file).map_err(io::Error::other)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let place = |name: &str| {
        schema
            .columns()
            .iter()
            .position(|column| column.name() == name)
    };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(io::Error::other)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
        if rows > ROWS_MAX {
            return Err(io::Error::other(format!("a row group has {rows} rows")));
        }
        let mut batch = Batch::new(columns);
        batch.rows = rows;
        for (name, values) in columns.numbers.iter().zip(&mut batch.numbers) {
            *values = match place(name) {
                Some(at) => numbers(&*group, at, rows)?,
                None => vec![f64::NAN; rows],
            };
        }
        for (name, values) in columns.texts.iter().zip(&mut batch.texts) {
            *values = match place(name) {
                Some(at) => texts(&*group, at, rows, pool)?,
                None => vec![pool.number(""); rows],
            };
        }
        if !take(&batch, pool) {
            break;
        }
    }
    Ok(())
}

/// The values that there are, and for each row whether it has one; nothing where all have.
type Present<T> = (Vec<T>, Option<Vec<i16>>);

/// A column and which of its rows have a value.
fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    is_optional: bool,
) -> io::Result<Present<T::T>> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let defined = is_optional.then_some(&mut levels);
    let read = reader.read_records(rows, defined, None, &mut values);
    let (records, _, _) = read.map_err(io::Error::other)?;
    if records != rows || (is_optional && levels.len() != rows) {
        return Err(io::Error::other("a column is shorter than the others"));
    }
    Ok((values, is_optional.then_some(levels)))
}

/// Puts values at the rows that have one.
fn spread<T, U>(
    (values, levels): Present<T>,
    missing: impl Fn() -> U,
    mut value: impl FnMut(T) -> U,
) -> Vec<U> {
    let Some(levels) = levels else {
        return values.into_iter().map(value).collect();
    };
    let mut values = values.into_iter();
    let row = |level: i16| match level {
        0 => missing(),
        _ => values.next().map_or_else(&missing, &mut value),
    };
    levels.into_iter().map(row).collect()
}

fn numbers(group: &dyn RowGroupReader, at: usize, rows: usize) -> io::Result<Vec<f64>> {
    let is_optional = group.metadata().column(at).column_descr().max_def_level() > 0;
    match group.get_column_reader(at).map_err(io::Error::other)? {
        ColumnReader::Int64ColumnReader(reader) => {
            let read = values(reader, rows, is_optional)?;
            Ok(spread(read, || f64::NAN, |value| value as f64))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            let read = values(reader, rows, is_optional)?;
            let finite = |value: f64| if value.is_finite() { value } else { f64::NAN };
            Ok(spread(read, || f64::NAN, finite))
        }
        _ => Err(io::Error::other("a column of numbers has none")),
    }
}

fn texts(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
    pool: &mut Pool,
) -> io::Result<Vec<u32>> {
    let is_optional = group.metadata().column(at).column_descr().max_def_level() > 0;
    let nothing = pool.number("");
    match group.get_column_reader(at).map_err(io::Error::other)? {
        ColumnReader::ByteArrayColumnReader(reader) => {
            let read = values(reader, rows, is_optional)?;
            let text = |value: parquet::data_type::ByteArray| {
                pool.number(&String::from_utf8_lossy(value.data()))
            };
            Ok(spread(read, || nothing, text))
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let read = values(reader, rows, is_optional)?;
            Ok(spread(
                read,
                || nothing,
                |value| pool.number(&value.to_string()),
            ))
        }
        _ => Err(io::Error::other("a column of texts has none")),
    }
}
