//! Wrong files and what is said about them.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_plan::plan::Plan;

use crate::{folder, wrong};

/// Every file of `tests/bad` fails with the text that lies beside it. With `BLESS=1` in the
/// environment the texts are written instead.
#[test]
fn bad_files_say_what_is_wrong() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut paths: Vec<PathBuf> = fs::read_dir(folder("bad"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    paths.sort();
    assert!(paths.len() > 30);
    let mut different = Vec::new();
    for path in paths {
        let errors = Plan::from_file(&path).expect_err(&format!("{} is wrong", path.display()));
        let folder = format!("{}/", folder("bad").display());
        let message = errors.to_string().replace(&folder, "") + "\n";
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, &message).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != message {
            different.push(message);
        }
    }
    assert!(
        different.is_empty(),
        "other messages than expected:\n\n{}",
        different.join("\n")
    );
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = Plan::from_file(&folder("bad")).unwrap_err().to_string();
    assert!(folder.contains("this is a directory"), "{folder}");
    let missing = Plan::from_file(Path::new("/no/such/file.yaml"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("/no/such/file.yaml: error: cannot read the file: "),
        "{missing}"
    );
}

#[test]
fn a_flood_of_errors_is_cut() {
    let links = "    - { ends: [a, a] }\n".repeat(5_000);
    let text = format!("topology:\n  nodes: {{ a: {{}} }}\n  links:\n{links}");
    let errors = Plan::from_text(&text, "f.yaml").unwrap_err();
    assert_eq!((errors.list().len(), errors.count()), (50, 5_000));
    assert!(errors.to_string().ends_with("… and 4950 more errors"));
    let first = &errors.list()[0];
    assert_eq!((first.line(), first.column()), (4, 19));
}

#[test]
fn sizes_are_bounded() {
    let text = "topology:
  nodes: { a: { count: 10001 }, r: { kind: router } }
  links: [{ ends: [a, r] }]
programs: { p: { on: a, run: x } }
";
    assert!(wrong(text).contains("10001 programs"), "{}", wrong(text));
    let text = "topology:
  nodes: { a: { count: 20000 }, r: { kind: router } }
  links: [{ ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] },
          { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] },
          { ends: [a, r] }]
";
    assert!(
        wrong(text).contains("more than 200000 links"),
        "{}",
        wrong(text)
    );
}
