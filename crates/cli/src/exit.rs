//! How commands end, and the exit codes for it (docs/cli.md).

use std::process::ExitCode;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, and faithful where a verdict was asked for.
    Done,
    /// A program or the run failed.
    Failed,
    /// The file or the command line is wrong.
    Wrong,
    /// Finished, not faithful.
    NotFaithful,
    /// As the program that `exec` ran.
    Program(i32),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Failed => Self::from(1),
            Exit::Wrong => Self::from(2),
            Exit::NotFaithful => Self::from(3),
            // What a program can exit with fits into a byte.
            Exit::Program(code) => Self::from(u8::try_from(code).unwrap_or(1)),
        }
    }
}
