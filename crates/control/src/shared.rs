//! Control of one running switch by several clients.

use crate::commands::{Command, HostCommand, LoadSummary, Prepared, Reply, Touches};
use crate::error::{CommandError, LoadError, count};
use crate::guard::guarded;
use crate::host::{Host, PortInfo, Program, Swap};
use crate::journal::{Changes, Journal};
use crate::messages::Subscription;
use crate::named::NamedUpdate;
use crate::rights::Rights;
use crate::update::{Atomicity, Update};
use crate::wire::{Answer, Request, WireError};
use crate::write::{Control, Written};
use p4jet_dataplane::{Cancel, Topics};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Control of a running switch, for several clients at once: their commands are carried out one after the other, a file of
/// commands as if it were one.
#[derive(Clone)]
pub struct SharedControl(Arc<Shared>);

struct Shared {
    kept: Mutex<Kept>,
    host: Option<Arc<dyn Host>>,
    /// The program that waits to be swapped in.
    next: Mutex<Option<Swap>>,
    /// Compilations that clients wait for now.
    compilations: AtomicUsize,
}

/// Most compilations at once that commands ask for; a refusal names the number. They wait neither for each other nor does any command wait for them.
const COMPILATIONS_MAX: usize = 4;

/// Address space that must be free for each compilation. The compiler's limits keep its memory below that, and where the heap
/// refuses memory the process ends.
const COMPILATION_BYTES: usize = 1 << 30;

/// One of those compilations.
struct Compilation<'s>(&'s AtomicUsize);

impl<'s> Compilation<'s> {
    fn begin(compilations: &'s AtomicUsize) -> Result<Compilation<'s>, CommandError> {
        let one_more = |n| (n < COMPILATIONS_MAX).then_some(n + 1);
        match compilations.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(others) => {
                let begun = Compilation(compilations);
                p4jet_threads::check_mappable((others + 1) * COMPILATION_BYTES).map_err(|_| {
                    let mib = ((others + 1) * COMPILATION_BYTES) >> 20;
                    let all = count(others + 1, "compilation");
                    let message = format!(
                        "Error: no memory: {all} may need {mib} MiB of address space, which the system refuses (see ulimit -v)"
                    );
                    CommandError::new(message).code("NO_MEMORY")
                })?;
                Ok(begun)
            }
            Err(_) => {
                let text = "Error: four compilations are running, which is the limit; try again later";
                Err(CommandError::new(text))
            }
        }
    }
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A control, and where its changes are written down.
struct Kept {
    control: Control,
    journal: Option<Journal>,
}

impl Kept {
    /// Changes to be filled, if there is a journal.
    fn changes(&self) -> Option<Changes> {
        self.journal.is_some().then(Changes::default)
    }

    /// Notes changes. What went wrong, in words.
    fn note(&mut self, changes: Option<Changes>) -> Option<String> {
        let Kept { control, journal: Some(journal) } = self else { return None };
        let changes = changes.filter(|changes| !changes.is_empty())?;
        journal.note(control, changes).err().map(unkept)
    }

    /// Writes all that is set anew.
    fn replace(&mut self) -> Option<String> {
        let Kept { control, journal: Some(journal) } = self else { return None };
        journal.replace(control).unwrap_or_else(|error| Some(unkept(error)))
    }
}

fn unkept(error: io::Error) -> String {
    format!(
        "the state is not being kept, this change and those before it included, until the file can be written: {error}"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A command that panicked is a bug, but no reason for the switch to stop listening to others.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedControl {
    /// Shares a control. Without a host, ports and programs stay as they are.
    pub fn new(control: Control, host: Option<Arc<dyn Host>>) -> SharedControl {
        let kept = Mutex::new(Kept { control, journal: None });
        SharedControl(Arc::new(Shared {
            kept,
            host,
            next: Mutex::new(None),
            compilations: AtomicUsize::new(0),
        }))
    }

    /// Puts what a state file has into effect and keeps all changes from now on there, too: what a switch had whose
    /// process ended, however it ended. What is to be told, one a line: that it is of another program, what did not fit,
    /// where that is kept. Without a file, or with an empty one, the switch stays as it is.
    pub fn keep(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut kept = lock(&self.0.kept);
        let opened = guarded(|| Ok(Journal::open(&kept.control, path)));
        let (journal, mut lost) = opened.map_err(|error| io::Error::other(error.message))??;
        kept.journal = Some(journal);
        drop(kept);
        lost.extend(self.make_queues().and_then(Result::err));
        Ok(lost)
    }

    /// Brings the state file up to date, with the registers as they are, at the end of a switch.
    pub fn settle(&self) -> io::Result<()> {
        let Kept { control, journal: Some(journal) } = &mut *lock(&self.0.kept) else { return Ok(()) };
        journal.replace(control).map(drop)
    }

    /// Puts what `dump` said in place of all that is set: all of it or nothing.
    pub fn restore(&self, text: &str) -> Reply {
        let mut kept = lock(&self.0.kept);
        if let Err(error) = kept.control.restore(text) {
            return error.into();
        }
        let note = kept.replace();
        drop(kept);
        let made = self.make_queues().and_then(Result::err);
        Reply { note: note.or(made), ..Reply::default() }
    }

    /// Carries one command out for the user of the switch. With `data`, what a command that reads found comes as JSON,
    /// too.
    pub fn reply(&self, line: &str, data: bool) -> Reply {
        self.reply_with(&Rights::All, line, data)
    }

    /// Carries one command out for a client with these rights.
    pub fn reply_with(&self, rights: &Rights, line: &str, data: bool) -> Reply {
        self.reply_unless(rights, line, data, &Cancel::default())
    }

    /// The same; what it compiles can be cancelled meanwhile.
    fn reply_unless(&self, rights: &Rights, line: &str, data: bool, cancel: &Cancel) -> Reply {
        match HostCommand::parse(line) {
            Some(Ok(command)) => {
                guarded(|| self.host_reply(&command, rights, data, cancel)).unwrap_or_else(Reply::from)
            }
            Some(Err(error)) => error.into(),
            None => self.command_reply(line, data),
        }
    }

    /// Carries out a command about tables and state. Others need not wait for what only reads.
    fn command_reply(&self, line: &str, data: bool) -> Reply {
        loop {
            let control = lock(&self.0.kept).control.clone();
            let command = match control.parse(line) {
                Ok(command) => command,
                Err(error) => return error.into(),
            };
            // A dump is all that is set at one moment.
            if !matches!(command, Command::Change(_) | Command::Dump { .. }) {
                return control.reply_noting(line, command, data, None);
            }
            let mut kept = lock(&self.0.kept);
            // Another program may run since the line was checked.
            if !Arc::ptr_eq(kept.control.switch(), control.switch()) {
                continue;
            }
            let mut changes = kept.changes();
            let mut reply = kept.control.reply_noting(line, command, data, changes.as_mut());
            if let Some(unkept) = kept.note(changes) {
                reply.note = Some(unkept);
            }
            drop(kept);
            if let Some(done) = self.make_queues() {
                reply.note = done.err();
            }
            return reply;
        }
    }

    /// Puts the program with output queues in the place of the one without, once they are configured. None if there was
    /// nothing to do.
    fn make_queues(&self) -> Option<Result<(), String>> {
        let host = self.0.host.as_ref()?;
        let needs_queues = || lock(&self.0.kept).control.switch().needs_queues();
        if !needs_queues() {
            return None;
        }
        let made = guarded(|| {
            let _one_of_few = Compilation::begin(&self.0.compilations)?;
            self.swap(host.prepare_queues().map_err(CommandError::new)?)
        });
        match made {
            // Another client's command has done it meanwhile.
            Err(_) if !needs_queues() => Some(Ok(())),
            done => {
                Some(done.map(drop).map_err(|error| format!("the output queues have no effect: {error}")))
            }
        }
    }

    /// Carries a file of commands out, all of it or nothing, as [`Control::load`].
    pub fn load(&self, name: &str, text: &str) -> Result<LoadSummary, LoadError> {
        loop {
            // A large file is read without keeping the others waiting.
            let control = lock(&self.0.kept).control.clone();
            let prepared = Prepared::new(&control, name, text)?;
            let mut now = lock(&self.0.kept);
            if Arc::ptr_eq(now.control.switch(), control.switch()) {
                let mut changes = now.changes();
                let mut summary = now.control.carry_out(prepared, changes.as_mut())?;
                summary.note = now.note(changes);
                drop(now);
                if let Some(Err(why)) = self.make_queues() {
                    summary.output += &format!("{why}\n");
                }
                return Ok(summary);
            }
        }
    }

    /// Carries a batch of updates out, as [`Control::write`], and keeps those that changed something. The text says if they could
    /// not be kept, or if output queues that they configure have no effect.
    pub fn write(&self, batch: Vec<Update>, atomicity: Atomicity) -> (Written, Option<String>) {
        self.write_with(lock(&self.0.kept), batch.into_iter().map(Ok).collect(), atomicity)
    }

    /// The same for updates by name.
    pub fn write_named(&self, batch: &[NamedUpdate], atomicity: Atomicity) -> (Written, Option<String>) {
        loop {
            // A large batch is read without keeping the others waiting.
            let control = lock(&self.0.kept).control.clone();
            let updates = batch.iter().map(|update| control.resolve(update)).collect();
            let now = lock(&self.0.kept);
            if Arc::ptr_eq(now.control.switch(), control.switch()) {
                return self.write_with(now, updates, atomicity);
            }
        }
    }

    fn write_with(
        &self,
        mut kept: MutexGuard<'_, Kept>,
        batch: Vec<Result<Update, CommandError>>,
        atomicity: Atomicity,
    ) -> (Written, Option<String>) {
        let mut changes = kept.changes();
        let written = kept.control.write_with(batch, atomicity, changes.as_mut());
        let unkept = kept.note(changes);
        drop(kept);
        (written, unkept.or_else(|| self.make_queues().and_then(Result::err)))
    }

    /// See [`Control::complete`].
    pub fn complete(&self, line: &str, position: usize) -> (usize, Vec<String>) {
        lock(&self.0.kept).control.complete(line, position)
    }

    /// Listens to what happens from now on, while this process lives.
    pub fn subscribe(&self, topics: Topics) -> Result<Subscription, CommandError> {
        let Some(host) = &self.0.host else {
            return Err(CommandError::unsupported(
                "not supported here: this switch is set up once".to_string(),
            ));
        };
        host.subscribe(topics).map(Subscription::new).map_err(CommandError::new)
    }

    /// Lets the switch say that clients were refused.
    pub(crate) fn clients_refused(&self, why: &str) {
        if let Some(host) = &self.0.host {
            host.clients_refused(why);
        }
    }

    /// Answers a request from a client with these rights. A connection that subscribes is its own matter.
    pub fn answer(&self, request: Request, rights: &Rights) -> Answer {
        self.answer_unless(request, rights, &Cancel::default())
    }

    /// The same; what it compiles can be cancelled meanwhile. Whatever panics in it, there is an answer.
    pub(crate) fn answer_unless(&self, request: Request, rights: &Rights, cancel: &Cancel) -> Answer {
        let answer = || Ok(self.carry_out(request, rights, cancel));
        guarded(answer).unwrap_or_else(|error| Reply::from(error).into())
    }

    fn carry_out(&self, request: Request, rights: &Rights, cancel: &Cancel) -> Answer {
        match request {
            Request::Command { line, data } => self.reply_unless(rights, &line, data, cancel).into(),
            Request::Program { path, texts, aside } => match &self.0.host {
                Some(host) => {
                    let program = Program::Texts(&path, Arc::new(texts), rights);
                    self.program_reply(&**host, &program, aside, cancel).unwrap_or_else(Reply::from).into()
                }
                None => Reply::from(set_up_once("load")).into(),
            },
            Request::Write { updates, atomicity } => self.write_named(&updates, atomicity).into(),
            Request::Load { text, name } => self.load(&name, &text).into(),
            Request::Restore { text } => self.restore(&text).into(),
            Request::Complete { line, position } => {
                let (start, choices) = self.complete(&line, position);
                Answer { ok: true, start: Some(start), choices, ..Answer::default() }
            }
            Request::Subscribe { .. } => {
                Answer::refused(WireError::request("nobody is there whom messages could be sent to"))
            }
        }
    }

    fn host_reply(
        &self,
        command: &HostCommand<'_>,
        rights: &Rights,
        data: bool,
        cancel: &Cancel,
    ) -> Result<Reply, CommandError> {
        let Some(host) = &self.0.host else { return Err(set_up_once(command.name())) };
        let nothing = Rights::nothing();
        let rights = match command.touches() {
            Touches::Machine => rights,
            Touches::State | Touches::Switch | Touches::Client => &nothing,
        };
        Ok(match command {
            HostCommand::ShowPorts => {
                let ports = host.ports();
                Reply { data: data.then(|| ports_data(&ports)), ..ports_text(&ports).into() }
            }
            HostCommand::PortAdd { number, spec, capture } => {
                host.add_port(*number, spec, rights).map_err(device)?;
                let port = number.to_string();
                let begun =
                    capture.map(|file| host.observe(&["capture", "start", &port, file], rights, cancel));
                if let Some(Err(why)) = begun {
                    // All of it or nothing.
                    host.remove_port(*number).map_err(device)?;
                    return Err(device(why));
                }
                Reply::default()
            }
            HostCommand::PortRemove(number) => {
                host.remove_port(*number).map_err(device)?;
                Reply::default()
            }
            HostCommand::Load(path) => {
                self.program_reply(&**host, &Program::File(Path::new(path), rights), false, cancel)?
            }
            HostCommand::LoadAside(path) => {
                self.program_reply(&**host, &Program::File(Path::new(path), rights), true, cancel)?
            }
            HostCommand::Swap => {
                let mut reply = Reply::from("Swapping configs\n".to_string());
                let next = lock(&self.0.next).take();
                let none =
                    || CommandError::refused("swap", "NO_ONGOING_SWAP", "load_new_config_file comes first");
                match next.ok_or_else(none).and_then(|swap| self.swap(swap)) {
                    Ok(mut told) => {
                        // It was prepared for the queues that there were then.
                        told.extend(self.make_queues().and_then(Result::err));
                        reply.note = Some(told.trim_end().to_string()).filter(|told| !told.is_empty())
                    }
                    Err(error) => reply.refused = Some(error),
                }
                reply
            }
            HostCommand::Observe(words) => {
                let _one_of_few = match words[..] {
                    ["stats", _] => Some(Compilation::begin(&self.0.compilations)?),
                    _ => None,
                };
                let observed = host.observe(words, rights, cancel).map_err(CommandError::new)?;
                if let Some(swap) = observed.swap {
                    let mut kept = lock(&self.0.kept);
                    kept.control = Control::new(swap().map_err(CommandError::new)?.switch);
                }
                Reply { data: data.then_some(observed.data), ..observed.text.into() }
            }
            HostCommand::Stop => {
                host.stop();
                Reply::default()
            }
        })
    }

    /// Compiles a program and lets it run; `aside`: only once `swap_configs` comes.
    fn program_reply(
        &self,
        host: &dyn Host,
        program: &Program<'_>,
        aside: bool,
        cancel: &Cancel,
    ) -> Result<Reply, CommandError> {
        if !aside {
            let swap = self.prepare(host, program, cancel)?;
            *lock(&self.0.next) = None;
            let told = self.swap(swap)?;
            // Another client may have configured queues meanwhile.
            let note = self.make_queues().and_then(Result::err);
            return Ok(Reply { note, ..told.into() });
        }
        // As bmv2's CLI says it.
        let mut reply = Reply::from("Loading new Json config\n".to_string());
        let ongoing = || {
            let why = "swap_configs comes first, or load, which forgets the prepared program";
            CommandError::refused("swap", "ONGOING_SWAP", why)
        };
        if lock(&self.0.next).is_some() {
            reply.refused = Some(ongoing());
            return Ok(reply);
        }
        match self.prepare(host, program, cancel) {
            Ok(swap) => {
                let mut next = lock(&self.0.next);
                if next.is_some() {
                    reply.refused = Some(ongoing());
                } else {
                    *next = Some(swap);
                    reply.note = Some("until swap_configs commands go to the program that still runs".into());
                }
            }
            Err(error) => reply.refused = Some(error),
        }
        Ok(reply)
    }

    /// Compiles a program. Whoever cancelled that does not want it any more, even if it was there in time.
    fn prepare(&self, host: &dyn Host, program: &Program<'_>, cancel: &Cancel) -> Result<Swap, CommandError> {
        let _one_of_few = Compilation::begin(&self.0.compilations)?;
        let swap = host.prepare(program, cancel).map_err(CommandError::new)?;
        match cancel.is_cancelled() {
            true => Err(CommandError::new("Error: the compilation was cancelled".to_string())),
            false => Ok(swap),
        }
    }

    /// Lets the prepared program run. What it says.
    fn swap(&self, swap: Swap) -> Result<String, CommandError> {
        let mut kept = lock(&self.0.kept);
        let swapped = swap().map_err(CommandError::new)?;
        kept.control = Control::new(swapped.switch);
        let unkept = kept.replace().map_or_else(String::new, |why| why + "\n");
        Ok(swapped.told + &unkept)
    }
}

fn set_up_once(command: &str) -> CommandError {
    CommandError::unsupported(format!("not supported here: {command} (this switch is set up once)"))
}

fn device(why: String) -> CommandError {
    CommandError::refused("device manager", "ERROR", why)
}

/// The table that bmv2 prints.
fn ports_text(ports: &[PortInfo]) -> String {
    let mut text =
        format!("{:^10}{:^20}{:^10}extra info\n{}\n", "port #", "iface name", "status", "=".repeat(50));
    for port in ports {
        let status = if port.up { "UP" } else { "DOWN" };
        let extra: Vec<_> = port.extra.iter().map(|(key, value)| format!("{key}={value}")).collect();
        text += &format!("{:^10}{:^20}{status:^10}{}\n", port.number, port.spec, extra.join("; "));
    }
    text
}

fn ports_data(ports: &[PortInfo]) -> serde_json::Value {
    let port = |port: &PortInfo| {
        let extra: serde_json::Map<_, _> =
            port.extra.iter().map(|(key, value)| (key.clone(), number_or_text(value))).collect();
        serde_json::json!({"port": port.number, "interface": port.spec, "up": port.up, "extra": extra})
    };
    ports.iter().map(port).collect()
}

fn number_or_text(text: &str) -> serde_json::Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Into::into)
}
