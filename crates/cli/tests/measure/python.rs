//! Series in Parquet as pandas and DuckDB read them: the sums that the summary has.

use std::path::Path;
use std::process::Command;

use crate::Scratch;
use crate::skip::skip;

/// Python with pandas, pyarrow and DuckDB: that of `LONGHAUL_PYTHON`, else the machine's.
fn python() -> Option<String> {
    let python = std::env::var("LONGHAUL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = "import pandas, pyarrow, duckdb";
    let found = Command::new(&python).args(["-c", imports]).output();
    found
        .is_ok_and(|found| found.status.success())
        .then_some(python)
}

#[test]
fn pandas_and_duckdb_read_the_series() {
    let Some(python) = python() else {
        return skip(
            "install pandas, pyarrow and duckdb (or name a Python that has them: LONGHAUL_PYTHON)",
        );
    };
    let scratch = Scratch::new("python");
    // Small enough for several parts.
    let run = scratch.run("every: 2 ms, disk: 2 MB, packets: [{ link: g-h }]", &[]);
    assert!(run.parts("pipes").len() > 2);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/measure/series.py");
    let output = Command::new(python)
        .arg("-B")
        .arg(script)
        .arg(&run.folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
