//! `longhaul`, and an element that loses every third packet and holds back every fifth.

use std::process::ExitCode;

use longhaul::{Action, Element, Elements, Span, Stream, Time};

/// Counts packets; each pipe that names it has one of its own.
#[derive(Debug, Default)]
struct EveryThird {
    seen: u64,
}

impl Element for EveryThird {
    fn pass(&mut self, _now: Time, _packet: &mut [u8], _random: &mut Stream) -> Action {
        self.seen += 1;
        match self.seen {
            n if n.is_multiple_of(3) => Action::Drop,
            n if n.is_multiple_of(5) => Action::Hold(Span::from_ms(20)),
            _ => Action::Pass,
        }
    }
}

fn main() -> ExitCode {
    longhaul::main_with(Elements::new().with("every-third", || Box::new(EveryThird::default())))
}
