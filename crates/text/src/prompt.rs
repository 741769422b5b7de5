//! The interactive prompt, and its equivalent without a terminal.

use crate::files::{self, FileCommand};
use crate::shared::restore;
use crate::{Commands, Reply};
use p4jet_control::{Control, SharedControl};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::cell::RefCell;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::Stdio;

/// The text before every command.
pub const PROMPT: &str = "RuntimeCmd: ";

/// The text before the first command.
pub const BANNER: &str = "Control utility for runtime P4 table manipulation";

/// An executor of commands: a switch in this process, or one at the other end of a connection.
pub trait Commander {
    /// Runs one command. An error means that the executor is gone.
    fn reply(&mut self, line: &str) -> io::Result<Reply>;

    /// The start of the word before `position` (in bytes), and the words that can complete it.
    fn complete(&mut self, line: &str, position: usize) -> (usize, Vec<String>);
}

impl Commander for Control {
    fn reply(&mut self, line: &str) -> io::Result<Reply> {
        Ok(Commands::reply(self, line, false))
    }

    fn complete(&mut self, line: &str, position: usize) -> (usize, Vec<String>) {
        Commands::complete(self, line, position)
    }
}

impl Commander for SharedControl {
    fn reply(&mut self, line: &str) -> io::Result<Reply> {
        Ok(match FileCommand::parse(line) {
            // The user of the prompt has the rights of the switch.
            None | Some(FileCommand::Load { .. }) => Commands::reply(self, line, false),
            Some(FileCommand::Save(path)) => {
                if let Ok(host) = self.host()
                    && let Err(error) = host.check_dump_file(path)
                {
                    return Ok(error.into());
                }
                let dump = Commands::reply(self, "dump", false);
                files::write(path, &dump.text).map_or_else(Reply::from, |()| Reply::default())
            }
            Some(FileCommand::Restore(path)) => match files::read(path) {
                Ok(text) => named_state(path, restore(self, &text)),
                Err(error) => error.into(),
            },
            Some(FileCommand::Frames { kind, port, path }) => {
                files::each_frame(kind, port, path, |line| Ok(Commands::reply(self, line, false)))?
            }
        })
    }

    fn complete(&mut self, line: &str, position: usize) -> (usize, Vec<String>) {
        Commands::complete(self, line, position)
    }
}

/// The answer to a restore; a refusal names the file.
pub(crate) fn named_state(path: &Path, mut reply: Reply) -> Reply {
    if let Some(error) = &mut reply.refused {
        error.message = format!("Error: {}", files::cannot_use_state(path, error));
    }
    reply
}

/// Reads commands from standard input and answers on standard output until the input ends or `quit`: with line editing and
/// completion at a terminal, plainly otherwise. Returns the number of failed commands.
pub fn interact(control: &mut dyn Commander) -> io::Result<usize> {
    if !io::stdin().is_terminal() {
        // Standard output is not locked between writes, because the packet loop also logs there.
        return interact_with(control, io::stdin().lock(), io::stdout());
    }
    // The editor completes while no command runs; each needs the control in turn.
    let control = RefCell::new(control);
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor =
        Editor::<Names<'_, '_>, DefaultHistory>::with_config(config).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{BANNER}")?;
    editor.set_helper(Some(Names(&control)));
    let mut failed = 0;
    loop {
        match editor.readline(PROMPT) {
            // A terminal that brackets pastes passes all lines as one text. They run one by one, each shown before its answer.
            Ok(text) => {
                let lines = || text.split(['\r', '\n']).filter(|line| !line.is_empty());
                let pasted = lines().nth(1).is_some();
                for line in lines() {
                    if pasted {
                        writeln!(io::stdout(), "{PROMPT}{line}")?;
                    }
                    if leaves(line) {
                        return Ok(failed);
                    }
                    // The prompt continues if the history refuses a line.
                    let _ = editor.add_history_entry(line);
                    failed += usize::from(!answer(*control.borrow_mut(), line, &mut io::stdout())?);
                }
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

/// Reads commands from `input` and answers on `output`, including prompts, until the input ends or `quit`. Returns the number of
/// failed commands.
pub fn interact_with(
    control: &mut dyn Commander,
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

/// True if a line ends the session. bmv2's CLI knows only `EOF`, but the others can mean nothing else.
pub fn leaves(line: &str) -> bool {
    matches!(line.trim(), "quit" | "exit" | "EOF")
}

/// The command of the operating system in `shell COMMAND` or `!COMMAND`.
fn shell_command(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix('!').or_else(|| line.strip_prefix("shell").filter(|rest| rest.starts_with(' ')))
}

/// Runs one line and prints the result: notes go to standard error. Returns true if it succeeded.
pub fn answer(control: &mut dyn Commander, line: &str, output: &mut dyn Write) -> io::Result<bool> {
    if let Some(command) = shell_command(line) {
        let ran = std::process::Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output()?;
        output.write_all(&ran.stdout)?;
        output.flush()?;
        io::stderr().write_all(&ran.stderr)?;
        return Ok(ran.status.success());
    }
    let reply = control.reply(line)?;
    if let Some(note) = &reply.note {
        eprintln!("{note}");
    }
    write!(output, "{}", reply.text)?;
    // bmv2's CLI also prints them there, after its text about the change.
    if let Some(error) = &reply.refused {
        writeln!(output, "{error}")?;
    }
    output.flush()?;
    Ok(reply.refused.is_none())
}

/// Completes commands and names.
struct Names<'a, 'c>(&'a RefCell<&'c mut dyn Commander>);

impl Completer for Names<'_, '_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.0.borrow_mut().complete(line, position))
    }
}

impl Hinter for Names<'_, '_> {
    type Hint = String;
}

impl Highlighter for Names<'_, '_> {}

impl Validator for Names<'_, '_> {}

impl Helper for Names<'_, '_> {}
