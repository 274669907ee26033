//! The doctor: what this machine lacks for a run, and the remedy.
//!
//! Theory: nothing is guessed that can be tried. A throw-away sandbox goes through the same
//! steps as a run's (`probe`) and says which of them the kernel refuses; the machine's
//! settings are read (`facts`); from both together `diagnosis` names the cause and what to
//! do about it. That last part is a function of its facts alone, so every machine that cannot
//! be had in a test is still tested.
//!
//! Left out: whether the machine is fast enough for an experiment; a run's verdict says that.

mod diagnosis;
mod facts;
mod probe;
mod remedy;
mod resources;

pub(crate) use facts::version;
use serde::Serialize;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Runs work, but may be less faithful or smaller than elsewhere.
    Warning,
    /// No run works.
    Failed,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What to do about it; absent where nothing need be done.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn warning(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self {
            name,
            state: State::Warning,
            detail: detail.into(),
            remedy,
        }
    }

    fn failed(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self {
            name,
            state: State::Failed,
            detail: detail.into(),
            remedy,
        }
    }
}

/// Makes all checks. Takes some milliseconds and leaves nothing behind.
///
/// Call it while the process has one thread: the probe forks. With more threads the probe is
/// left out, and a finding says so.
pub fn examine() -> Vec<Finding> {
    diagnosis::diagnose(&facts::Facts::gather())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_examined() {
        let findings = examine();
        assert!(findings.len() >= 5);
        for finding in &findings {
            assert_eq!(
                finding.state == State::Ok,
                finding.remedy.is_none(),
                "{finding:?}"
            );
        }
    }
}
