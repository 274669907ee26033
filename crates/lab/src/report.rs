//! `report.html`: the summary for people, in one file that opens without a network.

use std::path::Path;

use crate::summary::Summary;

/// The page of a run whose folder is `folder`.
pub fn html(summary: &Summary, folder: &Path) -> String {
    let _ = folder;
    format!("<!doctype html><title>{}</title>", summary.experiment)
}
