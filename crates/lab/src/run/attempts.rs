//! Repeats a run whose verdict is worse than asked because the machine stalled: it may come out
//! better at another time.
//!
//! A run that failed, that did well enough, or that asked for more than the machine can carry is
//! not repeated: the first two do not need it, and the last would only do the same again.

use std::fmt::Write;

use super::{Observer, Progress, RunError, RunOptions, run};
use crate::fidelity::State;
use crate::folder::RunFolder;
use crate::summary::{AttemptSummary, Summary};
use longhaul_plan::plan::Plan;

/// How often a run may be made.
#[derive(Debug, Clone, Copy)]
pub struct Attempts {
    /// At most this many times.
    pub most: u32,
    /// Until its verdict is this or better.
    pub accept: State,
}

/// Runs a plan until its verdict is good enough, in folders `attempt-1`, `attempt-2`, … of the run
/// folder; with one attempt, in the run folder itself. Returns the summary of the best attempt,
/// which is also in the run folder.
///
/// Call it while the process has one thread.
pub fn run_until(
    plan: &Plan,
    options: &RunOptions,
    attempts: Attempts,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    if attempts.most <= 1 {
        return run(plan, options, observer);
    }
    let folder = RunFolder::claim(&options.out, &options.experiment_text, options.force)?;
    let mut made: Vec<AttemptSummary> = Vec::new();
    let mut best: Option<Summary> = None;
    for number in 1..=attempts.most {
        let options = RunOptions {
            out: folder.attempt(number),
            force: false,
            ..options.clone()
        };
        let mut summary = match (run(plan, &options, observer), &mut best) {
            (Ok(summary), _) => summary,
            // The results of earlier attempts are kept although this one failed.
            (Err(error), Some(best)) => {
                best.error.get_or_insert(error.to_string());
                break;
            }
            (Err(error), None) => {
                folder.abandon();
                return Err(error);
            }
        };
        made.push(attempt_summary(&summary));
        let is_last = summary.failed()
            || summary.verdict.state <= attempts.accept
            || !summary.verdict.blames_noise()
            || number == attempts.most;
        if !is_last {
            observer.progress(&Progress::Note(again(number, attempts.most, &summary)));
        }
        if let Some(best) = best.take_if(|best| !is_better(&summary, best)) {
            summary = best;
        }
        best = Some(summary);
        if is_last {
            break;
        }
    }
    let mut best = best.expect("at least one attempt");
    best.attempts = made;
    // A folder that cannot be written any more must not cost the result.
    if let Err(error) = folder.write("summary.json", &best.to_json()) {
        best.error.get_or_insert(error.to_string());
    }
    Ok(best)
}

fn attempt_summary(summary: &Summary) -> AttemptSummary {
    let verdict = &summary.verdict;
    AttemptSummary {
        run: summary.run.clone(),
        state: verdict.state,
        late_share: verdict.late_share,
        physical_drops: verdict.physical_drops,
        stalls: verdict.stalls,
    }
}

/// Whether an attempt is the one to report instead of an earlier one; a failure always is.
fn is_better(summary: &Summary, earlier: &Summary) -> bool {
    let [new, old] = [summary, earlier].map(|summary| &summary.verdict);
    let by_claim = new.percentile_shift.total_cmp(&old.percentile_shift);
    let order = new.state.cmp(&old.state).then(by_claim);
    summary.failed() || order.is_lt()
}

/// Why there is another attempt.
fn again(number: u32, most: u32, summary: &Summary) -> String {
    let mut text = format!(
        "attempt {number} of {most} was {}",
        summary.verdict.state.name()
    );
    if let Some(reason) = summary.verdict.reasons.first() {
        let _ = write!(text, " ({reason})");
    }
    text + ": running it again"
}
