//! Columns, and the formats in which they are written.
//!
//! Parquet is written by the `parquet` crate without Arrow, one row group a file, with Zstandard. CSV
//! follows RFC 4180; names have no commas or quotes, so nothing is quoted.

use std::io::{self, Write};
use std::sync::Arc;

use longhaul_plan::measure::Format;

use super::columns::{Column, Declared, Kind};

/// The values of a column; where some may be missing, the levels say which are there.
#[derive(Debug, Clone)]
enum Values {
    Whole(Vec<i64>, Levels),
    Real(Vec<f64>, Levels),
    Text(Vec<Arc<str>>),
}

/// For each row 1 where it has a value, else 0 (Parquet's definition levels); nothing where all have.
type Levels = Option<Vec<i16>>;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Whole(i64),
    Real(f64),
    Text(Arc<str>),
    Missing,
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

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, T::into)
    }
}

/// Rows of one series, column by column.
#[derive(Debug, Clone)]
pub(super) struct Table {
    declared: Declared,
    columns: Vec<Values>,
    rows: usize,
}

impl Table {
    pub(super) fn new(declared: Declared) -> Self {
        let values = |column: &Column| {
            let levels = column.kind.may_be_missing().then(Vec::new);
            match column.kind {
                Kind::Whole | Kind::MaybeWhole => Values::Whole(Vec::new(), levels),
                Kind::Real | Kind::MaybeReal => Values::Real(Vec::new(), levels),
                Kind::Text => Values::Text(Vec::new()),
            }
        };
        Self {
            declared,
            columns: declared.iter().map(values).collect(),
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
            let cell = cells.next();
            match (column, cell) {
                (Values::Whole(values, levels), Some(Cell::Whole(value))) => {
                    values.push(value);
                    levels.iter_mut().for_each(|levels| levels.push(1));
                }
                (Values::Real(values, levels), Some(Cell::Real(value))) => {
                    values.push(value);
                    levels.iter_mut().for_each(|levels| levels.push(1));
                }
                (
                    Values::Whole(_, Some(levels)) | Values::Real(_, Some(levels)),
                    Some(Cell::Missing),
                ) => levels.push(0),
                (Values::Text(values), Some(Cell::Text(value))) => values.push(value),
                (column, cell) => unreachable!("{cell:?} in a column of {column:?}"),
            }
        }
        self.rows += 1;
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.declared);
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
        let names: Vec<&str> = self.declared.iter().map(|column| column.name).collect();
        writeln!(to, "{}", names.join(","))?;
        // How many values of each column have been written.
        let mut written = vec![0; self.columns.len()];
        for row in 0..self.rows {
            for (number, (column, at)) in self.columns.iter().zip(&mut written).enumerate() {
                if number > 0 {
                    to.write_all(b",")?;
                }
                if let Values::Whole(_, Some(levels)) | Values::Real(_, Some(levels)) = column
                    && levels[row] == 0
                {
                    continue;
                }
                match column {
                    Values::Whole(values, _) => write!(to, "{}", values[*at])?,
                    Values::Real(values, _) => write!(to, "{}", values[*at])?,
                    Values::Text(values) => to.write_all(values[*at].as_bytes())?,
                }
                *at += 1;
            }
            to.write_all(b"\n")?;
        }
        to.flush()
    }

    #[cfg(feature = "parquet")]
    fn encode_parquet(&self, to: impl Write + Send) -> io::Result<()> {
        use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
        use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
        use parquet::errors::ParquetError;
        use parquet::file::properties::{EnabledStatistics, WriterProperties};
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::types::Type;

        let field = |&Column { name, kind, .. }: &Column| {
            let physical = match kind {
                Kind::Whole | Kind::MaybeWhole => Physical::INT64,
                Kind::Real | Kind::MaybeReal => Physical::DOUBLE,
                Kind::Text => Physical::BYTE_ARRAY,
            };
            let builder = Type::primitive_type_builder(name, physical);
            let builder = match kind {
                Kind::Text => builder.with_converted_type(ConvertedType::UTF8),
                _ => builder,
            };
            let repetition = if kind.may_be_missing() {
                Repetition::OPTIONAL
            } else {
                Repetition::REQUIRED
            };
            builder.with_repetition(repetition).build().map(Arc::new)
        };
        let fields: Result<Vec<_>, _> = self.declared.iter().map(field).collect();
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
                    Values::Whole(values, levels) => {
                        let column = column.typed::<Int64Type>();
                        column.write_batch(values, levels.as_deref(), None)?;
                    }
                    Values::Real(values, levels) => {
                        let column = column.typed::<DoubleType>();
                        column.write_batch(values, levels.as_deref(), None)?;
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
        write().map_err(|error| match error {
            // What the file said, such as that the disk is full.
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(inner) => io::Error::other(inner),
            },
            other => io::Error::other(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::column;
    use super::*;

    fn table() -> Table {
        const COLUMNS: Declared = &[
            column("a", Kind::Whole),
            column("b", Kind::Text),
            column("c", Kind::MaybeReal),
            column("d", Kind::MaybeWhole),
        ];
        let mut table = Table::new(COLUMNS);
        let text = |text: &str| Cell::Text(text.into());
        table.push([7_u64.into(), text("x"), 0.5.into(), Cell::Missing]);
        table.push([u64::MAX.into(), text(""), Cell::Missing, 3_u64.into()]);
        table
    }

    #[test]
    fn csv_has_a_header_and_nothing_where_values_are_missing() {
        let mut text = Vec::new();
        table().encode(Format::Csv, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, format!("a,b,c,d\n7,x,0.5,\n{},,,3\n", i64::MAX));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_gives_back_what_was_written() {
        use parquet::file::reader::{FileReader, SerializedFileReader};

        let mut file = tempfile();
        table().encode(Format::Parquet, &mut file).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Result<Vec<_>, _> = reader.get_row_iter(None).unwrap().collect();
        let rows: Vec<String> = rows.unwrap().iter().map(ToString::to_string).collect();
        let expected = [
            "{a: 7, b: \"x\", c: 0.5, d: null}".to_owned(),
            format!("{{a: {}, b: \"\", c: null, d: 3}}", i64::MAX),
        ];
        assert_eq!(rows, expected);
        assert_eq!(reader.metadata().num_row_groups(), 1);
    }

    /// Callers tell a full disk from other errors.
    #[cfg(feature = "parquet")]
    #[test]
    fn errors_of_the_file_keep_their_kind() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for format in [Format::Parquet, Format::Csv] {
            let error = table().encode(format, Full).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        }
    }

    /// A file without a name.
    #[cfg(feature = "parquet")]
    fn tempfile() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("longhaul-encode-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true);
        let file = file.open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }
}
