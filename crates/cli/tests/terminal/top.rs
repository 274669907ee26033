//! `top` on a terminal, and into a pipe.

use crate::pty::Terminal;
use crate::{Scratch, assert_plain, kill, text};

const SIZE: (u16, u16) = (40, 120);

#[test]
fn keys_sort_scroll_help_and_quit() {
    let scratch = Scratch::new("keys");
    let _run = scratch.begin();
    let mut terminal = Terminal::start(&scratch, SIZE, "longhaul top --run longhaul-runs/small");
    let whole = [
        "small",
        "faithful",
        "packet-hops/s",
        "x real time",
        "BYTES ▼",
        "g>h",
        "q quit",
    ];
    terminal.until_all(&whole);
    for (key, column) in [
        ("d", "DROPS ▼"),
        ("b", "BACKLOG ▼"),
        ("u", "USED ▼"),
        ("r", "BYTES ▼"),
    ] {
        terminal.keys(key);
        terminal.until_all(&[column]);
    }
    terminal.keys("?");
    terminal.until("help", |screen| screen.contains("sort them by backlog"));
    terminal.keys("?");
    terminal.until("no help", |screen| !screen.contains("sort them by backlog"));
    // Room for few pipes: the first goes when the table is scrolled. The last line comes with the screen's new size.
    terminal.resize(12, 80);
    terminal.until_all(&["BYTES ▼", "g>h", "q quit"]);
    terminal.keys("\x1b[F");
    terminal.until("the last pipes", |screen| {
        screen.contains("BYTES ▼") && !screen.contains("g>h ")
    });
    for (rows, columns) in [(1, 1), (2, 200), (50, 3), (5, 20), (40, 120)] {
        terminal.resize(rows, columns);
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    terminal.keys("\x1b[H");
    terminal.until_all(&whole);
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn the_terminal_is_restored_whatever_ends_it() {
    let scratch = Scratch::new("restored");
    let run = scratch.begin();
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mut terminal =
            Terminal::start(&scratch, SIZE, "longhaul top --run longhaul-runs/small");
        terminal.until_all(&["g>h"]);
        kill(signal, terminal.pid());
        assert_eq!(terminal.end(), code);
    }
    let mut terminal = Terminal::start(&scratch, SIZE, "longhaul top --run longhaul-runs/small");
    terminal.until_all(&["g>h"]);
    terminal.keys("\x03");
    assert_eq!(terminal.end(), 0);
    // Tests build with debug assertions, which know this fault.
    let panics = "LONGHAUL_FAULT=top-panics longhaul top --run longhaul-runs/small";
    let mut terminal = Terminal::start(&scratch, SIZE, panics);
    assert_eq!(terminal.end(), 101);
    assert!(String::from_utf8_lossy(&terminal.bytes).contains("a planted fault"));
    // The run ends while it is watched.
    let mut terminal = Terminal::start(&scratch, SIZE, "longhaul top --run longhaul-runs/small");
    terminal.until_all(&["g>h"]);
    drop(run);
    terminal.until("last words", |screen| {
        screen.contains("small: the run has ended, after")
    });
    assert_eq!(terminal.end(), 0);
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let scratch = Scratch::new("colours");
    let _run = scratch.begin();
    let coloured = |command: &str| {
        let mut terminal = Terminal::start(&scratch, SIZE, command);
        terminal.until_all(&["g>h"]);
        terminal.keys("q");
        assert_eq!(terminal.end(), 0);
        text(&terminal.bytes).contains("\x1b[38;")
    };
    assert!(coloured("longhaul top --run longhaul-runs/small"));
    assert!(!coloured(
        "NO_COLOR=1 longhaul top --run longhaul-runs/small"
    ));
    // Terminals that know no control sequences, and no terminals at all, get text.
    let mut dumb = Terminal::start(
        &scratch,
        SIZE,
        "TERM=dumb longhaul top --run longhaul-runs/small --once",
    );
    assert_eq!(dumb.end(), 0);
    assert!(!dumb.bytes.contains(&0x1b));
    let output = scratch.longhaul(&[
        "top",
        "--run",
        "longhaul-runs/small",
        "--once",
        "--by",
        "drops",
    ]);
    let page = text(&output.stdout);
    assert!(page.contains("g>h") && page.contains("WAITING"), "{page}");
    assert_plain(&page, &scratch.0);
}
