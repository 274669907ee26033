//! Columns, and the formats in which they are written.
//!
//! Parquet is written by the `parquet` crate without Arrow, one row group a file, with Zstandard. CSV
//! follows RFC 4180; names have no commas or quotes, so nothing is quoted.

use std::io::{self, Write};
use std::sync::Arc;

use longhaul_plan::measure::Format;

/// The values of a column.
#[derive(Debug, Clone)]
pub(super) enum Values {
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<Arc<str>>),
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Whole(i64),
    Real(f64),
    Text(Arc<str>),
}

impl From<u64> for Cell {
    /// Values beyond 63 bits become the largest that there is.
    fn from(value: u64) -> Self {
        Self::Whole(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&Arc<str>> for Cell {
    fn from(value: &Arc<str>) -> Self {
        Self::Text(Arc::clone(value))
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Real,
    Text,
}

/// Rows of one series, column by column.
#[derive(Debug, Clone)]
pub(super) struct Table {
    names: &'static [(&'static str, Kind)],
    columns: Vec<Values>,
    rows: usize,
}

impl Table {
    pub(super) fn new(names: &'static [(&'static str, Kind)]) -> Self {
        let column = |&(_, kind): &(_, Kind)| match kind {
            Kind::Whole => Values::Whole(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
        };
        Self {
            names,
            columns: names.iter().map(column).collect(),
            rows: 0,
        }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row, whose cells are of the columns' kinds.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        let mut cells = row.into_iter();
        for column in &mut self.columns {
            match (column, cells.next()) {
                (Values::Whole(values), Some(Cell::Whole(value))) => values.push(value),
                (Values::Real(values), Some(Cell::Real(value))) => values.push(value),
                (Values::Text(values), Some(Cell::Text(value))) => values.push(value),
                (column, cell) => unreachable!("{cell:?} in a column of {column:?}"),
            }
        }
        self.rows += 1;
    }

    pub(super) fn clear(&mut self) {
        for column in &mut self.columns {
            match column {
                Values::Whole(values) => values.clear(),
                Values::Real(values) => values.clear(),
                Values::Text(values) => values.clear(),
            }
        }
        self.rows = 0;
    }

    /// All rows as a file.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub(super) fn encode(&self, format: Format, to: impl Write + Send) -> io::Result<()> {
        match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => self.encode_parquet(to),
            _ => self.encode_csv(to),
        }
    }

    fn encode_csv(&self, mut to: impl Write) -> io::Result<()> {
        let names: Vec<&str> = self.names.iter().map(|(name, _)| *name).collect();
        writeln!(to, "{}", names.join(","))?;
        for row in 0..self.rows {
            for (number, column) in self.columns.iter().enumerate() {
                if number > 0 {
                    to.write_all(b",")?;
                }
                match column {
                    Values::Whole(values) => write!(to, "{}", values[row])?,
                    Values::Real(values) => write!(to, "{}", values[row])?,
                    Values::Text(values) => to.write_all(values[row].as_bytes())?,
                }
            }
            to.write_all(b"\n")?;
        }
        to.flush()
    }

    #[cfg(feature = "parquet")]
    fn encode_parquet(&self, to: impl Write + Send) -> io::Result<()> {
        use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
        use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
        use parquet::file::properties::{EnabledStatistics, WriterProperties};
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::types::Type;

        let field = |&(name, kind): &(&str, Kind)| {
            let physical = match kind {
                Kind::Whole => Physical::INT64,
                Kind::Real => Physical::DOUBLE,
                Kind::Text => Physical::BYTE_ARRAY,
            };
            let builder = Type::primitive_type_builder(name, physical);
            let builder = match kind {
                Kind::Text => builder.with_converted_type(ConvertedType::UTF8),
                _ => builder,
            };
            builder
                .with_repetition(Repetition::REQUIRED)
                .build()
                .map(Arc::new)
        };
        let fields: Result<Vec<_>, _> = self.names.iter().map(field).collect();
        let schema =
            Type::group_type_builder("series").with_fields(fields.map_err(io::Error::other)?);
        let schema = schema.build().map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(
                ZstdLevel::try_new(3).map_err(io::Error::other)?,
            ))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .build();
        let write = || -> parquet::errors::Result<()> {
            let mut file = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties))?;
            let mut group = file.next_row_group()?;
            for values in &self.columns {
                let Some(mut column) = group.next_column()? else {
                    break;
                };
                match values {
                    Values::Whole(values) => {
                        column
                            .typed::<Int64Type>()
                            .write_batch(values, None, None)?;
                    }
                    Values::Real(values) => {
                        column
                            .typed::<DoubleType>()
                            .write_batch(values, None, None)?;
                    }
                    Values::Text(values) => {
                        let values: Vec<ByteArray> =
                            values.iter().map(|text| ByteArray::from(&**text)).collect();
                        column
                            .typed::<ByteArrayType>()
                            .write_batch(&values, None, None)?;
                    }
                }
                column.close()?;
            }
            group.close()?;
            file.close().map(drop)
        };
        write().map_err(io::Error::other)
    }
}
