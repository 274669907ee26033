//! What went wrong with programs, and the end of what they wrote.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use longhaul_lab::saved::SavedProgram;

use super::page::Page;
use crate::style::{self, Style};

/// Failed programs that are listed one by one.
const PROGRAMS: usize = 3;
/// The last lines of a failed program's log that are shown, and how much is read for them.
const LOG_LINES: usize = 8;
const LOG_BYTES: u64 = 8 << 10;

/// The failed programs, each with the end of what it wrote to its error stream, or else to its output.
pub(super) fn add(page: &mut Page, programs: &[SavedProgram], run: &Path, style: Style) {
    let failed = || programs.iter().filter(|program| program.failure.is_some());
    for program in failed().take(PROGRAMS) {
        // The first two lines say what happened and where the log is.
        page.list(
            "failed",
            failure(program, run, style),
            2,
            "lines in its log",
        );
    }
    let more = failed().count().saturating_sub(PROGRAMS);
    if more > 0 {
        let more = style::number(more, "program");
        page.line("failed", format!("… and {more} more"));
    }
}

fn failure(program: &SavedProgram, run: &Path, style: Style) -> Vec<String> {
    let why = program.failure.as_deref().unwrap_or_default();
    let host = program.host.as_deref().unwrap_or("an unknown host");
    let mut lines = vec![format!(
        "{} on {}: {}",
        style.bad(style::name(&program.name)),
        style::name(host),
        style::clean(why)
    )];
    let Some(log) = program.log.as_deref() else {
        return lines;
    };
    for stream in ["err", "out"] {
        let Some(path) = within(run, &format!("{log}.{stream}")) else {
            continue;
        };
        let last = last_lines(&path);
        if last.is_empty() {
            continue;
        }
        let path = style::clean(&path.display().to_string());
        lines.push(style.dim(format_args!("end of {path}:")));
        let last = last.iter().map(|line| format!("{} {line}", style.dim("|")));
        lines.extend(last);
        break;
    }
    lines
}

/// A file of the run folder; what a summary says must not lead elsewhere.
fn within(run: &Path, name: &str) -> Option<PathBuf> {
    let name = Path::new(name);
    let is_below = name
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let path = run.join(name);
    let is_file = || path.symlink_metadata().is_ok_and(|file| file.is_file());
    (is_below && is_file()).then_some(path)
}

fn last_lines(path: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.len().saturating_sub(LOG_LINES);
    lines[last..]
        .iter()
        .map(|line| style::clean(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_cut_and_cleaned() {
        let path = std::env::temp_dir().join(format!("longhaul-cli-log-{}", std::process::id()));
        let text: String = (0..5000).map(|n| format!("line {n}\x1b[2J\n\n")).collect();
        std::fs::write(&path, text).unwrap();
        let lines = last_lines(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lines.len(), LOG_LINES);
        assert_eq!(lines.last().unwrap(), "line 4999\u{fffd}[2J");
        assert!(last_lines(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn only_files_of_the_run_are_read() {
        let run = std::env::temp_dir().join(format!("longhaul-cli-within-{}", std::process::id()));
        std::fs::create_dir_all(run.join("logs")).unwrap();
        std::fs::write(run.join("logs/a.err"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", run.join("logs/b.err")).unwrap();
        let is_read = |name| within(&run, name).is_some();
        let read = [
            "logs/a.err",
            "logs/b.err",
            "logs/../logs/a.err",
            "/etc/passwd",
            "logs",
        ]
        .map(is_read);
        std::fs::remove_dir_all(&run).unwrap();
        assert_eq!(read, [true, false, false, false, false]);
    }
}
