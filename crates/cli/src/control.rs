//! Control of a running switch: its control sockets, and the commands that concern more than tables.

use crate::bmv2_json;
use crate::compile::{self, Compiled, EngineArg, ProgramArgs};
use crate::failure::Failure;
use crate::log::{Level, Voice};
use crate::own_files::OwnFiles;
use crate::stats::{Meter, port_stats};
use p4jet_control::{
    ControlError, DryRun, Host, Keep, Opened, PortStats, Program, Ready, Rights, SharedControl, Stats, Swap,
    Swapped,
};
use p4jet_dataplane::{
    Cancel, CaptureInfo, CaptureSpec, Carried, Injected, NewPort, Observer, RunError, Running, Subscription,
    Switch, Topics, TraceInfo, TraceSpec, Traced,
};
use p4jet_p4info::reflect::Reflect;
use p4jet_ports::{FileId, PortError, PortKind, PortOptions, PortSpec, PortUse};
use p4jet_syntax::{Files, sources};
use p4jet_text::Users;
use p4jet_text::server::{self, Limits, Server};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Addresses at which `p4jet ctl` reaches the switch.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ControlArgs {
    /// Unix socket for `p4jet ctl`, accessible only to this user; by default one in a private folder.
    #[arg(long = "control", value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Create no Unix socket.
    #[arg(long, conflicts_with = "socket")]
    pub no_control: bool,
    /// Also listen on TCP, at ADDR:PORT or at a port of the loopback address. Only this user and root may connect,
    /// and commands open no files and no interfaces.
    #[arg(long = "control-tcp", value_name = "ADDR:PORT", value_parser = server::parse_address)]
    pub tcp: Option<SocketAddr>,
    /// Let commands over TCP open files beneath DIR: programs to load, captures; repeatable.
    #[arg(long, value_name = "DIR", requires = "tcp")]
    pub grant_dir: Vec<PathBuf>,
    /// Let these users, by number, connect over TCP and P4Runtime, too; `all` admits everyone who can reach the address.
    #[arg(long, value_name = "all|UID,…", default_value = "", hide_default_value = true, value_parser = users)]
    pub allow_users: Users,
    /// True if the switch runs without the TCP address if that is in use.
    #[arg(skip)]
    pub tcp_optional: bool,
    /// The name of the option for the TCP address, if not `--control-tcp`.
    #[arg(skip)]
    pub tcp_called: Option<&'static str>,
}

fn users(text: &str) -> Result<Users, String> {
    if text.is_empty() { Ok(Users::default()) } else { text.parse() }
}

/// Lets `p4jet ctl` reach a switch as long as the result exists.
pub fn listen(
    args: &ControlArgs,
    control: &SharedControl,
    program: &str,
    voice: &Voice,
) -> Result<Vec<Server>, Failure> {
    let mut servers = Vec::new();
    let refused = |e: std::io::Error| Failure::Environment(format!("no control socket: {e}"));
    if let Some(path) = &args.socket {
        servers.push(Server::unix(control.clone(), path, Limits::default()).map_err(refused)?);
    } else if !args.no_control {
        // It was not requested, so the switch also runs without it.
        let path = server::default_path(program);
        match path.and_then(|path| Server::unix(control.clone(), &path, Limits::default())) {
            Ok(server) => servers.push(server),
            Err(error) => voice.report(Level::Warn, "control", None, format!("no control socket: {error}")),
        }
    }
    if let Some(address) = args.tcp {
        let in_use = |error: &std::io::Error| match (error.kind(), args.tcp_called) {
            (ErrorKind::AddrInUse, Some(option)) => format!("; choose another port with {option} PORT"),
            (ErrorKind::AddrInUse, None) => "; choose another port with --control-tcp PORT".to_string(),
            _ => String::new(),
        };
        let rights = Rights::beneath(&args.grant_dir)
            .map_err(|e| Failure::Environment(format!("--grant-dir: {e}")))?;
        match Server::tcp(control.clone(), address, Limits::default(), args.allow_users.clone(), rights) {
            Ok(server) => servers.push(server),
            Err(error) if args.tcp_optional => {
                voice.report(
                    Level::Warn,
                    "control",
                    None,
                    format!("no control port: {error}{}", in_use(&error)),
                );
            }
            Err(error) => {
                let hint = in_use(&error);
                return Err(Failure::Environment(format!("no control socket: {error}{hint}")));
            }
        }
    }
    for server in &servers {
        voice.report(Level::Info, "control", None, format!("control: {}", server.address()));
    }
    Ok(servers)
}

/// The process around a running switch.
pub struct Process {
    /// The destination of its messages.
    pub voice: Voice,
    /// The observer of its packets.
    pub observer: Observer,
    /// The reader of its statistics.
    pub meter: Meter,
    /// The switch.
    pub running: Arc<Running>,
    /// The options with which its programs are compiled.
    pub program: ProgramArgs,
    /// The running program, as compiled without output queues.
    pub compiled: Arc<Mutex<Compiled>>,
    /// The engine.
    pub engine: EngineArg,
    /// The options with which its ports are opened.
    pub ports: PortOptions,
    /// What its ports use. Locked until a port or a capture that was checked beside the others is there.
    pub uses: Mutex<Vec<PortUse>>,
    /// The files to which no port, capture or command may write.
    pub own: OwnFiles,
    /// Set to stop the switch.
    pub stop: &'static AtomicBool,
    /// True if ports were added or removed since the start: then the end of captures does not end the switch.
    pub ports_changed: AtomicBool,
    /// True if it reads commands from standard input.
    pub has_prompt: bool,
}

/// Opens a port.
pub fn open(
    running: &Running,
    spec: &PortSpec,
    options: &PortOptions,
    voice: &Voice,
) -> Result<NewPort, Failure> {
    compile::check_port(&running.switch(), spec.number)?;
    let handles = p4jet_ports::open(spec, options).map_err(|e| Failure::port(&e))?;
    let mut reported = Vec::new();
    for notice in handles.iter().flat_map(|port| port.notices()) {
        // Handles of one interface return the same notices.
        if reported.contains(&notice) {
            continue;
        }
        reported.push(notice.clone());
        voice.report(Level::Warn, "notice", Some(spec.number), notice);
    }
    Ok(NewPort { number: spec.number, spec: spec_text(spec), handles })
}

/// The text after `-i N@`.
fn spec_text(spec: &PortSpec) -> String {
    let text = spec.to_string();
    text.split_once('@').map_or("", |(_, spec)| spec).to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value under the lock is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Starts a capture whose file was checked.
    fn begin_capture(&self, spec: &CaptureSpec, file: &Opened) -> Result<(), ControlError> {
        self.observer.start_capture_in(spec.clone(), file.path())?;
        let started = format!("capture started: {}", spec.path.display());
        self.voice.report(Level::Info, "capture", Some(spec.port), started);
        Ok(())
    }

    /// Checks that the file `file`, called `name`, to which a port or a capture would write, is none that the switch uses.
    fn check_output(&self, name: &Path, file: Option<&FileId>) -> Result<(), ControlError> {
        self.own.check_output(name, file, &lock(&self.compiled).typed.sources).map_err(of_port)
    }

    fn check_port(&self, port: u32) -> Result<(), ControlError> {
        let ports: Vec<u32> = self.running.ports().iter().map(|p| p.number).collect();
        match ports.contains(&port) {
            true => Ok(()),
            false => Err(RunError::NoPort(port, ports).into()),
        }
    }

    /// Opens a port, and a capture of its frames if there is a file for it: both or neither.
    fn open_port(
        &self,
        number: u32,
        spec: &str,
        capture: Option<&Path>,
        rights: &Rights,
    ) -> Result<(), ControlError> {
        let spec: PortSpec = format!("{number}@{spec}").parse().map_err(of_port)?;
        let mut uses = lock(&self.uses);
        // Opening a port or a capture empties its file, so nothing is opened before everything is checked.
        self.running.check_new_port(number)?;
        // The files stay open until the port has opened them too.
        let mut files = Vec::new();
        let mut given = Vec::new();
        let mut opened = spec.clone();
        match &mut opened.kind {
            PortKind::Packet(_) | PortKind::Xdp { .. } | PortKind::Tap(_) | PortKind::Descriptor(_) => {
                rights.check_interface(&spec_text(&spec))?;
            }
            PortKind::Pcap { input, output } => {
                if let Some(path) = input {
                    files.push(rights.input(path)?);
                    given.push(path.display().to_string());
                    *path = files[files.len() - 1].path().to_path_buf();
                }
                if let Some(path) = output {
                    files.push(rights.output(path)?);
                    self.check_output(path, FileId::of(files[files.len() - 1].path()).as_ref())?;
                    given.push(path.display().to_string());
                    *path = files[files.len() - 1].path().to_path_buf();
                }
            }
            PortKind::Memory => {}
        }
        let new = PortUse::new(spec.clone(), &opened.kind);
        new.check_beside(&uses).map_err(of_port)?;
        for capture in self.observer.captures() {
            p4jet_ports::check_capture(&capture.path, capture.file.as_ref(), std::slice::from_ref(&new))
                .map_err(of_port)?;
        }
        let capture = match capture {
            None => None,
            Some(path) => {
                let file = rights.output(path)?;
                let id = FileId::of(file.path());
                self.check_output(path, id.as_ref())?;
                for ports in [&uses[..], std::slice::from_ref(&new)] {
                    p4jet_ports::check_capture(path, id.as_ref(), ports).map_err(of_port)?;
                }
                self.observer.check_new_capture(path, id.as_ref())?;
                Some((CaptureSpec::all(number, path), file))
            }
        };
        self.ports_changed.store(true, Ordering::Relaxed);
        let mut port = open(&self.running, &opened, &self.ports, &self.voice).map_err(|failure| {
            // Messages contain the names that were given, not those under which the files are open. A longer name may start
            // with a shorter one.
            let opened = files.iter().map(|file| file.path().display().to_string());
            let mut names: Vec<(String, String)> = opened.zip(given).collect();
            names.sort_by_key(|(opened, _)| std::cmp::Reverse(opened.len()));
            let text = names.iter().fold(failure.text(), |text, (opened, given)| text.replace(opened, given));
            ControlError::system(text).field("port")
        })?;
        port.spec = spec_text(&spec);
        self.running.add_ports(vec![port])?;
        // Its output file exists now.
        uses.push(PortUse::new(spec.clone(), &opened.kind));
        self.voice.report(Level::Info, "port_added", Some(number), format!("it is {}", spec_text(&spec)));
        let begun = capture.map_or(Ok(()), |(capture, file)| self.begin_capture(&capture, &file));
        drop(uses);
        begun.or_else(|error| self.remove_port(number).and(Err(error)))
    }

    /// Compiles a program; a failure is also logged.
    fn compile(&self, program: &Program<'_>) -> Result<Compiled, ControlError> {
        let path = program.path();
        let (path, files) = match program {
            Program::File(_, Rights::All) => {
                (bmv2_json::source_of(path).map_err(ControlError::new)?, Files::System)
            }
            Program::File(_, rights @ Rights::Granted(_)) => {
                let texts = sources::collect(path, |file| rights.open(file));
                let texts = texts.map_err(|e| ControlError::of_file(path, &e))?;
                (sources::normalised(path), Files::Given { texts: Arc::new(texts), and_system: false })
            }
            Program::Texts(_, texts, rights) => {
                let and_system = matches!(rights, Rights::All);
                (path.to_path_buf(), Files::Given { texts: Arc::clone(texts), and_system })
            }
            Program::Whole(source) => {
                return self.logged(path, false, compile::compile_source(source, &self.program.source));
            }
        };
        let args = ProgramArgs { program: path, ..self.program.clone() };
        // The prompt gives a path; `ctl` sends texts.
        let is_of_prompt = self.has_prompt && matches!(program, Program::File(_, Rights::All));
        self.logged(&args.program, is_of_prompt, compile::compile_from(&args, files))
    }

    /// Logs the failure if a program is not loaded, unless the log and the answer go to the same terminal.
    fn logged(
        &self,
        path: &Path,
        is_of_prompt: bool,
        compiled: Result<Compiled, Failure>,
    ) -> Result<Compiled, ControlError> {
        compiled.map_err(|failure| {
            let error = of_compiler(failure);
            if is_of_prompt && self.voice.0.is_for_people() {
                return error;
            }
            let first = error.message.lines().next().unwrap_or_default();
            let text_of_log = format!("{} is not loaded: {first}", path.display());
            self.voice.report(Level::Warn, "load", None, text_of_log);
            error
        })
    }

    /// The program in the form that the engine runs, with output queues if the switch has any, and as lowered.
    fn for_engine(
        &self,
        compiled: &Compiled,
    ) -> Result<(p4jet_ir::Program, Arc<p4jet_ir::Program>), ControlError> {
        let program = compiled.for_engine(self.engine.into());
        let queued = match self.running.switch().queues().are_needed_by(&program) {
            true => Some(compiled.queued().map_err(of_compiler)?),
            false => None,
        };
        let chosen = queued.as_ref().unwrap_or(compiled);
        Ok((chosen.for_engine(self.engine.into()), Arc::new(chosen.lowered.clone())))
    }

    /// Replaces the running program, or only this one, by another; with output queues if there are any.
    fn swap_to(
        &self,
        compiled: Compiled,
        of: Option<Arc<Switch>>,
        cancel: &Cancel,
    ) -> Result<Swap, ControlError> {
        let (program, lowered) = self.for_engine(&compiled)?;
        // Other commands run while machine code is generated.
        let mut next = self.running.prepare(program, cancel)?;
        next.set_lowered(lowered);
        let (running, now) = (Arc::clone(&self.running), Arc::clone(&self.compiled));
        let voice = self.voice.clone();
        Ok(Box::new(move || {
            if of.is_some_and(|of| !Arc::ptr_eq(&of, &running.switch())) {
                let why = "another program or other code was loaded meanwhile: try again";
                return Err(ControlError::new(why).code("ABORTED"));
            }
            // Readers see the switch and its program either both old or both new.
            let mut now = lock(&now);
            let (switch, carried) = running.reload_prepared(next)?;
            *now = compiled;
            drop(now);
            let (program, report) = (&switch.program().name, describe(&carried));
            voice.report(Level::Info, "load", None, runs(program, &report));
            Ok(Swapped { switch, report })
        }))
    }
}

impl Host for Process {
    fn prepare(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Swap, ControlError> {
        let compiled = self.compile(program)?;
        if cancel.is_cancelled() {
            return Err(ControlError::cancelled());
        }
        self.swap_to(compiled, None, cancel)
    }

    fn prepare_pipeline(
        &self,
        program: Option<&Program<'_>>,
        cancel: &Cancel,
    ) -> Result<Ready, ControlError> {
        let compiled = match program {
            Some(program) => self.compile(program)?,
            None => lock(&self.compiled).clone(),
        };
        let p4info = compiled.p4info().map_err(of_compiler)?.p4info.encode();
        if cancel.is_cancelled() {
            return Err(ControlError::cancelled());
        }
        let (program, lowered) = self.for_engine(&compiled)?;
        let mut next = self.running.prepare(program, cancel)?;
        next.set_lowered(lowered);
        let switch = self.running.begin(next.clone())?;
        let (running, now) = (Arc::clone(&self.running), Arc::clone(&self.compiled));
        let (new, voice) = (Arc::clone(&switch), self.voice.clone());
        let run = Box::new(move |keep| {
            let mut now = lock(&now);
            let (switch, report) = match keep {
                Keep::Own => {
                    running.start_over(Arc::clone(&new))?;
                    (new, String::new())
                }
                Keep::Old => {
                    next.keep_all();
                    let (switch, carried) = running.reload_prepared(next)?;
                    (switch, describe(&carried))
                }
            };
            *now = compiled;
            drop(now);
            voice.report(Level::Info, "load", None, format!("{} runs", switch.program().name));
            Ok(Swapped { switch, report })
        });
        Ok(Ready { switch, p4info, run })
    }

    fn p4info(&self) -> Result<(Arc<Switch>, Vec<u8>), ControlError> {
        let compiled = lock(&self.compiled);
        let switch = self.running.switch();
        let p4info = compiled.p4info().map_err(of_compiler)?.p4info;
        Ok((switch, p4info.encode()))
    }

    fn prepare_queues(&self) -> Result<Swap, ControlError> {
        let (switch, compiled) = {
            let compiled = lock(&self.compiled);
            (self.running.switch(), compiled.clone())
        };
        self.swap_to(compiled, Some(switch), &Cancel::default())
    }

    fn prepare_counted(&self, counted: bool, cancel: &Cancel) -> Result<Option<Swap>, ControlError> {
        let next = self.running.prepare_counted(counted, cancel)?;
        Ok(next.map(|next| -> Swap {
            let running = Arc::clone(&self.running);
            Box::new(move || {
                let switch = running.replace_same(next)?;
                Ok(Swapped { switch, report: String::new() })
            })
        }))
    }

    fn stats(&self) -> Result<Stats, ControlError> {
        Ok(self.meter.read(&self.running))
    }

    fn inject(&self, port: u32, frame: Vec<u8>, wait: Duration) -> Result<Injected, ControlError> {
        Ok(self.running.inject_and_wait(port, frame, wait)?)
    }

    fn check_dump_file(&self, path: &Path) -> Result<(), ControlError> {
        self.own.check_dump(path, &lock(&self.compiled).typed.sources).map_err(ControlError::new)
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        Ok(self.running.hold_packets(change)?)
    }

    fn trace_packet(&self, port: u32, frame: &[u8]) -> Result<DryRun, ControlError> {
        let max = self.running.frame_max();
        if frame.len() > max {
            return Err(RunError::TooLong(frame.len(), max).into());
        }
        let switch = self.running.switch();
        let wrong_port = |failure: Failure| ControlError::new(failure.text()).field("port");
        compile::check_port(&switch, port).map_err(wrong_port)?;
        let (trace, outcome) =
            switch.trace_dry(port, frame, switch.now_us()).map_err(ControlError::program_refused)?;
        Ok(DryRun { switch, trace, outcome })
    }

    fn add_trace(&self, spec: TraceSpec) -> Result<u32, ControlError> {
        if let Some(port) = spec.port {
            self.check_port(port)?;
        }
        Ok(self.observer.add_trace(spec)?)
    }

    fn traces(&self) -> Vec<TraceInfo> {
        self.observer.traces()
    }

    fn traced(&self, id: u32) -> Result<Vec<Arc<Traced>>, ControlError> {
        Ok(self.observer.traced(id)?)
    }

    fn remove_trace(&self, id: u32) -> Result<(), ControlError> {
        Ok(self.observer.remove_trace(id)?)
    }

    fn field_width(&self, field: &str) -> Result<u32, ControlError> {
        Ok(self.observer.field_width(field)?)
    }

    fn start_capture(&self, spec: CaptureSpec, rights: &Rights) -> Result<(), ControlError> {
        let begin = || {
            self.check_port(spec.port)?;
            let uses = lock(&self.uses);
            let opened = rights.output(&spec.path)?;
            let file = FileId::of(opened.path());
            self.check_output(&spec.path, file.as_ref())?;
            p4jet_ports::check_capture(&spec.path, file.as_ref(), &uses).map_err(of_port)?;
            self.begin_capture(&spec, &opened)
        };
        let begun = begin();
        if let Err(why) = &begun {
            self.voice.report(Level::Warn, "capture", Some(spec.port), why.message.as_str());
        }
        begun
    }

    fn captures(&self) -> Vec<CaptureInfo> {
        self.observer.captures()
    }

    fn stop_captures(&self, port: u32) -> Result<Vec<CaptureInfo>, ControlError> {
        Ok(self.observer.stop_captures(port)?)
    }

    fn subscribe(&self, topics: Topics) -> Result<Subscription, ControlError> {
        Ok(self.running.subscribe(topics)?)
    }

    fn ports(&self) -> Vec<PortStats> {
        self.running.ports().into_iter().map(port_stats).collect()
    }

    fn add_port(&self, number: u32, spec: &str, rights: &Rights) -> Result<(), ControlError> {
        self.open_port(number, spec, None, rights)
    }

    fn add_captured_port(
        &self,
        number: u32,
        spec: &str,
        capture: &Path,
        rights: &Rights,
    ) -> Result<(), ControlError> {
        self.open_port(number, spec, Some(capture), rights)
    }

    fn remove_port(&self, number: u32) -> Result<(), ControlError> {
        self.ports_changed.store(true, Ordering::Relaxed);
        let mut uses = lock(&self.uses);
        let (_, failed) = self.running.remove_port(number)?;
        uses.retain(|port| port.number() != number);
        self.voice.report(Level::Info, "port_removed", Some(number), "it is closed");
        failed.map_or(Ok(()), |error| Err(ControlError::system(error.to_string())))
    }

    fn responds(&self) -> Result<(), ControlError> {
        Ok(self.running.responds()?)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn load_cancelled(&self, program: &Path) {
        let text = format!("{} is not loaded: its client has left", program.display());
        self.voice.report(Level::Info, "load", None, text);
    }

    fn clients_refused(&self, why: &str) {
        self.voice.report(Level::Warn, "control", None, why);
    }
}

/// The error of a program that does not compile.
fn of_compiler(failure: Failure) -> ControlError {
    match failure {
        Failure::Diagnosed(text) => ControlError::program_refused(plain(&text)),
        Failure::Environment(text) => ControlError::system(plain(&text)),
        other => ControlError::new(plain(&other.text())),
    }
}

fn of_port(error: PortError) -> ControlError {
    ControlError::new(error.to_string()).field("port")
}

/// Describes what a reload kept and what it did not.
fn describe(carried: &Carried) -> String {
    let mut text = String::new();
    if !carried.kept.is_empty() {
        text += &format!("kept: {}\n", carried.kept.join(", "));
    }
    if carried.entries_copied > 0 {
        text += &format!("entries added again: {}\n", carried.entries_copied);
    }
    for line in &carried.lost {
        text += &format!("lost: {line}\n");
    }
    text
}

/// The line of the log about a program that replaces another.
fn runs(program: &str, report: &str) -> String {
    let lines = std::iter::once(format!("{program} runs")).chain(report.lines().map(String::from));
    lines.collect::<Vec<_>>().join("; ")
}

/// Removes terminal colours from a text.
fn plain(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().unwrap_or("").to_string();
    let rest = pieces.map(|piece| piece.split_once('m').map_or(piece, |(_, after)| after));
    rest.fold(first, |text, piece| text + piece)
}

#[cfg(test)]
mod tests {
    use super::{plain, runs};

    #[test]
    fn a_program_without_a_report_runs() {
        assert_eq!(runs("p", ""), "p runs");
        assert_eq!(runs("p", "kept: a, b\nlost: c\n"), "p runs; kept: a, b; lost: c");
    }

    #[test]
    fn colours_go() {
        assert_eq!(plain("\u{1b}[1m\u{1b}[91merror\u{1b}[0m: m"), "error: m");
        assert_eq!(plain("as it is"), "as it is");
    }
}
