use longhaul_lab::control::{Order, Top};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::draw;
use super::state::{Action, State};
use crate::style::Style;

/// An answer of a live run with this many pipes, or of one in virtual time on two cores.
fn answer(number: u64, pipes: usize, is_virtual: bool) -> Box<Top> {
    let load = json!({ "efficiency": 0.8, "load_max": 0.5, "load_mean": 0.4 });
    let core = json!({ "pipes": 2, "packets": 9, "cross_core": 3, "busy": 0.5 });
    let second = json!({
        "number": number, "packets": 1000 + number, "late": 2,
        "lateness_ns": { "p50": 1, "p90": 2, "p99": 5000 * number, "p999": 4, "max": 5 },
        "physical_drops":
            { "ring": 1, "shed": 0, "pool": 0, "send": 0, "to_core": 0, "from_core": 0 },
        "inside": 7, "core_load": 0.43, "headroom": 0.57, "core_busy": 0.9,
    });
    let simulation = json!({
        "speed": 12.5, "hops_per_s": 3e6, "flows_done": 1, "flows": 2, "cores": [core, core],
        "partition": {
            "method": "metis", "costs": "machine", "cut_pipes": 2, "lookahead_ns": null,
            "predicted": load, "measured": load, "edge_packets": 5, "crossing_packets": 6,
        },
    });
    let pipe = |n: usize| {
        json!({
            "name": format!("p{n}>\u{1b}[2J"), "packets": 10, "bytes": 1_000, "drops": n,
            "utilisation": 0.5, "rate_bps": 10_000_000, "backlog_bytes": n.is_multiple_of(2).then_some(2048),
        })
    };
    let top = json!({
        "experiment": "wan\u{9b}31m", "time_s": number as f64 + 1.5, "duration_s": 10.0,
        "verdict": "degraded", "reasons": ["first", "second", "third\u{1b}[31m", "fourth"],
        "second": if is_virtual { json!(null) } else { second },
        "simulation": if is_virtual { simulation } else { json!(null) },
        "pipes": (0..pipes).map(pipe).collect::<Vec<_>>(),
    });
    Box::new(serde_json::from_value(top).unwrap())
}

/// The screen as lines.
fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::all(frame, state, Style::plain()))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row: u16| {
        (0..width)
            .map(|column| buffer[(column, row)].symbol())
            .collect()
    };
    (0..height).map(line).collect()
}

fn press(state: &mut State, code: KeyCode) -> Action {
    state.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_live_run_is_shown_with_figures_curves_and_pipes() {
    let mut state = State::new(Order::Rate);
    assert!(screen(&mut state, 40, 5)[0].starts_with("asking the run"));
    for number in 0..5 {
        state.take(answer(number, 3, false));
        state.take(answer(number, 3, false)); // the same second once more
    }
    assert_eq!(state.packets.last(9), [1000, 1001, 1002, 1003, 1004]);
    assert_eq!(state.lateness.last(2), [15_000, 20_000]);
    let lines = screen(&mut state, 120, 40);
    let text = lines.join("\n");
    assert!(
        lines[0].starts_with("wan\u{fffd}31m  5.5 s of 10 s  degraded"),
        "{text}"
    );
    for part in [
        "second",
        "third\u{fffd}[31m",
        "fourth",
        "core load  43 %",
        "time  55 %",
        "1,004 packets/s, 7 inside",
        "lateness p50 1 ns, p99 20 us",
        "2 late, 1 lost by the machine",
        "packets/s 1 k (max 1 k)",
        "lateness p99 20 us",
        "BYTES/S ▼",
        "10 Mbit/s",
        "2 KiB",
        "q quit",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(
        !text.contains("first"),
        "the last three reasons are shown:\n{text}"
    );
    assert!(
        !text.contains('\u{1b}') && !text.contains("CORE "),
        "{text}"
    );
}

#[test]
fn a_virtual_run_is_shown_with_its_cores() {
    let mut state = State::new(Order::Drops);
    state.take(answer(1, 3, true));
    let text = screen(&mut state, 120, 40).join("\n");
    for part in [
        "12.50 x real time",
        "1/2 flows ended",
        "CROSSING",
        "DROPS ▼",
        "speed 12.5 x",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn keys_sort_and_scroll_within_the_table() {
    let mut state = State::new(Order::Rate);
    state.take(answer(0, 30, false));
    screen(&mut state, 100, 15);
    let rows = state.rows;
    assert!((3..12).contains(&rows), "{rows}");
    assert_eq!(state.query().limit, rows + 50);
    for (code, first) in [
        (KeyCode::Up, 0),
        (KeyCode::Down, 1),
        (KeyCode::PageDown, 1 + rows),
        (KeyCode::End, 30 - rows),
        (KeyCode::Down, 30 - rows),
        (KeyCode::PageUp, 30 - 2 * rows),
        (KeyCode::Home, 0),
    ] {
        assert_eq!(press(&mut state, code), Action::Nothing);
        assert_eq!(state.first, first, "{code:?}");
    }
    press(&mut state, KeyCode::End);
    let lines = screen(&mut state, 100, 15);
    assert!(
        lines.iter().any(|line| line.starts_with("p29>")),
        "{lines:?}"
    );
    // Another order begins at its top; fewer pipes leave no empty page.
    press(&mut state, KeyCode::Char('b'));
    assert_eq!((state.by, state.first), (Order::Backlog, 0));
    press(&mut state, KeyCode::End);
    state.take(answer(1, 2, false));
    assert_eq!(state.first, 0);
    press(&mut state, KeyCode::Char('?'));
    assert!(
        screen(&mut state, 100, 15)
            .join("\n")
            .contains("sort them by backlog")
    );
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Nothing);
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Quit);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(interrupt), Action::Quit);
    assert_eq!(press(&mut state, KeyCode::Char('c')), Action::Nothing);
}

#[test]
fn any_size_of_terminal_will_do() {
    for is_virtual in [false, true] {
        let mut state = State::new(Order::Utilisation);
        state.take(answer(0, 100, is_virtual));
        for (help, height) in (0..45).flat_map(|height| [(false, height), (true, height)]) {
            for width in (0..130).step_by(3).chain([1, 2, 39, 40, 41]) {
                state.help = help;
                press(&mut state, KeyCode::PageDown);
                screen(&mut state, width, height);
            }
        }
    }
}
