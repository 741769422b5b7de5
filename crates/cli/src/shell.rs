//! `p4jet completions` and `p4jet man`: clap's description of the command line, for shells and for `man`.

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
    /// Folder for one page per command; without it, the page of p4jet is printed.
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
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.folder else {
        return output::write(format_args!("{}", page(&command)));
    };
    std::fs::create_dir_all(folder).and_then(|()| pages(&command, folder)).map_err(|e| unwritable(folder, &e))
}

/// Writes the pages of a command and of its subcommands.
fn pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    let man = clap_mangen::Man::new(command.clone());
    p4jet_files::write(&folder.join(man.get_filename()), page(command))?;
    command.get_subcommands().try_for_each(|command| pages(command, folder))
}

/// The exit statuses of all commands.
const EXIT_STATUS: &str = ".SH \"EXIT STATUS\"
.TP
0
Success
.TP
1
The input is wrong: the program, entries, packets, a failed packet test
.TP
2
Wrong usage
.TP
3
The environment refused: no such interface, no permission
";

/// A manual page: clap_mangen's sections, with a synopsis that names values and a section on the exit status.
fn page(command: &Command) -> String {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render(&mut page);
    let page = String::from_utf8_lossy(&page);
    let mut sections: Vec<String> = Vec::new();
    for line in page.lines() {
        match sections.last_mut() {
            Some(section) if !line.starts_with(".SH ") => *section += &format!("{line}\n"),
            _ => sections.push(format!("{line}\n")),
        }
    }
    if let Some(at) = sections.iter().position(|section| section.starts_with(".SH SYNOPSIS")) {
        sections[at] = format!(".SH SYNOPSIS\n{}\n", synopsis(command));
    }
    let end =
        sections.iter().position(|section| section.starts_with(".SH VERSION")).unwrap_or(sections.len());
    sections.insert(end, EXIT_STATUS.to_string());
    sections.concat()
}

/// The options and arguments of a command, with their values.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut words = vec![format!("\\fB{}\\fR", escaped(name))];
    let named = |arg: &&clap::Arg| !arg.is_positional() && !arg.is_hide_set();
    for arg in command.get_arguments().filter(named) {
        let names =
            [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|long| format!("--{long}"))];
        let names: Vec<String> =
            names.into_iter().flatten().map(|name| format!("\\fB{}\\fR", escaped(&name))).collect();
        let mut word = names.join("|");
        if let Some(value) = value_of(arg) {
            let value = format!("<\\fI{}\\fR>", escaped(&value));
            word +=
                &match (arg.is_require_equals_set(), arg.get_num_args().is_some_and(|n| n.min_values() == 0))
                {
                    (true, true) => format!("[={value}]"),
                    (true, false) => format!("={value}"),
                    (false, _) => format!(" {value}"),
                };
        }
        let many = matches!(arg.get_action(), clap::ArgAction::Append) && arg.get_value_delimiter().is_none();
        let dots = if many { "…" } else { "" };
        words.push(if arg.is_required_set() { format!("{word}{dots}") } else { format!("[{word}]{dots}") });
    }
    for arg in command.get_positionals() {
        let value = value_of(arg).unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
        let many = arg.get_num_args().is_some_and(|n| n.max_values() > 1)
            || matches!(arg.get_action(), clap::ArgAction::Append);
        let dots = if many { "…" } else { "" };
        let word = format!("<\\fI{}\\fR>{dots}", escaped(&value));
        words.push(if arg.is_required_set() { word } else { format!("[{word}]") });
    }
    if command.has_subcommands() {
        words.push("<\\fICOMMAND\\fR>".to_string());
    }
    words.join(" ")
}

/// Returns the name of an option's value.
fn value_of(arg: &clap::Arg) -> Option<String> {
    let takes = arg.get_action().takes_values();
    let names =
        arg.get_value_names().map(|names| names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
    takes.then(|| names.map_or_else(|| arg.get_id().as_str().to_uppercase(), |names| names.join(" ")))
}

/// Escapes a text for roff.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
