//! `top` as a screen: the terminal's state, its events, and the loop between them and the run.
//!
//! **Restored always.** The terminal leaves raw mode and the alternate screen when the loop ends however it ends: by
//! a key, by the run's end, by an error, by SIGINT, SIGTERM or SIGHUP (which are read as a descriptor), and
//! by a panic (a hook, before the message is printed).
//!
//! Left out: suspending with Ctrl-Z, the mouse.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use longhaul_lab::control::{Control, ControlError};
use longhaul_linux::wait::{take_signal, termination_signals};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::state::{Action, State};
use super::watcher::{Update, Watcher};
use super::{Args, draw};
use crate::exit::Exit;
use crate::style::{self, Style};

/// The longest that a key, a signal or an answer waits.
const TICK: Duration = Duration::from_millis(50);

/// Why the loop has ended.
enum End {
    Quit,
    Ended,
    Signal(i32),
    Failed(ControlError),
}

/// Whether this terminal can be drawn on.
pub(super) fn is_possible() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal() && !style::is_dumb()
}

/// Shows the run until it ends, or until the user has had enough.
pub(super) fn watch(args: &Args) -> Result<Exit, ControlError> {
    let control = Control::connect(args.run.as_deref())?;
    let folder = control.run().to_owned();
    let failed = |error: io::Error| ControlError::Refused(format!("this terminal: {error}"));
    // Before any other thread, so that all of them have the signals blocked.
    let signals = termination_signals().map_err(failed)?;
    let mut state = State::new(args.by.into());
    let watcher = Watcher::start(control, state.query());
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let end = event_loop(&mut terminal, &mut state, &watcher, &signals);
    ratatui::try_restore().map_err(failed)?;
    let _ = terminal.show_cursor();
    match end.map_err(failed)? {
        End::Quit => Ok(Exit::Done),
        End::Ended => {
            style::print(&last_words(&state, &folder.display().to_string()));
            Ok(Exit::Done)
        }
        // As a shell shows a program that the signal has ended.
        End::Signal(signal) => Ok(Exit::Program(128 + signal)),
        End::Failed(error) => Err(error),
    }
}

fn event_loop(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    watcher: &Watcher,
    signals: &OwnedFd,
) -> io::Result<End> {
    let style = Style::stdout();
    let mut asked = state.query();
    loop {
        terminal.draw(|frame| draw::all(frame, state, style))?;
        #[cfg(debug_assertions)]
        planted_panic(state);
        let mut is_new = false;
        while !is_new {
            if let Some(signal) = take_signal(signals.as_fd()) {
                return Ok(End::Signal(signal));
            }
            match watcher.updates() {
                Some(Update::Top(top)) => {
                    state.take(top);
                    is_new = true;
                }
                Some(Update::Ended) => return Ok(End::Ended),
                Some(Update::Failed(error)) => return Ok(End::Failed(error)),
                None => {}
            }
            let mut wait = TICK;
            while event::poll(wait)? {
                // Drain all pending events, then draw once.
                (wait, is_new) = (Duration::ZERO, true);
                if let Event::Key(key) = event::read()?
                    && state.key(key) == Action::Quit
                {
                    return Ok(End::Quit);
                }
            }
        }
        let query = state.query();
        if query != asked {
            watcher.query(query);
            asked = query;
        }
    }
}

/// What remains on the terminal after a run that has ended.
fn last_words(state: &State, folder: &str) -> String {
    let folder = style::clean(folder);
    let Some(top) = &state.top else {
        return format!("the run has ended\nlonghaul report {folder}\n");
    };
    format!(
        "{}: the run has ended, after {:.1} s or more; {} so far\nlonghaul report {folder}\n",
        style::name(&top.experiment),
        top.time_s,
        style::name(&top.verdict),
    )
}

/// A planted panic, to test that the terminal is restored (CONTRIBUTING.md).
#[cfg(debug_assertions)]
fn planted_panic(state: &State) {
    let is_planted = || std::env::var_os("LONGHAUL_FAULT").is_some_and(|name| name == "top-panics");
    assert!(state.top.is_none() || !is_planted(), "a planted fault");
}
