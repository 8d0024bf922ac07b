//! `hark man`: manual pages, one for the program and one for each command.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::output;

const EXAMPLES: &str = "Examples:
  hark man ~/.local/share/man/man1
  man hark-search";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder to write the pages to; created if needed
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn run(args: &Args, program: Command) -> Result<()> {
    let folder = &args.folder;
    fs_err::create_dir_all(folder)?;
    // The pages of `hark help` would repeat all others.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let pages = write(&program, folder)?;
    let pages = output::counted(pages, "page");
    output::print(&format!("wrote {pages} to {}\n", folder.display()))
}

/// Writes the page of a command and the pages of its subcommands; returns how many that are.
fn write(command: &Command, folder: &Path) -> Result<usize> {
    let page = Man::new(command.clone());
    output::write_whole(&folder.join(page.get_filename()), |file| Ok(page.render(file)?))?;
    let below: Result<Vec<usize>> = command
        .get_subcommands()
        .map(|command| write(command, folder))
        .collect();
    Ok(1 + below?.iter().sum::<usize>())
}
