//! The interactive prompt, and the same without a terminal.

use crate::Control;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::cell::RefCell;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::Stdio;

/// What stands before every command.
pub const PROMPT: &str = "RuntimeCmd: ";

/// What stands before the first.
pub const BANNER: &str = "Control utility for runtime P4 table manipulation";

/// Reads commands from standard input and answers on standard output until the input or `quit` ends it: with line editing and
/// completion at a terminal, plainly otherwise. Returns how many commands failed.
pub fn interact(control: &mut Control) -> io::Result<usize> {
    if !io::stdin().is_terminal() {
        // Standard output stays unlocked between writes: the packet loop logs there, too.
        return interact_with(control, io::stdin().lock(), io::stdout());
    }
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor = Editor::<Names<'_>, DefaultHistory>::with_config(config).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{BANNER}")?;
    // The editor completes while no command runs; each needs the control in its turn.
    let control = RefCell::new(control);
    editor.set_helper(Some(Names(&control)));
    let mut failed = 0;
    loop {
        match editor.readline(PROMPT) {
            Ok(line) if leaves(&line) => return Ok(failed),
            Ok(line) => {
                // A history that refuses a line is no reason to stop.
                let _ = editor.add_history_entry(line.as_str());
                failed += usize::from(!answer(&mut control.borrow_mut(), &line, &mut io::stdout())?);
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => {
                writeln!(io::stdout())?;
                return Ok(failed);
            }
            Err(e) => return Err(io::Error::other(e)),
        }
    }
}

/// Reads commands from `input` and answers on `output`, prompts included, until the input or `quit` ends it. Returns how many commands
/// failed.
pub fn interact_with(
    control: &mut Control,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<usize> {
    writeln!(output, "{BANNER}")?;
    let mut failed = 0;
    let mut line = Vec::new();
    loop {
        write!(output, "{PROMPT}")?;
        output.flush()?;
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            writeln!(output)?;
            return Ok(failed);
        }
        let text = String::from_utf8_lossy(&line);
        if leaves(&text) {
            return Ok(failed);
        }
        failed += usize::from(!answer(control, text.trim_end_matches(['\r', '\n']), &mut output)?);
    }
}

/// Whether a line ends the session. bmv2's CLI knows only `EOF`; but who types the others means nothing else.
fn leaves(line: &str) -> bool {
    matches!(line.trim(), "quit" | "exit" | "EOF")
}

/// The command of the operating system in `shell COMMAND` or `!COMMAND`.
fn shell_command(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix('!').or_else(|| line.strip_prefix("shell").filter(|rest| rest.starts_with(' ')))
}

/// Carries one line out and prints what comes of it. Whether it succeeded.
fn answer(control: &mut Control, line: &str, output: &mut impl Write) -> io::Result<bool> {
    if let Some(command) = shell_command(line) {
        let ran = std::process::Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output()?;
        output.write_all(&ran.stdout)?;
        output.flush()?;
        io::stderr().write_all(&ran.stderr)?;
        return Ok(ran.status.success());
    }
    let refused = match control.reply(line) {
        Ok(reply) => {
            if let Some(note) = &reply.note {
                eprintln!("{note}");
            }
            write!(output, "{}", reply.text)?;
            reply.refused
        }
        Err(error) => Some(error),
    };
    // Where the original prints them, too, and after what it said of the change.
    if let Some(error) = &refused {
        writeln!(output, "{error}")?;
    }
    output.flush()?;
    Ok(refused.is_none())
}

/// Completes commands and names.
struct Names<'a>(&'a RefCell<&'a mut Control>);

impl Completer for Names<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.0.borrow().complete(line, position))
    }
}

impl Hinter for Names<'_> {
    type Hint = String;
}

impl Highlighter for Names<'_> {}

impl Validator for Names<'_> {}

impl Helper for Names<'_> {}
