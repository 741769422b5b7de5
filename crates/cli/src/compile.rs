//! From a file name to a switch: the options that all commands share, around the stages of the compiler (crate `p4jet_compile`).

use crate::failure::Failure;
use crate::output;
use crate::warnings::{Levels, WarningArgs};
use clap::ValueEnum;
use p4jet_analysis::typed;
use p4jet_arch::Architecture;
use p4jet_control::Source;
use p4jet_dataplane::{EngineKind, ErrorKind, ProgramError, Switch};
use p4jet_ir::{Op, Program, SourceLoc};
use p4jet_suggest as suggest;
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::{FileId, SourceMap, Span};
use p4jet_syntax::{Files, json, sources};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of every command that takes a program.
#[derive(clap::Args, Clone, Debug)]
pub struct ProgramArgs {
    /// The P4_16 program; - is standard input.
    pub program: PathBuf,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// Options of the preprocessor and of analysis.
#[derive(clap::Args, Clone, Debug)]
pub struct SourceArgs {
    /// Search this folder for `#include` before the built-in files; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a preprocessor macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Architecture; auto determines it from the program.
    #[arg(long, value_name = "ARCH", default_value = "auto")]
    pub arch: String,
    /// Options that change the severity of warnings.
    #[command(flatten)]
    pub warnings: WarningArgs,
    /// Format of diagnostics.
    #[arg(skip)]
    pub diagnostics: Format,
}

/// Engine that executes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// Machine code.
    Jit,
    /// The reference interpreter.
    Interp,
}

impl From<EngineArg> for EngineKind {
    fn from(arg: EngineArg) -> EngineKind {
        match arg {
            EngineArg::Jit => EngineKind::Jit,
            EngineArg::Interp => EngineKind::Interp,
        }
    }
}

/// The format of diagnostics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: with the source line and a caret.
    #[default]
    Text,
    /// For tools: one JSON object a line.
    Json,
}

/// A compiled program and how long each stage took.
#[derive(Clone)]
pub struct Compiled {
    /// See [`p4jet_compile::Compiled::lowered`].
    pub lowered: Program,
    /// See [`p4jet_compile::Compiled::program`].
    pub program: Program,
    /// Stage and time, in order.
    pub times: Vec<(&'static str, Duration)>,
    /// The typed program.
    pub typed: typed::Program,
    /// The architecture.
    architecture: &'static dyn Architecture,
    /// Format of diagnostics.
    format: Format,
}

fn render(diagnostics: &[Diagnostic], sources: &SourceMap, format: Format) -> String {
    match format {
        Format::Text => p4jet_syntax::render(diagnostics, sources, std::io::stderr().is_terminal()),
        Format::Json => json::lines(diagnostics, sources),
    }
}

fn show(diagnostics: &[Diagnostic], sources: &SourceMap, format: Format) {
    if !diagnostics.is_empty() {
        eprint!("{}", render(diagnostics, sources, format));
    }
}

fn diagnosed(diagnostics: &[Diagnostic], sources: &SourceMap, format: Format) -> Failure {
    Failure::Diagnosed(render(diagnostics, sources, format))
}

/// Compiles the program of `args`; errors are the failure's text, warnings go to standard error.
pub fn compile(args: &ProgramArgs) -> Result<Compiled, Failure> {
    front_end(args)?.lower(&args.source.arch)
}

/// Compiles the program of `args`, like [`compile`], for commands that users repeat: instead of the warnings, one line on standard
/// error states how many there are.
pub fn compile_counting_warnings(args: &ProgramArgs) -> Result<Compiled, Failure> {
    let mut typed = front_end(args)?;
    let warnings = typed.warnings.extract_if(.., |d| d.severity != Severity::Error);
    let count = warnings.filter(|d| d.severity == Severity::Warning).count();
    let compiled = typed.lower(&args.source.arch)?;
    if count > 0 {
        let s = if count == 1 { "" } else { "s" };
        eprintln!("{count} warning{s}; `p4jet check {}` shows them", args.program.display());
    }
    Ok(compiled)
}

/// Compiles the program of `args`, which is among `files`.
pub fn compile_from(args: &ProgramArgs, files: Files) -> Result<Compiled, Failure> {
    front_end_from(args, files)?.lower(&args.source.arch)
}

/// Compiles a text that is not in a file.
pub fn compile_text(name: &str, text: &str) -> Result<Compiled, Failure> {
    typed_text(name, text)?.lower("auto")
}

/// Like [`compile_text`], for a generated program, whose warnings tell nobody anything.
pub fn compile_quietly(name: &str, text: &str) -> Result<Compiled, Failure> {
    let mut typed = typed_text(name, text)?;
    typed.warnings.clear();
    typed.lower("auto")
}

fn typed_text(name: &str, text: &str) -> Result<Typed, Failure> {
    let options = p4jet_syntax::Options {
        include_dirs: Vec::new(),
        defines: p4jet_compile::defines(&[]),
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        files: Files::System,
    };
    let start = Instant::now();
    let parsed = p4jet_syntax::parse_text(name, text, &options);
    analyse(parsed, start, stem(Path::new(name)), &Levels::default(), Format::Text)
}

/// The program's name for reports.
pub fn stem(path: &Path) -> String {
    if is_stdin(path) {
        return "stdin".to_string();
    }
    path.file_stem().map_or_else(|| path.display().to_string(), |s| s.to_string_lossy().into_owned())
}

/// A program that is correct P4.
pub struct Typed {
    typed: typed::Program,
    warnings: Vec<Diagnostic>,
    name: String,
    times: Vec<(&'static str, Duration)>,
    format: Format,
}

/// The front end: reads and types the program of `args`; if it is wrong, the diagnostics go to standard error.
/// `-` is standard input.
pub fn front_end(args: &ProgramArgs) -> Result<Typed, Failure> {
    if is_stdin(&args.program) {
        return front_end_of_stdin(&args.source);
    }
    front_end_from(args, Files::System)
}

/// True if a path means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn front_end_from(args: &ProgramArgs, files: Files) -> Result<Typed, Failure> {
    if args.program.extension().is_some_and(|extension| extension == "json")
        && let Some(source) = wrapped(&args.program, &files)?
    {
        return front_end_of_source(&source, &args.source);
    }
    let levels = args.source.warnings.levels()?;
    let options = args.source.options(files);
    let start = Instant::now();
    let parsed = p4jet_syntax::parse_file(&args.program, &options)
        .map_err(|e| unreadable(&args.program, &e, args.source.diagnostics))?;
    analyse(parsed, start, stem(&args.program), &levels, args.source.diagnostics)
}

/// Returns the text of a program after the preprocessor, with line markers, and the preprocessor's warnings as text.
pub fn preprocess(args: &ProgramArgs) -> Result<(String, String), Failure> {
    let levels = args.source.warnings.levels()?;
    let output = p4jet_syntax::preprocess_file(&args.program, &args.source.options(Files::System))
        .map_err(|e| unreadable(&args.program, &e, args.source.diagnostics))?;
    let mut diagnostics = output.diagnostics;
    levels.apply(&mut diagnostics);
    if p4jet_compile::has_errors(&diagnostics) {
        return Err(diagnosed(&diagnostics, &output.sources, args.source.diagnostics));
    }
    Ok((output.text, render(&diagnostics, &output.sources, args.source.diagnostics)))
}

/// Returns the program in a file that p4jet's `p4c` wrote; `None` for other files.
pub fn wrapped(path: &Path, files: &Files) -> Result<Option<Source>, Failure> {
    let text = match files {
        Files::System => match p4jet_files::read(path, p4jet_syntax::FILE_BYTES_MAX) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // The front end reports the reason.
            Err(_) => return Ok(None),
        },
        Files::Given { texts, .. } | Files::Whole(texts) => match texts.get(&sources::normalised(path)) {
            Some(text) => text.clone(),
            None => return Ok(None),
        },
    };
    let source = p4jet_p4runtime::programs::unwrap(&text).transpose();
    source.map_err(|why| Failure::Input(format!("{}: {why}", path.display())))
}

/// The front end for a source that holds all its files: `args` only determines warnings and the format of diagnostics.
fn front_end_of_source(source: &Source, args: &SourceArgs) -> Result<Typed, Failure> {
    let args = SourceArgs { include: source.include.clone(), define: source.define.clone(), ..args.clone() };
    let levels = args.warnings.levels()?;
    let options = args.options(Files::Whole(Arc::clone(&source.texts)));
    let start = Instant::now();
    let parsed = p4jet_syntax::parse_file(&source.path, &options)
        .map_err(|e| unreadable(&source.path, &e, args.diagnostics))?;
    analyse(parsed, start, stem(&source.path), &levels, args.diagnostics)
}

/// Compiles a source that holds all its files.
pub fn compile_source(source: &Source, args: &SourceArgs) -> Result<Compiled, Failure> {
    front_end_of_source(source, args)?.lower("auto")
}

/// The front end, for a program on standard input: files included with quotes are looked up in the current folder.
fn front_end_of_stdin(source: &SourceArgs) -> Result<Typed, Failure> {
    let levels = source.warnings.levels()?;
    let bytes = p4jet_files::read_from(std::io::stdin().lock(), p4jet_syntax::FILE_BYTES_MAX)
        .map_err(|e| unreadable(Path::new(STDIN), &e, source.diagnostics))?;
    let text = String::from_utf8_lossy(&bytes);
    let start = Instant::now();
    let parsed = p4jet_syntax::parse_text(STDIN, &text, &source.options(Files::System));
    analyse(parsed, start, "stdin".to_string(), &levels, source.diagnostics)
}

/// The error for an unreadable program, which has no place.
fn unreadable(path: &Path, error: &std::io::Error, format: Format) -> Failure {
    let text = format!("cannot read {}: {error}", path.display());
    Failure::Diagnosed(match format {
        Format::Text => format!("error[unreadable]: {text}\n"),
        Format::Json => json::line_without_place(&path.display().to_string(), "unreadable", &text),
    })
}

/// The name of standard input in messages.
pub const STDIN: &str = "<stdin>";

impl SourceArgs {
    fn options(&self, files: Files) -> p4jet_syntax::Options {
        p4jet_syntax::Options {
            include_dirs: self.include.clone(),
            defines: p4jet_compile::defines(&self.define),
            builtins: p4jet_analysis::BUILTINS.to_vec(),
            files,
        }
    }
}

fn analyse(
    parsed: p4jet_syntax::Parsed,
    start: Instant,
    name: String,
    levels: &Levels,
    format: Format,
) -> Result<Typed, Failure> {
    let mut times = vec![("parse", start.elapsed())];
    let start = Instant::now();
    let analysed = p4jet_compile::analyse(parsed, |diagnostics| levels.apply(diagnostics));
    times.push(("analyse", start.elapsed()));
    let (typed, warnings) =
        analysed.map_err(|refused| diagnosed(&refused.diagnostics, &refused.sources, format))?;
    Ok(Typed { typed, warnings, name, times, format })
}

impl Typed {
    /// Returns why this program, although correct, cannot run: what it lacks, in words that follow "but". If an architecture
    /// was requested, that is an error instead.
    pub fn no_switch(&self, arch: &str) -> Option<String> {
        if arch != "auto" || p4jet_arch::detect(&self.typed).is_some() {
            return None;
        }
        Some(match p4jet_arch::main_package(&self.typed) {
            None => "it has no instance called `main` to run".to_string(),
            Some((package, _)) => format!(
                "its `main` is a `{package}`, and the packages that can run are those of: {}",
                p4jet_arch::names().join(", ")
            ),
        })
    }

    /// Prints the warnings.
    pub fn show_warnings(&self) {
        show(&self.warnings, &self.typed.sources, self.format);
    }

    /// The requested architecture, or the one that the program is written for; a failure includes the warnings.
    fn architecture(&mut self, arch: &str) -> Result<&'static dyn Architecture, Failure> {
        let Typed { typed, warnings: diagnostics, format, .. } = self;
        let found = match (arch, p4jet_arch::by_name(arch), typed.main) {
            ("auto", ..) => p4jet_compile::architecture(typed),
            (_, None, _) => {
                show(diagnostics, &typed.sources, *format);
                return Err(unknown_architecture(arch));
            }
            (.., None) => Err(Box::new(p4jet_analysis::no_main(typed))),
            (_, Some(architecture), Some(_)) if architecture.recognises(typed) => Ok(architecture),
            (.., Some(main)) => Err(Box::new(other_architecture(typed, main, arch))),
        };
        found.map_err(|error| {
            diagnostics.push(*error);
            diagnosed(diagnostics, &typed.sources, *format)
        })
    }

    /// Returns the control plane's view of the program.
    pub fn p4info(mut self, arch: &str) -> Result<p4jet_p4info::Generated, Failure> {
        let architecture = self.architecture(arch)?;
        let Typed { typed, warnings: mut diagnostics, format, .. } = self;
        match p4jet_p4info::generate(&typed, architecture.name()) {
            Ok(mut generated) => {
                diagnostics.append(&mut generated.warnings);
                show(&diagnostics, &typed.sources, format);
                Ok(generated)
            }
            Err(errors) => {
                diagnostics.extend(errors);
                Err(diagnosed(&diagnostics, &typed.sources, format))
            }
        }
    }

    /// Refuses a program with a wrong constraint on table entries or action parameters.
    pub fn check_constraints(&mut self, arch: &str) -> Result<(), Failure> {
        let architecture = self.architecture(arch)?;
        let mut errors = p4jet_p4info::check_constraints(&self.typed, architecture.name());
        if errors.is_empty() {
            return Ok(());
        }
        let mut diagnostics = std::mem::take(&mut self.warnings);
        diagnostics.append(&mut errors);
        Err(diagnosed(&diagnostics, &self.typed.sources, self.format))
    }

    /// The rest of the compiler.
    pub fn lower(mut self, arch: &str) -> Result<Compiled, Failure> {
        let architecture = self.architecture(arch)?;
        let Typed { typed, warnings: mut diagnostics, name, mut times, format } = self;
        match p4jet_compile::lower(&typed, architecture, &name, false) {
            Ok(compiled) => {
                show(&diagnostics, &typed.sources, format);
                times.extend(compiled.times);
                let (lowered, program) = (compiled.lowered, compiled.program);
                Ok(Compiled { lowered, program, times, typed, architecture, format })
            }
            Err(errors) => {
                diagnostics.extend(errors);
                Err(diagnosed(&diagnostics, &typed.sources, format))
            }
        }
    }
}

/// Returns the span of the word at a place.
fn span_at(place: &SourceLoc, sources: &SourceMap) -> Option<Span> {
    let (line, column) = (place.line.checked_sub(1)? as usize, place.column.checked_sub(1)? as usize);
    let file = sources.files.iter().position(|file| file.name == place.file)?;
    let text = &sources.files[file].text;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let before = text[start..].chars().take(column).map(char::len_utf8).sum::<usize>();
    let lo = start + before;
    let is_word = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let length = text[lo..].chars().take_while(is_word).map(char::len_utf8).sum::<usize>().max(1);
    let hi = (lo + length).min(text.len());
    Some(Span { file: FileId(file as u32), lo: lo as u32, hi: hi as u32 })
}

/// The failure if `--arch` requests an architecture that p4jet does not know.
fn unknown_architecture(arch: &str) -> Failure {
    let names = p4jet_arch::names();
    let known = names.join(", ");
    if arch == "pna" {
        return Failure::Usage(format!("not supported yet: architecture `{arch}`; now: {known}"));
    }
    let near = suggest::nearest(arch, ["auto"].into_iter().chain(names.iter().copied()));
    let meant = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
    Failure::Usage(format!("unknown architecture `{arch}`{meant}; expected auto or one of: {known}"))
}

/// The error if `--arch` requests an architecture other than that of `main`.
fn other_architecture(typed: &typed::Program, main: typed::InstanceId, arch: &str) -> Diagnostic {
    let span = typed.instances[main.index()].span;
    let package = p4jet_arch::main_package(typed).map_or("?", |(name, _)| name);
    let text = format!("`main` is a `{package}`, but `--arch` requests {arch}, which has no such package");
    let note = match p4jet_arch::detect(typed) {
        Some(other) => format!("it is one of {}: leave `--arch` out", other.name()),
        None => format!("p4jet knows the packages of: {}", p4jet_arch::names().join(", ")),
    };
    Diagnostic::error("main", span, text).note(note)
}

impl Compiled {
    /// Compiles the same program for a switch with output queues.
    pub fn queued(&self) -> Result<Compiled, Failure> {
        let queued = p4jet_compile::lower(&self.typed, self.architecture, &self.lowered.name, true);
        // Lowering succeeded without queues.
        let queued = queued.map_err(|diagnostics| {
            let text: Vec<String> = diagnostics.iter().map(|d| d.message.clone()).collect();
            Failure::Input(format!("{} with output queues: {}", self.lowered.name, text.join("; ")))
        })?;
        Ok(Compiled { lowered: queued.lowered, program: queued.program, ..self.clone() })
    }

    /// The program as the control plane sees it.
    pub fn p4info(&self) -> Result<p4jet_p4info::Generated, Failure> {
        p4jet_p4info::generate(&self.typed, self.architecture.name())
            .map_err(|errors| diagnosed(&errors, &self.typed.sources, self.format))
    }

    /// Converts the error of a switch or of machine code to a diagnostic. Without a place of its own it points at `main`, unless
    /// the system is at fault.
    pub fn refused(&self, error: &ProgramError) -> Failure {
        let typed = &self.typed;
        let in_program = || {
            let place = error.place.as_ref().and_then(|place| span_at(place, &typed.sources));
            place.or_else(|| typed.main.map(|main| typed.instances[main.index()].span))
        };
        let (code, span) = match error.kind {
            ErrorKind::Unsupported | ErrorKind::Cancelled => ("not-supported", in_program()),
            ErrorKind::TooLarge => ("too-large", in_program()),
            ErrorKind::Internal => ("internal", in_program()),
            ErrorKind::NoMemory | ErrorKind::System => ("system", Some(Span::NOWHERE)),
        };
        let Some(span) = span else { return Failure::Input(error.to_string()) };
        let diagnostic = Diagnostic::error(code, span, error.message.as_str());
        diagnosed(&[diagnostic], &typed.sources, self.format)
    }

    /// Builds a switch from one form of the program, with the tables and their entries, registers and counters, for `workers`
    /// workers.
    pub fn switch(
        &self,
        program: Program,
        options: p4jet_jit::Options,
        workers: usize,
    ) -> Result<Arc<Switch>, Failure> {
        Switch::with_options(program, options, workers).map_err(|error| self.refused(&error))
    }

    /// Returns the reason why the program cannot run, if it calls an extern function that only the program declares.
    pub fn why_not_run(&self) -> Option<String> {
        let actions = self.program.actions.iter().map(|a| &a.body);
        let graphs = actions.chain(self.program.blocks.iter().map(|b| &b.body));
        graphs.flat_map(|graph| &graph.nodes).flat_map(|node| &node.stmts).find_map(|stmt| match &stmt.op {
            Op::Extern { function, .. } => function.why_not_run(),
            _ => None,
        })
    }

    /// Returns the program as `engine` runs it: for the interpreter, which is the reference, without passes.
    pub fn for_engine(&self, engine: EngineKind) -> Program {
        match engine {
            EngineKind::Jit => self.program.clone(),
            EngineKind::Interp => self.lowered.clone(),
        }
    }
}

/// Output queues that exist from the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueArgs {
    /// Number for each port.
    pub per_port: Option<usize>,
    /// Programs that read queue metadata have queues that follow the links ([`p4jet_dataplane::Queues::follow_links`]).
    pub follow_links: bool,
}

/// Creates a switch for `engine` and loads runtime commands, if any. If these configure output queues, or `queues` requests
/// them, the program has queues. Also returns the output of the commands.
pub fn switch_with(
    compiled: &Compiled,
    engine: EngineKind,
    options: p4jet_jit::Options,
    workers: usize,
    queues: QueueArgs,
    commands: Option<&Path>,
) -> Result<(Arc<Switch>, String), Failure> {
    let make = |compiled: &Compiled| {
        let switch = compiled.switch(compiled.for_engine(engine), options, workers)?;
        switch.set_lowered(Arc::new(compiled.lowered.clone()));
        if queues.follow_links {
            switch.queues().follow_links();
        }
        if let Some(queues) = queues.per_port {
            switch.queues().configure(|config| {
                config.queues_per_port = queues;
                config.wanted = true;
            });
        }
        let printed = commands.map(|path| load_commands(&switch, path)).transpose()?;
        Ok::<_, Failure>((switch, printed.unwrap_or_default()))
    };
    let made = make(compiled)?;
    if made.0.needs_queues() { make(&compiled.queued()?) } else { Ok(made) }
}

/// Refuses port numbers that the program cannot distinguish from others.
pub fn check_port(switch: &Switch, port: u32) -> Result<(), Failure> {
    let max = switch.port_max();
    // v1model: all ones in the 9 bits of egress_spec.
    if port == max && max < u32::MAX - 1 {
        return Err(Failure::Usage(format!(
            "port {port}: `{}` uses this number as its drop port; choose 0 to {}",
            switch.program().name,
            max - 1
        )));
    }
    if port <= max {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "port {port}: {} has port numbers from 0 to {}",
        switch.program().name,
        if max < u32::MAX - 1 { max - 1 } else { max }
    )))
}

/// Loads a file of runtime commands and prints its notes; returns the output of those that read.
pub fn load_commands(switch: &Arc<Switch>, path: &Path) -> Result<String, Failure> {
    let text = output::read_text(path)?;
    use p4jet_text::Commands as _;
    let control = p4jet_control::Control::new(Arc::clone(switch));
    let summary =
        control.load(&path.display().to_string(), &text).map_err(|e| Failure::Input(e.to_string()))?;
    if let Some(note) = &summary.note {
        eprintln!("{note}");
    }
    Ok(summary.output)
}
