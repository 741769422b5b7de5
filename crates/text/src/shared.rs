//! Runtime commands and requests for a running switch.

use crate::commands::{
    Answerer, Command, Commands, HostCommand, LoadSummary, Prepared, Reply, Touches, both_notes, carry_out,
    complete, deprecated, observe,
};
use crate::error::{LineError, LoadError};
use crate::wire::{Answer, Request, WireError};
use p4jet_control::{
    Atomicity, Control, ControlError, MemoryClaim, PortStats, Presence, Program, Rights, SharedControl,
    Stats, Update, guarded,
};
use p4jet_dataplane::{Cancel, TRACE_BYTES_MAX};
use std::path::Path;
use std::sync::Arc;

/// Parses a runtime command from the journal of an earlier version ([`SharedControl::keep`]).
///
/// # Errors
///
/// The command is wrong for this program.
pub fn read_command(control: &Control, line: &str) -> Result<Option<Update>, ControlError> {
    Ok(match Answerer::new(control).parse(line)? {
        Command::Change(change) => Some(change.update),
        _ => None,
    })
}

impl Commands for SharedControl {
    /// Runs one command for the user of the switch.
    fn reply(&self, line: &str, data: bool) -> Reply {
        reply(self, &Rights::All, line, data, &Cancel::default())
    }

    fn load(&self, name: &str, text: &str) -> Result<LoadSummary, LoadError> {
        load(self, name, text, &|| false)
    }

    fn complete(&self, line: &str, position: usize) -> (usize, Vec<String>) {
        complete(&self.control(), line, position)
    }
}

/// Runs a file of commands. If the client leaves, the file is undone.
fn load(
    shared: &SharedControl,
    name: &str,
    text: &str,
    has_left: &dyn Fn() -> bool,
) -> Result<LoadSummary, LoadError> {
    loop {
        // A large file is parsed without blocking others.
        let control = shared.control();
        let prepared = Prepared::new(&control, name, text)?;
        if let Some(mut batch) = shared.transaction(&control, prepared.len()) {
            let hold = |change: &mut dyn FnMut()| shared.between_packets(change);
            let write = |update| batch.write(update);
            let done = carry_out(&control, prepared, Presence::new(has_left), hold, write);
            let ended = match done {
                Ok((mut summary, last)) => match batch.commit() {
                    Ok(note) => {
                        summary.note = both_notes(summary.note, note);
                        return Ok(summary);
                    }
                    Err(error) => (last, error.into()),
                },
                Err((line, error)) => (line, error.and_not_undone(batch.undo())),
            };
            return Err(LoadError::new(name, text, ended.0, ended.1));
        }
    }
}

/// Runs one command for a client with these rights. Its compilations can be cancelled meanwhile. With `data`, the results of a
/// reading command are also returned as JSON.
pub fn reply(shared: &SharedControl, rights: &Rights, line: &str, data: bool, cancel: &Cancel) -> Reply {
    match HostCommand::parse(line) {
        Some(Ok(command)) => {
            guarded(|| host_reply(shared, &command, rights, data, cancel)).unwrap_or_else(Reply::from)
        }
        Some(Err(error)) => error.into(),
        None => command_reply(shared, line, data),
    }
}

/// Runs a command about tables and state. Reading commands do not block others.
fn command_reply(shared: &SharedControl, line: &str, data: bool) -> Reply {
    loop {
        let control = shared.control();
        let answerer = Answerer::new(&control);
        let command = match answerer.parse(line) {
            Ok(command) => command,
            Err(error) => return error.into(),
        };
        let reading = !matches!(command, Command::Change(_));
        let mut reply = match command {
            // The whole configuration at one moment.
            Command::Dump { counters } => shared.dump(counters).into(),
            Command::Change(change) => {
                let queues = matches!(change.update, Update::Queue(_));
                let write = |update: Update| {
                    let (mut written, note) =
                        shared.write_for(&control, vec![update], Atomicity::ContinueOnError)?;
                    Some((written.results.pop().unwrap_or(Ok(None)).map_err(LineError::from), note))
                };
                match answerer.change_reply(change, data, write) {
                    // The change may have activated the program with output queues.
                    Some(reply) if queues => Answerer::new(&shared.control()).with_queues_note(reply),
                    Some(reply) => reply,
                    // Another program was loaded after the line was checked.
                    None => continue,
                }
            }
            other => match guarded(|| answerer.reply_to(other, data)) {
                Ok(reply) => reply,
                Err(error) => return error.into(),
            },
        };
        reply.note = match reading {
            true => both_notes(deprecated(line), reply.note),
            false => both_notes(reply.note, deprecated(line)),
        };
        return reply;
    }
}

/// Answers a request from a client with these rights. Subscriptions are handled by the connection. Compilations for the request
/// can be cancelled meanwhile; a file or batch is cancelled if `has_left` returns true between two commands. There is an answer
/// even if the request panics.
pub fn answer(
    shared: &SharedControl,
    request: Request,
    rights: &Rights,
    cancel: &Cancel,
    has_left: &dyn Fn() -> bool,
) -> Answer {
    let answer = || Ok(carry_out_request(shared, request, rights, cancel, has_left));
    guarded(answer).unwrap_or_else(|error: LineError| Reply::from(error).into())
}

fn carry_out_request(
    shared: &SharedControl,
    request: Request,
    rights: &Rights,
    cancel: &Cancel,
    has_left: &dyn Fn() -> bool,
) -> Answer {
    match request {
        Request::Command { line, data } => reply(shared, rights, &line, data, cancel).into(),
        Request::Program { path, texts, aside } => match shared.has_host() {
            true => {
                let program = Program::Texts(&path, Arc::new(texts), rights);
                program_reply(shared, &program, aside, cancel).unwrap_or_else(Reply::from).into()
            }
            false => Reply::from(set_up_once("load")).into(),
        },
        Request::Write { updates, atomicity } => {
            shared.write_named(&updates, atomicity, Presence::new(has_left)).into()
        }
        Request::Read { selector, from, max } => match shared.control().read_named(&selector, from, max) {
            Ok(page) => {
                Answer { ok: true, records: Some(page.records), next: page.next, ..Answer::default() }
            }
            Err(error) => Answer::refused(error.into()),
        },
        Request::Schema => {
            let schema = shared.control().schema().description().clone();
            Answer { ok: true, schema: Some(Box::new(schema)), ..Answer::default() }
        }
        Request::Stats => match stats(shared) {
            Ok(stats) => Answer { ok: true, stats: Some(Box::new(stats)), ..Answer::default() },
            Err(error) => Answer::refused(error.into()),
        },
        Request::Load { text, name } => load(shared, &name, &text, has_left).into(),
        Request::Restore { text } => restore(shared, &text).into(),
        Request::Complete { line, position } => {
            let (start, choices) = Commands::complete(shared, &line, position);
            Answer { ok: true, start: Some(start), choices, ..Answer::default() }
        }
        Request::Subscribe { .. } => Answer::refused(WireError::request(
            "messages need a connection to the switch: use p4jet ctl subscribe",
        )),
    }
}

/// Memory for a capture, statistics, or the command to trace.
const OBSERVE_BYTES: usize = 8 << 20;
/// Memory for showing traces, for each byte that they take: their JSON is copied into the answer and printed.
const SHOWN_BYTES: usize = 2;

/// Claims memory for an observing command.
fn claim_to_observe(shared: &SharedControl, words: &[&str]) -> Result<MemoryClaim, ControlError> {
    let shown = match words {
        ["trace", "packet", ..] => (1 + SHOWN_BYTES) * TRACE_BYTES_MAX,
        ["trace", "show", ..] => {
            SHOWN_BYTES * shared.host()?.traces().iter().map(|trace| trace.kept_bytes).sum::<usize>()
        }
        _ => 0,
    };
    MemoryClaim::new(OBSERVE_BYTES + shown, || "traces, captures and statistics".to_string())
}

fn stats(shared: &SharedControl) -> Result<Stats, ControlError> {
    if !shared.has_host() {
        return Err(set_up_once("stats"));
    }
    shared.host()?.stats()
}

/// Replaces the whole configuration by the output of `dump`: all or nothing.
pub(crate) fn restore(shared: &SharedControl, text: &str) -> Reply {
    match shared.restore(text) {
        Ok(note) => Reply { note, ..Reply::default() },
        Err(error) => error.into(),
    }
}

fn host_reply(
    shared: &SharedControl,
    command: &HostCommand<'_>,
    rights: &Rights,
    data: bool,
    cancel: &Cancel,
) -> Result<Reply, LineError> {
    if !shared.has_host() {
        return Err(set_up_once(command.name()).into());
    }
    let nothing = Rights::nothing();
    let rights = match command.touches() {
        Touches::Machine => rights,
        Touches::State | Touches::Switch | Touches::Client => &nothing,
    };
    Ok(match command {
        HostCommand::ShowPorts => {
            let ports = shared.ports()?;
            Reply { data: data.then(|| ports_data(&ports)), ..ports_text(&ports).into() }
        }
        HostCommand::PortAdd { number, spec, capture } => {
            shared.add_port(*number, spec, capture.map(Path::new), rights)?;
            Reply::default()
        }
        HostCommand::PortRemove(number) => {
            shared.remove_port(*number)?;
            Reply::default()
        }
        HostCommand::Load(path) => {
            program_reply(shared, &Program::File(Path::new(path), rights), false, cancel)?
        }
        HostCommand::LoadAside(path) => {
            program_reply(shared, &Program::File(Path::new(path), rights), true, cancel)?
        }
        HostCommand::Swap => {
            let mut reply = Reply::from("Swapping configs\n".to_string());
            match shared.swap_program() {
                Ok(loaded) => {
                    let report = loaded.report + &loaded.note.unwrap_or_default();
                    reply.note = Some(report.trim_end().to_string()).filter(|report| !report.is_empty());
                }
                Err(error) => reply.refused = Some(error.into()),
            }
            reply
        }
        HostCommand::Observe(words) => {
            let _memory = claim_to_observe(shared, words)?;
            let observed = observe(shared, words, rights, cancel)?;
            Reply { data: data.then_some(observed.data), ..observed.text.into() }
        }
        HostCommand::Stop => {
            shared.stop()?;
            Reply::default()
        }
    })
}

/// Compiles a program and runs it; with `aside`, `swap_configs` activates it.
fn program_reply(
    shared: &SharedControl,
    program: &Program<'_>,
    aside: bool,
    cancel: &Cancel,
) -> Result<Reply, LineError> {
    if !aside {
        let loaded = shared.load_program(program, cancel)?;
        return Ok(Reply { note: loaded.note, ..loaded.report.into() });
    }
    // The text of bmv2's CLI.
    let mut reply = Reply::from("Loading new Json config\n".to_string());
    match shared.prepare_program(program, cancel) {
        Ok(()) => reply.note = Some("until swap_configs commands go to the program that still runs".into()),
        Err(error) => reply.refused = Some(error.into()),
    }
    Ok(reply)
}

fn set_up_once(command: &str) -> ControlError {
    ControlError::unsupported(format!(
        "not supported: {command} (the ports and program of this switch are fixed)"
    ))
}

/// The table in bmv2's form.
fn ports_text(ports: &[PortStats]) -> String {
    let mut text =
        format!("{:^10}{:^20}{:^10}extra info\n{}\n", "port #", "iface name", "status", "=".repeat(50));
    for port in ports {
        let status = if port.up { "UP" } else { "DOWN" };
        let extra: Vec<_> = extra(port).iter().map(|(key, value)| format!("{key}={value}")).collect();
        text += &format!("{:^10}{:^20}{status:^10}{}\n", port.port, port.spec, extra.join("; "));
    }
    text
}

/// More about a port: why it is down, its counts.
fn extra(port: &PortStats) -> Vec<(&'static str, String)> {
    let why = port.why_down.iter().map(|why| ("why", why.clone()));
    let counts = [
        ("received", port.rx_packets),
        ("sent", port.tx_packets),
        ("lost", port.rx_dropped.total()),
        ("not_sent", port.tx_dropped.link),
        ("link_lost", port.tx_dropped.emulated_loss + port.tx_dropped.emulated_queue),
    ];
    why.chain(counts.map(|(name, count)| (name, count.to_string()))).collect()
}

fn ports_data(ports: &[PortStats]) -> serde_json::Value {
    let port = |port: &PortStats| {
        let extra: serde_json::Map<_, _> =
            extra(port).into_iter().map(|(key, value)| (key.to_string(), number_or_text(&value))).collect();
        serde_json::json!({"port": port.port, "interface": port.spec, "up": port.up, "extra": extra})
    };
    ports.iter().map(port).collect()
}

fn number_or_text(text: &str) -> serde_json::Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Into::into)
}
