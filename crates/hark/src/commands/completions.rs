//! `hark completions`: a script that lets a shell complete commands and options.

use anyhow::Result;
use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;

use crate::output;

const EXAMPLES: &str = "Examples:
  hark completions bash > ~/.local/share/bash-completion/completions/hark
  hark completions zsh > ~/.zfunc/_hark
  hark completions fish > ~/.config/fish/completions/hark.fish";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Shell to complete in
    shell: Shell,
}

pub fn run(args: &Args, mut program: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "hark", &mut script);
    output::print(&String::from_utf8(script)?)
}
