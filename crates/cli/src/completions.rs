//! `longhaul completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::{Cli, style};

const EXAMPLES: &str = "\
Examples:
  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul
  longhaul completions zsh > ~/.zfunc/_longhaul
  longhaul completions fish > ~/.config/fish/completions/longhaul.fish";

/// Print the completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn main(args: &Args) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "longhaul", &mut script);
    style::print(&String::from_utf8_lossy(&script));
    Exit::Done
}
