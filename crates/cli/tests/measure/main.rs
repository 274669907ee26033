//! What a virtual run writes down as it goes on, through the binary: series, captures and packets, held to
//! the summary and to each other. The files of captures are read by a reader that knows nothing of the writer.

mod captures;
mod packets;
mod python;
#[path = "../../../capture/tests/common/reader.rs"]
#[allow(dead_code)]
mod reader;
#[path = "../common/scratch.rs"]
#[allow(dead_code)]
mod scratch;
mod series;
#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../common/table.rs"]
mod table;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use scratch::{Scratch, text};
use serde_json::Value;
use table::Row;

/// Everything that pipes do: a discipline that drops, random loss, a queue that overflows, rates and delays that
/// change with packets inside, a link that fails, one that keeps its queue meanwhile; and nothing for some seconds.
const EXPERIMENT: &str = "\
name: measured
clock: virtual
duration: 12 s
topology:
  nodes: { a: { count: 3 }, b: { count: 3 }, g: { kind: router }, h: { kind: router } }
  links:
    - { ends: [a, g], rate: 100 Mbit/s, delay: 2 ms }
    - { ends: [g, h], rate: 10 Mbit/s, delay: 10 ms, queue: { codel: { target: 2 ms } }, loss: 0.5 % }
    - { ends: [h, b], rate: 100 Mbit/s, delay: 3 ms, queue: 6 packets, duplicate: 0.3 % }
traffic:
  bulk: { from: a, to: b, bytes: 2 MB }
  cross: { from: a0, to: b1, model: udp, rate: 500 kbit/s, gaps: poisson, bytes: 300 kB }
  late: { from: a1, to: b2, model: udp, rate: 300 kbit/s, start: 11 s }
events:
  - { at: 1 s, link: g-h, set: { rate: 5 Mbit/s } }
  - { at: 1500 ms, link: a0-g, set: { rate: 1 Mbit/s } }
  - { at: 2 s, link: g-h, down: 300 ms }
  - { at: 2500 ms, link: a1-g, down: 200 ms, keep_queue: true }
  - { at: 3 s, link: h-b, set: { rate: 3 Mbit/s, delay: 1 ms } }
  - { at: 4 s, link: [g-h, a0-g], set: { rate: 50 Mbit/s } }
";

impl Scratch {
    /// Runs [`EXPERIMENT`] with such fields of `measure`.
    fn run(&self, measure: &str, more: &[&str]) -> Run {
        self.run_file(&format!("{EXPERIMENT}measure: {{ {measure} }}\n"), more)
    }

    fn run_file(&self, experiment: &str, more: &[&str]) -> Run {
        let runs = fs::read_dir(&self.0).unwrap().count();
        let file = self.write("experiment.yaml", experiment);
        let out = self.path(&format!("run-{runs}"));
        let args = ["run", &file, "--json", "--quiet", "--out", &out];
        let output = self.longhaul(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let summary = serde_json::from_slice(&output.stdout).unwrap();
        let folder = out.into();
        Run { folder, summary }
    }

    /// A file that splits [`EXPERIMENT`] over so many cores.
    fn partition(&self, cores: usize) -> String {
        let file = self.write("whole.yaml", EXPERIMENT);
        let saved = self.path(&format!("{cores}.json"));
        let cores = cores.to_string();
        let args = ["partition", &file, "--cores", &cores, "--method", "random"];
        let output = self.longhaul(&[&args[..], &["--save", &saved]].concat());
        assert!(output.status.success(), "{output:?}");
        saved
    }
}

/// A run that is over.
struct Run {
    folder: PathBuf,
    summary: Value,
}

impl Run {
    /// The parts of a series, in their order.
    fn parts(&self, series: &str) -> Vec<PathBuf> {
        table::parts(&self.folder, series)
    }

    /// The rows of a series in CSV, as many as the summary says.
    fn rows(&self, series: &str) -> Vec<Row> {
        let rows = table::rows(&self.folder, series);
        let listed = self.summary["series"].as_array().unwrap().iter();
        let listed: Vec<_> = listed.filter(|entry| entry["name"] == series).collect();
        let counts: Vec<_> = listed.iter().map(|entry| entry["rows"].as_u64()).collect();
        let expected: &[_] = match rows.len() {
            0 => &[],
            rows => &[Some(rows as u64)],
        };
        assert_eq!(counts, expected, "the summary knows the rows of {series}");
        rows
    }

    /// The pipes of the summary by name.
    fn pipes(&self) -> HashMap<&str, &Value> {
        let pipes = self.summary["pipes"].as_array().unwrap();
        let named = pipes
            .iter()
            .map(|pipe| (pipe["name"].as_str().unwrap(), pipe));
        named.collect()
    }

    fn warnings(&self) -> Vec<&str> {
        let warnings = self.summary["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| warning.as_str().unwrap()).collect()
    }

    /// All files below a folder of the run by name, with their bytes.
    fn files(&self, folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let root = self.folder.join(folder);
        let mut files = Vec::new();
        gather(&root, &mut files);
        let mut files: Vec<_> = files
            .into_iter()
            .map(|path| {
                let bytes = fs::read(&path).unwrap();
                (path.strip_prefix(&root).unwrap().to_owned(), bytes)
            })
            .collect();
        files.sort();
        files
    }
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, files)
        } else {
            files.push(path)
        }
    }
}
