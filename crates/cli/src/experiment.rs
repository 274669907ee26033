//! What `run` and `check` have in common: an experiment file with overrides.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use longhaul_plan::elements::Elements;
use longhaul_plan::file::{Errors, MAX_FILE_BYTES};
use longhaul_plan::plan::Plan;

/// Changes to what the file says.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Overrides {
    /// Override a field of the file, such as links.a-b.delay='5 ms' or seed=7; may be repeated
    #[arg(long, value_name = "PATH=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// The seed of all random draws, instead of the file's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The clock, instead of the file's: real or virtual
    #[arg(long, value_name = "CLOCK")]
    pub(crate) clock: Option<String>,
}

impl Overrides {
    /// All of them as paths and values; the options with a name of their own come last and win.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let seed = self.seed.map(|seed| ("seed".to_owned(), seed.to_string()));
        let clock = self
            .clock
            .as_ref()
            .map(|clock| ("clock".to_owned(), clock.clone()));
        self.set.iter().cloned().chain(seed).chain(clock).collect()
    }
}

/// Splits `path=value` at the first `=`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it like `NAME=VALUE`".to_owned()),
    }
}

/// A file as it was read, and what it means.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) plan: Plan,
    /// The text, with a comment that names the overrides.
    pub(crate) text: String,
    /// The folder that the file lies in.
    pub(crate) dir: PathBuf,
}

/// Reads a file once and plans it.
pub(crate) fn load(
    file: &Path,
    overrides: &Overrides,
    elements: &Elements,
) -> Result<Experiment, Errors> {
    let list = overrides.list();
    let (plan, text) = match read(file) {
        Some(text) => {
            let plan = Plan::load(&text, &file.display().to_string(), &list, elements)?;
            (plan, text)
        }
        // A file that is not text: the plan's own reader explains what is wrong with it.
        None => (Plan::from_file_with(file, &list)?, String::new()),
    };
    let dir = file
        .canonicalize()
        .ok()
        .and_then(|path| Some(path.parent()?.to_owned()));
    Ok(Experiment {
        plan,
        text: annotate(text, &list),
        dir: dir.unwrap_or_else(|| "/".into()),
    })
}

fn read(file: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(file).ok()?;
    // One byte more than is allowed, so that too large a file is seen to be one.
    file.take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// Adds the overrides to the text as comments: the run folder shows what was run.
fn annotate(mut text: String, overrides: &[(String, String)]) -> String {
    if !overrides.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for (path, value) in overrides {
        let line = format!("{path}={value}");
        text.push_str(&format!("# run with --set {}\n", line.escape_debug()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_split_at_the_first_equals_sign() {
        assert_eq!(
            pair("programs.a.run=x --y=1"),
            Ok(("programs.a.run".into(), "x --y=1".into()))
        );
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("=a").is_err() && pair("a").is_err());
    }

    #[test]
    fn overrides_stay_comments() {
        let text = annotate("a: 1".into(), &[("p".into(), "x\ny: 2".into())]);
        assert_eq!(text, "a: 1\n# run with --set p=x\\ny: 2\n");
    }
}
