//! The last lines of programs' logs.
//!
//! Few and short: a page is for a glance, and a log may hold anything. Bytes that are not text and
//! terminals' escape sequences are removed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::document::LogEnd;

/// Bytes of a log that are read.
const BYTES: u64 = 4 << 10;
/// Lines that are kept.
const LINES: usize = 20;
/// Characters of a line that are kept.
const LINE: usize = 400;

/// The end of the log of a program; `ending` is `out` or `err`.
pub(super) fn end(run: &Path, program: &str, ending: &str) -> LogEnd {
    // A program's name is a plain file name: anything else could lead out of the folder.
    if program.contains('/') || program.starts_with('.') {
        return LogEnd::default();
    }
    let name = format!("logs/{program}.{ending}");
    let path = run.join(&name);
    let is_file = path
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return LogEnd::default();
    }
    let mut text = Vec::new();
    let mut read = || -> std::io::Result<u64> {
        let mut file = File::open(&path)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(BYTES)))?;
        file.take(BYTES).read_to_end(&mut text)?;
        Ok(bytes)
    };
    let Ok(bytes) = read() else {
        return LogEnd::default();
    };
    let text = plain(&String::from_utf8_lossy(&text));
    let mut lines: Vec<&str> = text.lines().collect();
    let mut cut = bytes > BYTES;
    if cut && lines.len() > 1 {
        lines.remove(0); // half a line
    }
    cut |= lines.len() > LINES;
    let lines = &lines[lines.len().saturating_sub(LINES)..];
    LogEnd {
        file: Some(name),
        bytes,
        lines: lines
            .iter()
            .map(|line| line.chars().take(LINE).collect())
            .collect(),
        cut,
    }
}

/// Text without the sequences that terminals take for commands (ECMA-48 §5.4).
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.peek() == Some(&'[') => {
                letters.next();
                for part in letters.by_ref() {
                    if ('\u{40}'..='\u{7e}').contains(&part) {
                        break;
                    }
                }
            }
            '\u{1b}' => {}
            // What a progress bar has overwritten.
            '\r' if letters.peek() != Some(&'\n') => plain.push('\n'),
            '\r' => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_end_in_their_last_lines() {
        let run = std::env::temp_dir().join(format!("longhaul-logs-{}", std::process::id()));
        std::fs::create_dir_all(run.join("logs")).unwrap();
        let text: String = (0..1000)
            .map(|n| format!("\u{1b}[31mline {n}\u{1b}[0m\r\n"))
            .collect();
        std::fs::write(run.join("logs/a.out"), &text).unwrap();
        std::fs::write(run.join("logs/a.err"), b"\xff\x00 10%\r 20%\nno end").unwrap();
        let out = end(&run, "a", "out");
        assert_eq!(
            (out.bytes, out.cut, out.lines.len()),
            (text.len() as u64, true, LINES)
        );
        assert_eq!(out.lines[LINES - 1], "line 999");
        let err = end(&run, "a", "err");
        assert_eq!(err.lines, ["\u{fffd}\0 10%", " 20%", "no end"]);
        assert!(!err.cut);
        std::os::unix::fs::symlink("/etc/passwd", run.join("logs/b.out")).unwrap();
        for name in ["b", "../../etc/passwd", "none"] {
            assert_eq!(end(&run, name, "out"), LogEnd::default(), "{name}");
        }
        std::fs::remove_dir_all(run).unwrap();
    }
}
