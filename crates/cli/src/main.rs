//! The binary `longhaul`: all commands, without elements of anybody's own.

use std::process::ExitCode;

use longhaul_linux::memory::LargePages;

/// Virtual runs ask for large pages; all others get the system's.
#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

fn main() -> ExitCode {
    longhaul::main_with(longhaul::Elements::new())
}
