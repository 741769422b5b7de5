//! `p4jet completions` and `p4jet man`: what clap knows of the command line, for shells and for `man`.

use crate::failure::Failure;
use crate::output;
use clap::Command;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Options of `completions`.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Options of `man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// Where a page for each command is written; without it, the page of p4jet is printed.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints what the shell reads to complete p4jet's commands and options.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "p4jet", &mut script);
    output::write(format_args!("{}", String::from_utf8_lossy(&script)))
}

/// Writes the manual pages.
pub fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    let unwritable = |path: &Path, e: &std::io::Error| {
        Failure::Environment(format!("cannot write manual pages to {}: {e}", path.display()))
    };
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(|e| unwritable(Path::new("standard output"), &e))?;
        return output::write(format_args!("{}", String::from_utf8_lossy(&page)));
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|e| unwritable(folder, &e))
}
