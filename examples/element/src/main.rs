//! `longhaul`, and an element that loses every third packet and holds back every fifth.

use std::process::ExitCode;

use longhaul::{Element, Elements, Fate, Span, Stream, Time};

/// Counts packets; each pipe that names it has one of its own.
#[derive(Debug, Default)]
struct EveryThird {
    seen: u64,
}

impl Element for EveryThird {
    fn pass(&mut self, _now: Time, _packet: &mut [u8], _random: &mut Stream) -> Fate {
        self.seen += 1;
        match self.seen {
            n if n.is_multiple_of(3) => Fate::Drop,
            n if n.is_multiple_of(5) => Fate::Hold(Span::from_ms(20)),
            _ => Fate::Pass,
        }
    }
}

fn main() -> ExitCode {
    longhaul::main_with(Elements::new().with("every-third", || Box::new(EveryThird::default())))
}
