//! The binary `longhaul`: all commands, without elements of anybody's own.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul::main_with(longhaul::Elements::new())
}
