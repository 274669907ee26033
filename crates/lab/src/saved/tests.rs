use std::fs::{self, FileTimes};
use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::compare::Figures;
use crate::report::tests::{flow, group, summary};
use crate::summary::{AttemptSummary, CaptureSummary, SeriesSummary};

#[path = "../../../../tests/mutate.rs"]
mod mutate;

/// A folder of its own for each test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("longhaul-saved-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A run folder of that age.
    fn run(&self, name: &str, hours_ago: u64) -> PathBuf {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).unwrap();
        let mark = folder.join("experiment.yaml");
        fs::write(&mark, "seed: 1\nname: \"wan\" # of ours\n").unwrap();
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - 3600 * hours_ago);
        let file = File::options().write(true).open(&mark).unwrap();
        file.set_times(FileTimes::new().set_modified(began))
            .unwrap();
        folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn parse(text: &str) -> Result<Saved, SavedError> {
    file(text).parse()
}

fn file(text: &str) -> SummaryFile {
    SummaryFile {
        folder: PathBuf::from("/r"),
        path: PathBuf::from("/r/summary.json"),
        text: text.to_owned(),
    }
}

/// Checks that all that has been read is in the summary under the same name, and that nothing reads as missing.
fn is_in(read: &Value, whole: &Value, path: &str) {
    match (read, whole) {
        (Value::Object(read), Value::Object(whole)) => {
            for (name, read) in read {
                let path = format!("{path}.{name}");
                let whole = whole.get(name);
                is_in(read, whole.unwrap_or_else(|| panic!("no {path}")), &path);
            }
        }
        (Value::Array(read), Value::Array(whole)) => {
            assert!(
                !read.is_empty() && read.len() == whole.len(),
                "{path}: {read:?}"
            );
            for (read, whole) in read.iter().zip(whole) {
                is_in(read, whole, path);
            }
        }
        // Of cores only the number is read.
        (Value::Number(cores), Value::Array(whole)) if path == ".cores" => {
            assert_eq!(cores.as_u64(), Some(whole.len() as u64));
        }
        _ => assert_eq!(read, whole, "{path}"),
    }
}

#[test]
fn a_summary_reads_back_as_it_was() {
    let mut summary = summary();
    summary.warnings = vec!["slow".to_owned()];
    summary.verdict.reasons = vec!["late".to_owned()];
    summary.flows = vec![flow(1)];
    summary.flow_groups = vec![group()];
    summary.series = vec![SeriesSummary {
        name: "pipes".to_owned(),
        rows: 5,
        bytes: 60,
    }];
    summary.captures = vec![CaptureSummary {
        links: "a-b".to_owned(),
        file: "captures/a-b.pcapng".to_owned(),
        packets: 7,
        missed: 8,
    }];
    summary.attempts = vec![AttemptSummary {
        run: "attempt-1".to_owned(),
        state: crate::fidelity::State::Degraded,
        late_share: 0.01,
        physical_drops: 0,
        stalls: Default::default(),
    }];
    let json = summary.to_json();
    let saved = serde_json::to_value(parse(&json).unwrap()).unwrap();
    is_in(&saved, &serde_json::from_str(&json).unwrap(), "");
}

#[test]
fn what_is_missing_is_unknown_and_what_is_wrong_is_reported() {
    let saved = parse(r#"{ "verdict": { "state": "degraded" } }"#).unwrap();
    assert_eq!((saved.packets.entered, saved.seed), (None, None));
    assert!(saved.pipes.is_none() && saved.programs.is_none());
    let problem = |text: &str| parse(text).unwrap_err().to_string();
    for (text, said) in [
        ("", "EOF"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("{}", "missing field `verdict`"),
        ("[]", "missing field"),
        (r#"{"verdict":{"state":"good"}}"#, "unknown variant `good`"),
        (
            r#"{"verdict":{"state":"broken"},"seed":-1}"#,
            "line 1 column 39",
        ),
        (
            r#"{"verdict":{"state":"broken"},"pipes":{}}"#,
            "expected a sequence",
        ),
        // However deep, what is skipped takes no stack.
        (&format!("{{\"x\":{}", "[".repeat(1_000_000)), "EOF"),
    ] {
        let found = problem(text);
        let is_summary_error = found.starts_with("/r/summary.json: this is not a summary: ");
        assert!(
            is_summary_error && (found.contains(said) || text == "[]"),
            "{text:.40}: {found}"
        );
    }
}

#[test]
fn files_that_are_none_or_too_large_are_not_read() {
    let scratch = Scratch::new("files");
    let path = scratch.0.join("file");
    fs::write(&path, [b' '; 100]).unwrap();
    assert_eq!(bounded(&path, 100).unwrap().len(), 100);
    fs::write(scratch.0.join(SUMMARY), b"{\"a\":\"\xff\"}").unwrap();
    let error = SummaryFile::read(&scratch.0).unwrap_err().to_string();
    assert!(error.contains("invalid utf-8 sequence"), "{error}");
    let error = bounded(&path, 99).unwrap_err().to_string();
    assert!(error == "it is too large", "{error}");
    fs::remove_file(scratch.0.join(SUMMARY)).unwrap();
    fs::create_dir(scratch.0.join(SUMMARY)).unwrap();
    let error = SummaryFile::read(&scratch.0).unwrap_err().to_string();
    assert!(
        error.ends_with("summary.json: this is not a summary: it is not a regular file"),
        "{error}"
    );
    // Its length is 0, and it never ends.
    let error = bounded(Path::new("/dev/zero"), 99).unwrap_err().to_string();
    assert_eq!(error, "it is not a regular file");
    let error = bounded(&scratch.0, 99).unwrap_err().to_string();
    assert_eq!(error, "it is not a regular file");
    // A file whose length says nothing, as those of /proc.
    let error = bounded(Path::new("/proc/self/status"), 9)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "it is too large");
}

#[test]
fn runs_are_found_by_folder_file_and_time() {
    let scratch = Scratch::new("find");
    assert!(matches!(newest(&scratch.0), Err(SavedError::NoRuns)));
    assert!(matches!(
        newest(&scratch.0.join("none")),
        Err(SavedError::NoRuns)
    ));
    let old = scratch.run("wan-2", 5);
    let new = scratch.run("wan", 1);
    fs::create_dir(scratch.0.join("zzz")).unwrap();
    assert_eq!(newest(&scratch.0).unwrap(), new);
    assert_eq!(find(Some(&old)).unwrap(), old);
    let none = find(Some(&old.join(SUMMARY)));
    assert!(matches!(none, Err(SavedError::Unknown(_))), "{none:?}");
    fs::write(old.join(SUMMARY), "{}").unwrap();
    assert_eq!(find(Some(&old.join(SUMMARY))).unwrap(), old);
    let other = find(Some(&scratch.0.join("zzz")));
    assert!(matches!(other, Err(SavedError::NotARun(_))), "{other:?}");
    for name in ["../wan", "no/such", "nosuch", "", "/"] {
        let none = find(Some(Path::new(name)));
        let is_refused = matches!(none, Err(SavedError::Unknown(_) | SavedError::NotARun(_)));
        assert!(is_refused, "{name}: {none:?}");
    }
}

#[test]
fn a_run_without_summary_is_refused_with_what_it_has_left() {
    let scratch = Scratch::new("partial-run");
    let run = scratch.run("wan", 1);
    fs::create_dir_all(run.join("series/pipes")).unwrap();
    fs::create_dir_all(run.join("logs")).unwrap();
    fs::write(run.join("logs/a.err"), "").unwrap();
    fs::write(run.join("logs/a.out"), "12345").unwrap();
    fs::write(run.join("series/pipes/0001.csv"), "123").unwrap();
    // The last row was cut short.
    fs::write(
        run.join("series/seconds.csv"),
        "second,packets\n0,5\n1,7\n2,",
    )
    .unwrap();
    let attempt = run.join("attempt-1");
    fs::create_dir(&attempt).unwrap();
    fs::write(attempt.join("experiment.yaml"), "").unwrap();
    fs::write(attempt.join(SUMMARY), "").unwrap();
    let error = SummaryFile::read(&run).unwrap_err();
    assert!(
        matches!(
            error,
            SavedError::Unfinished {
                under_way: false,
                ..
            }
        ),
        "{error}"
    );
    let found = partial_run(&run);
    assert_eq!(found.experiment.as_deref(), Some("wan"));
    assert_eq!(found.seconds, Some(2));
    assert!(found.written_for_s.unwrap() > 3600.0, "{found:?}");
    assert_eq!(found.attempts, [attempt]);
    let groups: Vec<_> = found
        .groups
        .iter()
        .map(|g| (g.folder, g.files, g.bytes))
        .collect();
    assert_eq!(groups, [("logs", 1, 5), ("series", 2, 28)]);
    // As long as a run holds its lock, it is under way.
    let lock = File::open(&run).unwrap();
    lock.try_lock().unwrap();
    let error = SummaryFile::read(&run).unwrap_err();
    assert!(
        matches!(
            error,
            SavedError::Unfinished {
                under_way: true,
                ..
            }
        ),
        "{error}"
    );
    let nothing = partial_run(&scratch.0.join("none"));
    assert_eq!((nothing.seconds, nothing.experiment), (None, None));
}

proptest! {
    /// Whatever becomes of a summary, it is read or refused.
    #[test]
    fn changed_summaries_are_read_or_refused(
        changes in vec(any::<mutate::Change>(), 0..6),
        bytes in vec(any::<mutate::Change>(), 0..3),
    ) {
        let whole: Value = serde_json::from_str(&summary().to_json()).unwrap();
        let text = mutate::mutate(&whole, &changes, &bytes);
        let Ok(text) = String::from_utf8(text) else {
            return Ok(());
        };
        let file = file(&text);
        if let (Ok(saved), Ok(read)) = (file.saved(), file.parse::<Value>()) {
            // What has been read is what the file has, and nothing else.
            prop_assert_eq!(saved.seed, read["seed"].as_u64());
            prop_assert_eq!(saved.packets.entered, read["packets"]["entered"].as_u64());
            let pipes = read["pipes"].as_array().map(Vec::len);
            prop_assert_eq!(saved.pipes.map(|pipes| pipes.len()), pipes);
        }
        if let Ok(figures) = file.parse::<Figures>() {
            let _ = crate::compare::compare(figures.clone(), figures, 0.01);
        }
    }
}
